"""The schedule: which record may be processed next, and which are done.

State, all of it under one lock. A finished record takes it once, and the next task once.

* *ready*: tasks that a worker may take, in the order in which they became ready.
* *lanes*: for each key or partition with a task that is not done, the tasks that wait behind it.
* *running*: tasks that a worker has.
* *later*: tasks that failed and wait for their next attempt.
* *progress*: for each partition, the records that are finished (:class:`.RecordProgress`).

A record is in exactly one of ready, a lane, running and later, until it is done or dropped.

Rules

1. Of a lane one task at a time is ready, running or later. The next one becomes ready when that one is done. So records
   of a key (or a partition) are processed one after the other, in the order of their offsets, repetitions included.
2. A record counts as finished when its function has returned, or when its dead letter was acknowledged.
3. A partition that was dropped takes its tasks out of all places. A running one continues, and its result is ignored.
4. A partition is stopped after an error that cannot be dealt with: no more of its tasks start, and it is not committed
   beyond the record.
5. ``close`` lets no more tasks start. Those that run may finish.
6. One thread at a time is woken for tasks. When it takes one and another is ready, it wakes the next thread. So threads
   sleep on if one of them is quick enough for all tasks, and all of them work soon if it is not.

There is no I/O here, and no thread. The clock is given.
"""

from __future__ import annotations

import heapq
import math
import threading
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable
from itertools import count
from typing import Any

from pyconsumer.consumer.progress import SharedProgress
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import OffsetAndMetadata, TopicPartition
from pyconsumer.workers.settings import Order, Retry
from pyconsumer.workers.tasks import PartitionTasks, Task

__all__ = ["Schedule", "Task"]


