"""The table of metrics against Java's clients, which print theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyconsumer.metrics.table import ADMIN, CONSUMER, CONSUMER_PROTOCOL, PRODUCER, Family
from tests.support.java import need_jars, tools
from tests.support.process import run

pytestmark = [pytest.mark.kafka]

_FAMILIES = {"classic": CONSUMER, "consumer": CONSUMER_PROTOCOL, "producer": PRODUCER, "admin": ADMIN}


@pytest.fixture(scope="module")
def java_names() -> dict[str, set[tuple[str, str, str]]]:
    need_jars()
    program = Path(__file__).parent / "ClientMetrics.java"
    done = run([*tools().java(quick=True), str(program)], timeout_s=120).check()
    found: dict[str, set[tuple[str, str, str]]] = {}
    for line in done.stdout.splitlines():
        client, group, name, tags, *_ = line.split("\t")
        found.setdefault(client, set()).add((group, name, tags))
    return found


def _tags(family: Family) -> str:
    return ",".join(sorted(("client-id", *family.tags)))


@pytest.mark.parametrize("client", _FAMILIES)
def test_the_table_has_the_names_of_javas_clients(
    client: str, java_names: dict[str, set[tuple[str, str, str]]]
) -> None:
    table = {
        (family.group, spec.name, _tags(family))
        for family in _FAMILIES[client]
        for spec in family.specs
        if not spec.ours
    }
    assert java_names[client] - table == set()
    # Java creates those of nodes, topics and partitions later
    assert {name for name in table - java_names[client] if name[2] == "client-id"} == set()
