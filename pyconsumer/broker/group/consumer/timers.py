"""Session and rebalance timeouts of members of the consumer protocol.

A member has at most one of each kind: its session timeout, its rebalance timeout, and if it uses the classic protocol,
the time until it must send JoinGroup or SyncGroup.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from pyconsumer.background_log import Log
from pyconsumer.broker.deferred import PendingReplies
from pyconsumer.broker.timer import Timer, TimerHandle
from pyconsumer.clock import Clock

__all__ = ["Deadline", "MemberTimers"]

_log = Log(__name__)

#: The delay after which a deadline's action is tried again, because its change could not be appended.
_RETRY_S: Final = 0.5


class Deadline(Enum):
    """Kinds of deadlines that a member has."""

    SESSION = auto()
    REBALANCE = auto()
    JOIN = auto()
    SYNC = auto()


class MemberTimers:
    """All deadlines that are set, by group and member."""

    def __init__(self, timer: Timer, clock: Clock, replies: PendingReplies) -> None:
        self._timer = timer
        self._clock = clock
        self._replies = replies
        self._handles: dict[str, dict[tuple[Deadline, str], TimerHandle]] = {}

    def set(
        self, group_id: str, member_id: str, kind: Deadline, timeout_ms: int, action: Callable[[], bool | None]
    ) -> None:
        """Set a deadline, and replace the present one. If ``action`` returns False, it is called again after 0.5 s."""
        self.cancel(group_id, member_id, kind)

        def run() -> None:
            try:
                with self._replies:
                    again = action() is False
            except Exception:
                _log.exception("A deadline of member %s of group %s failed", member_id, group_id)
                return
            if again:
                self._schedule(group_id, member_id, kind, _RETRY_S, run)

        self._schedule(group_id, member_id, kind, timeout_ms / 1000, run)

    def _schedule(self, group_id: str, member_id: str, kind: Deadline, delay_s: float, run: Callable[[], None]) -> None:
        handle = self._timer.schedule(self._clock.now() + delay_s, run)
        self._handles.setdefault(group_id, {})[kind, member_id] = handle

    def set_if_absent(
        self, group_id: str, member_id: str, kind: Deadline, timeout_ms: int, action: Callable[[], bool | None]
    ) -> None:
        """Set a deadline, unless one of this kind is set already."""
        handle = self._handles.get(group_id, {}).get((kind, member_id))
        if handle is None or not handle.active:
            self.set(group_id, member_id, kind, timeout_ms, action)

    def cancel(self, group_id: str, member_id: str, *kinds: Deadline) -> None:
        """Cancel the deadlines of a member: those of the given kinds, or all."""
        handles = self._handles.get(group_id)
        if handles is None:
            return
        for kind in kinds or Deadline:
            handle = handles.pop((kind, member_id), None)
            if handle is not None:
                handle.cancel()
        if not handles:
            del self._handles[group_id]

    def cancel_group(self, group_id: str) -> None:
        """Cancel all deadlines of a group."""
        for handle in self._handles.pop(group_id, {}).values():
            handle.cancel()
