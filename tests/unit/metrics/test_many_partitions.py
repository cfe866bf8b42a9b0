"""The cost of a poll with very many partitions: the metrics of those without records in it cost nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any
from uuid import uuid4

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.broker import EmbeddedCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(data_dir=":memory:") as cluster:
        yield cluster


def _work(call: Callable[[], Any]) -> tuple[int, int]:
    """Return how many functions of Python a call enters, and how many lines it runs: a loop shows in these."""
    calls = lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal calls, lines
        calls += event == "call"
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return calls, lines


def _work_of_polls(cluster: EmbeddedCluster, partitions: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the work of a poll that finds records, and of one that finds none, with that many partitions assigned."""
    name, size = str(uuid4()), min(partitions, 1_000)
    topics = [f"{name}-{number}" for number in range(partitions // size)]
    for topic in topics:
        cluster.create_topic(topic, size)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send_many(topics[-1], [b"x"] * 50, partition=7).get(60)
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, max_poll_records=1) as consumer:
        consumer.assign([TopicPartition(topic, number) for topic in topics for number in range(size)])
        consumer.seek_to_beginning()
        while not consumer.poll(10_000):
            pass
        full = min(_work(lambda: consumer.poll(0)) for _ in range(20))  # the least: a response may arrive in one
        assert len(consumer.metric_table()) > partitions
        while consumer.metrics()["consumer-fetch-manager-metrics"]["records-consumed-total"] != 50:
            consumer.poll(10_000)
        empty = min(_work(lambda: consumer.poll(0)) for _ in range(20))
    return full, empty


@pytest.mark.parametrize("many", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_poll_does_no_more_with_many_partitions_than_with_ten(cluster: EmbeddedCluster, many: int) -> None:
    for with_many, with_ten in zip(_work_of_polls(cluster, many), _work_of_polls(cluster, 10), strict=True):
        # A request that is on its way or not makes a difference of some calls. A look at each partition is more.
        assert with_many[0] < with_ten[0] + 50
        assert with_many[1] < with_ten[1] + 200
