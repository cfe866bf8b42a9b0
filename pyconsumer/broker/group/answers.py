"""Lets rules decide first and answer afterwards.

An answer runs the client's next step at once in a simulation, and that step may be another request to the same group.
So answers are collected while a request, a timer or the end of an append is worked on, and given when all of it is
done: nobody is called with a group that is half changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from pyconsumer.broker.deferred import Deferred

__all__ = ["Answers"]

T = TypeVar("T")


class Answers:
    """Answers that are ready. ``with answers:`` brackets a piece of work; the outermost one gives them, in order."""

    def __init__(self) -> None:
        self._depth = 0
        self._ready: deque[Callable[[], None]] = deque()

    def put(self, waiter: Deferred[T] | None, value: T) -> None:
        """Answer a request; without a waiter nothing is done."""
        if waiter is not None:
            self._ready.append(lambda: waiter.set(value))

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *exc_info: object) -> None:
        self._depth -= 1
        while self._depth == 0 and self._ready:
            self._ready.popleft()()
