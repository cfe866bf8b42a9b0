"""The benchmark of schemas: its records, its ratios, and one small run of each way that needs no other library."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyconsumer.broker import EmbeddedCluster
from pyconsumer.protocol.avro import Encoder, parse_schema, write_plan
from pyconsumer.schemas import SchemaRegistryClient
from tests.benchmarks.schema_records import SCHEMAS, json_schema, message_class, messages_of, plain_values_of, values_of
from tests.benchmarks.schema_sockets import FORMATS, RATIOS, fill, measure, ratios, topic_of


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


def test_the_records_are_the_same_in_json_and_protobuf() -> None:
    checker = pytest.importorskip("jsonschema_rs")
    pytest.importorskip("grpc_tools")
    for name in SCHEMAS:
        values = plain_values_of(name)
        check = checker.validator_for(json_schema(name))
        assert all(check.is_valid(value) for value in values)
        messages = messages_of(name, message_class(name))
        assert [message.id for message in messages] == [value["id"] for value in values]
        fields = messages[0].DESCRIPTOR.fields
        assert [field.name for field in fields] == [field["name"] for field in SCHEMAS[name]["fields"]]


def test_ratios_are_of_the_ways_that_were_measured() -> None:
    found = list(ratios({"Avro columns": 6.0, "Avro bytes": 10.0, "Avro pyruhvro": 3.0}))
    assert found == [
        ("Avro columns", "Avro pyruhvro", 2.0, 1.4, 2.0),
        ("Avro columns", "Avro bytes", 0.6, 0.20, 0.3),
    ]
    assert all(must <= goal for must, goal in RATIOS.values())


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_a_way_reads_all_records(kind: str) -> None:
    pytest.importorskip("pyarrow")
    with EmbeddedCluster(schema_registry=True) as cluster, SchemaRegistryClient(cluster.schema_registry_url) as client:
        arguments = {"servers": cluster.bootstrap_servers, "registry": cluster.schema_registry_url, "records": 4_000}
        for workload in SCHEMAS:
            size = fill(cluster, client, workload, kind, 4_000)
            assert (workload == "seven") == (size < 130)
            arguments |= {"topic": topic_of(workload, kind), "workload": workload, "format": kind}
            for way in ("bytes", "columns", "only values", "objects"):
                found = measure(arguments | {"way": f"{kind} {way}"})
                assert 0 <= found["records"] <= 3_000
                assert found["seconds"] > 0
