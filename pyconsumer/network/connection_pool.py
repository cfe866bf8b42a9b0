"""All connections of a client: connecting, reconnecting after a pause, requests in flight.

The owner calls :meth:`ConnectionPool.turn` to do the work that is due, and :meth:`ConnectionPool.on_event` for each
socket that its selector reports. The pool never waits, and it does not choose the node of a request. See
:mod:`pyconsumer.network.node_selector`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

from pyconsumer.background_log import Log
from pyconsumer.errors import (
    AuthenticationError,
    KafkaConnectionError,
    KafkaError,
    ProtocolError,
    RequestCancelledError,
)
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.channel import Channel, ChannelSettings
from pyconsumer.network.client_requests import (
    ClientResponse,
    CompletedRequests,
    Request,
    RequestTimeoutError,
    UnsentRequests,
)
from pyconsumer.network.connection import Connection, Reply, State
from pyconsumer.network.dns import NameService, printable_address
from pyconsumer.network.node import Node
from pyconsumer.network.selector import Selector
from pyconsumer.network.stats import ChannelStats
from pyconsumer.protocol.api import ApiKey
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import BrokerMetadata, make_tuple

__all__ = ["ConnectionPool"]

_log = Log("pyconsumer.network")

_MAX_INT32 = 0x7FFFFFFF
# At most this many channels use SO_RCVLOWAT read-ahead: each costs two system calls per wait.
_MOST_AHEAD = 8


class ConnectionPool:
    """The connections of one client. See the module.

    Args:
        settings: the settings of all channels.
        selector, names: shared with the client.
        unsent, completed: shared with the client: the requests to send, and the outcomes of requests.
        where: returns the address of a node, or None if it is unknown.
        on_lost: called with node, error and time after a connection was lost or could not be established.
        request_timeout: the time limit for TLS, ApiVersions and SASL together, in seconds.
        max_idle: an unused connection is closed after this many seconds.
        reconnect, setup: two backoffs. ``reconnect`` has the pauses between attempts, ``setup`` the time limit of an
            attempt.
        max_in_flight: the most requests in flight on one connection. None for no limit.
        canonical_bootstrap: True looks up the canonical names of bootstrap addresses (KIP-235).
        cluster_id: returns the id of the cluster, which the broker of a new connection checks (KIP-1242). None if it is
            unknown.
        stats: the counters of the connections.
    """

    def __init__(
        self,
        settings: ChannelSettings,
        selector: Selector,
        names: NameService,
        unsent: UnsentRequests,
        completed: CompletedRequests,
        *,
        where: Callable[[Node], BrokerMetadata | None],
        on_lost: Callable[[Node, KafkaError, float], None],
        request_timeout: float,
        max_idle: float,
        reconnect: Backoff,
        setup: Backoff,
        max_in_flight: int | None,
        canonical_bootstrap: bool,
        cluster_id: Callable[[], str | None] = lambda: None,
        stats: ChannelStats | None = None,
    ) -> None:
        self.nodes: dict[int, Node] = {}
        self.stats = ChannelStats() if stats is None else stats
        self.last_error: KafkaError | None = None
        """The last error of a connection to any node. None once a node has responded since."""
        self.last_error_at = -math.inf
        """When that error came, in monotonic seconds."""
        self.max_in_flight = max_in_flight
        self.bulk: dict[Channel, None] = {}
        """Channels whose next response is likely to be large, at most ``_MOST_AHEAD`` of them. See :meth:`take_in`."""
        self._settings = settings
        self._selector = selector
        self._names = names
        self._unsent = unsent
        self._completed = completed
        self._where = where
        self._on_lost = on_lost
        self._request_timeout = request_timeout
        self._max_idle = max_idle
        self._reconnect = reconnect
        self._setup = setup
        self._canonical_bootstrap = canonical_bootstrap
        self._cluster_id = cluster_id
        # By node id: the cause that was logged last. It outlives the node, which a new bootstrap forgets.
        self._reported: dict[int, str] = {}
        self._dirty: dict[Node, None] = {}
        self._timer_at = -math.inf
        self._served = True
        self._turn_unfinished = False  # a turn is running, or was interrupted
        self._login_signal = settings.login_signal
        self._touched: Node | None = None  # the node whose channel an operation is in progress on

    # -- nodes -------------------------------------------------------------------------------------------------------

    @staticmethod
    def key(node_id: int, connection: str) -> int:
        """Return a connection's key: the node id, or 2147483647 - node id for a coordinator, as in Kafka's client."""
        if connection == "main":
            return node_id
        if connection != "coordinator":
            raise ValueError(f"connection must be 'main' or 'coordinator', not {connection!r}")
        return _MAX_INT32 - node_id

    def node(self, node_id: int, connection: str = "main") -> Node:
        """Return the state of a connection to a node. It is created at the first call."""
        key = self.key(node_id, connection)
        node = self.nodes.get(key)
        if node is None:
            node = self.nodes[key] = Node(key, node_id)
        return node

    def find(self, node_id: int, connection: str = "main") -> Node | None:
        """Return the state of a connection to a node, or None if it was never used."""
        return self.nodes.get(self.key(node_id, connection))

    def remove(self, node: Node, error: KafkaError | None = None) -> None:
        """Close the channel and forget the node. If there is an error, fail the node's requests with it."""
        self.drop_channel(node)
        if error is not None:
            self.fail_all(node, error)
        self.nodes.pop(node.connection_key, None)
        self._dirty.pop(node, None)

    def rename(self, node: Node, node_id: int) -> None:
        """Change the id of a bootstrap address's node to the broker id that metadata has for it."""
        before = node.connection_key
        node.rename(node_id)
        self.stats.rename(before, node_id)
        self.nodes[node_id] = node
        self.nodes.pop(before, None)

    def mark(self, node: Node) -> None:
        """Let the next turn check a node."""
        self._dirty[node] = None

    def is_idle(self, node: Node) -> bool:
        """Return whether a node has no request that is in flight or unsent."""
        return not node.outstanding and self._unsent.first(node) is None

    def enqueue(self, node: Node, request: Request, *, first: bool = False) -> None:
        """Add a request to the unsent requests of a node. With ``first`` it goes to the beginning of the queue."""
        self._unsent.enqueue(node, request, first=first)
        self._dirty[node] = None

    # -- work due ----------------------------------------------------------------------------------------------------

    def turn(self, now: float, *, served: bool = True) -> float:
        """Do the work that is due, and return the time at which work is due next.

        Args:
            served: True if the sockets have been served since the user's last call. With False no request times out,
                because its response may have arrived between two polls and still wait in a socket.
        """
        self._served = served
        if self._turn_unfinished or self._touched is not None:
            self._repair(now)
        self._turn_unfinished = True
        for lookup in self._names.take() if self._names.finished else ():
            node: Node = lookup.owner
            if node.channel is not None and node.channel.lookup is lookup and node.channel.is_looked_up:
                self._start(node, node.channel, now)
        if self._login_signal.raised and served:
            self._login_signal.take()
            self._dirty.update(
                (node, None) for node in self.nodes.values() if node.channel is not None and node.channel.awaits_login
            )
        if now >= self._timer_at:
            self._dirty.clear()
            self._timer_at = math.inf
            for node in list(self.nodes.values()):
                self._serve(node, now)
        while self._dirty:
            self._serve(self._dirty.popitem()[0], now)
        self._turn_unfinished = False
        return self._timer_at

    def _repair(self, now: float) -> None:
        """Complete a turn that Ctrl-C or an error interrupted.

        The channel that it was working on may be half connected, missing from the selector, or in the middle of a
        transfer, so it is closed. Channels whose lookup has finished are started, and every node is checked.
        """
        node = self._touched
        if node is not None and node.channel is not None:
            self.fail_channel(node, node.channel.interrupted(), now)
        elif node is not None and node.outstanding:
            text = f"connection to node {node.node_id} closed: it was interrupted while it was being closed"
            self.fail_all(node, KafkaConnectionError(text))
        self._touched = None
        for node in list(self.nodes.values()):
            if node.channel is not None and node.channel.is_looked_up:
                self._start(node, node.channel, now)
        self._timer_at = -math.inf

    def _serve(self, node: Node, now: float) -> None:
        """Check one node: fail its overdue requests, connect if it has requests to send, and send them."""
        self._touched = node
        channel = node.channel
        if channel is not None and self._served:
            self._check_channel(node, channel, now)
            channel = node.channel
        queues = self._unsent.queues
        if channel is None and node in queues and node.health.may_connect(now):
            self.connect(node, now)
            self._touched, channel = node, node.channel
        connection = None if channel is None else channel.connection
        if channel is not None and connection is not None and connection.state is State.READY:
            self._transmit(node, channel, connection, now)
        queue = queues.get(node)
        if queue is not None and self._served:
            self._unsent.expire(node, now, lambda late: _unsent_too_long(node, late, self._reported.get(node.node_id)))
            queue = queues.get(node)
        due = node.next_deadline(now, self._max_idle, queue[0] if queue else None)
        if due < self._timer_at:
            self._timer_at = due
        self._touched = None

    def _check_channel(self, node: Node, channel: Channel, now: float) -> None:
        if channel.connection is not None and channel.connection.awaits_login:
            self._guard(node, now, lambda: channel.log_in(now))
            if node.channel is not channel:
                return
        overdue = None
        for request in node.outstanding:
            if now >= request.expires_at:
                overdue = request
                break
        if overdue is not None and channel.take_progress():
            # Part of the response has arrived since the last check: extend its time.
            overdue.extend(now)
        elif overdue is not None:
            cause = f"no response to {ApiKey(overdue.api_key).name} from {channel.address} within {overdue.timeout:g} s"
            details = {"stage": channel.stage, "address": channel.address}
            self._completed.add(node, overdue, RequestTimeoutError(cause, **details))
            self.fail_channel(node, KafkaConnectionError(f"connection closed: {cause}", **details), now)
        elif now >= channel.deadline and node.outstanding and not channel.setting_up:
            # It is reauthenticating, and the broker serves earlier requests first; each of them has its own deadline.
            channel.extend_handshake(now)
        elif now >= channel.deadline:
            if channel.tcp_pending:
                node.health.too_slow()
            self._guard(node, now, lambda: channel.too_slow(now, node.health.setup_timeout(self._setup)))
        elif channel.connection is not None and channel.connection.state is State.READY:
            if now >= channel.connection.reauthenticate_at:
                self._guard(node, now, lambda: channel.reauthenticate(now))
            elif (node.retired or now >= node.last_used + self._max_idle) and self.is_idle(node):
                _log.debug("closing the connection to %s, which is not used", channel.address)
                self.drop_channel(node)

    def _transmit(self, node: Node, channel: Channel, connection: Connection, now: float) -> None:
        if channel.deadline != math.inf:
            channel.use(now)
            self._completed.note()
            node.set_up(now)
            self._reported.pop(node.node_id, None)
        unsent = self._unsent
        while (queue := unsent.queues.get(node)) and node.has_room(now, self.max_in_flight):
            request = queue[0]
            assert connection.versions is not None
            try:
                version = connection.versions.choose(
                    request.api_key, min_version=request.min_version, max_version=request.max_version
                )
                build = request.build
                message = build if isinstance(build, Message) else build(version)
                size = connection.send(message, version, request, now, expect_response=request.expect_response)
            except BaseException as error:
                outcome: KafkaError = RequestCancelledError("interrupted while the request was made")
                if isinstance(error, KafkaError):
                    outcome = error
                elif isinstance(error, Exception):
                    outcome = ProtocolError(f"the request could not be made: {error!r}")
                self._completed.add(node, request, outcome)
                unsent.remove_first(node)
                if isinstance(error, KafkaError):
                    continue
                if isinstance(error, Exception):
                    self._touched = None  # the connection is not affected
                raise
            node.outstanding[request] = None
            unsent.remove_first(node)
            channel.requested(size, now)
            request.sent(now)
            node.sent(now)
        if connection.outgoing:
            try:
                written = channel.flush()
            except KafkaError as error:
                self.fail_channel(node, error, now)
            else:
                if written:
                    self._written(node, written, now)

    def _guard(self, node: Node, now: float, action: Callable[[], object]) -> None:
        try:
            action()
        except KafkaError as error:
            self.fail_channel(node, error, now)

    # -- channels ----------------------------------------------------------------------------------------------------

    def connect(self, node: Node, now: float) -> None:
        """Start to connect. If that fails at once, it is handled like a later failure (see :meth:`fail_channel`)."""
        broker = self._where(node)
        if broker is None:
            self.fail_all(node, KafkaConnectionError(f"node {node.node_id} is not known any more", stage="DNS"))
            return
        self._touched = node
        node.health.attempt(now)
        address = printable_address(broker.host, broker.port)
        _log.debug("connecting to node %s at %s", node.node_id, address)
        canonical = self._canonical_bootstrap and node.node_id < 0
        cluster_id = self._cluster_id()
        lookup = self._names.start(broker.host, broker.port, node, canonical=canonical)
        channel = Channel(
            address,
            node,
            lookup,
            self._settings,
            self._selector,
            self.stats,
            self.stats.node(node.connection_key, now),
            setup_timeout=node.health.setup_timeout(self._setup),
            handshake_timeout=self._request_timeout,
            now=now,
            expects=None if cluster_id is None or node.node_id < 0 else (cluster_id, node.node_id),
        )
        node.attach(channel, now)
        if lookup.at_once:
            self._start(node, channel, now)
        self._timer_at = min(self._timer_at, node.next_deadline(now, self._max_idle, self._unsent.first(node)))
        self._touched = None

    def _start(self, node: Node, channel: Channel, now: float) -> None:
        self._touched = node
        self._guard(node, now, lambda: channel.start(now))
        self.mark(node)
        self._touched = None

    def drop_channel(self, node: Node) -> None:
        """Close the channel, if there is one, but fail no request."""
        channel = node.channel
        if channel is None:
            return
        if not channel.tcp_pending:
            self.stats.closed()
        try:
            channel.close()
        except BaseException:  # Ctrl-C: try again, because nothing else refers to the socket
            channel.close()
            raise
        finally:
            node.detach()

    def fail_channel(self, node: Node, error: KafkaError, now: float) -> None:
        """Close a channel after an error, fail the node's requests, and start the pause before the next attempt."""
        channel = node.channel
        address = channel.address if channel is not None else ""
        cause = error if isinstance(error, KafkaConnectionError) else KafkaConnectionError(str(error), address=address)
        was_up = channel is not None and channel.in_use
        if not node.health.reached:
            cause = _as_advertised(node, cause)
        if channel is not None and isinstance(error, AuthenticationError):
            channel.refused()
        self.drop_channel(node)
        self.stats.failed()
        # Each cause is logged once until the node responds: a broker that is down for an hour takes one line.
        repeated = str(cause) in (str(node.health.last_error), self._reported.get(node.node_id))
        level = logging.DEBUG if repeated else logging.INFO if was_up and not node.health.failures else logging.WARNING
        if node.node_id < 0 and not isinstance(error, AuthenticationError):
            level = min(level, logging.INFO)  # any other address is as good; BootstrapWatch reports if there is none
        _log.log(level, "node %s: %s", node.node_id, cause)
        self._reported[node.node_id] = str(cause)
        node.health.failed(now, cause, self._reconnect, setup_failed=not was_up)
        self.last_error, self.last_error_at = cause, now
        node.refused(error if isinstance(error, AuthenticationError) else None)
        self._completed.note()
        if not isinstance(error, KafkaConnectionError) and node.outstanding:
            # Protocol error: the oldest request in flight fails with it, the others with the connection error.
            self._completed.add(node, next(iter(node.outstanding)), error)
        self.fail_all(node, cause)
        self._on_lost(node, error, now)
        self.mark(node)

    def note(self) -> None:
        """Make the current poll return, because there is something that its caller must see."""
        self._completed.note()

    def take_in(self, ahead: bool) -> None:
        """Call :meth:`Channel.take_in` for all :attr:`bulk` channels. Pass False before the thread waits."""
        for channel in list(self.bulk):
            if channel.owner.channel is channel:
                channel.take_in(ahead)
            else:
                del self.bulk[channel]

    def on_event(self, channel: Channel, events: int, now: float) -> None:
        """Serve a channel whose socket the selector has reported."""
        node: Node = channel.owner
        if node.channel is not channel:
            channel.close()  # Ctrl-C prevented the close
            return
        self._touched = node
        replies: list[Reply] = []
        try:
            written = channel.on_event(events, now, replies)
        except KafkaError as error:
            self._received(node, replies, now)
            self.fail_channel(node, error, now)
            self._touched = None
            return
        if replies:
            if not channel.is_bulk:
                self.bulk.pop(channel, None)
            elif len(self.bulk) < _MOST_AHEAD:
                self.bulk[channel] = None
        self._received(node, replies, now)
        if written:
            self._written(node, written, now)
        self._dirty[node] = None
        self._touched = None

    def _received(self, node: Node, replies: list[Reply], now: float) -> None:
        if not replies:
            return
        channel = node.channel
        if channel is not None and channel.deadline != math.inf and not channel.ready and not channel.setting_up:
            channel.extend_handshake(now)  # the next response may be SASL's
        if node.health.last_error is not None:
            node.health.established()
            self.last_error = None
        elif self.last_error is not None and node.node_id >= 0:
            self.last_error = None
        for entry, message in replies:
            node.received(now, getattr(message, "throttle_time_ms", 0))
            if channel is not None:
                channel.responded(now - entry.sent_at)
            values = (message, entry.api_version, node.node_id, now, now - entry.sent_at)
            self._completed.add(node, entry.token, make_tuple(ClientResponse, values))

    def _written(self, node: Node, requests: list[Any], now: float) -> None:
        for request in requests:
            self._completed.add(node, request, ClientResponse(None, -1, node.node_id, now, now - request.sent_at))

    # -- completion --------------------------------------------------------------------------------------------------

    def fail_all(self, node: Node, error: KafkaError) -> None:
        """Fail all requests of a node, whether they are sent or not."""
        while node.outstanding:
            self._completed.add(node, next(iter(node.outstanding)), error)
        self._unsent.fail(node, error)

    def close(self, error: KafkaError) -> None:
        """Close all channels at once and fail all requests."""
        for node in self.nodes.values():
            self.drop_channel(node)
            self.fail_all(node, error)

    def abandon(self) -> None:
        """Close only the sockets. This is for a forked child, or for a client that was dropped without ``close``."""
        for node in self.nodes.values():
            if node.channel is not None:
                node.channel.abandon()


def _as_advertised(node: Node, error: KafkaConnectionError) -> KafkaConnectionError:
    """Return the error with the source of the address: a broker that was never reached may advertise a wrong one."""
    if node.node_id < 0 or error.stage not in ("DNS", "TCP") or isinstance(error, AuthenticationError):
        return error
    text = f"{error} (the address as broker {node.node_id} advertises itself, by advertised.listeners)"
    found = KafkaConnectionError(text, stage=error.stage, address=error.address)
    found.__cause__ = error.__cause__
    return found


def _unsent_too_long(node: Node, request: Request, reported: str | None) -> KafkaError:
    name = ApiKey(request.api_key).name
    channel, last = node.channel, node.health.last_error
    text = f"{name} could not be sent to node {node.node_id} within {round(request.timeout, 2):g} s"
    if channel is not None:
        text += f"; stage {channel.stage} with {channel.address}"
    if last is not None or reported is not None:  # what was reported is from before a new bootstrap
        text += f"; last failure: {last or reported}"
    stage = channel.stage if channel is not None else (last.stage if last is not None else "TCP")
    address = channel.address if channel is not None else (last.address if last is not None else "")
    return RequestTimeoutError(text, stage=stage, address=address)
