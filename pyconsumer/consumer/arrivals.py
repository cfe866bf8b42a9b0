"""The wait of a poll for something that a deserializer needs, such as a schema from a registry.

A deserializer raises ``PendingError``, which has the thing that it waits for. The position stays before that record.
Another thread completes the wait and wakes the poll, which takes the record then. Meanwhile the sockets are served, and
the membership of the group is kept.

Rules

1. A poll waits until its deadline, and at least for ``schema_timeout_ms`` since the first poll that needed the thing,
   but no longer than ``schema_timeout_ms`` beyond its deadline. Several partitions may wait for several things.
2. After that time the poll returns without records. It is no error: the next poll takes the record if the schema has
   come, and otherwise waits no longer than its own time.
3. An error of the wait is raised by the deserializer, when it is called again.
4. A dead letter is waited for in the same way, but never beyond the poll's deadline.
"""

from __future__ import annotations

from collections.abc import Callable

from pyconsumer.generic import Arrival, PendingError

__all__ = ["Arrivals"]


class Arrivals:
    """The thing that the next record waits for.

    Args:
        wake: ends the wait of a poll. It is called in any thread.
        now: the clock (monotonic seconds).
    """

    def __init__(self, wake: Callable[[], object], now: Callable[[], float]) -> None:
        self._wake = wake
        self._now = now
        self._least = 0.0
        self._until: dict[Arrival, float] = {}  # partitions may wait for different things

    def expect(self, pending: PendingError, least_s: float) -> None:
        """Let polls wait for the thing that a deserializer needs, for ``least_s`` seconds or longer (rule 1)."""
        self._least = least_s
        arrival = pending.arrival
        if arrival not in self._until:
            self._until[arrival] = self._now() + (self._least if pending.extends_poll else 0.0)
            arrival.add_done_callback(lambda _: self._wake())

    def extended(self, deadline: float) -> float:
        """Return the end of a poll (monotonic seconds): its deadline, or later while something is expected (rule 1).

        It is at most ``schema_timeout_ms`` after the deadline, whenever the wait began.
        """
        if not self._until:
            return deadline
        self._until = {arrival: until for arrival, until in self._until.items() if not arrival.done()}
        if not self._until:
            return deadline
        return min(max(deadline, *self._until.values()), deadline + self._least)
