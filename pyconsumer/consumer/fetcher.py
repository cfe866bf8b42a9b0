"""Sends the planned fetches, splits responses into partitions, handles their error codes, fills the buffer.

A thin driver of cores.

The journey of a record set: :class:`FetchPlanner` decides which partitions to request from which node. The node's
:class:`FetchSessionHandler` checks the response. A stale part (:func:`.completed_fetch.is_stale`) is dropped. The batch
headers of the others are scanned, and they join the :class:`FetchBuffer`. The next fetch is sent. Only after that, and
only for records that a poll returns, batches are checked, decompressed and decoded.

The table ``_ERROR_ACTIONS`` has the action for each error code of a partition.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

from pyconsumer import errors
from pyconsumer.consumer.completed_fetch import CompletedFetch, Frame, is_stale, no_whole_batch
from pyconsumer.consumer.context import ConsumerContext
from pyconsumer.consumer.deserializers import Deserialization
from pyconsumer.consumer.fetch_buffer import FetchBuffer
from pyconsumer.consumer.fetch_planner import FetchPlanner, PlannedFetch
from pyconsumer.consumer.fetch_session import SessionPartition, SessionRequest
from pyconsumer.consumer.metrics import ConsumerMetrics
from pyconsumer.consumer.offset_fetcher import OffsetFetcher
from pyconsumer.consumer.partition_state import LeaderAndEpoch, TopicPartitionState, current_leader
from pyconsumer.consumer.topic_ids import follow_topic_ids
from pyconsumer.errors import Errors, KafkaError, OffsetsOutOfRangeError
from pyconsumer.network.backoff import Backoff
from pyconsumer.network.futures import RequestFuture
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.requests.fetch import (
    FIRST_VERSION_OF_ONE,
    FIRST_VERSION_WITH_TOPIC_IDS,
    LAST_VERSION_WITH_NAMES,
    FetchOfOne,
    FetchSettings,
    fetch_request,
)
from pyconsumer.structs import BrokerMetadata, TopicPartition

if TYPE_CHECKING:
    from pyconsumer.network.client import ClientResponse

__all__ = ["FetchErrorAction", "Fetcher", "fetch_error_action"]

_log = logging.getLogger("pyconsumer.consumer")


class FetchErrorAction(Enum):
    """The action to take for the error code of a partition in a fetch response."""

    REFRESH = "request metadata, forget the preferred replica, try again after the backoff"
    RETRY = "try again after the backoff"
    RESET = "reset the position, or raise if there is no reset policy"
    RAISE = "raise at the partition's turn"


_ERROR_ACTIONS: Final[dict[int, FetchErrorAction]] = {
    Errors.UNKNOWN_SERVER_ERROR: FetchErrorAction.RETRY,
    Errors.OFFSET_OUT_OF_RANGE: FetchErrorAction.RESET,
    Errors.CORRUPT_MESSAGE: FetchErrorAction.RAISE,
    Errors.UNKNOWN_TOPIC_OR_PARTITION: FetchErrorAction.REFRESH,
    Errors.LEADER_NOT_AVAILABLE: FetchErrorAction.REFRESH,
    Errors.NOT_LEADER_OR_FOLLOWER: FetchErrorAction.REFRESH,
    Errors.REPLICA_NOT_AVAILABLE: FetchErrorAction.REFRESH,
    Errors.TOPIC_AUTHORIZATION_FAILED: FetchErrorAction.RAISE,
    Errors.KAFKA_STORAGE_ERROR: FetchErrorAction.REFRESH,
    Errors.FENCED_LEADER_EPOCH: FetchErrorAction.REFRESH,
    Errors.UNKNOWN_LEADER_EPOCH: FetchErrorAction.RETRY,  # the broker's metadata is older than ours
    Errors.OFFSET_NOT_AVAILABLE: FetchErrorAction.REFRESH,
    Errors.UNKNOWN_TOPIC_ID: FetchErrorAction.REFRESH,
    Errors.INCONSISTENT_TOPIC_ID: FetchErrorAction.REFRESH,
}


def fetch_error_action(code: int, *, retriable: bool) -> FetchErrorAction:
    """Return the action for the error code of a partition.

    ``retriable`` decides for codes that this version does not know.
    """
    return _ERROR_ACTIONS.get(code) or (FetchErrorAction.REFRESH if retriable else FetchErrorAction.RAISE)


_WARN: Final = frozenset(
    (
        Errors.UNKNOWN_SERVER_ERROR,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.UNKNOWN_TOPIC_ID,
        Errors.INCONSISTENT_TOPIC_ID,
    )
)
_SESSION_ERRORS: Final = frozenset(
    (Errors.FETCH_SESSION_ID_NOT_FOUND, Errors.INVALID_FETCH_SESSION_EPOCH, Errors.FETCH_SESSION_TOPIC_ID_ERROR)
)
_FREE_SESSION_ERRORS: Final = 1
"""After this many session errors in a row a new session is still opened at once: a busy broker evicts sessions."""
_FREE_EMPTY_RESPONSES: Final = 2
"""This many responses in a row may be empty and early before the next fetch is delayed."""
_RETURNED_MEMORY: Final = 128 << 10
"""Pieces of memory from this size on (bytes) are returned to the system at once, see :func:`_keep_freed_memory`."""


def _keep_freed_memory() -> None:
    """Let the memory of large values stay with the process when it is free, until 32 MiB of it are free.

    glibc does so once a piece of 16 MiB was freed. Before, it returns freed memory of large values to the system, which
    fills it with zeros before it gives it back: for values of 1 MB that took as long as receiving them. Receive
    buffers are reused, so that none of them is such a piece.
    """
    bytearray(16 << 20)


class Fetcher:
    """Fetches records into the buffer.

    Args:
        context: settings, client, metadata, subscriptions and clock of the consumer.
        metrics: the consumer's counters.
        form: the class of the records to return. None returns ``ConsumerRecord``.

    Attributes:
        buffer: the records that have been fetched and not yet returned.
        planner: plans the requests.
        offsets: resets and validates positions, and looks up offsets by time.
        leaderless: the assigned partitions without a leader, and since when, in monotonic seconds. Any thread may read.
    """

    def __init__(
        self,
        context: ConsumerContext,
        metrics: ConsumerMetrics,
        form: type | None = None,
    ) -> None:
        config, self._client, metadata, subscriptions, self._clock = context
        self._config = config
        self._metadata = metadata
        self._subscriptions = subscriptions
        self._metrics = metrics
        self._retry_backoff = config.retry_backoff_ms / 1000
        # A response is early if it comes in less than half of its wait. Half, because clocks differ a little, and a
        # loop at that pace costs nothing.
        self._early = config.fetch_max_wait_ms / 1000 / 2
        self._seen_update = -1
        self._seen_assignment = -1
        self._seen_leaders = -1
        self._requests: dict[int, RequestFuture[ClientResponse]] = {}
        self._error: KafkaError | None = None
        self._is_awaited = False
        self._keeps_memory = False
        self._read_committed = config.read_committed
        self._check_crcs = config.check_crcs
        self._settings = FetchSettings(
            config.fetch_max_wait_ms, config.fetch_min_bytes, 0, config.read_committed, config.client_rack
        )
        self.deserialization = Deserialization(
            config.key_deserializer, config.value_deserializer, config.on_record_error, form
        )
        # Deserializers need our own records. Without them the decoder makes the others at once.
        self._form = None if self.deserialization.needed else form
        self._leaders = _Leaders(metadata)
        self.leaderless: dict[TopicPartition, float] = {}
        self.offsets = OffsetFetcher(context)
        self.planner = FetchPlanner(
            subscriptions,
            leaders=self._leaders,
            topic_id=metadata.topic_id,
            unavailable_until=self._unavailable_until,
            is_asked=self.offsets.is_asked,
            max_partition_bytes=config.max_partition_fetch_bytes,
            max_bytes=config.fetch_max_bytes,
            buffer_bytes=config.fetch_buffer_bytes,
            incremental=config.enable_incremental_fetch_sessions,
            backoff=Backoff.ms(config.retry_backoff_ms, config.retry_backoff_max_ms),
        )
        from pyconsumer.consumer.decode_threads import decode_ahead  # which an import of pyconsumer does without

        self.buffer = FetchBuffer(
            subscriptions,
            self.planner.budget,
            self.deserialization if self.deserialization.needed else None,
            decode_ahead(config.decode_threads, config.fetch_buffer_bytes),
        )

    # -- sending -----------------------------------------------------------------------------------------------------

    def send_fetches(self) -> int:
        """Queue a fetch for every node that should have one. Return their number. No I/O is done."""
        now = self._clock.now()
        self.apply_changes(now)
        planned = self.planner.plan(now)
        if self.planner.wants_metadata:
            self.planner.metadata_requested()
            self._metadata.request_update()
        for fetch in planned:
            self._send(fetch)
        return len(planned)

    def apply_changes(self, now: float) -> None:
        """Apply new metadata and the changes of the subscription to positions, buffers and plans."""
        if self._metadata.leaders_version != self._seen_leaders:
            self._seen_leaders = self._metadata.leaders_version
            self._leaders.clear()
        if (
            self._metadata.update_count != self._seen_update
            or self._subscriptions.assignment_id != self._seen_assignment
        ):
            self._seen_assignment = self._subscriptions.assignment_id
            follow_topic_ids(self._subscriptions, self._metadata)
        if self._metadata.update_count != self._seen_update:
            self._seen_update = self._metadata.update_count
            leaderless = {}
            for state in list(self._subscriptions.states()):
                leader = self._leaders[state.topic_partition]
                self._subscriptions.on_leader(state.topic_partition, leader)
                self._subscriptions.note_changed(state.topic_partition)
                if leader.leader < 0:
                    leaderless[state.topic_partition] = self.leaderless.get(state.topic_partition, now)
            self.leaderless = leaderless
        # Dropping a buffered fetch is itself a change. Two rounds are enough: the second one drops nothing.
        for _ in range(2):
            if not self._subscriptions.changed:
                return
            changed = self._subscriptions.take_changed()
            self.buffer.on_changed(changed)
            self.planner.on_changed(changed, now)

    def _send(self, planned: PlannedFetch) -> None:
        session = planned.session
        if self._settings.max_bytes != planned.max_bytes:
            self._settings = self._settings._replace(max_bytes=planned.max_bytes)
        build = partial(_fetch_request, self._settings, session)
        max_version = None if session.use_topic_ids else LAST_VERSION_WITH_NAMES
        future = self._client.send(planned.node_id, FetchRequest, build, max_version=max_version)
        future.add_callback(partial(self._on_done, planned))
        self._requests[planned.node_id] = future

    def recover(self) -> None:
        """Fetch again from the positions, because Ctrl-C has interrupted an operation at an unknown point."""
        self._is_awaited = False
        self._seen_update = self._seen_leaders = -1
        self.buffer.clear()
        self._subscriptions.recover()
        self.planner.recover([node_id for node_id, future in self._requests.items() if not future.done])
        self.offsets.recover()

    def close_sessions(self) -> list[RequestFuture[ClientResponse]]:
        """Queue requests that close the fetch sessions, at brokers that can respond at once.

        A broker that is holding a fetch of this client reads no further request before it has responded to the fetch.
        Such a broker evicts the session later.
        """
        sent = []
        for session in self.planner.sessions():
            if self.planner.in_flight(session.node_id) or self._unavailable_until(session.node_id) > self._clock.now():
                continue
            request = session.close_request()
            if request is None:
                continue
            at_once = self._settings._replace(max_wait_ms=0, min_bytes=0, max_bytes=0)
            build = partial(_fetch_request, at_once, request)
            sent.append(self._client.send(session.node_id, FetchRequest, build))
        return sent

    # -- responses ---------------------------------------------------------------------------------------------------

    def _on_done(self, planned: PlannedFetch, future: RequestFuture[ClientResponse]) -> None:
        session = self.planner.end(planned)
        if session is None:
            if self.planner.session(planned.node_id) is None:
                _log.error("ignored a fetch response of node %d without a session", planned.node_id)
            return  # or abandoned by recover()
        if future.exception is not None:
            self.planner.on_idle(planned.node_id, self._clock.now(), free=0)
            self._metrics.on_fetch_failure()
            session.on_failure()
            self._on_failure(planned.node_id, future.exception)
            return
        response = future.value
        message = response.message
        assert isinstance(message, FetchResponse)
        result = session.on_response(message, response.api_version)
        if result.problem is not None:
            free = _FREE_SESSION_ERRORS if message.error_code in _SESSION_ERRORS else 0
            self.planner.on_idle(planned.node_id, self._clock.now(), free=free)
            if not result.throttled:
                _log.info("the fetch session with node %d is opened again: %s", planned.node_id, result.problem)
            return
        self._on_partitions(planned, response, result.partitions)
        if self._is_awaited:
            self.send_fetches()

    def _on_partitions(
        self,
        planned: PlannedFetch,
        response: ClientResponse,
        partitions: list[tuple[TopicPartition, PartitionData, SessionPartition]],
    ) -> None:
        """Buffer the records of an accepted response, and handle the errors of its partitions.

        A partition that stays in the session without data is no progress: the next fetch would request the same.
        """
        sizes: dict[str, int] = {}
        progress = response.latency >= self._early
        fetched: list[TopicPartition] = []
        failed: list[tuple[TopicPartition, PartitionData]] = []
        assigned, check_crcs, read_committed = self._subscriptions.by_partition, self._check_crcs, self._read_committed
        frame: Frame | None = None
        fetch: CompletedFetch | None = None
        aborted: list[tuple[int, int]] | None = None
        add_to_buffer, settle_polls = self.buffer.add, self._metrics.settle_polls
        for tp, data, asked in partitions:
            state = assigned.get(tp)
            records = data.records
            offset = asked[1]
            if state is None or is_stale(state, asked):
                _log.debug("%s: ignored a stale response for offset %d", tp, offset)
                progress = True
            elif data.error_code:
                failed.append((tp, data))
                progress |= self._on_error(state, data.error_code, offset, planned.node_id)
            else:
                if state.poll_count and (
                    data.high_watermark != state.high_watermark
                    or data.last_stable_offset != state.last_stable_offset
                    or data.log_start_offset != state.log_start_offset
                ):
                    settle_polls(state)  # with the ends that they saw
                state.update_log_offsets(data.high_watermark, data.last_stable_offset, data.log_start_offset)
                if data.preferred_read_replica >= 0:
                    self._prefer_replica(state, data.preferred_read_replica, planned.node_id)
                if not records:
                    continue
                if state.counters is None:
                    state.start_counters(self._metrics.windows, response.received_at)
                if type(records) is memoryview and (frame is None or frame.memory is not records.obj):
                    frame = Frame(records.obj)  # type: ignore[arg-type]
                if read_committed:
                    aborted = [(a.producer_id, a.first_offset) for a in data.aborted_transactions or ()]
                fetch = CompletedFetch(
                    state,
                    records,
                    fetch_offset=offset,
                    check_crcs=check_crcs,
                    aborted=aborted,
                    frame=frame,
                    form=self._form,
                )
                cursor = fetch.cursor
                if not cursor.batch_count and cursor.has_incomplete_batch:
                    self._on_incomplete_batch(state, records)
                    progress = True
                elif add_to_buffer(fetch) or state.preferred_replica >= 0:
                    self._subscriptions.note_changed(tp)
                else:
                    fetched.append(tp)
                if not progress and cursor.end_offset > offset:
                    progress = True
            if records:
                topic = tp[0]
                sizes[topic] = sizes.get(topic, 0) + len(records)
        record_bytes = None
        if fetch is not None:  # the last one stands for all
            record_bytes = fetch.record_bytes
            if record_bytes >= _RETURNED_MEMORY and not self._keeps_memory:
                self._keeps_memory = True
                _keep_freed_memory()
        self.planner.on_fetched(planned.node_id, fetched, progress=progress, record_bytes=record_bytes)
        if not progress:
            self.planner.on_idle(planned.node_id, self._clock.now(), free=_FREE_EMPTY_RESPONSES)
        if failed:
            self._apply_leader_hints(response.message, failed)
        self._metrics.on_fetch(response.latency, sizes, response.message.throttle_time_ms, response.received_at)

    def await_response(self, is_awaited: bool) -> None:
        """With True, send the next request as soon as a response has arrived, because a poll is waiting for records.

        Otherwise the next poll sends it, and the broker is idle until then.
        """
        self._is_awaited = is_awaited

    def _on_failure(self, node_id: int, error: KafkaError) -> None:
        """Handle a request that failed. Positions stay. A later plan fetches again."""
        if error.retriable:
            _log.debug("fetch from node %d failed: %s", node_id, error)
            if error.invalid_metadata:
                self._metadata.request_update()
            return
        if self._error is None:
            self._error = error

    def raise_error(self, only: Collection[TopicPartition] = ()) -> None:
        """Raise, once, an error that no retry can cure: rejected credentials, or a broker that is too old.

        Args:
            only: of the errors of single partitions raise those of these alone. By default any.
        """
        error, self._error = self._error, None
        if error is not None:
            raise error
        self.offsets.raise_error(only)

    @property
    def has_error(self) -> bool:
        """Return whether :meth:`raise_error` would raise."""
        return self._error is not None or self.offsets.has_error

    def _prefer_replica(self, state: TopicPartitionState, replica: int, node_id: int) -> None:
        """Fetch from the replica that the leader named (KIP-392), unless that is the node that responded."""
        if replica != node_id:
            state.prefer_replica(replica, self._clock.now() + self._config.metadata_max_age_ms / 1000)
            self._subscriptions.note_changed(state.topic_partition)

    def _on_incomplete_batch(self, state: TopicPartitionState, records: Buffer) -> None:
        """Report, at the partition's turn, a record set in which no batch is whole."""
        limit = min(self._config.max_partition_fetch_bytes, self._config.fetch_max_bytes)
        self._queue_error(state, no_whole_batch(state.topic_partition, state.fetch_offset, records, limit))
        self._subscriptions.note_changed(state.topic_partition)

    def _on_error(self, state: TopicPartitionState, code: int, offset: int, node_id: int) -> bool:
        """Handle a partition's error, and return False if the partition may be fetched again at once."""
        tp = state.topic_partition
        error = errors.for_code(code, f"fetch of {tp} at offset {offset} from node {node_id}")
        action = fetch_error_action(code, retriable=error.retriable)
        _log.log(logging.WARNING if code in _WARN else logging.DEBUG, "%s", error)
        self._subscriptions.move_to_end(tp)
        self._subscriptions.note_changed(tp)
        if action is FetchErrorAction.RESET:
            if state.preferred_replica == node_id and self._leader(tp).leader != node_id:
                state.forget_preferred_replica()  # a follower may lag; the leader decides
                return False
            self._queue_out_of_range(state, offset)
            return False
        if action is FetchErrorAction.RAISE:
            self._queue_error(state, error)
        else:
            state.back_off(self._clock.now() + self._retry_backoff)
            if action is FetchErrorAction.REFRESH:
                state.forget_preferred_replica()
                self._metadata.request_update()
        return True

    def _queue_error(self, state: TopicPartitionState, error: Exception) -> None:
        """Raise an error at the partition's turn: records that were fetched before it are returned first."""
        self.buffer.add(CompletedFetch(state, fetch_offset=state.fetch_offset, error=lambda: error))

    def _queue_out_of_range(self, state: TopicPartitionState, offset: int) -> None:
        tp = state.topic_partition

        def on_turn() -> Exception | None:
            if state.position != offset:
                _log.debug(
                    "%s: offset %d was out of range, but the position has moved to %s", tp, offset, state.position
                )
                return None
            policy = self._subscriptions.default_reset
            if policy.name != "none":
                _log.info("%s: offset %d is out of range, resetting the position (%s)", tp, offset, policy)
                self._subscriptions.request_reset(tp)
                return None
            return OffsetsOutOfRangeError(
                f"offset {offset} of {tp} is out of range and auto_offset_reset is none:"
                " seek, or choose a reset policy",
                partitions={tp: offset},
            )

        self.buffer.add(CompletedFetch(state, fetch_offset=offset, error=on_turn))

    def _apply_leader_hints(
        self, message: FetchResponse, failed: Iterable[tuple[TopicPartition, PartitionData]]
    ) -> None:
        """Apply the leaders that the response names beside errors (KIP-951)."""
        leaders = {
            tp: (data.current_leader.leader_id, data.current_leader.leader_epoch)
            for tp, data in failed
            if data.current_leader.leader_id >= 0 and data.current_leader.leader_epoch >= 0
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

    # -- used by the cores -------------------------------------------------------------------------------------------

    def _leader(self, tp: TopicPartition) -> LeaderAndEpoch:
        return current_leader(self._metadata, tp)

    def _unavailable_until(self, node_id: int) -> float:
        if self._metadata.broker(node_id) is None:
            return float("inf")
        return self._client.backoff_until(node_id)


class _Leaders(dict[TopicPartition, LeaderAndEpoch]):
    """Leaders as metadata has them, looked up when they are first needed. Clear them when metadata changes."""

    def __init__(self, metadata: Metadata) -> None:
        super().__init__()
        self._metadata = metadata

    def __missing__(self, tp: TopicPartition) -> LeaderAndEpoch:
        found = self[tp] = current_leader(self._metadata, tp)
        return found


def _fetch_request(settings: FetchSettings, session: SessionRequest, version: int) -> FetchRequest | FetchOfOne:
    """Return the message for a session's request."""
    if len(session.to_send) == 1 and version >= FIRST_VERSION_OF_ONE and not session.to_forget:
        ((tp, fields),) = session.to_send.items()
        return FetchOfOne(settings, tp[1], fields, session[:2])
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    # By name, a topic that was created again is the same topic.
    forgotten = session.to_forget
    if forgotten and not by_id:
        forgotten = [left for left in forgotten if left[0] not in session.to_send]
    asked = session.to_send.items()
    return fetch_request(settings, asked, forgotten=forgotten, session=(session.session_id, session.epoch))
