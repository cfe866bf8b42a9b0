"""Settings of workers: :class:`Retry`, :class:`Batch`, and checks of the others."""

from __future__ import annotations

import inspect
import random
from dataclasses import dataclass, field
from typing import Any, Literal

from pyconsumer.clock import seconds_of
from pyconsumer.errors import ConfigurationError
from pyconsumer.structs import whole_number

__all__ = [
    "Batch",
    "BatchForm",
    "OnRevoke",
    "Order",
    "Retry",
    "RunIn",
    "check_choice",
    "check_count",
    "check_time",
    "is_coroutine_function",
]

Order = Literal["key", "partition"] | None
RunIn = Literal["threads", "processes", "inline"]
OnRevoke = Literal["wait", "abandon"]
BatchForm = Literal["list", "arrow"]


def check_count(value: object, name: str) -> int:
    """Return a whole number that is at least 1.

    Raises:
        ConfigurationError: it is another value.
    """
    number = whole_number(value)
    if number is None or number < 1:
        raise ConfigurationError(f"{name} must be a whole number of at least 1, not {value!r}")
    return number


def check_time(value: Any, name: str) -> float:
    """Return a time in ms as seconds.

    Raises:
        ConfigurationError: it is no number, or negative.
    """
    try:
        return seconds_of(value, name)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(str(error)) from None


def check_choice(value: object, name: str, choices: tuple[object, ...]) -> None:
    """Check a setting that is one of a few values.

    Raises:
        ConfigurationError: it is another value.
    """
    if not any(value is choice or (type(value) is type(choice) and value == choice) for choice in choices):
        raise ConfigurationError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")


@dataclass(frozen=True, slots=True)
class Retry:
    """The number of attempts for a record that fails, and the pauses between them.

    The pause before the n-th repetition is ``backoff_ms * 2 ** (n - 1)``, at most ``max_backoff_ms``. A random part of
    it (``jitter``, up or down) spreads records that fail together. Other records are processed during the pause. With
    an order, those of the same key or partition wait.

    Args:
        attempts: calls in all, the first one included. 1 means no repetition.
        backoff_ms: pause before the first repetition.
        max_backoff_ms: longest pause.
        jitter: share of a pause that is random, from 0 to 1.
        give_up_on: exceptions that no repetition can mend. They count as the last attempt.

    Raises:
        ConfigurationError: a value is out of range, or ``give_up_on`` has something else than exceptions.

    Example::

        Retry(attempts=5, backoff_ms=1000, give_up_on=(ValueError,))
    """

    attempts: int = 1
    backoff_ms: float = 1_000
    max_backoff_ms: float = 60_000
    jitter: float = 0.2
    give_up_on: tuple[type[Exception], ...] = field(default=())

    def __post_init__(self) -> None:
        check_count(self.attempts, "attempts")
        check_time(self.backoff_ms, "backoff_ms")
        check_time(self.max_backoff_ms, "max_backoff_ms")
        if not isinstance(self.jitter, int | float) or not 0 <= self.jitter <= 1:
            raise ConfigurationError(f"jitter must be a number from 0 to 1, not {self.jitter!r}")
        if not isinstance(self.give_up_on, tuple) or not all(
            isinstance(kind, type) and issubclass(kind, Exception) for kind in self.give_up_on
        ):
            raise ConfigurationError(f"give_up_on must be a tuple of exception classes, not {self.give_up_on!r}")

    def is_last(self, attempt: int, error: BaseException) -> bool:
        """Return True if the record is not tried again.

        Args:
            attempt: the attempt that failed, counted from 1.
            error: its exception.
        """
        return attempt >= self.attempts or isinstance(error, self.give_up_on)

    def longest_pause(self, attempt: int) -> float:
        """Return the longest pause after a failed attempt, in seconds. The argument is that of :meth:`pause`."""
        doubled = self.backoff_ms * 2.0 ** min(attempt - 1, 60)
        return min(doubled, self.max_backoff_ms) * (1 + self.jitter) / 1000

    def pause(self, attempt: int) -> float:
        """Return the pause after a failed attempt, in seconds.

        Args:
            attempt: the attempt that failed, counted from 1.
        """
        doubled = self.backoff_ms * 2.0 ** min(attempt - 1, 60)
        spread = 1 + self.jitter * random.uniform(-1, 1)
        return min(doubled, self.max_backoff_ms) * spread / 1000


@dataclass(frozen=True, slots=True)
class Batch:
    """The size of batches, for a function that takes several records at once.

    Args:
        max: most records of a batch.
        wait_ms: how long the first record of a batch waits for others.
        form: ``"list"`` gives the function a list of records. ``"arrow"`` gives it a ``pyarrow.Table`` with the columns
            of ``poll_arrow``: keys and values are bytes, and the consumer's deserializers are not called.

    Raises:
        ConfigurationError: a value is out of range.
        ImportError: ``form="arrow"``, and pyarrow is not installed.

    Example::

        Batch(max=500, wait_ms=50)
    """

    max: int = 500
    wait_ms: float = 50
    form: BatchForm = "list"

    def __post_init__(self) -> None:
        check_count(self.max, "max")
        check_time(self.wait_ms, "wait_ms")
        check_choice(self.form, "form", ("list", "arrow"))
        if self.form == "arrow":
            from pyconsumer.consumer.arrow import arrow_columns

            arrow_columns(None, False)


def is_coroutine_function(handle: Any) -> bool:
    """Return True if a call of the function returns a coroutine. It may be an object with such a call."""
    return inspect.iscoroutinefunction(handle) or inspect.iscoroutinefunction(type(handle).__call__)
