"""Kafka's own programs and our clients on each other's records and in one group, on every broker.

The programs alone on the embedded broker: ``test_broker_clients.py`` and ``test_broker_groups_clients.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from tests.support.cluster import Cluster
from tests.support.java import KafkaTools
from tests.support.process import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MakeTopic = Callable[..., str]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def test_the_console_consumer_reads_our_records(cluster: Cluster, kafka_tools: KafkaTools, topic: str) -> None:
    expected = []
    for codec in CODECS:
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, compression_type=codec) as producer:
            for n in range(100):
                producer.send(
                    topic, f"value {n} é " * 5, f"{codec}-{n}", [("h", b"x"), ("n", None)], timestamp_ms=7 + n
                )
                expected.append(f"CreateTime:{7 + n}\th:x,n:null\t{codec}-{n}\t" + f"value {n} é " * 5)
    show = [f"--formatter-property=print.{part}=true" for part in ("timestamp", "headers", "key")]
    read = kafka_tools.run(
        "ConsoleConsumer",
        *("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic),
        *("--from-beginning", "--max-messages", str(len(expected)), *show),
    )

    assert read.lines == expected


@pytest.mark.parametrize("codec", ["snappy", "lz4"])
def test_we_read_the_records_of_the_console_producer(
    cluster: Cluster, kafka_tools: KafkaTools, topic: str, codec: str
) -> None:
    lines = [f"h{n}:x\tkey {n}\tvalue {n} é" for n in range(500)]
    kafka_tools.run(
        "ConsoleProducer",
        *("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--compression-codec", codec),
        *("--reader-property=parse.key=true", "--reader-property=parse.headers=true"),
        input="\n".join(lines) + "\n",
    )
    found = []
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        while len(found) < len(lines):
            records = consumer.poll(timeout_ms=20_000)
            assert records
            for record in records.records():
                assert record.key is not None
                assert record.value is not None
                ((name, data),) = record.headers
                found.append(f"{name}:{data.decode()}\t{record.key.decode()}\t{record.value.decode()}")

    assert found == lines


@pytest.mark.concurrent
@pytest.mark.parametrize(
    ("strategy", "java_class"), [("range", "RangeAssignor"), ("cooperative-sticky", "CooperativeStickyAssignor")]
)
def test_a_group_of_ours_and_javas(
    cluster: Cluster, kafka_tools: KafkaTools, make_topic: MakeTopic, group_id: str, strategy: str, java_class: str
) -> None:
    """Java's consumer and ours share by either strategy. Both read the records, ours continues when Java's has left."""
    topic = make_topic(4)
    ours = KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=group_id,
        partition_assignment_strategy=[strategy],
        heartbeat_interval_ms=200,
        auto_offset_reset="earliest",
    )
    java = kafka_tools.start(
        "VerifiableConsumer",
        *("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--group-id", group_id),
        *("--assignment-strategy", f"org.apache.kafka.clients.consumer.{java_class}"),
        *("--reset-policy", "earliest", "--enable-autocommit"),
    )

    def told(name: str) -> list[dict[str, object]]:
        found = [json.loads(line) for line in java.stdout.splitlines() if line.startswith("{")]
        return [event for event in found if event["name"] == name]

    def ours_has(count: int) -> bool:
        ours.poll(timeout_ms=50)
        return len(ours.assignment()) == count

    try:
        wait_until(lambda: ours_has(2), 60, "two partitions of ours", interval_s=0)
        wait_until(
            lambda: not ours_has(-1) and any(event["partitions"] for event in told("partitions_assigned")),
            *(60, "Java's partitions"),
            interval_s=0,
        )
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            (described,) = admin.describe_groups([group_id]).values()
        assert (described.state, described.protocol, len(described.members)) == ("Stable", strategy, 2)
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for n in range(40):
                producer.send(topic, b"%d" % n, partition=n % 4)
        read = 0
        while read < 20:
            records = ours.poll(timeout_ms=60_000)
            assert records
            read += sum(1 for _ in records.records())
        wait_until(lambda: sum(int(str(e["count"])) for e in told("records_consumed")) >= 20, 60, "Java's records")
        java.stop()
        wait_until(lambda: ours_has(4), 60, "all partitions", interval_s=0)
    finally:
        java.stop()
        ours.close()
