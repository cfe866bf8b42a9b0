"""The sticky assignor: worked examples of the lists, its user data, and its promises for random groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyconsumer.assignors import Assignment, RebalanceProtocol, StickyAssignor, Subscription, resolve
from pyconsumer.assignors.balance import Movements
from pyconsumer.structs import ConsumerGroupMetadata, TopicPartition
from tests.unit.assignors.cluster import FakeCluster, parse, show
from tests.unit.assignors.random_groups import Situation, check_even, check_valid, owners, situations

FOUR = "t0 t1 t2 t3"
TWO_EACH = dict.fromkeys(FOUR.split(), 2)
ONE_TWO_THREE = {"t0": 1, "t1": 2, "t2": 3}
EX1 = {"C0": "t0p0 t1p1 t3p0", "C1": "t0p1 t2p0 t3p1", "C2": "t1p0 t2p1"}
EX2 = {"C0": "t0p0 t1p1 t3p0 t2p0", "C2": "t1p0 t2p1 t0p1 t3p1"}
EX3 = {"C0": "t0p0", "C1": "t1p0 t1p1", "C2": "t2p0 t2p1 t2p2"}
EX4 = {"C1": "t1p0 t1p1 t0p0", "C2": "t2p0 t2p1 t2p2"}

EXAMPLES = [
    ("transactions:STK-EX1", dict.fromkeys(("C0", "C1", "C2"), FOUR), TWO_EACH, {}, EX1),
    ("transactions:STK-EX2", dict.fromkeys(("C0", "C2"), FOUR), TWO_EACH, EX1, EX2),
    ("transactions:STK-EX3", {"C0": "t0", "C1": "t0 t1", "C2": "t0 t1 t2"}, ONE_TWO_THREE, {}, EX3),
    ("transactions:STK-EX4", {"C1": "t0 t1", "C2": "t0 t1 t2"}, ONE_TWO_THREE, EX3, EX4),
    (
        "transactions:STK-EX5",
        dict.fromkeys(("C0", "C1", "C2"), FOUR),
        TWO_EACH,
        EX2,
        {"C0": "t1p1 t2p0 t3p0", "C1": "t0p1 t0p0", "C2": "t1p0 t2p1 t3p1"},
    ),
    ("transactions:STK-EX6", dict.fromkeys(("C0", "C1", "C2"), FOUR), TWO_EACH, EX1, EX1),
    (
        "transactions:STK-EX7",
        {"C0": "t0", "C1": "t0"},
        {"t0": 3},
        {"C0": "t0p0", "C1": "t0p1"},
        {"C0": "t0p0 t0p2", "C1": "t0p1"},
    ),
    (
        "transactions:STK-EX8",
        {"C0": "t0", "C1": "t0 t1"},
        {"t0": 2, "t1": 2},
        {"C0": "t0p0 t1p0", "C1": "t0p1 t1p1"},
        {"C0": "t0p0 t0p1", "C1": "t1p1 t1p0"},
    ),
    (
        "transactions:STK-EX9",
        {"C0": "t0", "C1": "t0"},
        {"t0": 1},
        {"C0": "t0p0 t0p1 t0p2", "C1": "t0p3"},
        {"C0": "t0p0", "C1": ""},
    ),
    (
        "transactions:STK-EX10",
        dict.fromkeys(("C0", "C1", "C2"), "t0 t1 t2"),
        ONE_TWO_THREE,
        {},
        {"C0": "t0p0 t2p0", "C1": "t1p0 t2p1", "C2": "t1p1 t2p2"},
    ),
    (
        "transactions:STK-EX11",
        dict.fromkeys(("C0", "C1", "C2"), "t0"),
        {"t0": 2},
        {},
        {"C0": "t0p0", "C1": "t0p1", "C2": ""},
    ),
    (
        "transactions:STK-EX12",
        {"C0": "t0", "C1": "t0"},
        {"t0": 6},
        {"C0": "t0p0 t0p1 t0p2 t0p3 t0p4 t0p5"},
        {"C0": "t0p3 t0p4 t0p5", "C1": "t0p0 t0p1 t0p2"},
    ),
    (
        "transactions:STK-EX13",
        {"C1": "t0 t1", "C2": "t1"},
        {"t0": 1, "t1": 1},
        {"C0": "t0p0", "C1": "t1p0", "C2": ""},
        {"C1": "t0p0", "C2": "t1p0"},
    ),
]


def user_data(partitions: Sequence[TopicPartition], generation: int = 1) -> bytes | None:
    """Return the subscription of a member with these last assigned partitions."""
    assignor = StickyAssignor()
    assignor.on_assignment(Assignment(tuple(partitions)), ConsumerGroupMetadata("g", generation, "m"))
    return assignor.subscription_user_data(frozenset())


def run(members: Mapping[str, str], counts: Mapping[str, int], previous: Mapping[str, str]) -> dict[str, str]:
    subscriptions = {
        member: Subscription(tuple(topics.split()), user_data(parse(previous[member])) if member in previous else None)
        for member, topics in members.items()
    }
    return show(StickyAssignor().assign(FakeCluster(counts), subscriptions))


def again(situation: Situation, before: Mapping[str, Assignment]) -> dict[str, Assignment]:
    """The assignment that follows one with these shares."""
    subscriptions = {
        member: replace(s, user_data=user_data(before[member].partitions) if member in before else None)
        for member, s in situation.subscriptions.items()
    }
    return StickyAssignor().assign(situation.cluster, subscriptions)


@pytest.mark.parametrize(
    ("members", "counts", "previous", "expected"),
    [pytest.param(*example[1:], id=example[0]) for example in EXAMPLES],
)
def test_worked_examples(
    members: dict[str, str], counts: dict[str, int], previous: dict[str, str], expected: dict[str, str]
) -> None:
    assert run(members, counts, previous) == expected


@pytest.mark.parametrize(("before", "after"), [(EX1, EX2), (EX3, EX4)])
def test_survivors_keep_their_five_placements(before: dict[str, str], after: dict[str, str]) -> None:
    kept = [tp for member in after for tp in parse(before[member]) if tp in parse(after[member])]
    assert len(kept) == 5


def test_names_and_protocol() -> None:
    chosen = [*resolve("sticky"), *resolve("org.apache.kafka.clients.consumer.StickyAssignor")]
    assert [type(assignor) for assignor in chosen] == [StickyAssignor] * 2
    assert chosen[0].name == "sticky"
    assert chosen[0].supported_protocols() == (RebalanceProtocol.EAGER,)


def test_user_data_is_the_last_share_by_topic_and_its_generation() -> None:
    assignor = StickyAssignor()
    assert assignor.subscription_user_data(frozenset("t")) is None
    assignor.on_assignment(Assignment(tuple(parse("t3p0 t0p0 t1p1"))), ConsumerGroupMetadata("g", 7, "m"))
    shares = "00000003000274300000000100000000000274310000000100000001000274330000000100000000"
    assert assignor.subscription_user_data(frozenset("t")) == bytes.fromhex(shares + "00000007")
    assignor.on_assignment(Assignment(), ConsumerGroupMetadata("g", 8, "m"))
    assert assignor.subscription_user_data(frozenset("t")) == bytes.fromhex("0000000000000008")


@pytest.mark.parametrize("generation", ["", "00000007"])
def test_user_data_with_and_without_a_generation_is_read(generation: str) -> None:
    """Kafka 2.0 to 2.2 sent none."""
    data = bytes.fromhex("00000001" + "00027430" + "00000002" + "00000001" + "00000003" + generation)
    subscriptions = {"a": Subscription(("t0",)), "b": Subscription(("t0",), data)}
    assert show(StickyAssignor().assign(FakeCluster({"t0": 4}), subscriptions)) == {
        "a": "t0p0 t0p2",
        "b": "t0p1 t0p3",
    }


def test_user_data_that_cannot_be_read_counts_as_an_empty_share() -> None:
    subscriptions = {"a": Subscription(("t",), b"\0\0\0\5rubbish"), "b": Subscription(("t",), b"")}
    assert show(StickyAssignor().assign(FakeCluster({"t": 2}), subscriptions)) == {"a": "tp0", "b": "tp1"}


def test_a_partition_that_two_members_claim_stays_with_one() -> None:
    result = run({"C0": "t0", "C1": "t0"}, {"t0": 2}, {"C0": "t0p0 t0p1", "C1": "t0p0"})
    assert sorted(f"{result['C0']} {result['C1']}".split()) == ["t0p0", "t0p1"]
    assert all(result.values())


@pytest.mark.parametrize(("older", "newer"), [("a", "b"), ("b", "a")])
def test_of_two_claims_the_later_generation_wins(older: str, newer: str) -> None:
    subscriptions = {
        older: Subscription(("t",), user_data(parse("tp0 tp1"), 4)),
        newer: Subscription(("t",), user_data(parse("tp1"), 5)),
    }
    assert show(StickyAssignor().assign(FakeCluster({"t": 2}), subscriptions)) == {older: "tp0", newer: "tp1"}


@pytest.mark.parametrize("previous", [{"C0": "", "C1": "", "C2": ""}, {"C1": ""}, {}])
def test_empty_previous_shares_are_no_reason_to_deal_otherwise(previous: dict[str, str]) -> None:
    assert run(dict.fromkeys(("C0", "C1", "C2"), FOUR), TWO_EACH, previous) == EX1


def test_deleted_and_unsubscribed_partitions_are_forgotten() -> None:
    result = run({"a": "t", "b": "t u"}, {"t": 2, "u": 1}, {"a": "tp0 tp7 up0 gonep0", "b": "tp1"})
    assert result == {"a": "tp0", "b": "tp1 up0"}


def test_unassigned_partitions_go_to_the_subscriber_with_the_fewest() -> None:
    assert run({"C10": "t0 t1", "C2": "t1"}, {"t0": 3, "t1": 3}, {}) == {
        "C10": "t0p0 t0p1 t0p2",
        "C2": "t1p0 t1p1 t1p2",
    }


def test_partitions_without_another_subscriber_stay_and_others_move_only_for_balance() -> None:
    before = {"a": "up0 up1 up2 tp0", "b": "tp1", "c": "vp0 vp1"}
    result = run({"a": "t u", "b": "t", "c": "v"}, {"t": 2, "u": 3, "v": 2}, before)
    assert result == {"a": "up0 up1 up2", "b": "tp1 tp0", "c": "vp0 vp1"}


def test_a_move_back_is_preferred_to_a_swap() -> None:
    movements = Movements()
    p0, p1 = parse("tp0 tp1")
    movements.note(p0, "a", "b")
    assert movements.instead_of(p1, "b", "a") == p0
    assert movements.instead_of(TopicPartition("u", 1), "b", "a") == TopicPartition("u", 1)
    movements.note(p0, "b", "c")  # counts as a move from a to c
    assert movements.instead_of(p1, "b", "a") == p1
    assert movements.instead_of(p1, "c", "a") == p0
    movements.note(p0, "c", "a")  # back home: never moved
    assert movements.instead_of(p1, "c", "a") == p1
    assert movements.instead_of(p1, "a", "c") == p1


def test_a_move_without_a_gain_is_not_made() -> None:
    """Topic u belongs to b. A move of one partition of t from a to b would only turn 2:1 into 1:2."""
    before = {"a": "tp0 tp1", "b": "up0"}
    assert run({"a": "t", "b": "t u"}, {"t": 2, "u": 1}, before) == before


@given(situation=situations())
def test_a_first_assignment_is_complete_and_even(situation: Situation) -> None:
    result = StickyAssignor().assign(situation.cluster, situation.subscriptions)
    check_valid(situation, result)
    check_even(situation, result)


@given(before=situations(), after=situations())
def test_later_assignments_are_complete_and_even_and_a_repetition_keeps_them(
    before: Situation, after: Situation
) -> None:
    first = StickyAssignor().assign(before.cluster, before.subscriptions)
    result = again(after, first)
    check_valid(after, result)
    check_even(after, result)
    assert owners(again(after, result)) == owners(result)


@given(situation=situations(equal=True, least_members=2), data=st.data())
def test_partitions_of_survivors_stay_when_a_member_with_an_equal_subscription_leaves(
    situation: Situation, data: st.DataObject
) -> None:
    before = StickyAssignor().assign(situation.cluster, situation.subscriptions)
    rest = situation.without(data.draw(st.sampled_from(sorted(before))))
    after = again(rest, before)
    for member, assignment in after.items():
        assert set(before[member].partitions) <= set(assignment.partitions)


@pytest.mark.parametrize("equal", [True, False])
def test_a_hundred_members_and_a_thousand_partitions(equal: bool) -> None:
    names = [f"t{number:02}" for number in range(20)]
    topics = {f"c{m:03}": tuple(names if equal else (names * 2)[m % 20 : m % 20 + 8]) for m in range(100)}
    situation = Situation(topics, dict.fromkeys(names, 50))
    before = StickyAssignor().assign(situation.cluster, situation.subscriptions)
    check_even(situation, before)
    rest = situation.without("c050")
    after = again(rest, before)
    check_even(rest, after)
    moved = sum(owners(before)[partition] != member for partition, member in owners(after).items())
    assert moved == 10 if equal else moved <= 12  # the 10 that it had, and what evens out
