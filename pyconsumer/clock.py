"""The source of time, and the checks of times that an application gives.

Rules and cores never read the system's clock: they get a :class:`Clock` or, more often, ``now`` as an argument.
Inside the package a point in time is float seconds. It becomes milliseconds at the edge.

Two times are kept apart. *Monotonic* time measures how long something takes and never jumps. Every deadline
uses it. *Wall* time is milliseconds since the epoch, as Kafka stores it in records and offsets.

All times that an application gives to a call are checked here: timeouts by :func:`seconds_of`, points in time by
:func:`checked_timestamp`.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Final, Protocol, SupportsFloat

from pyconsumer.structs import whole_number

__all__ = ["Clock", "ManualClock", "RunningClock", "SystemClock", "checked_timestamp", "seconds_of"]

_LONGEST_MS: Final = 1e12  # 31 years: more than locks, selectors and event loops can wait for means the same
_END_OF_TIME: Final = 1 << 63


def seconds_of(timeout_ms: Any, name: str = "timeout_ms", *, unit: str = "milliseconds") -> float:
    """Return a time in ms as seconds. The time may be any number, also one of numpy. ``inf`` becomes 31 years.

    Args:
        timeout_ms: the time that the application gave.
        name: name of the argument, for messages.
        unit: ``seconds`` if the time is in seconds, as in other clients.

    Raises:
        TypeError: the time is not a number, but for example text or a ``timedelta``.
        ValueError: the time is negative, or it is NaN.
    """
    if type(timeout_ms) is not int and type(timeout_ms) is not float:
        timeout_ms = _as_number(timeout_ms, name, unit)
    if not timeout_ms >= 0:
        problem = "not be negative: " if timeout_ms < 0 else f"be a number of {unit}, not "
        raise ValueError(f"{name} must {problem}{timeout_ms!r}")
    return float(min(timeout_ms, _LONGEST_MS)) / (1 if unit == "seconds" else 1000)


def _as_number(timeout_ms: Any, name: str, unit: str) -> float:
    if isinstance(timeout_ms, SupportsFloat) and not isinstance(timeout_ms, bool):
        try:
            return float(timeout_ms)
        except OverflowError:
            return _LONGEST_MS
        except (TypeError, ValueError):
            pass  # as an array of numpy's
    from datetime import timedelta  # which an import of pyconsumer does without

    text = f"{name} must be a number of {unit}, not {timeout_ms!r}"
    if isinstance(timeout_ms, timedelta):
        text += f": write {timeout_ms / timedelta(**{unit: 1}):g}"
    raise TypeError(text)


def checked_timestamp(timestamp_ms: Any, name: str = "timestamp_ms") -> int:
    """Return a point in time that the application gave, in ms since 1970.

    It may be any whole number, also one of numpy.

    Raises:
        TypeError: the time is not a whole number, but for example a ``datetime``.
        ValueError: the time is negative, or does not fit into 63 bits, which Kafka has for it.
    """
    value = timestamp_ms if type(timestamp_ms) is int else whole_number(timestamp_ms)
    if value is None:
        from datetime import datetime

        text = f"{name} must be whole milliseconds since 1970, not {timestamp_ms!r}"
        if isinstance(timestamp_ms, datetime):
            text += f": write {round(timestamp_ms.timestamp() * 1000)}"
        raise TypeError(text)
    if not 0 <= value < _END_OF_TIME:
        problem = "must not be negative" if value < 0 else "must be less than 2**63"
        raise ValueError(f"{name} {problem}: {timestamp_ms!r}")
    return value


class Clock(Protocol):
    """The clock that is passed to all parts that need the time."""

    def now(self) -> float:
        """Monotonic seconds. Only differences between two such times have a meaning."""

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
    """A clock that runs like the machine's clock and can be moved ahead, for tests of programs with real clients.

    Every client takes one as ``clock``. :meth:`advance` makes the clients that wait look at the time again, in whatever
    thread they wait, so that due work happens now: a retry, a heartbeat, the end of ``max_poll_interval_ms``. Time
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

    Not for a client with sockets, which would wait for a time that does not come: use a :class:`RunningClock`
    there.

    Args:
        now: first monotonic time, in seconds.
        wall_ms: first wall time, in milliseconds since the epoch. It advances together with ``now``.
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
        """Move forward to the monotonic time ``now``. A time that has passed has no effect."""
        self._now = max(self._now, now)
