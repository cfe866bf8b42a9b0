"""The delayed assignor: which partitions wait, how long, and the memory of the next leader. No network."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping

import pytest

from pyconsumer.assignors import (
    Assignment,
    CooperativeStickyAssignor,
    CooperativeStickyDelayedAssignor,
    RebalanceProtocol,
    Subscription,
    resolve,
)
from pyconsumer.assignors.delayed import WITNESSES
from pyconsumer.assignors.delayed_data import Memory, Share, decode, encode
from pyconsumer.clock import ManualClock
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.structs import ConsumerGroupMetadata, TopicPartition
from tests.unit.assignors.cluster import FakeCluster, parse

DELAY = 300.0


class Member:
    """A member: its assignor and its owned partitions."""

    def __init__(self, group: Group, member_id: str, instance_id: str | None, delay_ms: int | None) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.assignor = CooperativeStickyDelayedAssignor()
        options = {"bootstrap_servers": "h:1", "group_id": "g", "rebalance_delay_ms": delay_ms}
        self.assignor.configure(CONSUMER_SETTINGS.build(options), group.clock)
        self.owned: set[TopicPartition] = set()
        self.generation = -1

    def take(self, assignment: Assignment, generation: int) -> None:
        self.owned = set(assignment.partitions)
        self.generation = generation
        identity = ConsumerGroupMetadata("g", generation, self.member_id, self.instance_id)
        self.assignor.on_assignment(assignment, identity)


class Group:
    """Members that rebalance on request. Partitions of the one topic are written as in the list: P1 is number 0."""

    def __init__(self, partitions: int = 6, *, eager: bool = False, delay_ms: int | None = None) -> None:
        self.clock = ManualClock(1000.0)
        self.partitions = partitions
        self.members: dict[str, Member] = {}
        self.generation = 0
        self.revoked: dict[str, str] = {}
        self.given: Mapping[str, Assignment] = {}
        self._eager = eager
        self._delay_ms = delay_ms

    def add(self, *members: str, instance_id: str | None = None) -> None:
        for member_id in members:
            self.members[member_id] = Member(self, member_id, instance_id, self._delay_ms)

    def remove(self, *members: str) -> None:
        for member_id in members:
            del self.members[member_id]

    def rebalance(self, leader: str | None = None, *, silent: Iterable[str] = ()) -> dict[str, str]:
        """Run a round: join, assign, adopt. Members in ``silent`` miss the result. Return the partitions of all."""
        if self._eager:
            for member in self.members.values():
                member.owned.clear()
        subscriptions = {m: self.subscription(member) for m, member in self.members.items()}
        leading = self.members[leader or min(self.members)]
        given = leading.assignor.assign(FakeCluster({"t": self.partitions}), subscriptions)
        assert given.keys() == subscriptions.keys()
        dealt = [tp for assignment in given.values() for tp in assignment.partitions]
        assert len(dealt) == len(set(dealt)), "nobody shares a partition"
        self.generation += 1
        self.revoked = {}
        self.given = given
        for member_id, assignment in given.items():
            member = self.members[member_id]
            taken_by_others = {tp for m, a in given.items() if m != member_id for tp in a.partitions}
            assert not member.owned & taken_by_others, "nothing goes straight from one to another"
            if member_id not in silent:
                gone = member.owned - set(assignment.partitions)
                if gone:
                    self.revoked[member_id] = names(gone)
                member.take(assignment, self.generation)
        return self.owned

    def subscription(self, member: Member) -> Subscription:
        data = member.assignor.subscription_user_data(frozenset({"t"}))
        owned = tuple(sorted(member.owned))
        return Subscription(("t",), data, owned, member.generation, group_instance_id=member.instance_id)

    @property
    def owned(self) -> dict[str, str]:
        return {m: names(member.owned) for m, member in sorted(self.members.items())}

    @property
    def due_in(self) -> set[float]:
        """Return the members' waiting times in seconds."""
        return {round(member.assignor.rebalance_due_in(), 3) for member in self.members.values()}

    def start(self, **shares: str) -> None:
        """A group whose partitions are assigned as given: c1="P1 P2"."""
        self.add(*shares)
        for member_id, text in shares.items():
            self.members[member_id].owned = {TopicPartition("t", int(word[1:]) - 1) for word in text.split()}
        self.rebalance()
        assert self.owned == shares, "the example's beginning is balanced"


