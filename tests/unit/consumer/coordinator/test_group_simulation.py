"""Groups in simulated time: a large one, and some that lose members or their coordinator."""

from __future__ import annotations

import pytest

from pyconsumer.assignors import RangeAssignor
from tests.simulation.scripted import Script
from tests.unit.assignors.cooperative import Sticky


@pytest.mark.slow
def test_a_hundred_members_join_one_by_one() -> None:
    sim = Script(1, Sticky, partitions=200, longest_work=5.0)
    for _ in range(100):
        sim.add(session_timeout_ms=60_000, max_poll_interval_ms=300_000)
        sim.advance(0.2)
    sim.advance(60.0)
    sim.assert_settled()
    assert {len(member.owned) for member in sim.members} == {2}


def test_a_leader_that_crashes_is_followed_by_another() -> None:
    sim = Script(2, RangeAssignor)
    for _ in range(3):
        sim.add()
    sim.advance(20.0)
    sim.assert_settled()
    leader = next(member for member in sim.members if member.core.is_leader)
    leader.crash()
    sim.advance(30.0)
    sim.assert_settled()
    assert sum(member.core.is_leader for member in sim.members) == 1


def test_a_member_that_stalls_in_a_rebalance_is_left_behind_and_comes_back() -> None:
    sim = Script(3, RangeAssignor)
    stalling, other = sim.add(), sim.add()
    sim.advance(10.0)
    stalling.stall(40.0)
    sim.add()
    sim.advance(30.0)
    assert len(other.owned) == 6, "two of three share it"
    sim.advance(40.0)
    sim.assert_settled()
    assert {len(member.owned) for member in sim.members} == {4}
    assert stalling.lost


def test_a_stable_group_survives_its_coordinator() -> None:
    sim = Script(4, RangeAssignor)
    for _ in range(3):
        sim.add()
    sim.advance(20.0)
    generation = sim.members[0].core.generation
    rebalances = sim.rebalances
    sim.restart_coordinator()
    sim.advance(30.0)
    sim.assert_settled()
    assert sim.members[0].core.generation == generation
    assert sim.rebalances == rebalances


@pytest.mark.slow
def test_an_hour_without_events_has_no_rebalance() -> None:
    sim = Script(5, RangeAssignor)
    for _ in range(2):
        sim.add()
    sim.advance(20.0)
    sim.assert_settled()
    rebalances = sim.rebalances
    sim.longest_work = 10.0
    sim.advance(3600.0)
    assert sim.rebalances == rebalances
    sim.assert_settled()
