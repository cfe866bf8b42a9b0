"""Batches: several records for one call of the function.

:class:`BatchSchedule` is a schedule whose tasks are batches. All rules of :mod:`.schedule` hold for their records.

Rules

1. A batch has at most ``max`` records. It begins when that many are ready, or ``wait_ms`` after the first of them was.
   One worker at a time waits for that, so that the others leave it the records.
2. With ``order="partition"`` a batch has the next records of one partition. With ``order="key"`` it may have several
   records of a key, in the order of their offsets. The next batch with one of these keys begins when it is done. With
   None, records are in any order.
3. A batch whose function fails is tried again record by record, as batches of one. That call counts as no attempt of
   its records. From then on the attempts and pauses of each record are counted. A batch of one counts at once.
4. A record that cannot be deserialized is left out of its batch, and goes to the dead letters.
5. With exactly once, a batch has records of one partition.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pyconsumer.consumer.arrow import arrow_columns
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.structs import TopicPartition
from pyconsumer.workers.schedule import Schedule, Task
from pyconsumer.workers.settings import Batch, Order, Retry

if TYPE_CHECKING:
    import pyarrow

__all__ = ["BatchSchedule", "BatchTask", "table_of", "tasks_of"]


class BatchTask(Task):
    """Records for one call of the function. Partition, record and attempt are those of the first one.

    Attributes:
        tasks: one for each record.
    """

    __slots__ = ("tasks",)

    def __init__(self, tasks: list[Task]) -> None:
        first = tasks[0]
        super().__init__(first.record, first.share, None, sum(task.size for task in tasks))
        self.tasks = tasks
        self.attempt = first.attempt

    def keep(self, tasks: list[Task]) -> None:
        """Have only these tasks from now on."""
        self.tasks = tasks


def tasks_of(task: Task) -> list[Task]:
    """Return the tasks of a batch, or a task that is none in a list."""
    return task.tasks if isinstance(task, BatchTask) else [task]


def table_of(tasks: Sequence[Task]) -> pyarrow.Table:
    """Return the records of tasks as a table with the columns of the ``poll_arrow`` of their consumer."""
    import pyarrow as pa

    records = [task.record for task in tasks]
    columns: dict[str, list[Any]] = {
        "topic": [record.topic for record in records],
        "partition": [record.partition for record in records],
        "offset": [record.offset for record in records],
        "timestamp": [record.timestamp for record in records],
        "key": [record.key for record in records],
        "value": [record.value for record in records],
        "headers": [[{"key": name, "value": value} for name, value in record.headers] for record in records],
    }
    schema = arrow_columns(None, False).schema
    if tasks[0].delivery_count is not None:
        from pyconsumer.consumer.share.arrow import count_field

        count = count_field()
        schema = schema.append(count)
        columns[count.name] = [task.delivery_count for task in tasks]
    return pa.table(columns, schema=schema)


class BatchSchedule(Schedule):
    """A schedule whose tasks are batches. See the module.

    Args:
        order, retry, now, on_ready: as for :class:`.Schedule`.
        batch: the size of batches, and how long they wait.
        one_partition: True if a batch must have records of one partition (rule 5).
    """

    def __init__(
        self,
        order: Order,
        retry: Retry,
        now: Callable[[], float],
        on_ready: Callable[[int], None] | None = None,
        *,
        batch: Batch,
        one_partition: bool,
    ) -> None:
        super().__init__(order, retry, now, on_ready)
        self._most = batch.max
        self._wait = batch.wait_ms / 1000
        self._one_partition = one_partition or order == "partition"
        self._turn = threading.Lock()  # of the worker that waits for a batch
        self._since: float | None = None  # since when records are ready
        self._alone: set[Task] = set()  # records of batches that failed
        self._together: dict[tuple[Any, Any], int] = {}  # by partition and lane, the records of it that a batch has

    # -- intake and work -----------------------------------------------------------------------------------------------

    def add(self, records: ConsumerRecords[Any, Any]) -> None:
        super().add(records)
        with self.lock:
            self._note_ready()
            self._on_ready(1)  # records behind another one may fill a batch

    def _note_ready(self) -> None:
        """Let the wait of the next batch begin, if it has a record."""
        if self._ready and self._since is None:
            self._since = self._now()

    def next_task(self) -> BatchTask | None:
        """Return the next batch, which runs from now on. None if none is due. The caller holds the lock."""
        if self._later:
            self._wake_due()
        ready = self._ready
        while ready and (not ready[0].share.alive or ready[0].share.held):
            ready.popleft()
        if not ready or self.closed:
            self._since = None
            return None
        if self._since is None:
            self._since = self._now()
        first = ready[0]
        if first in self._alone:
            ready.popleft()
            return self._begun([first])
        return self._begun(self._gathered(first)) if self._is_due(first) else None

    def wait_for_task(self) -> Task | None:
        with self._turn:
            return super().wait_for_task()

    def _begun(self, tasks: list[Task]) -> BatchTask:
        now = self._now()
        for task in tasks:
            task.begin()
            task.share.running[task] = now
        return BatchTask(tasks)

    def _fits(self, task: Task, first: Task) -> bool:
        share = task.share
        if share is not first.share and (self._one_partition or not share.alive or share.held):
            return False
        return task not in self._alone

    def _is_due(self, first: Task) -> bool:
        assert self._since is not None
        if first in self._alone or self._now() >= self._since + self._wait:
            return True
        count = 0
        for task in self._ready:
            if self._fits(task, first):
                count += 1 if task.lane is None else 1 + len(task.share.lanes[task.lane])
                if count >= self._most:
                    return True
        return False

    def _gathered(self, first: Task) -> list[Task]:
        """Take the records of a batch out of the ready ones, with those that wait behind them."""
        taken: list[Task] = []
        left: list[Task] = []
        ready, alone = self._ready, self._alone
        while ready and len(taken) < self._most:
            task = ready.popleft()
            if not self._fits(task, first):
                left.append(task)
                continue
            taken.append(task)
            if task.lane is None:
                continue
            behind = task.share.lanes[task.lane]
            count = 1
            while behind and len(taken) < self._most and behind[0] not in alone:
                taken.append(behind.popleft())
                count += 1
            if count > 1:
                self._together[task.share, task.lane] = count
        ready.extendleft(reversed(left))
        self._since = self._now() if ready else None
        return taken

    def until_due(self) -> float | None:
        due = super().until_due()
        if not self._ready or self._since is None:
            return due
        if self._is_due(self._ready[0]):
            return 0.0
        wait = max(0.0, self._since + self._wait - self._now())
        return wait if due is None else min(due, wait)

    def until_next(self) -> float | None:
        with self.lock:
            return self.until_due()

    # -- the ends of a batch -------------------------------------------------------------------------------------------

    def finish(self, task: Task) -> None:
        for one in tasks_of(task):
            super().finish(one)

    def leave_out(self, task: Task) -> None:
        for one in tasks_of(task):
            super().leave_out(one)

    def fail(self, task: Task, error: BaseException, wall_ms: int, *, for_good: bool = False) -> bool:
        if not for_good:
            with self.lock:
                self._alone.add(task)
        return super().fail(task, error, wall_ms, for_good=for_good)

    def split(self, batch: BatchTask) -> None:
        """Put back the records of a batch that failed. Each is tried by itself (rule 3)."""
        with self.lock:
            self._alone.update(batch.tasks)
            self._put_back(batch.tasks, None)

    def postpone(self, task: Task, pause: float) -> None:
        with self.lock:
            self._put_back(tasks_of(task), pause)

    def give_back(self, task: Task) -> None:
        with self.lock:
            self._put_back(tasks_of(task), None)

    def abort(self, task: Task, error: BaseException) -> None:
        for one in tasks_of(task):
            super().abort(one, error)

    def _put_back(self, tasks: list[Task], pause: float | None) -> None:
        """Put tasks that ran back into their places, or let the first one of each lane wait."""
        heads: list[Task] = []
        lanes: set[tuple[Any, Any]] = set()
        for task in tasks:
            task.take_back()
            task.share.running.pop(task, None)
            if task.share.alive and (task.lane is None or (task.share, task.lane) not in lanes):
                heads.append(task)
                lanes.add((task.share, task.lane))
        for task in reversed([task for task in tasks if task.share.alive and task.lane is not None]):
            task.share.lanes[task.lane].appendleft(task)
        for place in lanes:
            self._together.pop(place, None)
        for head in heads:
            if head.lane is not None:
                head.share.lanes[head.lane].popleft()
        if pause is None:
            self._ready.extendleft(reversed(heads))
        else:
            for head in heads:
                self._push_later(head, pause)
        self.changed.notify_all()
        self._on_ready(len(heads))

    def _settle(self, task: Task) -> None:
        share = task.share
        self._alone.discard(task)
        place = (share, task.lane)
        count = self._together.get(place, 1)
        if count == 1:
            self._together.pop(place, None)
            super()._settle(task)
            self._note_ready()
            return
        self._together[place] = count - 1  # the batch has others of this lane
        share.running.pop(task, None)
        if share.alive:
            self._undone -= 1
            self._bytes -= task.size
            share.count(-1, -task.size)
        self.changed.notify_all()

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        super().drop(partitions)
        with self.lock:
            self._alone = {task for task in self._alone if task.share.alive}
            self._together = {place: count for place, count in self._together.items() if place[0].alive}
