"""Lag as time: since when the first uncommitted record of a partition has been in the log. A core: no I/O, no clock.

The timestamps come from what the consumer has fetched, so no request is made, and nothing is done for a single record.

Rules

1. A *mark* has the position at which a poll began, and the timestamp of the first record that it returned. The first
   uncommitted record belongs to the last mark that is not above the committed offset. So its age is exact if a poll
   began at the committed offset, as a rule. In the middle of a poll's records it is that of the first of them.
   A poll whose first record has the timestamp of the mark before leaves none.
2. A move of the position past hidden records alone (markers, aborted transactions) leaves a mark without a timestamp.
   The next mark counts in its place, since no record lies between.
3. If all that was returned is committed, the first fetched record that waits counts. Without one the age is unknown
   while there is a lag, and 0 otherwise.
4. Without a group, and for a group whose offsets a transaction commits, a record counts as committed once it has been
   returned.
5. The application's thread writes. Any thread reads: marks are copied in one step.
6. If there are more than :data:`MOST_MARKS` when one is added, because nothing is committed, every second one is
   dropped, and never the first.
7. Marks are a flat list of numbers: positions and timestamps in turn. As tuples they would take twice the memory. A
   partition's state appends both numbers itself, without a call for each poll. A reader may see the first one alone.
8. If all that was returned is committed, there are no marks. A commit that goes back after that leaves one whose
   timestamp is unknown.
"""

from __future__ import annotations

from typing import Final

__all__ = ["FULL", "HIDDEN", "MOST_MARKS", "age_of", "cut", "first_from", "forget_before", "thin"]

MOST_MARKS: Final = 16
#: The length of a list with the most marks: two numbers each.
FULL: Final = 2 * MOST_MARKS
#: The timestamp of a mark of records that were not returned.
HIDDEN: Final = -(1 << 63)


def age_of(timestamp_ms: int | None, wall_ms: int) -> float | None:
    """Return the age of a record in seconds: 0.0 for a time in the future, None without a timestamp."""
    if timestamp_ms is None or timestamp_ms < 0:
        return None
    return max(0.0, (wall_ms - timestamp_ms) / 1000)


def thin(marks: list[int]) -> None:
    """Drop every second mark (rule 6)."""
    kept = marks[:]
    del kept[2::4]  # the positions
    del kept[2::3]  # and the timestamps
    marks[:] = kept  # in one step


def forget_before(marks: list[int], committed: int) -> None:
    """Forget the marks of records that are committed, but for the last one."""
    passed = sum(1 for at in marks[2::2] if at <= committed)
    del marks[: 2 * passed]


def cut(marks: list[int], position: int | None) -> None:
    """Forget the marks from a position on: reading continues there. None: all of them."""
    del marks[0 if position is None else 2 * sum(1 for at in marks[::2] if at < position) :]


def first_from(marks: list[int], committed: int) -> int:
    """Return the timestamp of the first returned record that is not committed, :data:`HIDDEN` without one."""
    found = HIDDEN
    seen = marks[:]  # in one step
    for position, timestamp in zip(seen[::2], seen[1::2], strict=False):
        if position > committed and found != HIDDEN:
            break
        found = timestamp
    return found
