"""Tests of leadership and ISR: the controller's rules, one by one and in random histories."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyconsumer.broker.config import BrokerConfig
from pyconsumer.broker.controller import Controller, IsrChange
from pyconsumer.broker.elections import NO_LEADER, PartitionState, after_death, after_return, moved_to
from pyconsumer.errors import (
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    PreferredLeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)

FULL = PartitionState(0, 5, (0, 1, 2), (0, 1, 2))


def test_the_first_replica_in_sync_leads_after_the_leader_has_died() -> None:
    assert after_death(FULL, [0], [1, 2]) == PartitionState(1, 6, (0, 1, 2), (1, 2))
    lagging = PartitionState(0, 5, (0, 1, 2), (0, 2))
    assert after_death(lagging, [0], [1, 2]) == PartitionState(2, 6, (0, 1, 2), (2,))


def test_a_follower_that_dies_leaves_the_isr_and_changes_no_epoch() -> None:
    assert after_death(FULL, [2], [0, 1]) == PartitionState(0, 5, (0, 1, 2), (0, 1))


def test_the_last_one_in_sync_stays_in_the_isr_and_the_partition_is_offline() -> None:
    alone = PartitionState(1, 7, (0, 1, 2), (1,))
    offline = after_death(alone, [1], [0, 2])
    assert offline == PartitionState(NO_LEADER, 8, (0, 1, 2), (1,))
    # Replicas that are not in sync do not help, and nothing is elected twice.
    assert after_return(offline, [0], [0, 2]) is offline
    assert after_return(offline, [1], [0, 1, 2]) == PartitionState(1, 9, (0, 1, 2), (1,))


def test_when_all_die_at_once_the_leader_is_the_last_to_go() -> None:
    assert after_death(FULL, [0, 1, 2], []) == PartitionState(NO_LEADER, 6, (0, 1, 2), (0,))


def test_an_unclean_election_takes_any_live_replica() -> None:
    alone = PartitionState(1, 7, (0, 1, 2), (1,))
    assert after_death(alone, [1], [2], unclean=True) == PartitionState(2, 8, (0, 1, 2), (2,))
    offline = PartitionState(NO_LEADER, 8, (0, 1, 2), (1,))
    assert after_return(offline, [2], [2], unclean=True) == PartitionState(2, 9, (0, 1, 2), (2,))


def test_a_leader_with_an_unnoticed_absence_leads_in_a_new_epoch() -> None:
    assert after_return(FULL, [0, 1, 2], [0, 1, 2]) == PartitionState(0, 6, (0, 1, 2), (0, 1, 2))


def test_a_returning_broker_does_not_take_the_leadership_from_another() -> None:
    state = PartitionState(1, 6, (0, 1, 2), (1, 2))
    assert after_return(state, [0], [0, 1, 2]) is state


NODES = range(4)


@given(st.lists(st.tuples(st.sampled_from(["kill", "return", "join", "move"]), st.sampled_from(NODES)), max_size=60))
def test_on_any_history_the_rules_hold(events: list[tuple[str, int]]) -> None:
    state, alive = PartitionState(0, 0, (0, 1, 2), (0, 1, 2)), set(NODES)
    for kind, node in events:
        before = state
        if kind == "kill" and node in alive:
            alive.discard(node)
            state = after_death(state, [node], alive)
        elif kind == "return" and node not in alive:
            alive.add(node)
            state = after_return(state, [node], alive)
        elif kind == "join" and node in alive and node in state.replicas and state.leader != NO_LEADER:
            isr = tuple(each for each in state.replicas if each in {*state.isr, node})
            state = PartitionState(state.leader, state.leader_epoch, state.replicas, isr)
        elif kind == "move" and node in alive and node in state.isr and node != state.leader:
            state = moved_to(state, node)
        assert state.isr
        assert set(state.isr) <= set(state.replicas)
        assert state.leader == NO_LEADER or (state.leader in state.isr and state.leader in alive)
        # Nobody leads only if nobody in sync is alive.
        assert (state.leader == NO_LEADER) == alive.isdisjoint(state.isr)
        assert state.leader_epoch == before.leader_epoch + (state.leader != before.leader)
        # Who leads next was in sync before: it has all that was acknowledged.
        if state.leader not in (NO_LEADER, before.leader):
            assert state.leader in before.isr


# --- the controller


def controller(folder: Path | None = None, brokers: int = 3, **config: object) -> Controller:
    made = Controller(folder, BrokerConfig({name.replace("_", "."): value for name, value in config.items()}))
    made.register(range(brokers))
    return made


class TestController:
    def test_a_death_is_in_the_file_and_announced_once_for_each_topic(self, tmp_path: Path) -> None:
        made = controller(tmp_path)
        made.create_topic("a", 3, 3)
        made.create_topic("b", 1, 1)
        notified: list[str] = []
        made.on_change.append(notified.append)
        made.unregister([0])
        assert sorted(notified) == ["a", "b"]
        states = made.topic("a").partitions
        assert [(s.leader, s.leader_epoch, s.isr) for s in states] == [(1, 1, (1, 2)), (1, 0, (1, 2)), (2, 0, (2, 1))]
        assert made.topic("b").partitions[0].leader == NO_LEADER
        assert Controller(tmp_path, BrokerConfig()).topics == made.topics

    def test_the_controller_is_the_first_broker_that_is_alive(self) -> None:
        made = controller()
        assert made.controller_id == 0
        made.unregister([0])
        assert made.controller_id == 1
        made.register([0])
        assert made.controller_id == 0

    def test_outdated_leaders_cannot_change_the_isr(self) -> None:
        made = controller()
        made.create_topic("t", 1, 3)
        made.unregister([2])
        notified: list[str] = []
        made.on_change.append(notified.append)
        made.alter_isrs(0, [IsrChange("t", 0, 0, (0, 1, 2))])  # 2 is not alive
        made.register([2])
        made.alter_isrs(1, [IsrChange("t", 0, 0, (0, 1, 2))])  # 1 does not lead
        made.alter_isrs(0, [IsrChange("t", 0, 3, (0, 1, 2))])  # another epoch
        made.alter_isrs(0, [IsrChange("gone", 0, 0, (0, 1, 2)), IsrChange("t", 1, 0, (0, 1, 2))])
        made.alter_isrs(0, [IsrChange("t", 0, 0, (1,))])  # a leader is always in sync
        assert (made.topic("t").partitions[0].isr, notified) == ((0, 1), [])
        made.alter_isrs(0, [IsrChange("t", 0, 0, (2, 1, 0))])
        assert (made.topic("t").partitions[0].isr, notified) == ((0, 1, 2), ["t"])

    def test_leaders_are_moved_and_move_back(self, tmp_path: Path) -> None:
        made = controller(tmp_path)
        made.create_topic("t", 1, 3)
        assert [made.move_leader("t", 0) for _ in range(4)] == [1, 2, 0, 1]
        assert made.move_leader("t", 0, 2) == 2
        with pytest.raises(ElectionNotNeededError):
            made.move_leader("t", 0, 2)
        with pytest.raises(EligibleLeadersNotAvailableError):
            made.move_leader("t", 0, 9)
        with pytest.raises(UnknownTopicOrPartitionError):
            made.move_leader("t", 1)
        assert made.elect_preferred_leaders() == 1
        assert made.elect_preferred_leaders() == 0
        assert made.topic("t").partitions[0].leader_epoch == 6
        assert Controller(tmp_path, BrokerConfig()).topics == made.topics

    def test_a_leader_moves_only_to_an_in_sync_replica(self) -> None:
        made = controller()
        made.create_topic("t", 1, 2)
        made.unregister([1])
        with pytest.raises(EligibleLeadersNotAvailableError):
            made.move_leader("t", 0)
        made.register([1])
        with pytest.raises(EligibleLeadersNotAvailableError):
            made.move_leader("t", 0, 1)
        made.unregister([0])
        with pytest.raises(EligibleLeadersNotAvailableError):
            made.move_leader("t", 0)

    def test_a_preferred_leader_is_elected(self, tmp_path: Path) -> None:
        made = controller(tmp_path)
        made.create_topic("t", 1, 3)
        for number, error in ((0, ElectionNotNeededError), (1, UnknownTopicOrPartitionError)):
            with pytest.raises(error):
                made.elect_leader("t", number)
        made.unregister([0])
        with pytest.raises(PreferredLeaderNotAvailableError):
            made.elect_leader("t", 0)
        made.register([0])
        with pytest.raises(PreferredLeaderNotAvailableError):  # alive, and not in sync yet
            made.elect_leader("t", 0)
        state = made.topic("t").partitions[0]
        made.alter_isrs(state.leader, [IsrChange("t", 0, state.leader_epoch, (0, 1, 2))])
        made.elect_leader("t", 0)
        assert made.topic("t").partitions[0] == PartitionState(0, state.leader_epoch + 1, (0, 1, 2), (0, 1, 2))
        assert Controller(tmp_path, BrokerConfig()).topics == made.topics

    def test_an_unclean_election_is_for_a_partition_without_a_leader(self, tmp_path: Path) -> None:
        made = controller(tmp_path)
        made.create_topic("t", 1, 2)
        with pytest.raises(ElectionNotNeededError):
            made.elect_leader("t", 0, unclean=True)
        made.unregister([1])
        made.unregister([0])
        with pytest.raises(EligibleLeadersNotAvailableError):
            made.elect_leader("t", 0, unclean=True)
        made.register([1])
        assert made.topic("t").partitions[0].leader == NO_LEADER
        made.elect_leader("t", 0, unclean=True)
        found = made.topic("t").partitions[0]
        assert (found.leader, found.isr) == (1, (1,))
        assert Controller(tmp_path, BrokerConfig()).topics == made.topics

    def test_replicas_are_also_placed_on_brokers_that_are_down(self) -> None:
        made = controller()
        made.unregister([1])
        states = made.create_topic("t", 2, 3).partitions
        assert [(s.leader, s.replicas, s.isr) for s in states] == [(0, (0, 2, 1), (0, 2)), (2, (2, 0, 1), (2, 0))]
        assert len(made.ensure_internal("__consumer_offsets").partitions[0].replicas) == 3
        with pytest.raises(InvalidReplicationFactorError, match="only 3 broker"):
            made.create_topic("u", 1, 4)

    def test_a_manual_assignment_begins_with_a_live_broker(self) -> None:
        made = controller()
        made.unregister([2])
        planned = made.plan_topic("t", assignments={0: [2, 1]}).partitions[0]
        assert (planned.leader, planned.isr) == (1, (1,))
        with pytest.raises(InvalidReplicaAssignmentError, match="fenced"):
            made.plan_topic("t", assignments={0: [2]})
        made.unregister([0, 1])
        with pytest.raises(InvalidReplicationFactorError, match="fenced"):
            made.plan_topic("t", 1, 1)

    def test_an_unclean_election_must_be_allowed_by_the_topic_or_the_brokers(self) -> None:
        made = controller()
        for name, setting in (("no", "false"), ("yes", "true")):
            made.create_topic(name, 1, 2, {"unclean.leader.election.enable": setting})
        made.unregister([1])
        made.unregister([0])
        made.register([1])
        assert [made.topic(name).partitions[0].leader for name in ("no", "yes")] == [NO_LEADER, 1]
        assert made.topic("yes").partitions[0].isr == (1,)
