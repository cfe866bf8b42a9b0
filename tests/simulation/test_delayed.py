"""The list's examples of cooperative and delayed rebalancing, with real coordinators: messages, decisions and owners.

Example A ends where example B begins, so one group plays both. P1 of the list is partition 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from pyconsumer.assignors import Assignment, Assignor, ClusterView, CooperativeStickyAssignor, Subscription
from pyconsumer.assignors.delayed_data import decode
from pyconsumer.protocol.messages.heartbeat import HeartbeatResponse
from pyconsumer.protocol.messages.join_group import JoinGroupRequest
from pyconsumer.structs import TopicPartition
from tests.simulation.member import Member
from tests.simulation.network import Connection, Exchange, SimulatedClient
from tests.simulation.rules import SESSION_TIMEOUT
from tests.simulation.waiting import WatchedAssignor
from tests.simulation.world import World

DELAY = 60.0
REBALANCE_IN_PROGRESS = 27


def names(partitions: Iterable[TopicPartition]) -> str:
    return " ".join(f"P{tp.partition + 1}" for tp in sorted(partitions))


class Round(NamedTuple):
    """A leader's decision."""

    at: float
    leader: str
    owned: dict[str, str]
    given: dict[str, str]
    delays: set[float]


class Recording(WatchedAssignor):
    """Notes the decisions of its member as leader. ``plain``: as the cooperative sticky assignor would."""

    def __init__(self, group: Group) -> None:
        super().__init__(group.world)
        self._group = group
        self._plain = CooperativeStickyAssignor() if group.plain else None

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        if self._plain is not None:
            given = self._plain.assign(cluster, subscriptions)
        else:
            given = super().assign(cluster, subscriptions)
        self._group.note_round(self, subscriptions, given)
        return given


class Group:
    """Members without faults, looked at closely."""

    def __init__(self, *, plain: bool = False, delay: float = DELAY, partitions: int = 6) -> None:
        self.world = World("delayed", 1)
        self.world.slowest = 0.003
        self.world.rebalance_delay = delay
        self.world.static = self.world.mixed = False
        self.world.partitions = {TopicPartition("t", number) for number in range(partitions)}
        self.world._assignor = self._make
        self.plain = plain
        self.members: dict[str, Member] = {}
        self.rounds: list[Round] = []
        self.joins: list[tuple[float, str]] = []
        self.told: list[tuple[float, str]] = []
        self._assignors: list[Assignor] = []

    def _make(self) -> Assignor:
        self._assignors.append(Recording(self))
        return self._assignors[-1]

    def add(self, instance_id: str | None = None) -> Member:
        self.world.join(instance_id)
        member = self.world.members[-1]
        self.members[member.name] = member
        return member

    def run(self, seconds: float) -> None:
        self.world.run(self.world.clock.now() + seconds)

    def settle(self, within: float = 30.0) -> None:
        """Until everybody is stable and reads, and everything has an owner or waits for one."""
        self.run(0.5)
        world = self.world
        end = world.clock.now() + within
        while any(m.core.rejoin_pending or not m.subscriptions.has_all_fetch_positions for m in world.members):
            assert world.clock.now() < end
            self.run(0.1)
        assert world.failure is None, world.failure

    def name_of(self, member_id: str) -> str:
        """The broker makes member ids of the client's id and a number."""
        return member_id.partition("-")[0]

    def note_round(
        self, assignor: Assignor, subscriptions: Mapping[str, Subscription], given: Mapping[str, Assignment]
    ) -> None:
        leader = next(
            m for m in self.world.members if m.coordinator._protocol.steps._assignors.get(assignor.name) is assignor
        )
        shares = [share for assignment in given.values() for share in decode(assignment.user_data).shares]
        waiting = {
            id(a): {s.left_ms / 1000 for s in decode(a.user_data).shares if s.left_ms >= 0} for a in given.values()
        }
        everybody = {delay for delays in waiting.values() for delay in delays}
        assert all(delays == everybody for delays in waiting.values()), "everybody is told of every delay"
        assert shares or self.plain
        self.rounds.append(
            Round(
                self.world.clock.now(),
                leader.name,
                {self.name_of(m): names(s.owned_partitions) for m, s in subscriptions.items()},
                {self.name_of(m): names(a.partitions) for m, a in given.items()},
                everybody,
            )
        )

    @property
    def owned(self) -> dict[str, str]:
        return {member.name: names(member.owned) for member in self.world.members}


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """JoinGroup as it is sent, and Heartbeat answers that announce a rebalance. With the member's name."""
    events: list[tuple[str, str]] = []
    send, finish = Connection.send, SimulatedClient.finish

    def sending(self: Connection, exchange: Exchange, timeout: float) -> None:
        if isinstance(exchange.request, JoinGroupRequest) and exchange.request.member_id:
            events.append((self.client.name.partition("/")[0], "JoinGroup"))
        send(self, exchange, timeout)

    def finishing(self: SimulatedClient, exchange: Exchange, outcome: Any) -> None:
        if isinstance(outcome, HeartbeatResponse) and outcome.error_code == REBALANCE_IN_PROGRESS:
            events.append((self.name.partition("/")[0], "told"))
        finish(self, exchange, outcome)

    monkeypatch.setattr(Connection, "send", sending)
    monkeypatch.setattr(SimulatedClient, "finish", finishing)
    return events


