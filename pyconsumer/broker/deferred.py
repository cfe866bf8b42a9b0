"""A result that comes later, without an event loop: how the broker's rules answer a request that has to wait.

Coordinators and logs return a :class:`Deferred`; whoever drives them (the asyncio server, a simulation) decides how
to wait. Callbacks run at once in the call that sets the result, in the order in which they were added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Deferred"]

T = TypeVar("T")


class Deferred(Generic[T]):
    """A value that is set exactly once. A second ``set`` raises ``RuntimeError``: it would answer a request twice."""

    __slots__ = ("_callbacks", "_done", "_value")

    def __init__(self) -> None:
        self._done = False
        self._value: T | None = None
        self._callbacks: list[Callable[[T], None]] = []

    @classmethod
    def of(cls, value: T) -> Deferred[T]:
        """One that is done already."""
        deferred = cls()
        deferred.set(value)
        return deferred

    @property
    def done(self) -> bool:
        return self._done

    @property
    def value(self) -> T:
        """The result; ``RuntimeError`` if it is not there yet."""
        if not self._done:
            raise RuntimeError("the result is not there yet")
        return self._value  # type: ignore[return-value]

    def set(self, value: T) -> None:
        if self._done:
            raise RuntimeError("the result was set already")
        self._done = True
        self._value = value
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(value)

    def on_done(self, callback: Callable[[T], None]) -> None:
        """Call ``callback(value)`` once the result is there, which may be now."""
        if self._done:
            callback(self._value)  # type: ignore[arg-type]
        else:
            self._callbacks.append(callback)
