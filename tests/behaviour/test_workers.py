"""Workers on every broker: each record is processed, in the order of its key, with retries and dead letters."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from pyconsumer import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.aio import AsyncKafkaConsumer, AsyncKafkaProducer
from pyconsumer.errors import KafkaTimeoutError, RecordDeserializationError, SchemaUnavailableError
from pyconsumer.generic import PendingError
from pyconsumer.workers import AsyncWorkers, DeadLetters, Retry, WorkerDiedError, Workers
from tests.behaviour.worker_support import COUNT, committed_of, fill, settings_of, work
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.worker_functions import (
    dies_once,
    raises_late,
    raises_textless,
    raises_unpicklable,
    slow_once,
    waits_for_the_others,
)

HOW = ["threads", "inline", "tasks"]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.smoke
def test_each_record_is_processed_once_in_the_order_of_its_key(
    cluster: Cluster, make_topic: Any, group_id: str, how: str
) -> None:
    topic = make_topic(3)
    fill(cluster, topic)
    seen = defaultdict[bytes, list[int]](list)

    def handle(record: Any) -> None:
        if len(seen[record.key]) % 7 == 3:
            time.sleep(0.001)
        seen[record.key].append(int(record.value))

    work(how, topic, handle, settings_of(cluster, group_id), concurrency=10)
    assert {key: found == sorted(found) for key, found in seen.items()} == dict.fromkeys(seen, True)
    assert sorted(n for found in seen.values() for n in found) == list(range(COUNT))
    assert committed_of(cluster, group_id, topic, 3) == COUNT


def test_records_of_several_keys_are_in_work_at_a_time(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 8)
    together = threading.Barrier(8, timeout=30)
    work("threads", topic, lambda record: together.wait(), settings_of(cluster, group_id), concurrency=8)
    assert committed_of(cluster, group_id, topic, 1) == 8


@pytest.mark.parametrize("how", ["threads", "tasks"])
def test_a_member_without_a_partition_is_caught_up(cluster: Cluster, topic: str, group_id: str, how: str) -> None:
    fill(cluster, topic, 5)
    seen: list[int] = []
    settings = settings_of(cluster, group_id)
    with KafkaConsumer(topic, **settings, group_instance_id="a") as owner:  # range begins with the lowest name
        wait_until(lambda: bool(owner.poll(timeout_ms=100)), 60, "the partition")
        ended = threading.Event()

        def poll_on() -> None:
            while not ended.is_set():
                owner.poll(timeout_ms=50)

        thread = threading.Thread(target=poll_on)
        thread.start()
        try:
            work(how, topic, lambda record: seen.append(record.offset), settings | {"group_instance_id": "b"})
        finally:
            ended.set()
            thread.join()
    assert seen == [], "with the partition, it would have read its records"


@pytest.mark.parametrize("how", HOW)
def test_a_failing_record_is_tried_again_and_then_goes_to_the_dead_letters(
    cluster: Cluster, make_topic: Any, group_id: str, how: str
) -> None:
    topic, dead = make_topic(2), make_topic(1)
    fill(cluster, topic, 40, lambda n: json.dumps({"n": n}).encode())
    calls = Counter[int]()

    def handle(record: Any) -> None:
        n = record.value["n"]
        calls[n] += 1
        if n == 7 or (n == 8 and calls[n] < 3):
            raise ArithmeticError(f"{n} is a bad number")

    retry = Retry(attempts=3, backoff_ms=10)
    settings = settings_of(cluster, group_id, value_deserializer=json.loads)
    if how == "tasks":

        async def run() -> None:
            async def handle_later(record: Any) -> None:
                handle(record)

            async with (
                AsyncKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
                AsyncKafkaConsumer(topic, **settings) as consumer,
            ):
                letters = DeadLetters(producer, dead)
                workers = AsyncWorkers(consumer, handle_later, retry=retry, dead_letters=letters)
                await workers.run(until_caught_up=True)
                assert (workers.status().dead, workers.status().retries) == (1, 4)

        asyncio.run(run())
    else:
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            work(how, topic, handle, settings, retry=retry, dead_letters=DeadLetters(producer, dead))

    assert calls == Counter({n: 3 if n in (7, 8) else 1 for n in range(40)})
    assert committed_of(cluster, group_id, topic, 2) == 40
    with KafkaConsumer(dead, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as reader:
        (letter,) = reader.poll(timeout_ms=10_000).records()
    headers = {name: (value or b"").decode() for name, value in letter.headers}
    assert (letter.key, letter.value) == (b"key 7", b'{"n": 7}'), "the bytes that came"
    assert headers["n"] == "7"
    assert (headers["dead-letter.topic"], headers["dead-letter.attempts"]) == (topic, "3")
    assert headers["dead-letter.error-type"] == "builtins.ArithmeticError"
    assert headers["dead-letter.error"] == "7 is a bad number"


@pytest.mark.parametrize("how", HOW)
def test_a_record_that_cannot_be_read_is_not_tried_again(
    cluster: Cluster, make_topic: Any, group_id: str, how: str
) -> None:
    topic, dead = make_topic(1), make_topic(1)
    fill(cluster, topic, 3, lambda n: b"{" if n == 1 else b"{}")
    seen = []
    settings = settings_of(cluster, group_id, value_deserializer=json.loads)
    if how == "tasks":
        with pytest.raises(RecordDeserializationError, match="Expecting property name"):
            work(how, topic, lambda record: seen.append(record.offset), settings)
        assert committed_of(cluster, group_id, topic, 1) == 1
        return
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        letters = DeadLetters(producer, dead)
        retry = Retry(attempts=5, backoff_ms=60_000)
        work(how, topic, lambda record: seen.append(record.offset), settings, retry=retry, dead_letters=letters)
    assert sorted(seen) == [0, 2]
    assert committed_of(cluster, group_id, topic, 1) == 3


@pytest.mark.parametrize("how", HOW)
def test_a_repetition_gets_the_same_record_and_a_dead_letter_the_bytes(
    cluster: Cluster, make_topic: Any, group_id: str, how: str
) -> None:
    topic, dead = make_topic(1), make_topic(1)
    fill(cluster, topic, 3, lambda n: b"text %d" % n)
    seen: list[str] = []

    def handle(record: Any) -> None:
        seen.append(record.value)
        if record.offset == 1:
            raise ArithmeticError("one")

    settings = settings_of(cluster, group_id, value_deserializer=lambda data: data[5:].decode())
    retry = Retry(attempts=3, backoff_ms=1)
    if how == "tasks":
        with pytest.raises(ArithmeticError):
            work(how, topic, handle, settings, retry=retry, order="partition")
        assert seen == ["0", "1", "1", "1"]
        return
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        work(how, topic, handle, settings, retry=retry, order="partition", dead_letters=DeadLetters(producer, dead))
    assert seen == ["0", "1", "1", "1", "2"]
    with KafkaConsumer(dead, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as reader:
        assert [letter.value for letter in reader.poll(timeout_ms=10_000).records()] == [b"text 1"]


def test_a_stopped_partition_is_read_again_by_the_next_run(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 5)
    seen: list[int] = []
    broken = True

    def handle(record: Any) -> None:
        if record.offset == 2 and broken:
            raise ArithmeticError("bad")
        seen.append(record.offset)

    with (
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
        KafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer,
    ):
        letters = DeadLetters(producer, "no/topic", attempts=1)
        workers = Workers(consumer, handle, order="partition", dead_letters=letters)
        with pytest.raises(Exception, match="no/topic"):
            workers.run()
        assert list(workers.status().stopped) == [TopicPartition(topic, 0)]
        broken = False
        workers.run(until_caught_up=True)
    assert seen == [0, 1, 2, 3, 4]
    assert committed_of(cluster, group_id, topic, 1) == 5


class SlowSchema:
    """A deserializer that first needs a schema, then finds the registry down, then returns text."""

    def __init__(self) -> None:
        self.arrival = Future[None]()
        self.calls = 0

    def bind(self, field: str) -> SlowSchema:
        return self

    def deserialize(self, topic: str, headers: Any, data: bytes) -> str:
        self.calls += 1
        if self.calls == 1:
            threading.Timer(0.05, self.arrival.set_result, (None,)).start()
        if not self.arrival.done():
            raise PendingError(self.arrival, "a schema")
        if self.calls < 15:
            raise SchemaUnavailableError("the registry is down")
        return data.decode()


@pytest.mark.parametrize("how", HOW)
def test_a_record_waits_for_its_schema_and_no_attempt_counts(
    cluster: Cluster, topic: str, group_id: str, how: str
) -> None:
    fill(cluster, topic, 10)
    seen: list[str] = []
    settings = settings_of(cluster, group_id, value_deserializer=SlowSchema())
    work(how, topic, lambda record: seen.append(record.value), settings)
    assert sorted(seen) == [str(n) for n in range(10)]


@pytest.mark.parametrize("how", HOW)
def test_without_dead_letters_the_workers_end_with_the_error_and_commit_finished_records(
    cluster: Cluster, topic: str, group_id: str, how: str
) -> None:
    fill(cluster, topic, 10)

    def handle(record: Any) -> None:
        if record.offset == 6:
            raise ArithmeticError("six")

    with pytest.raises(ArithmeticError, match="six") as caught:
        work(how, topic, handle, settings_of(cluster, group_id), order="partition")
    (note,) = caught.value.__notes__
    assert note.startswith(f"{topic}-0 offset 6, attempt 1, failed for the last time")
    assert committed_of(cluster, group_id, topic, 1) == 6


def test_finished_records_after_a_gap_are_not_processed_again(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 10)
    done: list[int] = []

    def handle(record: Any) -> None:
        if record.offset == 3:
            wait_until(lambda: len(done) == 9, 60, "records")
            raise ArithmeticError("three")
        done.append(record.offset)

    with pytest.raises(ArithmeticError):
        work("threads", topic, handle, settings_of(cluster, group_id), order=None)
    assert committed_of(cluster, group_id, topic, 1) == 3
    again: list[int] = []
    work("threads", topic, lambda record: again.append(record.offset), settings_of(cluster, group_id), order=None)
    assert again == [3]
    assert committed_of(cluster, group_id, topic, 1) == 10


@pytest.mark.parametrize("how", ["threads", "tasks"])
def test_running_records_are_finished_before_their_partition_goes_to_another_member(
    cluster: Cluster, make_topic: Any, group_id: str, how: str
) -> None:
    topic = make_topic(4)
    fill(cluster, topic, 200)
    seen = Counter[bytes]()
    users: list[str] = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Any, /) -> None:
            users.append("assigned")

        def on_partitions_revoked(self, revoked: Any, /) -> None:
            users.append("revoked")

    def handle(record: Any) -> None:
        time.sleep(0.005)
        seen[record.value] += 1

    def stop_when_all_are_done(workers: Workers | AsyncWorkers) -> None:
        wait_until(lambda: len(seen) == 200, 60, "records")
        workers.stop()

    def second() -> None:
        wait_until(lambda: len(seen) > 20, 60, "records")
        with KafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer:
            workers = Workers(consumer, handle, concurrency=4, max_buffered=20)
            stopper = threading.Thread(target=stop_when_all_are_done, args=(workers,))
            stopper.start()
            workers.run()
            stopper.join()

    thread = threading.Thread(target=second)
    thread.start()
    if how == "threads":
        with KafkaConsumer(**settings_of(cluster, group_id)) as consumer:
            consumer.subscribe([topic], listener=Listener())
            workers = Workers(consumer, handle, concurrency=4, max_buffered=20)
            stopper = threading.Thread(target=stop_when_all_are_done, args=(workers,))
            stopper.start()
            workers.run()
            stopper.join()
    else:

        async def run() -> None:
            async def handle_later(record: Any) -> None:
                await asyncio.sleep(0.005)
                seen[record.value] += 1

            async with AsyncKafkaConsumer(**settings_of(cluster, group_id)) as consumer:
                consumer.subscribe([topic], listener=Listener())
                workers = AsyncWorkers(consumer, handle_later, concurrency=4, max_buffered=20)

                stopper = threading.Thread(target=stop_when_all_are_done, args=(workers,))
                stopper.start()
                await workers.run()
                stopper.join()

        asyncio.run(run())
    thread.join()
    assert set(seen.values()) == {1}
    assert {"assigned", "revoked"} <= set(users)
    assert committed_of(cluster, group_id, topic, 4) == 200


@pytest.mark.parametrize("on_revoke", ["abandon", "wait"])
def test_records_that_are_not_waited_for_go_to_the_next_owner_and_their_late_results_are_not_committed(
    cluster: Cluster, make_topic: Any, group_id: str, on_revoke: Any, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(2)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for partition in range(2):
            producer.send(topic, b"slow", partition=partition)
    begun: list[int] = []
    end = threading.Event()

    def handle(record: Any) -> None:
        begun.append(record.partition)
        assert end.wait(60)

    settings = settings_of(cluster, group_id)
    with KafkaConsumer(topic, **settings) as consumer, KafkaConsumer(topic, **settings) as other:
        more: dict[str, Any] = {"concurrency": 2, "on_revoke": on_revoke, "revoke_timeout_ms": 300}
        workers = Workers(consumer, handle, **more, close_timeout_ms=60_000)
        thread = threading.Thread(target=workers.run)
        thread.start()
        try:
            wait_until(lambda: len(begun) == 2, 60, "both records")
            found: list[Any] = []
            wait_until(lambda: bool(found.extend(other.poll(timeout_ms=200).records()) or found), 25, "the record")
            end.set()
            wait_until(lambda: workers.status().finished == 1, 60, "the other one")
        finally:
            end.set()
            workers.stop()
            thread.join()
        places = [TopicPartition(topic, found[0].partition), TopicPartition(topic, 1 - found[0].partition)]
        assert other.committed(places) == dict(zip(places, (None, 1), strict=True))
    warnings = [message for message in caplog.messages if "still run, and are not waited for any longer" in message]
    assert len(warnings) == (on_revoke == "wait")


def test_a_record_that_waits_for_its_next_attempt_goes_to_the_next_owner_at_once(
    cluster: Cluster, make_topic: Any, group_id: str
) -> None:
    """Only functions that run are waited for."""
    topic = make_topic(2)
    fill(cluster, topic, 40)
    failed = Counter[TopicPartition]()
    settings = settings_of(cluster, group_id, max_poll_interval_ms=3_600_000)

    def handle(record: Any) -> None:
        failed[record.topic_partition] += 1
        raise ArithmeticError("again")

    an_hour: dict[str, Any] = {"backoff_ms": 3_600_000, "max_backoff_ms": 3_600_000, "jitter": 0}
    with KafkaConsumer(topic, **settings) as consumer, KafkaConsumer(topic, **settings) as other:
        retry = Retry(attempts=2, **an_hour)
        workers = Workers(consumer, handle, order=None, retry=retry, revoke_timeout_ms=1_800_000)
        thread = threading.Thread(target=workers.run)
        thread.start()
        try:
            wait_until(lambda: workers.status().retrying == 40, 60, "the failures")
            found: list[Any] = []
            wait_until(lambda: bool(found.extend(other.poll(timeout_ms=200).records()) or found), 60, "the record")
            (gone,) = {record.topic_partition for record in found}
            wait_until(lambda: workers.status().retrying == 40 - failed[gone], 60, "the end of its waits")
        finally:
            workers.stop()
            thread.join()
        assert found[0].offset == 0
        assert set(other.committed([TopicPartition(topic, n) for n in range(2)]).values()) == {None}


def test_a_member_with_slow_records_stays_in_its_group(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 12)
    seen: list[int] = []

    def handle(record: Any) -> None:
        time.sleep(0.4)
        seen.append(record.offset)

    settings = settings_of(cluster, group_id, max_poll_interval_ms=1_000, session_timeout_ms=6_000)
    work("threads", topic, handle, settings, order="partition", concurrency=1, max_buffered=2)
    assert seen == list(range(12)), "each once"


def test_deserializers_and_listener_are_the_consumers_again_afterwards(
    cluster: Cluster, topic: str, group_id: str
) -> None:
    fill(cluster, topic, 10)
    seen: list[str] = []
    with KafkaConsumer(topic, **settings_of(cluster, group_id, value_deserializer=bytes.decode)) as consumer:
        workers = Workers(consumer, lambda record: seen.append(record.value))
        workers.run(until_caught_up=True)
        assert sorted(seen) == [str(n) for n in range(10)]
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send(topic, b"after")
        found: list[Any] = []
        until = time.monotonic() + 30
        while not found and time.monotonic() < until:
            found += consumer.poll(timeout_ms=200).records()
        assert [record.value for record in found] == ["after"]


@pytest.mark.parametrize(("function", "error"), [(slow_once, KafkaTimeoutError), (dies_once, WorkerDiedError)])
def test_a_process_that_hangs_or_dies_costs_one_attempt_of_its_record(
    cluster: Cluster, topic: str, group_id: str, tmp_path: Any, function: Any, error: type[Exception]
) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(10):
            producer.send(topic, b"%d" % n, headers=[("marker", str(tmp_path / "once").encode())])
    more: dict[str, Any] = {"timeout_ms": 2_000} if function is slow_once else {}
    retry = Retry(attempts=2, backoff_ms=10)
    with KafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer:
        workers = Workers(consumer, function, run_in="processes", concurrency=8, retry=retry, **more)
        workers.run(until_caught_up=True)
        assert (workers.status().finished, workers.status().retries) == (10, 1)
    assert committed_of(cluster, group_id, topic, 1) == 10
    (tmp_path / "once").unlink()
    with KafkaConsumer(topic, **settings_of(cluster, f"{group_id}-2")) as consumer:
        workers = Workers(consumer, function, run_in="processes", concurrency=8, **more)
        with pytest.raises(error, match=r"has not returned within 2000 ms|ended with status 3"):
            workers.run(until_caught_up=True)


@pytest.mark.skipif(os.cpu_count() == 1, reason="there is one process for each processor, and this needs two")
def test_a_slow_record_does_not_hold_up_the_records_behind_it_in_its_process(
    cluster: Cluster, topic: str, group_id: str, tmp_path: Any
) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(80):
            producer.send(topic, b"%d" % n, headers=[("folder", str(tmp_path).encode())])
    with KafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer:
        workers = Workers(consumer, waits_for_the_others, run_in="processes", concurrency=64)
        workers.run(until_caught_up=True)
        assert workers.status().finished == 80


@pytest.mark.parametrize(
    ("handle", "text"),
    [
        (raises_unpicklable, "UnpicklableError: odd"),
        (raises_textless, r"TextlessError: \(no text: ValueError\)"),
        (raises_late, "LateError: odd"),
    ],
)
def test_an_exception_that_cannot_be_pickled_is_reported_by_its_text(
    cluster: Cluster, topic: str, group_id: str, handle: Callable[[Any], None], text: str
) -> None:
    fill(cluster, topic, 10)
    with KafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer:
        workers = Workers(consumer, handle, run_in="processes", concurrency=8)
        with pytest.raises(RuntimeError, match=text):
            workers.run(until_caught_up=True)


def test_a_task_that_lasts_too_long_is_cancelled(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 5)
    cancelled: list[int] = []

    async def handle(record: Any) -> None:
        if record.offset == 2:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                cancelled.append(record.offset)
                raise

    async def run() -> None:
        async with AsyncKafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer:
            workers = AsyncWorkers(consumer, handle, timeout_ms=50, retry=Retry(attempts=2, backoff_ms=1))
            with pytest.raises(KafkaTimeoutError, match="has not returned within 50 ms"):
                await workers.run(until_caught_up=True)

    asyncio.run(run())
    assert cancelled == [2, 2]


def test_a_task_that_was_woken_by_time_and_not_by_a_record_hides_no_later_one(
    cluster: Cluster, topic: str, group_id: str
) -> None:
    done: list[int] = []
    tried: list[int] = []
    go_on = asyncio.Event()

    async def handle(record: Any) -> None:
        tried.append(record.offset)
        if tried == [0]:
            raise ArithmeticError("once")
        if record.offset == 0:
            await go_on.wait()
        done.append(record.offset)

    async def run() -> None:
        async with (
            AsyncKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
            AsyncKafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer,
            asyncio.timeout(60),
        ):
            workers = AsyncWorkers(consumer, handle, concurrency=1, retry=Retry(attempts=2, backoff_ms=20, jitter=0))
            running = asyncio.create_task(workers.run())

            async def until(condition: Callable[[], bool]) -> None:
                while not condition():  # noqa: ASYNC110 - nothing announces it
                    await asyncio.sleep(0.01)

            await producer.send_and_wait(topic, b"0")
            await until(lambda: tried == [0, 0])  # the only task runs, after it waited for the time of the retry
            await producer.send_and_wait(topic, b"1")
            await until(lambda: workers.status().waiting == 1)
            go_on.set()
            await until(lambda: done == [0, 1])
            await producer.send_and_wait(topic, b"2")
            await until(lambda: done == [0, 1, 2])
            workers.stop()
            await running

    asyncio.run(run())


def test_a_cancelled_run_cancels_the_functions_and_commits_finished_records(
    cluster: Cluster, topic: str, group_id: str
) -> None:
    fill(cluster, topic, 5)
    done: list[int] = []
    four = asyncio.Event()

    async def handle(record: Any) -> None:
        if record.offset == 4:
            await asyncio.sleep(600)
        done.append(record.offset)
        if len(done) == 4:
            four.set()

    async def run() -> None:
        async with AsyncKafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer:
            running = asyncio.create_task(AsyncWorkers(consumer, handle).run())
            await asyncio.wait_for(four.wait(), 60)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    asyncio.run(run())
    assert committed_of(cluster, group_id, topic, 1) == 4


def test_a_dead_letter_that_cannot_be_sent_stops_its_partition_alone(
    cluster: Cluster, make_topic: Any, group_id: str
) -> None:
    topic = make_topic(2)
    seen = Counter[int]()
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(20):
            producer.send(topic, b"%d" % n, partition=n % 2)
        producer.flush()

        def handle(record: Any) -> None:
            if record.partition == 1 and record.offset == 4:
                raise ArithmeticError("bad")
            seen[record.partition] += 1

        too_large = "no/topic"  # a name that no broker takes
        with KafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer:
            workers = Workers(consumer, handle, order="partition", dead_letters=DeadLetters(producer, too_large))
            with pytest.raises(Exception, match="no/topic") as caught:
                workers.run(until_caught_up=True)
            assert f"the dead letter of {topic}-1 offset 4 could not be sent to no/topic" in caught.value.__notes__
            committed = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    assert seen == Counter({0: 10, 1: 4})
    assert committed == {TopicPartition(topic, 0): 10, TopicPartition(topic, 1): 4}


class SeekingListener(ConsumerRebalanceListener):
    """Seeks to an offset in each partition that is assigned, if it has one."""

    def __init__(self) -> None:
        self.consumer: Any = None
        self.offset: int | None = None

    def on_partitions_assigned(self, assigned: Any, /) -> None:
        for tp in assigned:
            if self.offset is not None:
                self.consumer.seek(tp, self.offset)


@pytest.mark.parametrize("how", ["threads", "tasks"])
def test_a_listener_may_seek_and_finished_records_behind_that_are_processed_again(
    cluster: Cluster, topic: str, group_id: str, how: str
) -> None:
    fill(cluster, topic, 10)
    seen: list[int] = []
    listener = SeekingListener()

    def handle(record: Any) -> None:
        seen.append(record.offset)
        if record.offset == 5 and listener.offset is None:
            raise ArithmeticError("five")  # commits 5, and the run ends

    async def handle_later(record: Any) -> None:
        handle(record)

    async def run() -> None:
        async with AsyncKafkaConsumer(**settings_of(cluster, group_id)) as consumer:
            listener.consumer = consumer
            consumer.subscribe([topic], listener=listener)
            await AsyncWorkers(consumer, handle_later, order="partition").run(until_caught_up=True)

    def run_to_the_end() -> None:
        if how == "tasks":
            asyncio.run(run())
            return
        with KafkaConsumer(**settings_of(cluster, group_id)) as consumer:
            listener.consumer = consumer
            consumer.subscribe([topic], listener=listener)
            Workers(consumer, handle, order="partition").run(until_caught_up=True)

    with pytest.raises(ArithmeticError):
        run_to_the_end()
    seen.clear()
    for offset, expected in [(2, [2, 3, 4, 5, 6, 7, 8, 9]), (8, [8, 9])]:
        listener.offset = offset
        run_to_the_end()
        assert seen == expected
        assert committed_of(cluster, group_id, topic, 1) == 10
        seen.clear()


@pytest.mark.parametrize("how", ["inline", "tasks"])
def test_a_function_may_seek_back_and_the_records_are_processed_again_before_they_are_committed(
    cluster: Cluster, topic: str, group_id: str, how: str
) -> None:
    fill(cluster, topic, 10)
    seen: list[int] = []
    place = TopicPartition(topic, 0)

    def handle(record: Any, consumer: Any) -> None:
        if record.offset == 5 and 5 not in seen:
            consumer.seek(place, 2)
        seen.append(record.offset)
        if seen.count(3) == 2 and record.offset == 3:
            raise ArithmeticError("three again")

    async def run() -> None:
        async with AsyncKafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer:

            async def handle_later(record: Any) -> None:
                handle(record, consumer)

            await AsyncWorkers(consumer, handle_later, order="partition").run(until_caught_up=True)

    if how == "tasks":
        with pytest.raises(ArithmeticError):
            asyncio.run(run())
    else:
        with KafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer:
            workers = Workers(consumer, lambda record: handle(record, consumer), order="partition", run_in="inline")
            with pytest.raises(ArithmeticError):
                workers.run(until_caught_up=True)
    assert seen[:6] == [0, 1, 2, 3, 4, 5]
    assert seen[-2:] == [2, 3]
    assert seen[6:-2] == list(range(6, 6 + len(seen[6:-2]))), "those that had been polled"
    assert committed_of(cluster, group_id, topic, 1) == 3, "what comes after the seek is not committed before"


def test_a_seek_between_two_runs_is_kept(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 10)
    seen: list[int] = []
    with KafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer:
        workers = Workers(consumer, lambda record: seen.append(record.offset), order="partition")
        workers.run(until_caught_up=True)
        consumer.seek(TopicPartition(topic, 0), 7)
        workers.run(until_caught_up=True)
    assert seen == [*range(10), 7, 8, 9]
    assert committed_of(cluster, group_id, topic, 1) == 10


@pytest.mark.parametrize("how", ["threads", "tasks"])
def test_metrics_are_the_figures_of_the_status(cluster: Cluster, make_topic: Any, group_id: str, how: str) -> None:
    topic, dead = make_topic(1), make_topic(1)
    fill(cluster, topic, 10)
    ended = threading.Event()
    found: list[tuple[Any, Any]] = []

    def fails(record: Any) -> None:
        if record.offset in (1, 2):
            raise (KeyError if record.offset == 1 else ArithmeticError)(record.offset)

    def look(workers: Workers | AsyncWorkers) -> None:
        try:
            wait_until(lambda: workers.status()[:6] == (1, 0, 1, 8, 1, 1), 60, "the records")
            found.append((workers.status(), workers.metrics()))
        finally:
            workers.stop()
            ended.set()

    more: dict[str, Any] = {
        "order": None,
        "concurrency": 4,
        "retry": Retry(attempts=2, backoff_ms=600_000, max_backoff_ms=600_000, give_up_on=(ArithmeticError,)),
    }

    def handle(record: Any) -> None:
        fails(record)
        if record.offset == 0:
            assert ended.wait(60)

    async def handle_later(record: Any) -> None:
        fails(record)
        while record.offset == 0 and not ended.is_set():  # noqa: ASYNC110 - another thread sets it
            await asyncio.sleep(0.01)

    async def run() -> None:
        servers = cluster.bootstrap_servers
        async with (
            AsyncKafkaProducer(bootstrap_servers=servers) as producer,
            AsyncKafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer,
        ):
            workers = AsyncWorkers(consumer, handle_later, dead_letters=DeadLetters(producer, dead), **more)
            thread = threading.Thread(target=look, args=(workers,))
            thread.start()
            await workers.run()
            thread.join()

    if how == "tasks":
        asyncio.run(run())
    else:
        with (
            KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
            KafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer,
        ):
            workers = Workers(consumer, handle, dead_letters=DeadLetters(producer, dead), **more)
            thread = threading.Thread(target=look, args=(workers,))
            thread.start()
            workers.run()
            thread.join()
    ((status, metrics),) = found
    place = TopicPartition(topic, 0)
    assert (status.oldest[place].offset, status.unfinished[place].offset) == (0, 0)
    values = metrics["worker-metrics"]
    assert 0 < status.oldest[place].running_ms <= values.pop("oldest-running-age-ms")
    assert 0 < status.unfinished[place].age_ms <= values.pop("oldest-unfinished-age-ms")
    assert 0 < values.pop("records-finished-rate") <= status.per_second, "the metrics were taken later"
    assert values == {
        "records-running": 1,
        "records-waiting": 0,
        "records-retrying": 1,
        "records-held": 0,
        "records-finished-total": 8,
        "dead-letters-total": 1,
        "retries-total": 1,
        "partitions-stopped": 0,
    }


def test_a_thread_that_lasts_too_long_is_reported_once_for_each_attempt(
    cluster: Cluster, topic: str, group_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(cluster, topic, 4)
    attempts = Counter[int]()

    def reports() -> list[str]:
        return [message for message in caplog.messages if "has been running for" in message]

    def lasts_until_it_is_reported(record: Any) -> None:
        before = len(reports())
        wait_until(lambda: len(reports()) > before, 60, "the report")
        time.sleep(0.3)  # more polls, which report nothing
        if attempts[record.offset] == 1:
            raise ArithmeticError("again")

    def handle(record: Any) -> None:
        attempts[record.offset] += 1
        if record.offset in (1, 3):
            lasts_until_it_is_reported(record)

    retry = Retry(attempts=2, backoff_ms=1)
    work("threads", topic, handle, settings_of(cluster, group_id), timeout_ms=50, retry=retry, order="partition")
    assert attempts == Counter({0: 1, 1: 2, 2: 1, 3: 2}), "none of them was ended"
    found = reports()
    assert [f"{topic}-0 offset {offset} has" in text for offset, text in zip((1, 1, 3, 3), found, strict=True)] == [
        True
    ] * 4
    assert all("in lasts_until_it_is_reported" in text for text in found), "with the stack"
    assert committed_of(cluster, group_id, topic, 1) == 4


@pytest.mark.parametrize("how", HOW)
def test_caught_up_means_the_end_that_the_partition_had_and_not_that_of_new_records(
    cluster: Cluster, topic: str, group_id: str, how: str
) -> None:
    fill(cluster, topic, 10)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:

        def handle(record: Any) -> None:
            producer.send(topic, b"one more").get()  # so there is always a record to process

        work(how, topic, handle, settings_of(cluster, group_id), concurrency=2)
    assert committed_of(cluster, group_id, topic, 1) >= 10


@pytest.mark.parametrize("handle", ["plain", "object"])
def test_tasks_take_plain_functions_and_objects(cluster: Cluster, topic: str, group_id: str, handle: str) -> None:
    fill(cluster, topic, 10)
    seen: list[int] = []

    class Later:
        async def __call__(self, record: Any) -> None:
            await asyncio.sleep(0)
            seen.append(record.offset)

    async def run() -> None:
        async with AsyncKafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer:
            function = Later() if handle == "object" else lambda record: seen.append(record.offset)
            await AsyncWorkers(consumer, function, order="partition").run(until_caught_up=True)

    asyncio.run(run())
    assert seen == list(range(10))


@pytest.mark.parametrize("waits", [True, False])
def test_only_a_function_that_never_waits_makes_its_task_yield(
    cluster: Cluster, topic: str, group_id: str, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cluster, topic, 300)
    sleep = asyncio.sleep
    yields = 0

    async def handle(record: Any) -> None:
        if waits:
            await sleep(0.01)
        else:
            time.sleep(0.001)  # noqa: ASYNC251 - it holds the loop

    async def counting(delay: float) -> None:
        nonlocal yields
        yields += delay == 0
        await sleep(delay)

    async def run() -> None:
        async with AsyncKafkaConsumer(topic, **settings_of(cluster, group_id)) as consumer:
            await AsyncWorkers(consumer, handle, order=None, concurrency=50).run(until_caught_up=True)

    monkeypatch.setattr(asyncio, "sleep", counting)
    asyncio.run(run())
    if waits:
        assert yields < 30, "each wait lets others run"
    else:
        assert yields >= 10, "others run each few milliseconds"