@contextmanager
def undisturbed(group: Group, **kept: str) -> Iterator[None]:
    """Members read these partitions without a break."""
    world = group.world
    on = [True]
    generation = dict.fromkeys(kept, 0)

    def look() -> None:
        for name, text in kept.items():
            member = group.members[name]
            wanted = {TopicPartition("t", int(word[1:]) - 1) for word in text.split()}
            if not wanted <= member.owned or not all(member.subscriptions.state(tp).is_fetchable for tp in wanted):
                world.fail(f"{name} cannot read {text} at the moment: it has {names(member.owned)}")
            generation[name] = member.core.generation.generation_id
        if on[0]:
            world.after(0.05, look)

    look()
    yield
    on[0] = False
    assert world.failure is None, world.failure


def example_a(group: Group) -> None:
    """To where c3 has joined."""
    group.add()
    group.settle()
    group.add()
    group.settle()
    assert group.owned == {"c1": "P1 P2 P3", "c2": "P4 P5 P6"}
    group.rounds.clear()
    with undisturbed(group, c1="P1 P2", c2="P4 P5"):
        group.add()
        group.settle()


@pytest.mark.parametrize("plain", [True, False], ids=["cooperative-sticky", "cooperative-sticky-delayed"])
def test_example_a_first_round(plain: bool, watched: list[tuple[str, str]]) -> None:
    group = Group(plain=plain)
    group.add()
    group.settle()
    group.add()
    group.settle()
    watched.clear()
    group.rounds.clear()
    everything = {"c1": "P1 P2 P3", "c2": "P4 P5 P6"}
    assert group.owned == everything
    with undisturbed(group, **everything):
        group.add()
        while not group.rounds:
            group.run(0.001)
    first = group.rounds[0]
    assert first.leader == "c1"
    assert first.owned == {"c1": "P1 P2 P3", "c2": "P4 P5 P6", "c3": ""}
    assert first.given == {"c1": "P1 P2", "c2": "P4 P5", "c3": ""}
    assert watched.index(("c3", "JoinGroup")) < watched.index(("c1", "told")) < watched.index(("c1", "JoinGroup"))
    assert watched.index(("c3", "JoinGroup")) < watched.index(("c2", "told")) < watched.index(("c2", "JoinGroup"))


