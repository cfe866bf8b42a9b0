"""Closing says that records are processed, unless something says the opposite: the rules of ``consumer/closing.py``."""

from __future__ import annotations

import asyncio
import importlib
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pyconsumer import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition, stop_on_signals
from pyconsumer.aio import AsyncKafkaConsumer
from pyconsumer.errors import WakeupError
from tests.behaviour.consumer_support import fill, poll_until
from tests.support.cluster import Cluster

COUNT = 10
FAILING = 3  # the offset of the record that cannot be processed

Read = Callable[[Any], Any]


class FailedError(Exception):
    """An error of the application."""


def settings(cluster: Cluster, group_id: str, **options: Any) -> dict[str, Any]:
    """Of a consumer that commits automatically, but never by time."""
    servers = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": group_id}
    return servers | {"auto_offset_reset": "earliest", "auto_commit_interval_ms": 600_000} | options


def committed(cluster: Cluster, group_id: str, topic: str) -> int | None:
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group_id) as reader:
        return reader.committed(TopicPartition(topic, 0))


def batch(consumer: Any) -> list[Any]:
    """Return all records, of one poll."""
    deadline = time.monotonic() + 60
    while True:
        found = list(consumer.poll(500).records())
        if found:
            assert len(found) == COUNT
            return found
        assert time.monotonic() < deadline


def one_by_one(consumer: Any) -> Any:
    """Iterate. The face for asyncio has no iteration, its polls of one record are the same."""
    if hasattr(consumer, "__next__"):
        return consumer
    return (record for _ in range(200) for record in consumer.poll(500, max_records=1).records())


def process(records: Any, error: BaseException | None = None) -> int:
    """Process records up to the one that fails and return how many."""
    count = 0
    for record in records:
        if error is not None and record.offset == FAILING:
            raise error
        count += 1
        if count == COUNT:
            break
    return count


reading = pytest.mark.parametrize("read", [batch, one_by_one])


# -- the end of a with block -----------------------------------------------------------------------------------------


@pytest.mark.faces
@pytest.mark.protocols
@reading
def test_an_exception_that_leaves_the_block_prevents_the_commit(
    read: Read, cluster: Cluster, group_protocol: str, topic: str, group_id: str
) -> None:
    fill(cluster, topic, COUNT)
    options = settings(cluster, group_id, group_protocol=group_protocol)
    with pytest.raises(FailedError), KafkaConsumer(topic, **options) as consumer:
        process(read(consumer), FailedError())
    assert committed(cluster, group_id, topic) is None
    with KafkaConsumer(topic, **options) as consumer:
        assert process(batch(consumer)) == COUNT, "all of them are read again"
    assert committed(cluster, group_id, topic) == COUNT, "the block ended normally"


@pytest.mark.faces
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_the_end_of_a_program_in_the_middle_prevents_the_commit(
    error: type[BaseException], cluster: Cluster, topic: str, group_id: str
) -> None:
    fill(cluster, topic, COUNT)
    with pytest.raises(error), KafkaConsumer(topic, **settings(cluster, group_id)) as consumer:
        process(batch(consumer), error())
    assert committed(cluster, group_id, topic) is None


def test_a_closed_generator_does_not_commit(cluster: Cluster, topic: str, group_id: str) -> None:
    """Its reader may have left its loop by an error."""
    fill(cluster, topic, COUNT)

    def records() -> Any:
        with KafkaConsumer(topic, **settings(cluster, group_id)) as consumer:
            for record in consumer:  # noqa: UP028  ("yield from" calls close before the block ends)
                yield record

    generator = records()
    assert [next(generator).offset for _ in range(4)] == [0, 1, 2, 3]
    generator.close()
    assert committed(cluster, group_id, topic) is None


@pytest.mark.faces
@pytest.mark.protocols
def test_a_waiting_rebalance_does_not_commit_either(
    cluster: Cluster, group_protocol: str, topic: str, group_id: str
) -> None:
    fill(cluster, topic, COUNT)
    options = settings(cluster, group_id, group_protocol=group_protocol)
    revoked: list[Any] = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, partitions: Any) -> None:
            revoked.extend(partitions)

    def fail() -> None:
        with KafkaConsumer(**options) as consumer:
            consumer.subscribe([topic], listener=Listener())
            found = batch(consumer)
            for _ in range(3):
                other.poll(100)  # asks to join, which needs the partitions of the first one
            process(found, FailedError())

    with KafkaConsumer(topic, **options | {"auto_offset_reset": "latest"}) as other:
        # With latest, a commit of any offset would show: without one the other member reads nothing.
        with pytest.raises(FailedError):
            fail()
        poll_until(other, other.assignment)
        assert other.committed(TopicPartition(topic, 0)) is None
        assert other.position(TopicPartition(topic, 0)) == COUNT
    assert revoked in ([], [TopicPartition(topic, 0)])


