"""The table of fetch states."""

from __future__ import annotations

import itertools

import pytest

from pyconsumer.consumer.partition_state import (
    RULES,
    FetchPosition,
    FetchState,
    LeaderAndEpoch,
    TopicPartitionState,
    next_state,
)
from pyconsumer.structs import TopicPartition

INIT, F, R, V = FetchState.INITIALIZING, FetchState.FETCHING, FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION
LEGAL = {INIT: {F, R, V}, F: {F, R, V}, R: {F, R}, V: {F, R, V}}
TP = TopicPartition("t", 0)


def test_the_states_are_these_four_with_these_rules() -> None:
    assert set(RULES) == set(FetchState) == {INIT, F, R, V}
    assert {state: set(rule.next_states) for state, rule in RULES.items()} == LEGAL
    assert {state for state, rule in RULES.items() if rule.requires_position} == {F, V}
    assert {state for state, rule in RULES.items() if rule.has_valid_position} == {F}


@pytest.mark.parametrize(("current", "wanted"), list(itertools.product(FetchState, FetchState)))
def test_an_illegal_transition_is_ignored(current: FetchState, wanted: FetchState) -> None:
    expected = wanted if wanted in LEGAL[current] else current

    assert next_state(current, wanted) is expected


def at(position: int) -> TopicPartitionState:
    state = TopicPartitionState(TP, 1)
    assert state.move_to(F, FetchPosition(position, 3, LeaderAndEpoch(1, 4)))
    return state


@pytest.mark.parametrize("wanted", [F, V])
def test_a_state_that_needs_a_position_is_not_entered_without_one(wanted: FetchState) -> None:
    state = TopicPartitionState(TP, 1)

    with pytest.raises(AssertionError, match="without a position"):
        state.move_to(wanted)

    assert state.state is INIT


def test_a_reset_drops_the_position() -> None:
    state = at(10)

    assert state.move_to(R)

    assert state.fetch_position is None
    assert state.committable is None


def test_a_rejected_transition_keeps_the_position() -> None:
    state = at(10)
    state.move_to(R)

    assert not state.move_to(V, FetchPosition(5))

    assert (state.state, state.position) == (R, None)


def test_a_new_partition_is_initializing_without_a_position() -> None:
    state = TopicPartitionState(TP, 7)

    assert state.state is INIT
    assert state.fetch_position is None
    assert not state.paused
    assert not state.is_fetchable
    assert state.reset_policy is None
    assert (state.high_watermark, state.last_stable_offset, state.log_start_offset) == (-1, -1, -1)
    assert state.preferred_replica == -1