def names(partitions: Iterable[TopicPartition]) -> str:
    return " ".join(f"P{tp.partition + 1}" for tp in sorted(partitions))


def example_b(delay_ms: int | None = None) -> Group:
    group = Group(delay_ms=delay_ms)
    group.start(c1="P1 P2", c2="P4 P5", c3="P3 P6")
    return group


# -- the list's examples -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delayed", [True, False])
def test_example_a_a_third_member_joins(delayed: bool) -> None:
    group = Group()
    group.start(c1="P1 P2 P3", c2="P4 P5 P6")
    group.add("c3")
    if not delayed:
        for member in group.members.values():
            member.assignor = CooperativeStickyAssignor()  # type: ignore[assignment]
    assert group.rebalance("c1") == {"c1": "P1 P2", "c2": "P4 P5", "c3": ""}
    assert group.revoked == {"c1": "P3", "c2": "P6"}
    assert group.rebalance("c1") == {"c1": "P1 P2", "c2": "P4 P5", "c3": "P3 P6"}
    assert group.revoked == {}
    if delayed:
        assert group.due_in == {math.inf}, "what is withheld does not wait"


def test_example_b_a_member_bounces() -> None:
    group = example_b()
    assert group.due_in == {math.inf}
    group.remove("c2")
    assert group.rebalance("c1") == {"c1": "P1 P2", "c3": "P3 P6"}
    assert group.revoked == {}
    assert group.due_in == {DELAY}, "the full delay, for each"
    group.clock.advance(100.0)
    group.add("c2'")  # a new process, which the coordinator gives a new member id
    assert group.rebalance("c1") == {"c1": "P1 P2", "c2'": "", "c3": "P3 P6"}
    assert group.revoked == {}
    assert group.due_in == {DELAY - 100.0}, "the remaining delay, for each"
    group.clock.advance(200.0)
    assert group.due_in == {0.0}
    assert group.rebalance("c1") == {"c1": "P1 P2", "c2'": "P4 P5", "c3": "P3 P6"}
    assert group.revoked == {}
    assert group.due_in == {math.inf}, "no delay any more"


# -- when it is over ---------------------------------------------------------------------------------------------------


def test_partitions_of_a_lost_member_are_shared_after_the_delay() -> None:
    group = example_b()
    group.remove("c2")
    group.rebalance("c1")
    group.clock.advance(DELAY)
    assert group.rebalance("c1") == {"c1": "P1 P2 P4", "c3": "P3 P5 P6"}
    assert group.due_in == {math.inf}


def test_the_group_is_evened_out_after_the_delay_and_not_before() -> None:
    group = Group(8)
    group.start(c1="P1 P2 P3 P4", c2="P5 P6 P7 P8")
    group.remove("c2")
    group.rebalance()
    group.add("c3", "c4")
    assert group.rebalance() == {"c1": "P1 P2 P3 P4", "c3": "", "c4": ""}
    group.clock.advance(DELAY)
    assert group.rebalance() == {"c1": "P1 P2 P3", "c3": "P5 P6 P7", "c4": "P8"}
    assert group.revoked == {"c1": "P4"}
    assert group.rebalance() == {"c1": "P1 P2 P3", "c3": "P5 P6 P7", "c4": "P4 P8"}


def test_two_members_that_come_back_get_the_whole_shares_of_the_lost_ones() -> None:
    group = Group(8)
    group.start(c1="P1 P5", c2="P2 P6", c3="P3 P7", c4="P4 P8")
    group.remove("c2", "c3")
    group.rebalance()
    group.add("d1", "d2")
    group.rebalance()
    group.clock.advance(DELAY)
    assert group.rebalance() == {"c1": "P1 P5", "c4": "P4 P8", "d1": "P2 P6", "d2": "P3 P7"}


def test_each_of_two_lost_members_has_its_own_deadline() -> None:
    group = Group(6)
    group.start(c1="P1 P4", c2="P2 P5", c3="P3 P6")
    group.remove("c2")
    group.rebalance()
    group.clock.advance(200.0)
    group.remove("c3")
    group.rebalance()
    assert group.due_in == {100.0}
    group.clock.advance(100.0)
    assert group.rebalance() == {"c1": "P1 P2 P4 P5"}
    assert group.due_in == {200.0}
    group.clock.advance(200.0)
    assert group.rebalance() == {"c1": "P1 P2 P3 P4 P5 P6"}


