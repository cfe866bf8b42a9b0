"""The driver: one selector, one thread, one place that waits.

``send`` queues; ``poll`` does everything else: looks up names, connects, authenticates, writes, reads, refreshes
metadata, notices what is overdue, and runs the callbacks of futures, in this thread. Between calls nothing happens.

What is not obvious
* Callbacks run after all sockets of a turn have been served and after everything that broke has been cleaned up. They
  may send, and disconnect.
* A turn looks only at peers that something happened to, and at all of them when the earliest deadline has come: a poll
  costs the same with one broker and with a hundred.
* A link that Ctrl-C left in the middle of a transfer is marked; its next use breaks it. A request taken off a link
  stays in ``Peer.outstanding`` until its future is completed, so it cannot get lost in between.
* The bootstrap connection becomes the connection of the broker that it turns out to be, if that is advertised under
  the same address: no second connection, no second handshake.
"""

from __future__ import annotations

import functools
import logging
import math
import os
import random as _random
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from pyconsumer.clock import Clock, SystemClock
from pyconsumer.config import ClientConfig
from pyconsumer.errors import (
    AuthenticationError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    NoBrokersAvailableError,
    ProtocolError,
    RequestCancelledError,
    UnsupportedVersionError,
)
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.connection import Reply
from pyconsumer.network.dns import NameService, Resolver
from pyconsumer.network.future import RequestFuture
from pyconsumer.network.link import Link, LinkSettings, LinkStats
from pyconsumer.network.metadata import Metadata, MetadataQuery
from pyconsumer.network.peer import ClientResponse, Peer, Request, RequestBuilder, RequestTimeoutError
from pyconsumer.network.sasl import SaslMechanism, mechanism_factory
from pyconsumer.network.selection import Candidate, Standing, least_loaded
from pyconsumer.network.selector import EVENT_READ, Selector, Waker, new_selector
from pyconsumer.network.tls import make_context
from pyconsumer.network.waiting import Steps, drive
from pyconsumer.protocol.api import ApiKey, BrokerVersions
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import BrokerMetadata

__all__ = ["ClientResponse", "NetworkClient", "RequestBuilder", "RequestTimeoutError"]

T = TypeVar("T")

log = logging.getLogger("pyconsumer.network")

_MAX_INT32 = 0x7FFFFFFF
# While nothing is connected another candidate is tried beside one that is silent for so long (compare RFC 8305).
_NEXT_CANDIDATE_S = 0.25
_MAX_CANDIDATES = 4


