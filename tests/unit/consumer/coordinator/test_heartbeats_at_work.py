"""Tests of the three uses of heartbeats in a simulated group: they prove life, bring news, and end a membership."""

from __future__ import annotations

from pyconsumer.assignors import RangeAssignor
from pyconsumer.consumer.coordinator.classic_group_state import ClassicMemberState
from tests.simulation.scripted import Script


def test_a_silent_member_is_removed_and_one_that_sends_heartbeats_is_not() -> None:
    sim = Script(11, RangeAssignor)
    silent, other = sim.add(), sim.add()
    sim.advance(20.0)
    sim.assert_settled()
    rebalances = sim.rebalances
    sim.advance(300.0)
    assert sim.rebalances == rebalances, "heartbeats alone keep both for any time"
    silent.crash()
    sim.advance(40.0)
    sim.assert_settled()
    assert len(other.owned) == 12


def test_heartbeats_bring_the_news_of_a_rebalance() -> None:
    sim = Script(12, RangeAssignor)
    first = sim.add()
    sim.advance(20.0)
    generation = first.core.generation.generation_id
    sim.add()
    sim.advance(20.0)
    sim.assert_settled()
    assert first.core.generation.generation_id > generation
    assert len(first.owned) == 6


def test_a_member_whose_application_does_not_poll_leaves() -> None:
    sim = Script(13, RangeAssignor)
    away, other = sim.add(), sim.add()
    sim.advance(20.0)
    away.stall(60.0)
    sim.advance(50.0)
    assert away.core.state is ClassicMemberState.UNJOINED
    assert not away.core.generation.joined
    assert len(other.owned) == 12, "long before its session would have ended, had it only fallen silent"


def seconds_until_noticed(interval: int) -> float:
    """Return the time until a stable member with that heartbeat interval, in ms, learns of a new member."""
    sim = Script(14, RangeAssignor)
    member = sim.add(heartbeat_interval_ms=interval, session_timeout_ms=60_000, max_poll_interval_ms=120_000)
    sim.advance(30.0)
    assert member.core.state is ClassicMemberState.STABLE
    sim.add(session_timeout_ms=60_000, max_poll_interval_ms=120_000)
    began = sim.clock.now()
    while not member.core.rejoin_pending:
        sim.advance(0.05)
        assert sim.clock.now() < began + 60.0
    return sim.clock.now() - began


def test_frequent_heartbeats_learn_of_a_rebalance_sooner() -> None:
    found = [seconds_until_noticed(interval) for interval in (500, 3_000, 20_000)]
    assert found[0] < 1.5
    assert found[0] < found[1] < found[2], found
