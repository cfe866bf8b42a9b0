"""``pyconsumer.compat.aiokafka``: programs as aiokafka's documentation writes them, run with both packages."""

from __future__ import annotations

import asyncio
import gc
import importlib
import inspect
from types import ModuleType
from typing import Any

import pytest

from pyconsumer.errors import KafkaConnectionError
from tests.behaviour.consumer_support import fill, read_to_end
from tests.support.cluster import Cluster

WITHIN_S = 60


@pytest.fixture(params=["aiokafka", "pyconsumer.compat.aiokafka"])
def package(request: pytest.FixtureRequest) -> ModuleType:
    """aiokafka, and ours in its place."""
    pytest.importorskip("aiokafka", reason="needs aiokafka, which pyconsumer[peers] installs")
    return importlib.import_module(request.param)


@pytest.mark.asyncio
async def test_the_first_programs_of_every_user(
    package: ModuleType, cluster: Cluster, topic: str, group_id: str
) -> None:
    servers = cluster.bootstrap_servers
    producer = package.AIOKafkaProducer(bootstrap_servers=servers)
    await producer.start()
    try:
        metadata = await producer.send_and_wait(topic, b"Super message", key=b"k")
        assert (metadata.topic, metadata.partition, metadata.offset) == (topic, 0, 0)
        future = await producer.send(topic, b"second", None, 0, 1234, [("h", b"1")])
        assert (await future).timestamp == 1234
        done: list[Any] = []
        third = await producer.send(topic, b"third")
        third.add_done_callback(done.append)
        await producer.flush()
        await asyncio.sleep(0)
        assert done == [third]
        assert third.result().offset == 2
        assert await producer.partitions_for(topic) == {0}
    finally:
        await producer.stop()

    consumer = package.AIOKafkaConsumer(
        topic, bootstrap_servers=servers, group_id=group_id, auto_offset_reset="earliest", enable_auto_commit=False
    )
    await consumer.start()
    try:
        found = []
        async with asyncio.timeout(WITHIN_S):
            async for msg in consumer:
                found.append((msg.topic, msg.partition, msg.offset, msg.key, msg.value, msg.timestamp))
                if len(found) == 3:
                    break
        assert [each[:5] for each in found] == [
            (topic, 0, 0, b"k", b"Super message"),
            (topic, 0, 1, None, b"second"),
            (topic, 0, 2, None, b"third"),
        ]
        tp = package.TopicPartition(topic, 0)
        assert consumer.assignment() == frozenset([tp])
        await consumer.commit({tp: (2, "metadata")})
        assert await consumer.committed(tp) == 2
        await consumer.commit()
        assert await consumer.committed(tp) == 3
        await consumer.seek_to_beginning(tp)
        assert (await consumer.getone()).offset == 0
        await consumer.seek_to_committed()
        assert await consumer.position(tp) == 3
    finally:
        await consumer.stop()
    with pytest.raises(package.ConsumerStoppedError):
        await consumer.getone()


@pytest.mark.asyncio
async def test_assigning_and_reading_some_partitions(package: ModuleType, cluster: Cluster, make_topic: Any) -> None:
    topic = make_topic(2)
    tps = [package.TopicPartition(topic, number) for number in (0, 1)]
    for number in (0, 1):
        fill(cluster, topic, 5, partition=number)
    consumer = package.AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest")
    consumer.assign(tps)
    async with consumer:
        found: list[Any] = []
        async with asyncio.timeout(WITHIN_S):
            while len(found) < 5:
                for tp, records in (await consumer.getmany(tps[1], timeout_ms=1000, max_records=2)).items():
                    assert tp == tps[1]
                    assert len(records) <= 2
                    found += [int(record.value) for record in records]
        assert found == [0, 1, 2, 3, 4]
        assert consumer.paused() == frozenset()
        assert (await consumer.getone(tps[0])).partition == 0
        assert await consumer.position(tps[0]) == 1
        assert await consumer.end_offsets(tps) == {tps[0]: 5, tps[1]: 5}
        assert await consumer.beginning_offsets(tps) == {tps[0]: 0, tps[1]: 0}
        consumer.seek(tps[0], 4)
        assert (await consumer.getone(tps[0])).offset == 4
        await consumer.seek_to_end(tps[0])
        assert await consumer.position(tps[0]) == 5
        assert consumer.highwater(tps[0]) == 5
        assert consumer.partitions_for_topic(topic) == {0, 1}
        assert topic in await consumer.topics()
        waiting = asyncio.create_task(consumer.getone())
        await asyncio.sleep(0.2)
    with pytest.raises(package.ConsumerStoppedError):
        await waiting


@pytest.mark.asyncio
async def test_a_listener_with_coroutines(package: ModuleType, cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 3)
    seen: list[str] = []

    class Listener(package.ConsumerRebalanceListener):  # type: ignore[name-defined,misc]
        async def on_partitions_assigned(self, assigned: Any) -> None:
            await asyncio.sleep(0.01)
            seen.append(f"assigned {len(assigned)}")

        def on_partitions_revoked(self, revoked: Any) -> None:
            if revoked:
                seen.append(f"revoked {len(revoked)}")

    consumer = package.AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id=group_id, auto_offset_reset="earliest"
    )
    consumer.subscribe(topics=[topic], listener=Listener())
    await consumer.start()
    async with asyncio.timeout(WITHIN_S):
        assert (await consumer.getone()).offset == 0
    assert consumer.subscription() == frozenset([topic])
    await consumer.stop()
    assert seen[0] == "assigned 1"