class NetworkClient:
    """Requests to nodes, answers from them. Owned by one thread; only :meth:`wakeup` may be called by others.

    Args:
        config: the settings of :data:`pyconsumer.config.CLIENT_SETTINGS`.
        metadata: kept fresh by :meth:`poll`; None for a client that only talks to nodes it is told of.
        clock: the time.
        max_in_flight: most requests that wait for an answer on one connection; None for any number.
        selector, resolver, open_socket, random, sasl: replace parts in tests. ``sasl`` makes the mechanism of each
            authentication.
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
        sasl: Callable[[], SaslMechanism] | None = None,
    ) -> None:
        self.config = config
        self.metadata = metadata
        self.clock: Clock = clock or SystemClock()
        self.stats = LinkStats()
        self._max_in_flight = max_in_flight
        self._random = random
        self._request_timeout = config.request_timeout_ms / 1000
        self._max_idle = config.connections_max_idle_ms / 1000 if config.connections_max_idle_ms >= 0 else math.inf
        self._reconnect = Backoff.ms(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, random=random)
        self._setup = Backoff.ms(
            config.socket_connection_setup_timeout_ms, config.socket_connection_setup_timeout_max_ms, random=random
        )
        self._rebootstraps = config.metadata_recovery_strategy == "rebootstrap"
        sockets: dict[str, Any] = {} if open_socket is None else {"open_socket": open_socket}
        self._link_settings = LinkSettings(
            client_id=config.client_id,
            software_version=_version(),
            tls=make_context(config),
            sasl=sasl or mechanism_factory(config),
            send_buffer_bytes=config.send_buffer_bytes,
            receive_buffer_bytes=config.receive_buffer_bytes,
            random=random,
            **sockets,
        )
        self._canonical = config.client_dns_lookup == "resolve_canonical_bootstrap_servers_only"
        self._selector = selector or new_selector()
        self._waker = Waker()
        self._selector.register(self._waker, EVENT_READ, None)
        self._names = NameService(self._waker.wake, resolver)
        self._peers: dict[int, Peer] = {}
        self._told: dict[int, BrokerMetadata] = {}
        self._dirty: dict[Peer, None] = {}
        self._timer_at = -math.inf
        self._any: deque[Request] = deque()
        self._completed: deque[tuple[Request, ClientResponse | KafkaError]] = deque()
        self._query: MetadataQuery | None = None
        self._interrupted = False
        self._happened = False
        self._closed = False
        self._forked = False
        self.last_error: KafkaError | None = None
        """Why a node could not be reached or was lost last; None since a connection has become ready."""
        _clients.add(self)

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
        """Queue a request; the next :meth:`poll` or :meth:`flush` sends it, connecting first if need be.

        Args:
            node: a node id, or where the node listens if that did not come from metadata (a coordinator).
            api: the API key, or the request's class.
            request: the request, or a function that makes it for the version negotiated.
            timeout: seconds that it may wait to be sent, and then again for its answer; default ``request_timeout_ms``.
            connection: ``main`` or ``coordinator``, which is a connection of its own.
            min_version, max_version: what the caller can make use of.
            expect_response: False for a produce request with ``acks=0``; the future succeeds when it is written.

        Returns:
            A future of the answer. It fails with AuthenticationError or KafkaConnectionError (the node cannot be
            reached or was lost; RequestTimeoutError is one), UnsupportedVersionError, ProtocolError, or
            RequestCancelledError when this client is closed.
        """
        self._check_process()
        item = self._request(api, request, timeout, min_version, max_version, expect_response)
        if self._closed:
            item.future.fail(RequestCancelledError("the client is closed"))
            return item.future
        if isinstance(node, BrokerMetadata):
            peer = self._peer(node.node_id, connection)
            self._told[peer.connection_key] = node
        else:
            peer = self._peer(node, connection)
        peer.unsent.append(item)
        self._dirty[peer] = None
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
        """Queue a request for the least loaded node, whichever that is when one can be reached.

        Arguments and errors as :meth:`send`; NoBrokersAvailableError if no node could be reached in time.
        """
        self._check_process()
        item = self._request(api, request, timeout, min_version, max_version, True)
        if self._closed:
            item.future.fail(RequestCancelledError("the client is closed"))
        else:
            self._any.append(item)
        return item.future

    def _request(
        self,
        api: int | type[Message],
        request: Message | RequestBuilder,
        timeout: float | None,
        min_version: int,
        max_version: int | None,
        expect_response: bool,
    ) -> Request:
        api_key = api if isinstance(api, int) else api.API_KEY
        seconds = self._request_timeout if timeout is None else timeout
        return Request(api_key, request, self.clock.now(), seconds, min_version, max_version, expect_response)

    # -- waiting -----------------------------------------------------------------------------------------------------

    def poll(self, until: float, future: RequestFuture[Any] | None = None) -> None:
        """Do what is to be done, and wait for more.

        Sockets are served at least once. Then it returns when ``future`` is done; without a future, when anything was
        received or failed; in any case at ``until`` (monotonic seconds), or after :meth:`wakeup`.

        Raises:
            IllegalStateError: the client is closed, or belongs to another process.
        """
        self._check_open()
        polled = False
        happened = False
        while True:
            now = self.clock.now()
            next_at = self._turn(now)
            if self._completed:
                self._fire()
                next_at = self._turn(now)
            happened, self._happened = happened or self._happened, False
            done = happened if future is None else future.done
            if polled and (done or self._interrupted or now >= until):
                self._interrupted = False
                return
            timeout = 0.0 if done or self._interrupted or self._completed else min(until, next_at) - now
            self._select(max(timeout, 0.0))
            polled = True

    def run(self, steps: Steps[T], deadline: float = math.inf) -> T:
        """Run a blocking call written as a generator; see :func:`pyconsumer.network.waiting.drive`."""
        return drive(steps, deadline, self.poll, self.clock.now)

    def flush(self) -> None:
        """Send what can be sent now; wait for nothing and read nothing."""
        self._check_open()
        self._turn(self.clock.now())

    def fire(self) -> bool:
        """Run the callbacks of requests that are complete; returns whether there were any."""
        return self._fire()

    def wakeup(self) -> None:
        """Let the present :meth:`poll`, or the next one, return. May be called from any thread and signal handler."""
        self._interrupted = True
        self._waker.wake()

    def step(self, now: float) -> float:
        """For a driver that waits elsewhere (asyncio): one turn without waiting; returns when the next one is due.

        Call it again then, or as soon as :meth:`fileno` is readable.
        """
        self._check_open()
        self._turn(now)
        self._select(0.0)
        now = self.clock.now()
        due = self._turn(now)
        if self._fire():
            due = self._turn(now)
        self._happened = self._interrupted = False
        return now if self._completed else due

    def fileno(self) -> int:
        """File descriptor that is readable when there is something to do; OSError on a system without epoll, kqueue."""
        fileno = getattr(self._selector, "fileno", None)
        if fileno is None:
            raise OSError("this system's selector has no file descriptor")
        return int(fileno())

    def _select(self, timeout: float) -> None:
        events = self._selector.select(None if timeout == math.inf else timeout)
        now = self.clock.now()
        for key, mask in events:
            active: Link | None = key.data
            if active is None:
                self._waker.clear()
                continue
            peer: Peer = active.owner
            if peer.link is not active:
                continue
            replies: list[Reply] = []
            try:
                written = active.on_event(mask, now, replies)
            except KafkaError as error:
                self._take(peer, replies, now)
                self._link_failed(peer, error, now)
            else:
                self._take(peer, replies, now)
                for request in written:
                    self._complete(peer, request, self._no_response(peer, request, now))
                self._dirty[peer] = None

    # -- one turn ----------------------------------------------------------------------------------------------------

    def _turn(self, now: float) -> float:
        """Do what is due; returns when something is due next."""
        for lookup in self._names.take():
            peer: Peer = lookup.owner
            if peer.link is not None and peer.link.lookup is lookup:
                self._start(peer, now)
        metadata_at = self._refresh_metadata(now)
        any_at = self._place_any(now) if self._any else math.inf
        if now >= self._timer_at:
            self._dirty.clear()
            self._timer_at = math.inf
            for peer in list(self._peers.values()):
                self._serve(peer, now)
        while self._dirty:
            self._serve(self._dirty.popitem()[0], now)
        return min(self._timer_at, metadata_at, any_at)

    def _serve(self, peer: Peer, now: float) -> None:
        """Look at one peer: what is overdue fails, what can be sent is sent."""
        for request in peer.expired_unsent(now):
            self._complete(peer, request, self._unsent_too_long(peer, request))
        link = peer.link
        if link is not None:
            self._check_link(peer, link, now)
            link = peer.link
        if link is None and (peer.unsent or peer.wanted) and peer.health.may_connect(now):
            self._connect(peer, now)
            link = peer.link
        if link is not None and link.ready:
            peer.wanted = False
            self._transmit(peer, link, now)
        self._timer_at = min(self._timer_at, peer.next_deadline(self._max_idle))

    def _check_link(self, peer: Peer, link: Link, now: float) -> None:
        overdue = peer.timed_out(now)
        if overdue is not None:
            name = ApiKey(overdue.api_key).name
            cause = f"no answer to {name} from {link.address} within {overdue.timeout:g} s"
            error = RequestTimeoutError(cause, stage=link.stage, address=link.address)
            peer.outstanding.pop(overdue)
            self._complete(peer, overdue, error)
            self._link_failed(
                peer, KafkaConnectionError(f"connection closed: {cause}", stage=link.stage, address=link.address), now
            )
        elif now >= peer.link_deadline:
            self._setup_too_slow(peer, link, now)
        elif link.ready and link.connection is not None:
            if now >= link.connection.reauthenticate_at:
                peer.link_deadline = now + self._request_timeout
                self._guard(peer, now, lambda: self._reauthenticate(link, now))
            elif not peer.outstanding and not peer.unsent and now >= peer.last_used + self._max_idle:
                log.debug("closing the connection to %s, which was idle", link.address)
                self._drop_link(peer)

    @staticmethod
    def _reauthenticate(link: Link, now: float) -> None:
        assert link.connection is not None
        link.connection.reauthenticate(now)
        link.flush()

    def _setup_too_slow(self, peer: Peer, link: Link, now: float) -> None:
        if link.reaching:
            peer.health.slow_setups += 1
            self._set_deadline(peer, now)
            self._guard(peer, now, lambda: link.give_up_address("no answer in time", now))
        else:
            assert link.connection is not None
            self._link_failed(peer, link.connection.lost(f"no answer within {self._request_timeout:g} s"), now)

    def _transmit(self, peer: Peer, link: Link, now: float) -> None:
        connection = link.connection
        assert connection is not None
        if link.setting_up is False and peer.link_deadline != math.inf:
            self._became_ready(peer)
        while peer.unsent and peer.has_room(now, self._max_in_flight):
            request = peer.unsent[0]
            assert connection.versions is not None
            try:
                version = connection.versions.choose(
                    request.api_key, min_version=request.min_version, max_version=request.max_version
                )
                message = request.message(version)
                connection.send(message, version, request, now, expect_response=request.expect_response)
            except KafkaError as error:
                peer.unsent.popleft()
                self._complete(peer, request, error)
                continue
            except BaseException:
                peer.unsent.popleft()
                self._complete(peer, request, ProtocolError("the request could not be made"))
                raise
            peer.outstanding[request] = None
            peer.unsent.popleft()
            request.sent_at = peer.last_used = now
            request.expires_at = now + request.timeout
        if connection.has_output:
            self._guard(peer, now, lambda: self._flush(peer, link, now))

    def _flush(self, peer: Peer, link: Link, now: float) -> None:
        for request in link.flush():
            self._complete(peer, request, self._no_response(peer, request, now))

    def _guard(self, peer: Peer, now: float, action: Callable[[], object]) -> None:
        try:
            action()
        except KafkaError as error:
            self._link_failed(peer, error, now)

    # -- links -------------------------------------------------------------------------------------------------------

    def _peer(self, node_id: int, connection: str = "main") -> Peer:
        key = self.connection_key(node_id, connection)
        peer = self._peers.get(key)
        if peer is None:
            peer = self._peers[key] = Peer(key, node_id)
        return peer

    @staticmethod
    def connection_key(node_id: int, connection: str = "main") -> int:
        """By which number a connection is kept: a coordinator's is 2147483647 - node id, as in Kafka's own client."""
        if connection == "main":
            return node_id
        if connection != "coordinator":
            raise ValueError(f"connection must be 'main' or 'coordinator', not {connection!r}")
        return _MAX_INT32 - node_id

    def _where(self, peer: Peer) -> BrokerMetadata | None:
        told = self._told.get(peer.connection_key)
        known = self.metadata.broker(peer.node_id) if self.metadata is not None else None
        if peer.connection_key != peer.node_id or known is None:
            return told or known
        return known

    def _connect(self, peer: Peer, now: float) -> None:
        broker = self._where(peer)
        if broker is None:
            peer.wanted = False
            error = KafkaConnectionError(f"node {peer.node_id} is not known any more", stage="DNS")
            for request in peer.take_all():
                self._complete(peer, request, error)
            return
        peer.health.attempt(now)
        address = f"[{broker.host}]:{broker.port}" if ":" in broker.host else f"{broker.host}:{broker.port}"
        log.debug("connecting to node %s at %s", peer.node_id, address)
        canonical = self._canonical and peer.node_id < 0
        lookup = self._names.start(broker.host, broker.port, peer, canonical=canonical)
        peer.link = Link(address, peer, lookup, self._link_settings, self._selector, self.stats)
        self._set_deadline(peer, now)
        if lookup.done:
            self._start(peer, now)

    def _set_deadline(self, peer: Peer, now: float) -> None:
        peer.link_deadline = now + peer.health.setup_timeout(self._setup)

    def _start(self, peer: Peer, now: float) -> None:
        link = peer.link
        assert link is not None
        self._set_deadline(peer, now)
        self._guard(peer, now, lambda: link.start(now))
        self._dirty[peer] = None

    def _became_ready(self, peer: Peer) -> None:
        peer.link_deadline = math.inf
        peer.health.established()
        peer.auth_error = self.last_error = None

    def _drop_link(self, peer: Peer) -> None:
        link, peer.link = peer.link, None
        peer.link_deadline = math.inf
        if link is not None:
            link.close()

    def _link_failed(self, peer: Peer, error: KafkaError, now: float) -> None:
        """A link is over: everything that waits for it fails, and the node is left alone for a while."""
        link = peer.link
        address = link.address if link is not None else ""
        cause = error if isinstance(error, KafkaConnectionError) else KafkaConnectionError(str(error), address=address)
        was_up = link is not None and not link.setting_up
        self._drop_link(peer)
        self.stats.connections_failed += 1
        repeated = peer.health.failures > 0 and str(peer.health.last_error) == str(cause)
        log.log(logging.DEBUG if repeated or was_up else logging.WARNING, "node %s: %s", peer.node_id, cause)
        peer.health.failed(now, cause, self._reconnect)
        self.last_error = cause
        peer.auth_error = error if isinstance(error, AuthenticationError) else None
        peer.wanted = False
        self._happened = True
        for request in peer.take_all():
            self._complete(peer, request, error if request.sent_at > -math.inf else cause)
        if peer.auth_error is not None and peer.connection_key == peer.node_id:
            self._fail_any(error)
        if self.metadata is not None:
            if peer.auth_error is not None:
                self.metadata.failed(now, error, fatal=True)
            self.metadata.request_update()
        self._dirty[peer] = None

    def _fail_any(self, error: KafkaError) -> None:
        if any(peer.ready for peer in self._main_peers()):
            return
        while self._any:
            self._completed.append((self._any.popleft(), error))

    # -- completion --------------------------------------------------------------------------------------------------

    def _take(self, peer: Peer, replies: list[Reply], now: float) -> None:
        for entry, message in replies:
            request: Request = entry.token
            throttle_ms = getattr(message, "throttle_time_ms", 0)
            if throttle_ms:
                peer.throttled_until = now + throttle_ms / 1000  # KIP-219
            peer.last_used = now
            response = ClientResponse(message, entry.api_version, peer.node_id, now, now - entry.sent_at)
            self._complete(peer, request, response)

    def _complete(self, peer: Peer, request: Request, outcome: ClientResponse | KafkaError) -> None:
        self._completed.append((request, outcome))
        peer.outstanding.pop(request, None)
        self._happened = True

    @staticmethod
    def _no_response(peer: Peer, request: Request, now: float) -> ClientResponse:
        return ClientResponse(None, -1, peer.node_id, now, now - request.sent_at)

    def _fire(self) -> bool:
        completed = self._completed
        if not completed:
            return False
        while completed:
            request, outcome = completed[0]
            future = request.future
            if not future.done:
                try:
                    if isinstance(outcome, KafkaError):
                        future.fail(outcome)
                    else:
                        future.complete(outcome)
                finally:
                    if completed and completed[0][0] is request:
                        completed.popleft()
            else:
                completed.popleft()
        return True

    def _unsent_too_long(self, peer: Peer, request: Request) -> KafkaError:
        name = ApiKey(request.api_key).name
        link, last = peer.link, peer.health.last_error
        text = f"{name} could not be sent to node {peer.node_id} within {request.timeout:g} s"
        if link is not None:
            text += f"; stage {link.stage} with {link.address}"
        if last is not None:
            text += f"; last failure: {last}"
        return RequestTimeoutError(
            text,
            stage=link.stage if link else (last.stage if last else "TCP"),
            address=link.address if link else (last.address if last else ""),
        )

    # -- any node, and metadata --------------------------------------------------------------------------------------

    def _main_peers(self) -> list[Peer]:
        """Peers of all brokers known, in metadata's order; without metadata, of all nodes told of."""
        if self.metadata is None:
            return [peer for peer in self._peers.values() if peer.connection_key == peer.node_id]
        return [self._peer(broker.node_id) for broker in self.metadata.brokers()]

    def _best(self, now: float) -> tuple[Peer | None, Standing]:
        candidates = [
            Candidate(
                peer.node_id,
                peer.standing(now, self._max_in_flight),
                len(peer.outstanding) + len(peer.unsent),
                peer.health.last_attempt,
            )
            for peer in self._main_peers()
        ]
        best = least_loaded(candidates, int(self._random() * len(candidates)) if candidates else 0)
        if best is None:
            return None, Standing.UNAVAILABLE
        return self._peers[best.node_id], best.standing

    def _connect_some(self, now: float) -> float:
        """No node is ready: see to it that one is being connected. Returns when to look again."""
        peers = self._main_peers()
        connecting = [peer for peer in peers if peer.link is not None and peer.link.setting_up]
        idle = [peer for peer in peers if peer.link is None]
        allowed = [peer for peer in idle if peer.health.may_connect(now)]
        newest = max((peer.health.last_attempt for peer in connecting), default=-math.inf)
        if allowed and len(connecting) < _MAX_CANDIDATES and now >= newest + _NEXT_CANDIDATE_S:
            start = int(self._random() * len(allowed))
            chosen = min(allowed[start:] + allowed[:start], key=lambda peer: peer.health.last_attempt)
            self._connect(chosen, now)
            self._timer_at = min(self._timer_at, chosen.next_deadline(self._max_idle))
            newest = now
        if len(connecting) >= _MAX_CANDIDATES:
            return math.inf
        if any(peer.link is None and peer.health.may_connect(now) for peer in peers):
            return max(newest + _NEXT_CANDIDATE_S, now)
        return min((peer.health.backoff_until for peer in peers if peer.link is None), default=math.inf)

    def _place_any(self, now: float) -> float:
        waiting = self._any
        while waiting and now >= waiting[0].expires_at:
            request = waiting.popleft()
            self._completed.append((request, self._nobody(request)))
            self._happened = True
        while waiting:
            peer, standing = self._best(now)
            if peer is None or standing is not Standing.READY:
                return min(self._connect_some(now), waiting[0].expires_at)
            peer.unsent.append(waiting.popleft())
            self._dirty[peer] = None
        return math.inf

    def _nobody(self, request: Request) -> KafkaError:
        name = ApiKey(request.api_key).name
        return NoBrokersAvailableError(
            f"no broker could be reached for {name} within {request.timeout:g} s: {self.failures()}", stage="TCP"
        )

    def failures(self) -> str:
        """What is known of the nodes that cannot be reached: stage, address and last cause of each."""
        found = []
        for peer in self._peers.values():
            if peer.ready:
                continue
            if peer.health.last_error is not None:
                found.append(str(peer.health.last_error))
            elif peer.link is not None:
                found.append(f"{peer.link.stage} with {peer.link.address} is under way")
        return "; ".join(dict.fromkeys(found)) or "nothing has failed so far"

    def _refresh_metadata(self, now: float) -> float:
        metadata = self.metadata
        if metadata is None or self._query is not None:
            return math.inf
        due = metadata.next_update_at(now)
        if due > now:
            return due
        if metadata.must_rebootstrap(now):
            self._rebootstrap(now, "no metadata could be had for too long")
        peer, standing = self._best(now)
        if peer is None and self._rebootstraps and self._out_of_reach(now):
            self._rebootstrap(now, "no known broker can be reached")
            peer, standing = self._best(now)
        if peer is None or standing is not Standing.READY:
            return self._connect_some(now)
        self._query = query = metadata.query(now)
        request = self._request(ApiKey.METADATA, query.request, None, 4, None, True)
        request.future.add_callback(lambda future: self._on_metadata(peer, query, future))
        peer.unsent.appendleft(request)
        self._dirty[peer] = None
        return math.inf

    def _out_of_reach(self, now: float) -> bool:
        metadata = self.metadata
        if metadata is None or metadata.is_bootstrap:
            return False
        return all(peer.link is None for peer in self._main_peers())

    def _rebootstrap(self, now: float, why: str) -> None:
        assert self.metadata is not None
        log.warning("starting over with bootstrap_servers: %s (%s)", why, self.failures())
        error = KafkaConnectionError(f"starting over with bootstrap_servers: {why}")
        for peer in [peer for peer in self._peers.values() if peer.connection_key == peer.node_id]:
            self._drop_link(peer)
            for request in peer.take_all():
                self._complete(peer, request, error)
            del self._peers[peer.connection_key]
            self._dirty.pop(peer, None)
        self.metadata.rebootstrap()

    def _on_metadata(self, peer: Peer, query: MetadataQuery, future: RequestFuture[ClientResponse]) -> None:
        assert self.metadata is not None
        self._query = None
        now = self.clock.now()
        error = future.exception
        if error is not None:
            self.metadata.failed(now, error, fatal=isinstance(error, (UnsupportedVersionError, AuthenticationError)))
            return
        response = future.value
        if not self.metadata.update(response.message, response.api_version, now, query):
            self._rebootstrap(now, "a broker asked for it")
            return
        if peer.node_id < 0:
            self._leave_bootstrap(peer)

    def _leave_bootstrap(self, peer: Peer) -> None:
        assert self.metadata is not None
        if self.metadata.is_bootstrap:
            return
        if peer.link is not None:
            for broker in self.metadata.brokers():
                if peer.link.address == str(f"{broker.host}:{broker.port}") and broker.node_id not in self._peers:
                    del self._peers[peer.connection_key]
                    peer.connection_key = peer.node_id = broker.node_id
                    self._peers[broker.node_id] = peer
                    break
        for other in list(self._peers.values()):
            if other.node_id < 0:
                if not other.outstanding and not other.unsent:
                    self._drop_link(other)
                    del self._peers[other.connection_key]
                    self._dirty.pop(other, None)
                else:
                    other.last_used = -math.inf  # closed as idle when its answers have come
                    self._timer_at = -math.inf

    # -- state -------------------------------------------------------------------------------------------------------

    def least_loaded_node(self) -> int | None:
        """The node that a request which any node can answer would best go to; None if none can be reached now."""
        peer, _ = self._best(self.clock.now())
        return peer.node_id if peer is not None else None

    def connect(self, node: int | BrokerMetadata, connection: str = "main") -> None:
        """Begin to connect at the next poll, without a request."""
        self._check_open()
        peer = self._peer(node.node_id if isinstance(node, BrokerMetadata) else node, connection)
        if isinstance(node, BrokerMetadata):
            self._told[peer.connection_key] = node
        peer.wanted = True
        self._dirty[peer] = None

    def disconnect(self, node_id: int, connection: str = "main", *, cause: str = "disconnected by this client") -> None:
        """Close a connection; what waits for it fails with KafkaConnectionError at the next poll."""
        self._check_open()
        peer = self._peers.get(self.connection_key(node_id, connection))
        if peer is None:
            return
        address = peer.link.address if peer.link is not None else ""
        self._drop_link(peer)
        peer.wanted = False
        error = KafkaConnectionError(f"connection to {address or node_id} closed: {cause}", address=address)
        for request in peer.take_all():
            self._complete(peer, request, error)

    def fail_unsent(self, node_id: int, connection: str, error: KafkaError) -> None:
        """Fail what has not been sent to a node."""
        peer = self._peers.get(self.connection_key(node_id, connection))
        while peer is not None and peer.unsent:
            self._complete(peer, peer.unsent.popleft(), error)

    def in_flight(self, node_id: int | None = None, connection: str = "main") -> int:
        """How many requests wait for an answer, of one connection or (None) of all."""
        if node_id is None:
            return sum(len(peer.outstanding) for peer in self._peers.values())
        peer = self._peers.get(self.connection_key(node_id, connection))
        return len(peer.outstanding) if peer is not None else 0

    def unsent(self, node_id: int | None = None, connection: str = "main") -> int:
        """How many requests wait to be sent, on one connection or (None) on all, those for any node included."""
        if node_id is None:
            return len(self._any) + sum(len(peer.unsent) for peer in self._peers.values())
        peer = self._peers.get(self.connection_key(node_id, connection))
        return len(peer.unsent) if peer is not None else 0

    def connection_state(self, node_id: int, connection: str = "main") -> str:
        """``disconnected``, ``backoff``, ``connecting`` (authentication included) or ``ready``."""
        peer = self._peers.get(self.connection_key(node_id, connection))
        if peer is None:
            return "disconnected"
        if peer.link is not None:
            return "connecting" if peer.link.setting_up else "ready"
        return "disconnected" if peer.health.may_connect(self.clock.now()) else "backoff"

    def backoff_until(self, node_id: int, connection: str = "main") -> float:
        """When the node may be tried again (monotonic seconds); -inf if it may be now."""
        peer = self._peers.get(self.connection_key(node_id, connection))
        return peer.health.backoff_until if peer is not None and peer.link is None else -math.inf

    def node_error(self, node_id: int, connection: str = "main") -> KafkaError | None:
        """Why a node could not be reached or was lost last; None since a connection is ready."""
        peer = self._peers.get(self.connection_key(node_id, connection))
        if peer is None:
            return None
        return peer.auth_error or peer.health.last_error

    def api_versions(self, node_id: int, connection: str = "main") -> BrokerVersions | None:
        """What a node supports; None while it is not connected."""
        peer = self._peers.get(self.connection_key(node_id, connection))
        link = peer.link if peer is not None else None
        return link.connection.versions if link is not None and link.connection is not None else None

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Close all connections at once; what waits fails with RequestCancelledError. A second call changes nothing."""
        if self._closed:
            return
        self._closed = True
        _clients.discard(self)
        if self._forked:
            return
        error = RequestCancelledError("the client was closed")
        for peer in self._peers.values():
            self._drop_link(peer)
            for request in peer.take_all():
                self._complete(peer, request, error)
        self._completed.extend((request, error) for request in self._any)
        self._any.clear()
        self._selector.close()
        self._waker.close()
        self._fire()

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateError("the client is closed")
        self._check_process()

    def _check_process(self) -> None:
        if self._forked:
            raise IllegalStateError("the client belongs to the process before the fork; make a new one in the child")

    def _after_fork(self) -> None:
        """In the child. The epoll instance is the parent's too: descriptors are closed, nothing is unregistered."""
        self._forked = True
        for peer in self._peers.values():
            if peer.link is not None:
                peer.link.abandon()
        self._selector.close()
        self._waker.close()


@functools.cache
def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        return version("pyconsumer")
    except PackageNotFoundError:  # run from a zip, as in a Spark worker
        return "unknown"


_clients: weakref.WeakSet[NetworkClient] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for client in list(_clients):
        client._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
