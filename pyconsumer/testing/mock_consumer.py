"""``MockConsumer``: a consumer without a cluster, for tests of programs that take a :class:`pyconsumer.Consumer`.

Java: ``org.apache.kafka.clients.consumer.MockConsumer``. The test takes the part of the cluster: it assigns partitions,
adds records, sets the first and last offsets of logs, and lets calls fail::

    consumer = MockConsumer("earliest", group_id="g")
    consumer.subscribe(["orders"])
    consumer.rebalance([TopicPartition("orders", 0)])
    consumer.update_beginning_offsets({TopicPartition("orders", 0): 0})
    consumer.add_record(make_record("orders", b"one"))
    assert program(consumer) == 1

Calls that may run a callback of the application are generators. They yield the result of the callback if it is
awaitable: this class refuses that, and :class:`pyconsumer.testing.AsyncMockConsumer` awaits it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from pyconsumer.clock import Clock, SystemClock, seconds_of
from pyconsumer.consumer.arguments import (
    as_partition,
    as_partitions,
    by_partition,
    check_max_records,
    checked_offsets,
    checked_position,
    checked_times,
    is_partition,
    offsets_after,
    topic_names,
)
from pyconsumer.consumer.auto_offset_reset import EARLIEST, LATEST, ResetPolicy
from pyconsumer.consumer.closing import CommitOnClose
from pyconsumer.consumer.deserializers import Deserialization
from pyconsumer.consumer.interface import (
    CommitCallback,
    Consumer,
    ConsumerRebalanceListener,
    DeadLetterSink,
    Metrics,
    StorableOffsets,
)
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.errors import (
    CommitFailedError,
    ConfigurationError,
    IllegalStateError,
    InvalidGroupIdError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetsOutOfRangeError,
    RecordDeserializationError,
    WakeupError,
)
from pyconsumer.generic import Deserializer, K, V
from pyconsumer.metrics.health import ConsumerHealth
from pyconsumer.metrics.source import Metric
from pyconsumer.network.futures import RequestFuture
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    SubscriptionPattern,
    TopicPartition,
)
from pyconsumer.telemetry import Client, processing
from pyconsumer.testing.mock_steps import MockSteps, awaited, without_waiting
from pyconsumer.testing.planned_errors import PlannedErrors

if TYPE_CHECKING:
    import pyarrow

__all__ = ["MockConsumer"]

_CALLS = (
    "poll",
    "commit",
    "commit_async",
    "committed",
    "position",
    "offsets_for_times",
    "beginning_offsets",
    "end_offsets",
    "partitions_for_topic",
    "topics",
    "close",
)


class MockConsumer(Consumer[K, V]):
    """A consumer without a cluster. See the module.

    It never waits. If there are no records, ``poll`` returns at once.

    Args:
        auto_offset_reset: where a partition starts that has no position and no committed offset. ``earliest`` and
            ``latest`` use the offsets of :meth:`update_beginning_offsets` and :meth:`update_end_offsets`, ``none``
            raises an error. With ``latest``, records that the test adds later are read. ``by_duration`` is not
            supported.
        group_id: the group. Commits need it, as in a real consumer.
        max_poll_records: the largest number of records that a poll returns.
        enable_auto_commit: True commits automatically. Each poll commits the positions after the previous poll, and so
            does ``close``, unless an exception ends the work. The default is False.
        enable_auto_offset_store: False commits the offsets of :meth:`store_offsets`, instead of the positions.
        max_poll_interval_ms: longest time between two polls, on ``clock``. After that time the partitions are lost.
        key_deserializer, value_deserializer, on_record_error: as in a real consumer. Deserializers are applied to keys
            and values that are bytes. Without deserializers, records are returned as they were added.
        clock: the source of time, such as a :class:`pyconsumer.testing.ManualClock` that the test moves.

    Raises:
        ValueError: ``auto_offset_reset`` has another value.
        ConfigurationError: ``enable_auto_offset_store`` is False, and there is no ``group_id``.

    Attributes:
        closed: True after the consumer was closed.
        rebalances_asked: the reasons of all calls of :meth:`enforce_rebalance`.
        last_poll_timeout_ms: the timeout of the last :meth:`poll`.
    """

    def __init__(
        self,
        auto_offset_reset: str = "latest",
        *,
        group_id: str | None = "mock",
        max_poll_records: int = 500,
        enable_auto_commit: bool = False,
        enable_auto_offset_store: bool = True,
        max_poll_interval_ms: int = 300_000,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        on_record_error: Literal["raise", "skip"]
        | Callable[[RecordDeserializationError], str | None]
        | DeadLetterSink = "raise",
        clock: Clock | None = None,
    ) -> None:
        self.closed = False
        self.rebalances_asked: list[str | None] = []
        self.last_poll_timeout_ms: float | None = None
        self._policy = ResetPolicy.parse(auto_offset_reset)
        if self._policy.name == "by_duration":
            raise ValueError(
                "a MockConsumer does not support auto_offset_reset='by_duration:...': use earliest, latest or none, "
                "and seek() to the first record of that time"
            )
        if group_id is None and not enable_auto_offset_store:
            raise ConfigurationError("enable_auto_offset_store=False needs a group_id, whose offsets are committed")
        self._group_id = group_id
        self._max_poll_records = max_poll_records
        self._auto_commit = enable_auto_commit and group_id is not None
        self._store_positions = enable_auto_offset_store
        self._max_poll_interval = max_poll_interval_ms / 1000
        self._clock: Clock = clock or SystemClock()
        self._deserialization = Deserialization(key_deserializer, value_deserializer, on_record_error)
        self._planned = PlannedErrors(self, _CALLS)
        self._topics: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self._listener: ConsumerRebalanceListener | None = None
        self._by_hand = False
        self._assigned: dict[TopicPartition, int | None] = {}  # positions
        self._resets: dict[TopicPartition, ResetPolicy] = {}  # requested by seek_to_beginning and seek_to_end
        self._paused: set[TopicPartition] = set()
        self._records: dict[TopicPartition, list[ConsumerRecord[Any, Any]]] = {}
        self._beginnings: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._new_from: dict[TopicPartition, int] = {}  # the end that ``latest`` uses: later records are new
        self._partitions: dict[str, set[int]] = {}
        self._stored: dict[TopicPartition, OffsetAndMetadata] = {}
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._tasks: deque[Callable[[], object]] = deque()
        self._callbacks: deque[Awaitable[object]] = deque()  # of commits, to be awaited
        self._woken = False
        self._polls = 0
        self._before: dict[TopicPartition, int] = {}  # positions before the records of the last poll
        self._commit_on_close = CommitOnClose(
            takes_positions=self._auto_commit and enable_auto_offset_store,
            polls=lambda: self._polls,
            at_hand=lambda: bool(self._before),
            take_back=self._take_back,
        )
        self._generation = -1
        self._expelled = False  # the group continues without this member
        self._polled_at: float | None = None
        self._in_callback = False

    # -- called by the test ------------------------------------------------------------------------------------------

    def rebalance(self, partitions: Iterable[TopicPartition]) -> None:
        """Let the group assign partitions.

        The listener is notified of revoked and of new partitions, as in ``poll``.
        """
        without_waiting(self.rebalance_steps(partitions))

    def lose(self) -> None:
        """Let the group continue without this member. The listener is notified that all partitions are lost.

        Until the next :meth:`rebalance`, commits fail with ``CommitFailedError``.
        """
        without_waiting(self.lose_steps())

    def add_record(self, record: ConsumerRecord[K, V] | ConsumerRecord[bytes, bytes]) -> None:
        """Add a record to the log.

        Raises:
            IllegalStateError: the record's partition is not assigned.
            ValueError: the offset is not greater than that of the partition's last record.
        """
        tp = TopicPartition(record.topic, record.partition)
        self._check_assigned(tp)
        records = self._records.setdefault(tp, [])
        if records and record.offset <= records[-1].offset:
            raise ValueError(f"{tp}: offset {record.offset} does not come after {records[-1].offset}")
        records.append(record)
        self._ends[tp] = max(self._ends.get(tp, 0), record.offset + 1)
        self._partitions.setdefault(tp.topic, set()).add(tp.partition)

    def add_records(self, records: Iterable[ConsumerRecord[K, V] | ConsumerRecord[bytes, bytes]]) -> None:
        """Add records. See :meth:`add_record`."""
        for record in records:
            self.add_record(record)

    def update_beginning_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the first offsets of logs. A position before the first offset is out of range."""
        self._beginnings.update(offsets)

    def update_end_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the end offsets of logs.

        ``latest`` and :meth:`seek_to_end` read the records that are added after this call.
        """
        self._ends.update(offsets)
        self._new_from.update(offsets)

    def update_partitions(self, topic: str, count: int) -> None:
        """Set the number of a topic's partitions."""
        self._partitions[topic] = set(range(count))

    def schedule_poll_task(self, task: Callable[[], object]) -> None:
        """Run ``task`` at the beginning of a later poll.

        Each poll runs one task, in the order in which they were scheduled.
        """
        self._tasks.append(task)

    def set_poll_error(self, error: Exception) -> None:
        """Let the next poll raise an error, like ``fail_next("poll", error)``."""
        self._planned.add("poll", error)

    def fail_next(self, call: str, error: Exception, *, times: int = 1) -> None:
        """Let the next calls of a method raise an error before they have any effect.

        Args:
            call: ``poll``, ``commit``, ``commit_async`` (its callback and its future get the error), ``committed``,
                ``position``, ``offsets_for_times``, ``beginning_offsets``, ``end_offsets``, ``partitions_for_topic``,
                ``topics`` or ``close`` (the consumer is closed all the same).
            error: the error. For ``commit_async`` it must be a ``KafkaError``.
            times: the number of calls that fail.

        Raises:
            ValueError: no call of this name can fail.
        """
        self._planned.add(call, error, times)

    # -- records -----------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        """Return records that the test has added, starting at the positions. The positions move past these records."""
        return without_waiting(self.poll_steps(timeout_ms, max_records))

    def poll_arrow(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        columns: Iterable[str] | None = None,
        *,
        dictionary_topic: bool = False,
        key: Any = None,
        value: Any = None,
    ) -> pyarrow.RecordBatch:
        """Return records as columns. Keys and values must be bytes. See :meth:`pyconsumer.KafkaConsumer.poll_arrow`.

        Raises:
            NotImplementedError: ``key`` or ``value`` is given. A mock decodes no typed columns.
        """
        if key is not None or value is not None:
            raise NotImplementedError("a mock decodes no typed columns: leave out key and value")
        from pyconsumer.testing.builders import make_arrow_batch

        found: ConsumerRecords[Any, Any] = without_waiting(self.poll_steps(timeout_ms, max_records, raw=True))
        return make_arrow_batch(found.records(), columns, dictionary_topic=dictionary_topic)

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        return self

    def __next__(self) -> ConsumerRecord[K, V]:
        """Return the next record. The loop ends when no record is left."""
        for record in self.poll(max_records=1).records():
            return record
        raise StopIteration

    def poll_steps(
        self, timeout_ms: float = 0, max_records: int | None = None, *, raw: bool = False
    ) -> MockSteps[ConsumerRecords[K, V]]:
        """Poll, as a generator. See :data:`.mock_steps.MockSteps`."""
        self._check_open()
        self._refuse_in_callback("poll")
        self._polls += 1
        self._before.clear()
        seconds_of(timeout_ms)
        room = self._max_poll_records if max_records is None else check_max_records(max_records)
        self.last_poll_timeout_ms = timeout_ms
        if self._tasks:
            yield from awaited(self._tasks.popleft()())
        yield from self._note_poll()
        self._raise_wakeup()
        self._planned.take("poll")
        if not (self._assigned or self._topics or self._pattern or self._by_hand):
            raise IllegalStateError("nothing is subscribed or assigned: call subscribe() or assign() first")
        if self._auto_commit:
            self._committed.update(self._to_commit(None))
        found: dict[TopicPartition, list[ConsumerRecord[Any, Any]]] = {}
        positions = {tp: self._find(tp) for tp in self._assigned}  # an error must not move any of them
        for tp, position in positions.items():
            if tp in self._paused or not room:
                continue
            records = [r for r in self._records.get(tp, ()) if r.offset >= position][:room]
            records = self._read(tp, records, raw=raw, others=bool(found))
            if records:
                found[tp] = records
                room -= len(records)
        self._before = {tp: positions[tp] for tp in found}
        return ConsumerRecords(found)

    def _note_poll(self) -> MockSteps[None]:
        """Run pending callbacks, and lose the partitions if this poll is too late."""
        while self._callbacks:
            yield self._callbacks.popleft()
        now, before = self._clock.now(), self._polled_at
        self._polled_at = now
        if before is not None and now - before > self._max_poll_interval and not self._by_hand and self._assigned:
            yield from self.lose_steps()

    def _read(
        self, tp: TopicPartition, records: list[ConsumerRecord[Any, Any]], *, raw: bool, others: bool
    ) -> list[ConsumerRecord[Any, Any]]:
        """Deserialize records and move the position past those that are returned."""
        if not records:
            return records
        if raw or not self._deserialization.needed:
            self._assigned[tp] = records[-1].offset + 1
            return records
        good, used, error = self._deserialization.now(list(records))
        if error is not None and not good and not others:
            self._assigned[tp] = records[used].offset
            raise error
        self._assigned[tp] = records[used].offset if used < len(records) else records[-1].offset + 1
        return good

    # -- subscription ------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        self._check_open()
        self._refuse_in_callback("subscribe")
        if listener is not None and not isinstance(listener, ConsumerRebalanceListener):
            raise TypeError(f"a listener must be a ConsumerRebalanceListener, not {listener!r}")
        wanted = topic_names(topics)
        if pattern is not None and wanted:
            raise ValueError("topics and a pattern exclude one another")
        if pattern == "":
            raise ValueError("the pattern must not be empty")
        if pattern is None and not wanted:
            self.unsubscribe()
            return
        other = self._pattern if wanted else self._topics
        if self._by_hand or other:
            raise IllegalStateError("topics, a pattern and assigned partitions exclude one another: call unsubscribe()")
        self._topics = set(wanted)
        if isinstance(pattern, SubscriptionPattern):
            pattern = pattern.pattern  # there is no broker to evaluate it
        self._pattern = re.compile(pattern) if isinstance(pattern, str) else pattern
        self._listener = listener

    def unsubscribe(self, timeout_ms: float | None = None) -> None:
        without_waiting(self.unsubscribe_steps())

    def unsubscribe_steps(self) -> MockSteps[None]:
        """Unsubscribe, as a generator. See :data:`.mock_steps.MockSteps`."""
        self._check_open()
        self._refuse_in_callback("unsubscribe")
        try:
            yield from self._revoke(list(self._assigned))
        finally:  # the member has left, even if its listener raised
            self._topics, self._pattern, self._listener, self._by_hand = set(), None, None, False
            self._expelled = False
            self._take(())

    def subscription(self) -> set[str]:
        self._check_open()
        if self._pattern is not None:
            return {topic for topic in self._partitions if self._pattern.fullmatch(topic)}
        return set(self._topics)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._check_open()
        self._refuse_in_callback("assign")
        wanted = as_partitions(partitions)
        if self._topics or self._pattern:
            raise IllegalStateError("topics are subscribed")
        self._take(wanted)
        self._by_hand = bool(self._assigned)

    def assignment(self) -> set[TopicPartition]:
        self._check_open()
        return set(self._assigned)

    def enforce_rebalance(self, reason: str | None = None) -> None:
        self._check_open()
        self._need_group()
        self.rebalances_asked.append(reason)

    def group_metadata(self) -> ConsumerGroupMetadata:
        self._check_open()
        joined = self._generation >= 0 and not self._expelled
        return ConsumerGroupMetadata(self._need_group(), self._generation if joined else -1, "mock" if joined else "")

    def rebalance_steps(self, partitions: Iterable[TopicPartition]) -> MockSteps[None]:
        """Rebalance, as a generator. See :data:`.mock_steps.MockSteps`."""
        self._check_open()
        if self._by_hand or not (self._topics or self._pattern):
            raise IllegalStateError("no topic is subscribed")
        new = as_partitions(partitions)
        gone = [tp for tp in self._assigned if tp not in new]
        added = [tp for tp in new if tp not in self._assigned]
        if gone:
            if self._auto_commit:
                self._committed.update(self._to_commit(None))
            yield from self._revoke(gone)
        self._generation += 1
        self._expelled = False
        self._polled_at = self._clock.now()
        self._take(new)
        for tp in new:
            self._partitions.setdefault(tp.topic, set()).add(tp.partition)
        if self._listener is not None:
            yield from self._call(self._listener.on_partitions_assigned, added)

    def lose_steps(self) -> MockSteps[None]:
        """Lose all partitions, as a generator. See :data:`.mock_steps.MockSteps`."""
        self._check_open()
        if self._by_hand or not (self._topics or self._pattern):
            raise IllegalStateError("no topic is subscribed")
        lost = list(self._assigned)
        self._expelled = True
        if self._listener is not None and lost:
            yield from self._call(self._listener.on_partitions_lost, lost)
        self._take(())

    def _revoke(self, partitions: list[TopicPartition]) -> MockSteps[None]:
        if self._listener is not None and partitions:
            yield from self._call(self._listener.on_partitions_revoked, partitions)

    def _call(
        self, method: Callable[[Collection[TopicPartition]], object], partitions: list[TopicPartition]
    ) -> MockSteps[None]:
        self._in_callback = True
        try:
            yield from awaited(method(partitions))
        finally:
            self._in_callback = False

    # -- positions ---------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        number, _ = checked_position(offset)
        self._assigned[self._check_assigned(partition)] = number
        self._resets.pop(partition, None)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        for tp in partitions or tuple(self._assigned):
            self._assigned[self._check_assigned(tp)] = None
            self._resets[tp] = EARLIEST

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        for tp in partitions or tuple(self._assigned):
            self._assigned[self._check_assigned(tp)] = None
            self._resets[tp] = LATEST
            self._note_end(tp)

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        tp = self._check_assigned(partition)
        self._planned.take("position")
        return self._find(tp)

    def pause(self, *partitions: TopicPartition) -> None:
        self._paused |= {self._check_assigned(tp) for tp in partitions}

    def resume(self, *partitions: TopicPartition) -> None:
        self._paused -= {self._check_assigned(tp) for tp in partitions}

    def paused(self) -> set[TopicPartition]:
        self._check_open()
        return set(self._paused)

    def current_lag(self, partition: TopicPartition) -> int | None:
        position, end = self._assigned[self._check_assigned(partition)], self._ends.get(partition)
        return None if position is None or end is None else max(0, end - position)

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the end of an assigned partition's log, or None if the test has not set it."""
        return self._ends.get(self._check_assigned(partition))

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the end of an assigned partition's log, or None if the test has not set it.

        There are no transactions here, so every record is stable.
        """
        return self.highwater(partition)

    # -- commits -----------------------------------------------------------------------------------------------------

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None, timeout_ms: float | None = None
    ) -> None:
        self._check_open()
        wanted = self._to_commit(offsets)
        self._raise_wakeup(reads=False)
        self._planned.take("commit")
        self._check_member()
        self._committed.update(wanted)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        callback: CommitCallback | None = None,
    ) -> RequestFuture[None]:
        """Commit, and run the callback at once.

        If the callback is a coroutine function, the next poll awaits its coroutine.
        """
        self._check_open()
        wanted = self._to_commit(offsets)
        error = self._planned.pop("commit_async")
        if error is None:
            try:
                self._check_member()
            except KafkaError as failure:
                error = failure
        if error is not None and not isinstance(error, KafkaError):
            raise error
        if error is None:
            self._committed.update(wanted)
        if callback is not None:
            self._callbacks.extend(awaited(callback(wanted, error)))
        return RequestFuture.of(None) if error is None else RequestFuture.failure(error)

    def store_offsets(self, offsets: StorableOffsets) -> None:
        self._check_open()
        wanted = self._to_commit(offsets_after(offsets))
        if self._store_positions:
            raise IllegalStateError(
                "store_offsets needs enable_auto_offset_store=False: with True the positions are committed"
            )
        missing = sorted(tp for tp in wanted if tp not in self._assigned)
        if missing:
            names = ", ".join(map(str, missing))
            raise IllegalStateError(f"not assigned to this consumer: {names}. Another member may have committed")
        self._stored |= wanted

    @overload
    def committed(
        self, partition: TopicPartition, metadata: Literal[False] = False, timeout_ms: float | None = None
    ) -> int | None: ...

    @overload
    def committed(
        self, partition: TopicPartition, metadata: Literal[True], timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None: ...

    @overload
    def committed(
        self, partition: Iterable[TopicPartition], metadata: Literal[False] = False, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int | None]: ...

    @overload
    def committed(
        self, partition: Iterable[TopicPartition], metadata: Literal[True], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]: ...

    def committed(
        self,
        partition: TopicPartition | Iterable[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> Any:
        """Return the committed offsets. A test may also call this after the program has closed the consumer."""
        self._need_group()
        single = is_partition(partition)
        wanted = as_partitions([partition] if single else partition)
        self._raise_wakeup(reads=False)
        self._planned.take("committed")
        found = {tp: self._committed.get(tp) for tp in wanted}
        shown = {tp: value if value is None or metadata else value.offset for tp, value in found.items()}
        return shown[wanted[0]] if single else shown

    # -- the log -----------------------------------------------------------------------------------------------------

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        self._check_open()
        wanted = checked_times(by_partition(timestamps, "time in ms"))
        self._planned.take("offsets_for_times")
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        for tp, at in wanted.items():
            first = next((r for r in self._records.get(tp, ()) if r.timestamp >= at), None)
            found[tp] = None if first is None else OffsetAndTimestamp(first.offset, first.timestamp)
        return found

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        self._check_open()
        self._planned.take("beginning_offsets")
        return {tp: self._known(self._beginnings, tp, "update_beginning_offsets") for tp in as_partitions(partitions)}

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        self._check_open()
        self._planned.take("end_offsets")
        return {tp: self._known(self._ends, tp, "update_end_offsets") for tp in as_partitions(partitions)}

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        self._check_open()
        self._planned.take("partitions_for_topic")
        found = self._partitions.get(topic)
        return None if found is None else set(found)

    def known_partitions(self, topic: str) -> set[int]:
        self._check_open()
        return set(self._partitions.get(topic, ()))

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        self._check_open()
        self._planned.take("topics")
        return set(self._partitions)

    # -- the rest ----------------------------------------------------------------------------------------------------

    def metrics(self, raw: bool = False) -> Metrics:
        return {}

    def metric_table(self) -> list[Metric]:
        return []

    def processing(self, work: Any) -> AbstractContextManager[object]:
        return processing(Client("mock", self._group_id), work)

    def health(self) -> ConsumerHealth:
        """Return a state without connections. It is alive until :meth:`close`, and ready with an assignment."""
        assigned = tuple(sorted(self._assigned))
        return ConsumerHealth(
            client_id="mock",
            group_id=self._group_id,
            closed=self.closed,
            forked=False,
            connected_nodes=(),
            coordinator=None,
            membership=None,
            generation_id=-1,
            member_id="",
            has_assignment=bool(assigned),
            assigned=assigned,
            paused=tuple(sorted(self._paused)),
            buffered_bytes=0,
            lag=None,
            lag_s=None,
            since_poll_s=None,
            since_call_s=0.0,
            since_fetch_s=None,
            since_commit_s=None,
            is_inside_call=False,
            waits_for=None,
            waits_s=0.0,
            missing=None,
            missing_s=0.0,
            last_error=None,
            max_poll_interval_s=300.0,
        )

    def wakeup(self) -> None:
        self._woken = True

    def close(self, timeout_ms: float | None = None, leave_group: bool | None = None) -> None:
        without_waiting(self.close_steps())

    def close_steps(self) -> MockSteps[None]:
        """Close, as a generator. See :data:`.mock_steps.MockSteps`."""
        if self.closed:
            return
        self._refuse_in_callback("close")
        commit = self._commit_on_close.decide()
        try:
            while self._callbacks:
                yield self._callbacks.popleft()
            if commit and self._auto_commit and not self._expelled:
                self._committed.update(self._to_commit(None))
            yield from self._revoke(list(self._assigned))
            self._planned.take("close")
        finally:
            self.closed = True
            self._take(())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.leave(error)
        self.close()

    def _take_back(self) -> bool:
        """Move the positions back before the records of the last poll."""
        self._assigned.update({tp: at for tp, at in self._before.items() if tp in self._assigned})
        return True

    def leave(self, error: BaseException | None) -> None:
        """Note how a ``with`` block ended: by this exception, or normally with None.

        :meth:`close` uses it to decide whether to commit.
        """
        self._commit_on_close.leave(error)

    def __repr__(self) -> str:
        return f"<MockConsumer group_id={self._group_id!r}{' closed' if self.closed else ''}>"

    # -- inside ------------------------------------------------------------------------------------------------------

    def _take(self, partitions: Iterable[TopicPartition]) -> None:
        old, self._assigned = self._assigned, {tp: self._assigned.get(tp) for tp in partitions}
        self._paused &= self._assigned.keys()
        self._stored = {tp: offset for tp, offset in self._stored.items() if tp in self._assigned}
        self._resets = {tp: policy for tp, policy in self._resets.items() if tp in self._assigned}
        for tp in self._assigned.keys() - old.keys():
            self._note_end(tp)

    def _note_end(self, tp: TopicPartition) -> None:
        """Remember the end, after which records are new."""
        if tp in self._ends:
            self._new_from[tp] = self._ends[tp]

    def _find(self, tp: TopicPartition) -> int:
        """Return the position. If there is none, or it is out of range, find one as a consumer does."""
        position = self._assigned[tp]
        if position is None and tp not in self._resets and tp in self._committed:
            position = self._committed[tp].offset
        if position is not None and self._is_out_of_range(tp, position):
            if self._policy.name == "none":
                raise OffsetsOutOfRangeError(
                    f"offset {position} of {tp} is out of range and auto_offset_reset is none: seek, or choose a reset"
                    " policy",
                    partitions={tp: position},
                )
            position = None
            self._resets[tp] = self._policy
        if position is None:
            policy = self._resets.get(tp, self._policy)
            if policy.name == "earliest":
                position = self._known(self._beginnings, tp, "update_beginning_offsets")
            elif policy.name == "latest":
                position = self._known(self._new_from, tp, "update_end_offsets")
            else:
                raise NoOffsetForPartitionError(f"{tp} has no position, and auto_offset_reset is {self._policy.name!r}")
        self._assigned[tp] = position
        self._resets.pop(tp, None)
        return position

    def _is_out_of_range(self, tp: TopicPartition, position: int) -> bool:
        return position < self._beginnings.get(tp, 0) or position > self._ends.get(tp, position)

    def _to_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        self._need_group()
        if offsets is None and not self._store_positions:
            return dict(self._stored)
        if offsets is None:
            return {tp: OffsetAndMetadata(at) for tp, at in self._assigned.items() if at is not None}
        return checked_offsets(offsets)

    def _check_member(self) -> None:
        late = self._polled_at is not None and self._clock.now() - self._polled_at > self._max_poll_interval
        if self._expelled or (late and not self._by_hand and self._assigned):
            raise CommitFailedError(
                f"the group {self._group_id} continues without this consumer: its partitions belong to other members"
            )

    @staticmethod
    def _known(offsets: Mapping[TopicPartition, int], tp: TopicPartition, method: str) -> int:
        if tp not in offsets:
            raise KafkaError(f"the test has not set an offset for {tp}: call {method}()")
        return offsets[tp]

    def _check_assigned(self, tp: TopicPartition) -> TopicPartition:
        self._check_open()
        found = as_partition(tp)
        if found not in self._assigned:
            raise IllegalStateError(f"{tp} is not assigned")
        return found

    def _check_open(self) -> None:
        if self.closed:
            raise IllegalStateError("this MockConsumer is closed")

    def _refuse_in_callback(self, name: str) -> None:
        if self._in_callback:
            raise IllegalStateError(f"{name} must not be called from a callback")

    def _raise_wakeup(self, *, reads: bool = True) -> None:
        if self._woken:
            self._woken = False
            if not reads:
                self._commit_on_close.note_wakeup()
            raise WakeupError("wakeup() was called")

    def _need_group(self) -> str:
        if self._group_id is None:
            raise InvalidGroupIdError("a group_id is needed")
        return self._group_id