@pytest.mark.faces
@pytest.mark.protocols
@pytest.mark.parametrize("asks", [False, True])
@reading
def test_a_listener_that_commits_while_the_consumer_closes(
    read: Read, asks: bool, cluster: Cluster, group_protocol: str, topic: str, group_id: str
) -> None:
    """The positions go back, so it commits the processed records, without the record at hand."""
    fill(cluster, topic, COUNT)
    options = settings(cluster, group_id, group_protocol=group_protocol, enable_auto_commit=False)

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, partitions: Any) -> None:
            consumer.commit()

    def program() -> None:
        with consumer:
            consumer.subscribe([topic], listener=Listener())
            for record in read(consumer):
                if asks:
                    consumer.position(TopicPartition(topic, 0))
                if record.offset == FAILING:
                    raise FailedError

    consumer = KafkaConsumer(**options)
    with pytest.raises(FailedError):
        program()
    found = committed(cluster, group_id, topic)
    assert found is not None
    assert found <= (0 if read is batch else FAILING)


@pytest.mark.faces
def test_stored_offsets_are_committed_in_each_case(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, COUNT)
    options = settings(cluster, group_id, enable_auto_offset_store=False)

    def program() -> None:
        with KafkaConsumer(topic, **options) as consumer:
            found = batch(consumer)
            consumer.store_offsets(found[:2])
            process(found, FailedError())

    with pytest.raises(FailedError):
        program()
    assert committed(cluster, group_id, topic) == 2


# -- close -----------------------------------------------------------------------------------------------------------


@pytest.mark.faces
@pytest.mark.protocols
def test_close_commits_all_that_was_returned(cluster: Cluster, group_protocol: str, topic: str, group_id: str) -> None:
    fill(cluster, topic, COUNT)
    consumer = KafkaConsumer(topic, **settings(cluster, group_id, group_protocol=group_protocol, max_poll_records=4))
    poll_until(consumer, lambda: consumer.assignment() and consumer.position(TopicPartition(topic, 0)) == 4)
    consumer.close()
    assert committed(cluster, group_id, topic) == 4


def test_close_commits_the_record_that_iteration_yielded_last(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, COUNT)
    consumer = KafkaConsumer(topic, **settings(cluster, group_id))
    for record in consumer:
        if record.offset == FAILING:
            break
    consumer.close()
    assert committed(cluster, group_id, topic) == FAILING + 1


@pytest.mark.parametrize("package", ["pyconsumer", "pyconsumer.compat.kafka"])
@reading
def test_close_in_a_finally(read: Read, package: str, cluster: Cluster, topic: str, group_id: str) -> None:
    """After an exception no record is committed, without one all are. Earlier exceptions do not count."""
    fill(cluster, topic, COUNT)
    made = importlib.import_module(package).KafkaConsumer

    def program(error: BaseException | None) -> None:
        consumer = made(topic, **settings(cluster, group_id))
        try:
            process(consumer if read is one_by_one else _batch_of(consumer), error)
        finally:
            consumer.close()

    with pytest.raises(FailedError):
        program(FailedError())
    assert committed(cluster, group_id, topic) is None
    try:
        raise LookupError
    except LookupError:
        program(None)
    assert committed(cluster, group_id, topic) == COUNT


def _batch_of(consumer: Any) -> list[Any]:
    """Return the records of one poll, also of kafka-python's, whose result has no ``records``."""
    deadline = time.monotonic() + 60
    while True:
        found = [record for records in consumer.poll(500).values() for record in records]
        if found:
            return found
        assert time.monotonic() < deadline


def test_kafka_pythons_close_takes_the_decision_of_the_program(cluster: Cluster, topic: str, group_id: str) -> None:
    made = importlib.import_module("pyconsumer.compat.kafka").KafkaConsumer
    fill(cluster, topic, COUNT)
    consumer = made(topic, **settings(cluster, group_id))
    try:
        process(_batch_of(consumer), FailedError())
    except FailedError:
        consumer.close(autocommit=True)
    assert committed(cluster, group_id, topic) == COUNT


# -- wakeups and signals ---------------------------------------------------------------------------------------------


@pytest.mark.faces
def test_a_wakeup_out_of_poll_is_a_good_order(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, COUNT)

    def program() -> None:
        with KafkaConsumer(topic, **settings(cluster, group_id)) as consumer:
            process(batch(consumer))
            consumer.wakeup()
            consumer.poll(60_000)

    with pytest.raises(WakeupError):
        program()
    assert committed(cluster, group_id, topic) == COUNT


