"""Timers of the broker: a heap of times and calls, which its owner advances.

The module reads no clock. The asyncio server calls :meth:`Timer.run_due` at :meth:`Timer.next_deadline`. A simulation
does the same with a fake clock. Timers due at the same moment run in the order in which they were set. A timer that one
of them sets runs in the next call at the earliest, so that a timer that reschedules itself cannot block the driver.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Final

__all__ = ["Timer", "TimerHandle"]

#: Cancelled entries are removed only if there are at least this many entries.
_SWEEP_AT: Final = 1024


class TimerHandle:
    """One scheduled call. You may call ``cancel()`` at any time, even after the call was made."""

    __slots__ = ("_action", "when")

    def __init__(self, when: float, action: Callable[[], None]) -> None:
        self.when = when
        self._action: Callable[[], None] | None = action

    @property
    def active(self) -> bool:
        return self._action is not None

    def cancel(self) -> None:
        self._action = None

    def _take(self) -> Callable[[], None] | None:
        action, self._action = self._action, None
        return action


class Timer:
    """A set of scheduled calls.

    Args:
        on_earlier: called with the new earliest deadline whenever it becomes earlier, so that the driver can wake up.
    """

    def __init__(self, on_earlier: Callable[[float], None] | None = None) -> None:
        self._heap: list[tuple[float, int, TimerHandle]] = []
        self._count = itertools.count()
        self._sweep_at = _SWEEP_AT
        self.on_earlier = on_earlier

    def schedule(self, when: float, action: Callable[[], None]) -> TimerHandle:
        """Call ``action()`` at the monotonic time ``when`` (seconds)."""
        handle = TimerHandle(when, action)
        if len(self._heap) >= self._sweep_at:
            self._sweep()
        earliest = not self._heap or when < self._heap[0][0]
        heapq.heappush(self._heap, (when, next(self._count), handle))
        if earliest and self.on_earlier is not None:
            self.on_earlier(when)
        return handle

    def _sweep(self) -> None:
        """Remove cancelled entries: most waiting requests are completed long before their time is up."""
        self._heap = [entry for entry in self._heap if entry[2].active]
        heapq.heapify(self._heap)
        self._sweep_at = max(_SWEEP_AT, 2 * len(self._heap))

    def next_deadline(self) -> float | None:
        """Return the time of the next active timer, or None."""
        while self._heap and not self._heap[0][2].active:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run_due(self, now: float) -> int:
        """Make all calls that are due at ``now``, except for those that they schedule themselves.

        Return the number of calls.
        """
        ran = 0
        first_new = next(self._count)
        new = []
        try:
            while self._heap and self._heap[0][0] <= now:
                entry = heapq.heappop(self._heap)
                if entry[1] > first_new:
                    new.append(entry)
                    continue
                action = entry[2]._take()
                if action is not None:
                    ran += 1
                    action()
        finally:
            for entry in new:
                heapq.heappush(self._heap, entry)
            if new and self.on_earlier is not None:
                self.on_earlier(self._heap[0][0])
        return ran

    def __len__(self) -> int:
        return sum(1 for _, _, handle in self._heap if handle.active)
