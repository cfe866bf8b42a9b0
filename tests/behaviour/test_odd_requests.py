"""Odd requests, as clients send them by mistake: the embedded broker answers as Apache Kafka does.

Inputs and answers are in a table, see :mod:`tests.support.odd`. On Apache Kafka the tests show that the table is still
right, on the embedded broker that it accepts and refuses the same, with the same codes. Where it answers otherwise, the
row says why, and a client still takes the answer in the same way.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.odd import table
from tests.support.odd.world import CLOSED, NO_ANSWER, World

CASES, ROWS = table.cases(), table.read()
#: Answers after which a client tries again.
_LOST = (CLOSED, NO_ANSWER)
_AT_A_TIME = 50


@pytest.fixture(scope="module")
def worlds() -> Iterator[Callable[[Cluster], World]]:
    """Connections and topics for the inputs, one set for each broker."""
    made: dict[str, World] = {}

    def get(cluster: Cluster) -> World:
        if cluster.kind not in made:
            made[cluster.kind] = World(cluster.bootstrap_servers)
        return made[cluster.kind]

    yield get
    for world in made.values():
        world.close()


def _portions() -> Iterator[Any]:
    """Yield the inputs of each kind, some at a time: a test of its own takes longer than most of them."""
    for kind, group in itertools.groupby(CASES, key=lambda key: key[0]):
        keys = list(group)
        for start in range(0, len(keys), _AT_A_TIME):
            yield pytest.param(keys[start : start + _AT_A_TIME], id=f"{kind}-{start}")


@pytest.mark.parametrize("keys", list(_portions()))
def test_odd_requests(cluster: Cluster, worlds: Callable[[Cluster], World], keys: list[tuple[str, str]]) -> None:
    world = worlds(cluster)
    wrong = {}
    for key in keys:
        row = ROWS[key]
        answer = world.ask(CASES[key])
        if answer not in ((row.expected, row.kafka) if cluster.embedded else (row.kafka,)):
            wrong[key] = answer
        if cluster.embedded and key[0] == "produce":
            assert all(text for _, text in world.refusals), f"a refusal says what is wrong: {key}"
    assert wrong == {}


def test_the_table_has_a_row_for_each_input_and_no_other() -> None:
    assert list(ROWS) == list(CASES)
    assert len(ROWS) >= 200


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.ours or row.reason], ids=lambda row: row.words)
def test_a_difference_has_a_reason_and_the_same_meaning(row: table.Row) -> None:
    assert row.reason, "why does the embedded broker answer otherwise?"
    if row.ours and row.kafka not in _LOST and row.ours not in _LOST:
        assert set(table.meaning(row.ours)) == set(table.meaning(row.kafka)) or row.reason.startswith("Stricter: ")
