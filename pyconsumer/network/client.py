"""``NetworkClient``: sends requests and receives responses in one thread, which waits in one place.

``send`` only queues a request. ``poll`` does everything else in the thread that calls it: it looks up names, connects,
authenticates, writes, reads, refreshes metadata, fails overdue requests, and runs the callbacks of futures. Nothing
happens between two calls.

Rules
* Callbacks run after all sockets of a turn have been served and all broken connections have been closed. They may send,
  disconnect, and even close the client.
* A turn checks only the nodes that something happened to. It checks all of them only when the earliest deadline has
  passed, so a poll costs the same with one broker and with a hundred.
* Requests time out only after the sockets have been served. If the user spends a minute between two polls, the second
  one returns the response that arrived in that minute instead of a timeout.
* Ctrl-C may come at any point. A connection interrupted in mid-operation is closed in the next turn. A request is added
  to its destination before it is removed from its source, so it may be completed twice (the second completion is
  ignored) but is never lost.
"""

from __future__ import annotations

import itertools
import math
import os
import random as _random
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pyconsumer import __version__
from pyconsumer.background_log import Log
from pyconsumer.clock import Clock, RunningClock, SystemClock
from pyconsumer.errors import (
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    RequestCancelledError,
)
from pyconsumer.metrics.source import windows_of
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.bootstrap import BootstrapWatch
from pyconsumer.network.channel import Channel, ChannelSettings, LoginSignal
from pyconsumer.network.client_requests import (
    ClientResponse,
    CompletedRequests,
    Request,
    RequestBuilder,
    RequestTimeoutError,
    UnsentRequests,
)
from pyconsumer.network.connection import MOST_RESPONSE_BYTES
from pyconsumer.network.connection_pool import ConnectionPool
from pyconsumer.network.dns import NameService, Resolver
from pyconsumer.network.futures import RequestFuture, Steps, drive
from pyconsumer.network.metadata import Metadata
from pyconsumer.network.node_selector import NodeSelector
from pyconsumer.network.selector import EVENT_READ, Selector, Waker, new_selector
from pyconsumer.network.stats import ChannelStats
from pyconsumer.protocol.schema import Message
from pyconsumer.settings.config import ClientConfig
from pyconsumer.structs import BrokerMetadata

if TYPE_CHECKING:
    from pyconsumer.network.sasl import SaslMechanism
    from pyconsumer.network.tls import TlsContexts

__all__ = ["ClientResponse", "NetworkClient", "RequestBuilder", "RequestTimeoutError"]

T = TypeVar("T")

_MAX_INT32 = 0x7FFFFFFF
_OVERSIZED_BATCH_BYTES = 64 << 20

_log = Log("pyconsumer.network")


