"""Transactions of other clients on the embedded broker: of librdkafka, aiokafka, kafka-python and Kafka's own tools."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from tests.behaviour.consumer_support import read_to_end
from tests.support.cluster import Cluster
from tests.support.go import franz_program
from tests.support.java import KafkaTools
from tests.support.process import run, wait_until

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # the foreign clients' own
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

Run = Callable[[str, str, str], None]


@pytest.fixture(autouse=True)
def _leftovers_of_foreign_clients() -> Iterator[None]:
    """Some leave sockets to the garbage collector, which would complain in some later test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def read(cluster: Cluster, topic: str, isolation: str) -> list[bytes]:
    """The values of a topic of two partitions, sorted."""
    return sorted(read_to_end(cluster.bootstrap_servers, topic, 2, isolation))


# Each: four transactions of five records, every second of them aborted, offsets of the group in the third


def librdkafka(address: str, topic: str, name: str) -> None:
    library = pytest.importorskip("confluent_kafka")
    producer = library.Producer({"bootstrap.servers": address, "transactional.id": name})
    producer.init_transactions(20)
    for turn in range(4):
        producer.begin_transaction()
        for n in range(5):
            producer.produce(topic, b"%d-%d" % (turn, n), partition=n % 2)
        producer.flush(20)
        if turn == 2:
            consumer = library.Consumer({"bootstrap.servers": address, "group.id": name})
            producer.send_offsets_to_transaction(
                [library.TopicPartition(topic, 0, 7)], consumer.consumer_group_metadata()
            )
            consumer.close()
        if turn % 2:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)


def aiokafka(address: str, topic: str, name: str) -> None:
    library = pytest.importorskip("aiokafka")

    async def run() -> None:
        async with library.AIOKafkaProducer(bootstrap_servers=address, transactional_id=name) as producer:
            for turn in range(4):
                await producer.begin_transaction()
                for n in range(5):
                    await producer.send_and_wait(topic, b"%d-%d" % (turn, n), partition=n % 2)
                if turn == 2:
                    await producer.send_offsets_to_transaction({library.TopicPartition(topic, 0): 7}, name)
                await (producer.abort_transaction() if turn % 2 else producer.commit_transaction())

    asyncio.run(run())


def kafka_python(address: str, topic: str, name: str) -> None:
    library = pytest.importorskip("kafka")
    producer = library.KafkaProducer(bootstrap_servers=address, transactional_id=name)
    try:
        producer.init_transactions()
        for turn in range(4):
            producer.begin_transaction()
            for n in range(5):
                producer.send(topic, b"%d-%d" % (turn, n), partition=n % 2)
            producer.flush()
            if turn == 2:
                offsets = {library.TopicPartition(topic, 0): library.OffsetAndMetadata(7, "", -1)}
                producer.send_offsets_to_transaction(offsets, name)
            if turn % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    finally:
        producer.close()


@pytest.fixture(scope="module", params=[1, 3], ids=["1-broker", "3-brokers"])
def brokers(request: pytest.FixtureRequest) -> int:
    count: int = request.param
    return count


@pytest.mark.slow
@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("client", [librdkafka, aiokafka, kafka_python])
def test_transactions_of_other_clients(
    new_cluster: Callable[..., Cluster], group_id: str, brokers: int, version: int, client: Run
) -> None:
    cluster = new_cluster("embedded", brokers=brokers, features={"transaction.version": version})
    cluster.create_topic("t", 2)
    client(cluster.bootstrap_servers, "t", group_id)
    expected = [b"%d-%d" % (turn, n) for turn in (0, 2) for n in range(5)]
    wait_until(lambda: read(cluster, "t", "read_committed") == expected, 20, "what was committed")
    assert len(read(cluster, "t", "read_uncommitted")) == 20
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group_id) as consumer:
        found = consumer.committed(TopicPartition("t", 0))
    assert getattr(found, "offset", found) == 7


# Kafka's own programs


@pytest.mark.kafka
@pytest.mark.slow
def test_javas_producer_and_tools(embedded: Cluster, kafka_tools: KafkaTools, group_id: str) -> None:
    topic = f"t-{group_id}"
    embedded.create_topic(topic, 2)
    server = ("--bootstrap-server", embedded.bootstrap_servers)
    kafka_tools.run(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", "2000", "--record-size", "100", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={embedded.bootstrap_servers}"),
        *("--transactional-id", group_id, "--transaction-duration-ms", "50"),
    )
    wait_until(lambda: len(read(embedded, topic, "read_committed")) == 2000, 20, "Java's records")
    listed = kafka_tools.run("TransactionsCommand", *server, "list").stdout
    assert any(line.split()[0] == group_id for line in listed.splitlines() if line.strip())
    described = kafka_tools.run("TransactionsCommand", *server, "describe", "--transactional-id", group_id).stdout
    assert "CompleteCommit" in described
    producers = kafka_tools.run(
        "TransactionsCommand", *server, "describe-producers", "--topic", topic, "--partition", "0"
    ).stdout
    assert "None" in producers
    hanging = kafka_tools.run("TransactionsCommand", *server, "find-hanging", "--topic", topic).stdout
    assert len(hanging.strip().splitlines()) == 1  # the heading


