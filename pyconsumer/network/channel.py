"""One socket: connect, read, write, time limits of the handshake.

A channel is one attempt to reach a node. It waits for the DNS lookup of the node's name, tries the addresses one after
another, and serves the connection to the first that accepts it until that connection breaks. A method that finds the
connection broken raises. The owner then closes the channel and decides whether to make a new one.
"""

from __future__ import annotations

import errno
import functools
import math
import os
import socket
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from pyconsumer.errors import KafkaConnectionError, KafkaError
from pyconsumer.network.connection import MOST_RESPONSE_BYTES, Connection, Reply, State
from pyconsumer.network.dns import Endpoint, Lookup
from pyconsumer.network.selector import EVENT_READ, EVENT_WRITE, Selector
from pyconsumer.network.stats import ChannelStats, NodeStats

if TYPE_CHECKING:
    from pyconsumer.network.sasl import SaslMechanism
    from pyconsumer.network.tls import TlsContexts

__all__ = ["Channel", "ChannelSettings", "LoginSignal"]

_IN_PROGRESS = (0, errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY)
# After a response of this many bytes, the next one is likely to be as large.
_LARGE = 1 << 16
# Bytes that the system may receive ahead of the reader, at most half of net.ipv4.tcp_rmem; see Channel.take_in.
_TAKEN_IN = 4 << 20
_HAS_MARK = sys.platform == "linux"
# Reads of one channel in one turn: enough for any frame that fits the socket's buffer, without starving the others.
_MAX_READS = 16


class LoginSignal:
    """Tells a client that the first SASL message of one of its connections is ready. Any thread may call it.

    Args:
        wake: ends the client's wait.

    Attributes:
        raised: True until the client has called :meth:`take`.
    """

    __slots__ = ("_wake", "raised")

    def __init__(self, wake: Callable[[], object] = lambda: None) -> None:
        self._wake = wake
        self.raised = False

    def __call__(self) -> None:
        self.raised = True
        self._wake()

    def take(self) -> None:
        """Reset :attr:`raised`. The client calls this just before it looks at its connections."""
        self.raised = False


class ChannelSettings(NamedTuple):
    """Settings that all channels of a client share. Sizes are in bytes. -1 leaves the size to the system."""

    login_signal: LoginSignal
    correlation_ids: Iterator[int]
    client_id: str = ""
    software_version: str = ""
    tls: TlsContexts | None = None
    sasl: Callable[[str], SaslMechanism] | None = None  # of the host of the broker
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    max_response_bytes: int = MOST_RESPONSE_BYTES
    random: Callable[[], float] = lambda: 0.5
    open_socket: Callable[[int], Any] = lambda family: socket.socket(family, socket.SOCK_STREAM)


