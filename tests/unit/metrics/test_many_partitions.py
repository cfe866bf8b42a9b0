"""The cost of a poll with many partitions: no record of a partition, no cost of its metrics."""

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
    topic = str(uuid4())
    cluster.create_topic(topic, partitions)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send_many(topic, [b"x"] * 50, partition=7).get(60)
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, max_poll_records=1) as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        consumer.seek_to_beginning()
        while not consumer.poll(10_000):
            pass
        full = min(_work(lambda: consumer.poll(0)) for _ in range(20))  # the least: a response may arrive in one
        assert len(consumer.metric_table()) > partitions
        while consumer.metrics()["consumer-fetch-manager-metrics"]["records-consumed-total"] != 50:
            consumer.poll(10_000)
        empty = min(_work(lambda: consumer.poll(0)) for _ in range(20))
    return full, empty


def _compare_with_ten(cluster: EmbeddedCluster, partitions: int) -> None:
    for with_many, with_ten in zip(_work_of_polls(cluster, partitions), _work_of_polls(cluster, 10), strict=True):
        # A request that is on its way or not makes a difference of some calls. A look at each partition is more.
        assert with_many[0] < with_ten[0] + 50
        assert with_many[1] < with_ten[1] + 200


@pytest.mark.slow
def test_a_poll_does_no_more_with_many_partitions_than_with_ten(cluster: EmbeddedCluster) -> None:
    """A loop over partitions shows with a thousand as with ten thousand."""
    _compare_with_ten(cluster, 1_000)


@pytest.mark.slow
def test_ten_thousand_partitions_cost_no_time_per_poll(cluster: EmbeddedCluster) -> None:
    _compare_with_ten(cluster, 10_000)
