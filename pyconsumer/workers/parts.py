"""The parts of partitions in the room for records, while order leaves workers without one.

A poll may bring records of one partition alone. With few keys, these would fill the room, and the keys of the other
partitions would not be in work.

Rules

1. The partitions with the fewest records here are polled first, each up to its part of the room.
2. If they have nothing, another partition may have half of the room for a while.
3. While the function is so quick that the whole room is done within 50 ms, a poll takes what comes. Polls of parts
   would cost more than they gain.

There is no I/O here. The time is given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from pyconsumer.structs import TopicPartition

__all__ = ["Parts"]

#: The least number of records that a poll may bring. Smaller polls cost too much.
_LEAST: Final = 25
#: For so long a partition may have half of the room.
_OPEN_S: Final = 0.1
_SOON_S: Final = 0.05


class Parts:
    """See the module.

    Args:
        most_records: the room.

    Attributes:
        leaves_out: True if the next poll is without some partitions.
    """

    def __init__(self, most_records: int) -> None:
        self._most = most_records
        self.leaves_out = False
        self._open_until = -math.inf
        self._paced_at, self._finished, self._is_quick = -math.inf, 0, False

    def is_quick(self, finished: int, now: float) -> bool:
        """Return whether rule 3 applies.

        Args:
            finished: the records that were finished so far.
            now: the time in seconds.
        """
        seconds = now - self._paced_at
        if seconds >= _SOON_S:
            self._is_quick = (finished - self._finished) * _SOON_S >= self._most * seconds
            self._paced_at, self._finished = now, finished
        return self._is_quick

    def plan(
        self, held: Mapping[TopicPartition, int], polled: AbstractSet[TopicPartition], now: float
    ) -> tuple[set[TopicPartition], int]:
        """Return the partitions that the next poll leaves out, and how many records it may bring.

        Args:
            held: the records of each partition that are not done.
            polled: the partitions that can be polled.
            now: the time in seconds.
        """
        if len(polled) < 2:
            return set(), self._most
        part = max(_LEAST, self._most // len(polled))
        least = min(held.get(tp, 0) for tp in polled)
        most = min(part, least + _LEAST) if now >= self._open_until else max(part, self._most // 2)
        ahead = {tp for tp in polled if held.get(tp, 0) >= most}
        return (set() if ahead == polled else ahead), max(_LEAST, part - least)

    def poll_begins(self, *, leaves_out: bool) -> None:
        """Note whether the next poll is without some partitions."""
        self.leaves_out = leaves_out

    def nothing_came(self, now: float) -> None:
        """Note that a poll without some partitions has brought nothing (rule 2)."""
        if self.leaves_out:
            self._open_until = now + _OPEN_S