@pytest.mark.kafka
@pytest.mark.slow
def test_javas_consumer_reads_the_records_of_our_transactions(
    embedded: Cluster, kafka_tools: KafkaTools, group_id: str
) -> None:
    topic = f"j-{group_id}"
    embedded.create_topic(topic, 1)
    with KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, transactional_id=group_id) as producer:
        producer.init_transactions()
        for turn in range(6):
            producer.begin_transaction()
            for n in range(10):
                producer.send(topic, b"%d-%d" % (turn, n))
            producer.flush()
            if turn % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    expected = [f"{turn}-{n}" for turn in (0, 2, 4) for n in range(10)]
    found = kafka_tools.run(
        "ConsoleConsumer",
        *("--bootstrap-server", embedded.bootstrap_servers, "--topic", topic, "--from-beginning"),
        *("--isolation-level", "read_committed", "--max-messages", "30", "--timeout-ms", "20000"),
    )
    assert found.lines == expected


@pytest.mark.kafka
@pytest.mark.slow
def test_kafkas_tool_reads_our_files(
    new_cluster: Callable[..., Cluster], kafka_tools: KafkaTools, group_id: str, tmp_path: Any
) -> None:
    """The log of transactions, the snapshot of producers and the index of aborted transactions."""
    cluster = new_cluster("embedded", data_dir=tmp_path, config={"transaction.state.log.num.partitions": 1})
    cluster.create_topic("t", 1, config={"segment.bytes": "1048576"})
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=group_id) as producer:
        producer.init_transactions()
        for turn in range(40):
            producer.begin_transaction()
            producer.send("t", bytes(100_000)).get(10)
            if turn % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    wait_until(lambda: len(read_one(cluster)) == 20, 20, "what was committed")
    cluster.stop()

    def dump(path: Any, *more: str) -> str:
        return kafka_tools.run("DumpLogSegments", "--files", str(path), *more).stdout

    ours = run([sys.executable, "-m", "pyconsumer", "transactions", "dump", "--data-dir", str(tmp_path)]).check().lines
    assert [line.split()[2] for line in ours].count("CompleteCommit") == 20
    (log,) = tmp_path.rglob("__transaction_state-0/*.log")
    state = dump(log, "--transaction-log-decoder")
    assert state.count('"transactionStatus":2') == state.count('"transactionStatus":4') == 20  # prepared, committed
    assert state.count('"transactionStatus":3') == state.count('"transactionStatus":5') == 20  # and aborted
    assert group_id in state
    snapshots = sorted(tmp_path.rglob("t-0/*.snapshot"))
    assert "producerId: 0" in dump(snapshots[-1])
    indexes = [dump(path) for path in sorted(tmp_path.rglob("t-0/*.txnindex")) if path.stat().st_size]
    assert sum(text.count("producerId: 0") for text in indexes) >= 10
    data = dump(sorted(tmp_path.rglob("t-0/*.log"))[0], "--deep-iteration")
    assert "endTxnMarker: COMMIT" in data
    assert "endTxnMarker: ABORT" in data


def read_one(cluster: Cluster) -> list[bytes]:
    return read_to_end(cluster.bootstrap_servers, "t", 1, "read_committed")


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(600)  # Go builds the program first
@pytest.mark.parametrize("version", [0, 1, 2])
def test_franz_gos_transactions(new_cluster: Callable[..., Cluster], version: int) -> None:
    program = franz_program("transactions")
    if program is None:
        pytest.skip("there is no Go")
    cluster = new_cluster("embedded", brokers=3, features={"transaction.version": version})
    for topic in ("t", "copy"):
        cluster.create_topic(topic, 2)

    def play(do: str, **given: Any) -> str:
        arguments = {"do": do, "servers": cluster.bootstrap_servers, **given}
        return run([str(program), json.dumps(arguments)], timeout_s=120).check().stdout

    play("write", topic="t", id="writes")
    expected = sorted(f"{turn}-{number}" for turn in (0, 2) for number in range(10))
    assert sorted(json.loads(play("read", topic="t"))) == expected
    play("copy", topic="t", sink="copy", id="copies", count=20)
    assert sorted(json.loads(play("read", topic="copy"))) == expected


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("version", [0, 2])
def test_kafkas_message_copier_copies_each_message_once(
    new_cluster: Callable[..., Cluster], kafka_tools: KafkaTools, version: int
) -> None:
    """The program of Kafka's own system tests, with aborts at random."""
    cluster = new_cluster("embedded", brokers=3, features={"transaction.version": version})
    for topic in ("in", "out"):
        cluster.create_topic(topic, 2)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(600):
            producer.send("in", b"%d" % number, partition=number % 2)
    for partition in ("0", "1"):
        kafka_tools.run(
            "TransactionalMessageCopier",
            *("--broker-list", cluster.bootstrap_servers, "--input-topic", "in", "--input-partition", partition),
            *("--output-topic", "out", "--consumer-group", "copier", "--transactional-id", f"copier-{partition}"),
            *("--transaction-size", "20", "--enable-random-aborts", "--use-group-metadata"),
        )
    found = read(cluster, "out", "read_committed")
    assert sorted(int(value) for value in found) == list(range(600))
    assert len(read(cluster, "out", "read_uncommitted")) > 600, "some were aborted"
