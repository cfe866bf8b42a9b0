"""Assignors of one's own: those of ``examples/custom_assignors.py``, and the user data that they use."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest

import pyconsumer.assignors
from pyconsumer.assignors import Assignment, Assignor, PartitionAssignor, RebalanceProtocol, Subscription, resolve
from pyconsumer.clock import ManualClock
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.consumer.coordinator.classic_group_rebalance import perform_assignment
from pyconsumer.consumer.coordinator.membership import GroupLog
from pyconsumer.errors import ConfigurationError
from pyconsumer.protocol.consumer_protocol import decode_assignment
from pyconsumer.structs import ConsumerGroupMetadata, TopicPartition
from tests.unit.assignors.cluster import FakeCluster, parse, run, show
from tests.unit.assignors.examples import BroadcastAssignor, RackAwareAssignor, RandomAssignor, StandbyAssignor

# -- the base class ----------------------------------------------------------------------------------------------------


def test_the_base_class_helps_with_lists() -> None:
    assert PartitionAssignor.partitions("t", 3) == parse("tp0 tp1 tp2")
    assert PartitionAssignor.partitions("t", 0) == []
    shares: dict[str, list[TopicPartition]] = {}
    for member, partition in (
        ("a", TopicPartition("t", 1)),
        ("b", TopicPartition("u", 0)),
        ("a", TopicPartition("t", 0)),
    ):
        PartitionAssignor.put(shares, member, partition)
    assert shares == {"a": parse("tp1 tp0"), "b": parse("up0")}


@pytest.mark.parametrize(
    "own", [RandomAssignor(), RackAwareAssignor("r"), BroadcastAssignor()], ids=lambda one: one.name
)
def test_a_custom_assignor_works_beside_the_built_in_ones(own: Assignor) -> None:
    assert [assignor.name for assignor in resolve([own, "range", "roundrobin"])] == [own.name, "range", "roundrobin"]
    assert own.supported_protocols() == (RebalanceProtocol.EAGER,)
    own.on_assignment(Assignment(), ConsumerGroupMetadata("g", 1, "m", None))
    shares = run(own, {"a": "t", "b": "gone", "c": ""}, {"t": 1})
    assert shares == {"a": "tp0", "b": "", "c": ""}, "everybody has an entry, a topic without metadata is no error"


# -- random ------------------------------------------------------------------------------------------------------------

MEMBERS = {"C0": "t0 t1", "C1": "t0 t1", "C2": "t1"}


@pytest.mark.parametrize("seed", range(20))
def test_each_partition_goes_to_one_random_subscriber(seed: int) -> None:
    assignor = RandomAssignor(random.Random(seed))
    assert isinstance(assignor, PartitionAssignor)
    assert assignor.name == "random"
    assert assignor.subscription_user_data(frozenset({"t0"})) is None
    shares = run(assignor, MEMBERS | {"C3": "none"}, {"t0": 7, "t1": 5, "t9": 3})
    given = [partition for share in shares.values() for partition in share.split()]
    assert sorted(given) == [*(f"t0p{number}" for number in range(7)), *(f"t1p{number}" for number in range(5))]
    for member, share in shares.items():
        assert {partition[:2] for partition in share.split()} <= set((MEMBERS | {"C3": ""})[member].split())


def test_a_seed_makes_random_shares_repeat_themselves() -> None:
    counts = {"t0": 7, "t1": 5}
    first = run(RandomAssignor(random.Random(7)), MEMBERS, counts)
    assert run(RandomAssignor(random.Random(7)), dict(reversed(MEMBERS.items())), counts) == first
    others = [run(RandomAssignor(random.Random(seed)), MEMBERS, counts) for seed in range(5)]
    assert any(other != first for other in others)


def test_every_subscriber_is_as_likely_as_the_others_and_counts_are_not_even() -> None:
    assignor = RandomAssignor(random.Random(1))
    counts: Counter[str] = Counter()
    uneven = 0
    for _ in range(300):
        shares = run(assignor, MEMBERS, {"t0": 6, "t1": 0})
        sizes = {member: len(share.split()) for member, share in shares.items()}
        counts.update(sizes)
        uneven += sizes["C0"] != sizes["C1"]
    assert counts["C2"] == 0
    assert sum(counts.values()) == 1800
    assert 820 < counts["C0"] < 980  # 900 expected, the deviation is 21
    assert uneven > 100


# -- by rack -----------------------------------------------------------------------------------------------------------


def with_racks(racks: Mapping[str, str | None], topics: str = "t") -> dict[str, Subscription]:
    """Members that send their rack by the assignor's user data."""
    names = tuple(topics.split())
    return {
        member: Subscription(names, RackAwareAssignor(rack).subscription_user_data(frozenset(names)))
        for member, rack in racks.items()
    }


