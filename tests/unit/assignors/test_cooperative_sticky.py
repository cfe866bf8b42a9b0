"""The cooperative sticky assignor: as Apache Kafka's own on random groups, even and sticky. Owners revoke first."""

from __future__ import annotations

import gzip
import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyconsumer.assignors import (
    Assignment,
    CooperativeStickyAssignor,
    RebalanceProtocol,
    Subscription,
    common_protocol,
    resolve,
)
from pyconsumer.assignors.balance import Movements
from pyconsumer.structs import ConsumerGroupMetadata, TopicPartition
from tests.support.java import tools
from tests.unit.assignors.cluster import FakeCluster, parse, show
from tests.unit.assignors.random_groups import Situation, check_even, check_valid, owners, situations
from tests.unit.assignors.sticky_vectors import Group, as_java_chooses, groups
from tests.vectors.make_sticky import VECTORS, expected


def assign(group: Group) -> dict[str, str]:
    return group.show(CooperativeStickyAssignor().assign(group.cluster, group.subscriptions))


def own(result: Mapping[str, Assignment], generation: int = 1) -> dict[str, tuple[tuple[TopicPartition, ...], int]]:
    return {member: (assignment.partitions, generation) for member, assignment in result.items()}


def with_owned(
    subscriptions: Mapping[str, Subscription], owned: Mapping[str, tuple[tuple[TopicPartition, ...], int]]
) -> dict[str, Subscription]:
    """Return the subscriptions of members after a rebalance, without partitions of topics that they left."""
    result = dict(subscriptions)
    for member, (partitions, generation) in owned.items():
        if member in result:
            topics = result[member].topics
            kept = tuple(partition for partition in partitions if partition.topic in topics)
            result[member] = replace(result[member], owned_partitions=kept, generation_id=generation)
    return result


class Drawn:
    """Gives a situation instead of drawing one."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation

    def draw(self, _: object) -> Situation:
        return self._situation


def settle(
    situation: Situation, owned: Mapping[str, tuple[tuple[TopicPartition, ...], int]], generation: int
) -> tuple[dict[str, Assignment], dict[str, Assignment]]:
    """Run two rebalances: partitions are revoked in the first one, and get new owners in the second."""
    first = CooperativeStickyAssignor().assign(situation.cluster, with_owned(situation.subscriptions, owned))
    again = with_owned(situation.subscriptions, own(first, generation))
    return first, CooperativeStickyAssignor().assign(situation.cluster, again)


@pytest.mark.slow
def test_random_groups_are_assigned_as_apache_kafka_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java's hash maps keep the order of these member ids. One choice that Java leaves to hashes is made so here."""
    monkeypatch.setattr(Movements, "choose", staticmethod(as_java_chooses))
    count = 0
    for group in groups(hashed=False):
        assert assign(group) == group.expected, group.text
        count += 1
    assert count >= 3000


def test_results_that_depend_on_java_hash_order_agree_in_sizes_and_kept_partitions() -> None:
    """For member ids in another hash order only the choice among equal members may differ."""
    different = 0
    for group in groups(hashed=True):
        claims = [partition for s in group.subscriptions.values() for partition in s.owned_partitions]
        result = assign(group)
        if result == group.expected or len(set(claims)) < len(claims):
            continue
        different += 1
        assert group.sizes(result) == group.sizes(group.expected), group.text
        assert group.kept(result) == group.kept(group.expected), group.text
    assert different <= 20


@pytest.mark.kafka
def test_apache_kafka_still_gives_the_expected_results() -> None:
    assert expected(tools()) == gzip.decompress(VECTORS.read_bytes()).decode()


def test_name_protocols_and_java_class_name() -> None:
    by_name, by_class = (
        resolve(["cooperative-sticky"]),
        resolve("org.apache.kafka.clients.consumer.CooperativeStickyAssignor"),
    )
    assert [type(assignor) for assignor in (*by_name, *by_class)] == [CooperativeStickyAssignor] * 2
    assert by_name[0].name == "cooperative-sticky"
    assert common_protocol(by_name) is RebalanceProtocol.COOPERATIVE
    assert common_protocol(resolve("range,cooperative-sticky")) is RebalanceProtocol.EAGER


