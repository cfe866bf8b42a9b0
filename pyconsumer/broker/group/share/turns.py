"""``Turns``: work on the states of the share partitions of a group, one after the other.

The share coordinators answer later, and calls to them are tried again. So two pieces of work could overtake each other:
a state that is begun late could outlive the deletion of its group, for example. Work of one group id therefore waits
for the work before it, also if the group was deleted and made again in the meantime.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from pyconsumer.background_log import Log
from pyconsumer.broker.deferred import Deferred

__all__ = ["Turns"]

_log = Log(__name__)

T = TypeVar("T")

#: Begins a piece of work. It calls its argument when the work has ended, if that is not at once.
_Begin = Callable[[Callable[[], None]], bool]


class Turns:
    """The work of all groups of one coordinator. See the module."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[_Begin]] = {}

    def run(self, group_id: str, work: Callable[[], Deferred[T]], failed: T) -> Deferred[T]:
        """Do work as soon as the earlier work of the group has ended.

        Args:
            failed: the result if ``work`` raises.
        """
        done: Deferred[T] = Deferred()

        def tell(value: T) -> None:
            try:
                done.set(value)
            except Exception:  # of a receiver. The next work begins all the same
                _log.exception("Group %s: the result of work on its share partitions was not taken", group_id)

        def begin(on_end: Callable[[], None]) -> bool:
            try:
                result = work()
            except Exception:
                _log.exception("Group %s: work on the states of its share partitions failed", group_id)
                result = Deferred.of(failed)
            if result.done:
                tell(result.value)
                return True

            def end(value: T) -> None:
                tell(value)
                on_end()

            result.on_done(end)
            return False

        waiting = self._waiting.get(group_id)
        if waiting is not None:
            waiting.append(begin)
        else:
            self._waiting[group_id] = deque([begin])
            self._go_on(group_id)
        return done

    def _go_on(self, group_id: str) -> None:
        waiting = self._waiting[group_id]
        while waiting:
            if not waiting.popleft()(lambda: self._go_on(group_id)):
                return
        del self._waiting[group_id]
