"""``AsyncKafkaProducer`` and ``AsyncKafkaAdminClient`` on real brokers."""

from __future__ import annotations

import asyncio
import gc
import inspect
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from pyconsumer import KafkaAdminClient, KafkaProducer, TopicPartition
from pyconsumer.admin import ConfigResource
from pyconsumer.aio import AsyncKafkaAdminClient, AsyncKafkaConsumer, AsyncKafkaProducer
from pyconsumer.errors import (
    BufferExhaustedError,
    IllegalStateError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
)
from pyconsumer.producer.implementation import FutureRecordMetadata
from pyconsumer.protocol.api import ApiKey
from tests.behaviour.consumer_support import read_to_end
from tests.support.cluster import Cluster
from tests.support.proxy import KafkaProxy

WITHIN_S = 60


@pytest.mark.asyncio
async def test_records_of_many_tasks(cluster: Cluster, topic: str) -> None:
    async with AsyncKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        assert await producer.partitions_for(topic) == {0}
        first = await producer.send_and_wait(topic, b"0", key=b"k", headers=[("h", b"1")], timestamp_ms=5)
        assert (first.topic, first.partition, first.offset, first.timestamp) == (topic, 0, 0, 5)
        found = await asyncio.gather(*(producer.send_and_wait(topic, b"%d" % number) for number in range(500)))
        assert sorted(metadata.offset for metadata in found) == list(range(1, 501))
        ranges = await (await producer.send_many(topic, [b"m"] * 5000))
        assert sum(each.record_count for each in ranges) == 5000
        await (await producer.send_arrow(topic, pa.table({"value": [b"a", b"b"], "partition": [0, 0]})))
        futures = [await producer.send(topic, b"last") for _ in range(10)]
        await producer.flush(timeout_ms=30_000)
        assert all(future.is_done for future in futures)
        assert producer.metrics()["producer-metrics"]["record-send-total"] == 5513
    assert len(read_to_end(cluster.bootstrap_servers, topic, 1, "read_uncommitted")) == 5513


@pytest.mark.asyncio
async def test_completions_cross_to_the_loop_together(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    crossings = 0
    crossing = loop.call_soon_threadsafe

    def count(*args: Any, **kwargs: Any) -> Any:
        nonlocal crossings
        crossings += 1
        return crossing(*args, **kwargs)

    async with AsyncKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000) as producer:
        futures = [await producer.send(topic, b"x") for _ in range(400)]

        async def wait_for(future: FutureRecordMetadata) -> None:
            await future

        waiting = [asyncio.create_task(wait_for(future)) for future in futures]
        await asyncio.sleep(0)  # all of them wait for one batch
        monkeypatch.setattr(loop, "call_soon_threadsafe", count)
        await producer.flush()
        await asyncio.gather(*waiting)
    assert 1 <= crossings <= 4  # two batches at most, and each flushed


@pytest.mark.asyncio
async def test_results_of_many_batches_reach_a_busy_loop_in_one_callback(
    cluster: Cluster, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(8)
    loop = asyncio.get_running_loop()
    crossing = loop.call_soon_threadsafe
    crossings: list[object] = []

    def count(*args: Any, **kwargs: Any) -> Any:
        crossings.append(args)
        return crossing(*args, **kwargs)

    async with AsyncKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000) as producer:
        futures = [await producer.send(topic, b"x", partition=number % 8) for number in range(80)]

        async def wait_for(future: FutureRecordMetadata) -> None:
            await future

        waiting = [asyncio.create_task(wait_for(future)) for future in futures]
        await asyncio.sleep(0)
        monkeypatch.setattr(loop, "call_soon_threadsafe", count)
        with producer._delegate.flushing() as results:  # which keeps the loop
            assert all(result.wait(60) for result in results)
        await asyncio.gather(*waiting)
        assert len(crossings) == 1


@pytest.mark.asyncio
@pytest.mark.concurrent
async def test_a_send_that_is_cancelled_passes_its_turn_on(cluster: Cluster, topic: str) -> None:
    with KafkaProxy(cluster.bootstrap_servers) as proxy:
        async with AsyncKafkaProducer(
            bootstrap_servers=proxy.bootstrap_servers, buffer_memory=4096, batch_size=2048, max_block_ms=60_000
        ) as producer:
            await producer.send_and_wait(topic, b"first")
            held = proxy.hold(ApiKey.PRODUCE)
            waiting = [asyncio.create_task(producer.send(topic, b"x" * 1000)) for _ in range(20)]
            await asyncio.sleep(0.1)
            (first, *others) = [task for task in waiting if not task.done()]
            first.cancel()
            held.release()
            async with asyncio.timeout(20):
                await asyncio.gather(*others)
    assert len(read_to_end(cluster.bootstrap_servers, topic, 1, "read_uncommitted")) == 20