def test_user_data_is_the_generation_of_the_last_assignment() -> None:
    assignor = CooperativeStickyAssignor()
    assert assignor.subscription_user_data(frozenset("t")) == b"\xff\xff\xff\xff"
    assignor.on_assignment(Assignment(), ConsumerGroupMetadata("g", 7, "m"))
    assert assignor.subscription_user_data(frozenset("t")) == b"\0\0\0\7"


def test_a_static_member_that_must_revoke_partitions_owes_a_rebalance_in_any_process() -> None:
    # KIP-345: the next process of an instance is handed what the last one was given, without a rebalance
    cluster = FakeCluster({"t": 4})
    everything = tuple(parse("tp0 tp1 tp2 tp3"))
    subscriptions = {
        "a": Subscription(("t",), None, everything, 1, group_instance_id="one"),
        "b": Subscription(("t",), None, (), 1, group_instance_id="two"),
        "c": Subscription(("t",)),
    }
    given = CooperativeStickyAssignor().assign(cluster, subscriptions)
    owing = {}
    for member, assignment in given.items():
        fresh = CooperativeStickyAssignor()
        fresh.on_assignment(assignment, ConsumerGroupMetadata("g", 2, member))
        owing[member] = fresh.rebalance_due_in()
    assert owing == {"a": 0.0, "b": math.inf, "c": math.inf}

    member = CooperativeStickyAssignor()
    member.on_assignment(given["a"], ConsumerGroupMetadata("g", 2, "a"))
    member.on_voted_out()
    assert member.rebalance_due_in() == math.inf
    member.on_assignment(given["a"], ConsumerGroupMetadata("g", 3, "a"))
    member.on_assignment(Assignment(everything), ConsumerGroupMetadata("g", 4, "a"))
    assert member.rebalance_due_in() == math.inf


def test_a_member_without_instance_id_gets_no_user_data() -> None:
    # it is another member when it comes back, so the next rebalance is certain
    situation = Situation({"a": ("t",), "b": ("t",)}, {"t": 4})
    everything = tuple(parse("tp0 tp1 tp2 tp3"))
    subscriptions = with_owned(situation.subscriptions, {"a": (everything, 1)})
    given = CooperativeStickyAssignor().assign(situation.cluster, subscriptions)
    assert {assignment.user_data for assignment in given.values()} == {None}


def test_a_moving_partition_is_withheld_until_its_owner_revoked_it() -> None:
    situation = Situation({"a": ("t",), "b": ("t",)}, {"t": 4})
    first, second = settle(situation, {"a": (tuple(parse("tp0 tp1 tp2 tp3")), 1)}, 2)
    assert show(first) == {"a": "tp0 tp1", "b": ""}
    assert show(second) == {"a": "tp0 tp1", "b": "tp2 tp3"}


@pytest.mark.parametrize("in_user_data", [False, True])
def test_of_two_owners_the_one_of_the_later_generation_keeps_a_partition(in_user_data: bool) -> None:
    def member(generation: int, text: str) -> Subscription:
        data = generation.to_bytes(4, "big") if in_user_data else None
        return Subscription(("t",), data, tuple(parse(text)), -1 if in_user_data else generation)

    result = CooperativeStickyAssignor().assign(
        FakeCluster({"t": 2}), {"a": member(3, "tp0"), "b": member(4, "tp0"), "c": member(4, "tp1")}
    )
    assert show(result) == {"a": "", "b": "tp0", "c": "tp1"}


def test_a_partition_claimed_twice_in_one_generation_is_withheld_at_first() -> None:
    claim = Subscription(("t",), None, tuple(parse("tp0")), 3)
    result = CooperativeStickyAssignor().assign(FakeCluster({"t": 2}), {"a": claim, "b": claim})
    assert show(result) == {"a": "", "b": "tp1"}


@pytest.mark.parametrize("others", [("t",), ("t", "u")])
def test_partitions_beyond_the_end_of_a_topic_that_shrank_are_forgotten(others: tuple[str, ...]) -> None:
    subscriptions = {
        "a": Subscription(("t",), None, tuple(parse("tp0 tp5")), 1),
        "b": Subscription(others, None, tuple(parse("tp1")), 1),
    }
    result = CooperativeStickyAssignor().assign(FakeCluster({"t": 2, "u": 0}), subscriptions)
    assert show(result) == {"a": "tp0", "b": "tp1"}


