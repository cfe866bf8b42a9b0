"""Schedules of records that a share group has acquired. All rules of :mod:`.schedule` hold, with these differences.

Rules

1. There is no order, and no offset to commit. A record that is done is *settled*: accepted, rejected or released. The
   consumer's thread takes these records, and acknowledges them.
2. Attempts count deliveries. The first call of a record that comes for the third time is its third attempt.
3. A record that fails in its last delivery has no further attempt: the broker would not deliver it again.
4. A record that is tried again is held, if its lock lasts until then or can be renewed. Otherwise it is released, and
   any member gets it.
5. Records whose lock has ended are forgotten. One that runs continues, and its result is ignored by the broker.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from pyconsumer.consumer.share.acknowledgements import Delivery
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import AcknowledgeType, TopicPartition
from pyconsumer.workers.batches import BatchSchedule, tasks_of
from pyconsumer.workers.schedule import Schedule, Task
from pyconsumer.workers.settings import Order, Retry
from pyconsumer.workers.tasks import PartitionTasks

__all__ = ["Settled", "ShareBatchSchedule", "ShareSchedule"]

#: Time before the end of a lock in which a repetition is not begun any more (seconds).
_MARGIN_S: Final = 1.0

Settled = tuple[Delivery, int, AcknowledgeType]
"""A record that is done: its delivery, its offset, and its acknowledgement."""


class _AcquiredTask(Task):
    """An acquired record on its way.

    Attributes:
        delivery: the delivery that it came with.
        kind: the acknowledgement of it when it is done.
        since: when it came (monotonic seconds).
    """

    __slots__ = ("delivery", "kind", "since")

    def __init__(
        self, record: ConsumerRecord[Any, Any], share: PartitionTasks, delivery: Delivery, size: int, since: float
    ) -> None:
        super().__init__(record, share, None, size)
        self.delivery = delivery
        self.kind = AcknowledgeType.ACCEPT
        self.since = since

    @property
    def delivery_count(self) -> int:
        return self.delivery.delivery_count(self.record.offset)

    def settle_as(self, kind: AcknowledgeType) -> None:
        """Set the acknowledgement of it when it is done."""
        self.kind = kind

    def count_deliveries(self, count: int) -> None:
        """Set how often it was delivered, this time included (rule 2)."""
        self.attempt = count - 1


class ShareSchedule(Schedule):
    """See the module. The arguments are those of :class:`.Schedule`."""

    def __init__(
        self, order: Order, retry: Retry, now: Callable[[], float], on_ready: Callable[[int], None] | None = None
    ) -> None:
        super().__init__(order, retry, now, on_ready)
        self._settled: list[Settled] = []
        self._aborted: list[Task] = []
        self._limit: Callable[[], int] = lambda: 1 << 30
        self._renews: Callable[[], bool] = lambda: False

    def follow(self, limit: Callable[[], int], renews: Callable[[], bool]) -> None:
        """Use the settings of the group: how often a record is delivered, and whether locks are renewable."""
        self._limit = limit
        self._renews = renews

    def take_over(self, deliveries: Iterable[Delivery]) -> int:
        """Take over the records that a poll has acquired. Return the number of records."""
        added = 0
        with self.lock:
            for delivery in deliveries:
                tp = delivery.source.topic_partition
                share = self._shares.get(tp)
                if share is None:
                    share = self._shares[tp] = PartitionTasks(tp, self.progress.of(tp))
                added += self._acquired(delivery, share)
            if added:
                self._on_ready(added)
        return added

    def _acquired(self, delivery: Delivery, share: PartitionTasks) -> int:
        ready, records = self._ready, delivery.raw_records()
        total, now = 0, self._now()
        again = any(count > 1 for _, _, count in delivery.counts)
        for record in records:
            key, value = record.key, record.value
            size = (len(key) if type(key) is bytes else 64) + (len(value) if type(value) is bytes else 64)
            total += size
            task = _AcquiredTask(record, share, delivery, size, now)
            if again:
                task.count_deliveries(delivery.delivery_count(record.offset))
            ready.append(task)
        share.count(len(records), total)
        self._undone += len(records)
        self._bytes += total
        return len(records)

    def finish(self, task: Task) -> None:
        assert isinstance(task, _AcquiredTask)
        with self.lock:
            if task.share.alive:
                self.finished += 1
                self._settled.append((task.delivery, task.record.offset, task.kind))
            self._settle(task)

    def finish_all(self, tasks: list[Task]) -> None:
        for task in tasks:
            self.finish(task)

    def leave_out(self, task: Task) -> None:
        assert isinstance(task, _AcquiredTask)
        task.settle_as(AcknowledgeType.REJECT)
        self.finish(task)

    def release(self, task: Task) -> None:
        """Let the broker deliver a record again, to any member."""
        assert isinstance(task, _AcquiredTask)
        with self.lock:
            if task.share.alive:
                self._settled.append((task.delivery, task.record.offset, AcknowledgeType.RELEASE))
            self._settle(task)

    def fail(self, task: Task, error: BaseException, wall_ms: int, *, for_good: bool = False) -> bool:
        assert isinstance(task, _AcquiredTask)
        if task.delivery.locked_until <= self._now():  # another member may have it
            self.release(task)
            return True
        for_good = for_good or self.is_last_delivery(task)
        pause = self._retry.longest_pause(task.attempt)
        lasts = self._now() + pause + _MARGIN_S < task.delivery.locked_until
        if for_good or lasts or self._renews() or self._retry.is_last(task.attempt, error):
            return super().fail(task, error, wall_ms, for_good=for_good)
        with self.lock:
            self.retries += 1
        self.release(task)
        return True

    def abort(self, task: Task, error: BaseException) -> None:
        self._aborted.append(task)
        super().abort(task, error)

    def is_last_delivery(self, task: Task) -> bool:
        """Return True if the broker delivers a record no more after this time."""
        return self.delivery_of(task).delivery_count(task.record.offset) >= self._limit()

    def delivery_of(self, task: Task) -> Delivery:
        """Return the delivery that a task came with."""
        assert isinstance(task, _AcquiredTask)
        return task.delivery

    def take_settled(self) -> list[Settled]:
        """Return the records that are done since the last call, in the consumer's thread."""
        if not self._settled:
            return []
        with self.lock:
            settled, self._settled = self._settled, []
        return settled

    def forget(self, deliveries: Collection[Delivery]) -> int:
        """Forget the records of deliveries whose lock has ended (rule 5). Return how many had not begun."""
        gone = set(deliveries)
        with self.lock:
            lost = [task for task in self._ready if _came_with(task, gone)]
            lost += [entry[2] for entry in self._later if _came_with(entry[2], gone)]
            if lost:
                self._ready = deque(task for task in self._ready if not _came_with(task, gone))
                self._later = [entry for entry in self._later if not _came_with(entry[2], gone)]
                heapq.heapify(self._later)
            for task in lost:
                self._settle(task)
            self.changed.notify_all()
        return len(lost)

    def not_done(self) -> list[Task]:
        """Return the tasks that are not done, after ``close``. One that has ended the work is among them."""
        with self.lock:
            running = [task for share in self._shares.values() for task in share.running]
            tasks = (*self._ready, *(entry[2] for entry in self._later), *running, *self._aborted)
            return [task for task in tasks if task.share.alive]

    def unfinished(self) -> dict[TopicPartition, tuple[int, float]]:
        """Return the lowest offset of each partition that is not done, and how many seconds ago it came."""
        found: dict[TopicPartition, tuple[int, float]] = {}
        now = self._now()
        for task in self.not_done():
            for one in tasks_of(task):
                assert isinstance(one, _AcquiredTask)
                place = one.record.offset, now - one.since
                tp = one.share.tp
                found[tp] = min(place, found.get(tp, place))
        return found


class ShareBatchSchedule(BatchSchedule, ShareSchedule):
    """A schedule whose tasks are batches of acquired records. The arguments are those of :class:`.BatchSchedule`."""

    def take_over(self, deliveries: Iterable[Delivery]) -> int:
        added = super().take_over(deliveries)
        with self.lock:
            self._note_ready()
            self._on_ready(1)
        return added


def _came_with(task: Task, deliveries: Collection[Delivery]) -> bool:
    return isinstance(task, _AcquiredTask) and task.delivery in deliveries