@pytest.mark.asyncio
async def test_transactions(package: ModuleType, cluster: Cluster, topic: str, group_id: str) -> None:
    servers = cluster.bootstrap_servers
    tp = package.TopicPartition(topic, 0)
    producer = package.AIOKafkaProducer(bootstrap_servers=servers, transactional_id=f"tx-{group_id}")
    await producer.start()
    async with producer.transaction():
        await producer.send_and_wait(topic, b"committed")
        await producer.send_offsets_to_transaction({tp: 5}, group_id)
    await producer.begin_transaction()
    await producer.send_and_wait(topic, b"aborted")
    await producer.abort_transaction()
    await producer.begin_transaction()
    await producer.send(topic, b"again")
    await producer.commit_transaction()
    await producer.stop()
    assert await asyncio.to_thread(read_to_end, servers, topic, 1, "read_committed") == [b"committed", b"again"]


@pytest.mark.asyncio
async def test_unsubscribing_after_the_end_does_nothing(
    package: ModuleType, cluster: Cluster, topic: str, group_id: str
) -> None:
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    consumer = package.AIOKafkaConsumer(topic, bootstrap_servers=cluster.bootstrap_servers, group_id=group_id)
    await consumer.start()
    await consumer.stop()
    consumer.unsubscribe()
    await asyncio.sleep(0)
    del consumer
    gc.collect()
    assert faults == []


@pytest.mark.asyncio
async def test_a_batch_takes_none_for_headers(package: ModuleType, cluster: Cluster, topic: str) -> None:
    async with package.AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        batch = producer.create_batch()
        assert batch.append(key=None, value=b"v", timestamp=None, headers=None).offset == 0
        assert (await (await producer.send_batch(batch, topic, partition=0))).offset == 0


@pytest.mark.asyncio
async def test_no_broker() -> None:
    from pyconsumer.compat.aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    settings = {"bootstrap_servers": "127.0.0.1:1", "request_timeout_ms": 300}
    for instance in (AIOKafkaConsumer(fetch_max_wait_ms=100, **settings), AIOKafkaProducer(**settings)):
        with pytest.raises(KafkaConnectionError, match="no broker could be reached"):
            await instance.start()
        await instance.stop()


def test_every_name_is_there_or_on_the_page() -> None:
    aiokafka = pytest.importorskip("aiokafka", reason="needs aiokafka, which pyconsumer[peers] installs")
    ours = importlib.import_module("pyconsumer.compat.aiokafka")
    for name in ("AIOKafkaConsumer", "AIOKafkaProducer"):
        theirs = {each for each, _ in inspect.getmembers(getattr(aiokafka, name), callable) if not each.startswith("_")}
        for each in theirs:
            wanted = list(inspect.signature(getattr(getattr(aiokafka, name), each)).parameters)
            given = list(inspect.signature(getattr(getattr(ours, name), each)).parameters)
            assert given == wanted, f"{name}.{each}"
    for name, value in vars(importlib.import_module("aiokafka.errors")).items():
        if inspect.isclass(value) and issubclass(value, Exception) and name != "NoError":
            assert hasattr(ours.errors, name), name


@pytest.mark.asyncio
async def test_a_batch_is_sent_as_it_is_given(cluster: Cluster, topic: str) -> None:
    package: Any = importlib.import_module("pyconsumer.compat.aiokafka")
    async with package.AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=30_000) as producer:
        before = await producer.send(topic, b"before")
        batch = producer.create_batch()
        for n in range(3):
            batch.append(key=None, value=b"%d" % n, timestamp=None)
        given = await producer.send_batch(batch, topic, partition=0)
        after = await producer.send(topic, b"after")
        await producer.flush()
        offsets = [(await each).offset for each in (before, given, after)]
        batches = producer.producer.metrics()["producer-metrics"]["batch-send-total"]
    assert (offsets, batches) == ([0, 1, 4], 3)


@pytest.mark.asyncio
async def test_a_pattern_that_matches_nothing_yet_does_not_hold_the_loop(cluster: Cluster, topic: str) -> None:
    package: Any = importlib.import_module("pyconsumer.compat.aiokafka")
    settings = {"bootstrap_servers": cluster.bootstrap_servers, "metadata_max_age_ms": 200}
    async with package.AIOKafkaConsumer(auto_offset_reset="earliest", **settings) as consumer:
        consumer.subscribe(pattern=f"{topic}-later")
        read = asyncio.create_task(consumer.getone())
        async with asyncio.timeout(WITHIN_S):
            async with package.AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                await producer.send_and_wait(f"{topic}-later", b"x")
            assert (await read).value == b"x"


@pytest.mark.asyncio
async def test_an_unclosed_producer_is_named_as_in_aiokafka(cluster: Cluster) -> None:
    package: Any = importlib.import_module("pyconsumer.compat.aiokafka")
    made = [package.AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)]
    await made[0].start()

    def drop() -> None:
        made.clear()
        gc.collect()

    with pytest.warns(ResourceWarning, match="Unclosed AIOKafkaProducer"):
        drop()
