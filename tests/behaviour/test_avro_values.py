"""Avro's serializer and deserializer bound to the clients: the wait for a schema, errors, keys and values."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from pyconsumer import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.aio import AsyncKafkaConsumer, AsyncKafkaProducer
from pyconsumer.errors import (
    KafkaTimeoutError,
    RecordDeserializationError,
    SchemaUnavailableError,
    SerializationError,
)
from pyconsumer.generic import PendingError
from pyconsumer.schemas import (
    AvroDeserializer,
    AvroSerializer,
    SchemaRegistryUnavailableError,
    header_schema_id_serializer,
)
from tests.support.cluster import Cluster
from tests.support.fake_registry import FakeRegistry

pytestmark = pytest.mark.usefixtures("cluster")

ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.open.set()  # no thread is left behind


def fill(cluster: Cluster, topic: str, *values: bytes) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value, partition=0)


def framed(schema_id: int, number: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + bytes([2 * number])


def send(producer: KafkaProducer[Any, Any], topic: str) -> Any:
    """Send a value, again as often as the registry is too slow."""
    while True:
        with contextlib.suppress(KafkaTimeoutError):
            return producer.send(topic, {"id": 1})


def new_consumer(cluster: Cluster, topic: str, registry: FakeRegistry, **settings: Any) -> KafkaConsumer[Any, Any]:
    return KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        value_deserializer=AvroDeserializer(registry),
        **settings,
    )


def read(consumer: KafkaConsumer[Any, Any]) -> list[Any]:
    """Poll until a poll returns records."""
    while not (found := consumer.poll(10_000)):
        pass
    return [record.value for record in found.records()]


@pytest.mark.parametrize("header", [False, True])
def test_keys_and_values_go_there_and_back(cluster: Cluster, topic: str, registry: FakeRegistry, header: bool) -> None:
    conf = {"schema.id.serializer": header_schema_id_serializer} if header else {}
    serializers = {
        "key_serializer": AvroSerializer(registry, '"string"', conf=conf),
        "value_serializer": AvroSerializer(registry, ORDER, conf=conf),
    }
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **serializers) as producer:
        producer.send(topic, {"id": 1}, "k", [("own", b"x")])
        producer.send(topic, None, "k")
    both = AvroDeserializer(registry)
    with KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        key_deserializer=both,
        value_deserializer=both,
    ) as consumer:
        found: list[Any] = []
        while len(found) < 2:
            found += consumer.poll(10_000).records()
    assert [(record.key, record.value) for record in found] == [("k", {"id": 1}), ("k", None)]
    names = [name for name, _ in found[0].headers]
    assert names == (["own", "__key_schema_id", "__value_schema_id"] if header else ["own"])


def test_a_poll_waits_for_a_schema_and_the_position_stays(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    registry.add("v", ORDER)
    registry.add("w", '"int"')
    fill(cluster, topic, framed(1, 7), framed(2, 8))
    with new_consumer(cluster, topic, registry, schema_timeout_ms=0) as consumer:
        registry.open.clear()
        while not registry.entered.acquire(blocking=False):
            assert not consumer.poll(0)
        assert not consumer.poll(0)
        assert consumer.position(TopicPartition(topic, 0)) == 0
        registry.open.set()
        found = read(consumer)
        while len(found) < 2:  # the second schema may come in the same poll, or in a later one
            found += read(consumer)
        assert found == [{"id": 7}, 8]
        assert consumer.position(TopicPartition(topic, 0)) == 2
    assert registry.calls == ["id 1", "id 2"]


def test_a_waiting_poll_goes_on_as_soon_as_the_schema_comes(
    cluster: Cluster, topic: str, registry: FakeRegistry
) -> None:
    registry.add("v", ORDER)
    fill(cluster, topic, framed(1, 7))
    registry.open.clear()

    def release() -> None:
        registry.entered.acquire()
        registry.open.set()

    thread = threading.Thread(target=release)
    with new_consumer(cluster, topic, registry) as consumer:
        thread.start()
        assert [record.value for record in consumer.poll(60_000).records()] == [{"id": 7}]
        thread.join()


def test_iteration_waits_too(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    registry.add("v", ORDER)
    fill(cluster, topic, framed(1, 7), framed(1, 8))
    with new_consumer(cluster, topic, registry) as consumer:
        assert [next(consumer).value for _ in range(2)] == [{"id": 7}, {"id": 8}]


def test_a_registry_that_is_down_is_a_retriable_error_and_no_record_is_skipped(
    cluster: Cluster, topic: str, registry: FakeRegistry
) -> None:
    registry.add("v", ORDER)
    fill(cluster, topic, framed(1, 7))
    registry.error = SchemaRegistryUnavailableError(-1, -1, "refused")
    with new_consumer(cluster, topic, registry, on_record_error="skip") as consumer:
        for _ in range(2):
            with pytest.raises(SchemaUnavailableError, match=rf"{topic}.*offset 0 .*the schema 1: refused") as caught:
                read(consumer)
            assert caught.value.retriable
            assert consumer.position(TopicPartition(topic, 0)) == 0
        registry.error = None
        assert read(consumer) == [{"id": 7}]


def heartbeats(consumer: KafkaConsumer[Any, Any]) -> float:
    return consumer.metrics()["consumer-coordinator-metrics"]["heartbeat-total"] or 0.0


def test_heartbeats_go_on_while_a_poll_waits_for_a_registry(
    cluster: Cluster, topic: str, registry: FakeRegistry
) -> None:
    """The poll waits longer than ``max_poll_interval_ms``, and the member keeps its place in the group."""
    registry.add("v", ORDER)
    fill(cluster, topic, framed(1, 7))
    lost: list[Any] = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, partitions: Any) -> None:
            pass

        def on_partitions_revoked(self, partitions: Any) -> None:
            lost.append(partitions)

    consumer: KafkaConsumer[Any, Any] = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        value_deserializer=AvroDeserializer(registry),
        group_id=f"{topic}-group",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=200,
        max_poll_interval_ms=1500,
    )
    with consumer:
        consumer.subscribe([topic], listener=Listener())
        registry.open.clear()
        while not registry.entered.acquire(blocking=False):
            consumer.poll(100)
        member = consumer.group_metadata()
        before = heartbeats(consumer)
        began = time.monotonic()
        assert not consumer.poll(2500)
        assert time.monotonic() - began > 2.4
        assert heartbeats(consumer) >= before + 5
        registry.open.set()
        assert read(consumer) == [{"id": 7}]
        consumer.commit()
        assert consumer.group_metadata() == member
        assert lost == []


def test_bad_values_go_to_the_policy_with_topic_offset_and_id(
    cluster: Cluster, topic: str, registry: FakeRegistry
) -> None:
    registry.add("v", ORDER)
    fill(cluster, topic, framed(1, 7), b"{}", framed(9, 1), framed(1, 8) + b"\0", framed(1, 9))
    seen: list[RecordDeserializationError] = []
    with new_consumer(cluster, topic, registry, on_record_error=lambda error: seen.append(error)) as consumer:
        found: list[Any] = []
        while len(found) < 2:
            found += read(consumer)
    assert found == [{"id": 7}, {"id": 9}]
    assert [error.offset for error in seen] == [1, 2, 3]
    for error, text in zip(
        seen, ("7b 7d", "does not have the schema 9", "the schema 1: 1 bytes are left"), strict=True
    ):
        assert topic in str(error)
        assert text in str(error)


def test_a_loop_runs_on_while_a_schema_is_awaited(cluster: Cluster, topic: str, registry: FakeRegistry) -> None:
    registry.add("v", ORDER)
    registry.open.clear()

    async def run() -> None:
        producer = AsyncKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, value_serializer=AvroSerializer(registry, ORDER)
        )
        consumer = AsyncKafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            value_deserializer=AvroDeserializer(registry),
        )
        async with producer, consumer:
            for call in (producer.send(topic, {"id": 7}), consumer.poll(60_000)):
                registry.open.clear()
                task = asyncio.ensure_future(call)
                await asyncio.to_thread(registry.entered.acquire)
                assert not task.done()
                registry.open.set()  # reached only if the loop runs while the task waits
                found = await task
                await producer.flush()
            assert [record.value for record in found.records()] == [{"id": 7}]

    asyncio.run(run())


def test_a_send_waits_for_the_registry_at_most_max_block_ms(
    cluster: Cluster, topic: str, registry: FakeRegistry
) -> None:
    registry.open.clear()
    serializer = AvroSerializer(registry, ORDER)
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, value_serializer=serializer, max_block_ms=50
    ) as producer:
        with pytest.raises(KafkaTimeoutError, match=rf"Avro schema of the topic '{topic}'.*max_block_ms"):
            producer.send(topic, {"id": 1})
        registry.error = SchemaRegistryUnavailableError(-1, -1, "refused")
        registry.open.set()
        with pytest.raises(SchemaUnavailableError, match="refused"):
            send(producer, topic)
        registry.error = None
        assert send(producer, topic).get(30) is not None
        with pytest.raises(SerializationError, match=r"the value_serializer raised for topic .*id: 'x'"):
            producer.send(topic, {"id": "x"})


class _NeedsSchema:
    """A serializer that adds a header, and one that first needs something."""

    def __init__(self, header: str, arrival: Future[None] | None = None) -> None:
        self.header = header
        self.arrival = arrival

    def bind(self, field: str) -> _NeedsSchema:
        return self

    def serialize(self, topic: str, headers: Any, data: bytes) -> tuple[bytes, list[tuple[str, bytes]]]:
        if self.arrival is not None and not self.arrival.done():
            threading.Timer(0.05, self.arrival.set_result, (None,)).start()
            raise PendingError(self.arrival, "a schema")
        return data, [(self.header, b"1")]


def test_each_serializer_adds_its_header_once_also_after_a_wait(cluster: Cluster, topic: str) -> None:
    settings = {"bootstrap_servers": cluster.bootstrap_servers}
    with KafkaProducer(
        **settings, key_serializer=_NeedsSchema("k"), value_serializer=_NeedsSchema("v", Future())
    ) as producer:
        producer.send(topic, b"v", key=b"k", headers=[("mine", b"0")])
        producer.flush()
    with KafkaConsumer(topic, **settings, auto_offset_reset="earliest") as consumer:
        (record,) = consumer.poll(timeout_ms=10_000).records()
    assert record.headers == [("mine", b"0"), ("k", b"1"), ("v", b"1")]
