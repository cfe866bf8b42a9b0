"""Tasks of the schedule: a record on its way, and those of one partition. The schedule's lock guards both."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any, Final

from pyconsumer.consumer.progress import PartitionProgress
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import TopicPartition

__all__ = ["PartitionTasks", "Task"]

#: Lanes of a partition that are kept for the next keys. A new one takes half a kilobyte.
_MOST_SPARE: Final = 1_000


class PartitionTasks:
    """The tasks of one partition.

    Attributes:
        alive: False once it was dropped or stopped.
        held: True if no more of its tasks start, since it is about to be dropped.
        lanes: the tasks that wait, by lane. A lane is here as long as one of its tasks is not done.
        running: the tasks that run, and since when.
        spare: lanes without a task, for the next keys.
        undone, size: its tasks that are not done, and their bytes.
        progress: its records that are finished.
    """

    __slots__ = ("alive", "held", "lanes", "progress", "running", "size", "spare", "tp", "undone")

    def __init__(self, tp: TopicPartition, progress: PartitionProgress) -> None:
        self.tp = tp
        self.progress = progress
        self.alive = True
        self.held = False
        self.lanes: dict[Hashable, deque[Task]] = {}
        self.spare: list[deque[Task]] = []
        self.running: dict[Task, float] = {}
        self.undone = 0
        self.size = 0

    def count(self, records: int, size: int) -> None:
        """Count new tasks, and their bytes."""
        self.undone += records
        self.size += size

    def settle(self, task: Task) -> Task | None:
        """Note that a task is done. Return the one that waited behind it."""
        self.running.pop(task, None)
        self.undone -= 1
        self.size -= task.size
        lane = task.lane
        if lane is None:
            return None
        waiting = self.lanes[lane]
        if waiting:
            return waiting.popleft()
        del self.lanes[lane]
        if len(self.spare) < _MOST_SPARE:
            self.spare.append(waiting)
        return None

    def hold(self) -> None:
        self.held = True

    def end(self) -> None:
        self.alive = False


class Task:
    """A record on its way.

    Attributes:
        record: as the consumer returned it.
        size: its bytes.
        lane: its key or partition, None if it has no order.
        attempt: calls of the function so far.
        failed_at: time of the first failure, in ms since 1970, 0 before.
    """

    __slots__ = ("attempt", "failed_at", "lane", "record", "share", "size")

    def __init__(self, record: ConsumerRecord[Any, Any], share: PartitionTasks, lane: Hashable, size: int) -> None:
        self.record = record
        self.share = share
        self.lane = lane
        self.size = size
        self.attempt = 0
        self.failed_at = 0

    @property
    def delivery_count(self) -> int | None:
        """Return how often a share group has delivered the record, this time included. None in other groups."""
        return None

    def begin(self) -> None:
        """Count an attempt."""
        self.attempt += 1

    def take_back(self) -> None:
        """Count an attempt no longer, since it did not begin."""
        self.attempt -= 1

    def note_failure(self, wall_ms: int) -> None:
        """Keep the time of the first failure."""
        if not self.failed_at:
            self.failed_at = wall_ms
