"""All connections of a client: peers, their links, what is sent on them and what has come back.

The pool does due work when its owner says so (:meth:`ConnectionPool.turn`), and serves sockets the owner's selector
reported (:meth:`ConnectionPool.on_event`). It decides nothing about *which* node to talk to, and it never waits.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from typing import Any

from pyconsumer.errors import (
    AuthenticationError,
    KafkaConnectionError,
    KafkaError,
    ProtocolError,
    RequestCancelledError,
)
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.channel import Channel, LinkSettings, LinkStats
from pyconsumer.network.connection import Reply
from pyconsumer.network.dns import NameService, printable_address
from pyconsumer.network.futures import RequestFuture
from pyconsumer.network.node import ClientResponse, Node, Request, RequestTimeoutError
from pyconsumer.network.selector import Selector
from pyconsumer.network.unsent import UnsentRequests
from pyconsumer.protocol.api import ApiKey
from pyconsumer.structs import BrokerMetadata

__all__ = ["ConnectionPool"]

log = logging.getLogger("pyconsumer.network")

_MAX_INT32 = 0x7FFFFFFF
# At most this many channels use SO_RCVLOWAT read-ahead: each costs two system calls per wait.
_MOST_AHEAD = 8


class ConnectionPool:
    """See the module's docstring.

    Args:
        settings: for all links.
        selector, names: the owner's.
        unsent: the owner's; the pool completes what fails in it.
        request_timeout: seconds that TLS, ApiVersions and SASL may take together.
        max_idle: seconds after which an unused connection is closed.
        reconnect, setup: backoffs of the pauses between attempts and of the time that an attempt may take.
        max_in_flight: most unanswered requests on one connection; None for any number.
        canonical_bootstrap: look up canonical names of bootstrap addresses (KIP-235).
    """

    def __init__(
        self,
        settings: LinkSettings,
        selector: Selector,
        names: NameService,
        unsent: UnsentRequests,
        *,
        request_timeout: float,
        max_idle: float,
        reconnect: Backoff,
        setup: Backoff,
        max_in_flight: int | None,
        canonical_bootstrap: bool,
    ) -> None:
        self.peers: dict[int, Node] = {}
        self.stats = LinkStats()
        self.last_error: KafkaError | None = None
        """Why a node could not be reached or was lost last; None since one has answered after that."""
        self.happened = False
        """Whether a connection became ready, or something was received or failed, since the owner lowered it."""
        self.max_in_flight = max_in_flight
        self.where: Callable[[Node], BrokerMetadata | None] = lambda peer: None
        """Return the address of a node; None if it is not known."""
        self.on_lost: Callable[[Node, KafkaError, float], None] = lambda peer, error, now: None
        """Called when a link broke or could not be established."""
        self.bulk: dict[Channel, None] = {}
        """Links whose next answer is likely to be large, some of them if there are many; see :meth:`take_in`."""
        self._settings = settings
        self._selector = selector
        self._names = names
        self._unsent = unsent
        unsent.complete = self.complete
        self._request_timeout = request_timeout
        self._max_idle = max_idle
        self._reconnect = reconnect
        self._setup = setup
        self._canonical_bootstrap = canonical_bootstrap
        self._dirty: dict[Node, None] = {}
        self._timer_at = -math.inf
        self._served = True
        self._torn = False  # a turn is under way, or did not come to its end
        self._touched: Node | None = None  # whose link is being worked on
        self._completed: deque[tuple[Request, ClientResponse | KafkaError]] = deque()

    # -- peers -------------------------------------------------------------------------------------------------------

    @staticmethod
    def key(node_id: int, connection: str) -> int:
        """The number of a connection: for a coordinator's it is 2147483647 - node id, as in Kafka's own client."""
        if connection == "main":
            return node_id
        if connection != "coordinator":
            raise ValueError(f"connection must be 'main' or 'coordinator', not {connection!r}")
        return _MAX_INT32 - node_id

    def peer(self, node_id: int, connection: str = "main") -> Node:
        """The peer of a node, made if it is new."""
        key = self.key(node_id, connection)
        peer = self.peers.get(key)
        if peer is None:
            peer = self.peers[key] = Node(key, node_id)
        return peer

    def find(self, node_id: int, connection: str = "main") -> Node | None:
        """The peer of a node, if it was ever used."""
        return self.peers.get(self.key(node_id, connection))

    def remove(self, peer: Node, error: KafkaError | None = None) -> None:
        """Close the link, fail what waits, forget the peer."""
        self.drop_link(peer)
        if error is not None:
            self.fail_all(peer, error)
        self.peers.pop(peer.connection_key, None)
        self._dirty.pop(peer, None)

    def rename(self, peer: Node, node_id: int) -> None:
        """The node of a main connection turns out to have another id."""
        before = peer.connection_key
        peer.connection_key = peer.node_id = node_id
        self.peers[node_id] = peer
        self.peers.pop(before, None)

    def mark(self, peer: Node) -> None:
        """Look at a peer in the next turn."""
        self._dirty[peer] = None

    def enqueue(self, peer: Node, request: Request, *, first: bool = False) -> None:
        """Add a request to the unsent ones of a peer."""
        self._unsent.enqueue(peer, request, first=first)
        self._dirty[peer] = None

    # -- what is due -------------------------------------------------------------------------------------------------

    def turn(self, now: float, *, served: bool = True) -> float:
        """Do what is due; returns when something is due next.

        Args:
            served: whether the sockets were served since the owner was last away. Only then something is overdue: an
                answer may have lain in a socket all the time that the user spent between two polls.
        """
        self._served = served
        if self._torn or self._touched is not None:
            self._mend(now)
        self._torn = True
        for lookup in self._names.take():
            peer: Node = lookup.owner
            if peer.link is not None and peer.link.lookup is lookup and peer.link.is_looked_up:
                self._start(peer, peer.link, now)
        if now >= self._timer_at:
            self._dirty.clear()
            self._timer_at = math.inf
            for peer in list(self.peers.values()):
                self._serve(peer, now)
        while self._dirty:
            self._serve(self._dirty.popitem()[0], now)
        self._torn = False
        return self._timer_at

    def _mend(self, now: float) -> None:
        """The last turn did not come to its end: Ctrl-C interrupted it, or something raised.

        A link that was being worked on may be half connected, not registered, or out of step; it is given up. Lookups
        that were taken in are checked again, and so is every peer.
        """
        peer = self._touched
        if peer is not None and peer.link is not None:
            self.fail_link(peer, peer.link.interrupted(), now)
        elif peer is not None and peer.outstanding:
            text = f"connection to node {peer.node_id} closed: an interrupt fell into its end"
            self.fail_all(peer, KafkaConnectionError(text))
        self._touched = None
        for peer in list(self.peers.values()):
            if peer.link is not None and peer.link.is_looked_up:
                self._start(peer, peer.link, now)
        self._timer_at = -math.inf

    def _serve(self, peer: Node, now: float) -> None:
        """Look at one peer: what is overdue fails, what can be sent is sent."""
        self._touched = peer
        link = peer.link
        if link is not None and self._served:
            self._check_link(peer, link, now)
            link = peer.link
        if link is None and (peer.unsent or peer.wanted) and peer.health.may_connect(now):
            self.connect(peer, now)
            self._touched, link = peer, peer.link
        if link is not None and link.ready:
            self._transmit(peer, link, now)
        if self._served:
            self._unsent.expire(peer, now, lambda request: _unsent_too_long(peer, request))
        self._timer_at = min(self._timer_at, peer.next_deadline(now, self._max_idle))
        self._touched = None

    def _check_link(self, peer: Node, link: Channel, now: float) -> None:
        overdue = peer.timed_out(now)
        if overdue is not None and link.take_progress():
            # A large answer is on its way: it gets the time once more.
            overdue.expires_at = now + overdue.timeout
        elif overdue is not None:
            cause = f"no answer to {ApiKey(overdue.api_key).name} from {link.address} within {overdue.timeout:g} s"
            details = {"stage": link.stage, "address": link.address}
            self.complete(peer, overdue, RequestTimeoutError(cause, **details))
            self.fail_link(peer, KafkaConnectionError(f"connection closed: {cause}", **details), now)
        elif now >= link.deadline and peer.outstanding and not link.setting_up:
            # It authenticates again, and the broker has answers to give first; each of them has its own deadline.
            link.deadline = now + link.handshake_timeout
        elif now >= link.deadline:
            if link.reaching:
                peer.health.slow_setups += 1
            self._guard(peer, now, lambda: link.too_slow(now, peer.health.setup_timeout(self._setup)))
        elif link.ready and link.connection is not None:
            if now >= link.connection.reauthenticate_at:
                self._guard(peer, now, lambda: link.reauthenticate(now))
            elif not peer.outstanding and not peer.unsent and (peer.retired or now >= peer.last_used + self._max_idle):
                log.debug("closing the connection to %s, which is not used", link.address)
                self.drop_link(peer)

    def _transmit(self, peer: Node, link: Channel, now: float) -> None:
        connection = link.connection
        assert connection is not None
        if link.deadline != math.inf:
            link.deadline = math.inf
            self.happened = True
            peer.health.in_vain = False
            peer.auth_error = None
            peer.wanted = False
            peer.last_used = now
        unsent = self._unsent
        while (request := unsent.first(peer)) is not None and peer.has_room(now, self.max_in_flight):
            assert connection.versions is not None
            try:
                version = connection.versions.choose(
                    request.api_key, min_version=request.min_version, max_version=request.max_version
                )
                message = request.message(version)
                connection.send(message, version, request, now, expect_response=request.expect_response)
            except BaseException as error:
                outcome: KafkaError = RequestCancelledError("interrupted while the request was made")
                if isinstance(error, KafkaError):
                    outcome = error
                elif isinstance(error, Exception):
                    outcome = ProtocolError(f"the request could not be made: {error!r}")
                self.complete(peer, request, outcome)
                unsent.remove_first(peer)
                if isinstance(error, KafkaError):
                    continue
                if isinstance(error, Exception):
                    self._touched = None  # the connection has not seen it
                raise
            peer.outstanding[request] = None
            unsent.remove_first(peer)
            request.sent_at = peer.last_used = now
            request.expires_at = now + request.timeout
        if connection.has_output:
            self._guard(peer, now, lambda: self._written(peer, link.flush(), now))

    def _guard(self, peer: Node, now: float, action: Callable[[], object]) -> None:
        try:
            action()
        except KafkaError as error:
            self.fail_link(peer, error, now)

    # -- links -------------------------------------------------------------------------------------------------------

    def connect(self, peer: Node, now: float) -> None:
        """Begin to connect; what fails at once is treated as any failure."""
        broker = self.where(peer)
        if broker is None:
            peer.wanted = False
            self.fail_all(peer, KafkaConnectionError(f"node {peer.node_id} is not known any more", stage="DNS"))
            return
        self._touched = peer
        peer.health.attempt(now)
        peer.last_used = now
        address = printable_address(broker.host, broker.port)
        log.debug("connecting to node %s at %s", peer.node_id, address)
        canonical = self._canonical_bootstrap and peer.node_id < 0
        lookup = self._names.start(broker.host, broker.port, peer, canonical=canonical)
        link = peer.link = Channel(address, peer, lookup, self._settings, self._selector, self.stats)
        link.setup_timeout = peer.health.setup_timeout(self._setup)
        link.handshake_timeout = self._request_timeout
        link.deadline = now + link.setup_timeout
        if lookup.at_once:
            self._start(peer, link, now)
        self._timer_at = min(self._timer_at, peer.next_deadline(now, self._max_idle))
        self._touched = None

    def _start(self, peer: Node, link: Channel, now: float) -> None:
        self._touched = peer
        self._guard(peer, now, lambda: link.start(now))
        self.mark(peer)
        self._touched = None

    @staticmethod
    def drop_link(peer: Node) -> None:
        """Close the link, if there is one; nothing fails by that."""
        link = peer.link
        if link is None:
            return
        try:
            link.close()
        except BaseException:  # Ctrl-C: once more, as nobody else knows of the socket
            link.close()
            raise
        finally:
            peer.link = None

    def fail_link(self, peer: Node, error: KafkaError, now: float) -> None:
        """A link is over: everything that waits for it fails, and the node is left alone for a while."""
        link = peer.link
        address = link.address if link is not None else ""
        cause = error if isinstance(error, KafkaConnectionError) else KafkaConnectionError(str(error), address=address)
        was_up = link is not None and link.deadline == math.inf
        self.drop_link(peer)
        self.stats.connections_failed += 1
        # Each cause is logged once, until the node has answered: a broker that is away for an hour is one line.
        repeated = str(peer.health.last_error) == str(cause)
        level = logging.DEBUG if repeated else logging.INFO if was_up and not peer.health.failures else logging.WARNING
        log.log(level, "node %s: %s", peer.node_id, cause)
        peer.health.failed(now, cause, self._reconnect, in_vain=not was_up)
        self.last_error = cause
        peer.auth_error = error if isinstance(error, AuthenticationError) else None
        peer.wanted = False
        self.happened = True
        if error is not cause and peer.outstanding:
            # Protocol error: the oldest request in flight fails with it, the others with the connection error.
            self.complete(peer, next(iter(peer.outstanding)), error)
        self.fail_all(peer, cause)
        self.on_lost(peer, error, now)
        self.mark(peer)

    def take_in(self, ahead: bool) -> None:
        """Call :meth:`Channel.take_in` on all :attr:`bulk` channels, which must not be ahead while anybody waits."""
        for link in list(self.bulk):
            if link.owner.link is link:
                link.take_in(ahead)
            else:
                del self.bulk[link]

    def on_event(self, link: Channel, events: int, now: float) -> None:
        """The socket of a link can be read or written."""
        peer: Node = link.owner
        if peer.link is not link:
            link.close()  # Ctrl-C kept it from being closed
            return
        self._touched = peer
        replies: list[Reply] = []
        try:
            written = link.on_event(events, now, replies)
        except KafkaError as error:
            self._received(peer, replies, now)
            self.fail_link(peer, error, now)
            self._touched = None
            return
        if replies:
            if not link.is_bulk:
                self.bulk.pop(link, None)
            elif len(self.bulk) < _MOST_AHEAD:
                self.bulk[link] = None
        self._received(peer, replies, now)
        self._written(peer, written, now)
        self.mark(peer)
        self._touched = None

    def _received(self, peer: Node, replies: list[Reply], now: float) -> None:
        link = peer.link
        if replies and link is not None and not link.ready and not link.setting_up:
            link.deadline = now + link.handshake_timeout  # its own answer may be the next one
        if replies and peer.health.last_error is not None:
            peer.health.established()
            self.last_error = None
        elif replies and self.last_error is not None and peer.node_id >= 0:
            self.last_error = None
        for entry, message in replies:
            throttle_ms = getattr(message, "throttle_time_ms", 0)
            if throttle_ms:
                peer.throttled_until = now + throttle_ms / 1000  # KIP-219
            peer.last_used = now
            response = ClientResponse(message, entry.api_version, peer.node_id, now, now - entry.sent_at)
            self.complete(peer, entry.token, response)

    def _written(self, peer: Node, requests: list[Any], now: float) -> None:
        for request in requests:
            self.complete(peer, request, ClientResponse(None, -1, peer.node_id, now, now - request.sent_at))

    # -- completion --------------------------------------------------------------------------------------------------

    @property
    def has_completed(self) -> bool:
        """Return whether :meth:`fire` has something to do."""
        return bool(self._completed)

    def complete(self, peer: Node | None, request: Request, outcome: ClientResponse | KafkaError) -> None:
        """A request is over; its future is completed by :meth:`fire`."""
        self._completed.append((request, outcome))
        if peer is not None:
            peer.outstanding.pop(request, None)
        self.happened = True

    def fail_all(self, peer: Node, error: KafkaError) -> None:
        """Fail everything that waits for a peer, sent or not."""
        while peer.outstanding:
            self.complete(peer, next(iter(peer.outstanding)), error)
        self._unsent.fail(peer, error)

    def fire(self) -> bool:
        """Complete the futures of requests that are over, in order; returns whether there were any."""
        completed = self._completed
        if not completed:
            return False
        while completed:
            request, outcome = completed[0]
            future: RequestFuture[ClientResponse] = request.future
            if future.done:
                future.finish()
                completed.popleft()
                continue
            try:
                if isinstance(outcome, KafkaError):
                    future.fail(outcome)
                else:
                    future.complete(outcome)
            finally:
                # A callback may have fired the rest already, by closing the client; Ctrl-C may have come before it.
                if completed and completed[0][0] is request and (future.succeeded or future.failed):
                    completed.popleft()
        return True

    def close(self, error: KafkaError) -> None:
        """Close all links at once and fail what waits."""
        for peer in self.peers.values():
            self.drop_link(peer)
            self.fail_all(peer, error)

    def abandon(self) -> None:
        """Close the sockets and do nothing else: in a forked child, or when the client was dropped."""
        for peer in self.peers.values():
            if peer.link is not None:
                peer.link.abandon()


def _unsent_too_long(peer: Node, request: Request) -> KafkaError:
    name = ApiKey(request.api_key).name
    link, last = peer.link, peer.health.last_error
    text = f"{name} could not be sent to node {peer.node_id} within {round(request.timeout, 2):g} s"
    if link is not None:
        text += f"; stage {link.stage} with {link.address}"
    if last is not None:
        text += f"; last failure: {last}"
    stage = link.stage if link is not None else (last.stage if last is not None else "TCP")
    address = link.address if link is not None else (last.address if last is not None else "")
    return RequestTimeoutError(text, stage=stage, address=address)
