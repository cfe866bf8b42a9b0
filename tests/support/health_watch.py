"""``HealthWatch``: reads ``health()`` of every consumer of a test run from another thread, and notes false alarms.

An alarm is false if ``is_alive()`` is False although the watch has seen the application in a call, or a new poll,
within ``max_poll_interval_ms``. Consumers on a clock that tests move are only read.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any, Final

from pyconsumer.clock import SystemClock
from pyconsumer.consumer.calls import ConsumerCalls

__all__ = ["HealthWatch"]

_INTERVAL_S: Final = 0.05


class HealthWatch:
    """Reads the health of all consumers that are made while it is open. A context manager.

    Attributes:
        alarms: a line for each false alarm, and for each error that ``health()`` raised.
        readings: how often a health was read.
    """

    def __init__(self) -> None:
        self.alarms: list[str] = []
        self.readings = 0
        self._consumers: weakref.WeakKeyDictionary[Any, list[float]] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._paused = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="health watch", daemon=True)
        self._original = ConsumerCalls._open

    def __enter__(self) -> HealthWatch:
        original = self._original

        @functools.wraps(original)
        def opened(consumer: Any, *arguments: Any) -> None:
            began = time.monotonic()  # before it notes the time of its creation
            original(consumer, *arguments)
            with self._lock:
                self._consumers[consumer] = [began, 0, began]

        ConsumerCalls._open = opened  # type: ignore[method-assign]
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        ConsumerCalls._open = self._original  # type: ignore[method-assign]
        self._ended.set()
        self._thread.join()

    def take_alarms(self) -> list[str]:
        """Return the alarms since the last call."""
        found, self.alarms = self.alarms, []
        return found

    def _run(self) -> None:
        while not self._ended.wait(_INTERVAL_S):
            with self._reading:
                if not self._paused:
                    self._look_at_all()

    def _look_at_all(self) -> None:
        """Read all consumers. No reference to one is left: a consumer that a test drops is collected at once."""
        with self._lock:
            watched = list(self._consumers.items())
        for consumer, seen in watched:
            try:
                self.look(consumer, seen)
            except Exception as error:
                self.alarms.append(f"health() of {consumer!r} raised {error!r}")

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Return a context in which no consumer is read: for tests of consumers that are dropped without ``close``."""
        with self._reading:
            self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def look(self, consumer: Any, seen: list[float]) -> None:
        """Read one consumer.

        Args:
            seen: a time at or before the last sign of life, the number of polls then, and the time of the last look. A
                call that is seen now may have begun at any time since the last look.
        """
        began = time.monotonic()
        polls = consumer._delegate.metrics.polls  # first: a poll that comes now must not meet an older health
        health = consumer.health()
        self.readings += 1
        if health.is_inside_call or polls != seen[1]:
            seen[:2] = seen[2], polls
        seen[2] = began
        now = time.monotonic()
        fresh = now - seen[0] < health.max_poll_interval_s
        on_time = isinstance(consumer._delegate.clock, SystemClock)
        if fresh and on_time and not (health.closed or health.forked) and not health.is_alive():
            self.alarms.append(f"{consumer!r} was called {now - seen[0]:.3f} s ago: {health}")
