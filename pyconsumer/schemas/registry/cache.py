"""The answers of a registry that a client keeps, and the calls that several callers share.

Rules

1. A schema never changes under its id or GUID: it is kept until the space is needed. ``latest`` is kept for a time.
2. "Not found" is kept for at most a second. Other errors are not kept: the next call asks again.
3. Calls for the same thing at the same time become one. The others join its flight and get its result or its error.
4. A flight that its caller gave up, by the end of its own time, is given back: one of the others asks again. So it is
   if that time is over and the caller has not noticed yet.
5. An answer to a question from before a change of ours, such as a registration, is returned but not kept.
6. Each kind of entry has a bound. The entry that was not used for the longest time goes first.
7. Any thread may call. The lock is held for dictionary operations only.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from pyconsumer.clock import Clock

__all__ = ["ABANDONED", "NOT_FOUND_TTL_S", "Failure", "Flight", "Key", "SchemaCache", "Value"]

#: Seconds for which "not found" is kept.
NOT_FOUND_TTL_S: Final = 1.0

Key = tuple[Any, ...]
"""The kind of a call and its arguments. The second item is the subject or the context."""


class Value(NamedTuple):
    """An answer."""

    value: Any


class Failure(NamedTuple):
    """An error that the call ended with."""

    error: Exception


class _Abandoned:
    """The result of a flight whose caller gave it up."""


ABANDONED: Final = _Abandoned()


class Flight(Future["Value | Failure | _Abandoned"]):
    """A call on its way.

    Args:
        key: of the call.
        until: the end of its caller's time, in monotonic seconds.

    Attributes:
        is_watched: True once a driver gives it back at the end of that time.
        has_ended: True once its result is chosen.
    """

    def __init__(self, key: Key, until: float) -> None:
        super().__init__()
        self.key = key
        self.until = until
        self.is_watched = False
        self.has_ended = False

    def note_watched(self) -> None:
        """Record that a driver gives it back in time."""
        self.is_watched = True

    def note_end(self) -> None:
        """Record that its result is chosen."""
        self.has_ended = True


class _Entry(NamedTuple):
    outcome: Value | Failure
    until: float | None  #: monotonic seconds. None: for good


class SchemaCache:
    """See the rules at the top of the module.

    Args:
        capacity: the most entries of a kind.
        clock: the source of time.
    """

    def __init__(self, capacity: int, clock: Clock) -> None:
        self._capacity = capacity
        self._clock = clock
        self._lock = threading.Lock()
        self._kinds: dict[str, OrderedDict[Key, _Entry]] = {}
        self._flights: dict[Key, Flight] = {}

    def __len__(self) -> int:
        return sum(map(len, self._kinds.values()))

    def peek(self, key: Key) -> Any | None:
        """Return the answer that is kept for a call, None if there is none."""
        with self._lock:
            found = self._find(key)
        return found.value if isinstance(found, Value) else None

    def _find(self, key: Key) -> Value | Failure | None:
        entries = self._kinds.get(key[0])
        entry = None if entries is None else entries.get(key)
        if entries is None or entry is None:
            return None
        if entry.until is not None and self._clock.now() >= entry.until:
            del entries[key]
            return None
        entries.move_to_end(key)
        return entry.outcome

    def begin(self, key: Key, until: float = math.inf) -> tuple[Value | Failure | None, Flight, bool]:
        """Begin a call: return the outcome that is kept, a flight, and whether the caller has to make the call.

        If it has, it ends the flight by :meth:`finish`, :meth:`fail` or :meth:`abandon`. Its own time ends at ``until``
        (monotonic seconds).
        """
        with self._lock:
            found = self._find(key)
            if found is not None:
                return found, Flight(key, until), False
            old = self._flights.get(key)
            if old is not None and self._clock.now() < old.until:
                return None, old, False
            flight = self._flights[key] = Flight(key, until)
        if old is not None:
            self.abandon(key, old)
        return None, flight, True

    def finish(self, key: Key, flight: Flight, value: Any, seconds: float | None = None) -> None:
        """End a flight with an answer, which is kept for ``seconds``. None: for good."""
        self._end(key, flight, Value(value), seconds)

    def fail(self, key: Key, flight: Flight, error: Exception, seconds: float = 0.0) -> None:
        """End a flight with an error, which is kept for ``seconds``."""
        self._end(key, flight, Failure(error), seconds)

    def _end(self, key: Key, flight: Flight, outcome: Value | Failure, seconds: float | None) -> None:
        with self._lock:
            if flight.has_ended:  # it was given back
                return
            flight.note_end()
            if self._flights.get(key) is flight:
                del self._flights[key]
                if seconds is None or seconds > 0:
                    self._put(key, outcome, seconds)
        flight.set_result(outcome)

    def abandon(self, key: Key, flight: Flight) -> None:
        """Give a flight back: one of those that joined it makes the call."""
        with self._lock:
            if flight.has_ended:
                return
            flight.note_end()
            if self._flights.get(key) is flight:
                del self._flights[key]
        flight.set_result(ABANDONED)

    def put(self, key: Key, value: Any, seconds: float | None = None) -> None:
        """Keep an answer that came with another call."""
        with self._lock:
            self._put(key, Value(value), seconds)

    def _put(self, key: Key, outcome: Value | Failure, seconds: float | None) -> None:
        entries = self._kinds.setdefault(key[0], OrderedDict())
        until = None if seconds is None else self._clock.now() + seconds
        entries[key] = _Entry(outcome, until)
        entries.move_to_end(key)
        if len(entries) > self._capacity:
            entries.popitem(last=False)

    def forget(self, *kinds: str, where: Callable[[Key], bool] = lambda key: True) -> None:
        """Forget the entries of these kinds, or of all if none is named, that ``where`` chooses.

        The answers of flights on their way are not kept.
        """
        with self._lock:
            for kind, entries in self._kinds.items():
                if not kinds or kind in kinds:
                    for key in [key for key in entries if where(key)]:
                        del entries[key]
            for key in [key for key in self._flights if (not kinds or key[0] in kinds) and where(key)]:
                del self._flights[key]

    def after_fork(self) -> None:
        """Drop the lock and the flights of the parent process. The answers stay."""
        self._lock = threading.Lock()
        self._flights = {}
