"""``process_exactly_once`` on every broker: no record twice or lost, whatever ends in between."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyconsumer import ConsumerRecords, KafkaConsumer, KafkaProducer, TopicPartition, process_exactly_once
from pyconsumer.errors import ConfigurationError, KafkaError, ProducerFencedError, TransactionAbortableError
from tests.behaviour.consumer_support import read_to_end
from tests.support.cluster import Cluster
from tests.support.process import GuardedProcess, wait_until

COUNT = 400


def consumer_of(cluster: Cluster, group_id: str, source: str, **more: Any) -> KafkaConsumer:
    settings = {"isolation_level": "read_committed", "enable_auto_commit": False, "max_poll_records": 20} | more
    return KafkaConsumer(
        source,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=group_id,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=200,
        **settings,
    )


def producer_of(cluster: Cluster, name: str) -> KafkaProducer:
    return KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id=name, transaction_timeout_ms=10_000
    )


def fill(cluster: Cluster, source: str) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(COUNT):
            producer.send(source, b"%d" % n, partition=n % 2)


def sink_of(cluster: Cluster, sink: str) -> list[int]:
    return sorted(int(value) for value in read_to_end(cluster.bootstrap_servers, sink, 1, "read_committed"))


def copy_to(sink: str) -> Any:
    def transform(records: ConsumerRecords) -> Iterator[tuple[str, bytes | None]]:
        for record in records.records():
            yield sink, record.value

    return transform


@pytest.mark.slow
@pytest.mark.smoke
def test_a_failure_in_the_middle_of_a_batch_has_no_effect(cluster: Cluster, make_topic: Any, group_id: str) -> None:
    source, sink = make_topic(2), make_topic(1)
    fill(cluster, source)
    calls = 0

    def failing(records: ConsumerRecords) -> Iterator[tuple[str, bytes | None]]:
        nonlocal calls
        calls += 1
        for n, item in enumerate(copy_to(sink)(records)):
            if calls % 3 == 2 and n == 10:
                raise ArithmeticError
            yield item

    processed = 0
    with consumer_of(cluster, group_id, source) as consumer, producer_of(cluster, group_id) as producer:
        while processed < COUNT:
            try:
                processed += process_exactly_once(consumer, producer, failing, idle_ms=500, poll_timeout_ms=100)
            except ArithmeticError:
                processed = len(sink_of(cluster, sink))
    wait_until(lambda: sink_of(cluster, sink) == list(range(COUNT)), 20, "each record once")
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group_id) as reader:
        assert [reader.committed(TopicPartition(source, n)) for n in (0, 1)] == [COUNT // 2] * 2


@pytest.mark.slow
def test_the_time_until_the_group_forms_is_not_idle(new_cluster: Callable[..., Cluster], group_id: str) -> None:
    cluster = new_cluster("embedded", config={"group.initial.rebalance.delay.ms": 2500})
    cluster.create_topic("source", 2)
    cluster.create_topic("sink", 1)
    fill(cluster, "source")
    with consumer_of(cluster, group_id, "source") as consumer, producer_of(cluster, group_id) as producer:
        assert process_exactly_once(consumer, producer, copy_to("sink"), idle_ms=1500, poll_timeout_ms=100) == COUNT


@pytest.mark.concurrent
def test_partitions_that_move_are_processed_once(cluster: Cluster, make_topic: Any, group_id: str) -> None:
    """Two members, one of which leaves and comes back again and again."""
    source, sink = make_topic(2), make_topic(1)
    fill(cluster, source)
    done = threading.Event()

    def slowly(records: ConsumerRecords) -> Iterator[tuple[str, bytes | None]]:
        time.sleep(0.05)
        yield from copy_to(sink)(records)

    def stays() -> None:
        with consumer_of(cluster, group_id, source) as consumer, producer_of(cluster, f"{group_id}-a") as producer:
            process_exactly_once(consumer, producer, slowly, stop=done.is_set, poll_timeout_ms=100)

    def comes_and_goes() -> None:
        while not done.is_set():
            end = time.monotonic() + 0.7
            with consumer_of(cluster, group_id, source) as consumer, producer_of(cluster, f"{group_id}-b") as producer:
                process_exactly_once(
                    consumer,
                    producer,
                    slowly,
                    stop=lambda end=end: done.is_set() or time.monotonic() > end,  # type: ignore[misc]
                    poll_timeout_ms=100,
                )

    threads = [threading.Thread(target=run) for run in (stays, comes_and_goes)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: len(sink_of(cluster, sink)) >= COUNT, 60, "all records")
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert sink_of(cluster, sink) == list(range(COUNT))


_PROGRAM = """
import sys
from pyconsumer import KafkaConsumer, KafkaProducer, process_exactly_once
servers, group, source, sink = sys.argv[1:]
consumer = KafkaConsumer(
    source, bootstrap_servers=servers, group_id=group, group_instance_id="only", isolation_level="read_committed",
    enable_auto_commit=False, auto_offset_reset="earliest", max_poll_records=5,
)
producer = KafkaProducer(bootstrap_servers=servers, transactional_id=group, transaction_timeout_ms=5000)
process_exactly_once(
    consumer, producer, lambda records: ((sink, record.value) for record in records.records()), poll_timeout_ms=100
)
"""


@pytest.mark.slow
@pytest.mark.concurrent
def test_a_program_that_is_killed_again_and_again(cluster: Cluster, make_topic: Any, group_id: str) -> None:
    """``kill -9`` at random moments. A static member, so that the next one has the partitions at once."""
    source, sink = make_topic(2), make_topic(1)
    fill(cluster, source)
    moments = random.Random(7)
    command = [sys.executable, "-c", _PROGRAM, cluster.bootstrap_servers, group_id, source, sink]
    kills = 0
    before = 0
    while before < COUNT and kills < 20:
        program = GuardedProcess(command)
        try:
            wait_until(lambda known=before: len(sink_of(cluster, sink)) > known, 60, "progress")  # type: ignore[misc]
            time.sleep(moments.random() * 0.05)
        finally:
            program.kill()
        kills += 1
        before = len(sink_of(cluster, sink))
    assert kills >= 1
    program = GuardedProcess(command)  # one that is left alone
    try:
        wait_until(lambda: len(sink_of(cluster, sink)) >= COUNT, 60, "all records")
    finally:
        program.kill()
    wait_until(lambda: sink_of(cluster, sink) == list(range(COUNT)), 30, "each record once")


def test_a_batch_that_cannot_be_delivered_is_repeated_and_then_given_up(
    cluster: Cluster, make_topic: Any, group_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, sink = make_topic(2), make_topic(1)
    fill(cluster, source)
    with consumer_of(cluster, group_id, source) as consumer, producer_of(cluster, group_id) as producer:
        commit, failures = producer.commit_transaction, [True, True]

        def failing(timeout_ms: int | None = None) -> None:
            if failures and failures.pop():
                raise TransactionAbortableError("made to fail")
            commit(timeout_ms)

        monkeypatch.setattr(producer, "commit_transaction", failing)
        copy = copy_to(sink)
        assert process_exactly_once(consumer, producer, copy, idle_ms=500, poll_timeout_ms=100) == COUNT
        wait_until(lambda: sink_of(cluster, sink) == list(range(COUNT)), 20, "each record once")
        fill(cluster, source)
        failures.extend([True] * 3)
        with pytest.raises(TransactionAbortableError, match="made to fail"):
            process_exactly_once(consumer, producer, copy, idle_ms=500, poll_timeout_ms=100, retries=2)


def test_a_fenced_program_stops(cluster: Cluster, make_topic: Any, group_id: str) -> None:
    source, sink = make_topic(2), make_topic(1)
    fill(cluster, source)
    with consumer_of(cluster, group_id, source) as consumer, producer_of(cluster, group_id) as producer:

        def fencing(records: ConsumerRecords) -> Iterator[tuple[str, bytes | None]]:
            with producer_of(cluster, group_id) as other:
                other.init_transactions()
            yield from copy_to(sink)(records)

        with pytest.raises(ProducerFencedError, match="make a new one"):
            process_exactly_once(consumer, producer, fencing, idle_ms=500, poll_timeout_ms=100)
    assert sink_of(cluster, sink) == []


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({"group_id": None}, "group_id"),
        ({"enable_auto_commit": True}, "enable_auto_commit=False"),
        ({"isolation_level": "read_uncommitted"}, "read_committed"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], missing: str) -> None:
    fit = {"group_id": "g", "enable_auto_commit": False, "isolation_level": "read_committed"}
    with (
        KafkaConsumer(bootstrap_servers="127.0.0.1:1", **(fit | settings)) as consumer,
        KafkaProducer(bootstrap_servers="127.0.0.1:1", transactional_id="t") as producer,
        pytest.raises(ConfigurationError, match=missing),
    ):
        process_exactly_once(consumer, producer, lambda _: ())


def test_a_producer_without_transactions_is_refused() -> None:
    with (
        KafkaConsumer(
            bootstrap_servers="127.0.0.1:1", group_id="g", enable_auto_commit=False, isolation_level="read_committed"
        ) as consumer,
        KafkaProducer(bootstrap_servers="127.0.0.1:1") as producer,
        pytest.raises(KafkaError, match="transactional_id"),
    ):
        process_exactly_once(consumer, producer, lambda _: ())
