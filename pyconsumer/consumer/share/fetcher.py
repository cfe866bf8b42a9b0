"""``ShareFetcher``: sends ShareFetch and ShareAcknowledge, and takes their responses. A thin driver of the sessions.

Rules

1. Records are fetched only while a call waits for some. What was acquired is locked, so nothing is fetched ahead.
2. One request at a time is in flight for each broker. Acknowledgements leave with the next ShareFetch, or alone, by
   ShareAcknowledge: when no records are needed, for a renewal, and for a partition that is not read any more.
3. An acknowledgement goes to the broker that the record was acquired from. If the leader has changed since, it fails.
   The new leader has released what was acquired from the old one.
4. The outcome of each acknowledgement is reported once: to the commit that waits for it, to the callback, and to the
   metrics.
5. ``INVALID_RECORD_STATE`` concerns all acknowledgements of a partition in a request: the broker applies all or none.
   Usually the lock of some records has expired. So those whose lock has expired by our clock fail, and the others are
   sent again.
6. A session that is lost takes its acquired records with it (rule 3 of :mod:`.session`): those that are buffered are
   dropped.
7. A lock that is renewed is counted from the request. Its response may have waited long in the socket.
8. With ``share_acquire_mode="record_limit"`` one broker at a time is asked, in turn, so that a poll acquires no more
   than ``max_poll_records``.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from pyconsumer.consumer.share.acknowledgements import Delivery, Piece, Source
from pyconsumer.consumer.share.acquired_fetch import AcquiredFetch
from pyconsumer.consumer.share.context import ShareContext
from pyconsumer.consumer.share.fetch_size import FetchSize
from pyconsumer.consumer.share.membership import UNSUPPORTED
from pyconsumer.consumer.share.metrics import ShareMetrics
from pyconsumer.consumer.share.requests import acknowledge_request, fetch_request
from pyconsumer.consumer.share.session import Key, Queued, ShareSession, Ticket
from pyconsumer.errors import (
    Errors,
    KafkaError,
    ShareSessionNotFoundError,
    UnknownServerError,
    UnsupportedVersionError,
    for_code,
)
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.client_requests import ClientResponse
from pyconsumer.network.futures import RequestFuture
from pyconsumer.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from pyconsumer.protocol.messages.share_fetch import (
    FIRST_VERSION_WITH_RENEW,
    NodeEndpoint,
    PartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from pyconsumer.structs import AcknowledgeType, BrokerMetadata, TopicPartition

__all__ = ["Outcome", "ShareFetcher"]

_log = logging.getLogger("pyconsumer.consumer")

Outcome = Callable[[Queued, KafkaError | None], object]
"""Is called once for acknowledgements, with their error or None."""

Place = tuple[bytes, int]
"""A partition, as requests and responses name it: the topic's id and the number."""

Wanted = Mapping[int, Mapping[Place, Key]]
"""The partitions to ask for, by leader."""

_ENDED: Final = "the share session in which the records were acquired ended"

#: Errors of a partition after which its leader must be looked up again.
_MOVED: Final = frozenset(
    (
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.FENCED_LEADER_EPOCH,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.UNKNOWN_TOPIC_ID,
        Errors.KAFKA_STORAGE_ERROR,
    )
)


class _Plan(NamedTuple):
    """The partitions to ask for, as long as nothing changes."""

    assignment: Mapping[TopicPartition, bytes]
    version: tuple[int, int]  # of the metadata
    wanted: Wanted