def test_a_former_owner_gets_no_partition_of_an_unsubscribed_topic() -> None:
    subscriptions = {
        "a": Subscription(("t",), None, tuple(parse("tp0 tp1 tp2 tp3")), 5),
        "b": Subscription(("u",), None, tuple(parse("tp3")), 4),
        "c": Subscription(("t", "u"), None, (), 5),
    }
    result = CooperativeStickyAssignor().assign(FakeCluster({"t": 4, "u": 1}), subscriptions)
    assert show(result)["b"] == "up0"


def test_a_member_without_topics_gets_no_partition() -> None:
    subscriptions = {"a": Subscription(()), "b": Subscription(("t",))}
    assert show(CooperativeStickyAssignor().assign(FakeCluster({"t": 2}), subscriptions)) == {"a": "", "b": "tp0 tp1"}


def test_user_data_that_is_no_generation_counts_as_none() -> None:
    subscriptions = {"a": Subscription(("t",), b"\0", tuple(parse("tp0"))), "b": Subscription(("t",), b"")}
    assert show(CooperativeStickyAssignor().assign(FakeCluster({"t": 1}), subscriptions)) == {"a": "tp0", "b": ""}


def test_a_group_without_members_has_no_assignment() -> None:
    assert CooperativeStickyAssignor().assign(FakeCluster({}), {}) == {}


def test_members_prefer_replicas_in_their_rack_as_long_as_counts_stay_even() -> None:
    cluster = FakeCluster({"t": [["r1"], ["r2"], ["r1"], ["r2"]]})
    subscriptions = {"a": Subscription(("t",), rack_id="r2"), "b": Subscription(("t",), rack_id="r1")}
    assert show(CooperativeStickyAssignor().assign(cluster, subscriptions)) == {"a": "tp1 tp3", "b": "tp0 tp2"}


@given(before=situations(), data=st.data())
@example(
    before=Situation({"c20": ("t0", "t1")}, {"t0": 2, "t1": 2}),
    data=Drawn(Situation({"c3": ("t0",), "c21": ("t0",), "c22": ("t1",), "c20": ("t0", "t1")}, {})),
)
def test_rebalances_end_with_an_even_assignment_that_stays(before: Situation, data: st.DataObject) -> None:
    """Two are enough for most groups. Where subscriptions differ, the second one may move a partition, as in Java."""
    first, second = settle(before, {}, 1)
    assert owners(first) == owners(second)  # nobody owned anything
    check_valid(before, second)
    check_even(before, second)
    after = replace(data.draw(situations()), counts=before.counts)
    after = replace(after, topics={m: tuple(t for t in ts if t in after.counts) for m, ts in after.topics.items()})
    old = owners(second)
    first, third = settle(after, own(second), 2)
    check_valid(after, first, complete=False)
    for partition, member in owners(first).items():
        former = old.get(partition, member)
        still_used = former in after.topics and partition.topic in after.topics[former]
        assert member == former or not still_used
    check_valid(after, third, complete=False)
    fourth, last = settle(after, own(third), 4)
    check_valid(after, last)
    check_even(after, last)
    assert owners(fourth) == owners(last)
    assert [owners(result) for result in settle(after, own(last), 6)] == [owners(last)] * 2


@given(situation=situations(equal=True, least_members=2), data=st.data())
def test_survivors_keep_all_partitions_when_a_member_with_an_equal_subscription_leaves(
    situation: Situation, data: st.DataObject
) -> None:
    _, before = settle(situation, {}, 1)
    gone = data.draw(st.sampled_from(sorted(before)))
    rest = situation.without(gone)
    after, _ = settle(rest, own(before), 2)
    check_valid(rest, after)
    for member, assignment in after.items():
        assert set(before[member].partitions) <= set(assignment.partitions)


def test_a_hundred_members_and_a_thousand_partitions() -> None:
    names = tuple(f"t{number:02}" for number in range(20))
    situation = Situation({f"c{m:03}": names for m in range(100)}, dict.fromkeys(names, 50))
    _, before = settle(situation, {}, 1)
    assert {len(assignment.partitions) for assignment in before.values()} == {10}
    grown = replace(situation, topics={**situation.topics, "c100": names})
    _, after = settle(grown, own(before), 2)
    moved = sum(owners(before)[partition] != member for partition, member in owners(after).items())
    assert moved == 9
