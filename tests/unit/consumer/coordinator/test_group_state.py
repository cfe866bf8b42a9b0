"""The table of member states."""

from __future__ import annotations

import itertools

import pytest

from pyconsumer.consumer.coordinator.classic_group_state import TRANSITIONS, ClassicMemberState, Event, next_state
from pyconsumer.consumer.coordinator.group_state import NO_GENERATION, Generation
from pyconsumer.errors import IllegalStateError

S = ClassicMemberState
JOINING = [
    (S.UNJOINED, Event.JOIN_SENT, S.PREPARING_REBALANCE),
    (S.STABLE, Event.JOIN_SENT, S.PREPARING_REBALANCE),
    (S.PREPARING_REBALANCE, Event.JOIN_SUCCEEDED, S.COMPLETING_REBALANCE),
    (S.COMPLETING_REBALANCE, Event.SYNC_SUCCEEDED, S.STABLE),
    (S.PREPARING_REBALANCE, Event.STEP_FAILED, S.UNJOINED),
    (S.COMPLETING_REBALANCE, Event.STEP_FAILED, S.UNJOINED),
]


@pytest.mark.parametrize(("state", "event", "after"), JOINING)
def test_the_way_of_a_join(state: S, event: Event, after: S) -> None:
    assert next_state(state, event) is after


@pytest.mark.parametrize("state", S)
def test_a_generation_may_be_lost_and_a_member_fenced_at_any_time(state: S) -> None:
    assert next_state(state, Event.RESET) is S.UNJOINED
    assert next_state(state, Event.FENCED) is S.FENCED


def test_all_other_moves_are_impossible() -> None:
    legal = {(state, event) for state, event, _ in JOINING} | set(itertools.product(S, (Event.RESET, Event.FENCED)))
    assert legal == {(state, event) for event, row in TRANSITIONS.items() for state in row}
    for state, event in itertools.product(S, Event):
        if (state, event) not in legal:
            with pytest.raises(IllegalStateError, match="impossible"):
                next_state(state, event)


def test_no_generation() -> None:
    assert Generation() == NO_GENERATION == (-1, "", None)
    assert not NO_GENERATION.joined
    assert Generation(0, "m").joined
