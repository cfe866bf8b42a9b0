"""Waiting for the sender's thread: the lock of a producer, with a count of the changes that were announced under it.

A call that has to wait is a generator that yields a :class:`Pause`: it continues when there was a change after
``seen``, or at the deadline, and looks again. A thread waits on the lock itself; an event loop is called back.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

__all__ = ["YIELD", "Changes", "Pause"]


class Pause(NamedTuple):
    """Reason to wait: a change after ``seen``, or ``deadline`` (monotonic seconds).

    ``for_room`` is True if it waits for memory, which those who wait get in turn.
    """

    seen: int
    deadline: float
    for_room: bool = False


#: Waits for nothing: a call that does a lot lets others run here.
YIELD: Final = Pause(-1, math.inf)


class Changes(threading.Condition):
    """A condition that counts its notifications, and can call functions instead of waking threads.

    Attributes:
        count: how often :meth:`notify_all` was called.
    """

    def __init__(self, lock: threading.Lock) -> None:
        super().__init__(lock)
        self.count = 0
        self._callbacks: list[Callable[[], object]] = []

    def notify_all(self) -> None:
        """Announce a change; the lock is held."""
        self.count += 1
        super().notify_all()
        if self._callbacks:
            callbacks, self._callbacks = self._callbacks, []
            for call in callbacks:
                call()

    def on_change(self, seen: int, call: Callable[[], object]) -> None:
        """Call a function, with the lock held, at the first change after ``seen``; now if that is over."""
        with self:
            if self.count == seen:
                self._callbacks.append(call)
                return
        call()