@pytest.mark.parametrize("plain", [True, False], ids=["cooperative-sticky", "cooperative-sticky-delayed"])
def test_example_a_second_round(plain: bool, watched: list[tuple[str, str]]) -> None:
    group = Group(plain=plain)
    group.world.longest_work = 0.02  # nobody is at work while the others have revoked and joined again already
    example_a(group)
    generation = group.members["c3"].core.generation.generation_id
    group.run(30.0)
    assert len(group.rounds) == 2, "exactly two"
    second = group.rounds[1]
    assert second.leader == "c1"
    assert second.owned == {"c1": "P1 P2", "c2": "P4 P5", "c3": ""}, "c1 dropped P3, c2 P6, before they joined again"
    assert second.given == {"c1": "P1 P2", "c2": "P4 P5", "c3": "P3 P6"}
    assert second.delays == set()
    assert group.owned == {"c1": "P1 P2", "c2": "P4 P5", "c3": "P3 P6"}
    assert generation == group.members["c3"].core.generation.generation_id, "and no more"
    callbacks = [text for _, who, text in group.world.trace if who in group.members and "[" in text]
    assert f"revoked [2] in generation {generation - 1}" in callbacks
    assert f"revoked [5] in generation {generation - 1}" in callbacks
    assert [name for name, what in watched[-6:] if what == "JoinGroup"].count("c3") == 1, "c3 joins once, as told"


def test_example_b_a_member_is_lost(watched: list[tuple[str, str]]) -> None:
    group = Group()
    example_a(group)
    watched.clear()
    group.rounds.clear()
    with undisturbed(group, c1="P1 P2", c3="P3 P6"):
        lost_at = group.world.clock.now()
        group.members["c2"].crash()
        group.run(SESSION_TIMEOUT + 5.0)
        group.settle()
    [first] = group.rounds
    assert SESSION_TIMEOUT - 3.1 < first.at - lost_at < SESSION_TIMEOUT + 5.0
    assert first.leader == "c1"
    assert first.owned == first.given == {"c1": "P1 P2", "c3": "P3 P6"}
    assert first.delays == {DELAY}, "the full delay"
    assert watched[0] in (("c1", "told"), ("c3", "told"))
    assert watched.index(("c1", "told")) < watched.index(("c1", "JoinGroup"))
    assert watched.index(("c3", "told")) < watched.index(("c3", "JoinGroup"))


def test_example_b_it_comes_back_and_still_has_to_wait(watched: list[tuple[str, str]]) -> None:
    group = Group()
    example_a(group)
    with undisturbed(group, c1="P1 P2", c3="P3 P6"):
        group.members["c2"].crash()
        group.run(SESSION_TIMEOUT + 15.0)
        watched.clear()
        group.rounds.clear()
        group.add()  # c2 again; here it is called c4
        group.settle()
    [second] = group.rounds
    assert second.leader == "c1"
    assert second.owned == second.given == {"c1": "P1 P2", "c4": "", "c3": "P3 P6"}
    [left] = second.delays
    assert DELAY - 20.0 < left < DELAY - 5.0, "the remaining delay"
    assert watched.index(("c4", "JoinGroup")) < watched.index(("c1", "told")) < watched.index(("c1", "JoinGroup"))
    assert watched.index(("c4", "JoinGroup")) < watched.index(("c3", "told")) < watched.index(("c3", "JoinGroup"))


def test_example_b_the_delay_is_over(watched: list[tuple[str, str]]) -> None:
    group = Group()
    example_a(group)
    with undisturbed(group, c1="P1 P2", c3="P3 P6"):
        group.members["c2"].crash()
        group.run(SESSION_TIMEOUT + 15.0)
        group.add()
        group.settle()
        due = group.rounds[-2].at + DELAY
        while group.world.clock.now() < due - 0.5:
            group.run(0.5)
            assert group.owned == {"c1": "P1 P2", "c3": "P3 P6", "c4": ""}, "nobody has P4 and P5"
        watched.clear()
        group.rounds.clear()
        group.run(5.0)
        group.settle()
    [third] = group.rounds
    assert third.at >= due
    assert third.leader == "c1"
    assert third.owned == {"c1": "P1 P2", "c3": "P3 P6", "c4": ""}
    assert third.given == group.owned == {"c1": "P1 P2", "c3": "P3 P6", "c4": "P4 P5"}
    assert third.delays == set()
    assert {name for name, what in watched if what == "JoinGroup"} == {"c1", "c3", "c4"}
    before_told = watched[: watched.index(next((e for e in watched if e[1] == "told"), watched[-1]))]
    assert [e for e in before_told if e[1] == "JoinGroup"], "by themselves, not because they were told"


