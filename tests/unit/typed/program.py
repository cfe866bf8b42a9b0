"""A program as users write it, for type checkers alone: it is never run.

``# reveals: TYPE`` stands beside an expression of that type, ``# error`` beside a line that a checker must reject.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from pyconsumer import (
    Consumer,
    ConsumerRebalanceListener,
    ConsumerRecord,
    ConsumerRecords,
    ConsumerSettings,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    Producer,
    ProducerSettings,
    TopicPartition,
    process_exactly_once,
    stop_on_signals,
)
from pyconsumer.aio import (
    AsyncConsumer,
    AsyncKafkaAdminClient,
    AsyncKafkaConsumer,
    AsyncKafkaProducer,
    AsyncProducer,
)
from pyconsumer.errors import KafkaError
from pyconsumer.testing import (
    AsyncMockConsumer,
    AsyncMockProducer,
    MockConsumer,
    MockProducer,
    make_record,
    make_records,
    poll_result,
)

if TYPE_CHECKING:
    from typing import reveal_type


class Order:
    """An object of the application."""

    def __init__(self, amount: int) -> None:
        self.amount = amount


def read_order(data: bytes) -> Order:
    return Order(int(json.loads(data)["amount"]))


def write_order(order: Order) -> bytes:
    return json.dumps({"amount": order.amount}).encode()


class Registry:
    """A deserializer and serializer that looks at topic and headers, too."""

    def deserialize(self, topic: str, headers: list[tuple[str, bytes | None]], data: bytes) -> Order:
        return read_order(data)

    def serialize(self, topic: str, headers: Sequence[tuple[str, bytes | None]] | None, data: Order) -> bytes:
        return write_order(data)


T0 = TopicPartition("orders", 0)

# --- consumers

plain = KafkaConsumer("orders", group_id="g", auto_offset_reset="earliest", max_poll_records=100)
reveal_type(plain)  # reveals: KafkaConsumer[bytes, bytes]
dotted = KafkaConsumer({"bootstrap.servers": "b:9092", "group.id": "g"}, "t")
reveal_type(dotted)  # reveals: KafkaConsumer[bytes, bytes]
reveal_type(KafkaConsumer(key_deserializer=bytes.decode))  # reveals: KafkaConsumer[str, bytes]
reveal_type(KafkaConsumer(value_deserializer=Registry()))  # reveals: KafkaConsumer[bytes, Order]

orders = KafkaConsumer(
    "orders",
    bootstrap_servers=["a:9092", ("b", 9092)],
    security_protocol="SASL_SSL",
    sasl_mechanism="SCRAM-SHA-512",
    partition_assignment_strategy=["cooperative-sticky"],
    key_deserializer=lambda data: data.decode(),
    value_deserializer=read_order,
)
reveal_type(orders)  # reveals: KafkaConsumer[str, Order]
records = orders.poll(timeout_ms=100)
reveal_type(records)  # reveals: ConsumerRecords[str, Order]
for record in records.records():
    reveal_type(record)  # reveals: ConsumerRecord[str, Order]
    reveal_type(record.key)  # reveals: str | None
    reveal_type(record.value)  # reveals: Order | None
    reveal_type(record.headers)  # reveals: list[tuple[str, bytes | None]]
for partition, found in records.items():
    reveal_type(partition)  # reveals: TopicPartition
    reveal_type(found)  # reveals: list[ConsumerRecord[str, Order]]
for record in orders:
    reveal_type(record)  # reveals: ConsumerRecord[str, Order]
reveal_type(orders.committed(T0))  # reveals: int | None
reveal_type(orders.committed(T0, metadata=True))  # reveals: OffsetAndMetadata | None
reveal_type(orders.committed([T0]))  # reveals: dict[TopicPartition, int | None]
reveal_type(orders.committed([T0], metadata=True))  # reveals: dict[TopicPartition, OffsetAndMetadata | None]
reveal_type(orders.metrics())  # reveals: dict[str, dict[str, float | None]]
reveal_type(orders.commit_async())  # reveals: RequestFuture[None]

KafkaConsumer("orders", grup_id="g")  # error
KafkaConsumer("orders", max_poll_records="many")  # error
KafkaConsumer("orders", isolation_level="comitted")  # error
KafkaConsumer("orders", key_deserializer="utf-8")  # error
orders.poll(timeout_ms="1 s")  # error
orders.seek("orders", 0)  # error


def total(consumer: Consumer[str, Order]) -> int:
    """Return a sum. A program that takes a ``Consumer`` can be tested with a ``MockConsumer``."""
    return sum(record.value.amount for record in consumer.poll(100).records() if record.value is not None)


def first_bytes(found: ConsumerRecord) -> bytes:
    return found.value or b""


total(orders)
total(plain)  # error
first_bytes(next(plain))
first_bytes(next(orders))  # error


def consumer_of(topic: str, **settings: Unpack[ConsumerSettings]) -> KafkaConsumer:
    """Return a consumer with the settings of the house."""
    return KafkaConsumer({"enable.auto.commit": False}, topic, **settings)


consumer_of("orders", fetch_min_bytes=1)
consumer_of("orders", fetch_min_byte=1)  # error


class Listener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        orders.commit()


class JavaListener(ConsumerRebalanceListener):
    """Its parameters have Java's names."""

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        orders.commit()

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        orders.seek_to_beginning(*partitions)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        pass


