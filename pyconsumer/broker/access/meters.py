"""The measures behind quotas: the rate of the last windows, and a bucket of tokens. Neither has a clock.

A rate is the sum of some windows of one second each, divided by their time, as in Kafka's ``Rate``. So a client that
was idle begins with a burst. Mutations of the controller have a bucket of tokens, as in Kafka's ``TokenBucket``.
"""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["MOST_MS", "Rate", "TokenBucket"]

#: The longest time for which a client is throttled.
MOST_MS: Final = 0x7FFFFFFF


class _Sample:
    __slots__ = ("last", "start", "value")

    def __init__(self, start: float) -> None:
        self.start = self.last = start
        self.value = 0.0

    def add(self, value: float, now: float) -> None:
        self.value += value
        self.last = now


class Rate:
    """A rate over the last windows.

    Args:
        windows: the number of windows, including the present one. ``window_s`` is the length of each.
    """

    __slots__ = ("_samples", "_window_s", "_windows")

    def __init__(self, windows: int, window_s: float) -> None:
        self._windows = windows
        self._window_s = window_s
        self._samples: deque[_Sample] = deque(maxlen=windows + 1)

    def record(self, value: float, now: float) -> None:
        """Count a value. A negative one takes back what was counted just before."""
        samples = self._samples
        if not samples or now - samples[-1].start >= self._window_s:
            samples.append(_Sample(now))
        samples[-1].add(value, now)

    def throttle_ms(self, limit: float, now: float) -> int:
        """Return the time after which the rate is back at the limit. 0: it is not above."""
        samples = self._samples
        while samples and now - samples[0].last >= self._windows * self._window_s:
            samples.popleft()
        elapsed = now - samples[0].start if samples else 0.0
        missing = self._windows - 1 - int(elapsed / self._window_s)
        if missing > 0:  # the time before the first window counts as idle
            elapsed += missing * self._window_s
        total = sum(sample.value for sample in samples)
        if elapsed <= 0 or total <= limit * elapsed:
            return 0
        return round(min(MOST_MS, (total / limit - elapsed) * 1000))

    def is_idle(self, now: float) -> bool:
        """Return whether all windows are over."""
        return not self._samples or now - self._samples[-1].last >= self._windows * self._window_s


class TokenBucket:
    """Tokens that are added at a rate, up to a burst.

    Args:
        burst_s: the bucket holds the tokens of this time, and is full at the beginning.
    """

    __slots__ = ("_burst_s", "_tokens", "_updated")

    def __init__(self, burst_s: float) -> None:
        self._burst_s = burst_s
        self._tokens = 0.0
        self._updated = float("-inf")

    def _refill(self, rate: float, now: float) -> None:
        self._tokens = min(rate * self._burst_s, self._tokens + rate * (now - self._updated))
        self._updated = now

    def throttle_ms(self, rate: float, now: float) -> int:
        """Return the time after which there are no fewer than zero tokens."""
        self._refill(rate, now)
        return round(min(MOST_MS, -self._tokens / rate * 1000)) if self._tokens < 0 else 0

    def take(self, tokens: float, rate: float, now: float) -> None:
        """Take tokens, also if there are not enough."""
        self._refill(rate, now)
        self._tokens -= tokens

    def is_idle(self, now: float) -> bool:
        """Return whether the bucket has had time to fill up after a usual use."""
        return now - self._updated >= 2 * self._burst_s
