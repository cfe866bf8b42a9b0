"""Odd requests, as clients send them by mistake: the embedded broker answers as Apache Kafka does.

Inputs and answers are in a table, see :mod:`tests.support.odd`. On Apache Kafka the tests show that the table is still
right, on the embedded broker that it accepts and refuses the same, with the same codes. Where it answers otherwise, the
row says why, and a client still takes the answer in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.cluster import Cluster
from tests.support.odd import table
from tests.support.odd.world import CLOSED, NO_ANSWER, World

CASES, ROWS = table.cases(), table.read()
#: Answers after which a client tries again.
_LOST = (CLOSED, NO_ANSWER)


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


@pytest.mark.parametrize("key", CASES, ids=": ".join)
def test_an_odd_request(cluster: Cluster, worlds: Callable[[Cluster], World], key: tuple[str, str]) -> None:
    world = worlds(cluster)
    row = ROWS[key]
    answer = world.ask(CASES[key])
    assert answer in ((row.expected, row.kafka) if cluster.embedded else (row.kafka,))
    if cluster.embedded and key[0] == "produce":
        assert all(text for _, text in world.refusals), "a refusal says what is wrong"


def test_the_table_has_a_row_for_each_input_and_no_other() -> None:
    assert list(ROWS) == list(CASES)
    assert len(ROWS) >= 200


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.ours or row.reason], ids=lambda row: row.words)
def test_a_difference_has_a_reason_and_the_same_meaning(row: table.Row) -> None:
    assert row.reason, "why does the embedded broker answer otherwise?"
    if row.ours and row.kafka not in _LOST and row.ours not in _LOST:
        assert set(table.meaning(row.ours)) == set(table.meaning(row.kafka)) or row.reason.startswith("Stricter: ")
