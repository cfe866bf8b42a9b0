"""The source of time.

Rules and cores never read the system's clock: they get a :class:`Clock` or, more often, ``now`` as an argument.
Inside the package a point in time is float seconds; it becomes milliseconds at the edge.

Two times are kept apart. *Monotonic* time measures how long something takes and never jumps; every deadline
uses it. *Wall* time is milliseconds since the epoch, as Kafka stores it in records and offsets.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Protocol

__all__ = ["Clock", "ManualClock", "RunningClock", "SystemClock"]


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


class RunningClock:
    """A clock that runs as the machine's does and can be moved ahead, for tests of programs with real clients.

    Every client takes one as ``clock``. :meth:`advance` makes the clients that wait look at the time again, in whatever
    thread they wait, so that what is due happens now: a retry, a heartbeat, the end of ``max_poll_interval_ms``. Time
    that a client has to wait for a broker's response is still real.
    """

    __slots__ = ("__weakref__", "_ahead", "_lock", "_watchers")

    def __init__(self) -> None:
        self._ahead = 0.0
        self._lock = threading.Lock()
        self._watchers: list[weakref.WeakMethod[Callable[[], object]]] = []

    @property
    def ahead(self) -> float:
        """Return how far the clock is ahead of the machine's, in seconds."""
        return self._ahead

    def now(self) -> float:
        return time.monotonic() + self._ahead

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000 + round(self._ahead * 1000)

    def advance(self, seconds: float) -> float:
        """Move ahead by ``seconds`` (not negative) and return the new monotonic time. Any thread may call it."""
        if not seconds >= 0:
            raise ValueError(f"time cannot go back by {-seconds} s")
        with self._lock:
            self._ahead += seconds
            found = [(watcher, watcher()) for watcher in self._watchers]
            self._watchers = [watcher for watcher, call in found if call is not None]
        for _, call in found:
            if call is not None:
                call()
        return self.now()

    def on_advance(self, method: Callable[[], object]) -> None:
        """Call a method of an object after each :meth:`advance`, as long as the object lives."""
        with self._lock:
            self._watchers.append(weakref.WeakMethod(method))


class ManualClock:
    """A clock that moves only on request, for tests of code that takes the time as an argument, and for simulations.

    Not for a client with sockets, which would wait for a time that does not come: that is what :class:`RunningClock`
    is for.

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
