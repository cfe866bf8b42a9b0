"""``poll_arrow(value=ProtobufDeserializer(...))``: columns of Protobuf, bad rows, tombstones, paths, headers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.errors import ConfigurationError, RecordDeserializationError
from pyconsumer.schemas import ProtobufDeserializer, ProtobufSerializer, header_schema_id_serializer
from tests.support.cluster import Cluster
from tests.support.fake_registry import FakeRegistry
from tests.support.proto_files import shop_class

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.usefixtures("cluster")

ORDER, LINE, OTHER = shop_class(0), shop_class(0, 0), shop_class(1)
COLUMNS = ["offset", "value.id", "value.lines.sku", "value.counts", "value.card"]


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.open.set()  # no thread is left behind


def send(cluster: Cluster, topic: str, registry: FakeRegistry, *messages: Any, **conf: Any) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for message in messages:
            if isinstance(message, (bytes, type(None))):
                producer.send(topic, message, partition=0)
                continue
            serializer = ProtobufSerializer(type(message), registry, conf)
            with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, value_serializer=serializer) as typed:
                producer.flush()
                typed.send(topic, message, partition=0)


def new_consumer(cluster: Cluster, topic: str, **settings: Any) -> KafkaConsumer[Any, Any]:
    return KafkaConsumer(topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", **settings)


def read(consumer: KafkaConsumer[Any, Any], count: int, **arguments: Any) -> list[Any]:
    """Poll until there are that many rows."""
    found: list[Any] = []
    while len(found) < count:
        found += consumer.poll_arrow(10_000, **arguments).to_pylist()
    return found


@pytest.mark.parametrize("with_class", [True, False], ids=["class", "registry"])
def test_values_are_structs_and_a_tombstone_is_null(
    cluster: Cluster, topic: str, registry: FakeRegistry, with_class: bool
) -> None:
    order = ORDER(id=1, lines=[LINE(sku="a"), LINE(sku="b")], counts={"x": 2}, card="c")
    send(cluster, topic, registry, order, None, ORDER())
    deserializer = ProtobufDeserializer(ORDER if with_class else None, None, registry)
    with new_consumer(cluster, topic) as consumer:
        found = read(consumer, 3, value=deserializer, columns=COLUMNS)
    assert found == [
        {
            "offset": 0,
            "value": {"id": 1, "lines": [{"sku": "a"}, {"sku": "b"}], "counts": [("x", 2)], "card": "c"},
        },
        {"offset": 1, "value": None},
        {"offset": 2, "value": {"id": 0, "lines": [], "counts": [], "card": None}},
    ]


def test_a_class_reads_each_path_and_ids_in_headers(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    send(cluster, topic, registry, LINE(sku="a"))
    conf = {"schema.id.serializer": header_schema_id_serializer}
    send(cluster, topic, registry, LINE(sku="b"), **conf)
    send(cluster, topic, registry, b"\0\0\0\0\2\2\0\x0a\1c")  # another path of the same bytes
    with new_consumer(cluster, topic) as consumer:
        found = read(consumer, 3, value=ProtobufDeserializer(LINE, None, registry), columns=["value.sku"])
    assert [row["value"]["sku"] for row in found] == ["a", "b", "c"]


def test_without_a_registry_the_id_is_skipped(cluster: Cluster, topic: str) -> None:
    send(cluster, topic, FakeRegistry(), b"\0\0\0\0\x63\0\x08\5")
    with new_consumer(cluster, topic) as consumer:
        found = read(consumer, 1, value=ProtobufDeserializer(ORDER), columns=["value.id"])
    assert found == [{"value": {"id": 5}}]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"\0\0\0\0\2\0\x08", "the bytes end within a number"),
        (b"\0\0\0\0\2\0\x32\1\xff", r"note: the text is no UTF-8"),
        (b"\0\0\0\0\2\2\2", r"a message of the type \[1\] of its file, and the columns are those of \[0\]"),
        (b"\x08\1", "does not begin with a schema's id"),
        (b"\0\0\0\0\x09\0", "does not have the schema 9"),
    ],
)
def test_the_rows_before_a_bad_one_come_first(
    cluster: Cluster, topic: str, registry: FakeRegistry, bad: bytes, reason: str
) -> None:
    send(cluster, topic, registry, ORDER(id=1), bad, ORDER(id=2))
    deserializer = ProtobufDeserializer(None, None, registry)
    with new_consumer(cluster, topic) as consumer:
        assert len(read(consumer, 1, value=deserializer)) == 1
        with pytest.raises(RecordDeserializationError, match=reason) as raised:
            read(consumer, 1, value=deserializer)
        assert (raised.value.offset, raised.value.value) == (1, bad)
        consumer.seek(TopicPartition(topic, 0), 2)
        assert len(read(consumer, 1, value=deserializer)) == 1


def test_null_keeps_the_row_and_says_why(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    send(cluster, topic, registry, ORDER(id=1), b"\0\0\0\0\2\0\x0a\5x", None)
    with new_consumer(cluster, topic, on_record_error="null") as consumer:
        found = read(consumer, 3, value=ProtobufDeserializer(ORDER, None, registry), columns=["value.id"])
    assert [row["value"] for row in found] == [{"id": 1}, None, None]
    reasons = [row["value_error"] for row in found]
    assert (reasons[0], reasons[2]) == (None, None)
    assert "5 bytes are announced, and 1 are left" in reasons[1]


def test_a_schema_that_comes_late_stops_before_its_row(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    send(cluster, topic, registry, ORDER(id=1))
    deserializer = ProtobufDeserializer(ORDER, None, registry)
    with new_consumer(cluster, topic, schema_timeout_ms=0) as consumer:
        registry.open.clear()
        while registry.entered.acquire(blocking=False):  # the calls of the serializer
            pass
        while not registry.entered.acquire(blocking=False):
            assert consumer.poll_arrow(0, value=deserializer).num_rows == 0
        assert consumer.position(TopicPartition(topic, 0)) == 0
        registry.open.set()
        assert [row["value"]["id"] for row in read(consumer, 1, value=deserializer)] == [1]


def test_a_message_within_itself_is_refused_but_for_its_parts(
    cluster: Cluster, topic: str, registry: FakeRegistry
) -> None:
    from google.protobuf.struct_pb2 import Value

    send(cluster, topic, registry, Value(string_value="x"))
    with new_consumer(cluster, topic) as consumer:
        deserializer = ProtobufDeserializer(Value, None, registry)
        with pytest.raises(ConfigurationError, match="which has no columns"):
            read(consumer, 1, value=deserializer)
        assert read(consumer, 1, value=deserializer, columns=["value.string_value"]) == [
            {"value": {"string_value": "x"}}
        ]