@pytest.mark.faces
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_wakeup_out_of_another_call_comes_in_the_middle(
    goes_on: bool, cluster: Cluster, topic: str, group_id: str
) -> None:
    fill(cluster, topic, COUNT)
    tp = TopicPartition(topic, 0)
    with KafkaConsumer(topic, **settings(cluster, group_id)) as consumer:
        batch(consumer)
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.committed(tp)
        if goes_on:
            consumer.poll(0)
    assert committed(cluster, group_id, topic) == (COUNT if goes_on else None)


def test_one_ctrl_c_is_a_good_order_and_a_second_one_is_not(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, COUNT)

    def program(*signals_at: int) -> None:
        with KafkaConsumer(topic, **settings(cluster, group_id)) as consumer, stop_on_signals(consumer):
            for record in consumer:
                for offset in signals_at:
                    if record.offset == offset:
                        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            program(FAILING, FAILING)
        assert committed(cluster, group_id, topic) is None
        program(FAILING)
        assert committed(cluster, group_id, topic) == FAILING + 1, "the record at hand was processed"
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_signal_that_ends_another_call_of_the_consumer(cluster: Cluster, topic: str, group_id: str) -> None:
    """``stop_on_signals`` swallows the wakeup, though it came between two records of a batch."""
    fill(cluster, topic, COUNT)
    with KafkaConsumer(topic, **settings(cluster, group_id)) as consumer, stop_on_signals(consumer) as stopped:
        for record in batch(consumer):
            if record.offset == FAILING:
                signal.raise_signal(signal.SIGTERM)
            consumer.committed(TopicPartition(topic, 0))
    assert stopped.signal is signal.SIGTERM
    assert committed(cluster, group_id, topic) is None


# -- other ends ------------------------------------------------------------------------------------------------------


@pytest.mark.faces
@pytest.mark.protocols
def test_unsubscribing_does_not_commit(cluster: Cluster, group_protocol: str, topic: str, group_id: str) -> None:
    fill(cluster, topic, COUNT)
    with KafkaConsumer(topic, **settings(cluster, group_id, group_protocol=group_protocol)) as consumer:
        process(batch(consumer))
        consumer.unsubscribe()
    assert committed(cluster, group_id, topic) is None


@pytest.mark.protocols
def test_a_dropped_consumer_does_not_commit(cluster: Cluster, group_protocol: str, topic: str, group_id: str) -> None:
    fill(cluster, topic, COUNT)
    consumer = KafkaConsumer(topic, **settings(cluster, group_id, group_protocol=group_protocol))
    process(batch(consumer))
    with pytest.warns(ResourceWarning, match="unclosed"):
        del consumer
    with KafkaConsumer(topic, **settings(cluster, group_id, group_protocol=group_protocol)) as consumer:
        assert len(batch(consumer)) == COUNT, "it has left its group, and nothing is committed"


@pytest.mark.parametrize("ending", ["", "raise ValueError", "sys.exit(3)"])
def test_a_program_that_ends_without_close_does_not_commit(
    ending: str, cluster: Cluster, topic: str, group_id: str
) -> None:
    fill(cluster, topic, COUNT)
    code = f"""
import sys
from pyconsumer import KafkaConsumer
consumer = KafkaConsumer(sys.argv[3], bootstrap_servers=sys.argv[1], group_id=sys.argv[2], auto_offset_reset="earliest")
while not (found := consumer.poll(500).count()):
    pass
print(found, flush=True)
{ending}
"""
    done = subprocess.run(
        [sys.executable, "-c", code, cluster.bootstrap_servers, group_id, topic], capture_output=True, text=True
    )
    assert done.stdout.split() == [str(COUNT)], done.stderr
    assert committed(cluster, group_id, topic) is None


# -- event loops -----------------------------------------------------------------------------------------------------


async def some(consumer: AsyncKafkaConsumer[Any, Any]) -> list[Any]:
    async with asyncio.timeout(60):
        while not (found := list((await consumer.poll(500)).records())):
            pass
    return found


@pytest.mark.asyncio
@pytest.mark.parametrize("compat", [False, True])
async def test_closing_in_a_finally_on_a_loop(compat: bool, cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, COUNT)

    async def program(error: BaseException | None) -> None:
        consumer: Any
        options = settings(cluster, group_id)
        if compat:
            consumer = importlib.import_module("pyconsumer.compat.aiokafka").AIOKafkaConsumer(topic, **options)
            await consumer.start()
        else:
            consumer = AsyncKafkaConsumer(topic, **options)
        try:
            count = 0
            async for record in consumer:
                if error is not None and record.offset == FAILING:
                    raise error
                count += 1
                if count == COUNT:
                    break
        finally:
            await (consumer.stop() if compat else consumer.close())

    for error in (FailedError(), asyncio.CancelledError()):
        with pytest.raises(type(error)):
            await program(error)
        assert committed(cluster, group_id, topic) is None
    await program(None)
    assert committed(cluster, group_id, topic) == COUNT