class ShareFetcher:
    """Sends the requests of all share sessions. See the module.

    Args:
        context: the parts of the consumer.
        member_id: returns the id of the member.
        metrics: the consumer's counters.
        on_outcome: see :data:`Outcome`.
        on_lost: is called with the node whose session is lost, with all that was acquired in it.

    Attributes:
        buffer: acquired records that are not delivered yet.
        renewed: records that were renewed, to be returned by the next poll.
        again: records that were taken and never seen by the application, to be returned by the next poll.
        lock_timeout_ms: the lock's duration that a broker named last. None before the first response.
    """

    def __init__(
        self,
        context: ShareContext,
        member_id: Callable[[], str],
        metrics: ShareMetrics,
        on_outcome: Outcome,
        on_lost: Callable[[int], object] | None = None,
    ) -> None:
        self._config, self._client, self._metadata, self._clock = context
        self._member_id = member_id
        self._metrics = metrics
        self._on_outcome = on_outcome
        self._on_lost = on_lost
        self._backoff = Backoff.ms(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        self._not_before: dict[TopicPartition, float] = {}  # partitions that had an error
        self._sent: dict[int, list[Queued]] = {}  # acknowledgements in flight, by node
        self._sizes: dict[int, FetchSize] = {}  # by node
        self._plan: _Plan | None = None
        self._errors: deque[Exception] = deque()
        self._last_node = -1  # that was asked, in turn
        self.sessions: dict[int, ShareSession] = {}
        self.buffer: deque[AcquiredFetch] = deque()
        self.renewed: list[Delivery] = []
        self.again: list[Delivery] = []
        self.lock_timeout_ms: int | None = None

    # -- what calls ask ----------------------------------------------------------------------------------------------

    def take_error(self) -> Exception | None:
        """Remove and return the oldest error that a poll must raise."""
        return self._errors.popleft() if self._errors else None

    def keep_error(self, error: Exception) -> None:
        """Let the next poll raise an error, once."""
        if not any(known is error for known in self._errors):
            self._errors.append(error)

    @property
    def has_records(self) -> bool:
        """Return whether a poll may return anything without a fetch."""
        return bool(self.buffer or self.again or self.renewed)

    @property
    def is_renewing(self) -> bool:
        """Return whether a renewal is queued or in flight whose records a poll returns again."""
        queued = (each for session in self.sessions.values() for each in session.queue)
        sent = (each for several in self._sent.values() for each in several)
        return any(
            piece.kind == AcknowledgeType.RENEW and not piece.stays
            for each in (*queued, *sent)
            for piece in each.pieces
        )

    @property
    def has_queued(self) -> bool:
        """Return whether acknowledgements wait to be sent."""
        return any(session.queue for session in self.sessions.values())

    @property
    def is_busy(self) -> bool:
        """Return whether a request is in flight."""
        return any(session.is_busy for session in self.sessions.values())

    def next_due_at(self, now: float) -> float:
        """Return when something can be sent that cannot be sent now (seconds). Infinity if there is nothing."""
        times = [session.retry_at for session in self.sessions.values()]
        return min((at for at in (*times, *self._not_before.values()) if at > now), default=math.inf)

    def acknowledge(self, queued: Queued) -> None:
        """Queue acknowledgements."""
        if queued.ticket is not None:
            queued.ticket.add(queued.source.topic_partition)
        session = self.sessions.get(queued.source.node_id)
        is_lost = any(piece.locked_until == -math.inf for piece in queued.pieces)
        if session is None or not session.is_open or is_lost:
            self._finish(queued, ShareSessionNotFoundError(_ENDED))
            return
        session.enqueue(queued)

    def has(self, queued: Queued) -> bool:
        """Return whether acknowledgements wait to be sent."""
        return any(each is queued for session in self.sessions.values() for each in session.queue)

    def adopt(self, ticket: Ticket) -> None:
        """Let a commit wait for all queued acknowledgements, and for those in flight of a commit that waits no more."""
        for session in self.sessions.values():
            self._adopt(session.queue, ticket, of_commits=False)
        for sent in self._sent.values():
            self._adopt(sent, ticket, of_commits=True)

    def _adopt(self, several: list[Queued], ticket: Ticket, *, of_commits: bool) -> None:
        for at, queued in enumerate(several):
            if queued.ticket is not ticket and (queued.ticket is not None or not of_commits):
                ticket.add(queued.source.topic_partition)
                several[at] = queued._replace(ticket=ticket)

    def drop_queued(self) -> None:
        """Let the acknowledgements fail that wait to be sent, because the consumer is being closed."""
        for session in self.sessions.values():
            for queued in session.drop_queue():
                self._finish(queued, ShareSessionNotFoundError(_ENDED))

    # -- sending -----------------------------------------------------------------------------------------------------

    def send_fetches(self, assignment: Mapping[TopicPartition, bytes]) -> bool:
        """Send a ShareFetch to each free leader of assigned partitions. Return whether anything was sent."""
        now = self._clock.now()
        wanted = self._wanted(assignment, now)
        sent = self.send_acknowledgements(unless=wanted)
        for node_id in self._in_turn(wanted, now):
            session = self.sessions.get(node_id)
            if session is None:
                session = self.sessions[node_id] = ShareSession(node_id)
            if not session.is_busy and session.retry_at <= now:
                self._send_fetch(session, wanted[node_id])
                sent = True
        return sent

    def _wanted(self, assignment: Mapping[TopicPartition, bytes], now: float) -> Wanted:
        """Return the partitions to ask for, by leader. The same object as before if nothing has changed."""
        metadata = self._metadata
        plan, version = self._plan, (metadata.update_count, metadata.leaders_version)
        if plan is not None and plan.assignment is assignment and plan.version == version and not self._not_before:
            return plan.wanted
        is_whole = not self._not_before
        wanted: dict[int, dict[Place, Key]] = {}
        for tp, topic_id in assignment.items():
            found = metadata.leader(tp)
            if found is None or found.leader < 0:
                metadata.request_update()
                is_whole = False
            elif metadata.topic_id(tp.topic) != topic_id:
                metadata.request_update()  # it was created again, and we or the coordinator do not know yet
                is_whole = False
            elif self._not_before.get(tp, now) <= now:
                wanted.setdefault(found.leader, {})[topic_id, tp.partition] = Key(topic_id, tp)
        self._not_before = {tp: at for tp, at in self._not_before.items() if at > now}
        self._plan = _Plan(assignment, version, wanted) if is_whole else None
        return wanted

    def _in_turn(self, nodes: Collection[int], now: float) -> Iterable[int]:
        if not self._config.limits_records or len(nodes) < 2:
            return tuple(nodes)
        ready = [node for node in nodes if node not in self.sessions or self.sessions[node].retry_at <= now]
        if self.is_busy or not ready:
            return ()
        self._last_node = min((node for node in ready if node > self._last_node), default=min(ready))
        return (self._last_node,)

    def _send_fetch(self, session: ShareSession, wanted: Mapping[Place, Key]) -> None:
        is_open = session.is_open
        added, forgotten = session.want(wanted)
        queue = session.take_queue() if is_open else []
        epoch = session.begin()
        max_bytes = self._size(session.node_id).of(len(session.partitions))
        request = fetch_request(self._config, self._member_id(), epoch, added, forgotten, queue, max_bytes)
        self._sent[session.node_id] = queue
        future = self._client.send(session.node_id, ShareFetchRequest, request)
        future.add_callback(partial(self._on_fetch, session, wanted, self._clock.now()))

    def _size(self, node_id: int) -> FetchSize:
        size = self._sizes.get(node_id)
        if size is None:
            config = self._config
            size = FetchSize(config.fetch_max_bytes, config.fetch_min_bytes, config.max_poll_records)
            self._sizes[node_id] = size
        return size

    def send_acknowledgements(self, *, unless: Wanted | None = None) -> bool:
        """Send the queued acknowledgements alone. Return whether anything was sent.

        Args:
            unless: the partitions that a ShareFetch is about to name, by node. Acknowledgements of these wait for it.
        """
        sent = False
        now = self._clock.now()
        for session in self.sessions.values():
            if session.is_busy or not session.queue or session.retry_at > now:
                continue
            named = None if unless is None else unless.get(session.node_id)
            waits = named is not None and all(_place(queued.source) in named for queued in session.queue)
            if waits and not session.has_renewals:
                continue
            self.send_acknowledgement(session)
            sent = True
        return sent

    def send_acknowledgement(self, session: ShareSession, *, close: bool = False) -> None:
        """Send the queued acknowledgements of one session, and with ``close`` end the session."""
        queue = session.take_queue()
        request = acknowledge_request(self._config, self._member_id(), session.begin(close=close), queue)
        self._sent[session.node_id] = queue
        needed = FIRST_VERSION_WITH_RENEW if request.is_renew_ack else 0
        future = self._client.send(session.node_id, ShareAcknowledgeRequest, request, min_version=needed)
        future.add_callback(partial(self._on_acknowledged, session, close, self._clock.now()))

    # -- responses ---------------------------------------------------------------------------------------------------

    def _on_fetch(
        self, session: ShareSession, asked: Mapping[Place, Key], sent_at: float, future: RequestFuture[ClientResponse]
    ) -> None:
        queue = self._sent.pop(session.node_id, [])
        message = self._message(session, queue, future)
        if message is None:
            self._metrics.on_fetch_failure()
            return
        assert isinstance(message, ShareFetchResponse)
        now = self._clock.now()
        if message.acquisition_lock_timeout_ms > 0:
            self.lock_timeout_ms = message.acquisition_lock_timeout_ms
        locked_until = self._locked_until(sent_at)
        sizes: dict[str, int] = {}
        results: dict[Place, int] = {}
        acquired = 0
        for topic in message.responses:
            topic_id = bytes(topic.topic_id)
            for part in topic.partitions:
                place = topic_id, part.partition_index
                results[place] = part.acknowledge_error_code
                if place in asked:
                    source = Source(session.node_id, *asked[place])
                    self._take(source, part, message.node_endpoints, locked_until, sizes)
                    acquired += sum(each.last_offset - each.first_offset + 1 for each in part.acquired_records)
        self._size(session.node_id).on_response(acquired, sum(sizes.values()))
        self._metrics.on_fetch(now - sent_at, sizes, message.throttle_time_ms, now)
        self._report(queue, results, sent_at)

    def _take(
        self,
        source: Source,
        part: PartitionData,
        endpoints: Collection[NodeEndpoint],
        locked_until: float,
        sizes: dict[str, int],
    ) -> None:
        tp = source.topic_partition
        if part.error_code:
            self._on_partition_error(tp, part, endpoints)
        elif part.acquired_records:
            records = part.records or b""
            sizes[tp.topic] = sizes.get(tp.topic, 0) + len(records)
            try:
                fetch = AcquiredFetch(
                    source,
                    records,
                    part.acquired_records,
                    locked_until=locked_until,
                    check_crcs=self._config.check_crcs,
                )
            except KafkaError as error:
                self._errors.append(error)
            else:
                self.buffer.append(fetch)

    def _on_partition_error(self, tp: TopicPartition, part: PartitionData, endpoints: Collection[NodeEndpoint]) -> None:
        code = part.error_code
        error = for_code(code, f"ShareFetch of {tp}" + (f": {part.error_message}" if part.error_message else ""))
        leader = part.current_leader
        if isinstance(error, UnknownServerError):
            # A broker of 4.3.1 says so until the state of a deleted group has begun again. Java logs it, too.
            self._not_before[tp] = self._clock.now() + self._backoff.delay(3)
            _log.warning("%s", error)
        elif code in _MOVED or error.retriable:
            self._not_before[tp] = self._clock.now() + self._backoff.delay(0)
            brokers = [BrokerMetadata(each.node_id, each.host, each.port, each.rack) for each in endpoints]
            if leader.leader_id < 0 or not self._metadata.update_leaders(
                {tp: (leader.leader_id, leader.leader_epoch)}, brokers
            ):
                self._metadata.request_update()
            _log.debug("%s", error)
        else:
            self._not_before[tp] = self._clock.now() + self._backoff.delay(3)
            self._errors.append(error)

    def _on_acknowledged(
        self, session: ShareSession, closes: bool, sent_at: float, future: RequestFuture[ClientResponse]
    ) -> None:
        queue = self._sent.pop(session.node_id, [])
        message = self._message(session, queue, future)
        if closes:
            session.reset()
        if message is None:
            return
        assert isinstance(message, ShareAcknowledgeResponse)
        if message.acquisition_lock_timeout_ms > 0:
            self.lock_timeout_ms = message.acquisition_lock_timeout_ms
        results: dict[Place, int] = {}
        for topic in message.responses:
            topic_id = bytes(topic.topic_id)
            for part in topic.partitions:
                results[topic_id, part.partition_index] = part.error_code
        self._report(queue, results, sent_at)

    def _message(
        self, session: ShareSession, queue: list[Queued], future: RequestFuture[ClientResponse]
    ) -> ShareFetchResponse | ShareAcknowledgeResponse | None:
        """Return a response, or None after recording that there is none, or that the broker refused all of it."""
        retry_at = self._clock.now() + self._backoff.delay(session.failures)
        error = future.exception
        if error is None:
            message = future.value.message
            assert isinstance(message, (ShareFetchResponse, ShareAcknowledgeResponse))
            code = message.error_code
            if not code:
                session.on_success()
                return message
            detail = f": {message.error_message}" if message.error_message else ""
            error = for_code(code, f"share session with broker {session.node_id}{detail}")
            session.on_refusal(code, retry_at)
            _log.info("%s", error)
        elif isinstance(error, UnsupportedVersionError) and session.is_open:
            session.on_unsent()
            renews = any(piece.kind == AcknowledgeType.RENEW for queued in queue for piece in queued.pieces)
            cause = "the broker does not renew locks (KIP-1222, Apache Kafka 4.2)" if renews else UNSUPPORTED
            error = UnsupportedVersionError(f"{cause}; {error}")
        else:
            session.on_failure(retry_at)
            self._metadata.request_update()
            if isinstance(error, UnsupportedVersionError):
                error = UnsupportedVersionError(f"{UNSUPPORTED}; {error}")
        if not session.is_open:
            self._lose(session, error)
        for queued in queue:
            self._finish(queued, error)
        # A broker of 4.3.1 says UNKNOWN_SERVER_ERROR while a topic is deleted. Java retries it, too.
        passes = error.retriable or isinstance(error, UnknownServerError)
        if not passes and not any(type(known) is type(error) for known in self._errors):
            self._errors.append(error)
        return None

    def _lose(self, session: ShareSession, error: KafkaError) -> None:
        """Drop what was acquired in a lost session (rule 6)."""
        dropped = [fetch for fetch in self.buffer if fetch.source.node_id == session.node_id]
        if dropped:
            self.buffer = deque(fetch for fetch in self.buffer if fetch.source.node_id != session.node_id)
            _log.info("the share session with broker %d is lost, with records not delivered yet", session.node_id)
        self.renewed = [each for each in self.renewed if each.source.node_id != session.node_id]
        self.again = [each for each in self.again if each.source.node_id != session.node_id]
        for queued in session.drop_queue():
            self._finish(queued, error)
        if self._on_lost is not None:
            self._on_lost(session.node_id)

    def take_renewed(self) -> list[Delivery]:
        """Take the renewed records out."""
        renewed, self.renewed = self.renewed, []
        return renewed

    def reopen(self, deliveries: Collection[Delivery]) -> int:
        """Put kept records that came as bytes back, before all others, for a poll with deserializers. Return how many.

        Args:
            deliveries: of :attr:`again` or :attr:`renewed`.
        """
        fetches = [each.reopen(each) for each in deliveries if each.reopen is not None]
        self.buffer.extendleft(reversed(fetches))
        self.again = [each for each in self.again if each.reopen is None]
        self.renewed = [each for each in self.renewed if each.reopen is None]
        return len(fetches)

    def keep_again(self, deliveries: Collection[Delivery]) -> None:
        """Let the next polls return records that the application has not seen, before those that are kept already."""
        self.again = [*deliveries, *(each for each in self.again if each not in deliveries)]

    def drop_again(self) -> None:
        """Forget the records that the application has not seen. Another place has them, or nobody will take them."""
        self.again = []

    def drop_expired(self) -> None:
        """Drop records whose lock has expired by our clock. The broker delivers them again."""
        now = self._clock.now()
        if any(fetch.locked_until <= now for fetch in self.buffer):
            self.buffer = deque(fetch for fetch in self.buffer if fetch.locked_until > now)
        if self.renewed:
            self.renewed = [each for each in self.renewed if each.locked_until > now]
        if self.again:
            self.again = [each for each in self.again if each.locked_until > now]

    def drop_unassigned(self, assignment: Mapping[TopicPartition, bytes]) -> None:
        """Release buffered records of partitions that are not assigned any more."""
        for fetch in list(self.buffer):
            _, topic_id, tp = fetch.source
            if assignment.get(tp) != topic_id:
                self.buffer.remove(fetch)
                fetch.release()
                self.acknowledge_extra(fetch)

    def acknowledge_extra(self, fetch: AcquiredFetch) -> None:
        """Queue the acknowledgements of a fetch that no record of the application stands for."""
        pieces = fetch.take_extra()
        if pieces:
            self.acknowledge(Queued(fetch.source, pieces))

    # -- outcomes ----------------------------------------------------------------------------------------------------

    def _report(self, queue: Collection[Queued], results: Mapping[Place, int], sent_at: float) -> None:
        now = self._clock.now()
        expired: set[Place] = set()
        if any(results.values()):
            expired.update(
                _place(queued.source) for queued in queue if any(piece.locked_until <= now for piece in queued.pieces)
            )
        for queued in queue:
            code = results.get(_place(queued.source), Errors.INVALID_RECORD_STATE)
            if not code:
                self._finish(queued, None, sent_at)
                continue
            error = for_code(code, f"acknowledgement of records of {queued.source.topic_partition}")
            if code in _MOVED:
                self._metadata.request_update()
            session = self.sessions.get(queued.source.node_id)
            if (
                code != Errors.INVALID_RECORD_STATE
                or _place(queued.source) not in expired
                or session is None
                or not session.is_open
            ):
                self._finish(queued, error)
                continue
            live = [piece for piece in queued.pieces if piece.locked_until > now]  # is sent again (rule 5)
            late = [piece for piece in queued.pieces if piece.locked_until <= now]
            if live:
                session.enqueue(queued._replace(pieces=live))
            if live and late and queued.ticket is not None:
                queued.ticket.add(queued.source.topic_partition)
            if late:
                self._finish(queued._replace(pieces=late), error)

    def _finish(self, queued: Queued, error: KafkaError | None, sent_at: float = -math.inf) -> None:
        self._renew(queued.pieces, error, sent_at)
        if queued.ticket is not None:
            queued.ticket.end(queued.source.topic_partition, error)
        self._on_outcome(queued, error)

    def _renew(self, pieces: Iterable[Piece], error: KafkaError | None, sent_at: float) -> None:
        for piece in pieces:
            if piece.delivery is None:
                continue
            if error is not None:
                piece.delivery.renewal_failed()
                continue
            piece.delivery.lock_until(self._locked_until(sent_at))
            if not piece.stays:
                self.renewed.append(piece.delivery)

    def _locked_until(self, since: float) -> float:
        """Return when a lock expires that began at a time (seconds). A broker that names no duration has no end."""
        return math.inf if self.lock_timeout_ms is None else since + self.lock_timeout_ms / 1000


def _place(of: Key | Source) -> Place:
    return of.topic_id, of.topic_partition.partition
