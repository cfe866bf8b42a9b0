"""The source of time.

Rules and cores never read the system's clock: they get a :class:`Clock` or, more often, ``now`` as an argument.
Inside the package a point in time is float seconds; it becomes milliseconds at the edge.

Two times are kept apart. *Monotonic* time measures how long something takes and never jumps; every deadline
uses it. *Wall* time is milliseconds since the epoch, as Kafka stores it in records and offsets.
"""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "ManualClock", "SystemClock"]


class Clock(Protocol):
    """The clock that is passed to everything that needs the time."""

    def now(self) -> float:
        """Monotonic seconds; only differences mean something."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    #: Asked several times in each poll, so nothing lies between.
    now = staticmethod(time.monotonic)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that moves only on request, for tests and simulations.

    Args:
        now: first monotonic time, in seconds.
        wall_ms: first wall time, in milliseconds since the epoch; it advances together with ``now``.
    """

    __slots__ = ("_now", "_offset_ms")

    def __init__(self, now: float = 0.0, wall_ms: int = 1_700_000_000_000) -> None:
        self._now = now
        self._offset_ms = wall_ms - round(now * 1000)

    def now(self) -> float:
        return self._now

    def wall_ms(self) -> int:
        return self._offset_ms + round(self._now * 1000)

    def advance(self, seconds: float) -> float:
        """Move forward by ``seconds`` (not negative) and return the new monotonic time."""
        if seconds < 0:
            raise ValueError(f"time cannot go back by {-seconds} s")
        self._now += seconds
        return self._now

    def advance_to(self, now: float) -> None:
        """Move forward to the monotonic time ``now``; a time that has passed changes nothing."""
        self._now = max(self._now, now)
