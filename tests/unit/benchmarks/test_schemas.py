"""The benchmark of schemas: its records, its ratios, and one small run of each way that needs no other library."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyconsumer.broker import EmbeddedCluster
from pyconsumer.protocol.avro import Encoder, parse_schema, write_plan
from pyconsumer.schemas import SchemaRegistryClient
from tests.benchmarks.schemas import RATIOS, SCHEMAS, fill, measure, ratios, values_of


def leaves(kind: Any) -> int:
    """Count the fields of a schema, those of nested records included, without the fields that hold records."""
    if isinstance(kind, dict) and kind.get("type") == "record":
        return sum(1 + leaves(field["type"]) for field in kind["fields"])
    return leaves(kind["items"]) if isinstance(kind, dict) and kind.get("type") == "array" else 0


def test_the_records_have_seven_and_thirty_fields() -> None:
    assert [leaves(SCHEMAS[name]) for name in ("seven", "nested")] == [7, 30]
    for name, schema in SCHEMAS.items():
        encode = Encoder(write_plan(parse_schema(json.dumps(schema)))).encode
        assert len({encode(value, b"") for value in values_of(name)}) == 1_000


def test_ratios_are_of_the_ways_that_were_measured() -> None:
    found = list(ratios({"columns": 6.0, "bytes": 10.0, "pyruhvro": 3.0}))
    assert found == [("columns", "bytes", 0.6, 0.20, 0.3), ("columns", "pyruhvro", 2.0, 1.4, 2.0)]
    assert all(must < goal for must, goal in RATIOS.values())


@pytest.mark.slow
@pytest.mark.parametrize("way", ["bytes", "columns", "only values", "objects"])
@pytest.mark.parametrize("workload", list(SCHEMAS))
def test_a_way_reads_all_records(way: str, workload: str) -> None:
    pytest.importorskip("pyarrow")
    with EmbeddedCluster(schema_registry=True) as cluster, SchemaRegistryClient(cluster.schema_registry_url) as client:
        size = fill(cluster, client, workload, 4_000)
        assert (workload == "seven") == (size < 60)
        arguments = {"servers": cluster.bootstrap_servers, "registry": cluster.schema_registry_url}
        arguments |= {"topic": workload, "workload": workload, "way": way}
        found = measure(arguments | {"records": 4_000})
    assert 0 <= found["records"] <= 3_000
    assert found["seconds"] > 0
