"""Workers on share consumers, and the last delivery of a record, on every broker that has share groups."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyconsumer import AcknowledgeType, KafkaConsumer, KafkaProducer, KafkaShareConsumer, TopicPartition
from pyconsumer.aio import AsyncKafkaProducer, AsyncKafkaShareConsumer
from pyconsumer.errors import KafkaError, LastDeliveryError, RecordDeserializationError
from pyconsumer.workers import AsyncWorkers, Batch, DeadLetters, Retry, Workers
from tests.support.process import wait_until
from tests.support.share_groups import ShareWorld, take
from tests.support.worker_functions import fails_on_odd_numbers, keeps_table

pytestmark = pytest.mark.concurrent

_HOW = ["threads", "tasks"]


def work(
    world: ShareWorld,
    how: str,
    topic: str,
    handle: Callable[[Any], Any],
    *,
    dead: str | None = None,
    consumer: dict[str, Any] | None = None,
    begun: Callable[[Any], Any] | None = None,
    **more: Any,
) -> Any:
    """Process a topic until no record comes, with a plain function. Return the status of the workers."""
    settings = {"bootstrap_servers": world.servers, "group_id": world.group, "fetch_max_wait_ms": 100}
    settings |= consumer or {}
    if how != "tasks":
        with (
            KafkaProducer(bootstrap_servers=world.servers) as producer,
            KafkaShareConsumer(topic, **settings) as member,
        ):
            letters = None if dead is None else DeadLetters(producer, dead)
            workers: Any = Workers(member, handle, run_in=how, order=None, dead_letters=letters, **more)  # type: ignore[arg-type]
            if begun is not None:
                begun(workers)
            workers.run(until_caught_up=True)
            return workers.status()

    async def handle_later(record: Any) -> None:
        await asyncio.to_thread(handle, record)

    async def run() -> Any:
        async with (
            AsyncKafkaProducer(bootstrap_servers=world.servers) as producer,
            AsyncKafkaShareConsumer(topic, **settings) as member,
        ):
            letters = None if dead is None else DeadLetters(producer, dead)
            workers = AsyncWorkers(member, handle_later, order=None, dead_letters=letters, **more)
            if begun is not None:
                begun(workers)
            await workers.run(until_caught_up=True)
            return workers.status()

    return asyncio.run(run())


def read(world: ShareWorld, topic: str, count: int) -> list[Any]:
    """Read records of a topic from its beginning."""
    with KafkaConsumer(bootstrap_servers=world.servers) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        return take(consumer, count)


def header(record: Any, name: str) -> bytes:
    return dict(record.headers)[name]  # type: ignore[no-any-return]


def deliver_once(world: ShareWorld, topic: str) -> None:
    """Let a member get the only record, and close, which releases it."""
    with KafkaShareConsumer(topic, bootstrap_servers=world.servers, group_id=world.group) as member:
        wait_until(lambda: bool(member.poll(timeout_ms=500)), 20, "the first delivery")


def is_empty(world: ShareWorld, topic: str) -> bool:
    """Return whether the group has no record for a member."""
    with KafkaShareConsumer(topic, bootstrap_servers=world.servers, group_id=world.group) as member:
        return member.poll(timeout_ms=1500).is_empty


@pytest.mark.parametrize("how", [*_HOW, "inline", "processes"])
def test_each_record_is_accepted_once(world: ShareWorld, how: str) -> None:
    topic = world.topic(2)
    world.send(topic, [b"%d" % number for number in range(200)])
    world.send(topic, [b"%d" % number for number in range(200)], partition=1)
    seen = Counter[tuple[int, int]]()

    def handle(record: Any) -> None:
        seen[record.partition, record.offset] += 1

    function = fails_on_odd_numbers if how == "processes" else handle
    more: dict[str, Any] = {"dead": world.topic()} if how == "processes" else {}
    status = work(world, how, topic, function, concurrency=8, **more)
    assert status.finished == 400
    if how == "processes":
        assert status.dead == 200
    else:
        assert set(seen.values()) == {1}
        assert len(seen) == 400
    assert is_empty(world, topic)


@pytest.mark.parametrize("how", _HOW)
def test_a_failing_record_is_held_tried_again_and_rejected_after_its_dead_letter(world: ShareWorld, how: str) -> None:
    topic, dead = world.topic(), world.topic()
    world.send(topic, [b"good", b"bad", b"good"])
    calls = Counter[bytes]()

    def handle(record: Any) -> None:
        calls[record.value] += 1
        if record.value == b"bad":
            raise ValueError("it is bad")

    status = work(world, how, topic, handle, dead=dead, retry=Retry(attempts=3, backoff_ms=50))
    assert calls == {b"good": 2, b"bad": 3}
    assert (status.finished, status.dead, status.retries) == (3, 1, 2)
    (letter,) = read(world, dead, 1)
    assert (letter.value, header(letter, "dead-letter.attempts")) == (b"bad", b"3")
    assert header(letter, "dead-letter.error") == b"it is bad"
    assert is_empty(world, topic)


@pytest.mark.parametrize("how", _HOW)
def test_a_slow_record_is_renewed_and_new_records_are_processed_meanwhile(world: ShareWorld, how: str) -> None:
    world.set_group(share_record_lock_duration_ms="3000")
    topic = world.topic()
    world.send(topic, [b"slow"])
    calls = Counter[bytes]()
    seen_others = threading.Event()

    def handle(record: Any) -> None:
        calls[record.value] += 1
        if record.value == b"slow":
            assert seen_others.wait(20)
            time.sleep(0.5)
        elif calls[b"later"] == 3:
            seen_others.set()

    def begun(workers: Any) -> None:
        def send() -> None:
            wait_until(lambda: calls[b"slow"] > 0, 20, "the slow record")
            time.sleep(3.5)  # longer than the lock
            world.send(topic, [b"later"] * 3)

        threading.Thread(target=send).start()

    status = work(world, how, topic, handle, begun=begun, concurrency=4)
    assert calls == {b"slow": 1, b"later": 3}
    assert status.finished == 4
    assert is_empty(world, topic)


def test_a_record_is_released_where_the_group_does_not_renew_and_attempts_count_deliveries(world: ShareWorld) -> None:
    world.set_group(share_renew_acknowledge_enable="false", share_record_lock_duration_ms="2000")
    topic, dead = world.topic(), world.topic()
    world.send(topic, [b"bad"])
    calls: list[bytes] = []

    def handle(record: Any) -> None:
        calls.append(record.value)
        raise ValueError

    # The pause is longer than the lock, so the record cannot be held.
    work(world, "threads", topic, handle, dead=dead, retry=Retry(attempts=3, backoff_ms=5000))
    assert len(calls) == 3
    assert header(read(world, dead, 1)[0], "dead-letter.attempts") == b"3"
    assert is_empty(world, topic)


@pytest.mark.parametrize("how", _HOW)
def test_a_record_that_fails_in_its_last_delivery_is_sent_to_the_dead_letters(world: ShareWorld, how: str) -> None:
    world.set_group(share_delivery_count_limit="2")
    topic, dead = world.topic(), world.topic()
    world.send(topic, [b"bad"])
    deliver_once(world, topic)

    def handle(record: Any) -> None:
        raise ValueError

    status = work(world, how, topic, handle, dead=dead, retry=Retry(attempts=10, backoff_ms=10))
    assert (status.dead, status.retries) == (1, 0)
    assert header(read(world, dead, 1)[0], "dead-letter.attempts") == b"2"


def test_a_record_whose_dead_letter_fails_is_released_and_ends_the_work(world: ShareWorld) -> None:
    topic = world.topic()
    world.send(topic, [b"bad"])

    def handle(record: Any) -> None:
        raise ValueError

    with pytest.raises(KafkaError):
        work(world, "threads", topic, handle, dead="not a name of a topic")
    with KafkaShareConsumer(topic, bootstrap_servers=world.servers, group_id=world.group) as member:
        assert [member.delivery_count(record) for record in take(member, 1)] == [2]


def test_records_that_cannot_be_deserialized_are_rejected_and_batches_are_accepted(world: ShareWorld) -> None:
    topic, dead = world.topic(), world.topic()
    world.send(topic, [b"1", b"x", b"2", b"3"])
    seen: list[int] = []

    def handle(records: list[Any]) -> None:
        seen.extend(record.value for record in records)

    settings = {"value_deserializer": int}
    status = work(world, "threads", topic, handle, dead=dead, consumer=settings, batch=Batch(max=10, wait_ms=20))
    assert sorted(seen) == [1, 2, 3]
    assert (status.finished, status.dead) == (4, 1)
    assert [letter.value for letter in read(world, dead, 1)] == [b"x"]
    assert is_empty(world, topic)


@pytest.mark.parametrize("how", [*_HOW, "inline", "processes"])
def test_the_function_gets_tables_with_delivery_counts(world: ShareWorld, how: str, tmp_path: Path) -> None:
    feather = pytest.importorskip("pyarrow.feather")
    topic = world.topic()
    for value in (b"first", b"second"):
        with KafkaProducer(bootstrap_servers=world.servers) as producer:
            producer.send(topic, value, headers=[("folder", str(tmp_path).encode())])
        if value == b"first":
            deliver_once(world, topic)
    batch = Batch(max=5, wait_ms=50, form="arrow")
    assert work(world, how, topic, keeps_table, batch=batch).finished == 2
    tables = [feather.read_table(file) for file in tmp_path.iterdir()]
    rows = [row for table in tables for row in table.to_pylist()]
    assert sorted((row["value"], row["delivery_count"]) for row in rows) == [(b"first", 2), (b"second", 1)]
    with KafkaShareConsumer(topic, bootstrap_servers=world.servers, group_id=world.group) as member:
        assert [table.schema for table in tables] == [member.poll_arrow().schema] * len(tables)
    assert is_empty(world, topic)


def test_stop_releases_the_other_records_and_sends_last_deliveries_to_the_dead_letters(world: ShareWorld) -> None:
    world.set_group(share_delivery_count_limit="2")
    topic, dead = world.topic(), world.topic()
    world.send(topic, [b"%d" % number for number in range(4)])

    def begun(workers: Any) -> None:
        found.append(workers)

    found: list[Any] = []

    def handle(record: Any) -> None:
        found[0].stop()

    work(world, "inline", topic, handle, begun=begun)
    del found[:]
    status = work(world, "inline", topic, handle, begun=begun, dead=dead)
    assert status.dead == 2  # the first run accepted one, the second one as well
    letters = read(world, dead, 2)
    assert {header(letter, "dead-letter.error-type") for letter in letters} == {b"pyconsumer.errors.LastDeliveryError"}
    assert is_empty(world, topic)


@pytest.mark.parametrize("how", _HOW)
def test_locks_are_renewed_and_finished_records_accepted_while_the_workers_end(world: ShareWorld, how: str) -> None:
    world.set_group(share_record_lock_duration_ms="1000")
    topic = world.topic()
    world.send(topic, [b"slow", b"quick", b"slow"])
    calls = Counter[bytes]()
    found: list[Any] = []
    accepted: list[bool] = []

    def handle(record: Any) -> None:
        calls[record.value] += 1
        if record.value == b"slow":
            wait_until(lambda: calls[b"slow"] == 2 and calls[b"quick"] == 1, 20, "the others")
            found[0].stop()
            time.sleep(2.5)  # longer than the lock
            accepted.append(is_empty(world, topic))  # another member gets nothing

    status = work(world, how, topic, handle, begun=found.append, concurrency=3)
    assert calls == {b"slow": 2, b"quick": 1}
    assert status.finished == 3
    assert accepted == [True, True]
    assert is_empty(world, topic)


def test_a_record_that_ends_the_work_in_its_last_delivery_goes_to_the_dead_letters(world: ShareWorld) -> None:
    world.set_group(share_delivery_count_limit="2")
    topic, dead = world.topic(), world.topic()
    world.send(topic, [b"it"])
    deliver_once(world, topic)

    def handle(record: Any) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        work(world, "threads", topic, handle, dead=dead)
    (letter,) = read(world, dead, 1)
    assert (letter.value, header(letter, "dead-letter.attempts")) == (b"it", b"2")
    assert is_empty(world, topic)


class Sink:
    """Keeps the errors that it gets, or fails."""

    def __init__(self, *, fails: bool = False) -> None:
        self.found: list[RecordDeserializationError] = []
        self._fails = fails

    def send(self, error: RecordDeserializationError) -> None:
        if self._fails:
            raise OSError("the sink is full")
        self.found.append(error)


def in_last_delivery(world: ShareWorld, topic: str, sink: Any) -> KafkaShareConsumer[Any, Any]:
    """Return a member with two records in their last delivery, the first one released by it."""
    world.set_group(share_delivery_count_limit="2")
    world.send(topic, [b"1", b"2"])
    member: KafkaShareConsumer[Any, Any] = world.consumer(
        topic, share_acknowledgement_mode="explicit", on_record_error=sink, value_deserializer=int
    )
    for kind in (AcknowledgeType.RELEASE, AcknowledgeType.ACCEPT):
        records: list[Any] = []
        while len(records) < 2:
            for record in member.poll(timeout_ms=500).records():
                records.append(record)
                member.acknowledge(record, AcknowledgeType.RELEASE if record.value == 1 else kind)
    return member


def test_a_record_that_is_released_in_its_last_delivery_goes_to_the_sink(world: ShareWorld) -> None:
    topic, sink = world.topic(), Sink()
    member = in_last_delivery(world, topic, sink)
    assert member.commit() == {TopicPartition(topic, 0): None}
    (error,) = sink.found
    assert isinstance(error, LastDeliveryError)
    assert (error.value, error.offset, error.delivery_count) == (b"1", 0, 2)
    assert member.poll(timeout_ms=300).is_empty
    member.close()
    assert is_empty(world, topic)


def test_the_sink_of_dead_letters_gets_a_record_in_its_last_delivery(world: ShareWorld) -> None:
    topic, dead = world.topic(), world.topic()
    with KafkaProducer(bootstrap_servers=world.servers) as producer:
        member = in_last_delivery(world, topic, DeadLetters(producer, dead))
        member.close()  # waits for the letter
    (letter,) = read(world, dead, 1)
    assert (letter.value, header(letter, "dead-letter.attempts")) == (b"1", b"2")


def test_a_sink_that_fails_in_the_last_delivery_is_an_error_of_the_next_poll(world: ShareWorld) -> None:
    topic = world.topic()
    member = in_last_delivery(world, topic, Sink(fails=True))
    with pytest.raises(OSError, match="full"):
        member.poll(timeout_ms=300)
    assert member.commit() == {TopicPartition(topic, 0): None}
