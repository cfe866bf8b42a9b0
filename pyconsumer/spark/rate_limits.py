"""How much of what is there goes into one micro-batch. Pure arithmetic and a clock.

Rules (1 to 3 are those of Spark's own connector)

1. ``maxOffsetsPerTrigger`` is shared among partitions in proportion to what waits in each; a partition with anything
   gets one offset at least, so many partitions may exceed a small limit.
2. ``minOffsetsPerTrigger``: with fewer offsets than that there is no batch, unless ``maxTriggerDelay`` has passed since
   the last one. The first batch of a query does not wait. A query for all that is available now never waits.
3. With both, the minimum is looked at first.
4. ``maxBytesPerTrigger`` is shared in proportion to the bytes that wait in each partition, as estimated; with
   ``maxOffsetsPerTrigger`` too, the smaller share counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from pyconsumer.structs import TopicPartition

__all__ = ["MinimumGate", "limit_bytes", "limit_offsets"]

_Offsets = Mapping[TopicPartition, int]


def limit_offsets(begins: _Offsets, ends: _Offsets, most: int) -> dict[TopicPartition, int]:
    """The end of each partition by rule 1.

    Args:
        begins, ends: offsets of the same partitions.
        most: offsets in all.
    """
    return _shared(begins, ends, dict.fromkeys(ends, 1.0), most)


def limit_bytes(
    begins: _Offsets, ends: _Offsets, most: int, bytes_per_offset: Mapping[TopicPartition, float]
) -> dict[TopicPartition, int]:
    """The end of each partition by rule 4.

    Args:
        most: bytes in all.
        bytes_per_offset: estimates; a partition without one counts as the mean of the others, or 1 kB.
    """
    known = [found for found in bytes_per_offset.values() if found > 0]
    usual = sum(known) / len(known) if known else 1024.0
    return _shared(begins, ends, {tp: bytes_per_offset.get(tp) or usual for tp in ends}, most)


def _shared(
    begins: _Offsets, ends: _Offsets, weights: Mapping[TopicPartition, float], most: int
) -> dict[TopicPartition, int]:
    """Share ``most`` among partitions whose offsets weigh so much each."""
    sizes = {tp: max(end - begins[tp], 0) * weights[tp] for tp, end in ends.items()}
    total = sum(sizes.values())
    if total <= most:
        return dict(ends)
    limited = {}
    for tp, end in ends.items():
        share = most * (sizes[tp] / total) / weights[tp]
        offsets = math.ceil(share) if share < 1 else math.floor(share)
        limited[tp] = end if end <= begins[tp] else min(end, begins[tp] + offsets)
    return limited


class MinimumGate:
    """Rule 2.

    Args:
        least: offsets; None lets everything pass.
        delay_s: longest time between two batches while something waits.
        now: monotonic seconds.
    """

    def __init__(self, least: int | None, delay_s: float, now: Callable[[], float]) -> None:
        self._least = least
        self._delay = delay_s
        self._now = now
        self._passed_at = -math.inf

    def passes(self, waiting: int) -> bool:
        """Whether there is to be a batch of so many offsets, of one at least; if so, it counts as the last one."""
        now = self._now()
        if self._least is not None and waiting < self._least and now - self._passed_at < self._delay:
            return False
        self._passed_at = now
        return True
