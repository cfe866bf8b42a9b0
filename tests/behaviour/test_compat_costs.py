"""What a record costs in the layers of :mod:`pyconsumer.compat`: Python calls, tasks and objects, counted."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any

import pytest

from pyconsumer.compat.aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from pyconsumer.compat.kafka import KafkaProducer
from pyconsumer.consumer import delegate
from pyconsumer.producer import implementation
from tests.behaviour.consumer_support import fill
from tests.support.cluster import Cluster

COUNT = 400
WITHIN_S = 60


class Calls:
    """Counts the Python functions that this thread enters in a block. A step of a coroutine is one, too."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __enter__(self) -> Calls:
        sys.setprofile(self._on_event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        assert self.names.pop() == "__exit__"

    def _on_event(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self.names.append(frame.f_code.co_name)


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that were decoded ahead may be taken for a minute, so that no machine is too slow for a test."""
    monkeypatch.setattr(delegate, "CHECK_LIFETIME_S", 60.0)


async def _consumer(cluster: Cluster, topic: str, kind: type[AIOKafkaConsumer] = AIOKafkaConsumer) -> AIOKafkaConsumer:
    fill(cluster, topic, 1_000)
    consumer = kind(topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest")
    await consumer.start()
    return consumer


@pytest.mark.asyncio
@pytest.mark.usefixtures("ahead")
async def test_getone_is_one_call_for_a_record_that_was_decoded_ahead(cluster: Cluster, topic: str) -> None:
    consumer = await _consumer(cluster, topic)
    assert (await consumer.getone()).offset == 0
    with Calls() as calls:
        for _ in range(COUNT):
            record = await consumer.getone()
    assert record.offset == COUNT
    assert calls.names == ["getone"] * COUNT
    await consumer.stop()


@pytest.mark.asyncio
@pytest.mark.usefixtures("ahead")
async def test_async_for_is_one_call_for_a_record_that_was_decoded_ahead(cluster: Cluster, topic: str) -> None:
    consumer = await _consumer(cluster, topic)
    assert (await consumer.getone()).offset == 0
    with Calls() as calls:
        async for record in consumer:
            if record.offset == COUNT:
                break
    assert calls.names == ["guarded", "__aiter__"] + ["__anext__"] * COUNT
    await consumer.stop()


@pytest.mark.asyncio
@pytest.mark.usefixtures("ahead")
async def test_records_are_decoded_ahead_in_pieces(cluster: Cluster, topic: str) -> None:
    consumer = await _consumer(cluster, topic)
    await consumer.getone()
    assert len(consumer.consumer.prefetched.records) == delegate.MOST_AHEAD - 1
    await consumer.stop()


@pytest.mark.asyncio
@pytest.mark.usefixtures("ahead")
@pytest.mark.parametrize("how", ["subclass", "class", "instance"])
async def test_another_getone_sees_the_records_of_async_for(
    cluster: Cluster, topic: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    first = AIOKafkaConsumer.getone

    async def getone(self: AIOKafkaConsumer, *partitions: Any) -> Any:
        record = await first(self, *partitions)
        seen.append(record.offset)
        return record

    class Sub(AIOKafkaConsumer):
        pass

    if how == "subclass":
        Sub.getone = getone  # type: ignore[method-assign]
    consumer = await _consumer(cluster, topic, Sub)
    began = 0
    async for record in consumer:
        if record.offset == 3 and how != "subclass":  # from now on, among records that were decoded ahead
            began = 4
            if how == "class":
                monkeypatch.setattr(AIOKafkaConsumer, "getone", getone)
            else:
                consumer.getone = getone.__get__(consumer)  # type: ignore[method-assign]
        if record.offset == 20:
            break
    assert seen == list(range(began, 21))
    await consumer.stop()


async def _counting_tasks(program: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Run a program and return how many tasks it made."""
    loop = asyncio.get_running_loop()
    made: list[asyncio.Task[Any]] = []

    def factory(in_loop: asyncio.AbstractEventLoop, steps: Any, **more: Any) -> asyncio.Task[Any]:
        made.append(asyncio.Task(steps, loop=in_loop, **more))
        return made[-1]

    loop.set_task_factory(factory)
    try:
        await program()
    finally:
        loop.set_task_factory(None)
    return len(made)


@pytest.mark.asyncio
async def test_send_makes_no_task_and_crosses_into_the_loop_once_for_a_batch(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000, max_batch_size=1 << 20
    ) as producer:
        await producer.partitions_for(topic)
        loop = asyncio.get_running_loop()
        crossings: list[object] = []
        cross = loop.call_soon_threadsafe

        def counted(call: Any, *args: Any, **more: Any) -> Any:
            crossings.append(call)
            return cross(call, *args, **more)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        futures: list[asyncio.Future[Any]] = []
        order: list[int] = []

        async def send() -> None:
            for number in range(COUNT):
                future = await producer.send(topic, b"v" * 100)
                future.add_done_callback(lambda _, number=number: order.append(number))  # type: ignore[misc]
                futures.append(future)

        assert await _counting_tasks(send) == 0
        assert not any(future.done() for future in futures)
        futures[1].cancel()
        async with asyncio.timeout(WITHIN_S):
            await producer.flush()
        assert len(crossings) <= 3
        assert all(future.done() for future in futures)
        assert [futures[number].result().offset for number in (0, 2, COUNT - 1)] == [0, 2, COUNT - 1]
        await asyncio.sleep(0)
        assert order == [1, 0, *range(2, COUNT)]


@pytest.mark.asyncio
async def test_an_awaited_send_is_a_few_calls(cluster: Cluster, topic: str) -> None:
    if implementation.Appender.__module__ == "pyconsumer.producer.fast_append":
        pytest.skip("without the compiled part each record goes the long way")
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000, max_batch_size=1 << 20
    ) as producer:
        await producer.send(topic, b"v")
        with Calls() as calls:
            for _ in range(COUNT):
                await producer.send(topic, b"v")
        assert len(calls.names) < 9 * COUNT


def test_send_of_kafka_python_is_one_call_and_one_object(cluster: Cluster, topic: str) -> None:
    if implementation.Appender.__module__ == "pyconsumer.producer.fast_append":
        pytest.skip("without the compiled part each record goes the long way")
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000, batch_size=1 << 20, max_request_size=1 << 21
    ) as producer:
        first = producer.send(topic, b"v")
        with Calls() as calls:
            for _ in range(COUNT):
                future = producer.send(topic, b"v" * 100)
        assert calls.names == ["send"] * COUNT
        assert type(future) is type(first)
        assert not gc.is_tracked(future)
        assert weakref.ref(future)() is future
        producer.flush()
        assert future.get(WITHIN_S).offset == COUNT
        assert future.get(WITHIN_S).topic_partition == (topic, 0)
