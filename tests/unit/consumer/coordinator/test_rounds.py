"""Rebalances in simulated time, step by step: the owners at each moment, and the input and decisions of leaders."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from pyconsumer.assignors import (
    Assignment,
    Assignor,
    ClusterView,
    CooperativeStickyAssignor,
    RangeAssignor,
    Subscription,
)
from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.classic.admission import JoinRequest
from pyconsumer.broker.group.common.results import JoinResult
from pyconsumer.consumer.coordinator.classic_group_state import ClassicMemberState
from pyconsumer.structs import TopicPartition
from tests.simulation.scripted import Script, ScriptedMember

Owned = dict[str, frozenset[TopicPartition]]


class Round(NamedTuple):
    """Partitions that members reported to a leader as owned, and those that it assigned to them, by member id."""

    owned: Owned
    given: Owned


class Group:
    """A simulated group whose rounds are recorded and whose owners are checked every few milliseconds.

    Attributes:
        rounds: of the leaders, in order.
        joins: member's name and reason of each JoinGroup, in order of arrival at the coordinator.
    """

    def __init__(
        self,
        assignor: type[Assignor],
        members: int = 2,
        *,
        names: Sequence[str] = (),
        partitions: int = 12,
        one_by_one: bool = False,
        **settings: Any,
    ) -> None:
        self.rounds: list[Round] = []
        self.joins: list[tuple[str, str | None]] = []
        rounds = self.rounds

        class Noting(assignor):  # type: ignore[misc, valid-type]
            def assign(
                self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]
            ) -> Mapping[str, Assignment]:
                result: Mapping[str, Assignment] = super().assign(cluster, subscriptions)
                rounds.append(
                    Round(
                        {m: frozenset(s.owned_partitions) for m, s in subscriptions.items()},
                        {m: frozenset(a.partitions) for m, a in result.items()},
                    )
                )
                return result

        self.sim = Script(7, Noting, partitions=partitions)
        join_group = self.sim.brokers.leader.coordinator.join_group

        def noted(request: JoinRequest) -> Deferred[JoinResult]:
            self.joins.append((request.client_id, request.reason))
            return join_group(request)

        self.sim.brokers.leader.coordinator.join_group = noted  # type: ignore[method-assign]
        for name in names or [None] * members:
            self.sim.add(instance_id=name, **settings)
            self.watch(20.0 if one_by_one else 0.0)
        self.watch(20.0)
        self.sim.assert_settled()
        rounds.clear()
        self.joins.clear()

    @property
    def members(self) -> list[ScriptedMember]:
        return self.sim.members

    @property
    def generation(self) -> int:
        group = self.sim.brokers.group()
        assert group is not None
        return group.generation_id

    def owned(self) -> Owned:
        return {m.core.generation.member_id: frozenset(m.owned) for m in self.members}

    def watch(self, seconds: float, look: Callable[[], object] = lambda: None) -> None:
        """Advance the clock in small steps, and check the owners after each."""
        for _ in range(round(seconds / 0.004)):
            self.sim.advance(0.004)
            look()


def in_rebalance(member: ScriptedMember) -> bool:
    return member.core.state in (ClassicMemberState.PREPARING_REBALANCE, ClassicMemberState.COMPLETING_REBALANCE)


def test_eager_members_all_pause_until_they_have_the_assignment() -> None:
    group = Group(RangeAssignor, members=3)
    generation = group.generation
    idle: list[bool] = []
    stood_still: set[str] = set()

    def look() -> None:
        idle.append(not any(member.owned for member in group.members))
        for member in group.members:
            if in_rebalance(member):
                stood_still.add(member.name)
                assert not member.owned, "from its JoinGroup to its SyncGroup's answer a member has nothing"

    group.sim.add()
    group.watch(20.0, look)
    group.sim.assert_settled()
    assert group.generation == generation + 1
    assert any(idle), "there is a moment at which nobody consumes anything"
    assert stood_still == {member.name for member in group.members}, "a barrier for all of them"
    (only,) = group.rounds
    assert not any(only.owned.values())


def test_cooperative_members_converge_in_small_steps_without_a_pause() -> None:
    group = Group(CooperativeStickyAssignor, members=3)
    generation, before = group.generation, group.owned()
    working = 0

    def look() -> None:
        nonlocal working
        owned = [tp for member in group.members for tp in member.owned]
        assert len(owned) == len(set(owned)), "as if there were a barrier: who gets something waits for who gives it up"
        assert len(owned) >= 9, "all but the three that move are consumed throughout"
        working += any(in_rebalance(member) and member.owned for member in group.members)

    group.sim.add()
    group.watch(20.0, look)
    group.sim.assert_settled()
    assert group.generation == generation + 2, "two small rebalances: one takes, one gives"
    assert working > 0, "members consume while they join and sync"
    assert {len(member.owned) for member in group.members} == {3}
    after = group.owned()
    assert all(after[member] < before[member] for member in before), "nothing moved that had not to"


def test_a_moved_partition_is_withheld_in_one_round_and_assigned_in_the_next() -> None:
    group = Group(CooperativeStickyAssignor)
    before = group.owned()
    newcomer = group.sim.add()
    group.watch(20.0)
    group.sim.assert_settled()
    first, second = group.rounds
    new_id = newcomer.core.generation.member_id

    assert first.owned == before | {new_id: frozenset()}, "the leader sees what everybody owns"
    given = frozenset().union(*first.given.values())
    withheld = group.sim.partitions - given
    assert len(withheld) == 4
    assert first.given[new_id] == frozenset(), "nothing goes straight from one to another"
    assert all(first.given[member] < before[member] for member in before)

    assert second.owned == first.given, "what was taken away is owned by nobody now"
    assert second.given == first.given | {new_id: withheld}, "and goes to the member with room"
    assert group.owned() == second.given


@pytest.mark.parametrize(("session_timeout", "noticed"), [(10_000, True), (45_000, False)])
def test_a_longer_session_hides_a_static_members_absence(session_timeout: int, noticed: bool) -> None:
    group = Group(RangeAssignor, names="abc", session_timeout_ms=session_timeout)
    generation = group.generation
    gone = group.members[1]
    had = set(gone.owned)
    gone.crash()
    group.sim.advance(20.0)
    again = group.sim.add(instance_id="b", session_timeout_ms=session_timeout)
    group.sim.advance(60.0)
    group.sim.assert_settled()
    assert (group.generation > generation) is noticed
    if not noticed:
        assert again.owned == had


@pytest.mark.parametrize("what", ["join", "leave", "death", "more partitions"])
def test_every_change_of_the_group_or_the_topic_causes_a_new_assignment(what: str) -> None:
    group = Group(RangeAssignor, members=3)
    generation = group.generation
    if what == "join":
        group.sim.add()
    elif what == "leave":
        group.members[1].close()
    elif what == "death":
        group.members[1].crash()
    else:
        group.sim.grow(20)
    group.watch(40.0)
    group.sim.assert_settled()
    assert group.generation == generation + 1
    assert sum(len(member.owned) for member in group.members) == (20 if what == "more partitions" else 12)
    assert max(len(m.owned) for m in group.members) - min(len(m.owned) for m in group.members) <= 1


# Worked example A: c1 owns P1 P2 P3, c2 owns P4 P5 P6, and c3 joins


class ExampleA:
    """The example from beginning to end. ``moments``: the partitions of c1, c2 and c3 at each change."""

    def __init__(self) -> None:
        self.group = group = Group(CooperativeStickyAssignor, partitions=6, one_by_one=True)
        self.c1, self.c2 = group.members
        self.before = [owned_by(self.c1), owned_by(self.c2)]
        self.generation = group.generation
        self.c3 = group.sim.add()
        self.moments: list[list[str]] = []
        group.watch(20.0, self.look)
        group.sim.assert_settled()
        self.first, self.second = (self.named(one) for one in group.rounds)

    def look(self) -> None:
        now = [owned_by(self.c1), owned_by(self.c2), owned_by(self.c3)]
        if not self.moments or now != self.moments[-1]:
            self.moments.append(now)

    def named(self, one: Round) -> tuple[list[str], list[str]]:
        """Return the owned and the assigned partitions of c1, c2 and c3 in a round."""
        ids = [member.core.generation.member_id for member in (self.c1, self.c2, self.c3)]
        return [shown(one.owned[m]) for m in ids], [shown(one.given[m]) for m in ids]

    def reasons(self, member: ScriptedMember) -> list[str | None]:
        """The reason of each join of a member."""
        return [reason for name, reason in self.group.joins if name == member.name]


def shown(partitions: Collection[TopicPartition]) -> str:
    """Partitions by their numbers in the example."""
    return " ".join(f"P{tp.partition + 1}" for tp in sorted(partitions))


def owned_by(member: ScriptedMember) -> str:
    return shown(member.owned)


REBALANCING = "group is already rebalancing"
LOSES = "need to revoke partitions and re-join"


def test_example_a_round_1() -> None:
    run = ExampleA()
    assert run.before == ["P1 P2 P3", "P4 P5 P6"]
    assert [run.reasons(member)[0] for member in (run.c1, run.c2)] == [REBALANCING, REBALANCING], "by their heartbeats"
    owned, given = run.first
    assert owned == ["P1 P2 P3", "P4 P5 P6", ""]
    assert run.c1.core.is_leader
    assert given == ["P1 P2", "P4 P5", ""]
    assert run.moments[0] == owned, "all six are consumed until an assignment takes one away"
    assert ["P1 P2", "P4 P5", ""] in run.moments


def test_example_a_round_2() -> None:
    run = ExampleA()
    assert run.moments[-1] == ["P1 P2", "P4 P5", "P3 P6"]
    assert [run.reasons(member) for member in (run.c1, run.c2)] == [[REBALANCING, LOSES], [REBALANCING, LOSES]]
    assert run.reasons(run.c3)[-1] == REBALANCING, "it lost nothing, and takes part because the heartbeat asked it to"
    owned, given = run.second
    assert owned == ["P1 P2", "P4 P5", ""]
    assert given == ["P1 P2", "P4 P5", "P3 P6"]
    assert run.c1.core.is_leader
    assert run.group.generation == run.generation + 2, "two generations, and nothing more to revoke"
    assert len(run.group.rounds) == 2