class NetworkClient:
    """Sends requests to nodes and receives their responses. One thread owns it. Any thread may call :meth:`wakeup`.

    Args:
        config: the settings of :data:`pyconsumer.settings.config.CLIENT_SETTINGS`.
        metadata: the cluster's metadata, which :meth:`poll` refreshes. None for a client that gets all addresses from
            its caller.
        clock: the source of time.
        max_in_flight: the most requests that may wait for a response on one connection. None for no limit.
        selector, resolver, open_socket, random, sasl: replacements for parts, in tests. ``sasl`` is called with the
            broker's host to make the mechanism of each authentication.
        correlation_ids: correlation ids of the requests. Clients with the same client id may share one iterator.
        stats: the counters to continue, from a client that this one replaces.

    Attributes:
        correlation_ids: the argument. A correlation id and the client id together identify a request in the broker's
            log.

    Raises:
        ConfigurationError: a certificate or key cannot be used.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        metadata: Metadata | None = None,
        clock: Clock | None = None,
        max_in_flight: int | None = None,
        selector: Selector | None = None,
        resolver: Resolver | None = None,
        open_socket: Callable[[int], Any] | None = None,
        random: Callable[[], float] = _random.random,
        sasl: Callable[[str], SaslMechanism] | None = None,
        correlation_ids: Iterator[int] | None = None,
        stats: ChannelStats | None = None,
    ) -> None:
        self.correlation_ids = itertools.count() if correlation_ids is None else correlation_ids
        self.config = config
        self.metadata = metadata
        self.clock: Clock = clock or SystemClock()
        self._request_timeout = config.request_timeout_ms / 1000
        tls = _tls(config)  # may raise: nothing is open yet
        self._waker = Waker()
        signal = LoginSignal(self._waker.wake)
        try:
            self._mechanisms = sasl or _sasl(config, signal)
        except BaseException:  # the mechanism needs a package that is not installed
            self._waker.close()
            raise
        sockets: dict[str, Any] = {} if open_socket is None else {"open_socket": open_socket}
        settings = ChannelSettings(
            client_id=config.client_id,
            software_version=__version__,
            tls=tls,
            sasl=self._mechanisms,
            login_signal=signal,
            send_buffer_bytes=config.send_buffer_bytes,
            receive_buffer_bytes=config.receive_buffer_bytes,
            max_response_bytes=_max_response_bytes(config),
            random=random,
            correlation_ids=self.correlation_ids,
            **sockets,
        )
        idle_ms = config.connections_max_idle_ms
        self._selector = selector or new_selector()
        if isinstance(self.clock, RunningClock):
            self.clock.on_advance(self._on_time_moved)
        self._selector.register(self._waker, EVENT_READ, None)
        self._completed = CompletedRequests()
        self._unsent = UnsentRequests(self._completed)
        make_pool = partial(
            ConnectionPool,
            settings,
            self._selector,
            NameService(self._waker.wake, resolver),
            self._unsent,
            self._completed,
            request_timeout=self._request_timeout,
            max_idle=idle_ms / 1000 if idle_ms >= 0 else math.inf,
            reconnect=Backoff.ms(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, random=random),
            setup=Backoff.ms(
                config.socket_connection_setup_timeout_ms, config.socket_connection_setup_timeout_max_ms, random=random
            ),
            max_in_flight=max_in_flight,
            canonical_bootstrap=config.client_dns_lookup == "resolve_canonical_bootstrap_servers_only",
            cluster_id=self._expected_cluster,
            stats=ChannelStats(windows_of(config), self.clock.now()) if stats is None else stats,
        )
        self._nodes = NodeSelector(
            make_pool,
            self._unsent,
            metadata,
            now=self.clock.now,
            random=random,
            request_timeout=self._request_timeout,
            rebootstraps=config.metadata_recovery_strategy == "rebootstrap",
            watch=BootstrapWatch(
                ", ".join(map(str, config.bootstrap_servers)),
                None if config.bootstrap_timeout_ms is None else config.bootstrap_timeout_ms / 1000,
                config.bootstrap_resolve_timeout_ms / 1000 or None,
            ),
        )
        self._pool = self._nodes.pool
        self._stats = self._pool.stats
        self._interrupted = False
        self._arrange_step: Callable[[], object] | None = None
        self._closed = False
        self._released = False  # all descriptors are closed, and all requests have failed
        self._forked = False
        _clients.add(self)

    def _expected_cluster(self) -> str | None:
        """Return the id of the cluster whose nodes a connection must lead to, or None if brokers need not check it."""
        config = self.config
        if self.metadata is None or config.metadata_recovery_strategy == "none":
            return None
        return self.metadata.cluster_id if config.metadata_cluster_check_enable else None

    # -- requests ----------------------------------------------------------------------------------------------------

    def send(
        self,
        node: int | BrokerMetadata,
        api: int | type[Message],
        request: Message | RequestBuilder,
        *,
        timeout: float | None = None,
        connection: str = "main",
        min_version: int = 0,
        max_version: int | None = None,
        expect_response: bool = True,
    ) -> RequestFuture[ClientResponse]:
        """Queue a request. The next :meth:`poll` or :meth:`flush` sends it, and connects first if necessary.

        Args:
            node: a node id, or a node with its address if that is not in the metadata (such as a coordinator).
            api: the API key, or the class of the request.
            request: the request, or a function that builds it for the negotiated version.
            timeout: seconds to wait until the request is sent, and then again for its response. By default
                ``request_timeout_ms``.
            connection: ``main``, or ``coordinator`` for the separate connection to a node in its role as coordinator.
            min_version, max_version: the versions that the caller supports.
            expect_response: False for a produce request with ``acks=0``. The future then succeeds when the request is
                written.

        Returns:
            A future of the response. It fails with KafkaConnectionError if the node cannot be reached or the connection
            is lost (RequestTimeoutError is a subclass). Other errors are AuthenticationError, UnsupportedVersionError
            and ProtocolError, and RequestCancelledError if this client is closed.
        """
        if self._forked:
            self._check_process()
        api_key = api if isinstance(api, int) else api.API_KEY
        seconds = self._request_timeout if timeout is None else timeout
        item = Request(api_key, request, self.clock.now(), seconds, min_version, max_version, expect_response)
        if self._closed:
            item.future.fail(RequestCancelledError("the client is closed"))
            return item.future
        found = self._pool.nodes.get(node) if connection == "main" and isinstance(node, int) else None
        self._pool.enqueue(found or self._nodes.node(node, connection), item)
        return item.future

    def send_any(
        self,
        api: int | type[Message],
        request: Message | RequestBuilder,
        *,
        timeout: float | None = None,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> RequestFuture[ClientResponse]:
        """Queue a request for the least loaded node. The node is chosen when one is ready.

        Arguments and errors are those of :meth:`send`. If no node can be reached in time, the error is
        NoBrokersAvailableError.
        """
        self._check_process()
        api_key = api if isinstance(api, int) else api.API_KEY
        seconds = self._request_timeout if timeout is None else timeout
        item = Request(api_key, request, self.clock.now(), seconds, min_version, max_version, True)
        if self._closed:
            item.future.fail(RequestCancelledError("the client is closed"))
        else:
            self._unsent.enqueue(None, item)
        return item.future

    # -- waiting -----------------------------------------------------------------------------------------------------

    def poll(self, until: float, future: RequestFuture[Any] | None = None) -> None:
        """Do all work that is due, and wait for the next event.

        The sockets are served at least once. After that the call returns as soon as ``future`` is done, ``until``
        (monotonic seconds) has passed, or :meth:`wakeup` was called. Without a future it also returns when anything was
        received, anything has failed, or a connection became ready.

        Raises:
            IllegalStateError: the client is closed, or belongs to another process.
        """
        self._check_open()
        completed = self._completed
        outcomes = completed.outcomes
        polled = happened = False
        while True:
            if polled and outcomes:  # the callbacks' requests leave in the turn that follows
                completed.fire()
                if self._closed:
                    return
            now = self.clock.now()
            next_at = self._turn(now, served=polled)
            if outcomes:
                completed.fire()
                if self._closed:
                    return
                next_at = self._turn(now, served=polled)
            if completed.happened:
                happened = completed.take_happened()
            done = happened if future is None else future.done
            if polled and (done or self._interrupted or now >= until):
                self._interrupted = False
                if self._pool.bulk:
                    self.arm_read_ahead()
                return
            at_once = done or self._interrupted or bool(outcomes)
            self._select(0.0 if at_once else max(min(until, next_at) - now, 0.0))
            polled = True

    def run(self, steps: Steps[T], deadline: float = math.inf) -> T:
        """Run a blocking call written as a generator. See :func:`pyconsumer.network.futures.drive`."""
        return drive(steps, deadline, self.poll, self.clock.now)

    def flush(self) -> None:
        """Send as much as possible now, without waiting, reading, or running callbacks."""
        self._check_open()
        self._turn(self.clock.now(), served=False)
        self.arm_read_ahead()

    def fire(self) -> bool:
        """Complete the futures of finished requests, and run their callbacks. Return whether there were any."""
        return self._completed.fire()

    def wakeup(self) -> None:
        """Make the current :meth:`poll` return, or the next one if none is running.

        Any thread and any signal handler may call this.
        """
        self._interrupted = True
        self._waker.wake()

    def _on_time_moved(self) -> None:
        """Let whoever waits look at the time again, in any thread."""
        self._waker.wake()

    def step(self, now: float) -> tuple[float, bool]:
        """Run one turn without waiting, for a driver that waits in its own event loop (asyncio).

        Returns:
            The time (monotonic seconds) of the next call, unless :meth:`fileno` becomes readable earlier. And whether
            :meth:`poll` would have returned now, for instance because something was received or :meth:`wakeup` was
            called.
        """
        self._check_open()
        self._turn(now, served=False)
        self._select(0.0)
        now = self.clock.now()
        due = self._turn(now, served=True)
        if self._completed.fire() and not self._closed:
            due = self._turn(now, served=True)
        happened = self._completed.take_happened() or self._interrupted
        self._interrupted = False
        return now if self._completed.outcomes else due, happened

    def fileno(self) -> int:
        """Return a file descriptor that is readable when there is work.

        Raises OSError on a system that has neither epoll nor kqueue.
        """
        fileno = getattr(self._selector, "fileno", None)
        if fileno is None:
            raise OSError("this system's selector has no file descriptor")
        return int(fileno())

    def arm_read_ahead(self) -> None:
        """Let the system receive large responses while the thread is busy with something else.

        The next select ends that. So a driver that waits in its own event loop must call :meth:`step` before the loop
        waits. See :meth:`before_read_ahead`.
        """
        if self._pool.bulk and (self._arrange_step is None or self._arrange_step()):
            self._pool.take_in(True)

    def before_read_ahead(self, arrange_step: Callable[[], object]) -> None:
        """Set a function that is called before :meth:`arm_read_ahead`.

        It arranges a :meth:`step`, or returns a false value.
        """
        self._arrange_step = arrange_step

    def _select(self, timeout: float) -> None:
        if self._pool.bulk:
            self._pool.take_in(False)
        began_at = self.clock.now()
        events = self._selector.select(None if timeout == math.inf else timeout)
        now = self.clock.now()
        self._stats.selected(began_at, now)
        for key, mask in events:
            channel: Channel | None = key.data
            if channel is None:
                self._waker.clear()
            else:
                self._pool.on_event(channel, mask, now)
        if events:
            self._stats.served(self.clock.now() - now)

    def _turn(self, now: float, *, served: bool) -> float:
        """Do the work that is due, and return the time at which work is due next."""
        due = self._nodes.turn(now, served=served)
        stats = self._stats
        failed = stats.connections_failed
        pool_due = self._pool.turn(now, served=served)
        if stats.connections_failed != failed:
            return now  # the node selector may wait for the connection that has just failed: let it choose again
        return due if due < pool_due else pool_due

    # -- state -------------------------------------------------------------------------------------------------------

    @property
    def stats(self) -> ChannelStats:
        """Counters of all connections."""
        return self._stats

    @property
    def last_error(self) -> KafkaError | None:
        """The last error of a connection to any node. None if a node has responded since."""
        return self._pool.last_error

    @property
    def last_error_at(self) -> float:
        """When the last error of a connection came, in monotonic seconds. -inf before the first one."""
        return self._pool.last_error_at

    @property
    def closed(self) -> bool:
        """Return whether :meth:`close` was called."""
        return self._closed

    def failures(self) -> str:
        """Return, for messages, the last error of each node that is not ready.

        Without an error: its stage and address.
        """
        return self._nodes.failures()

    def disconnect(self, node_id: int, connection: str = "main", *, cause: str = "disconnected by this client") -> None:
        """Close a connection. Its requests fail with KafkaConnectionError at the next poll.

        This has no effect if there is no such connection. It has no effect either if the client is closed, since
        callbacks that run during :meth:`close` may call this.
        """
        if self._closed:
            return
        self._check_open()
        node = self._pool.find(node_id, connection)
        if node is None:
            return
        address = node.channel.address if node.channel is not None else ""
        self._pool.drop_channel(node)
        text = f"connection to {address or f'node {node_id}'} closed: {cause}"
        self._pool.fail_all(node, KafkaConnectionError(text, address=address))

    def in_flight(self, node_id: int | None = None, connection: str = "main") -> int:
        """Return the number of requests in flight on one connection. None counts all connections."""
        if node_id is None:
            return sum(len(node.outstanding) for node in list(self._pool.nodes.values()))
        node = self._pool.find(node_id, connection)
        return len(node.outstanding) if node is not None else 0

    def unsent(self, node_id: int | None = None, connection: str = "main") -> int:
        """Return the number of unsent requests of one connection.

        None counts all connections, and the requests that any node can serve.
        """
        if node_id is None:
            return self._unsent.total()
        node = self._pool.find(node_id, connection)
        return self._unsent.count(node) if node is not None else 0

    def connection_state(self, node_id: int, connection: str = "main") -> str:
        """Return ``disconnected``, ``backoff``, ``connecting`` (which includes authentication) or ``ready``.

        Any thread may call this.
        """
        node = self._pool.find(node_id, connection)
        if node is None:
            return "disconnected"
        channel = node.channel  # once: the client's thread may take it away
        if channel is not None:
            return "connecting" if channel.setting_up else "ready"
        return "disconnected" if node.health.may_connect(self.clock.now()) else "backoff"

    def backoff_until(self, node_id: int, connection: str = "main") -> float:
        """Return when the node may be tried again, in monotonic seconds. -inf means at once."""
        node = self._pool.nodes.get(node_id) if connection == "main" else self._pool.find(node_id, connection)
        return node.health.backoff_until if node is not None and node.channel is None else -math.inf

    def ready_nodes(self) -> tuple[int, ...]:
        """Return the ids of the brokers with which a connection is ready, in order. Any thread may call this."""
        ready = set()
        for node in list(self._pool.nodes.values()):
            channel = node.channel  # once: the client's thread may take it away
            if channel is not None and not channel.setting_up and node.node_id >= 0:
                ready.add(node.node_id)
        return tuple(sorted(ready))

    def unreachable_since(self, node_id: int | None) -> float | None:
        """Return since when attempts to reach a node have failed, in monotonic seconds. Any thread may call this.

        Main connections count. One to the coordinator that nobody uses any more would never respond.

        Args:
            node_id: the node. None stands for all of them: the time is that of the last one that failed.

        Returns:
            None if the node was not tried, or has responded.
        """
        main = [node for node in list(self._pool.nodes.values()) if node.connection_key == node.node_id]
        nodes = [node for node in main if node_id is None or node.node_id == node_id]
        times = [since for node in nodes if (since := node.health.trying_since) is not None]
        if not times or (node_id is None and len(times) < len(nodes)):
            return None
        return max(times) if node_id is None else min(times)

    def node_error(self, node_id: int, connection: str = "main") -> KafkaError | None:
        """Return the last error of a connection, or None if the node has responded since."""
        node = self._pool.find(node_id, connection)
        if node is None:
            return None
        return node.auth_error or node.health.last_error

    def finalized_feature(self, name: str) -> tuple[int, int]:
        """Return the epoch of the cluster's finalized features, and the version of the named one (0 if missing).

        The values come from the connected broker with the newest epoch. The epoch is -1 if no broker is connected.
        """
        newest, level = -1, 0
        for node in self._pool.nodes.values():
            connection = node.channel.connection if node.channel is not None else None
            if connection is not None and connection.features_epoch > newest:
                newest, level = connection.features_epoch, connection.features.get(name, 0)
        return newest, level

    def close(self) -> None:
        """Close all connections at once. All requests fail with RequestCancelledError.

        A second call has no effect, unless Ctrl-C interrupted the first one: it completes that.
        """
        if self._released:
            return
        self._closed = True
        self._leave_login()
        _clients.discard(self)
        if self._forked:
            return
        error = RequestCancelledError("the client was closed")
        self._pool.close(error)
        self._unsent.fail(None, error)
        self._selector.close()
        self._waker.close()
        self._completed.fire()
        self._released = True

    def abandon(self) -> None:
        """Close all file descriptors of a client that was dropped without ``close``.

        This runs no callback and takes no lock.

        Finalizers call this, in any thread and at any time. In a forked child the descriptors are closed already.
        """
        if self._released or self._forked:
            return
        self._closed = True
        self._release()

    def _leave_login(self) -> None:
        """Leave the login that is shared with other clients. This takes no lock."""
        leave = getattr(self._mechanisms, "close", None)  # a test's factory is a function
        if leave is not None:
            leave()

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateError("the client is closed")
        self._check_process()

    def _check_process(self) -> None:
        if self._forked:
            raise IllegalStateError("the client belongs to the process before the fork: make a new one in the child")

    def _after_fork(self) -> None:
        """Close the child's descriptors. They stay registered, because the parent shares the epoll instance."""
        self._forked = True
        self._release()

    def _release(self) -> None:
        self._leave_login()
        self._pool.abandon()
        self._selector.close()
        self._waker.close()
        self._released = True


def _max_response_bytes(config: ClientConfig) -> int:
    """Return the maximum response size: the limit that a consumer sets, plus one batch that is larger (KIP-74)."""
    asked = max(getattr(config, "fetch_max_bytes", 0), getattr(config, "max_partition_fetch_bytes", 0))
    return min(max(MOST_RESPONSE_BYTES, asked + _OVERSIZED_BATCH_BYTES), _MAX_INT32)


def _tls(config: ClientConfig) -> TlsContexts | None:
    if not config.uses_tls:
        return None
    from pyconsumer.network.tls import TlsContexts

    return TlsContexts(config)


def _sasl(config: ClientConfig, signal: LoginSignal) -> Callable[[str], SaslMechanism] | None:
    if not config.uses_sasl:
        return None
    from pyconsumer.network.sasl import mechanism_factory

    return mechanism_factory(config, signal)


_clients: weakref.WeakSet[NetworkClient] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for client in list(_clients):
        client._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