def test_the_first_clock_that_runs_out_decides() -> None:
    group = example_b()
    group.remove("c2")
    group.rebalance()
    late = group.members["c3"].assignor
    late._since += 50.0  # its answer was long on the way
    group.clock.advance(DELAY)
    assert late.rebalance_due_in() == 50.0
    assert group.rebalance("c3") == {"c1": "P1 P2 P4", "c3": "P3 P5 P6"}


# -- what does not wait ------------------------------------------------------------------------------------------------


def test_a_withheld_partition_is_not_delayed_when_another_member_leaves() -> None:
    group = Group()
    group.start(c1="P1 P2 P3", c2="P4 P5 P6")
    group.add("c3")
    group.rebalance("c1")  # P3 and P6 are given up, nobody has them
    group.remove("c2")
    assert group.rebalance("c1") == {"c1": "P1 P2", "c3": "P3 P6"}
    assert group.due_in == {DELAY}, "P4 and P5 wait"


def test_new_partitions_do_not_wait() -> None:
    group = example_b()
    group.remove("c2")
    group.rebalance()
    group.partitions = 8
    assert group.rebalance() == {"c1": "P1 P2 P7", "c3": "P3 P6 P8"}
    assert group.due_in == {DELAY}


def test_a_member_that_leaves_announces_it_and_its_partitions_are_not_delayed() -> None:
    group = example_b()
    leaver = group.members["c2"]
    assert leaver.assignor.announce_leaving(True)
    leaver.owned.clear()
    assert group.rebalance("c1") == {"c1": "P1 P2 P4", "c2": "", "c3": "P3 P5 P6"}
    assert not leaver.assignor.announce_leaving(False)
    group.remove("c2")
    assert group.rebalance("c1") == {"c1": "P1 P2 P4", "c3": "P3 P5 P6"}
    assert group.due_in == {math.inf}


def test_an_announced_leave_is_remembered_until_the_leader_gets_an_assignment() -> None:
    """LeaveGroup comes before a member has the assignment of that round, whose SyncGroup is rejected then."""
    group = example_b()
    leaver = group.members["c2"]
    leaver.assignor.announce_leaving(True)
    leaver.owned.clear()
    group.rebalance("c1", silent=["c1", "c2", "c3"])
    group.remove("c2")
    assert decode(group.subscription(group.members["c1"]).user_data).left == ("c2",)
    assert group.rebalance("c3") == {"c1": "P1 P2 P4", "c3": "P3 P5 P6"}
    assert decode(group.subscription(group.members["c1"]).user_data).left == ()


def test_a_leader_that_leaves_assigns_its_own_partitions_and_the_last_member_can_leave_too() -> None:
    group = example_b()
    for leaver, left in (("c1", {"c2": "P1 P4 P5", "c3": "P2 P3 P6"}), ("c2", {"c3": "P1 P2 P3 P4 P5 P6"}), ("c3", {})):
        member = group.members[leaver]
        member.owned.clear()
        assert member.assignor.announce_leaving(True)
        assert group.rebalance(leaver) == {leaver: "", **left}
        group.remove(leaver)


def test_a_member_without_partitions_or_delay_does_not_announce_that_it_leaves() -> None:
    group = Group(1)
    group.add("c1", "c2")
    group.rebalance()
    assert group.members["c1"].assignor.announce_leaving(True)
    assert not group.members["c2"].assignor.announce_leaving(True)
    off = Group(delay_ms=0)
    off.add("c1")
    off.rebalance()
    assert not off.members["c1"].assignor.announce_leaving(True)


def test_the_delay_is_five_minutes_unless_set_and_none_with_zero() -> None:
    for delay_ms, left in ((None, 300.0), (20_000, 20.0)):
        group = example_b(delay_ms)
        group.remove("c2")
        group.rebalance()
        assert group.due_in == {left}
    group = example_b(delay_ms=0)
    group.remove("c2")
    assert group.rebalance() == {"c1": "P1 P2 P4", "c3": "P3 P5 P6"}
    assert group.due_in == {math.inf}
    settings = CONSUMER_SETTINGS.build({"bootstrap_servers": "h:1", "scheduled.rebalance.max.delay.ms": 5})
    assert settings.rebalance_delay_ms == 5
    given = CooperativeStickyDelayedAssignor(7000)
    given.configure(settings, ManualClock())
    assert given._delay_ms == 7000, "what the object was made with counts"
    with pytest.raises(ValueError, match="negative"):
        CooperativeStickyDelayedAssignor(-1)


