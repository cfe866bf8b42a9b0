"""Records without a key on a cluster with a slow broker: fewer go there, and none if it takes nothing (KIP-794)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pyconsumer import KafkaProducer
from pyconsumer.broker import EmbeddedCluster
from tests.support.process import wait_until
from tests.support.raw_client import RawClient

_RECORDS = 300


@pytest.fixture(scope="module")
def pair() -> Iterator[EmbeddedCluster]:
    """Two brokers with a topic that has a partition on each."""
    with EmbeddedCluster(brokers=2, data_dir=":memory:", config={"default.replication.factor": 1}) as cluster:
        cluster.create_topic("t", 2, 1)
        yield cluster


def slow_partition(pair: EmbeddedCluster) -> int:
    """Return the partition of the second broker."""
    with RawClient(pair.bootstrap_servers) as client:
        return next(number for number, node in client.leaders("t").items() if node == 1)


@pytest.fixture
def slow(pair: EmbeddedCluster) -> Iterator[int]:
    """Return the partition whose broker holds its answers until the test ends."""
    found = slow_partition(pair)
    pair.faults.add("drop_response", "Produce", node=1, count=None)
    yield found
    pair.repair()


Producer = KafkaProducer[bytes, bytes]


@contextmanager
def producer_of(pair: EmbeddedCluster, **settings: Any) -> Iterator[Producer]:
    """Yield a producer that makes a batch of each record. Its end does not wait for the slow broker."""
    producer: Producer = KafkaProducer(
        bootstrap_servers=pair.bootstrap_servers, batch_size=1000, linger_ms=0, **settings
    )
    try:
        yield producer
    finally:
        producer.close(timeout_ms=0)


def is_busy(producer: Producer, partition: int) -> bool:
    """Return whether a partition has records that are not acknowledged."""
    oldest = producer._delegate.accumulator.oldest_by_partition()
    return any(tp.partition == partition for tp, _ in oldest)


@pytest.mark.parametrize("adaptive", [True, False])
def test_fewer_records_go_to_a_slow_broker(pair: EmbeddedCluster, slow: int, adaptive: bool) -> None:
    with producer_of(pair, partitioner_adaptive_partitioning_enable=adaptive) as producer:
        futures = []
        for _ in range(_RECORDS // 10):
            futures += [producer.send("t", b"v" * 1000) for _ in range(10)]
            wait_until(lambda: not is_busy(producer, 1 - slow), 20, "the fast broker has all its records")
        waiting = sum(not future.is_done for future in futures)  # at the slow one
        if adaptive:
            assert 0 < waiting < _RECORDS / 4
        else:
            assert abs(waiting - _RECORDS / 2) <= _RECORDS / 10


def test_a_broker_that_takes_nothing_gets_nothing(pair: EmbeddedCluster, slow: int) -> None:
    settings = {"partitioner_adaptive_partitioning_enable": False, "partitioner_availability_timeout_ms": 100}
    with producer_of(pair, **settings) as producer:
        delegate = producer._delegate

        def is_idle() -> bool:
            for _ in range(2):
                producer.send("t", b"v" * 1000)
            return bool(delegate.sender.idle_nodes(delegate.clock.now() - 0.1))

        wait_until(is_idle, 20, "the second broker has taken nothing for some time")
        futures = [producer.send("t", b"v" * 1000) for _ in range(100)]
        assert {future.result(20).partition for future in futures} == {1 - slow}
