"""Fetching: sends what the planner plans, judges what comes back, and hands records out. A thin driver round cores.

The journey of a record set: :class:`FetchPlanner` says what to ask of which node; the answer passes its
:class:`FetchSession`; each partition's part is matched with the partition's fetch epoch, its batch headers are scanned
and it joins the :class:`FetchBuffer`; the next fetch leaves; then, and only for records that a poll returns, batches
are checked, decompressed and decoded.

What each error code of a partition leads to is the table ``_ACTIONS``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Final

from pyconsumer import errors
from pyconsumer.consumer.completed_fetch import CompletedFetch
from pyconsumer.consumer.config import ConsumerConfig
from pyconsumer.consumer.context import ConsumerContext
from pyconsumer.consumer.deserializers import Deserialization
from pyconsumer.consumer.fetch_buffer import FetchBuffer
from pyconsumer.consumer.fetch_planner import FetchPlanner, PlannedFetch
from pyconsumer.consumer.fetch_session import FIRST_VERSION_WITH_TOPIC_IDS, SessionPartition, SessionRequest
from pyconsumer.consumer.incomplete import no_whole_batch
from pyconsumer.consumer.metrics import ConsumerMetrics
from pyconsumer.consumer.offset_fetcher import OffsetFetcher, current_leader
from pyconsumer.consumer.partition_state import LeaderAndEpoch, TopicPartitionState
from pyconsumer.errors import KafkaError, OffsetsOutOfRangeError
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.futures import RequestFuture
from pyconsumer.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from pyconsumer.structs import BrokerMetadata, TopicPartition

if TYPE_CHECKING:
    from pyconsumer.network.client import ClientResponse

__all__ = ["Fetcher", "fetch_request"]

_log = logging.getLogger("pyconsumer.consumer")


class _Action(Enum):
    """What an error code of a partition leads to."""

    REFRESH = "ask for metadata, forget the preferred replica, try again after the backoff"
    RETRY = "try again after the backoff"
    RESET = "reset the position, or raise if there is no policy"
    RAISE = "raise at the partition's turn"


_ACTIONS: Final[dict[int, _Action]] = {
    1: _Action.RESET,  # OFFSET_OUT_OF_RANGE
    2: _Action.RAISE,  # CORRUPT_MESSAGE
    3: _Action.REFRESH,  # UNKNOWN_TOPIC_OR_PARTITION
    5: _Action.REFRESH,  # LEADER_NOT_AVAILABLE
    6: _Action.REFRESH,  # NOT_LEADER_OR_FOLLOWER
    9: _Action.REFRESH,  # REPLICA_NOT_AVAILABLE
    29: _Action.RAISE,  # TOPIC_AUTHORIZATION_FAILED
    56: _Action.REFRESH,  # KAFKA_STORAGE_ERROR
    74: _Action.REFRESH,  # FENCED_LEADER_EPOCH
    75: _Action.RETRY,  # UNKNOWN_LEADER_EPOCH: the broker is behind us
    78: _Action.REFRESH,  # OFFSET_NOT_AVAILABLE
    100: _Action.REFRESH,  # UNKNOWN_TOPIC_ID
    103: _Action.REFRESH,  # INCONSISTENT_TOPIC_ID
    -1: _Action.RETRY,  # UNKNOWN_SERVER_ERROR
}
_WARN: Final = frozenset((3, -1, 100, 103))
_SESSION_ERRORS: Final = frozenset((70, 71, 106))
"""FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR."""
_FREE_SESSION_ERRORS: Final = 1
"""Errors of a session in a row after which a new one is opened at once: a broker forgets sessions when it has many."""
_FREE_EMPTY_ANSWERS: Final = 2
"""Answers in a row, with nothing and before their wait is over, that are followed by the next fetch at once."""


class Fetcher:
    """Gets records.

    Args:
        context: settings, client, metadata, subscriptions and clock of the consumer.
        metrics: the consumer's counters.

    Attributes:
        buffer: what is fetched and not handed out.
        planner: what is asked for.
        offsets: resets, validation and lookups.
    """

    def __init__(
        self,
        context: ConsumerContext,
        metrics: ConsumerMetrics,
    ) -> None:
        config, self._client, metadata, subscriptions, self._clock = context
        self._config = config
        self._metadata = metadata
        self._subscriptions = subscriptions
        self._metrics = metrics
        self._retry_backoff = config.retry_backoff_ms / 1000
        # Half of its wait: clocks differ by a little, and a loop at that pace costs nothing.
        self._early = config.fetch_max_wait_ms / 1000 / 2
        self._seen_update = -1
        self._requests: dict[int, RequestFuture[ClientResponse]] = {}
        self._error: KafkaError | None = None
        self._is_awaited = False
        self._queued = 0  # fetches that nobody was told of
        self.deserialization = Deserialization(
            config.key_deserializer, config.value_deserializer, config.on_record_error
        )
        self.planner = FetchPlanner(
            subscriptions,
            leader=self._leader,
            topic_id=metadata.topic_id,
            unavailable_until=self._unavailable_until,
            max_partition_bytes=config.max_partition_fetch_bytes,
            max_bytes=config.fetch_max_bytes,
            buffer_bytes=config.fetch_buffer_bytes,
            incremental=config.enable_incremental_fetch_sessions,
            backoff=Backoff.ms(config.retry_backoff_ms, config.retry_backoff_max_ms),
        )
        self.buffer = FetchBuffer(
            subscriptions, self.planner.budget, self.deserialization if self.deserialization.needed else None
        )
        self.offsets = OffsetFetcher(context)

    # -- sending -----------------------------------------------------------------------------------------------------

    def send_fetches(self) -> int:
        """Queue a fetch to every node that should have one; how many since the last call. No I/O happens here."""
        now = self._clock.now()
        self.apply_changes(now)
        planned = self.planner.plan(now)
        if self.planner.wants_metadata:
            self.planner.metadata_requested()
            self._metadata.request_update()
        for fetch in planned:
            self._send(fetch)
        queued, self._queued = self._queued + len(planned), 0
        return queued

    def apply_changes(self, now: float) -> None:
        """Let metadata and the journal of the subscription take effect on positions, buffers and plans."""
        if self._metadata.update_count != self._seen_update:
            self._seen_update = self._metadata.update_count
            for state in list(self._subscriptions.states()):
                self._subscriptions.on_leader(state.topic_partition, self._leader(state.topic_partition))
                self._subscriptions.note_changed(state.topic_partition)
            self._subscriptions.on_leaders(self._leader)
        # Dropping a buffered answer is itself a change: twice is enough, as the second round drops nothing.
        for _ in range(2):
            changed = self._subscriptions.take_changed()
            if not changed:
                return
            self.buffer.on_changed(changed)
            self.planner.on_changed(changed, now)

    def _send(self, planned: PlannedFetch) -> None:
        session = planned.session

        def build(version: int) -> FetchRequest:
            return fetch_request(self._config, session, planned.max_bytes, version)

        max_version = None if session.use_topic_ids else FIRST_VERSION_WITH_TOPIC_IDS - 1
        future = self._client.send(planned.node_id, FetchRequest, build, max_version=max_version)
        future.add_callback(lambda done: self._on_done(planned, done))
        self._requests[planned.node_id] = future

    def recover(self) -> None:
        """Ctrl-C fell into something, so that nobody knows how far it got: fetch again from the positions."""
        self._is_awaited = False
        self._seen_update = -1
        self.buffer.clear()
        self._subscriptions.drop_fetched([state.topic_partition for state in self._subscriptions.states()])
        self.planner.recover([node_id for node_id, future in self._requests.items() if not future.done])
        self._subscriptions.retry_now()

    def close_sessions(self) -> list[RequestFuture[ClientResponse]]:
        """Queue requests that close our sessions, at brokers that can answer at once.

        One that holds a fetch of ours does not read the next request before it has answered that; it closes the
        session by itself in time.
        """
        sent = []
        for session in self.planner.sessions():
            if self.planner.in_flight(session.node_id) or self._unavailable_until(session.node_id) > self._clock.now():
                continue
            request = session.close_request()
            if request is None:
                continue
            message = fetch_request(self._config, request, 0, FIRST_VERSION_WITH_TOPIC_IDS, wait=False)
            sent.append(self._client.send(session.node_id, FetchRequest, message))
        return sent

    # -- answers -----------------------------------------------------------------------------------------------------

    def _on_done(self, planned: PlannedFetch, future: RequestFuture[ClientResponse]) -> None:
        session = self.planner.session(planned.node_id)
        if session is None:
            _log.error("a fetch answer of node %d came without a session; it is ignored", planned.node_id)
            return
        if not self.planner.is_current(planned):
            return  # given up, see recover
        self.planner.on_response(planned.node_id)
        if future.exception is not None:
            self.planner.on_idle(planned.node_id, self._clock.now(), free=0)
            self._metrics.on_fetch_failure()
            session.on_failure()
            self._on_failure(planned.node_id, future.exception)
            return
        response = future.value
        message = response.message
        assert isinstance(message, FetchResponse)
        answer = session.on_response(message, response.api_version)
        if not answer.accepted:
            free = _FREE_SESSION_ERRORS if message.error_code in _SESSION_ERRORS else 0
            self.planner.on_idle(planned.node_id, self._clock.now(), free=free)
            if not answer.throttled:
                _log.info("fetch session with node %d starts anew: %s", planned.node_id, answer.problem)
            return
        size = 0
        progress = response.latency >= self._early
        for tp, data, asked in answer.partitions:
            size += len(data.records or b"")
            progress |= self._on_partition(tp, data, asked, planned.node_id)
        if progress:
            self.planner.on_progress(planned.node_id)
        else:
            self.planner.on_idle(planned.node_id, self._clock.now(), free=_FREE_EMPTY_ANSWERS)
        self._take_leader_hints(message, answer.partitions)
        self._metrics.on_fetch(response.latency, size, message.throttle_time_ms)
        if self._is_awaited:
            self._queued = self.send_fetches()

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """While a poll waits for records, each answer is followed by the next request at once.

        Otherwise that would leave a moment later, in which the broker has nothing to do.
        """
        self._is_awaited = True
        try:
            yield
        finally:
            self._is_awaited = False

    def _on_failure(self, node_id: int, error: KafkaError) -> None:
        """A request got no answer. Positions stay; a later plan fetches again."""
        if error.retriable:
            _log.debug("fetch from node %d failed: %s", node_id, error)
            if error.invalid_metadata:
                self._metadata.request_update()
            return
        if self._error is None:
            self._error = error

    def raise_error(self) -> None:
        """Raise what no retry can help: a refused login, or a broker too old. Once."""
        error, self._error = self._error, None
        if error is not None:
            raise error
        self.offsets.raise_error()

    @property
    def has_error(self) -> bool:
        """Whether :meth:`raise_error` would raise."""
        return self._error is not None or self.offsets.has_error

    def _on_partition(self, tp: TopicPartition, data: PartitionData, asked: SessionPartition, node_id: int) -> bool:
        """Take a partition's part of an answer.

        Returns:
            Whether that is a step forward: records, or an error that the partition waits for or raises. If not, the
            next fetch would ask the same.
        """
        state = self._subscriptions.get(tp)
        if state is None or state.fetch_epoch != asked.fetch_epoch or state.fetch_offset != asked.fetch_offset:
            _log.debug("%s: an answer for offset %d is stale and ignored", tp, asked.fetch_offset)
            return True
        if data.error_code:
            return self._on_error(state, data.error_code, asked.fetch_offset, node_id)
        state.update_log_offsets(data.high_watermark, data.last_stable_offset, data.log_start_offset)
        if data.preferred_read_replica >= 0 and data.preferred_read_replica != node_id:
            state.prefer_replica(
                data.preferred_read_replica, self._clock.now() + self._config.metadata_max_age_ms / 1000
            )
            self._subscriptions.note_changed(tp)
        records = data.records
        if records is None or len(records) == 0:
            return False
        aborted = None
        if self._config.read_committed:
            aborted = [(a.producer_id, a.first_offset) for a in data.aborted_transactions or ()]
        fetch = CompletedFetch(
            state, records, fetch_offset=asked.fetch_offset, check_crcs=self._config.check_crcs, aborted=aborted
        )
        if fetch.cursor.batch_count == 0 and fetch.cursor.has_incomplete_batch:
            limit = min(self._config.max_partition_fetch_bytes, self._config.fetch_max_bytes)
            self._queue_error(state, no_whole_batch(tp, asked.fetch_offset, records, limit))
            return True
        self.buffer.add(fetch)
        self._subscriptions.note_changed(tp)
        return fetch.cursor.end_offset > asked.fetch_offset

    def _on_error(self, state: TopicPartitionState, code: int, offset: int, node_id: int) -> bool:
        """Do what an error asks for; whether the partition is not fetched again at once. Arguments as of the caller."""
        tp = state.topic_partition
        error = errors.for_code(code, f"fetch of {tp} at offset {offset} from node {node_id}")
        action = _ACTIONS.get(code) or (_Action.REFRESH if error.retriable else _Action.RAISE)
        _log.log(logging.WARNING if code in _WARN else logging.DEBUG, "%s", error)
        self._subscriptions.move_to_end(tp)
        self._subscriptions.note_changed(tp)
        if action is _Action.RESET:
            if state.preferred_replica == node_id and self._leader(tp).leader != node_id:
                state.forget_preferred_replica()  # a follower may lag; the leader decides
                return False
            self._queue_out_of_range(state, offset)
            return False
        if action is _Action.RAISE:
            self._queue_error(state, error)
        else:
            state.back_off(self._clock.now() + self._retry_backoff)
            if action is _Action.REFRESH:
                state.forget_preferred_replica()
                self._metadata.request_update()
        return True

    def _queue_error(self, state: TopicPartitionState, error: Exception) -> None:
        """Raise an error at the partition's turn: what was fetched before is handed out first."""
        self.buffer.add(CompletedFetch(state, fetch_offset=state.fetch_offset, error=lambda: error))

    def _queue_out_of_range(self, state: TopicPartitionState, offset: int) -> None:
        tp = state.topic_partition

        def on_turn() -> Exception | None:
            if state.position != offset:
                _log.debug("%s: offset %d was out of range, but the position is %s now", tp, offset, state.position)
                return None
            policy = self._subscriptions.default_reset
            if policy.name != "none":
                _log.info("%s: offset %d is out of range, resetting (%s)", tp, offset, policy)
                self._subscriptions.request_reset(tp)
                return None
            return OffsetsOutOfRangeError(
                f"offset {offset} of {tp} is out of range and auto_offset_reset is none:"
                " seek, or choose a reset policy",
                partitions={tp: offset},
            )

        self.buffer.add(CompletedFetch(state, fetch_offset=offset, error=on_turn))

    def _take_leader_hints(
        self, message: FetchResponse, partitions: Iterable[tuple[TopicPartition, PartitionData, SessionPartition]]
    ) -> None:
        """Use the leaders that the answer names beside errors (KIP-951)."""
        leaders = {
            tp: (data.current_leader.leader_id, data.current_leader.leader_epoch)
            for tp, data, _ in partitions
            if data.error_code and data.current_leader.leader_id >= 0 and data.current_leader.leader_epoch >= 0
        }
        if not leaders:
            return
        brokers = [BrokerMetadata(e.node_id, e.host, e.port, e.rack) for e in message.node_endpoints]
        for tp in self._metadata.update_leaders(leaders, brokers):
            self._subscriptions.on_leader(tp, self._leader(tp))
            state = self._subscriptions.get(tp)
            if state is not None:
                state.back_off(0.0)
            self._subscriptions.note_changed(tp)

    # -- what the cores ask ------------------------------------------------------------------------------------------

    def _leader(self, tp: TopicPartition) -> LeaderAndEpoch:
        return current_leader(self._metadata, tp)

    def _unavailable_until(self, node_id: int) -> float:
        if self._metadata.broker(node_id) is None:
            return float("inf")
        return self._client.backoff_until(node_id)