@pytest.mark.asyncio
async def test_a_cancelled_task_does_not_commit(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, COUNT)
    has_records = asyncio.Event()

    async def program() -> None:
        async with AsyncKafkaConsumer(topic, **settings(cluster, group_id)) as consumer:
            await some(consumer)
            has_records.set()
            await asyncio.Event().wait()  # the work

    task = asyncio.create_task(program())
    await has_records.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert committed(cluster, group_id, topic) is None


Work = Callable[[AsyncKafkaConsumer[Any, Any], asyncio.Event], Awaitable[None]]


async def poll_and_work(consumer: AsyncKafkaConsumer[Any, Any], has_records: asyncio.Event) -> None:
    """Get a second batch and work on it for ever."""
    await some(consumer)
    await some(consumer)
    has_records.set()
    await asyncio.Event().wait()


async def iterate_and_work(consumer: AsyncKafkaConsumer[Any, Any], has_records: asyncio.Event) -> None:
    """Get a record by iteration and work on it for ever."""
    async for record in consumer:
        if record.offset == FAILING:
            has_records.set()
            await asyncio.Event().wait()


async def wait_for_more(consumer: AsyncKafkaConsumer[Any, Any], has_records: asyncio.Event) -> None:
    """Finish all records, and wait for more."""
    async for record in consumer:
        if record.offset == COUNT - 1:
            asyncio.get_running_loop().call_soon(has_records.set)


@pytest.mark.asyncio
@pytest.mark.pairs("end", "work")
@pytest.mark.parametrize("end", ["closes", "cancels", "asks in between"])
@pytest.mark.parametrize("work", [poll_and_work, iterate_and_work, wait_for_more])
async def test_another_task_closes(end: str, work: Work, cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, COUNT)
    has_records = asyncio.Event()
    async with AsyncKafkaConsumer(topic, **settings(cluster, group_id, max_poll_records=4)) as consumer:
        task = asyncio.create_task(work(consumer, has_records))
        async with asyncio.timeout(60):
            await has_records.wait()
        if end == "asks in between":
            await consumer.committed(TopicPartition(topic, 0))
            consumer.metrics()
        elif end == "cancels":
            task.cancel()
            await asyncio.wait([task])
    task.cancel()
    await asyncio.wait([task])
    found = committed(cluster, group_id, topic)
    if work is wait_for_more:
        assert found == COUNT
    elif work is poll_and_work:
        assert found == 4, "the batch before is processed, as more was asked for"
    else:
        assert found is None or found <= FAILING, "at most up to the record at hand"


@pytest.mark.asyncio
async def test_a_task_cancelled_while_others_run_has_asked_for_more(
    cluster: Cluster, topic: str, group_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyconsumer.aio.consumer.LONGEST_TURN_S", -1.0)  # each call lets others run first
    fill(cluster, topic, COUNT)
    async with AsyncKafkaConsumer(topic, **settings(cluster, group_id)) as consumer:

        async def work() -> None:
            async for record in consumer:
                if record.offset == COUNT - 1:
                    asyncio.get_running_loop().call_soon(task.cancel)

        task = asyncio.create_task(work())
        await asyncio.wait([task], timeout=60)
        assert task.cancelled()
    assert committed(cluster, group_id, topic) == COUNT


@pytest.mark.asyncio
async def test_a_task_that_has_returned_has_processed_its_records(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, COUNT)
    async with AsyncKafkaConsumer(topic, **settings(cluster, group_id)) as consumer:
        assert len(await asyncio.wait_for(some(consumer), 60)) == COUNT
        found = asyncio.create_task(some(consumer))
        consumer.seek(TopicPartition(topic, 0), 5)
        assert len(await found) == 5
    assert committed(cluster, group_id, topic) == COUNT


# -- exactly once ----------------------------------------------------------------------------------------------------


def test_exactly_once_does_not_commit_a_batch_that_ctrl_c_ends(cluster: Cluster, topic: str, group_id: str) -> None:
    from pyconsumer import KafkaProducer
    from pyconsumer.exactly_once import process_exactly_once

    fill(cluster, topic, COUNT)
    options = settings(cluster, group_id, enable_auto_commit=False, isolation_level="read_committed")

    def interrupt(records: Any) -> Any:
        raise KeyboardInterrupt

    def program(transform: Any) -> int:
        with (
            KafkaConsumer(topic, **options) as consumer,
            KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=group_id) as producer,
        ):
            return process_exactly_once(consumer, producer, transform, idle_ms=500)

    with pytest.raises(KeyboardInterrupt):
        program(interrupt)
    assert committed(cluster, group_id, topic) is None
    assert program(lambda records: []) == COUNT
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group_id) as reader:
        found = reader.committed(TopicPartition(topic, 0), metadata=True)
    assert isinstance(found, OffsetAndMetadata)
    assert found.offset == COUNT