# -- who knows ---------------------------------------------------------------------------------------------------------


def test_a_new_leader_knows_delayed_partitions_and_delays_those_of_the_old_leader_too() -> None:
    group = example_b()
    group.remove("c2")
    group.rebalance("c1")
    group.clock.advance(100.0)
    group.remove("c1")
    assert group.rebalance("c3") == {"c3": "P3 P6"}
    assert group.due_in == {200.0}
    group.clock.advance(200.0)
    assert group.rebalance("c3") == {"c3": "P3 P4 P5 P6"}
    assert group.due_in == {100.0}
    group.clock.advance(100.0)
    assert group.rebalance("c3") == {"c3": "P1 P2 P3 P4 P5 P6"}


def test_a_new_leader_without_memory_learns_it_from_the_others() -> None:
    group = example_b()
    group.remove("c2")
    group.add("a")
    assert group.rebalance("a") == {"a": "", "c1": "P1 P2", "c3": "P3 P6"}
    assert group.due_in == {DELAY}


def test_a_round_that_reached_no_member_has_no_effect() -> None:
    group = example_b()
    group.remove("c2")
    group.rebalance("c1", silent=["c1", "c3"])
    assert group.rebalance("c1") == {"c1": "P1 P2", "c3": "P3 P6"}
    assert group.due_in == {DELAY}
    group.clock.advance(100.0)
    group.rebalance("c1", silent=["c1"])
    assert group.rebalance("c1") == {"c1": "P1 P2", "c3": "P3 P6"}
    assert group.due_in == {200.0}


def test_the_memory_of_a_group_survives_in_one_witness() -> None:
    size = 20
    group = Group(size)
    ids = [f"c{number:02d}" for number in range(size)]
    group.add(*ids)
    group.rebalance()
    group.remove(*ids[5 : 5 + WITNESSES])
    owned = group.rebalance()
    assert "" not in owned.values()
    assert group.due_in == {DELAY}
    assert sum(len(text.split()) for text in owned.values()) == size - WITNESSES
    assert len(group.subscription(group.members["c00"]).user_data or b"") < 500, "not everybody remembers everybody"


def test_without_a_member_that_remembers_all_is_assigned_at_once() -> None:
    group = example_b()
    group.remove("c1", "c2", "c3")
    group.add("d1", "d2")
    assert group.rebalance() == {"d1": "P1 P3 P5", "d2": "P2 P4 P6"}
    assert group.due_in == {math.inf}


def test_the_memory_is_cleared_after_another_assignor_was_chosen() -> None:
    group = example_b()
    for member in group.members.values():
        member.assignor.on_voted_out()
        assert decode(member.assignor.subscription_user_data(frozenset())) == Memory()
    group.remove("c2")
    assert group.rebalance() == {"c1": "P1 P2 P4", "c3": "P3 P5 P6"}


def test_a_static_member_gets_its_own_partitions_at_once_when_it_returns() -> None:
    group = Group()
    group.add("c1", "c3")
    group.add("c2", instance_id="i2")
    group.rebalance()
    before = group.owned
    group.remove("c2")
    group.rebalance()
    assert group.due_in == {DELAY}
    group.add("d9", instance_id="i2")
    assert group.rebalance() == {"c1": before["c1"], "c3": before["c3"], "d9": before["c2"]}
    assert group.due_in == {math.inf}


def test_a_static_member_replaced_before_its_revocation_owes_a_rebalance() -> None:
    """The old process had to give up P3. The new one gets its response, owns no partition, and would not join again."""
    group = Group()
    group.add("c1", instance_id="i1")
    group.rebalance()
    group.add("c2")
    group.rebalance(silent=["c1"])
    given = group.given["c1"]
    assert names(given.partitions) == "P1 P2 P3"
    group.add("c1", instance_id="i1")  # a new process; the coordinator answers with the assignment of the old one
    fresh = group.members["c1"]
    assert fresh.assignor.rebalance_due_in() == math.inf
    fresh.take(given, group.generation)
    assert fresh.assignor.rebalance_due_in() == 0.0
    assert group.rebalance("c2") == {"c1": "P1 P2 P3", "c2": "P4 P5 P6"}
    assert group.due_in == {math.inf}


