"""The states of a group and the moves between them.

A group is a small state machine; this table is the whole of it.

1. *Empty*: no members. A new group, one whose last member left, or one that only stores offsets.
2. *PreparingRebalance*: members are joining. Joins are parked until all have come or the time is over.
3. *CompletingRebalance*: a generation exists, and the leader's assignment is awaited.
4. *Stable*: every member of the generation has its assignment.
5. *Dead*: given up, because it was deleted, expired, or this broker is no longer its coordinator. Nothing leaves it.

No state is entered from itself, except Dead: giving up a group twice is no error.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["PREDECESSORS", "GroupState"]


class GroupState(Enum):
    """State of a group; the value is its name on the wire."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"

    def __str__(self) -> str:
        return self.value


#: From which states each state may be entered.
PREDECESSORS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}