@pytest.mark.asyncio
@pytest.mark.concurrent
async def test_a_full_buffer_suspends_only_the_senders(cluster: Cluster, topic: str) -> None:
    with KafkaProxy(cluster.bootstrap_servers) as proxy:
        async with AsyncKafkaProducer(
            bootstrap_servers=proxy.bootstrap_servers,
            buffer_memory=40_000,
            batch_size=4096,
            max_block_ms=1500,
            reconnect_backoff_max_ms=50,  # so that those who wait at the end are served long before this time is over
        ) as producer:
            await producer.send_and_wait(topic, b"first")
            proxy.refuse()
            proxy.cut_all()
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0.001)

            ticking = asyncio.create_task(tick())
            started = time.monotonic()

            async def fill() -> None:
                for _ in range(100):
                    await producer.send(topic, b"x" * 1000)

            with pytest.raises(BufferExhaustedError, match="no room for 1021 bytes in buffer_memory"):
                await fill()
            assert time.monotonic() - started >= 1.4
            assert ticks >= 3
            waiting = [asyncio.create_task(producer.send(topic, b"y" * 1000)) for _ in range(20)]
            await asyncio.sleep(0.05)
            waiting[3].cancel()
            proxy.accept()
            async with asyncio.timeout(WITHIN_S):
                results = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(each).__name__ for each in results].count("CancelledError") == 1
            assert sum(1 for each in results if not isinstance(each, BaseException)) == 19
            ticking.cancel()
    found = read_to_end(cluster.bootstrap_servers, topic, 1, "read_uncommitted")
    assert found.count(b"y" * 1000) == 19, "the cancelled one was not sent, the others were, once"


@pytest.mark.asyncio
async def test_transactions(cluster: Cluster, topic: str, group_id: str) -> None:
    tp = TopicPartition(topic, 0)
    servers = cluster.bootstrap_servers
    async with (
        AsyncKafkaProducer(bootstrap_servers=servers, transactional_id=f"tx-{group_id}") as producer,
        AsyncKafkaConsumer(bootstrap_servers=servers, group_id=group_id) as consumer,
    ):
        with pytest.raises(IllegalStateError):
            producer.begin_transaction()
        await producer.init_transactions()
        assert producer.is_initialized
        async with producer.transaction():
            await producer.send(topic, b"committed")
            await producer.send_offsets_to_transaction({tp: 17}, consumer.group_metadata())
        assert await consumer.committed(tp) == 17

        async def failing() -> None:
            async with producer.transaction():
                await producer.send(topic, b"aborted")
                await producer.flush()
                await producer.send_offsets_to_transaction({tp: 99}, group_id)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await failing()
        assert await consumer.committed(tp) == 17

        async def interrupted() -> None:
            async with producer.transaction():
                await producer.send(topic, b"cancelled")
                await producer.flush()
                await asyncio.sleep(WITHIN_S)

        task = asyncio.create_task(interrupted())
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        producer.begin_transaction()
        await producer.send(topic, b"by hand")
        await producer.commit_transaction()
        producer.begin_transaction()
        await producer.abort_transaction()
    assert read_to_end(servers, topic, 1, "read_committed") == [b"committed", b"by hand"]


@pytest.mark.asyncio
async def test_calls_return_in_time_without_a_broker() -> None:
    producer = AsyncKafkaProducer(bootstrap_servers="127.0.0.1:1", max_block_ms=100, transactional_id="t")
    with pytest.raises(KafkaTimeoutError, match=r"init_transactions\(\) was not done within 100 ms"):
        await producer.init_transactions()
    with pytest.raises(KafkaTimeoutError, match="no metadata of topic 't' within max_block_ms"):
        await producer.partitions_for("t")
    async with asyncio.timeout(WITHIN_S):
        await producer.close(timeout_ms=0)
        async with AsyncKafkaAdminClient(bootstrap_servers="127.0.0.1:1") as admin:
            with pytest.raises(KafkaTimeoutError):
                await admin.list_topics(timeout_ms=50)
            with pytest.raises(KafkaTimeoutError, match="waiting for calls of other tasks"):
                await asyncio.gather(admin.list_topics(timeout_ms=5000), admin.list_topics(timeout_ms=50))
    with pytest.raises(IllegalStateError, match="closed"):
        await producer.partitions_for("t")


