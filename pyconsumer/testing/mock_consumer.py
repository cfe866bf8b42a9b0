"""``MockConsumer``: a consumer without a cluster, for tests of programs that take a :class:`pyconsumer.Consumer`.

Java: ``org.apache.kafka.clients.consumer.MockConsumer``. The test plays the cluster: it says what is assigned, which
records there are, where logs begin and end, and what goes wrong::

    consumer = MockConsumer("earliest", group_id="g")
    consumer.subscribe(["orders"])
    consumer.rebalance([TopicPartition("orders", 0)])
    consumer.update_beginning_offsets({TopicPartition("orders", 0): 0})
    consumer.add_record(ConsumerRecord("orders", 0, 0, value=b"one"))
    assert program(consumer) == 1
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Literal, Self, overload

from pyconsumer.consumer.auto_offset_reset import EARLIEST, LATEST, ResetPolicy
from pyconsumer.consumer.interface import Consumer, ConsumerRebalanceListener, Metrics
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.errors import (
    IllegalStateError,
    InvalidGroupIdError,
    KafkaError,
    NoOffsetForPartitionError,
    WakeupError,
)
from pyconsumer.generic import K, V
from pyconsumer.network.futures import RequestFuture
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    SubscriptionPattern,
    TopicPartition,
)

__all__ = ["MockConsumer"]


class MockConsumer(Consumer[K, V]):
    """See the module. It never waits, whatever the timeout says; one poll that finds nothing returns nothing.

    Args:
        auto_offset_reset: where a partition without position and commit begins: ``earliest`` and ``latest`` take what
            :meth:`update_beginning_offsets` and :meth:`update_end_offsets` said, ``none`` raises. Records that are
            added later come after that end, so ``latest`` reads them. There is no ``by_duration``.
        group_id: needed to commit, as in a consumer.
        max_poll_records: most records of one poll.

    Raises:
        ValueError: ``auto_offset_reset`` is none of these.

    Attributes:
        closed: whether it was closed.
        rebalances_asked: reasons given to :meth:`enforce_rebalance`.
    """

    def __init__(
        self, auto_offset_reset: str = "latest", *, group_id: str | None = "mock", max_poll_records: int = 500
    ) -> None:
        self.closed = False
        self.rebalances_asked: list[str | None] = []
        self._policy = ResetPolicy.parse(auto_offset_reset)
        if self._policy.name == "by_duration":
            raise ValueError(
                "a MockConsumer has no clock for auto_offset_reset='by_duration:...': take earliest, latest or none, "
                "and seek() to where the records of that time begin"
            )
        self._group_id = group_id
        self._max_poll_records = max_poll_records
        self._topics: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self._listener: ConsumerRebalanceListener | None = None
        self._by_hand = False
        self._assigned: dict[TopicPartition, int | None] = {}  # positions
        self._resets: dict[TopicPartition, ResetPolicy] = {}  # asked for by seek_to_beginning and seek_to_end
        self._paused: set[TopicPartition] = set()
        self._records: dict[TopicPartition, list[ConsumerRecord[K, V]]] = {}
        self._beginnings: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._new_from: dict[TopicPartition, int] = {}  # the end when it counted last: records from there on are new
        self._partitions: dict[str, set[int]] = {}
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._tasks: deque[Callable[[], object]] = deque()
        self._error: Exception | None = None
        self._woken = False
        self._generation = -1

    # -- what the test plays -----------------------------------------------------------------------------------------

    def rebalance(self, partitions: Iterable[TopicPartition]) -> None:
        """The group has assigned these; the listener hears what goes and what comes, as in ``poll``."""
        self._check_open()
        if self._by_hand or not (self._topics or self._pattern):
            raise IllegalStateError("nothing is subscribed")
        new = [TopicPartition(*tp) for tp in partitions]
        gone = [tp for tp in self._assigned if tp not in new]
        added = [tp for tp in new if tp not in self._assigned]
        if self._listener is not None and gone:
            self._listener.on_partitions_revoked(gone)
        self._generation += 1
        self._take(new)
        if self._listener is not None:
            self._listener.on_partitions_assigned(added)

    def add_record(self, record: ConsumerRecord[K, V]) -> None:
        """There is a record; its partition must be assigned. Offsets of a partition must grow."""
        tp = TopicPartition(record.topic, record.partition)
        self._check_assigned(tp)
        records = self._records.setdefault(tp, [])
        if records and record.offset <= records[-1].offset:
            raise ValueError(f"{tp}: offset {record.offset} does not come after {records[-1].offset}")
        records.append(record)
        self._ends[tp] = max(self._ends.get(tp, 0), record.offset + 1)
        self._partitions.setdefault(tp.topic, set()).add(tp.partition)

    def update_beginning_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Return where logs begin."""
        self._beginnings.update(offsets)

    def update_end_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Return where logs end; what is added from now on is new, also for ``latest`` and :meth:`seek_to_end`."""
        self._ends.update(offsets)
        self._new_from.update(offsets)

    def update_partitions(self, topic: str, count: int) -> None:
        """A topic has that many partitions."""
        self._partitions[topic] = set(range(count))

    def schedule_poll_task(self, task: Callable[[], object]) -> None:
        """Run ``task`` at the beginning of a later poll; one task for each poll, in order."""
        self._tasks.append(task)

    def set_poll_error(self, error: Exception) -> None:
        """The next poll raises this, once."""
        self._error = error

    # -- records -----------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        """Return what the test added beyond the positions, which move past it."""
        self._check_open()
        if self._tasks:
            self._tasks.popleft()()
        if self._woken:
            self._woken = False
            raise WakeupError("wakeup() was called")
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if not (self._assigned or self._topics or self._pattern):
            raise IllegalStateError("nothing is subscribed or assigned: call subscribe() or assign() first")
        room = self._max_poll_records if max_records is None else max_records
        found: dict[TopicPartition, list[ConsumerRecord[K, V]]] = {}
        for tp in self._assigned:
            position = self._find(tp)
            if tp in self._paused:
                continue
            records = [r for r in self._records.get(tp, ()) if r.offset >= position][:room]
            if records:
                found[tp] = records
                self._assigned[tp] = records[-1].offset + 1
                room -= len(records)
        return ConsumerRecords(found)

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        return self

    def __next__(self) -> ConsumerRecord[K, V]:
        """The next record; ``StopIteration`` when the test has added no more."""
        for record in self.poll(max_records=1).records():
            return record
        raise StopIteration

    # -- subscription ------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        self._check_open()
        if listener is not None and not isinstance(listener, ConsumerRebalanceListener):
            raise TypeError(f"a listener must be a ConsumerRebalanceListener, not {listener!r}")
        if topics is None or isinstance(topics, str):
            raise TypeError(f"topics must be a list of names, not {topics!r}")
        wanted = list(topics)
        if pattern is not None and wanted:
            raise ValueError("topics and a pattern exclude one another")
        if pattern == "":
            raise ValueError("the pattern must not be empty")
        for topic in wanted:
            if not isinstance(topic, str) or not topic.strip():
                raise ValueError(f"a topic must be a name, not {topic!r}")
        if pattern is None and not wanted:
            self.unsubscribe()
            return
        other = self._pattern if wanted else self._topics
        if self._by_hand or other:
            raise IllegalStateError("topics, a pattern and assigned partitions exclude one another; call unsubscribe()")
        self._topics = set(wanted)
        if isinstance(pattern, SubscriptionPattern):
            pattern = pattern.pattern  # there is no broker to evaluate it
        self._pattern = re.compile(pattern) if isinstance(pattern, str) else pattern
        self._listener = listener

    def unsubscribe(self, timeout_ms: float | None = None) -> None:
        self._check_open()
        if self._listener is not None and self._assigned:
            self._listener.on_partitions_revoked(list(self._assigned))
        self._topics, self._pattern, self._listener, self._by_hand = set(), None, None, False
        self._take(())

    def subscription(self) -> set[str]:
        if self._pattern is not None:
            return {topic for topic in self._partitions if self._pattern.fullmatch(topic)}
        return set(self._topics)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._check_open()
        if self._topics or self._pattern:
            raise IllegalStateError("topics are subscribed")
        self._take([TopicPartition(*tp) for tp in partitions])
        self._by_hand = bool(self._assigned)

    def assignment(self) -> set[TopicPartition]:
        return set(self._assigned)

    def enforce_rebalance(self, reason: str | None = None) -> None:
        self._check_open()
        self._need_group()
        self.rebalances_asked.append(reason)

    def group_metadata(self) -> ConsumerGroupMetadata:
        return ConsumerGroupMetadata(self._need_group(), self._generation, "mock" if self._generation >= 0 else "")

    # -- positions ---------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        number = offset.offset if isinstance(offset, OffsetAndMetadata) else offset
        if number < 0:
            raise ValueError(f"the offset must not be negative: {number}")
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
        return self._find(self._check_assigned(partition))

    def pause(self, *partitions: TopicPartition) -> None:
        self._paused |= {self._check_assigned(tp) for tp in partitions}

    def resume(self, *partitions: TopicPartition) -> None:
        self._paused -= {self._check_assigned(tp) for tp in partitions}

    def paused(self) -> set[TopicPartition]:
        return set(self._paused)

    def current_lag(self, partition: TopicPartition) -> int | None:
        position, end = self._assigned[self._check_assigned(partition)], self._ends.get(partition)
        return None if position is None or end is None else max(0, end - position)

    # -- commits -----------------------------------------------------------------------------------------------------

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None, timeout_ms: float | None = None
    ) -> None:
        self._check_open()
        self._committed.update(self._to_commit(offsets))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        callback: Callable[..., object] | None = None,
    ) -> RequestFuture[None]:
        self._check_open()
        wanted = self._to_commit(offsets)
        self._committed.update(wanted)
        if callback is not None:
            callback(wanted, None)
        return RequestFuture.of(None)

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

    def committed(self, partition: Any, metadata: bool = False, timeout_ms: float | None = None) -> Any:
        self._need_group()
        single = isinstance(partition, TopicPartition)
        found = {tp: self._committed.get(tp) for tp in ([partition] if single else partition)}
        shown = {tp: value if value is None or metadata else value.offset for tp, value in found.items()}
        return shown[partition] if single else shown

    # -- the log -----------------------------------------------------------------------------------------------------

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        for tp, at in timestamps.items():
            first = next((r for r in self._records.get(tp, ()) if r.timestamp >= at), None)
            found[tp] = None if first is None else OffsetAndTimestamp(first.offset, first.timestamp)
        return found

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        return {tp: self._known(self._beginnings, tp, "update_beginning_offsets") for tp in partitions}

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        return {tp: self._known(self._ends, tp, "update_end_offsets") for tp in partitions}

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        found = self._partitions.get(topic)
        return None if found is None else set(found)

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        return set(self._partitions)

    # -- the rest ----------------------------------------------------------------------------------------------------

    def metrics(self, raw: bool = False) -> Metrics:
        return {}

    def wakeup(self) -> None:
        self._woken = True

    def close(self, timeout_ms: float | None = None, leave_group: bool | None = None) -> None:
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _take(self, partitions: Iterable[TopicPartition]) -> None:
        old, self._assigned = self._assigned, {tp: self._assigned.get(tp) for tp in partitions}
        self._paused &= self._assigned.keys()
        self._resets = {tp: policy for tp, policy in self._resets.items() if tp in self._assigned}
        for tp in self._assigned.keys() - old.keys():
            self._note_end(tp)

    def _note_end(self, tp: TopicPartition) -> None:
        """Return what is there now is not new."""
        if tp in self._ends:
            self._new_from[tp] = self._ends[tp]

    def _find(self, tp: TopicPartition) -> int:
        """The position, found as a consumer finds it if there is none yet."""
        position = self._assigned[tp]
        if position is None:
            policy = self._resets.get(tp, self._policy)
            if tp in self._committed and tp not in self._resets:
                position = self._committed[tp].offset
            elif policy.name == "earliest":
                position = self._known(self._beginnings, tp, "update_beginning_offsets")
            elif policy.name == "latest":
                position = self._known(self._new_from, tp, "update_end_offsets")
            else:
                raise NoOffsetForPartitionError(f"{tp} has no position, and auto_offset_reset is {self._policy.name!r}")
            self._assigned[tp] = position
            self._resets.pop(tp, None)
        return position

    def _to_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        self._need_group()
        if offsets is None:
            return {tp: OffsetAndMetadata(at) for tp, at in self._assigned.items() if at is not None}
        return {tp: at if isinstance(at, OffsetAndMetadata) else OffsetAndMetadata(at) for tp, at in offsets.items()}

    @staticmethod
    def _known(offsets: Mapping[TopicPartition, int], tp: TopicPartition, method: str) -> int:
        if tp not in offsets:
            raise KafkaError(f"the test has not said where {tp} is: call {method}()")
        return offsets[tp]

    def _check_assigned(self, tp: TopicPartition) -> TopicPartition:
        self._check_open()
        if tp not in self._assigned:
            raise IllegalStateError(f"{tp} is not assigned")
        return TopicPartition(*tp)

    def _check_open(self) -> None:
        if self.closed:
            raise IllegalStateError("this MockConsumer is closed")

    def _need_group(self) -> str:
        if self._group_id is None:
            raise InvalidGroupIdError("a group_id is needed")
        return self._group_id
