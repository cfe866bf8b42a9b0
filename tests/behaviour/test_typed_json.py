"""``poll_arrow(value=JSONDeserializer(...))``: columns of JSON, bad rows, tombstones, schemas that come late."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.errors import RecordDeserializationError
from pyconsumer.schemas import JSONDeserializer, JSONSerializer, Schema, header_schema_id_serializer
from tests.support.cluster import Cluster
from tests.support.fake_registry import FakeRegistry

pa = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.usefixtures("cluster")

ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 0},
        "customer": {"type": "object", "properties": {"name": {"type": "string"}}},
        "extra": {},
    },
    "required": ["id"],
}
GOOD = b'\0\0\0\0\1{"id": 1, "customer": {"name": "Ada"}, "extra": [1]}'
BAD = b'\0\0\0\0\1{"id": "x"}'


@pytest.fixture
def registry(topic: str) -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    made.add(f"{topic}-value", Schema(json.dumps(ORDER), "JSON"))
    yield made
    made.open.set()  # no thread is left behind


def fill(cluster: Cluster, topic: str, *values: bytes | None) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value, partition=0)


def new_consumer(cluster: Cluster, topic: str, **settings: Any) -> KafkaConsumer[Any, Any]:
    return KafkaConsumer(topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", **settings)


def read(consumer: KafkaConsumer[Any, Any], count: int, **arguments: Any) -> list[Any]:
    """Poll until there are that many rows."""
    found: list[Any] = []
    while len(found) < count:
        found += consumer.poll_arrow(10_000, **arguments).to_pylist()
    return found


def test_values_are_structs_and_a_tombstone_is_null(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    fill(cluster, topic, GOOD, None, b'\0\0\0\0\1{"id": 2.0}')
    with new_consumer(cluster, topic) as consumer:
        found = read(
            consumer, 3, value=JSONDeserializer(None, schema_registry_client=registry), columns=["offset", "value"]
        )
    assert found == [
        {"offset": 0, "value": {"id": 1, "customer": {"name": "Ada"}, "extra": "[1]"}},
        {"offset": 1, "value": None},
        {"offset": 2, "value": {"id": 2, "customer": None, "extra": None}},
    ]


def test_parts_headers_and_another_writers_schema(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    registry.add("other", Schema("{}", "JSON"))
    conf = {"schema.id.serializer": header_schema_id_serializer, "auto.register.schemas": False}
    serializer = JSONSerializer(json.dumps(ORDER), registry, conf=conf)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, value_serializer=serializer) as producer:
        producer.send(topic, {"id": 1, "customer": {"name": "Ada"}}, partition=0)
    fill(cluster, topic, b'\0\0\0\0\2{"id": 2}')
    deserializer = JSONDeserializer(json.dumps(ORDER), None, registry)
    with new_consumer(cluster, topic) as consumer:
        found = read(consumer, 2, value=deserializer, columns=["value.customer.name"])
    assert found == [{"value": {"customer": {"name": "Ada"}}}, {"value": {"customer": None}}]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (BAD, r'the schema 1: \$\.id: "x" is not of type "integer"'),
        (b'\0\0\0\0\1{"id": -1}', "less than the minimum"),
        (b"\0\0\0\0\1{", "the schema 1: the bytes are no JSON document"),
        (b"{}", "does not begin with a schema's id"),
        (b"\0\0\0\0\x09{}", "does not have the schema 9"),
    ],
)
def test_the_rows_before_a_bad_one_come_first(
    cluster: Cluster, topic: str, registry: FakeRegistry, bad: bytes, reason: str
) -> None:
    fill(cluster, topic, GOOD, bad, GOOD)
    deserializer = JSONDeserializer(None, None, registry, {"validate": True})
    with new_consumer(cluster, topic) as consumer:
        assert len(read(consumer, 1, value=deserializer)) == 1
        with pytest.raises(RecordDeserializationError, match=reason) as raised:
            read(consumer, 1, value=deserializer)
        assert (raised.value.offset, raised.value.value) == (1, bad)
        consumer.seek(TopicPartition(topic, 0), 2)
        assert len(read(consumer, 1, value=deserializer)) == 1


def test_null_keeps_the_row_and_says_why(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    fill(cluster, topic, GOOD, b'\0\0\0\0\1{"id": -1}', BAD, None)
    deserializer = JSONDeserializer(None, None, registry)  # which checks types alone
    with new_consumer(cluster, topic, on_record_error="null") as consumer:
        found = read(consumer, 4, value=deserializer, columns=["value.id"])
    assert [row["value"] for row in found] == [{"id": 1}, {"id": -1}, None, None]
    reasons = [row["value_error"] for row in found]
    assert (reasons[0], reasons[1], reasons[3]) == (None, None, None)
    assert reasons[2] == "the schema 1: $.id: a value of str is no integer"


def test_a_schema_that_comes_late_stops_before_its_row(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    registry.add("other", Schema("{}", "JSON"))
    fill(cluster, topic, GOOD, b'\0\0\0\0\2{"id": 2}')
    deserializer = JSONDeserializer(json.dumps(ORDER), None, registry)
    with new_consumer(cluster, topic, schema_timeout_ms=0) as consumer:
        registry.open.clear()
        while not registry.entered.acquire(blocking=False):
            assert consumer.poll_arrow(0, value=deserializer).num_rows == 0
        assert consumer.position(TopicPartition(topic, 0)) == 0
        registry.open.set()
        assert [row["value"]["id"] for row in read(consumer, 2, value=deserializer)] == [1, 2]