def fetch_request(
    config: ConsumerConfig, session: SessionRequest, max_bytes: int, version: int, *, wait: bool = True
) -> FetchRequest:
    """Return the message of a session's request; the broker answers it at once unless it may ``wait`` for data."""
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    topics: dict[tuple[str, bytes], FetchTopic] = {}
    for tp, asked in session.to_send.items():
        key = (tp.topic, asked.topic_id)
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = FetchTopic(topic=tp.topic, topic_id=asked.topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=tp.partition,
                current_leader_epoch=asked.leader_epoch,
                fetch_offset=asked.fetch_offset,
                partition_max_bytes=asked.max_bytes,
            )
        )
    forgotten: dict[tuple[str, bytes], ForgottenTopic] = {}
    for tp, topic_id in session.to_forget:
        if not by_id and tp in session.to_send:
            continue  # by name, a topic made anew is the same topic
        key = (tp.topic, topic_id)
        if key not in forgotten:
            forgotten[key] = ForgottenTopic(topic=tp.topic, topic_id=topic_id, partitions=[])
        forgotten[key].partitions.append(tp.partition)
    return FetchRequest(
        max_wait_ms=config.fetch_max_wait_ms if wait else 0,
        min_bytes=config.fetch_min_bytes if wait else 0,
        max_bytes=max_bytes,
        isolation_level=int(config.read_committed),
        session_id=session.session_id,
        session_epoch=session.epoch,
        topics=list(topics.values()),
        forgotten_topics_data=list(forgotten.values()),
        rack_id=config.client_rack,
    )