class Schedule:
    """See the module.

    Args:
        order: ``"key"``, ``"partition"`` or None.
        retry: when a record is tried again.
        now: the monotonic time, in seconds.
        on_ready: called with the number of tasks that became ready, under the lock.
    """

    def __init__(
        self,
        order: Order,
        retry: Retry,
        now: Callable[[], float],
        on_ready: Callable[[int], None] | None = None,
    ) -> None:
        self.lock = threading.Lock()
        self.progress = SharedProgress(self.lock)
        self.changed = threading.Condition(self.lock)  #: a task was done
        self.work = threading.Condition(self.lock)  #: a task is ready, or ``close``
        self.failure: BaseException | None = None
        self.closed = False
        self._watchers = 0  # threads that wait for ``changed``, and look after each task
        self._low_records = self._low_bytes = -1  # a thread waits until no more than these are not done
        self.finished = 0
        self.retries = 0
        self._order = order
        self._retry = retry
        self._now = now
        self._sleeping = 0  # threads that wait for a task
        self._waking = False  # one of them was woken, and has not run since
        self._alarm = math.inf  # when one of them wakes up by itself
        self._on_ready = on_ready or self._wake
        self._shares: dict[TopicPartition, PartitionTasks] = {}
        self._ready: deque[Task] = deque()
        self._later: list[tuple[float, int, Task]] = []
        self._number = count()
        self._stopped: dict[TopicPartition, BaseException] = {}
        self._undone = 0
        self._bytes = 0

    # -- intake, by the consumer's thread ----------------------------------------------------------------------------

    def add(self, records: ConsumerRecords[Any, Any]) -> None:
        """Take over the result of a poll."""
        with self.lock:
            before = len(self._ready)
            for tp, todo in self.progress.added(records):
                if todo and tp not in self._stopped:
                    share = self._shares.get(tp)
                    if share is None:
                        share = self._shares[tp] = PartitionTasks(tp, self.progress.of(tp))
                    self._add(todo, share)
            added = len(self._ready) - before
            if added:
                self._on_ready(added)

    def _add(self, records: list[ConsumerRecord[Any, Any]], share: PartitionTasks) -> None:
        order, ready, lanes, spare = self._order, self._ready, share.lanes, share.spare
        total = 0
        for record in records:
            key, value = record.key, record.value
            size = (len(key) if type(key) is bytes else 64) + (len(value) if type(value) is bytes else 64)
            total += size
            if order is None or (key is None and order == "key"):
                ready.append(Task(record, share, None, size))
                continue
            lane: Hashable = True
            if order == "key":
                lane = key if type(key) is bytes or type(key) is str else _hashable(key)
            task = Task(record, share, lane, size)
            waiting = lanes.get(lane)
            if waiting is None:
                lanes[lane] = spare.pop() if spare else deque()
                ready.append(task)
            else:
                waiting.append(task)
        share.count(len(records), total)
        self._undone += len(records)
        self._bytes += total

    def room(self, most_records: int, most_bytes: int) -> int:
        """Return how many records fit beside those that are not done, 0 if none does."""
        if self._bytes >= most_bytes:
            return 0
        return max(0, most_records - self._undone)

    def held_by_partition(self, concurrency: int) -> dict[TopicPartition, int] | None:
        """Return how many records of each partition are not done.

        None if ``concurrency`` records can be in work. Then it does not matter of which partitions they are.
        """
        with self.lock:
            shares = [share for share in self._shares.values() if share.alive]
            if len(self._ready) + len(self._later) + sum(len(share.running) for share in shares) >= concurrency:
                return None
            return {share.tp: share.undone for share in shares}

    def wait_for_room(self, most_records: int, most_bytes: int, timeout: float) -> bool:
        """Wait until half of the room is free, in the consumer's thread. So a poll brings many records.

        Args:
            most_records, most_bytes: as for :meth:`room`.
            timeout: longest time, in seconds.

        Returns:
            False if the time ran out.
        """
        with self.lock:
            self._low_records, self._low_bytes = most_records // 2, most_bytes // 2
            try:
                return self.changed.wait_for(
                    lambda: self.closed or (self._undone <= self._low_records and self._bytes <= self._low_bytes),
                    timeout,
                )
            finally:
                self._low_records = self._low_bytes = -1

    # -- work, by the workers ----------------------------------------------------------------------------------------

    def next_task(self) -> Task | None:
        """Return the next task, which runs from now on. None if none is ready. The caller holds the lock."""
        if self._later:
            self._wake_due()
        while self._ready and not self.closed:
            task = self._ready.popleft()
            share = task.share
            if not share.alive or share.held:
                continue  # dropped, or dropped soon
            task.begin()
            share.running[task] = self._now()
            return task
        return None

    def wait_for_task(self) -> Task | None:
        """Wait for a task, in a thread of the pool. None: the schedule is closed."""
        with self.lock:
            while True:
                task = self.next_task()
                if task is not None:
                    if self._sleeping and (self._ready or (self._later and self._later[0][0] < self._alarm)):
                        self._wake()
                    return task
                if self.closed:
                    return None
                due = self.until_due()
                at = math.inf if due is None else self._now() + due
                self._alarm = min(self._alarm, at)
                self._sleeping += 1
                self.work.wait(due)
                self._sleeping -= 1
                self._waking = False
                if at <= self._alarm:
                    self._alarm = math.inf  # perhaps too late for another thread, which is woken once too often then

    @property
    def has_ready(self) -> bool:
        """Return True if a task is ready."""
        return bool(self._ready)

    def _wake(self, _: int = 1) -> None:
        """Wake a thread for a task that is ready or due later, unless one is on its way (rule 6)."""
        if self._sleeping and not self._waking:
            self._waking = True
            self.work.notify()

    def until_due(self) -> float | None:
        """Return the seconds until a task that failed is due. None if there is none."""
        return max(0.0, self._later[0][0] - self._now()) if self._later else None

    def until_next(self) -> float | None:
        """Return the seconds until a task may begin, 0 if one is ready. None if none will be."""
        with self.lock:
            if self._ready:
                return 0.0
            return self.until_due()

    def _wake_due(self) -> None:
        now = self._now()
        while self._later and self._later[0][0] <= now:
            self._ready.append(heapq.heappop(self._later)[2])

    def next_tasks(self, most: int) -> list[Task]:
        """Return the next tasks, which run from now on, one after the other. The consumer's thread works on them."""
        with self.lock:
            tasks: list[Task] = []
            if self._later:
                self._wake_due()
            ready, now = self._ready, self._now()
            while ready and len(tasks) < most and not self.closed:
                task = ready.popleft()
                share = task.share
                if share.alive and not share.held:
                    task.begin()
                    share.running[task] = now
                    tasks.append(task)
            return tasks

    def finish(self, task: Task) -> None:
        """Note that a record is done."""
        with self.lock:
            share = task.share
            if share.alive:
                self.finished += 1
                share.progress.finish(task.record.offset)
            self._settle(task)

    def finish_all(self, tasks: list[Task]) -> None:
        """Note that records are done, as :meth:`finish` does for each."""
        with self.lock:
            ready, size, count = self._ready, 0, 0
            before = len(ready)
            for task in tasks:
                share = task.share
                if not share.alive:
                    self._settle(task)
                    continue
                share.progress.finish(task.record.offset)
                following = share.settle(task)
                if following is not None:
                    ready.append(following)
                size += task.size
                count += 1
            self.finished += count
            self._undone -= count
            self._bytes -= size
            if len(ready) > before:
                self._on_ready(len(ready) - before)
            if self._watchers or (self._undone <= self._low_records and self._bytes <= self._low_bytes):
                self.changed.notify_all()

    def leave_out(self, task: Task) -> None:
        """Note that a record is done, though the function has not processed it: it was skipped, or is a dead letter."""
        self.finish(task)

    def fail(self, task: Task, error: BaseException, wall_ms: int, *, for_good: bool = False) -> bool:
        """Note a failed attempt.

        Args:
            task: one that runs.
            error: the exception.
            wall_ms: the time, in ms since 1970.
            for_good: True if no repetition can help.

        Returns:
            True if it is tried again, or need not be, since the partition was dropped. False if it still runs: its dead
            letter is to be sent, then it is finished.
        """
        with self.lock:
            task.note_failure(wall_ms)
            if not task.share.alive:
                self._settle(task)
                return True
            if for_good or self._retry.is_last(task.attempt, error):
                return False
            self.retries += 1
            task.share.running.pop(task, None)
            self._push_later(task, self._retry.pause(task.attempt))
            self.changed.notify_all()
            self._wake()  # a thread that waits longer than that
            return True

    def postpone(self, task: Task, pause: float) -> None:
        """Let a task begin again after a pause, in seconds. The attempt does not count."""
        with self.lock:
            task.take_back()
            task.share.running.pop(task, None)
            if task.share.alive:
                self._push_later(task, pause)
            self.changed.notify_all()
            self._wake()

    def _push_later(self, task: Task, pause: float) -> None:
        heapq.heappush(self._later, (self._now() + pause, next(self._number), task))

    def give_back(self, task: Task) -> None:
        """Put a task back that did not begin. The attempt does not count."""
        with self.lock:
            task.take_back()
            task.share.running.pop(task, None)
            self._ready.appendleft(task)
            self.changed.notify_all()
            self._on_ready(1)

    def stop_partition(self, task: Task, error: BaseException) -> None:
        """Stop the partition of a task whose record failed, and whose dead letter failed, too."""
        with self.lock:
            share = task.share
            share.running.pop(task, None)
            if share.alive:
                self._stopped[share.tp] = error
                self._forget(share)
            self.changed.notify_all()

    def abort(self, task: Task, error: BaseException) -> None:
        """End all work because of an error."""
        with self.lock:
            if self.failure is None:
                self.failure = error
            task.share.running.pop(task, None)
            self._close()

    def abort_all(self, error: BaseException) -> None:
        """End all work because of an error that is not about a task."""
        with self.lock:
            if self.failure is None:
                self.failure = error
            self._close()

    def _settle(self, task: Task) -> None:
        share = task.share
        if not share.alive:
            share.running.pop(task, None)
            if self._watchers:
                self.changed.notify_all()
            return
        self._undone -= 1
        self._bytes -= task.size
        following = share.settle(task)
        if following is not None:
            self._ready.append(following)
            self._on_ready(1)
        if self._watchers or (self._undone <= self._low_records and self._bytes <= self._low_bytes):
            self.changed.notify_all()

    # -- rebalances and the end, by the consumer's thread --------------------------------------------------------------

    def restore(self, tp: TopicPartition, committed: OffsetAndMetadata | None) -> None:
        """Take over a partition."""
        self.drop([tp])
        self.progress.restore(tp, committed)

    def hold(self, partitions: Iterable[TopicPartition]) -> None:
        """Let no more tasks of these partitions start. Those that run may finish."""
        with self.lock:
            for tp in partitions:
                share = self._shares.get(tp)
                if share is not None:
                    share.hold()

    def wait_running(self, partitions: Collection[TopicPartition] | None, timeout: float) -> bool:
        """Wait until no task of these partitions runs, of any if None. False if the time (seconds) ran out."""
        return self.wait_until(lambda: not self.running(partitions), timeout)

    def wait_until(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait until a condition holds, which is looked at under the lock. False if the time (seconds) ran out."""
        with self.lock:
            self._watchers += 1
            try:
                return self.changed.wait_for(condition, timeout)
            finally:
                self._watchers -= 1

    def running(self, partitions: Collection[TopicPartition] | None) -> int:
        """Return how many tasks of these partitions run, of all if None."""
        shares = self._shares.values() if partitions is None else [self._shares.get(tp) for tp in partitions]
        return sum(len(share.running) for share in shares if share is not None)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that go away."""
        gone = list(partitions)
        self.progress.drop(gone)
        with self.lock:
            for tp in gone:
                self._stopped.pop(tp, None)
                share = self._shares.pop(tp, None)
                if share is not None and share.alive:
                    self._forget(share)
            self.changed.notify_all()

    def _forget(self, share: PartitionTasks) -> None:
        share.end()
        self._undone -= share.undone
        self._bytes -= share.size
        self._later = [entry for entry in self._later if entry[2].share is not share]
        heapq.heapify(self._later)
        self._ready = deque(task for task in self._ready if task.share is not share)

    def close(self) -> None:
        """Let no more tasks start."""
        with self.lock:
            self._close()

    def _close(self) -> None:
        self.closed = True
        self.work.notify_all()
        self.changed.notify_all()

    def forget_all(self) -> None:
        """Forget every record that is not done, at the end of the work. Results that come later are ignored."""
        with self.lock:
            for share in self._shares.values():
                if share.alive:
                    self._forget(share)

    # -- looking -------------------------------------------------------------------------------------------------------

    @property
    def undone(self) -> int:
        """The number of records that are not done. Those of stopped partitions do not count."""
        return self._undone

    def stopped(self) -> dict[TopicPartition, BaseException]:
        """Return the partitions that were stopped, with the error."""
        with self.lock:
            return dict(self._stopped)

    def counts(self) -> tuple[int, int, int]:
        """Return how many tasks run, wait for their turn, and wait for another attempt."""
        with self.lock:
            running = sum(len(share.running) for share in self._shares.values() if share.alive)
            return running, self._undone - running - len(self._later), len(self._later)

    def oldest(self) -> dict[TopicPartition, tuple[int, float]]:
        """Return the oldest running record of each partition: its offset, and for how many seconds it has run."""
        with self.lock:
            now = self._now()
            found = {}
            for tp, share in self._shares.items():
                if share.running:
                    task, since = min(share.running.items(), key=lambda item: item[0].record.offset)
                    found[tp] = (task.record.offset, now - since)
            return found


def _hashable(key: Any) -> Hashable:
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key  # type: ignore[no-any-return]
