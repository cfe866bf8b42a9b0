"""Errors that a test plans for the next calls of a mock. Each call takes its error away, in the order of planning."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

__all__ = ["PlannedErrors"]


class PlannedErrors:
    """The errors that a test has planned for the next calls of an object.

    Args:
        owner: the object. Messages contain its name.
        calls: the names of the calls that can fail.
    """

    def __init__(self, owner: object, calls: Iterable[str]) -> None:
        self._name = type(owner).__name__
        self._errors: dict[str, deque[Exception]] = {call: deque() for call in calls}

    def add(self, call: str, error: Exception, times: int = 1) -> None:
        """Let the next ``times`` calls raise ``error``.

        Raises:
            ValueError: no call of this name can fail, or ``times`` is less than 1.
            TypeError: the error is not an exception.
        """
        if call not in self._errors:
            raise ValueError(f"a {self._name} can fail in {', '.join(self._errors)}, not in {call!r}")
        if not isinstance(error, Exception):
            raise TypeError(f"the error must be an exception, such as KafkaError('...'), not {error!r}")
        if times < 1:
            raise ValueError(f"times must be at least 1, not {times}")
        self._errors[call].extend([error] * times)

    def pop(self, call: str) -> Exception | None:
        """Remove and return the next error of this call, or None if no error is planned."""
        errors = self._errors[call]
        return errors.popleft() if errors else None

    def take(self, call: str) -> None:
        """Remove and raise the next error of this call, if one is planned."""
        error = self.pop(call)
        if error is not None:
            raise error
