"""``poll_arrow(key=..., value=...)``: typed columns, bad rows, tombstones, schemas that come late."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.aio import AsyncKafkaConsumer
from pyconsumer.consumer.typed_arrow import TypedRows
from pyconsumer.errors import ConfigurationError, RecordDeserializationError, SchemaUnavailableError
from pyconsumer.schemas import AvroDeserializer, AvroSerializer, header_schema_id_serializer
from tests.support.cluster import Cluster
from tests.support.fake_registry import FakeRegistry
from tests.support.process import run

pa = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.usefixtures("cluster")

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {
                "name": "customer",
                "type": {"type": "record", "name": "C", "fields": [{"name": "name", "type": "string"}]},
            },
        ],
    }
)
#: A record with a field of each type.
ALL_TYPES = json.dumps(
    {
        "type": "record",
        "name": "All",
        "fields": [
            {"name": name, "type": kind}
            for name, kind in {
                "null": "null",
                "boolean": "boolean",
                "int": "int",
                "long": "long",
                "float": "float",
                "double": "double",
                "bytes": "bytes",
                "string": ["null", "string"],
                "enum": {"type": "enum", "name": "E", "symbols": ["A", "B"]},
                "fixed": {"type": "fixed", "name": "F", "size": 2},
                "decimal": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
                "uuid": {"type": "string", "logicalType": "uuid"},
                "date": {"type": "int", "logicalType": "date"},
                "time": {"type": "long", "logicalType": "time-micros"},
                "timestamp": {"type": "long", "logicalType": "timestamp-millis"},
                "duration": {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
                "list": {"type": "array", "items": "int"},
                "map": {"type": "map", "values": "string"},
                "union": ["int", "string"],
            }.items()
        ],
    }
)
#: Its fields in order: those of no byte, of one, and so on.
ONE_OF_ALL_TYPES = (
    b"\1\2\2" + bytes(4 + 8) + b"\2x\2\2x\2ab\2\1" + b"\x48" + b"00000000-0000-0000-0000-000000000000"
    b"\2\2\2" + bytes(12) + b"\2\2\0" + b"\2\2k\2v\0" + b"\0\2"
)
BAD = b"\0\0\0\0\x01\x02"  # it ends within the customer


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.open.set()  # no thread is left behind


def order(number: int, schema_id: int = 1) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + bytes([2 * number, 2, 97 + number])


def fill(cluster: Cluster, topic: str, *values: bytes | None) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value, partition=0)


def new_consumer(cluster: Cluster, topic: str, **settings: Any) -> KafkaConsumer[Any, Any]:
    return KafkaConsumer(topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", **settings)


def read(consumer: KafkaConsumer[Any, Any], count: int, **arguments: Any) -> list[Any]:
    """Poll until there are that many rows. Return the batches."""
    found: list[Any] = []
    while sum(batch.num_rows for batch in found) < count:
        found.append(consumer.poll_arrow(10_000, **arguments))
    return [batch for batch in found if batch.num_rows]


def values_of(batches: list[Any]) -> list[Any]:
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def test_values_are_structs_and_a_tombstone_is_null(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    registry.add(f"{topic}-value", ORDER)
    fill(cluster, topic, order(1), None, order(2))
    with new_consumer(cluster, topic) as consumer:
        deserializer = AvroDeserializer(registry)
        empty = consumer.poll_arrow(0, value=deserializer)
        batches = read(consumer, 3 - empty.num_rows, value=deserializer)
        found = values_of([empty, *batches])
        assert found == [{"id": 1, "customer": {"name": "b"}}, None, {"id": 2, "customer": {"name": "c"}}]
        assert consumer.position(TopicPartition(topic, 0)) == 3
        last = consumer.poll_arrow(0, value=deserializer)
    assert empty.schema == batches[0].schema == last.schema
    assert last.num_rows == 0
    kind = batches[0].schema.field("value").type
    assert kind == pa.struct(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("customer", pa.struct([pa.field("name", pa.string(), nullable=False)]), nullable=False),
        ]
    )


def test_parts_are_named_by_paths(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    registry.add(f"{topic}-value", ORDER)
    fill(cluster, topic, order(1), order(2))
    with new_consumer(cluster, topic) as consumer:
        deserializer = AvroDeserializer(registry)
        batch = read(consumer, 2, value=deserializer, columns=["offset", "value.customer.name"])[0]
        assert batch.schema.names == ["offset", "value"]
        assert batch.column("value").to_pylist() == [{"customer": {"name": "b"}}, {"customer": {"name": "c"}}]
        with pytest.raises(ConfigurationError, match="'price'"):
            consumer.poll_arrow(0, value=deserializer, columns=["value.price"])
        with pytest.raises(ValueError, match="twice"):
            consumer.poll_arrow(0, value=deserializer, columns=["value.id", "value.id"])
        with pytest.raises(ValueError, match="beside its whole"):
            consumer.poll_arrow(0, value=deserializer, columns=["value.customer", "value.customer.name"])
        with pytest.raises(ValueError, match="one or more"):
            consumer.poll_arrow(0, value=deserializer, columns=[])
        assert consumer.position(TopicPartition(topic, 0)) == 2


def test_a_bad_row_is_raised_after_the_good_ones(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    registry.add(f"{topic}-value", ORDER)
    fill(cluster, topic, order(1), order(2), BAD, order(3))
    tp = TopicPartition(topic, 0)
    with new_consumer(cluster, topic, group_id=f"{topic}-group", enable_auto_commit=False) as consumer:
        deserializer = AvroDeserializer(registry)
        assert len(values_of(read(consumer, 2, value=deserializer))) == 2
        for _ in range(2):
            with pytest.raises(RecordDeserializationError, match=r"customer\.name") as caught:
                consumer.poll_arrow(10_000, value=deserializer)
            assert (caught.value.offset, caught.value.value, caught.value.origin) == (2, BAD, "value")
            assert consumer.position(tp) == 2
        consumer.commit()
        committed = consumer.committed(tp, metadata=True)
        assert committed is not None
        assert (committed.offset, committed.leader_epoch >= 0) == (2, True), "the epoch of the last good row"
        consumer.seek(tp, 3)
        assert [value["id"] for value in values_of(read(consumer, 1, value=deserializer))] == [3]


@pytest.mark.parametrize("policy", ["skip", "function", "sink"])
def test_a_bad_row_is_left_out(cluster: Cluster, topic: str, registry: FakeRegistry, policy: str) -> None:
    registry.add(f"{topic}-value", ORDER)
    fill(cluster, topic, order(1), BAD, b"text", order(2, 9), order(3))
    seen: list[RecordDeserializationError] = []

    class Sink:
        def send(self, error: RecordDeserializationError) -> None:
            seen.append(error)

    policies: dict[str, Any] = {"skip": "skip", "function": seen.append, "sink": Sink()}
    with new_consumer(cluster, topic, on_record_error=policies[policy]) as consumer:
        batches = read(consumer, 2, value=AvroDeserializer(registry))
        assert [value["id"] for value in values_of(batches)] == [1, 3]
        assert [number for batch in batches for number in batch.column("offset").to_pylist()] == [0, 4]
        assert consumer.position(TopicPartition(topic, 0)) == 5
    if policy != "skip":
        assert [(error.offset, error.value) for error in seen] == [(1, BAD), (2, b"text"), (3, order(2, 9))]


def test_null_keeps_the_row_and_the_reason(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    registry.add(f"{topic}-value", ORDER)
    fill(cluster, topic, order(1), BAD, None)
    with new_consumer(cluster, topic, on_record_error="null") as consumer:
        batches = read(consumer, 3, value=AvroDeserializer(registry), columns=["value"])
        assert [value is None for value in values_of(batches)] == [False, True, True]
        reasons = [reason for batch in batches for reason in batch.column("value_error").to_pylist()]
        assert [reason is None for reason in reasons] == [True, False, True]
        assert "customer.name" in reasons[1]


def test_null_is_not_for_objects(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    with pytest.raises(ConfigurationError, match="poll_arrow"):
        new_consumer(cluster, topic, on_record_error="null", value_deserializer=AvroDeserializer(registry))


def test_topics_with_different_schemas_are_named(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    other = f"{topic}-2"
    registry.add(f"{topic}-value", ORDER)
    registry.add(f"{other}-value", '"int"')
    with KafkaConsumer(topic, other, bootstrap_servers=cluster.bootstrap_servers) as consumer:
        with pytest.raises(ConfigurationError, match="schema_str") as caught:
            consumer.poll_arrow(0, value=AvroDeserializer(registry))
        assert topic in str(caught.value)
        assert other in str(caught.value)
        assert (
            consumer.poll_arrow(0, value=AvroDeserializer(registry, '"long"')).schema.field("value").type == pa.int64()
        )


def test_a_later_schema_is_read_as_the_first(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    registry.add(f"{topic}-value", ORDER)
    registry.add("other", '{"type":"record","name":"Order","fields":[{"name":"id","type":"int"}]}')
    fields = [{"name": "id", "type": "double"}, {"name": "n", "type": "int", "default": 7}]
    reader = json.dumps({"type": "record", "name": "Order", "fields": fields})
    fill(cluster, topic, order(1), b"\0\0\0\0\x02\x04", order(3))
    with new_consumer(cluster, topic) as consumer:
        found = values_of(read(consumer, 3, value=AvroDeserializer(registry, reader)))
    assert found == [{"id": 1.0, "n": 7}, {"id": 2.0, "n": 7}, {"id": 3.0, "n": 7}]


@pytest.mark.parametrize("header", [False, True])
def test_keys_are_typed_too(cluster: Cluster, topic: str, registry: FakeRegistry, header: bool) -> None:
    conf = {"schema.id.serializer": header_schema_id_serializer} if header else {}
    serializers = {
        "key_serializer": AvroSerializer(registry, '"string"', conf=conf),
        "value_serializer": AvroSerializer(registry, ORDER, conf=conf),
    }
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **serializers) as producer:
        producer.send(topic, {"id": 1, "customer": {"name": "a"}}, "k", [("own", b"x")])
        producer.send(topic, None, "k")
    both = AvroDeserializer(registry)
    with new_consumer(cluster, topic) as consumer:
        batches = read(consumer, 2, key=both, value=both)
    assert [key for batch in batches for key in batch.column("key").to_pylist()] == ["k", "k"]
    assert [value and value["id"] for value in values_of(batches)] == [1, None]


def test_bytes_whose_schema_a_header_names_have_no_id(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    registry.add(f"{topic}-value", ORDER)
    conf = {"schema.id.serializer": header_schema_id_serializer}
    serializer = AvroSerializer(registry, ORDER, conf=conf)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, value_serializer=serializer) as producer:
        producer.send(topic, {"id": 0, "customer": {"name": "name"}}, partition=0)  # it begins with a zero, as ids do
    fill(cluster, topic, order(1))
    asked = len(registry.calls)
    with new_consumer(cluster, topic) as consumer:
        batches = read(consumer, 2, value=AvroDeserializer(registry))
    assert [value["id"] for value in values_of(batches)] == [0, 1]
    assert {call for call in registry.calls[asked:] if call.startswith("id ")} <= {"id 1"}


def test_the_position_stays_while_a_schema_is_awaited(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    registry.add("other", ORDER)
    fill(cluster, topic, order(1))
    deserializer = AvroDeserializer(registry, ORDER)
    with new_consumer(cluster, topic, schema_timeout_ms=0) as consumer:
        registry.open.clear()
        while not registry.entered.acquire(blocking=False):
            assert consumer.poll_arrow(0, value=deserializer).num_rows == 0
        assert consumer.position(TopicPartition(topic, 0)) == 0
        registry.open.set()
        assert [value["id"] for value in values_of(read(consumer, 1, value=deserializer))] == [1]


def settle(consumer: KafkaConsumer[Any, Any], deserializer: AvroDeserializer) -> None:
    """Poll until the schema of the result is known. No row can be read by then."""
    while True:
        try:
            assert consumer.poll_arrow(0, value=deserializer).num_rows == 0
        except SchemaUnavailableError:
            continue
        return


def test_rows_that_wait_are_not_decoded_at_each_wake(
    cluster: Cluster, topic: str, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.add(f"{topic}-value", ORDER)
    registry.add("second", ORDER.replace('"long"', '"int"'))
    fill(cluster, topic, *[order(number % 20, 2) for number in range(200)])
    decoded: list[int] = []
    accept = TypedRows.accept

    def counted(self: TypedRows, fetch: Any, builder: Any, start: int) -> Any:
        decoded.append(start)
        return accept(self, fetch, builder, start)

    monkeypatch.setattr(TypedRows, "accept", counted)
    with new_consumer(cluster, topic, schema_timeout_ms=0) as consumer:
        deserializer = AvroDeserializer(registry)
        settle(consumer, deserializer)
        registry.open.clear()
        while not decoded:
            assert consumer.poll_arrow(100, value=deserializer).num_rows == 0
        for _ in range(20):
            assert consumer.poll_arrow(5, value=deserializer).num_rows == 0
        assert decoded == [0]
        assert consumer.position(TopicPartition(topic, 0)) == 0
        other = AvroDeserializer(registry)  # it has schemas of its own, so it is asked
        registry.open.set()
        assert len(values_of(read(consumer, 200, value=other))) == 200
        assert len(decoded) >= 2


def test_the_schema_of_the_result_is_awaited(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    registry.add(f"{topic}-value", ORDER)
    deserializer = AvroDeserializer(registry)
    with new_consumer(cluster, topic, schema_timeout_ms=0) as consumer:
        registry.open.clear()
        with pytest.raises(SchemaUnavailableError, match="Poll again") as caught:
            consumer.poll_arrow(0, value=deserializer)
        assert caught.value.retriable
        registry.open.set()


def test_on_an_event_loop(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    registry.add(f"{topic}-value", ORDER)
    fill(cluster, topic, order(1), None, order(2))

    async def run() -> list[Any]:
        deserializer = AvroDeserializer(registry)
        found: list[Any] = []
        async with AsyncKafkaConsumer(
            topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            while len(found) < 3:
                batch = await consumer.poll_arrow(10_000, value=deserializer)
                found += batch.column("value").to_pylist()
        return found

    assert [value and value["id"] for value in asyncio.run(run())] == [1, None, 2]


def test_a_first_batch_of_all_types_with_a_bad_row_imports_neither_pandas_nor_compute_functions(
    cluster: Cluster, topic: str
) -> None:
    """Both take 0.3 s and 60 MB, and ``pyarrow.array`` imports them."""
    fill(cluster, topic, b"\0\0\0\0\1" + ONE_OF_ALL_TYPES, b"bad")
    program = f"""
import sys
from pyconsumer.schemas import AvroDeserializer
from tests.behaviour.test_typed_arrow import ALL_TYPES, FakeRegistry, KafkaConsumer

registry = FakeRegistry()
registry.add("{topic}-value", ALL_TYPES)
settings = {{"auto_offset_reset": "earliest", "on_record_error": "null"}}
with KafkaConsumer("{topic}", bootstrap_servers="{cluster.bootstrap_servers}", **settings) as consumer:
    errors = []
    while len(errors) < 2:
        errors += consumer.poll_arrow(10_000, value=AvroDeserializer(registry)).column("value_error").to_pylist()
print([error is None for error in errors], "pandas" in sys.modules, "pyarrow.compute" in sys.modules)
"""
    done = run([sys.executable, "-c", program], timeout_s=60)
    assert done.check().stdout == "[True, False] False False\n"