def test_a_member_that_lost_its_generation_but_is_there_gets_its_own_back_at_once() -> None:
    group = example_b()
    group.members["c2"].owned.clear()
    assert group.rebalance("c1") == {"c1": "P1 P2", "c2": "P4 P5", "c3": "P3 P6"}


def test_under_eager_rebalancing_members_keep_their_partitions_and_wait_too() -> None:
    group = Group(eager=True)
    group.add("c1", "c2", "c3")
    before = group.rebalance()
    group.remove("c2")
    assert group.rebalance() == {"c1": before["c1"], "c3": before["c3"]}
    assert group.due_in == {DELAY}
    group.clock.advance(DELAY)
    assert sorted(" ".join(group.rebalance().values()).split()) == ["P1", "P2", "P3", "P4", "P5", "P6"]


# -- bytes and names ---------------------------------------------------------------------------------------------------


def test_user_data_is_decoded_as_encoded_and_invalid_data_is_an_empty_memory() -> None:
    shares = (
        Share("m1", None, tuple(parse("t0p1 t0p2 t1p0"))),
        Share("m2", "i2", (), 0),
        Share("m3", "i3", tuple(parse("t1p7")), 1234),
    )
    memory = Memory(7, shares, ("m8", "m9"), leaves=True)
    assert decode(encode(Memory(owes=True))) == Memory(owes=True)
    assert decode(encode(memory)) == memory
    assert decode(b"\0\1" + encode(memory)[2:] + b"a later version may say more") == memory
    assert encode(memory)[:7] == b"\0\0\0\0\0\7\1"
    assert (
        decode(None) == decode(b"") == decode(b"\0") == decode(b"\xff\xff") == decode(encode(memory)[:20]) == Memory()
    )
    assert shares[2].after(1000) == shares[2]._replace(left_ms=234)
    assert shares[2].after(2000).left_ms == 0
    assert shares[0].after(2000) == shares[0]


def test_the_assignor_is_found_by_its_name() -> None:
    [assignor] = resolve("cooperative-sticky-delayed")
    assert isinstance(assignor, CooperativeStickyDelayedAssignor)
    assert assignor.name == "cooperative-sticky-delayed"
    assert assignor.supported_protocols() == (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)


def test_an_owned_partition_is_never_assigned_to_another_by_user_data() -> None:
    """Faulty or old user data only affects partitions without an owner."""
    draw = random.Random(17)
    for _ in range(300):
        group = Group(8)
        ids = [f"c{number}" for number in range(draw.randint(1, 5))]
        group.add(*ids)
        free = [TopicPartition("t", number) for number in range(8)]
        for member_id in ids:
            mine = {free.pop() for _ in range(draw.randint(0, min(3, len(free))))}
            group.members[member_id].owned = mine
        strangers = [*ids, "x", "y"]
        subscriptions: Mapping[str, Subscription] = {
            member_id: Subscription(
                ("t",),
                encode(
                    Memory(
                        draw.randint(-1, 3),
                        tuple(
                            Share(
                                draw.choice(strangers),
                                None,
                                tuple(TopicPartition("t", draw.randint(0, 9)) for _ in range(draw.randint(0, 4))),
                                draw.choice([-1, 0, 500]),
                            )
                            for _ in range(3)
                        ),
                        leaves=draw.random() < 0.1 and not group.members[member_id].owned,
                    )
                ),
                tuple(group.members[member_id].owned),
                3,
            )
            for member_id in ids
        }
        given = group.members[ids[0]].assignor.assign(FakeCluster({"t": 8}), subscriptions)
        dealt = [tp for assignment in given.values() for tp in assignment.partitions]
        assert len(dealt) == len(set(dealt))
        for member_id, assignment in given.items():
            others = {tp for m in ids if m != member_id for tp in group.members[m].owned}
            assert others.isdisjoint(assignment.partitions)
