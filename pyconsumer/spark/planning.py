"""Cutting offset ranges into tasks by ``maxRecordsPerPartition`` and ``minPartitions``. Pure arithmetic.

Rules (those of Spark's own connector, so that a job keeps its number of tasks)

1. Empty ranges make no task.
2. ``maxRecordsPerPartition`` comes first: a range of n offsets is cut into ceil(n / maximum) parts.
3. If that makes fewer tasks than ``minPartitions``, ranges are cut further in proportion to their size. A range that
   would get one part by its share of the whole stays as it is, and the others share what is left.
4. Parts of a range differ by one offset at most; the later ones are the larger ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from pyconsumer.structs import TopicPartition

__all__ = ["OffsetRange", "divide"]


class OffsetRange(NamedTuple):
    """Offsets of one partition: ``start`` to ``end``, the end not included."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of offsets, which is at least the number of records."""
        return self.end - self.start

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def divide(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None = None, max_records_per_partition: int | None = None
) -> list[OffsetRange]:
    """The ranges of all tasks, in the order of the ranges given.

    Args:
        min_partitions: how many tasks to aim at, at least; there may be slightly fewer or more.
        max_records_per_partition: most offsets of a task.
    """
    whole = [found for found in ranges if found.size > 0]
    if max_records_per_partition is not None:
        maximum = max_records_per_partition
        whole = [part for found in whole for part in _cut(found, -(-found.size // maximum))]
    if min_partitions is None or min_partitions <= len(whole):
        return whole
    total = sum(found.size for found in whole)
    small = [found for found in whole if _share(found.size, total, min_partitions) == 1]
    unsplit = {found.topic_partition for found in small}
    left = total - sum(found.size for found in small)
    parts_left = max(min_partitions - len(small), 1)
    divided: list[OffsetRange] = []
    for found in whole:
        parts = 1 if found.topic_partition in unsplit else _share(found.size, left, parts_left)
        divided += _cut(found, parts)
    return divided


def _share(size: int, total: int, parts: int) -> int:
    # Halves are rounded up, as Java does.
    return max(math.floor(size / total * parts + 0.5), 1)


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    cut: list[OffsetRange] = []
    start, left = whole.start, whole.size
    for part in range(parts):
        size = left // (parts - part)
        left -= size
        end = whole.end if part == parts - 1 else start + size
        if end > start:
            cut.append(whole._replace(start=start, end=end))
        start = end
    return cut
