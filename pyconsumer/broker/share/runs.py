"""Runs of offsets of a share partition: what is known about each record that was delivered. A core without a clock.

A :class:`Run` has offsets with the same state, delivery count, holder and lock. So acquiring 500 records makes one run,
and only what is acknowledged apart is split. Runs are in order and without gaps or overlaps.

States of a run
---------------
``AVAILABLE`` -> ``ACQUIRED`` by a delivery, which counts it. From there to ``ACKNOWLEDGED``, ``ARCHIVED`` or back to
``AVAILABLE``, by an acknowledgement or by the end of the lock. An acknowledgement is written first. Until then the run
is *in transition*: it is still ACQUIRED, nobody may acknowledge or take it, and its lock does not end. If the write
fails, it is as before. ACKNOWLEDGED and ARCHIVED are final.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

from pyconsumer.broker.share.state import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE, Batch

__all__ = ["FINAL_STATES", "Run", "Runs"]

#: States of records that are done with.
FINAL_STATES: Final = frozenset({ACKNOWLEDGED, ARCHIVED})


class Run:
    """Offsets with the same state. See the module.

    Attributes:
        first, last: the offsets. Both belong to the run.
        state, count: the delivery state and the delivery count.
        member: the holder of the lock, or empty.
        deadline: when the lock ends (monotonic seconds).
        target: the state after the transition that is being written, or None.
    """

    __slots__ = ("count", "deadline", "first", "last", "member", "state", "target")

    def __init__(self, first: int, last: int, state: int, count: int, member: str = "", deadline: float = 0.0) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.count = count
        self.member = member
        self.deadline = deadline
        self.target: int | None = None

    def __repr__(self) -> str:
        return f"<Run {self.first}-{self.last} state {self.state} -> {self.target} count {self.count} {self.member!r}>"

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    @property
    def is_free(self) -> bool:
        """Return whether the records may be delivered."""
        return self.state == AVAILABLE and self.target is None

    @property
    def is_held(self) -> bool:
        """Return whether a member may acknowledge the records."""
        return self.state == ACQUIRED and self.target is None

    @property
    def is_done(self) -> bool:
        return self.state in FINAL_STATES

    def cut(self, offset: int) -> Run:
        """Split the run before an offset. Return the second part."""
        rest = Run(offset, self.last, self.state, self.count, self.member, self.deadline)
        self.last = offset - 1
        return rest

    def grow(self, last: int) -> None:
        """Take over the offsets of the next run, which is alike."""
        self.last = last

    def is_like(self, other: Run) -> bool:
        """Return whether the runs may be one: both are free or done with, and alike."""
        return (
            self.state == other.state
            and self.state != ACQUIRED
            and self.count == other.count
            and self.target is None
            and other.target is None
        )

    def acquire(self, member: str, deadline: float) -> None:
        """Deliver the records to a member, which holds them until the deadline."""
        self.state, self.count, self.member, self.deadline = ACQUIRED, self.count + 1, member, deadline

    def renew(self, deadline: float) -> None:
        """Move the end of the lock."""
        self.deadline = deadline

    def begin(self, target: int) -> None:
        """Begin a transition."""
        self.target = target

    def end(self, *, written: bool) -> None:
        """End the transition. If it was not written, all is as before."""
        if written and self.target is not None:
            self.become(self.target)
        self.target = None

    def begin_at(self, offset: int) -> None:
        """Forget the records before an offset. The run stays the same one, since it may be in a transition."""
        self.first = offset

    def become(self, state: int) -> None:
        """Enter a state without a lock."""
        self.state, self.member = state, ""

    def as_batch(self, state: int | None = None) -> Batch:
        """Return the run for the share coordinator, with a state that it is about to have."""
        return Batch(self.first, self.last, self.state if state is None else state, self.count)


def _first(run: Run) -> int:
    return run.first


class Runs:
    """The runs of a share partition, from the start offset to the end offset."""

    def __init__(self) -> None:
        self._runs: list[Run] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def replace(self, runs: Iterable[Run]) -> None:
        """Replace all runs."""
        self._runs = list(runs)

    def append(self, run: Run) -> None:
        """Add the next run."""
        self._runs.append(run)

    def _index(self, offset: int) -> int:
        """Return the index of the run with an offset, or of the first run if there is none before."""
        return max(0, bisect_right(self._runs, offset, key=_first) - 1)

    def between(self, first: int, last: int) -> list[Run]:
        """Return the runs that have some of these offsets."""
        found = []
        for index in range(self._index(first), len(self._runs)):
            run = self._runs[index]
            if run.first > last:
                break
            if run.last >= first:
                found.append(run)
        return found

    def carve(self, first: int, last: int) -> list[Run]:
        """Split runs so that some of them have exactly these offsets. Return those."""
        for offset in (first, last + 1):
            index = self._index(offset)
            if index < len(self._runs):
                run = self._runs[index]
                if run.first < offset <= run.last:
                    self._runs.insert(index + 1, run.cut(offset))
        return self.between(first, last)

    def first_free(self) -> Run | None:
        """Return the first run that may be delivered."""
        return next((run for run in self._runs if run.is_free), None)

    def drop_before(self, offset: int) -> None:
        """Forget the offsets before this one."""
        self._runs = [run for run in self._runs if run.last >= offset]
        if self._runs and self._runs[0].first < offset:
            self._runs[0].begin_at(offset)

    def drop_done(self) -> int | None:
        """Forget the runs at the beginning that are done with. Return the offset after them, or None if there are none.

        What is left and alike is joined.
        """
        count = 0
        for run in self._runs:
            if not run.is_done or run.target is not None:
                break
            count += 1
        after = self._runs[count - 1].last + 1 if count else None
        kept: list[Run] = []
        for run in self._runs[count:]:
            if kept and kept[-1].is_like(run):
                kept[-1].grow(run.last)
            else:
                kept.append(run)
        self._runs = kept
        return after
