"""The producer's lock, on which calls wait for changes by the sender's thread.

A call that has to wait is a generator that yields a :class:`.Wait` with the next change of a :class:`ChangeCondition`.
It continues when the change was announced, or at its deadline, and checks again. A thread waits on the lock itself. An
event loop is called back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["ChangeCondition", "NextChange"]


class ChangeCondition(threading.Condition):
    """A condition variable that counts its notifications. It can call functions, instead of waking threads.

    Attributes:
        count: how often :meth:`notify_all` was called.
    """

    def __init__(self, lock: threading.Lock) -> None:
        super().__init__(lock)
        self.count = 0
        self._callbacks: list[Callable[[], object]] = []

    def notify_all(self) -> None:
        """Announce a change. The caller must hold the lock."""
        self.count += 1
        super().notify_all()
        if self._callbacks:
            callbacks, self._callbacks = self._callbacks, []
            for call in callbacks:
                call()

    def next_change(self, *, in_turn: bool = False) -> NextChange:
        """Return an object for the next change after all that were announced. The caller must hold the lock.

        Args:
            in_turn: True if the change is useful to only one call at a time (see :class:`.Change`).
        """
        return NextChange(self, in_turn)

    def on_change(self, seen: int, call: Callable[[], object]) -> None:
        """Call a function at the first change after number ``seen``, with the lock held.

        If that change has happened, call it now.
        """
        with self:
            if self.count == seen:
                self._callbacks.append(call)
                return
        call()


class NextChange:
    """A :class:`.Change` that was not announced yet when this object was made."""

    __slots__ = ("_condition", "_seen", "in_turn")

    def __init__(self, condition: ChangeCondition, in_turn: bool) -> None:
        self._condition = condition
        self._seen = condition.count
        self.in_turn = in_turn

    def wait(self, until: float, now: Callable[[], float]) -> None:
        """Block until the change is announced, or until the time ``until`` (monotonic seconds of the clock ``now``)."""
        condition = self._condition
        with condition:
            while condition.count == self._seen and (left := until - now()) > 0:
                condition.wait(min(left, threading.TIMEOUT_MAX))

    def on_announced(self, call: Callable[[], object]) -> None:
        """Call a function when the change is announced, in the thread that announces it.

        If the change was announced before, call the function now.
        """
        self._condition.on_change(self._seen, call)
