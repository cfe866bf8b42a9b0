"""The range assignor: worked examples of the lists, racks, co-partitioning."""

from __future__ import annotations

import pytest

from pyconsumer.assignors import RangeAssignor, Subscription
from tests.unit.assignors.cluster import FakeCluster, run, show

EXAMPLES = [
    (
        "transactions:RNG-EX1",
        {"C0": "t0 t1", "C1": "t0 t1"},
        {"t0": 4, "t1": 4},
        {"C0": "t0p0 t0p1 t1p0 t1p1", "C1": "t0p2 t0p3 t1p2 t1p3"},
    ),
    (
        "transactions:RNG-EX2",
        {"C0": "t0 t1", "C1": "t0 t1"},
        {"t0": 3, "t1": 3},
        {"C0": "t0p0 t0p1 t1p0 t1p1", "C1": "t0p2 t1p2"},
    ),
    (
        "transactions:RNG-EX3",
        {"C0": "t0", "C1": "t0", "C2": "t0"},
        {"t0": 7},
        {"C0": "t0p0 t0p1 t0p2", "C1": "t0p3 t0p4", "C2": "t0p5 t0p6"},
    ),
    ("transactions:RNG-EX4", {"C0": "t0", "C1": "t0", "C2": "t0"}, {"t0": 2}, {"C0": "t0p0", "C1": "t0p1", "C2": ""}),
    ("transactions:RNG-EX5", {"C2": "t0", "C10": "t0"}, {"t0": 3}, {"C10": "t0p0 t0p1", "C2": "t0p2"}),
    (
        "transactions:RNG-EX6",
        {"C0": "t0", "C1": "t0 t1", "C2": "t1"},
        {"t0": 4, "t1": 3},
        {"C0": "t0p0 t0p1", "C1": "t0p2 t0p3 t1p0 t1p1", "C2": "t1p2"},
    ),
]


@pytest.mark.parametrize(
    ("members", "counts", "expected"),
    [pytest.param(*example[1:], id=example[0]) for example in EXAMPLES],
)
def test_worked_examples(members: dict[str, str], counts: dict[str, int], expected: dict[str, str]) -> None:
    assert run(RangeAssignor(), members, counts) == expected


@pytest.mark.parametrize(("topics", "sizes"), [(1, (2, 1)), (2, (4, 2)), (5, (10, 5)), (10, (20, 10))])
def test_the_surplus_of_every_topic_goes_to_the_first_member(topics: int, sizes: tuple[int, int]) -> None:
    names = [f"t{number}" for number in range(topics)]
    shares = run(RangeAssignor(), {"C0": " ".join(names), "C1": " ".join(names)}, dict.fromkeys(names, 3))
    assert (len(shares["C0"].split()), len(shares["C1"].split())) == sizes


@pytest.mark.parametrize("members", range(1, 6))
@pytest.mark.parametrize("partitions", range(1, 12))
def test_runs_follow_one_another_and_the_first_ones_are_longer(members: int, partitions: int) -> None:
    shares = run(RangeAssignor(), {f"C{m}": "t" for m in range(members)}, {"t": partitions})
    whole, rest = divmod(partitions, members)
    for index in range(members):
        start = whole * index + min(index, rest)
        length = whole + (1 if index < rest else 0)
        assert shares[f"C{index}"] == " ".join(f"tp{p}" for p in range(start, start + length))


def test_seven_by_three_and_two_by_three() -> None:
    assert run(RangeAssignor(), dict.fromkeys("abc", "t"), {"t": 7}) == {
        "a": "tp0 tp1 tp2",
        "b": "tp3 tp4",
        "c": "tp5 tp6",
    }
    assert run(RangeAssignor(), dict.fromkeys("abc", "t"), {"t": 2}) == {"a": "tp0", "b": "tp1", "c": ""}


def test_topics_are_taken_in_order_of_name() -> None:
    assert run(RangeAssignor(), {"c": "z b a"}, {"a": 1, "b": 2, "z": 1}) == {"c": "ap0 bp0 bp1 zp0"}


def test_static_members_come_first_in_order_of_their_instance_ids() -> None:
    subscriptions = {
        "m-1": Subscription(("t",)),
        "m-2": Subscription(("t",), group_instance_id="b"),
        "m-3": Subscription(("t",), group_instance_id="a"),
    }
    shares = show(RangeAssignor().assign(FakeCluster({"t": 3}), subscriptions))
    assert shares == {"m-3": "tp0", "m-2": "tp1", "m-1": "tp2"}


def test_unknown_and_empty_topics_are_left_out_and_every_member_has_an_entry() -> None:
    assert run(RangeAssignor(), {"a": "t gone", "b": "empty"}, {"t": 1, "empty": 0}) == {"a": "tp0", "b": ""}


def test_members_get_partitions_with_a_replica_in_their_rack() -> None:
    subscriptions = {"a": Subscription(("t",), rack_id="r2"), "b": Subscription(("t",), rack_id="r1")}
    shares = show(RangeAssignor().assign(FakeCluster({"t": [["r1"], ["r2"], ["r1"], ["r2"]]}), subscriptions))
    assert shares == {"a": "tp1 tp3", "b": "tp0 tp2"}


def test_topics_with_equal_members_and_counts_stay_co_partitioned_with_racks() -> None:
    subscriptions = {m: Subscription(("t", "u"), rack_id=r) for m, r in (("a", "r2"), ("b", "r1"))}
    racks = [["r1"], ["r2"], ["r1"], ["r2"]]
    shares = RangeAssignor().assign(FakeCluster({"t": racks, "u": racks}), subscriptions)
    for share in shares.values():
        assert {p for topic, p in share.partitions if topic == "t"} == {
            p for topic, p in share.partitions if topic == "u"
        }
    assert show(shares)["a"] == "tp1 tp3 up1 up3"
