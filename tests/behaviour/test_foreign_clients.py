"""Other clients read our records, and we read theirs, on every broker: librdkafka, aiokafka, kafka-python.

The same clients among themselves on the embedded broker: ``test_broker_clients.py``.
"""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from tests.support.cluster import Cluster

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # the foreign clients' own
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

MakeTopic = Callable[..., str]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Record(NamedTuple):
    """A record as all clients see it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


#: A null key, a null value, an empty one, headers, a large record, and enough others for several batches.
RECORDS = [
    Record(None, b"no key", (), 1_700_000_000_000),
    Record(b"tombstone", None, (), 1_700_000_000_001),
    Record(b"", b"", (("h", b""), ("h", b"twice")), 1_700_000_000_002),
    Record(b"large", bytes(range(256)) * 1000, (("trace", b"\x00\xff"),), 1_700_000_000_003),
    *(Record(b"k%d" % n, b"value %d" % n * 5, (), 1_700_000_000_100 + n) for n in range(500)),
]


@pytest.fixture(autouse=True)
def _leftovers_of_foreign_clients() -> Iterator[None]:
    """kafka-python leaves sockets to the garbage collector, which would complain in some later test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def ours_write(cluster: Cluster, topic: str, codec: str) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, compression_type=codec) as producer:
        for record in RECORDS:
            producer.send(
                topic, record.value, record.key, list(record.headers), partition=0, timestamp_ms=record.timestamp
            )


def ours_read(cluster: Cluster, topic: str, count: int) -> list[Record]:
    found: list[Record] = []
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        while len(found) < count:
            records = consumer.poll(timeout_ms=20_000)
            assert records, f"{len(found)} of {count} records"
            found += [Record(r.key, r.value, tuple(r.headers), r.timestamp) for r in records.records()]
    return found


def librdkafka_writes(cluster: Cluster, topic: str, codec: str) -> None:
    producer = pytest.importorskip("confluent_kafka").Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "compression.codec": codec}
    )
    for record in RECORDS:
        producer.produce(
            topic, record.value, record.key, partition=0, timestamp=record.timestamp, headers=list(record.headers)
        )
    assert producer.flush(30) == 0


def librdkafka_reads(cluster: Cluster, topic: str, count: int) -> list[Record]:
    library = pytest.importorskip("confluent_kafka")
    consumer = library.Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused"})
    consumer.assign([library.TopicPartition(topic, 0, 0)])
    found: list[Record] = []
    try:
        while len(found) < count:
            messages = consumer.consume(count - len(found), 20)
            assert messages, f"{len(found)} of {count} records"
            for message in messages:
                assert message.error() is None
                found.append(
                    Record(message.key(), message.value(), tuple(message.headers() or ()), message.timestamp()[1])
                )
    finally:
        consumer.close()
    return found


def aiokafka_writes(cluster: Cluster, topic: str, codec: str) -> None:
    aiokafka = pytest.importorskip("aiokafka")

    async def write() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, compression_type=None if codec == "none" else codec
        )
        await producer.start()
        try:
            for record in RECORDS:
                await producer.send(
                    topic,
                    record.value,
                    record.key,
                    partition=0,
                    timestamp_ms=record.timestamp,
                    headers=list(record.headers),
                )
        finally:
            await producer.stop()

    asyncio.run(write())


def aiokafka_reads(cluster: Cluster, topic: str, count: int) -> list[Record]:
    aiokafka = pytest.importorskip("aiokafka")

    async def read() -> list[Record]:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)
        await consumer.start()
        found: list[Record] = []
        try:
            tp = aiokafka.TopicPartition(topic, 0)
            consumer.assign([tp])
            consumer.seek(tp, 0)
            while len(found) < count:
                records = await consumer.getmany(timeout_ms=20_000)
                assert records
                found += [Record(r.key, r.value, tuple(r.headers), r.timestamp) for r in records[tp]]
        finally:
            await consumer.stop()
        return found

    return asyncio.run(read())


def kafka_python_writes(cluster: Cluster, topic: str, codec: str) -> None:
    kafka = pytest.importorskip("kafka")
    producer = kafka.KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, compression_type=None if codec == "none" else codec
    )
    for record in RECORDS:
        producer.send(
            topic,
            record.value,
            record.key,
            partition=0,
            timestamp_ms=record.timestamp,
            headers=list(record.headers),
        )
    producer.flush(30)
    producer.close()


