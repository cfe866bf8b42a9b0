"""Subscriptions without a group: all partitions of the topics, and those that come later."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pyconsumer import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.errors import InvalidGroupIdError
from tests.support.cluster import Cluster
from tests.support.process import wait_until

pytestmark = pytest.mark.faces


@contextmanager
def reading(cluster: Cluster, *topics: str, **changes: Any) -> Iterator[KafkaConsumer]:
    options = {"metadata_max_age_ms": 200, "auto_offset_reset": "earliest"} | changes
    with KafkaConsumer(*topics, bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:
        yield consumer


def write(cluster: Cluster, topic: str, partitions: Iterable[int], word: str) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, metadata_max_age_ms=200) as producer:
        wait_until(lambda: producer.partitions_for(topic) >= set(partitions), 30, "all partitions")
        for partition in partitions:
            producer.send(topic, f"{word}-{partition}", partition=partition)


def read(consumer: KafkaConsumer, count: int) -> list[str]:
    """This number of values, sorted. No value may follow."""
    found: list[str] = []
    wait_until(
        lambda: found.extend(record.value.decode() for record in consumer.poll(100).records()) or len(found) >= count,
        30,
        f"{count} records",
    )
    found += [record.value.decode() for record in consumer.poll(100).records()]
    return sorted(found)


class Listener(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.calls.append(("assigned", [tp.partition for tp in assigned]))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.calls.append(("revoked", [tp.partition for tp in revoked]))


@pytest.mark.smoke
def test_the_first_example_of_every_client(cluster: Cluster, make_topic: Any) -> None:
    topic = make_topic(3)
    write(cluster, topic, range(3), "a")
    with reading(cluster, topic, consumer_timeout_ms=6000) as consumer:
        assert sorted(record.value for record in consumer) == [b"a-0", b"a-1", b"a-2"]
        assert consumer.assignment() == {TopicPartition(topic, n) for n in range(3)}
        assert consumer.subscription() == {topic}


def test_partitions_that_are_added_are_read_from_their_beginning(cluster: Cluster, make_topic: Any) -> None:
    """Also with ``latest``: records written before the consumer knew of them are new all the same."""
    topic = make_topic(1)
    write(cluster, topic, [0], "before")
    listener = Listener()
    with reading(cluster, auto_offset_reset="latest") as consumer:
        consumer.subscribe([topic], listener=listener)
        wait_until(lambda: not consumer.poll(50) and consumer.assignment(), 30, "an assignment")
        assert consumer.position(TopicPartition(topic, 0)) == 1
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_partitions({topic: 3})
        write(cluster, topic, range(3), "after")
        assert read(consumer, 3) == ["after-0", "after-1", "after-2"]
        consumer.unsubscribe()
        assert consumer.assignment() == set()
    assert listener.calls == [("assigned", [0]), ("assigned", [1, 2]), ("revoked", [0, 1, 2])]


def test_a_pattern_takes_topics_that_come_later(cluster: Cluster, make_topic: Any, group_id: str) -> None:
    with reading(cluster, auto_offset_reset="latest") as consumer:
        consumer.subscribe(pattern=rf"{group_id}-.*")
        assert not consumer.poll(500)
        assert consumer.assignment() == set()
        names = [cluster.create_topic(f"{group_id}-{n}", 2) for n in range(2)]
        for name in names:
            write(cluster, name, range(2), name[-1])
        assert read(consumer, 4) == ["0-0", "0-1", "1-0", "1-1"]
        assert consumer.subscription() == set(names)


def test_a_topic_that_is_created_later_is_read_from_its_beginning(cluster: Cluster, group_id: str) -> None:
    with reading(cluster, group_id, auto_offset_reset="latest", allow_auto_create_topics=False) as consumer:
        assert not consumer.poll(500)
        cluster.create_topic(group_id, 1)
        write(cluster, group_id, [0], "new")
        assert read(consumer, 1) == ["new-0"]


def test_calls_that_need_a_group(cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), reading(cluster, topic, enable_auto_commit=True) as consumer:
        assert not consumer.config.enable_auto_commit
        with pytest.raises(InvalidGroupIdError, match="a group_id is needed to commit"):
            consumer.commit()
    assert "enable_auto_commit has no effect without a group_id" in caplog.text


def test_an_error_of_a_listener_is_raised_by_poll_and_the_assignment_stays(cluster: Cluster, make_topic: Any) -> None:
    topic = make_topic(2)
    write(cluster, topic, range(2), "a")

    class Failing(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
            raise ArithmeticError("in the listener")

        def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
            pass

    with reading(cluster) as consumer:
        consumer.subscribe([topic], listener=Failing())
        with pytest.raises(ArithmeticError, match="in the listener"):
            consumer.poll(10_000)
        assert read(consumer, 2) == ["a-0", "a-1"]