@pytest.mark.asyncio
async def test_closing_sends_the_remaining_records_even_when_cancelled(cluster: Cluster, topic: str) -> None:
    producer = AsyncKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=200)
    for wrong in ((5,), (1.5,)):
        with pytest.raises(TypeError, match="takes its time by name"):
            await producer.close(*wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="takes its time by name"):
            await producer.flush(*wrong)  # type: ignore[arg-type]
    future = await producer.send(topic, b"last")
    closing = asyncio.create_task(producer.close())
    await asyncio.sleep(0.01)
    closing.cancel()
    await producer.close()
    assert future.succeeded()


@pytest.mark.asyncio
async def test_clients_belong_to_one_loop_and_are_closed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = cluster.bootstrap_servers
    loop = asyncio.get_running_loop()
    watched: set[int] = set()
    add, remove = loop.add_reader, loop.remove_reader
    monkeypatch.setattr(loop, "add_reader", lambda descriptor, call: (add(descriptor, call), watched.add(descriptor)))
    monkeypatch.setattr(loop, "remove_reader", lambda descriptor: (remove(descriptor), watched.remove(descriptor)))
    producer = AsyncKafkaProducer(bootstrap_servers=servers)
    admin = AsyncKafkaAdminClient(bootstrap_servers=servers)
    await producer.flush()
    await admin.list_topics()
    assert len(watched) == 1, "the admin client's; the producer's thread has its own selector"

    def elsewhere(call: Any) -> None:
        with pytest.raises(IllegalStateError, match="belongs to the event loop of its first call"):
            asyncio.run(call())

    with ThreadPoolExecutor(1) as pool:  # whose thread has ended, and refers to no client, afterwards
        for call in (producer.flush, admin.list_topics):
            await loop.run_in_executor(pool, elsewhere, call)
    with pytest.warns(ResourceWarning, match=r"unclosed <AsyncKafkaProducer client_id='\S+'>: await close\(\)"):
        producer = gc.collect() and None  # type: ignore[assignment]
    with pytest.warns(ResourceWarning, match=r"unclosed <AsyncKafkaAdminClient client_id='\S*'>: await close\(\)"):
        admin = call = gc.collect() and None  # type: ignore[assignment]
    async with asyncio.timeout(30):
        while watched:  # noqa: ASYNC110 - until the loop forgets their descriptors
            await asyncio.sleep(0.01)


@pytest.mark.asyncio
async def test_the_admin_client(cluster: Cluster, topic: str, group_id: str) -> None:
    async with AsyncKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        assert topic in await admin.list_topics()
        many = await asyncio.gather(*(admin.describe_topics([topic]) for _ in range(5)))
        assert all(found[0].name == topic for found in many)
        with pytest.raises(UnknownTopicOrPartitionError, match="does not exist"):
            await admin.describe_topics([f"{topic}-none"])
        assert isinstance(
            (await admin.delete_topics([f"{topic}-none"], raise_errors=False))[f"{topic}-none"], Exception
        )
        resource = ConfigResource("topic", topic)
        await admin.alter_configs({resource: {"retention.ms": "12345"}})
        for _ in range(600):  # a broker of Apache Kafka reads the change a moment later
            changed = (await admin.describe_configs([resource]))[resource]["retention.ms"].value
            if changed == "12345":
                break
            await asyncio.sleep(0.05)
        assert changed == "12345"
        assert resource in await admin.list_config_resources([resource.resource_type])
        assert await admin.list_group_offsets(group_id) == {}
    with pytest.raises(IllegalStateError, match="closed"):
        await admin.list_topics()


@pytest.mark.parametrize(
    ("ours", "blocking"),
    [(AsyncKafkaProducer, KafkaProducer), (AsyncKafkaAdminClient, KafkaAdminClient)],
)
def test_the_calls_have_the_names_and_arguments_of_the_blocking_client(ours: type, blocking: type) -> None:
    names = {name for name in dir(blocking) if not name.startswith("_")}
    assert names - set(dir(ours)) == set()
    for name in names:
        if inspect.isfunction(getattr(blocking, name)):
            theirs = list(inspect.signature(getattr(blocking, name)).parameters)
            assert list(inspect.signature(getattr(ours, name)).parameters) == theirs, name


def test_every_call_of_the_admin_client_returns_the_result_of_its_driver() -> None:
    """Otherwise there would be no coroutine to await. Metrics are read without one, from any thread."""
    calls = [name for name, _ in inspect.getmembers(KafkaAdminClient, inspect.isfunction) if not name.startswith("_")]
    for name in set(calls) - {"close", "metrics", "metric_table"}:
        assert "        return self._run(" in inspect.getsource(getattr(KafkaAdminClient, name)), name
