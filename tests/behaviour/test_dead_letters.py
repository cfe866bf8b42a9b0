"""``DeadLetters`` as ``on_record_error`` of a consumer, on every broker."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
import time
from typing import Any

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.aio import AsyncKafkaConsumer, AsyncKafkaProducer
from pyconsumer.errors import KafkaError
from pyconsumer.workers import AsyncWorkers, DeadLetters, Workers, replay
from tests.behaviour.worker_support import committed_of
from tests.support.cluster import Cluster


class HeldLetters(DeadLetters):
    """Dead letters that are sent when ``go`` is set. The first ones may fail."""

    def __init__(self, producer: Any, topic: str, failures: int = 0) -> None:
        super().__init__(producer, topic)
        self.go = asyncio.Event()
        self.begun = 0
        self.failures = failures

    async def deliver_async(self, letter: Any) -> None:
        self.begun += 1
        await self.go.wait()
        if self.begun <= self.failures:
            raise KafkaError("no such topic")
        await super().deliver_async(letter)


#: The time of the first record. Its failure is later.
LONG_AGO_MS = 1_700_000_000_000


def fill(cluster: Cluster, topic: str) -> None:
    """Send five records to partition 0, of which the third is no JSON."""
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(5):
            value = b"{" if n == 2 else b"%d" % n
            producer.send(topic, value, key=b"key", partition=0, timestamp_ms=LONG_AGO_MS + n)


async def read(consumer: AsyncKafkaConsumer[Any, Any], seen: list[int], count: int) -> None:
    """Add values to a list until it has that many."""
    while len(seen) < count:
        seen += [record.value for record in (await consumer.poll(timeout_ms=1000)).records()]


def letters_of(cluster: Cluster, topic: str) -> list[tuple[bytes | None, bytes | None, str]]:
    with KafkaConsumer(topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as reader:
        found = list(reader.poll(timeout_ms=10_000).records())
    for one in found:
        failed_at = int(dict(one.headers)["dead-letter.first-failure"])
        assert time.time() - 600 < failed_at / 1000 <= time.time(), "it is not the time of the record"
    return [(one.key, one.value, dict(one.headers)["dead-letter.offset"].decode()) for one in found]


def settings_of(cluster: Cluster) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "auto_offset_reset": "earliest",
        "value_deserializer": json.loads,
    }


@pytest.mark.parametrize("iterates", [False, True])
def test_an_asyncio_consumer_sends_dead_letters(cluster: Cluster, topic: str, make_topic: Any, iterates: bool) -> None:
    fill(cluster, topic)
    dead = make_topic(1)

    async def run() -> list[int]:
        async with (
            AsyncKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
            AsyncKafkaConsumer(topic, **settings_of(cluster), on_record_error=DeadLetters(producer, dead)) as consumer,
        ):
            seen: list[int] = []
            if iterates:
                async for record in consumer:
                    seen.append(record.value)
                    if len(seen) == 4:
                        break
            await read(consumer, seen, 4)
            return seen

    assert asyncio.run(run()) == [0, 1, 3, 4]
    assert letters_of(cluster, dead) == [(b"key", b"{", "2")]


@pytest.mark.parametrize("iterates", [False, True])
def test_a_blocking_consumer_sends_dead_letters(cluster: Cluster, topic: str, make_topic: Any, iterates: bool) -> None:
    fill(cluster, topic)
    dead = make_topic(1)
    seen: list[int] = []
    with (
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
        KafkaConsumer(topic, **settings_of(cluster), on_record_error=DeadLetters(producer, dead)) as consumer,
    ):
        if iterates:
            seen += [record.value for record in itertools.islice(consumer, 4)]
        while len(seen) < 4:
            seen += [record.value for record in consumer.poll(timeout_ms=1000).records()]
    assert seen == [0, 1, 3, 4]
    assert letters_of(cluster, dead) == [(b"key", b"{", "2")]


@pytest.mark.parametrize("how", ["threads", "inline", "tasks"])
def test_workers_send_the_dead_letters_of_their_consumer(
    cluster: Cluster, topic: str, make_topic: Any, group_id: str, how: Any
) -> None:
    fill(cluster, topic)
    dead = make_topic(1)
    seen: list[int] = []
    settings = {**settings_of(cluster), "group_id": group_id, "enable_auto_commit": False}

    def handle(record: Any) -> None:
        seen.append(record.value)

    async def run() -> None:
        async with (
            AsyncKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
            AsyncKafkaConsumer(topic, **settings, on_record_error=DeadLetters(producer, dead)) as consumer,
        ):
            await AsyncWorkers(consumer, handle).run(until_caught_up=True)

    if how == "tasks":
        asyncio.run(run())
    else:
        with (
            KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
            KafkaConsumer(topic, **settings, on_record_error=DeadLetters(producer, dead)) as consumer,
        ):
            Workers(consumer, handle, run_in=how).run(until_caught_up=True)
    assert seen == [0, 1, 3, 4]
    assert letters_of(cluster, dead) == [(b"key", b"{", "2")]
    assert committed_of(cluster, group_id, topic, 1) == 5


@pytest.mark.parametrize("how", ["threads", "tasks"])
@pytest.mark.parametrize("failures", [2, 3])
def test_a_letter_is_sent_as_often_as_attempts_say_and_then_its_partition_stops(
    cluster: Cluster,
    topic: str,
    make_topic: Any,
    group_id: str,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    failures: int,
) -> None:
    fill(cluster, topic)
    dead = make_topic(1)
    settings = {**settings_of(cluster), "group_id": group_id, "enable_auto_commit": False}
    begun = 0

    def begin() -> None:
        nonlocal begun
        begun += 1
        if begun <= failures:
            raise KafkaError("the network is down")

    async def run() -> None:
        async with (
            AsyncKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
            AsyncKafkaConsumer(topic, **settings) as consumer,
        ):
            send = producer.send_and_wait

            async def send_later(*args: Any, **more: Any) -> Any:
                begin()
                return await send(*args, **more)

            monkeypatch.setattr(producer, "send_and_wait", send_later)
            workers = AsyncWorkers(consumer, print, order="partition", dead_letters=DeadLetters(producer, dead))
            await workers.run(until_caught_up=True)

    def run_in_threads() -> None:
        with (
            KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
            KafkaConsumer(topic, **settings) as consumer,
        ):
            send = producer.send

            def send_later(*args: Any, **more: Any) -> Any:
                begin()
                return send(*args, **more)

            monkeypatch.setattr(producer, "send", send_later)
            workers = Workers(consumer, print, order="partition", dead_letters=DeadLetters(producer, dead))
            workers.run(until_caught_up=True)

    with pytest.raises(KafkaError, match="is down") if failures == 3 else contextlib.nullcontext():
        asyncio.run(run()) if how == "tasks" else run_in_threads()
    assert begun == 3
    assert committed_of(cluster, group_id, topic, 1) == (2 if failures == 3 else 5)
    if failures == 2:
        assert letters_of(cluster, dead) == [(b"key", b"{", "2")]


def test_a_poll_keeps_its_deadline_and_the_position_until_the_letter_is_acknowledged(
    cluster: Cluster, topic: str, make_topic: Any
) -> None:
    fill(cluster, topic)
    dead = make_topic(1)
    place = TopicPartition(topic, 0)

    async def run() -> None:
        async with AsyncKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            letters = HeldLetters(producer, dead)
            async with AsyncKafkaConsumer(**settings_of(cluster), on_record_error=letters) as consumer:
                consumer.assign([place])
                seen: list[int] = []
                await read(consumer, seen, 2)
                began = time.monotonic()
                assert not await consumer.poll(timeout_ms=100)
                assert time.monotonic() - began < 30
                assert not await consumer.poll(timeout_ms=0)
                assert (letters.begun, await consumer.position(place)) == (1, 2)
                asyncio.get_running_loop().call_soon(letters.go.set)
                assert [record.value for record in (await consumer.poll(timeout_ms=60_000)).records()] == [3, 4]
                assert (letters.begun, await consumer.position(place)) == (1, 5)

    asyncio.run(run())
    assert letters_of(cluster, dead) == [(b"key", b"{", "2")]


def test_a_letter_that_fails_is_raised_and_sent_again_by_the_next_poll(
    cluster: Cluster, topic: str, make_topic: Any
) -> None:
    fill(cluster, topic)
    dead = make_topic(1)
    place = TopicPartition(topic, 0)

    async def run() -> None:
        async with AsyncKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            letters = HeldLetters(producer, dead, failures=1)
            letters.go.set()
            async with AsyncKafkaConsumer(**settings_of(cluster), on_record_error=letters) as consumer:
                consumer.assign([place])
                seen: list[int] = []
                with pytest.raises(KafkaError, match="no such topic"):
                    await read(consumer, seen, 5)
                assert (seen, await consumer.position(place)) == ([0, 1], 2)
                await read(consumer, seen, 4)
                assert seen == [0, 1, 3, 4]

    asyncio.run(run())
    assert letters_of(cluster, dead) == [(b"key", b"{", "2")]


def test_a_blocking_poll_keeps_its_deadline_while_a_letter_is_sent(
    cluster: Cluster, topic: str, make_topic: Any
) -> None:
    fill(cluster, topic)
    dead = make_topic(1)
    go = threading.Event()

    class Held(DeadLetters):
        def deliver(self, letter: Any) -> None:
            assert go.wait(60)
            super().deliver(letter)

    place = TopicPartition(topic, 0)
    with (
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
        KafkaConsumer(**settings_of(cluster), on_record_error=Held(producer, dead)) as consumer,
    ):
        consumer.assign([place])
        seen: list[int] = []
        while len(seen) < 2:
            seen += [record.value for record in consumer.poll(timeout_ms=1000).records()]
        assert not consumer.poll(timeout_ms=50)
        assert consumer.position(place) == 2
        go.set()
        while len(seen) < 4:
            seen += [record.value for record in consumer.poll(timeout_ms=1000).records()]
    assert seen == [0, 1, 3, 4]
    assert letters_of(cluster, dead) == [(b"key", b"{", "2")]


@pytest.mark.parametrize("how", ["threads", "tasks"])
def test_letters_are_sent_back_to_the_topic_that_they_came_from(
    cluster: Cluster, topic: str, make_topic: Any, group_id: str, how: str
) -> None:
    dead = make_topic(1)
    servers = cluster.bootstrap_servers
    settings: dict[str, Any] = {
        "bootstrap_servers": servers,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    seen: list[Any] = []
    is_mended = False

    def handle(record: Any) -> None:
        if not is_mended and record.key == b"bad":
            raise ArithmeticError("bad")
        seen.append((record.key, record.value, record.timestamp, list(record.headers)))

    async def handle_later(record: Any) -> None:
        handle(record)

    def sent(n: int) -> tuple[bytes, bytes, int, list[tuple[str, bytes]]]:
        return b"bad" if n % 2 else b"good", b"%d" % n, 1_700_000_000_000 + n, [("n", b"%d" % n)]

    with KafkaProducer(bootstrap_servers=servers) as producer:
        for n in range(6):
            key, value, at, headers = sent(n)
            producer.send(topic, value, key=key, timestamp_ms=at, headers=headers)
        producer.flush()

        def work() -> None:
            with KafkaConsumer(topic, group_id=group_id, **settings) as consumer:
                Workers(consumer, handle, dead_letters=DeadLetters(producer, dead)).run(until_caught_up=True)

        async def work_later(name: str, function: Any) -> None:
            async with (
                AsyncKafkaProducer(bootstrap_servers=servers) as later,
                AsyncKafkaConsumer(name, group_id=f"{group_id}-{name}", **settings) as consumer,
            ):
                letters = None if name == dead else DeadLetters(later, dead)
                workers = AsyncWorkers(consumer, function, dead_letters=letters, producer=later)
                await workers.run(until_caught_up=True)

        def send_back() -> None:
            with KafkaConsumer(dead, group_id=f"{group_id}-repair", **settings) as consumer:
                Workers(consumer, replay, producer=producer).run(until_caught_up=True)

        def run(is_repair: bool) -> None:
            if how == "threads":
                (send_back if is_repair else work)()
            else:
                asyncio.run(work_later(dead, replay) if is_repair else work_later(topic, handle_later))

        run(is_repair=False)
        assert sorted(seen) == sorted(sent(n) for n in (0, 2, 4))
        seen.clear()
        for _ in range(2):  # the second time there is nothing to send
            run(is_repair=True)
        is_mended = True
        run(is_repair=False)
    assert seen == [sent(n) for n in (1, 3, 5)]
    assert [letter[1] for letter in letters_of(cluster, dead)] == [b"1", b"3", b"5"], "no letter of a letter"
