"""The round robin assignor: worked examples of the lists, and their consequences."""

from __future__ import annotations

import pytest

from pyconsumer.assignors import RoundRobinAssignor
from tests.unit.assignors.cluster import parse, run

FOUR = "t0 t1 t2 t3"
EXAMPLES = [
    (
        "transactions:RRB-EX1",
        {"C0": "t0 t1", "C1": "t0 t1"},
        {"t0": 3, "t1": 3},
        {"C0": "t0p0 t0p2 t1p1", "C1": "t0p1 t1p0 t1p2"},
    ),
    (
        "transactions:RRB-EX2",
        {"C0": "t0", "C1": "t0 t1", "C2": "t0 t1 t2"},
        {"t0": 1, "t1": 2, "t2": 3},
        {"C0": "t0p0", "C1": "t1p0", "C2": "t1p1 t2p0 t2p1 t2p2"},
    ),
    (
        "transactions:RRB-EX3",
        {"C0": FOUR, "C2": FOUR},
        dict.fromkeys(FOUR.split(), 2),
        {"C0": "t0p0 t1p0 t2p0 t3p0", "C2": "t0p1 t1p1 t2p1 t3p1"},
    ),
    (
        "transactions:RRB-EX4",
        {"C1": "t0 t1", "C2": "t0 t1 t2"},
        {"t0": 1, "t1": 2, "t2": 3},
        {"C1": "t0p0 t1p1", "C2": "t1p0 t2p0 t2p1 t2p2"},
    ),
    (
        "transactions:RRB-EX5",
        {"C0": FOUR, "C1": FOUR, "C2": FOUR},
        dict.fromkeys(FOUR.split(), 2),
        {"C0": "t0p0 t1p1 t3p0", "C1": "t0p1 t2p0 t3p1", "C2": "t1p0 t2p1"},
    ),
    (
        "transactions:RRB-EX6",
        {"C0": "t10 t2", "C1": "t10 t2"},
        {"t10": 2, "t2": 1},
        {"C0": "t10p0 t2p0", "C1": "t10p1"},
    ),
    ("transactions:RRB-EX7", {"C0": "t0", "C1": "t0", "C2": "t0"}, {"t0": 2}, {"C0": "t0p0", "C1": "t0p1", "C2": ""}),
    (
        "transactions:RRB-EX8",
        {"C10": "t0 t1", "C2": "t0 t1"},
        {"t0": 3, "t1": 1},
        {"C10": "t0p0 t0p2", "C2": "t0p1 t1p0"},
    ),
]
BY_ID = {example[0].rpartition("-")[2]: example for example in EXAMPLES}


@pytest.mark.parametrize(
    ("members", "counts", "expected"),
    [pytest.param(*example[1:], id=example[0]) for example in EXAMPLES],
)
def test_worked_examples(members: dict[str, str], counts: dict[str, int], expected: dict[str, str]) -> None:
    assert run(RoundRobinAssignor(), members, counts) == expected


@pytest.mark.parametrize(
    ("before", "after", "kept"), [("EX2", "EX4", "t2p0 t2p1 t2p2"), ("EX5", "EX3", "t0p0 t2p1 t3p0")]
)
def test_few_placements_survive_a_departure(before: str, after: str, kept: str) -> None:
    old = run(RoundRobinAssignor(), *BY_ID[before][1:3])
    new = run(RoundRobinAssignor(), *BY_ID[after][1:3])
    same = {tp for member in new for tp in parse(new[member]) if tp in parse(old[member])}
    assert same == set(parse(kept))


def test_partitions_go_by_number_and_topics_by_text() -> None:
    shares = run(RoundRobinAssignor(), {"c": "t2 t10"}, {"t2": 1, "t10": 11})
    assert shares["c"].split() == [f"t10p{n}" for n in range(11)] + ["t2p0"]


@pytest.mark.parametrize("members", range(1, 6))
def test_equal_subscriptions_give_counts_that_differ_by_at_most_one(members: int) -> None:
    shares = run(RoundRobinAssignor(), {f"C{m}": "a b" for m in range(members)}, {"a": 5, "b": 4})
    sizes = [len(share.split()) for share in shares.values()]
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) == 9


def test_a_member_that_misses_a_turn_is_not_compensated() -> None:
    shares = run(RoundRobinAssignor(), {"C0": "a", "C1": "a b"}, {"a": 2, "b": 4})
    assert shares == {"C0": "ap0", "C1": "ap1 bp0 bp1 bp2 bp3"}