class Channel:
    """One attempt to reach a node, and the connection that results from it. See the module.

    Args:
        address: ``host:port`` as the user or the metadata gave it, for messages.
        owner: the object that the selector's events refer to, as ``key.data.owner``.
        lookup: the DNS lookup of the host. When it is finished, call :meth:`start`.
        settings, selector, stats: shared by all channels of a client.
        node_stats: the counters of the node.
        setup_timeout: the time limit for the lookup, and for each address, in seconds.
        handshake_timeout: the time limit for TLS, ApiVersions and SASL together, in seconds.
        now: the present time, in monotonic seconds.
        expects: the cluster id and node id that the broker must have (KIP-1242). None for any.
    """

    def __init__(
        self,
        address: str,
        owner: Any,
        lookup: Lookup,
        settings: ChannelSettings,
        selector: Selector,
        stats: ChannelStats,
        node_stats: NodeStats | None = None,
        *,
        setup_timeout: float = math.inf,
        handshake_timeout: float = math.inf,
        now: float = 0.0,
        expects: tuple[str, int] | None = None,
    ) -> None:
        self.address = address
        self.owner = owner
        self.lookup = lookup
        self.connection: Connection | None = None
        self._settings = settings
        self._selector = selector
        self._stats = stats
        self._node_stats = NodeStats(stats.windows, now) if node_stats is None else node_stats
        self._node_stats.attached()
        self._counted = True  # as a connection of the node
        self._reauthenticates_since = -1.0
        self._endpoints: list[Endpoint] = []
        self._failed: list[str] = []
        self._endpoint: Endpoint | None = None
        self._expects = expects
        self._socket: Any = None
        self._events = 0
        self._busy = False
        self._progress = False
        self._response_bytes = 0
        self._is_ahead = False
        self.is_bulk = False
        """True if the last response was large, so that the next one probably is too."""
        self.deadline = now + setup_timeout
        """Time at which the current stage has timed out (monotonic seconds). Inf once the connection is in use."""
        self.setup_timeout = setup_timeout
        self.handshake_timeout = handshake_timeout

    # -- life --------------------------------------------------------------------------------------------------------

    @property
    def stage(self) -> str:
        """Name of the current stage, for messages: DNS, TCP, TLS, ApiVersions, SASL or established."""
        return self.connection.stage if self.connection is not None else "DNS"

    @property
    def ready(self) -> bool:
        """Return whether requests may be sent."""
        return self.connection is not None and self.connection.state is State.READY

    @property
    def setting_up(self) -> bool:
        """Return whether the connection is still being set up."""
        return self.connection is None or self.connection.state not in (State.READY, State.REAUTHENTICATING)

    @property
    def tcp_pending(self) -> bool:
        """Return whether there is no TCP connection yet, because the lookup or the connect is in progress."""
        return self.connection is None or self.connection.state is State.CONNECTING

    @property
    def is_looked_up(self) -> bool:
        """Return whether :meth:`start` may be called now."""
        return self.connection is None and self.lookup.done

    def interrupted(self) -> KafkaConnectionError:
        """Return the error for a channel whose state is unknown, because Ctrl-C interrupted an operation."""
        text = f"connection to {self.address} closed: it was interrupted in the middle of an operation"
        return KafkaConnectionError(text, stage=self.stage, address=self.address)

    def take_progress(self) -> bool:
        """Return whether a part of an incomplete response was received since the last call."""
        progress, self._progress = self._progress, False
        return progress and self.connection is not None and self.connection.inside_response

    def start(self, now: float) -> None:
        """Connect to the first address, because the lookup is finished.

        Raises:
            KafkaConnectionError: the lookup failed, or no address can be reached.
        """
        if self.lookup.error is not None:
            raise self.lookup.error
        self._endpoints = list(self.lookup.endpoints)
        self._connect_next(now)

    def too_slow(self, now: float, setup_timeout: float) -> None:
        """Abandon the current address, whose deadline has passed, and connect to the next one.

        Args:
            setup_timeout: seconds for each of the remaining addresses.

        Raises:
            KafkaConnectionError: there is no other address, or the lookup or the handshake timed out.
        """
        connection = self.connection
        if connection is None:
            raise KafkaConnectionError(
                f"DNS lookup of {self.address} failed: no answer within {self.setup_timeout:g} s",
                stage="DNS",
                address=self.address,
            )
        if not self.tcp_pending:
            raise connection.too_slow(self.handshake_timeout)
        self._address_failed(f"no response within {self.setup_timeout:g} s")
        self.setup_timeout = setup_timeout
        self._connect_next(now)

    @property
    def in_use(self) -> bool:
        """Return whether the connection is in use, so that no stage can time out."""
        return self.deadline == math.inf

    def use(self, now: float) -> None:
        """Record that the connection is in use. From now on no stage times out."""
        self.deadline = math.inf
        since, self._reauthenticates_since = self._reauthenticates_since, -1.0
        if since >= 0:
            self._stats.reauthenticated(now - since)
        elif self._settings.tls is not None or self._settings.sasl is not None:
            self._stats.authenticated()

    def refused(self) -> None:
        """Count that the broker has rejected the credentials."""
        self._stats.refused(again=self._reauthenticates_since >= 0)

    def requested(self, size_bytes: int, now: float) -> None:
        """Count a request of this size."""
        self._stats.count_request(size_bytes, now)
        self._node_stats.requested(size_bytes)

    def responded(self, seconds: float) -> None:
        """Count a response, which came after that time."""
        self._stats.responded(seconds)
        self._node_stats.responded(seconds)

    def extend_handshake(self, now: float) -> None:
        """Give the handshake its full time again."""
        self.deadline = now + self.handshake_timeout

    def reauthenticate(self, now: float) -> None:
        """Authenticate again before the broker ends the session (KIP-368). Errors are those of :meth:`on_event`."""
        assert self.connection is not None
        self.deadline = now + self.handshake_timeout
        self._reauthenticates_since = now
        self.connection.reauthenticate(now)
        self.flush()

    @property
    def awaits_login(self) -> bool:
        """Return whether the connection waits for the first SASL message from the program."""
        return self.connection is not None and self.connection.awaits_login

    def log_in(self, now: float) -> None:
        """Send the first SASL message, if it is ready. Errors are those of :meth:`on_event`."""
        assert self.connection is not None
        self.connection.log_in(now)
        self.flush()

    def _connect_next(self, now: float) -> None:
        while self._endpoints:
            self.deadline = now + self.setup_timeout
            self._endpoint = self._endpoints.pop(0)
            try:
                if self._connect(self._endpoint):
                    self._connected(now)
                return
            except OSError as error:
                self._address_failed(_text(error))
            except (OverflowError, ValueError) as error:  # refused by a system call, or by TLS
                self._address_failed(str(error))
        causes = "; ".join(self._failed)
        raise KafkaConnectionError(
            f"TCP connection to {self.address} failed: {causes}", stage="TCP", address=self.address
        )

    def _connect(self, endpoint: Endpoint) -> bool:
        """Begin to connect, and return True if the connection is established at once."""
        settings = self._settings
        name = f"{self.address}" if str(endpoint) == self.address else f"{self.address} ({endpoint})"
        tls = None
        if settings.tls is not None:
            from pyconsumer.network.tls import TlsSession

            tls = TlsSession(settings.tls.current(), endpoint.host, name)
        self.connection = Connection(
            name,
            client_id=settings.client_id,
            software_version=settings.software_version,
            tls=tls,
            sasl=None if settings.sasl is None else functools.partial(settings.sasl, endpoint.host),
            random=settings.random,
            correlation_ids=settings.correlation_ids,
            max_response_bytes=settings.max_response_bytes,
            expects=self._expects,
        )
        sock = self._socket = settings.open_socket(endpoint.family)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if settings.send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
        if settings.receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
        code = sock.connect_ex(endpoint.sockaddr)
        if code not in _IN_PROGRESS:
            raise OSError(code, os.strerror(code))
        self._want(EVENT_WRITE if code else EVENT_READ)
        return bool(code == 0)

    def _connected(self, now: float) -> None:
        assert self.connection is not None
        self._stats.created()
        self.deadline = now + self.handshake_timeout
        self.connection.connected(now)
        self._want(EVENT_READ)
        self.flush()

    def _address_failed(self, cause: str) -> None:
        self._failed.append(f"{self._endpoint}: {cause}")
        self._drop_socket()

    # -- events ------------------------------------------------------------------------------------------------------

    def on_event(self, events: int, now: float, replies: list[Reply]) -> list[Any]:
        """Read and write, after the selector has reported the socket.

        Args:
            events: the events that the selector reported.
            replies: list to which received responses are added, even if the call raises an error afterwards.

        Returns:
            Tokens of the requests that were written and expect no response.

        Raises:
            KafkaConnectionError, AuthenticationError, ProtocolError: the connection is no longer usable.
        """
        connection = self.connection
        if connection is None or self._socket is None:
            return []
        if self._busy:
            raise connection.lost("a transfer was interrupted")
        if connection.state is State.CONNECTING:
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._address_failed(os.strerror(code))
                self._connect_next(now)
            else:
                self._connected(now)
            return []
        if events & EVENT_READ:
            self._read(connection, now, replies)
        return self.flush() if connection.outgoing else []

    def _read(self, connection: Connection, now: float, replies: list[Reply]) -> None:
        self._busy = True
        for _ in range(_MAX_READS):
            view = connection.buffer()
            room = len(view)
            try:
                count = self._socket.recv_into(view)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                raise connection.lost(_text(error)) from error
            finally:
                view.release()
            if not count:
                raise connection.lost("the broker closed the connection")
            self._stats.received(count)
            self._node_stats.received(count)
            self._progress = True
            try:
                found = connection.received(count, now)
            except KafkaError:
                self._busy = False  # there may be a TLS alert to send
                raise
            self._response_bytes += count
            if found:
                replies.extend(found)
                self.is_bulk = _HAS_MARK and self._response_bytes >= _LARGE
                self._response_bytes = 0
            if connection.peer_closed:
                raise connection.lost("the broker closed the connection")
            # A read that does not fill the buffer has emptied the socket. After a response there is rarely more.
            if count < room or found:
                break
        self._busy = False

    def take_in(self, ahead: bool) -> None:
        """With True, let the system receive the next response without a read. With False, report every byte again.

        If the thread does not read, Linux delays the acknowledgement of data beyond ``SO_RCVLOWAT``. A broker with a
        small send buffer (Kafka's has 100 KiB) waits for that acknowledgement. Most of the next response would then
        arrive only after this one has been decoded. A high ``SO_RCVLOWAT`` avoids the delay. But the selector does not
        report a socket that holds fewer bytes than that, so the mark must be low again before the thread waits.
        """
        if ahead == self._is_ahead or self._socket is None or self.connection is None:
            return
        if ahead:
            if not self.connection.in_flight:
                return
            # Set before the call and cleared after it, so that the mark is lowered again even after Ctrl-C.
            self._is_ahead = True
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _TAKEN_IN if ahead else 1)
        except OSError:
            self.is_bulk = False  # a system that claims to be Linux but is not
        if not ahead:
            self._is_ahead = False

    def flush(self) -> list[Any]:
        """Write as many bytes as the socket accepts now. Results and errors are those of :meth:`on_event`."""
        connection = self.connection
        if connection is None or not connection.outgoing or connection.state is State.CONNECTING:
            return []
        if self._busy:
            raise connection.lost("a transfer was interrupted")
        self._busy = True
        done: list[Any] = []
        while pieces := connection.output():
            try:
                count = self._socket.sendmsg(pieces)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                raise connection.lost(_text(error)) from error
            self._stats.sent(count)
            self._node_stats.sent(count)
            done += connection.wrote(count)
            if not connection.outgoing or count < sum(map(len, pieces)):
                break
        wanted = EVENT_READ | EVENT_WRITE if connection.outgoing else EVENT_READ
        if wanted != self._events:
            self._want(wanted)
        self._busy = False
        return done

    def _want(self, events: int) -> None:
        if events == self._events:
            return
        if self._events:
            self._selector.modify(self._socket, events, self)
        else:
            self._selector.register(self._socket, events, self)
        self._events = events

    def _drop_socket(self) -> None:
        sock = self._socket
        if sock is None:
            return
        try:
            self._selector.unregister(sock)
        except (KeyError, ValueError, OSError):
            pass  # it was not registered yet
        self._events = 0
        sock.close()
        self._socket = None

    def close(self) -> None:
        """Close the socket. If it can be sent without waiting, TLS's close_notify is sent first.

        A second call has no effect.
        """
        if self._counted:
            self._counted = False
            self._node_stats.detached()
        connection = self.connection
        if (
            self._socket is not None
            and not self._busy
            and connection is not None
            and connection.state is not State.CLOSED
        ):
            connection.close()
            if connection.has_output:
                try:
                    self._socket.sendmsg(connection.output())
                except OSError:
                    pass
        self._drop_socket()

    def abandon(self) -> None:
        """Close this process's copy of the socket, without sending anything and without using the selector."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _text(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
