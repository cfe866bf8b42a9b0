"""The formula for growing pauses between attempts (KIP-580, KIP-144, KIP-601)."""

from __future__ import annotations

import random as _random
from collections.abc import Callable

__all__ = ["Backoff"]


class Backoff:
    """The pause before the next attempt: ``initial * factor ** failures``, spread by jitter, up to a maximum.

    Args:
        initial: the pause after the first failure, in seconds.
        maximum: the longest pause, jitter included, in seconds.
        factor: the growth of the pause with each failure. 1 for no growth.
        jitter: the pause is changed at random by up to this share, up or down, so that clients do not retry in step.
        random: returns numbers in [0, 1). A test passes its own function.
    """

    __slots__ = ("factor", "initial", "jitter", "maximum", "random")

    def __init__(
        self,
        initial: float,
        maximum: float,
        factor: float = 2.0,
        jitter: float = 0.2,
        random: Callable[[], float] = _random.random,
    ) -> None:
        if not 0 <= initial <= maximum:
            raise ValueError(f"the first pause {initial} must be between 0 and the longest one {maximum}")
        if factor < 1 or not 0 <= jitter < 1:
            raise ValueError(f"growth {factor} must be at least 1, and jitter {jitter} at least 0, below 1")
        self.initial, self.maximum, self.factor, self.jitter, self.random = initial, maximum, factor, jitter, random

    @classmethod
    def ms(
        cls, initial_ms: float, maximum_ms: float, *, random: Callable[[], float] = _random.random, jitter: float = 0.2
    ) -> Backoff:
        """Return a backoff from times in milliseconds.

        If the maximum is below the initial pause, the pause is fixed.
        """
        return cls(min(initial_ms, maximum_ms) / 1000, maximum_ms / 1000, jitter=jitter, random=random)

    def delay(self, failures: int) -> float:
        """Return the pause in seconds after a failure. ``failures`` is the number of failures in a row before it."""
        # The exponent is bounded because floats are: 2.0 ** 1024 overflows.
        grown = self.initial * self.factor ** min(max(failures, 0), 64)
        spread = 1.0 + self.jitter * (2.0 * self.random() - 1.0)
        return min(min(grown, self.maximum) * spread, self.maximum)