def test_all_members_join_by_themselves_when_the_delay_is_over(watched: list[tuple[str, str]]) -> None:
    group = Group()
    example_a(group)
    group.members["c2"].crash()
    group.run(SESSION_TIMEOUT + 5.0)
    group.settle()
    watched.clear()
    due = min(assignor.rebalance_due_in() for assignor in group._assignors[::2])
    group.run(due + 2.5)  # each at its next poll
    joined = [name for name, what in watched if what == "JoinGroup"]
    assert sorted(joined) == ["c1", "c3"]
    assert watched[0][1] == "JoinGroup", "nobody had to be told before"


def test_the_leader_is_lost_during_the_delay_and_the_next_one_goes_on() -> None:
    group = Group()
    example_a(group)
    group.members["c2"].crash()
    group.run(SESSION_TIMEOUT + 5.0)
    group.settle()
    due = group.rounds[-1].at + DELAY
    group.run(10.0)
    group.members["c1"].crash()
    group.run(SESSION_TIMEOUT + 5.0)
    group.settle()
    last = group.rounds[-1]
    assert last.leader == "c3"
    assert last.given == {"c3": "P3 P6"}
    assert len(last.delays) == 2
    assert max(last.delays) == DELAY
    assert 0.0 <= last.at + min(last.delays) - due < 2.0, "it counts from the moment when members were told"
    group.world.run(due + 3.0)
    group.settle()
    assert group.owned == {"c3": "P3 P4 P5 P6"}
    group.world.run(last.at + DELAY + 3.0)
    group.settle()
    assert group.owned == {"c3": "P1 P2 P3 P4 P5 P6"}


def test_a_member_that_closes_says_so_and_nothing_waits() -> None:
    group = Group()
    example_a(group)
    for closing in ("c2", "c1"):  # a follower, then the leader
        group.rounds.clear()
        member = group.members[closing]
        member.patience = 9.0
        member.close()
        group.run(10.0)
        group.settle()
        assert member.ended
        assert group.rounds[0].given[closing] == ""
        assert all(one.delays == set() for one in group.rounds)
        assert sorted(" ".join(group.owned.values()).split()) == ["P1", "P2", "P3", "P4", "P5", "P6"]


@pytest.mark.parametrize("later", [0.0, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0])
def test_a_leader_that_closes_while_the_group_rebalances_is_not_waited_for(later: float) -> None:
    """The others have its last assignment before its LeaveGroup makes the coordinator refuse to hand it out."""
    group = Group()
    group.world.slowest = 0.3
    example_a(group)
    for closing, pause in (("c2", later), ("c1", 15.0)):
        member = group.members[closing]
        member.patience = 9.0
        member.close()
        while not member.ended:
            group.run(0.05)
        group.run(pause)
    group.settle()
    assert group.owned == {"c3": "P1 P2 P3 P4 P5 P6"}


def test_a_member_that_closes_to_come_back_is_waited_for() -> None:
    group = Group()
    example_a(group)
    group.members["c2"].close(leave_group=False)
    group.run(SESSION_TIMEOUT + 10.0)
    group.settle()
    assert group.rounds[-1].delays == {DELAY}
    assert group.owned == {"c1": "P1 P2", "c3": "P3 P6"}


def test_a_static_member_that_comes_back_too_late_for_its_session_gets_its_own_at_once() -> None:
    group = Group()
    for number in (1, 2, 3):
        group.add(f"i{number}")
        group.settle()
    before = group.owned
    group.members["c2"].crash()
    group.run(SESSION_TIMEOUT + 5.0)
    group.settle()
    assert group.rounds[-1].delays == {DELAY}
    group.add("i2")
    group.settle()
    assert group.owned == {"c1": before["c1"], "c3": before["c3"], "c4": before["c2"]}
    assert group.rounds[-1].delays == set()
