"""Functions that return records, in every kind of pool: sent at least once, or exactly once in transactions."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.aio import AsyncKafkaConsumer, AsyncKafkaProducer
from pyconsumer.errors import KafkaError, ProducerFencedError
from pyconsumer.workers import AsyncWorkers, Batch, DeadLetters, ProducerRecord, Retry, Workers
from pyconsumer.workers.settings import BatchForm
from tests.behaviour import worker_support
from tests.behaviour.consumer_support import read_to_end
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.worker_functions import copies, copies_batch, copies_table, fails_with_seven, returns_unreadable

COUNT = 200
KEYS = 10
POOLS = ["threads", "inline", "processes", "tasks"]


def fill(cluster: Cluster, topic: str, sink: str, count: int = COUNT) -> None:
    """Send numbers. The last header names the topic for results."""
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(count):
            producer.send(topic, b"%d" % n, key=b"key %d" % (n % KEYS), headers=[("sink", sink.encode())])


def settings_of(cluster: Cluster, group_id: str, **more: Any) -> dict[str, Any]:
    changes = {"auto_commit_interval_ms": 50, "isolation_level": "read_committed"}
    return worker_support.settings_of(cluster, group_id, **(changes | more))


def work(
    cluster: Cluster,
    how: str,
    topic: str,
    group_id: str,
    handle: Callable[[Any], Any],
    *,
    exactly_once: bool = False,
    dead: str | None = None,
    **more: Any,
) -> Any:
    """Process a topic to its end, and return the status."""
    servers = {"bootstrap_servers": cluster.bootstrap_servers}
    producer_settings: dict[str, Any] = servers | ({"transactional_id": group_id} if exactly_once else {})
    more["exactly_once"] = exactly_once
    if how != "tasks":
        with (
            KafkaProducer(**producer_settings) as producer,
            KafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer,
        ):
            letters = None if dead is None else DeadLetters(producer, dead)
            workers = Workers(consumer, handle, run_in=how, producer=producer, dead_letters=letters, **more)  # type: ignore[arg-type]
            workers.run(until_caught_up=True)
            return workers.status()

    async def run() -> Any:
        async def handle_later(record: Any) -> Any:
            await asyncio.sleep(0)
            return handle(record)

        async with (
            AsyncKafkaProducer(**producer_settings) as producer,
            AsyncKafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer,
        ):
            letters = None if dead is None else DeadLetters(producer, dead)
            workers = AsyncWorkers(consumer, handle_later, producer=producer, dead_letters=letters, **more)
            await workers.run(until_caught_up=True)
            return workers.status()

    return asyncio.run(run())


def numbers_of(cluster: Cluster, topic: str, partitions: int = 1) -> list[int]:
    found = read_to_end(cluster.bootstrap_servers, topic, partitions, "read_committed")
    return [int(value) for value in found]


def committed_of(cluster: Cluster, group_id: str, topic: str, partitions: int) -> list[int | None]:
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group_id) as consumer:
        found = consumer.committed([TopicPartition(topic, n) for n in range(partitions)])
    return list(found.values())


@pytest.mark.pairs("how", "exactly_once")
@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("how", POOLS)
def test_returned_records_are_sent_in_the_order_of_their_key(
    cluster: Cluster, make_topic: Any, group_id: str, how: str, exactly_once: bool
) -> None:
    topic, sink = make_topic(2), make_topic(1)
    fill(cluster, topic, sink)
    status = work(cluster, how, topic, group_id, copies, exactly_once=exactly_once, concurrency=8)
    assert (status.finished, status.held) == (COUNT, 0)
    found = numbers_of(cluster, sink)
    assert Counter(found) == Counter({n: 2 for n in range(COUNT)})  # noqa: C420 - each was returned twice
    for key in range(KEYS):
        of_key = [n for n in found if n % KEYS == key]
        assert of_key == sorted(of_key)
    assert sum(offset or 0 for offset in committed_of(cluster, group_id, topic, 2)) >= COUNT


@pytest.mark.pairs("how", "exactly_once", "form")
@pytest.mark.parametrize("how", POOLS)
@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("form", ["list", "arrow"])
def test_a_batch_returns_records_for_all_of_it(
    cluster: Cluster, make_topic: Any, group_id: str, how: str, exactly_once: bool, form: BatchForm
) -> None:
    topic, sink = make_topic(2), make_topic(1)
    fill(cluster, topic, sink)
    batch = Batch(max=20, wait_ms=20, form=form)
    copy = copies_table if form == "arrow" else copies_batch
    status = work(cluster, how, topic, group_id, copy, exactly_once=exactly_once, batch=batch, concurrency=4)
    assert status.finished == COUNT
    assert Counter(numbers_of(cluster, sink)) == Counter(range(COUNT))


@pytest.mark.parametrize("how", ["threads", "processes", "inline", "tasks"])
def test_a_batch_that_fails_is_tried_record_by_record(
    cluster: Cluster, make_topic: Any, group_id: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic, dead = make_topic(1), make_topic(1)
    fill(cluster, topic, "-", 20)
    with caplog.at_level("INFO", "pyconsumer.workers"):
        status = work(cluster, how, topic, group_id, fails_with_seven, dead=dead, batch=Batch(max=20, wait_ms=50))
    assert (status.finished, status.dead) == (20, 1)
    assert numbers_of(cluster, dead) == [7]
    assert any("each is tried alone: seven" in message for message in caplog.messages)


def test_a_result_that_cannot_be_read_is_a_failed_attempt_of_its_record(
    cluster: Cluster, make_topic: Any, group_id: str
) -> None:
    topic, sink, dead = make_topic(1), make_topic(1), make_topic(1)
    fill(cluster, topic, sink, 10)
    status = work(cluster, "processes", topic, group_id, returns_unreadable, dead=dead, concurrency=4)
    assert (status.finished, status.dead) == (10, 1)
    assert sorted(numbers_of(cluster, sink)) == [n for n in range(10) if n != 3]
    assert numbers_of(cluster, dead) == [3]


@pytest.mark.parametrize("how", ["threads", "inline", "tasks"])
def test_a_result_that_is_refused_is_a_failed_attempt(
    cluster: Cluster, make_topic: Any, group_id: str, how: str
) -> None:
    topic, sink, dead = make_topic(1), make_topic(1), make_topic(1)
    fill(cluster, topic, sink, 10)
    calls = Counter[int]()

    def handle(record: Any) -> Any:
        n = int(record.value)
        calls[n] += 1
        if n == 3:
            return [ProducerRecord(sink, b"x" * 2_000_000)]
        if n == 4 and calls[4] == 1:
            return b"not a record"
        return (ProducerRecord(sink, record.value) for _ in range(1))

    status = work(cluster, how, topic, group_id, handle, dead=dead, retry=Retry(attempts=2, backoff_ms=1))
    assert calls == Counter({n: 2 if n in (3, 4) else 1 for n in range(10)})
    assert (status.dead, status.retries) == (1, 2)
    assert sorted(numbers_of(cluster, sink)) == [n for n in range(10) if n != 3]
    assert numbers_of(cluster, dead) == [3]
    assert committed_of(cluster, group_id, topic, 1) == [10]


@pytest.mark.parametrize("how", ["threads", "inline", "tasks"])
def test_a_dead_letter_is_in_the_transaction_of_its_offset(
    cluster: Cluster, make_topic: Any, group_id: str, how: str
) -> None:
    topic, sink, dead = make_topic(1), make_topic(1), make_topic(1)
    fill(cluster, topic, sink, 40)

    def handle(record: Any) -> Any:
        n = int(record.value)
        if n == 7:
            raise ArithmeticError("seven")
        if n == 9:  # the broker takes no such record, so its transaction is aborted, and runs again without it
            return [ProducerRecord(sink, record.value), ProducerRecord(sink, b"x" * 2_000_000)]
        return ProducerRecord(sink, record.value)

    status = work(cluster, how, topic, group_id, handle, exactly_once=True, dead=dead)
    assert status.dead == 2
    assert sorted(numbers_of(cluster, sink)) == [n for n in range(40) if n not in (7, 9)]
    with KafkaConsumer(
        dead,
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as reader:
        letters = reader.poll(timeout_ms=10_000).records()
    kinds = {letter.value: dict(letter.headers)["dead-letter.error-type"] for letter in letters}
    assert {value: kind.rpartition(b".")[2] for value, kind in kinds.items()} == {
        b"7": b"ArithmeticError",
        b"9": b"RecordTooLargeError",
    }


@pytest.mark.parametrize("how", ["threads", "tasks"])
def test_without_dead_letters_the_transactions_end_before_the_record_that_failed(
    cluster: Cluster, make_topic: Any, group_id: str, how: str
) -> None:
    topic, sink = make_topic(1), make_topic(1)
    fill(cluster, topic, sink, 20)
    others = threading.Event()
    done: list[int] = []
    broken = True

    def handle(record: Any) -> Any:
        n = int(record.value)
        if n == 12 and broken:
            if how == "threads":
                assert others.wait(60)
            raise ArithmeticError("twelve")
        done.append(n)
        if len(done) == 19:
            others.set()
        return ProducerRecord(sink, record.value)

    with pytest.raises(ArithmeticError, match="twelve"):
        work(cluster, how, topic, group_id, handle, exactly_once=True, order=None)
    assert numbers_of(cluster, sink) == list(range(12)), "no result of a record behind it"
    (committed,) = committed_of(cluster, group_id, topic, 1)
    assert committed == 12
    broken = False
    work(cluster, how, topic, group_id, handle, exactly_once=True, order=None)
    assert sorted(numbers_of(cluster, sink)) == list(range(20))


@pytest.mark.protocols
def test_results_of_partitions_that_move_are_sent_once(
    cluster: Cluster, make_topic: Any, group_id: str, group_protocol: str
) -> None:
    """Two members with transactions. The second comes and goes."""
    topic, sink = make_topic(4), make_topic(1)
    fill(cluster, topic, sink, 600)
    seen = Counter[bytes]()
    errors: list[BaseException] = []

    def handle(record: Any) -> Any:
        threading.Event().wait(0.004)
        seen[record.value] += 1
        return ProducerRecord(sink, record.value)

    def member(name: str, ended: Callable[[Workers], bool]) -> None:
        try:
            settings = settings_of(cluster, group_id, group_protocol=group_protocol)
            if group_protocol == "consumer":
                del settings["heartbeat_interval_ms"]
            with (
                KafkaProducer(
                    bootstrap_servers=cluster.bootstrap_servers, transactional_id=f"{group_id}-{name}"
                ) as producer,
                KafkaConsumer(topic, **settings) as consumer,
            ):
                workers = Workers(
                    consumer, handle, concurrency=4, producer=producer, exactly_once=True, max_buffered=40
                )
                stopper = threading.Thread(
                    target=lambda: (wait_until(lambda: ended(workers), 120, "records"), workers.stop())
                )
                stopper.start()
                workers.run()
                stopper.join()
        except BaseException as error:
            errors.append(error)

    first = threading.Thread(target=member, args=("a", lambda _: len(seen) == 600 or bool(errors)))
    first.start()
    wait_until(lambda: len(seen) > 20, 60, "records")
    for turn in range(2):
        member(f"b{turn}", lambda workers: workers.status().finished > 30 or len(seen) == 600 or bool(errors))
    first.join()
    assert errors == []
    assert sorted(numbers_of(cluster, sink)) == list(range(600))


def test_a_producer_that_was_fenced_ends_the_workers(cluster: Cluster, make_topic: Any, group_id: str) -> None:
    topic, sink = make_topic(1), make_topic(1)
    fill(cluster, topic, sink, 50)
    fenced = threading.Event()

    def handle(record: Any) -> Any:
        if record.offset == 20 and not fenced.is_set():
            with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=group_id) as other:
                other.init_transactions()
            fenced.set()
        return ProducerRecord(sink, record.value)

    with pytest.raises(KafkaError) as raised:
        work(cluster, "threads", topic, group_id, handle, exactly_once=True, order="partition")
    assert isinstance(raised.value, ProducerFencedError) or "fenced" in str(raised.value).lower()
    work(cluster, "threads", topic, group_id, handle, exactly_once=True)
    assert sorted(numbers_of(cluster, sink)) == list(range(50))
