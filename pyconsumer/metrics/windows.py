"""Counters with windows: totals since the start, and rates, averages and maxima of the last minute.

A :class:`Counters` object has fields that one thread writes and any thread reads at any time. No lock is involved, and
no timer. The windows are those of Java's clients: by default two of 30 s.

Rules
1. A field is a *total*, which only grows, or a *peak*, the largest value in the current window.
2. A window starts when the one before is over and something happens. The writer keeps the totals at its start. So an
   event costs an addition, and a window a few values.
3. A reader computes the growth since the start of the oldest window that still counts. A window counts for the time of
   ``number`` windows after its own end. So an event counts for at least 60 s and at most 90 s, as in Java.
4. The divisor of a rate is the time since the start of the oldest window, and at least the time of all windows but one,
   as Java's ``Rate.windowSize``. So a single event right after the start is no high rate.
5. The writer stores the new windows first and then resets the peaks. A reader that comes between the two sees a peak a
   window longer. A reader whose windows were replaced while it read reads again.
6. If the process was stopped for an hour, earlier events do not count any more. The next event starts a window.
7. The windows are one string of bytes. As objects, those of 10,000 partitions would take 9 MB more. The present values
   of :class:`.PackedCounters` are in it as well, which saves another 1.6 MB. They take longer to count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import attrgetter
from struct import Struct
from typing import Any, ClassVar, Final, NamedTuple, Protocol

__all__ = ["NO_SAMPLE", "Counters", "Readable", "Reading", "Timing", "Windows"]

#: An average or a maximum of nothing, as in Java.
NO_SAMPLE: Final = math.nan
_NOTHING: Final = -math.inf


class Windows(NamedTuple):
    """The windows of a client's metrics.

    Attributes:
        seconds: the time of one window (``metrics_sample_window_ms``).
        number: how many complete windows count beside the current one (``metrics_num_samples``).
    """

    seconds: float = 30.0
    number: int = 2


class _Window(NamedTuple):
    started_at: float
    totals: tuple[float, ...]  # at its start
    peaks: tuple[float, ...]  # of the whole window. Empty while it is the current one


class Reading(NamedTuple):
    """The values of a :class:`Counters` at a point in time.

    Attributes:
        totals: since the start, by field.
        growth: in the windows that count, by field.
        peaks: in the windows that count, by field. -inf without an event.
        seconds: the divisor of a rate.
    """

    totals: dict[str, float]
    growth: dict[str, float]
    peaks: dict[str, float]
    seconds: float


class Readable(Protocol):
    """Counters, as far as readers need them."""

    def reading(self, now: float) -> Reading:
        """Return the values at ``now`` (monotonic seconds)."""


class Counters:
    """Fields with windows. A subclass names the fields and has methods that count. See the rules of the module.

    Args:
        windows: their time and number.
        now: the present time, in monotonic seconds.

    Attributes:
        ends_at: when the current window is over. The writer calls :meth:`roll` at the first event at or after that.
    """

    TOTALS: ClassVar[tuple[str, ...]]
    PEAKS: ClassVar[tuple[str, ...]] = ()
    DERIVED: ClassVar[tuple[str, ...]] = ()  # totals that are properties
    _totals: ClassVar[Any]
    _peaks: ClassVar[Any]
    _current: ClassVar[Struct]  # the current window: its start, and the totals then
    _ended: ClassVar[Struct]  # what one that is over has after that: its peaks

    __slots__ = ("_history", "_windows", "ends_at")

    def __init_subclass__(cls) -> None:
        cls._totals = _getter(cls.TOTALS)
        cls._peaks = _getter(cls.PEAKS)
        cls._current = Struct(f"={1 + len(cls.TOTALS)}d")
        cls._ended = Struct(f"={len(cls.PEAKS)}d")

    def __init__(self, windows: Windows, now: float) -> None:
        self._windows = windows
        zeros = [0] * len(self.TOTALS)
        self._begin(self._current.pack(now, *zeros), zeros)
        self._set_totals(zeros)
        self.ends_at = now + windows.seconds

    def roll(self, now: float) -> None:
        """Start a window. Call this before the first event at or after :attr:`ends_at` is counted."""
        totals = self._totals(self)
        ended = self._past(self._history) + self._ended.pack(*self._peaks(self))
        kept = ended[-self._windows.number * (self._current.size + self._ended.size) :]
        self._begin(kept + self._current.pack(now, *totals), totals)
        self.ends_at = now + self._windows.seconds

    def _set_totals(self, totals: Sequence[float]) -> None:
        for name, total in zip(self.TOTALS, totals, strict=True):
            if name not in self.DERIVED:
                setattr(self, name, total)

    def _begin(self, windows: bytes, totals: Sequence[float]) -> None:
        """Store the windows, the current one at the end, and reset the peaks. The totals stay."""
        self._set_windows(windows)
        for name in self.PEAKS:
            setattr(self, name, _NOTHING)

    def _set_windows(self, windows: bytes) -> None:
        self._history = windows

    def _past(self, history: bytes) -> bytes:
        """Return the part of a history that has the windows."""
        return history

    def follow(self, other: Counters) -> None:
        """Start the current window of other counters, as :meth:`roll`. The two then share the object of its end."""
        self.roll(other.ends_at - self._windows.seconds)
        self.ends_at = other.ends_at

    def at_start(self, field: str) -> float:
        """Return a total as it was when the current window began."""
        return self._latest().totals[self.TOTALS.index(field)]

    def counts_at(self, now: float) -> bool:
        """Return whether the current window still counts at ``now``. Otherwise all growth is 0 by then."""
        return self._is_counting(self._latest(), now)

    def _latest(self) -> _Window:
        windows = self._past(self._history)
        began, *totals = self._current.unpack_from(windows, len(windows) - self._current.size)
        return _Window(began, tuple(totals), ())

    def _all(self, history: bytes) -> list[_Window]:
        """Return the windows of a history, the current one at the end."""
        windows = self._past(history)
        found, at, size = [], 0, self._current.size
        while at < len(windows):
            began, *totals = self._current.unpack_from(windows, at)
            is_over = at + size < len(windows)
            peaks = self._ended.unpack_from(windows, at + size) if is_over else ()
            found.append(_Window(began, tuple(totals), peaks))
            at += size + self._ended.size
        return found

    def _is_counting(self, window: _Window, now: float) -> bool:
        seconds, number = self._windows
        return now - window.started_at < seconds * (number + 1)

    def split_at(self, began_at: float, now: float) -> float:
        """Return where to start the window that follows the current one, which ended during a wait.

        The part of the wait before that time belongs to the current window, the rest to the next one. Otherwise the
        next window would hold more waiting than it is long.

        Args:
            began_at: when the wait began, in monotonic seconds.
            now: the present time, at or after :attr:`ends_at`.
        """
        return min(now, max(self.ends_at, began_at, now - self._windows.seconds))

    def absorb(self, other: Counters) -> None:
        """Add the values of another object of this class, which is not written any more."""
        *ended, current = self._all(self._history)
        merged = b""
        for window in (*ended, current):
            totals = map(sum, zip(window.totals, other._totals_at(window.started_at), strict=True))
            merged += self._current.pack(window.started_at, *totals)
            merged += b"" if window is current else self._ended.pack(*window.peaks)
        self._set_windows(merged)
        self._set_totals([*map(sum, zip(self._totals(self), other._totals(other), strict=True))])

    def _totals_at(self, when: float) -> tuple[float, ...]:
        """Return the totals at a time, as far as they are known."""
        windows = self._all(self._history)
        found = windows[0].totals
        for window in windows:
            if window.started_at <= when:
                found = window.totals
        return found

    def reading(self, now: float) -> Reading:
        """Return the values at ``now`` (monotonic seconds). Any thread may call this."""
        while True:
            history = self._history
            totals, latest = self._totals(self), self._peaks(self)
            if history is self._history:
                break
        seconds, number = self._windows
        counting = [window for window in self._all(history) if self._is_counting(window, now)]
        names = zip(self.TOTALS, totals, strict=True)
        if not counting:
            nothing = dict.fromkeys(self.TOTALS, 0.0)
            return Reading(dict(names), nothing, dict.fromkeys(self.PEAKS, _NOTHING), seconds)
        oldest = counting[0]
        growth = {
            name: max(0, total - before) for name, total, before in zip(self.TOTALS, totals, oldest.totals, strict=True)
        }
        all_peaks = [window.peaks for window in counting if window.peaks]
        peaks = dict(zip(self.PEAKS, map(max, zip(latest, *all_peaks, strict=True)), strict=True))
        return Reading(dict(names), growth, peaks, _divisor(now - oldest.started_at, seconds, number))


def _divisor(elapsed: float, seconds: float, number: int) -> float:
    missing = number - 1 - int(elapsed / seconds)
    if missing > 0:
        elapsed += missing * seconds
    return max(elapsed, seconds)


def _getter(names: tuple[str, ...]) -> Any:
    if len(names) > 1:
        return attrgetter(*names)
    if names:
        single = attrgetter(*names)
        return staticmethod(lambda counters: (single(counters),))
    return staticmethod(lambda counters: ())


class Timing(Counters):
    """The number and the values of one kind of event, most often durations in seconds.

    Attributes:
        count: how many there were.
        total: the sum of the values.
        longest: the largest value in the current window.
    """

    TOTALS: ClassVar[tuple[str, ...]] = ("count", "total")
    PEAKS: ClassVar[tuple[str, ...]] = ("longest",)
    __slots__ = ("count", "longest", "total")

    count: int
    total: float
    longest: float

    def add(self, value: float, now: float) -> None:
        """Count an event at ``now`` (monotonic seconds)."""
        if now >= self.ends_at:
            self.roll(now)
        self.count += 1
        self.total += value
        if value > self.longest:
            self.longest = value

    def waited(self, seconds: float, now: float) -> None:
        """Count a wait that ended at ``now``. Each window gets its part, for the ratio of waiting to time."""
        if now >= self.ends_at:
            start = self.split_at(now - seconds, now)
            self.total += max(0.0, seconds - (now - start))
            self.roll(start)
            self.count += 1
            self.total += min(seconds, now - start)
            self.longest = max(self.longest, seconds)
        else:
            self.add(seconds, now)
