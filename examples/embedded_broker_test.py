"""Tests of a program that uses Kafka, with a real broker and without an installation.

Run it with ``pytest examples/embedded_broker_test.py``. The fixtures ``kafka_cluster`` and ``kafka_topic`` come with
pyconsumer's pytest plugin.
"""

from itertools import islice

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.broker import EmbeddedCluster


def copy_in_capitals(servers: str, source: str, target: str, *, group_id: str) -> int:
    """Copy the records of one topic to another and return their number: the program to be tested."""
    count = 0
    with (
        KafkaConsumer(
            source,
            bootstrap_servers=servers,
            group_id=group_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
        KafkaProducer(bootstrap_servers=servers) as producer,
    ):
        partitions = [TopicPartition(source, number) for number in consumer.partitions_for_topic(source) or ()]
        ends = consumer.end_offsets(partitions)
        # The first polls join the group. A partition has a position once it is assigned.
        while not consumer.assignment() or any(consumer.position(tp) < ends[tp] for tp in partitions):
            for record in consumer.poll(timeout_ms=1000).records():
                producer.send(target, record.value.upper(), key=record.key)
                count += 1
        producer.flush()
        consumer.commit()
    return count


@pytest.mark.kafka_topic(partitions=3)
def test_records_are_copied_once(kafka_cluster: EmbeddedCluster, kafka_topic: str) -> None:
    servers = kafka_cluster.bootstrap_servers
    kafka_cluster.create_topic("capitals")
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for word in ("one", "two", "three"):
            producer.send(kafka_topic, word)

    assert copy_in_capitals(servers, kafka_topic, "capitals", group_id="copier") == 3
    assert copy_in_capitals(servers, kafka_topic, "capitals", group_id="copier") == 0  # the group had committed

    with KafkaConsumer(
        "capitals", bootstrap_servers=servers, auto_offset_reset="earliest", consumer_timeout_ms=10_000
    ) as consumer:
        assert sorted(record.value for record in islice(consumer, 3)) == [b"ONE", b"THREE", b"TWO"]
