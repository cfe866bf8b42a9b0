"""JSON and Protobuf values of a registry through the clients, and Confluent's classes around ours."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer
from pyconsumer.aio import AsyncKafkaConsumer
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.errors import RecordDeserializationError
from pyconsumer.schemas import (
    AvroDeserializer,
    AvroSerializer,
    IncompatibleSchemaError,
    InvalidSchemaError,
    JSONDeserializer,
    JSONSerializer,
    MessageField,
    ProtobufDeserializer,
    ProtobufSerializer,
    Schema,
    SchemaRegistryClient,
    SerializationContext,
    header_schema_id_serializer,
)
from tests.support.cluster import Cluster
from tests.support.fake_registry import FakeRegistry
from tests.support.proto_files import shop_class

ORDER = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]})

Make = Callable[[Any, dict[str, Any]], tuple[Any, Any, Any]]


def as_avro(registry: Any, conf: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return a serializer, a deserializer and a value."""
    return AvroSerializer(registry, '"long"', conf=conf), AvroDeserializer(registry), 7


def as_json(registry: Any, conf: dict[str, Any]) -> tuple[Any, Any, Any]:
    return JSONSerializer(ORDER, registry, conf=conf), JSONDeserializer(None, None, registry), {"id": 7}


def as_protobuf(registry: Any, conf: dict[str, Any]) -> tuple[Any, Any, Any]:
    kind = shop_class(0, 0)
    return ProtobufSerializer(kind, registry, conf), ProtobufDeserializer(kind, None, registry), kind(sku="é")


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.open.set()  # no thread is left behind


def poll(consumer: KafkaConsumer[Any, Any], count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        found += consumer.poll(10_000).records()
    return found


@pytest.mark.parametrize("header", [False, True], ids=["prefix", "header"])
@pytest.mark.parametrize("make", [as_json, as_protobuf])
def test_keys_and_values_go_there_and_back(
    cluster: Cluster, topic: str, fake: FakeRegistry, make: Make, header: bool
) -> None:
    serializer, both, value = make(fake, {"schema.id.serializer": header_schema_id_serializer} if header else {})
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, key_serializer=serializer, value_serializer=serializer
    ) as producer:
        producer.send(topic, value, value, partition=0)
        producer.send(topic, None, value, partition=0)
    with KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        key_deserializer=both,
        value_deserializer=both,
    ) as consumer:
        found = poll(consumer, 2)
    assert [(record.key, record.value) for record in found] == [(value, value), (value, None)]
    assert [name for name, _ in found[0].headers] == (["__key_schema_id", "__value_schema_id"] if header else [])


@pytest.mark.asyncio
@pytest.mark.parametrize("make", [as_json, as_protobuf])
async def test_on_an_event_loop(cluster: Cluster, topic: str, fake: FakeRegistry, make: Make) -> None:
    serializer, deserializer, value = make(fake, {})
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, value_serializer=serializer) as producer:
        producer.send(topic, value, partition=0)
    async with AsyncKafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        value_deserializer=deserializer,
    ) as consumer:
        found: list[Any] = []
        while not found:
            found += (await consumer.poll(10_000)).records()
    assert found[0].value == value


@pytest.mark.parametrize(
    ("make", "bad", "reason"),
    [
        (as_json, b'\0\0\0\0\1{"id": "x"}', r'the schema 1: \$\.id: "x" is not of type "integer"'),
        (as_protobuf, b"\0\0\0\0\2\4\0\0\x0a\5", "the schema 2: the bytes are no message of its type"),
    ],
)
def test_a_bad_value_is_an_error_at_its_position(
    cluster: Cluster, topic: str, fake: FakeRegistry, make: Make, bad: bytes, reason: str
) -> None:
    serializer, deserializer, value = make(fake, {})
    data = serializer(value, SerializationContext(topic, MessageField.VALUE))
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for each in (data, bad, data):
            producer.send(topic, each, partition=0)
    with KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        value_deserializer=deserializer,
    ) as consumer:
        assert [record.value for record in poll(consumer, 1)] == [value]
        with pytest.raises(RecordDeserializationError, match=reason) as raised:
            poll(consumer, 1)
        assert raised.value.offset == 1


