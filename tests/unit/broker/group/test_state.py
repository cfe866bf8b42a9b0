"""The table of states."""

from __future__ import annotations

import itertools

import pytest

from pyconsumer.broker.group.classic.group_metadata import PREDECESSORS, GroupMetadata, GroupState
from pyconsumer.clock import ManualClock
from pyconsumer.errors import IllegalStateError

E, P, C, S, D = GroupState
LEGAL = {
    *((E, to) for to in (P, D)),
    *((P, to) for to in (E, C, D)),
    *((C, to) for to in (P, S, D)),
    *((S, to) for to in (P, D)),
    (D, D),
}


@pytest.mark.parametrize(("start", "to"), list(itertools.product(GroupState, GroupState)))
def test_every_cell_of_the_matrix(start: GroupState, to: GroupState) -> None:
    clock = ManualClock()
    group = GroupMetadata("g", start, clock)
    before = group.current_state_timestamp
    clock.advance(1)
    if (start, to) in LEGAL:
        group.transition_to(to)
        assert group.state is to
        assert group.current_state_timestamp == clock.wall_ms()
    else:
        with pytest.raises(IllegalStateError):
            group.transition_to(to)
        assert (group.state, group.current_state_timestamp) == (start, before)


def test_there_are_five_states() -> None:
    names = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]
    assert [state.value for state in GroupState] == names
    assert set(PREDECESSORS) == set(GroupState)
    assert [str(state) for state in GroupState] == names
    assert GroupMetadata("g", E, ManualClock(wall_ms=77)).current_state_timestamp == 77


def test_a_rebalance_can_start_in_three_states() -> None:
    can = {state for state in GroupState if GroupMetadata("g", state, ManualClock()).can_rebalance}
    assert can == {E, C, S}
    assert GroupMetadata("g", S, ManualClock()).is_(E, S)
    assert not GroupMetadata("g", S, ManualClock()).is_(E, C)