def kafka_python_reads(cluster: Cluster, topic: str, count: int) -> list[Record]:
    kafka = pytest.importorskip("kafka")
    consumer = kafka.KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, consumer_timeout_ms=20_000)
    tp = kafka.TopicPartition(topic, 0)
    consumer.assign([tp])
    consumer.seek(tp, 0)
    found: list[Record] = []
    for record in consumer:
        found.append(Record(record.key, record.value, tuple(record.headers), record.timestamp))
        if len(found) == count:
            break
    consumer.close()
    return found


Write = Callable[[Cluster, str, str], None]
Read = Callable[[Cluster, str, int], list[Record]]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("write", [librdkafka_writes, aiokafka_writes], ids=["librdkafka", "aiokafka"])
def test_we_read_the_records_of_other_clients(cluster: Cluster, topic: str, write: Write, codec: str) -> None:
    write(cluster, topic, codec)

    assert ours_read(cluster, topic, len(RECORDS)) == RECORDS


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_we_read_the_records_of_kafka_python(cluster: Cluster, topic: str, codec: str) -> None:
    kafka_python_writes(cluster, topic, codec)

    assert ours_read(cluster, topic, len(RECORDS)) == RECORDS


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("read", [librdkafka_reads, aiokafka_reads], ids=["librdkafka", "aiokafka"])
def test_other_clients_read_our_records(cluster: Cluster, topic: str, read: Read, codec: str) -> None:
    ours_write(cluster, topic, codec)

    assert read(cluster, topic, len(RECORDS)) == RECORDS


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_kafka_python_reads_our_records(cluster: Cluster, topic: str, codec: str) -> None:
    ours_write(cluster, topic, codec)

    assert kafka_python_reads(cluster, topic, len(RECORDS)) == RECORDS


def test_keys_go_where_aiokafka_and_java_send_them(cluster: Cluster, make_topic: MakeTopic) -> None:
    """aiokafka's default partitioner is Java's murmur2, and librdkafka has it by name."""
    topic = make_topic(7)
    library = pytest.importorskip("confluent_kafka")
    producer = library.Producer({"bootstrap.servers": cluster.bootstrap_servers, "partitioner": "murmur2"})
    theirs: dict[bytes, int] = {}
    for n in range(200):
        producer.produce(
            topic,
            b"v",
            b"key-%d" % n,
            on_delivery=lambda _, message: theirs.update({message.key(): message.partition()}),
        )
    producer.flush(30)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as ours:
        sent = {b"key-%d" % n: ours.send(topic, b"v", b"key-%d" % n) for n in range(200)}
        found = {key: future.get(60).partition for key, future in sent.items()}

    assert found == theirs


@pytest.mark.concurrent
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_of_ours_and_librdkafkas(cluster: Cluster, make_topic: MakeTopic, group_id: str, strategy: str) -> None:
    """Both know the strategy, and share. When ours leaves, the other has everything."""
    topic = make_topic(4)
    library = pytest.importorskip("confluent_kafka")
    theirs: Any = library.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group_id,
            "partition.assignment.strategy": strategy,
            "heartbeat.interval.ms": 200,
            "session.timeout.ms": 20_000,
            "auto.offset.reset": "earliest",
        }
    )
    ours = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=group_id,
        partition_assignment_strategy=[strategy],
        heartbeat_interval_ms=200,
        session_timeout_ms=20_000,
    )
    try:
        theirs.subscribe([topic])
        ours.subscribe([topic])
        for _ in range(1000):
            theirs.poll(0.05)
            ours.poll(timeout_ms=50)
            if len(ours.assignment()) == 2 and len(theirs.assignment()) == 2:
                break
        mine = {tp.partition for tp in ours.assignment()}
        assert mine | {tp.partition for tp in theirs.assignment()} == {0, 1, 2, 3}
        ours.close()
        for _ in range(1000):
            theirs.poll(0.05)
            if len(theirs.assignment()) == 4:
                break
        assert len(theirs.assignment()) == 4
    finally:
        ours.close()
        theirs.close()


def test_librdkafka_lists_all_topics(cluster: Cluster, topic: str) -> None:
    """It sends three bytes too many for that: version 13 of Metadata, librdkafka 2.16."""
    library = pytest.importorskip("confluent_kafka.admin")
    found = library.AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=30)
    assert topic in found.topics
    assert found.brokers
