"""Lag as time: since when the first uncommitted record of a partition has been in the log. A core: no I/O, no clock.

The timestamps come from what the consumer has fetched, so no request is made, and nothing is done for a single record.

Rules

1. A *mark* has the position at which a poll began, and the timestamp of the first record that it returned. The first
   uncommitted record belongs to the last mark that is not above the committed offset. So its age is exact if a poll
   began at the committed offset, as a rule. In the middle of a poll's records it is that of the first of them.
2. A move of the position past hidden records alone (markers, aborted transactions) leaves a mark without a timestamp.
   The next mark counts in its place, since no record lies between.
3. If all that was returned is committed, the first fetched record that waits counts. Without one the age is unknown
   while there is a lag, and 0 otherwise.
4. Without a group, and for a group whose offsets a transaction commits, a record counts as committed once it has been
   returned.
5. The application's thread writes. Any thread reads: marks are copied in one step.
6. If there are more than :data:`MOST_MARKS` when one is added, because nothing is committed, every second one is
   dropped, and never the first.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MOST_MARKS", "LagMarks", "age_of"]

MOST_MARKS: Final = 16


def age_of(timestamp_ms: int | None, wall_ms: int) -> float | None:
    """Return the age of a record in seconds: 0.0 for a time in the future, None without a timestamp."""
    if timestamp_ms is None or timestamp_ms < 0:
        return None
    return max(0.0, (wall_ms - timestamp_ms) / 1000)


class LagMarks:
    """The marks of one partition.

    A buffer adds marks and sets ``waiting`` itself, without a call for each poll.

    Attributes:
        kept: False if marks are not needed, because records that were returned count as committed (rule 4).
        all: the marks, by position: the position before the records that were passed, and the timestamp (ms) of the
            first of them, None if none was returned.
        waiting: one item, the timestamp of the first fetched record that was not returned. None if there is none.
    """

    __slots__ = ("all", "kept", "waiting")

    def __init__(self, *, kept: bool = True) -> None:
        self.kept = kept
        self.all: list[tuple[int, int | None]] = []
        self.waiting: list[int | None] = [None]

    def stop(self) -> None:
        """Keep no marks from now on (rule 4)."""
        self.kept = False
        self.all.clear()

    def thin(self) -> None:
        """Drop every second mark (rule 6)."""
        del self.all[1:-1:2]

    def forget_before(self, committed: int) -> None:
        """Forget the marks of records that are committed."""
        marks = self.all
        passed = 0
        for position, _ in tuple(marks[1:]):
            if position > committed:
                break
            passed += 1
        del marks[:passed]

    def cut(self, position: int | None) -> None:
        """Forget the fetched records, and the marks from a position on: reading continues there. None: all of them."""
        self.waiting[0] = None
        self.all[:] = [] if position is None else [mark for mark in self.all if mark[0] < position]

    def first_from(self, committed: int) -> int | None:
        """Return the timestamp of the first returned record that is not committed, None without one."""
        found: int | None = None
        for position, timestamp in tuple(self.all):
            if position > committed and found is not None:
                break
            found = timestamp
        return found