orders.subscribe(["orders"], listener=JavaListener())


def committed(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
    reveal_type(offsets)  # reveals: Mapping[TopicPartition, OffsetAndMetadata]


orders.subscribe(["orders"], listener=Listener())
orders.commit_async(callback=committed)
with stop_on_signals(orders) as stop:
    reveal_type(bool(stop))  # reveals: bool

# --- producers

raw = KafkaProducer(bootstrap_servers="b:9092", acks="all", compression_type="zstd")
raw.send("orders", "text", b"bytes")
raw.send("orders", None, key="tombstone")
raw.send("orders", {"a": 1})  # error
typed = KafkaProducer(key_serializer=str.encode, value_serializer=write_order)
reveal_type(typed)  # reveals: KafkaProducer[str, Order]
reveal_type(KafkaProducer(key_serializer=str.encode, value_serializer=Registry()))  # reveals: KafkaProducer[str, Order]
sent = typed.send("orders", Order(3), "k", headers=[("trace", b"1"), ("none", None)])
reveal_type(sent.get(timeout=1))  # reveals: RecordMetadata
typed.send("orders", "not an order")  # error
typed.send("orders", Order(3), 5)  # error
reveal_type(typed.send_many("orders", [Order(1), None]).get())  # reveals: list[SentRange]
dumped: KafkaProducer[str, dict[str, int]] = KafkaProducer(
    key_serializer=str.encode, value_serializer=lambda value: json.dumps(value).encode()
)
dumped.send("orders", {"amount": 3}, "k")
dumped.send("orders", ["amount"])  # error
loose = KafkaProducer(bootstrap_servers="b:9092", value_serializer=lambda v: json.dumps(v).encode())
loose.send("orders", {"amount": 3})
loose.send("orders", ["amount"], "k")
loose.send("orders", {"amount": 3}, key=5)  # error
loose_key = KafkaProducer(key_serializer=lambda k: k.encode(), value_serializer=write_order)
loose_key.send("orders", Order(3), "k")
loose_key.send("orders", "no order", "k")  # error
KafkaProducer(value_serializer=json.dumps)  # error
KafkaProducer(key_serializer=5)  # error


def producer_of(keys: Callable[[str], bytes] | None, **settings: Unpack[ProducerSettings]) -> Producer[str, Order]:
    """Return a producer. Without a serializer of keys they are text."""
    return KafkaProducer(key_serializer=keys, value_serializer=write_order, **settings)


mocked = MockProducer(value_serializer=lambda v: json.dumps(v).encode())
mocked.send("orders", {"amount": 3})
MockProducer().send("orders", {"amount": 3})  # error
KafkaProducer(acks=2)  # error
KafkaProducer(linger="5 ms")  # error


def invoices(batch: ConsumerRecords[str, Order]) -> list[tuple[str, bytes]]:
    return [("invoices", b"%d" % record.value.amount) for record in batch.records() if record.value is not None]


process_exactly_once(orders, raw, invoices)
process_exactly_once(plain, raw, invoices)  # error

# --- admin client

admin = KafkaAdminClient(bootstrap_servers="b:9092")
reveal_type(admin.list_topics())  # reveals: list[str]
KafkaAdminClient(bootstrap_server="b:9092")  # error


# --- asyncio


async def service() -> None:
    async with AsyncKafkaConsumer("orders", value_deserializer=read_order) as consumer:
        reveal_type(consumer)  # reveals: AsyncKafkaConsumer[bytes, Order]
        reveal_type(await consumer.poll(100))  # reveals: ConsumerRecords[bytes, Order]
        async for record in consumer:
            reveal_type(record.value)  # reveals: Order | None
        reveal_type(await consumer.committed(T0))  # reveals: int | None
        AsyncKafkaConsumer("orders", grup_id="g")  # error
    async with AsyncKafkaProducer(value_serializer=write_order) as producer:
        reveal_type(await producer.send_and_wait("orders", Order(1), b"k"))  # reveals: RecordMetadata
        await producer.send("orders", "no order")  # error
    async with AsyncKafkaProducer(
        key_serializer=lambda k: k.encode(), value_serializer=lambda v: json.dumps(v).encode()
    ) as dumping:
        await dumping.send("orders", {"amount": 3}, "k")
    async with AsyncKafkaProducer(value_serializer=lambda v: json.dumps(v).encode()) as dumping_values:
        await dumping_values.send_and_wait("orders", {"amount": 3}, b"k")
        await dumping_values.send("orders", {"amount": 3}, 5)  # error
        AsyncKafkaProducer(acks="every")  # error
    async with AsyncKafkaAdminClient(bootstrap_servers="b:9092") as client:
        reveal_type(await client.list_topics())  # reveals: list[str]


serve: Callable[[], object] = service

# --- tests of it

fake: MockConsumer[str, Order] = MockConsumer("earliest")
fake.add_record(make_record("orders", Order(3), "k"))
fake.add_records(make_records("orders", [Order(3), None], ["k", "l"], first_offset=1))
fake.add_record(make_record("orders", 3, "k"))  # error
total(fake)
total(MockConsumer[str, str]())  # error
reveal_type(MockConsumer(value_deserializer=read_order))  # reveals: MockConsumer[bytes, Order]
reveal_type(make_record("orders", Order(3), "k"))  # reveals: ConsumerRecord[str, Order]
reveal_type(poll_result(make_records("orders", [Order(3)], ["k"])))  # reveals: ConsumerRecords[str, Order]


def send_order(producer: Producer[str, Order]) -> None:
    producer.send("orders", Order(1), "k")


send_order(typed)
send_order(MockProducer(key_serializer=str.encode, value_serializer=write_order))
send_order(raw)  # error


async def test_the_service(consumer: AsyncConsumer[str, Order], producer: AsyncProducer[str, Order]) -> None:
    reveal_type(await consumer.poll())  # reveals: ConsumerRecords[str, Order]
    await producer.send("orders", Order(1), "k")


async def both() -> None:
    mocks: AsyncMockConsumer[str, Order] = AsyncMockConsumer()
    sink: AsyncMockProducer[str, Order] = AsyncMockProducer()
    await test_the_service(mocks, sink)
    await test_the_service(sink, mocks)  # error