def by_rack(racks: Mapping[str, str | None], leaders: str) -> dict[str, str]:
    """Shares of topic t, whose partitions are led by brokers in these racks (``-``: one without a rack)."""
    cluster = FakeCluster({"t": [[None if rack == "-" else rack, "other"] for rack in leaders.split()]})
    return show(RackAwareAssignor(None).assign(cluster, with_racks(racks)))


def test_members_send_their_rack_in_user_data() -> None:
    assignor = RackAwareAssignor("rack1")
    assert assignor.name == "rack-aware"
    assert not isinstance(assignor, PartitionAssignor), "that base never looks at user data"
    assert assignor.subscription_user_data(frozenset({"t"})) == b"rack1"
    assert RackAwareAssignor(None).subscription_user_data(frozenset({"t"})) is None


@pytest.mark.parametrize(("own", "setting", "expected"), [(None, "r1", b"r1"), ("r2", "r1", b"r2"), (None, None, None)])
def test_an_assignor_sees_the_settings_of_its_consumer(
    own: str | None, setting: str | None, expected: bytes | None
) -> None:
    settings = {"bootstrap_servers": "h:1"} | ({"client_rack": setting} if setting else {})
    config = CONSUMER_SETTINGS.build(settings)
    assignor = RackAwareAssignor(own)
    assignor.configure(config, ManualClock())
    assert assignor.subscription_user_data(frozenset({"t"})) == expected


def test_partitions_go_to_the_rack_of_their_leader() -> None:
    """So that no fetch leaves its rack."""
    members = {"consumer1": "rack1", "consumer2": "rack2"}
    assert by_rack(members, "rack1 rack2 rack1 rack2") == {"consumer1": "tp0 tp2", "consumer2": "tp1 tp3"}
    assert by_rack(members, "rack2 rack2 rack1 rack1") == {"consumer1": "tp2 tp3", "consumer2": "tp0 tp1"}


def test_an_assignor_without_racks_may_give_each_member_the_other_rack() -> None:
    cluster = FakeCluster({"t": [["rack2"], ["rack2"], ["rack1"], ["rack1"]]})
    shares = resolve("range")[0].assign(cluster, with_racks({"consumer1": "rack1", "consumer2": "rack2"}))
    assert show(shares) == {"consumer1": "tp0 tp1", "consumer2": "tp2 tp3"}


def test_partitions_without_a_member_in_their_rack_are_shared_by_all() -> None:
    two = {"a": "r1", "b": "r2"}
    assert by_rack(two, "r3 r3 r3 r3") == {"a": "tp0 tp2", "b": "tp1 tp3"}
    assert by_rack(two, "- - -") == {"a": "tp0 tp2", "b": "tp1"}
    # What the racks left uneven the others even out.
    assert by_rack(two, "r1 r1 r1 r3 r3 r3") == {"a": "tp0 tp1 tp2", "b": "tp3 tp4 tp5"}
    assert by_rack(two, "r3 r1 r3 r1") == {"a": "tp1 tp3", "b": "tp0 tp2"}


def test_members_share_the_partitions_of_their_rack_and_one_without_a_rack_gets_the_rest() -> None:
    assert by_rack({"a": "r1", "b": "r1", "c": "r2"}, "r1 r1 r1 r1 r2") == {"a": "tp0 tp2", "b": "tp1 tp3", "c": "tp4"}
    assert by_rack({"a": "r1", "b": None}, "r1 r1 r1") == {"a": "tp0 tp1 tp2", "b": ""}
    assert by_rack({"a": "r1", "b": None}, "r1 r1 r2 r2 r1") == {"a": "tp0 tp1 tp4", "b": "tp2 tp3"}
    assert by_rack({"a": None, "b": None}, "r1 r1 r1") == {"a": "tp0 tp2", "b": "tp1"}


