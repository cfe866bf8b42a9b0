"""Lets rules decide first and answer afterwards.

An answer runs the client's next step at once, and that step may be another request to the same group: a pipelined one
on a connection, anything in a simulation. So answers are collected while a request, a timer or the end of an append is
worked on, and given when all of it is done: nobody is called with a group that is half changed.

What such a next step leads to waits for its turn behind the answers that are ready: they are given by one loop, however
many clients go on at once. An answer that breaks is logged and is nobody else's business.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from pyconsumer.broker.deferred import Deferred

__all__ = ["Answers"]

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Answers:
    """Answers that are ready. ``with answers:`` brackets a piece of work; the outermost one gives them, in order."""

    def __init__(self) -> None:
        self._depth = 0
        self._giving = False
        self._ready: deque[Callable[[], None]] = deque()

    def put(self, waiter: Deferred[T] | None, value: T) -> None:
        """Answer a request; without a waiter nothing is done, nor for one that was told of an error before its turn."""
        if waiter is not None:
            self._ready.append(partial(_give, waiter, value))

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *exc_info: object) -> None:
        self._depth -= 1
        if self._depth or self._giving:
            return
        self._giving = True
        try:
            while self._ready:
                self._ready.popleft()()
        finally:
            self._giving = False


def _give(waiter: Deferred[T], value: T) -> None:
    if waiter.done:
        return
    try:
        waiter.set(value)
    except Exception:
        _log.exception("What came after an answer of the group coordinator failed")
