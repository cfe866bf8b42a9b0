"""``MockShareConsumer``: a share consumer without a cluster, for tests of programs that take a ``ShareConsumer``.

Java: ``org.apache.kafka.clients.consumer.MockShareConsumer``. The test takes the part of the broker: it adds records,
lets locks expire, and lets calls and acknowledgements fail::

    consumer = MockShareConsumer("tasks", share_acknowledgement_mode="explicit")
    consumer.add_records(make_records("tasks", [b"one", b"two"]))
    assert program(consumer) == 2
    assert set(consumer.acknowledged.values()) == {AcknowledgeType.ACCEPT}

Records that are released come again, with a higher delivery count, until the limit. Calls that may run the callback of
the application are generators, as in :mod:`.mock_consumer`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from pyconsumer.clock import seconds_of
from pyconsumer.consumer.arguments import check_max_records, topic_names
from pyconsumer.consumer.interface import Metrics
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.consumer.share.acknowledgements import Delivery, Piece, Run, Source, not_delivered
from pyconsumer.consumer.share.delegate import AcknowledgementCallback, CommitResults
from pyconsumer.consumer.share.interface import Acknowledgeable, Mask, ShareConsumer, place_of
from pyconsumer.errors import IllegalStateError, InvalidRecordStateError, KafkaError, WakeupError
from pyconsumer.generic import K, V
from pyconsumer.metrics.source import Metric
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import AcknowledgeType, TopicPartition
from pyconsumer.testing.mock_steps import MockSteps, awaited, without_waiting
from pyconsumer.testing.planned_errors import PlannedErrors

if TYPE_CHECKING:
    import pyarrow

__all__ = ["MockShareConsumer"]

_CALLS = ("poll", "commit", "acknowledgements", "close")

Place = tuple[str, int, int]
"""Topic, partition and offset of a record."""


class MockShareConsumer(ShareConsumer[K, V]):
    """A share consumer without a cluster. See the module.

    It never waits. If there are no records, ``poll`` returns at once.

    Args:
        topics: the topics to subscribe to.
        share_acknowledgement_mode: ``implicit`` or ``explicit``, as in a real share consumer.
        max_poll_records: the largest number of records that a poll returns.
        delivery_limit: how often a record is delivered at most. One that is released in its last delivery is archived.
        lock_timeout_ms: the value of :meth:`acquisition_lock_timeout_ms`. Locks expire by :meth:`expire_locks` only.

    Attributes:
        closed: True after the consumer was closed.
        acknowledged: the last confirmed acknowledgement of each record, by topic, partition and offset.
        archived: the records that were released in their last delivery, or rejected.
        last_poll_timeout_ms: the timeout of the last poll.
    """

    def __init__(
        self,
        *topics: str,
        share_acknowledgement_mode: Literal["implicit", "explicit"] = "implicit",
        max_poll_records: int = 500,
        delivery_limit: int = 5,
        lock_timeout_ms: int = 30_000,
    ) -> None:
        if share_acknowledgement_mode not in ("implicit", "explicit"):
            raise ValueError(f"share_acknowledgement_mode is implicit or explicit, not {share_acknowledgement_mode!r}")
        self.closed = False
        self.acknowledged: dict[Place, AcknowledgeType] = {}
        self.archived: list[ConsumerRecord[K, V]] = []
        self.last_poll_timeout_ms: float | None = None
        self._topics = frozenset(topic_names(topics)) if topics else frozenset[str]()
        self._is_explicit = share_acknowledgement_mode == "explicit"
        self._max_poll_records = max_poll_records
        self._limit = delivery_limit
        self._lock_timeout_ms = lock_timeout_ms
        self._planned = PlannedErrors(self, _CALLS)
        self._queue: deque[tuple[ConsumerRecord[K, V], int]] = deque()  # with the delivery count that comes next
        self._delivered: list[Delivery] = []
        self._renewed: list[Delivery] = []
        self._taken: list[Delivery] = []  # by the last poll
        self._expired: set[Place] = set()
        self._callback: AcknowledgementCallback | None = None
        self._outcomes: list[tuple[TopicPartition, set[int], KafkaError | None]] = []
        self._woken = False
        self._in_callback = False

    # -- called by the test ------------------------------------------------------------------------------------------

    def add_record(self, record: ConsumerRecord[K, V], delivery_count: int = 1) -> None:
        """Let the group have a record for this member.

        Args:
            record: the record.
            delivery_count: how often it was delivered when it comes, that time included.
        """
        self._queue.append((record, delivery_count))

    def add_records(self, records: Iterable[ConsumerRecord[K, V]]) -> None:
        """Add records. See :meth:`add_record`."""
        for record in records:
            self.add_record(record)

    def expire_locks(self) -> None:
        """Let the locks of all delivered records expire.

        The records come again. Acknowledgements of the earlier delivery fail with ``InvalidRecordStateError``.
        """
        for delivery in self._delivered:
            for record in delivery.records:
                if delivery.holds(record.offset):
                    self._expired.add((record.topic, record.partition, record.offset))
                    self._again(record, delivery)

    def fail_next(self, call: str, error: Exception, *, times: int = 1) -> None:
        """Let the next calls raise an error before they have any effect.

        Args:
            call: ``poll``, ``commit`` or ``close`` (the consumer is closed all the same). Or ``acknowledgements``:
                those of the next request fail with the error, which ``commit`` and the callback get. Their records come
                again.
            error: the error.
            times: the number of calls that fail.

        Raises:
            ValueError: no call of this name can fail.
        """
        self._planned.add(call, error, times)

    # -- records -----------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        return without_waiting(self.poll_steps(timeout_ms, max_records))

    def poll_arrow(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        columns: Iterable[str] | None = None,
        *,
        dictionary_topic: bool = False,
    ) -> pyarrow.RecordBatch:
        return without_waiting(
            self.poll_arrow_steps(timeout_ms, max_records, columns, dictionary_topic=dictionary_topic)
        )

    def poll_arrow_steps(
        self, timeout_ms: float, max_records: int | None, columns: Iterable[str] | None, *, dictionary_topic: bool
    ) -> MockSteps[pyarrow.RecordBatch]:
        """Poll columns, as a generator. See :data:`.mock_steps.MockSteps`."""
        from pyconsumer.consumer.share.arrow import ShareColumns

        wanted = ShareColumns(columns, dictionary_topic=dictionary_topic)
        yield from self.poll_steps(timeout_ms, max_records)
        return wanted.batch(self._taken)

    def poll_steps(self, timeout_ms: float = 0, max_records: int | None = None) -> MockSteps[ConsumerRecords[K, V]]:
        """Poll, as a generator. See :data:`.mock_steps.MockSteps`."""
        self._check_open()
        self._refuse_in_callback("poll")
        seconds_of(timeout_ms)
        room = self._max_poll_records if max_records is None else check_max_records(max_records)
        self.last_poll_timeout_ms = timeout_ms
        self._raise_wakeup()
        self._planned.take("poll")
        if not self._topics:
            raise IllegalStateError("no topic is subscribed: call subscribe() first")
        if self._is_explicit:
            for delivery in self._delivered:
                if delivery.first_open is not None:
                    raise IllegalStateError(
                        f"a record is not acknowledged: {delivery.source.topic_partition} offset {delivery.first_open}"
                    )
        self._settle()
        yield from self._run_callback()
        taken, self._renewed = self._renewed, []
        self._taken = taken or self._acquire(room)
        self._delivered += self._taken
        found: dict[TopicPartition, list[ConsumerRecord[K, V]]] = {}
        for delivery in self._taken:
            found.setdefault(delivery.source.topic_partition, []).extend(delivery.records)
        return ConsumerRecords(found)

    def _acquire(self, room: int) -> list[Delivery]:
        """Take records that wait, as deliveries with ascending offsets."""
        taken: dict[TopicPartition, list[tuple[ConsumerRecord[K, V], int]]] = {}
        left: deque[tuple[ConsumerRecord[K, V], int]] = deque()
        for record, count in self._queue:
            if room and record.topic in self._topics:
                taken.setdefault(record.topic_partition, []).append((record, count))
                room -= 1
            else:
                left.append((record, count))
        self._queue = left
        found = []
        for tp, rows in taken.items():
            rows.sort(key=lambda row: row[0].offset)
            places: list[Run] = [(record.offset, record.offset) for record, _ in rows]
            counts = [(record.offset, record.offset, count) for record, count in rows]
            self._expired.difference_update((tp.topic, tp.partition, offset) for offset, _ in places)
            found.append(Delivery(Source(0, b"", tp), [record for record, _ in rows], places, counts, math.inf))
        return found

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        return self

    def __next__(self) -> ConsumerRecord[K, V]:
        """Return the next record. The loop ends when no record is left."""
        for record in self.poll(max_records=1).records():
            return record
        raise StopIteration

    # -- subscription ------------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        self._check_open()
        self._refuse_in_callback("subscribe")
        self._topics = frozenset(topic_names(topics))

    def subscription(self) -> set[str]:
        self._check_open()
        return set(self._topics)

    def unsubscribe(self) -> None:
        self._check_open()
        self._refuse_in_callback("unsubscribe")
        if self._is_explicit:
            self._settle()
        self._topics = frozenset()

    # -- acknowledgements --------------------------------------------------------------------------------------------

    def acknowledge(
        self,
        record: Acknowledgeable | pyarrow.RecordBatch | pyarrow.Table,
        type: AcknowledgeType | Mask = AcknowledgeType.ACCEPT,
    ) -> None:
        self._check_open()
        if not self._is_explicit:
            raise IllegalStateError("records are accepted by the next poll or commit in implicit mode")
        rows: Any
        if hasattr(record, "schema"):
            from pyconsumer.consumer.share.arrow import acknowledged_rows

            rows = acknowledged_rows(record, type)
        else:
            tp, offset = place_of(record)
            rows = {(tp, AcknowledgeType(type)): [offset]}
        chosen = [
            (self._holder(tp, offset), offset, kind) for (tp, kind), offsets in rows.items() for offset in offsets
        ]
        for delivery, offset, kind in chosen:
            delivery.choose(offset, kind)

    def _holder(self, tp: TopicPartition, offset: int) -> Delivery:
        for delivery in self._delivered:
            if delivery.source.topic_partition == tp and delivery.holds(offset):
                return delivery
        raise not_delivered(tp, offset)

    def delivery_count(self, record: Acknowledgeable) -> int:
        self._check_open()
        tp, offset = place_of(record)
        found = [each for each in self._delivered if each.source.topic_partition == tp]
        return max((each.delivery_count(offset) for each in found if each.holds(offset)), default=0)

    def commit(self, timeout_ms: float | None = None) -> CommitResults:
        return without_waiting(self.commit_steps())

    def commit_steps(self) -> MockSteps[CommitResults]:
        """Commit, as a generator. See :data:`.mock_steps.MockSteps`."""
        self._check_open()
        self._raise_wakeup()
        self._planned.take("commit")
        results = self._settle()
        yield from self._run_callback()
        return results

    def commit_async(self) -> None:
        self._check_open()
        self._settle()

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCallback | None) -> None:
        self._check_open()
        if callback is not None and not callable(callback):
            raise TypeError(f"the callback must be a function, not {callback!r}")
        self._callback = callback

    def acquisition_lock_timeout_ms(self) -> int | None:
        self._check_open()
        return self._lock_timeout_ms

    def _settle(self) -> CommitResults:
        """Send acknowledgements, and let the broker's part answer."""
        results: CommitResults = {}
        sent: list[tuple[Delivery, list[Piece]]] = []
        for delivery in self._delivered:
            pieces = delivery.pieces(accept_rest=not self._is_explicit)
            delivery.take_out(pieces)
            if pieces:
                sent.append((delivery, pieces))
        self._delivered = [delivery for delivery in self._delivered if delivery.runs]
        planned = self._planned.pop("acknowledgements") if sent else None
        for delivery, pieces in sent:
            tp = delivery.source.topic_partition
            offsets = [offset for piece in pieces for offset in range(piece.first, piece.last + 1)]
            error = planned if isinstance(planned, KafkaError) else None
            if error is None and any((*tp, offset) in self._expired for offset in offsets):
                error = InvalidRecordStateError("the lock of a record has expired")
            for piece in pieces:
                self._answer(delivery, piece, error)
            results[tp] = results.get(tp) or error
            self._outcomes.append((tp, set(offsets), error))
        return results

    def _answer(self, delivery: Delivery, piece: Piece, error: KafkaError | None) -> None:
        tp, kind = delivery.source.topic_partition, AcknowledgeType(piece.kind)
        for record in delivery.records:
            place = (*tp, record.offset)
            if not piece.first <= record.offset <= piece.last or place in self._expired:
                continue
            if error is not None:
                self._again(record, delivery)
                continue
            self.acknowledged[place] = kind
            if kind is AcknowledgeType.RELEASE:
                self._again(record, delivery)
            elif kind is AcknowledgeType.REJECT:
                self.archived.append(record)
        if error is None and piece.delivery is not None:
            self._renewed.append(piece.delivery)

    def _again(self, record: ConsumerRecord[K, V], delivery: Delivery) -> None:
        count = delivery.delivery_count(record.offset)
        if count >= self._limit:
            self.archived.append(record)
        else:
            self._queue.append((record, count + 1))

    def _run_callback(self) -> MockSteps[None]:
        outcomes, self._outcomes = self._outcomes, []
        found: dict[KafkaError | None, dict[TopicPartition, set[int]]] = {}
        for tp, offsets, error in outcomes:
            found.setdefault(error, {}).setdefault(tp, set()).update(offsets)
        for error, by_partition in found.items():
            if self._callback is not None:
                self._in_callback = True
                try:
                    yield from awaited(self._callback(by_partition, error))
                finally:
                    self._in_callback = False

    # -- the rest ----------------------------------------------------------------------------------------------------

    def metrics(self, raw: bool = False) -> Metrics:
        return {}

    def metric_table(self) -> list[Metric]:
        return []

    def wakeup(self) -> None:
        self._woken = True

    def close(self, timeout_ms: float | None = None) -> None:
        without_waiting(self.close_steps())

    def close_steps(self) -> MockSteps[None]:
        """Close, as a generator. See :data:`.mock_steps.MockSteps`."""
        if self.closed:
            return
        self._refuse_in_callback("close")
        try:
            if self._is_explicit:
                self._settle()
            for delivery in self._delivered:  # released
                for record in delivery.records:
                    if delivery.holds(record.offset):
                        self._again(record, delivery)
            self._delivered = []
            yield from self._run_callback()
            self._planned.take("close")
        finally:
            self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self.closed:
            raise IllegalStateError("this consumer has been closed")

    def _refuse_in_callback(self, call: str) -> None:
        if self._in_callback:
            raise IllegalStateError(f"{call} must not be called from a callback")

    def _raise_wakeup(self) -> None:
        if self._woken:
            self._woken = False
            raise WakeupError("wakeup() was called")