def test_rack_aware_keeps_to_subscriptions_and_bears_user_data_of_others() -> None:
    cluster = FakeCluster({"t": [["r1"], ["r1"]], "u": [["r1"]]})
    subscriptions = {
        "a": Subscription(("t",), b"r1"),
        "b": Subscription(("t", "u", "gone"), b"\xff\xfe"),
        "c": Subscription(("u",), b""),
    }
    assert show(RackAwareAssignor("r1").assign(cluster, subscriptions)) == {"a": "tp0 tp1", "b": "up0", "c": ""}


# -- to all ------------------------------------------------------------------------------------------------------------


def test_every_member_gets_all_partitions_of_its_topics() -> None:
    assignor = BroadcastAssignor()
    assert isinstance(assignor, PartitionAssignor)
    assert assignor.name == "broadcast"
    shares = run(assignor, {"C0": "t0 t1", "C1": "t0"}, {"t0": 2, "t1": 1})
    assert shares == {"C0": "t0p0 t0p1 t1p0", "C1": "t0p0 t0p1"}


def test_broadcast_skips_unknown_and_unsubscribed_topics() -> None:
    counts = {"t0": 2, "empty": 0, "not-wanted": 4}
    shares = run(BroadcastAssignor(), {"C0": "t0 gone empty", "C1": "gone", "C2": ""}, counts)
    assert shares == {"C0": "t0p0 t0p1", "C1": "", "C2": ""}


def test_an_assignor_decides_on_partitions_not_on_offsets() -> None:
    """Two members may get one partition, but each the whole of it: an assignment has no field for offsets."""
    shares = run(BroadcastAssignor(), {"C3": "t", "C4": "t"}, {"t": 1})
    assert shares == {"C3": "tp0", "C4": "tp0"}
    assert Assignment.__slots__ == ("partitions", "user_data")
    assert TopicPartition._fields == ("topic", "partition")


# -- what the leader makes of a result ---------------------------------------------------------------------------------


class Fixed(Assignor):
    """Returns a fixed assignment."""

    def __init__(self, shares: Mapping[str, str]) -> None:
        self._shares = shares

    @property
    def name(self) -> str:
        return "fixed"

    def assign(self, cluster: object, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        return {
            member: Assignment(tuple(parse(share)), b"for " + member.encode()) for member, share in self._shares.items()
        }


def test_the_leader_sends_partitions_and_user_data_and_warns_of_odd_assignments(
    caplog: pytest.LogCaptureFixture,
) -> None:
    subscriptions = {"a": Subscription(("t", "u", "v")), "b": Subscription(("t",))}
    eager = RebalanceProtocol.EAGER
    shares = perform_assignment(
        GroupLog("g"), Fixed({"a": "tp0 xp3", "b": "tp1"}), eager, FakeCluster({"t": 2, "u": 1}), subscriptions
    )
    assert {member: decode_assignment(share) for member, share in shares.items()} == {
        "a": (parse("tp0 xp3"), b"for a"),
        "b": (parse("tp1"), b"for b"),
    }
    assert caplog.messages == [
        "[g] no partition of these subscribed topics was assigned: u, v",
        "[g] the assignor assigned topics to which no member has subscribed: x",
    ]


@pytest.mark.parametrize("name", ["RandomAssignor", "RackAwareAssignor", "BroadcastAssignor"])
def test_a_dotted_path_names_a_class(name: str) -> None:
    found = resolve(["range", f"pyconsumer.assignors.{name}"])
    assert type(found[1]) is getattr(pyconsumer.assignors, name)
    assert type(resolve(f"pyconsumer.assignors.{name},range")[0]) is type(found[1])


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("pyconsumer.assignors.Nothing", "cannot be imported: module 'pyconsumer.assignors' has no attribute"),
        ("no_such_package.Class", "cannot be imported: No module named 'no_such_package'"),
        ("pyconsumer.structs.TopicPartition", "is not an assignor"),
        ("pyconsumer.assignors.resolve", "is not an assignor"),
        (".Class", "no assignor is called"),
    ],
)
def test_a_dotted_path_that_names_no_assignor(path: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        resolve(path)


def test_one_member_has_all_partitions_and_the_others_stand_by() -> None:
    subscriptions = {member: Subscription(("t", "u")) for member in ("b", "a", "c")}
    shares = StandbyAssignor().assign_partitions({"t": 2, "u": 1}, subscriptions)
    assert shares == {"a": parse("tp0 tp1 up0")}