# --- the embedded registry


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    with EmbeddedCluster(data_dir=":memory:", schema_registry=True) as cluster:
        assert cluster.schema_registry_url is not None
        yield cluster.schema_registry_url


@pytest.mark.embedded_only(reason="the registry is part of the embedded cluster")
@pytest.mark.parametrize("header", [False, True], ids=["prefix", "header"])
@pytest.mark.parametrize("make", [as_json, as_protobuf])
def test_confluents_classes_and_ours_on_the_embedded_registry(registry: str, make: Make, header: bool) -> None:
    theirs = pytest.importorskip("confluent_kafka.schema_registry")
    context = pytest.importorskip("confluent_kafka.serialization").SerializationContext
    topic = f"{make.__name__}-{header}"
    with (
        SchemaRegistryClient(registry) as client,
        theirs.SchemaRegistryClient({"url": registry}) as peer,
    ):
        serializer, deserializer, value = make(
            client, {"schema.id.serializer": header_schema_id_serializer} if header else {}
        )
        conf = {"schema.id.serializer": theirs.header_schema_id_serializer} if header else {}
        if make is as_json:
            module = pytest.importorskip("confluent_kafka.schema_registry.json_schema")
            write, read = module.JSONSerializer(ORDER, peer, conf=conf), module.JSONDeserializer(None, None, peer)
        else:
            module = pytest.importorskip("confluent_kafka.schema_registry.protobuf")
            write = module.ProtobufSerializer(type(value), peer, conf)
            read = module.ProtobufDeserializer(type(value), None, peer)
        mine, other = SerializationContext(topic, MessageField.VALUE, []), context(topic, "value", [])
        ours, data = serializer(value, mine), write(value, other)
        assert ours == data
        assert mine.headers == other.headers
        assert deserializer(data, mine) == value == read(ours, other)
        if make is as_protobuf:
            assert ProtobufDeserializer(None, None, client)(data, mine).sku == value.sku


@pytest.mark.embedded_only(reason="the registry is part of the embedded cluster")
@pytest.mark.parametrize("make", [as_avro, as_json, as_protobuf])
def test_producers_that_register_at_once_get_one_id(registry: str, make: Make) -> None:
    topic, many = f"at-once-{make.__name__}", 8
    barrier = threading.Barrier(many)

    def first_bytes(_: int) -> bytes:
        with SchemaRegistryClient(registry) as client:
            serializer, _reader, value = make(client, {})
            barrier.wait(30)
            data = serializer(value, SerializationContext(topic, MessageField.VALUE))
            assert data is not None
            return data[:5]  # type: ignore[no-any-return]

    with ThreadPoolExecutor(many) as threads:
        assert len(set(threads.map(first_bytes, range(many)))) == 1
    with SchemaRegistryClient(registry) as client:
        assert client.get_versions(f"{topic}-value") == [1]


@pytest.mark.embedded_only(reason="the registry is part of the embedded cluster")
def test_a_change_of_a_json_schema_is_checked(registry: str) -> None:
    def schema(**more: Any) -> Schema:
        return Schema(json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}, **more}), "JSON")

    with SchemaRegistryClient(registry) as client:
        client.register_schema("changes", schema(required=["id"]))
        assert client.test_compatibility("changes", schema())
        assert client.register_schema("changes", schema())
        with pytest.raises(IncompatibleSchemaError, match="REQUIRED_ATTRIBUTE_ADDED at #/required/id"):
            client.register_schema("changes", schema(required=["id"], title="new"))
        with pytest.raises(InvalidSchemaError, match=r"cannot be checked: .*#/not: no rule covers"):
            client.register_schema("changes", schema(**{"not": {}}))
