"""Topics without records: no call but a read waits for one.

The programs of ``compat`` run with the original, too. ``start`` has the default of ``request_timeout_ms``, 40 s, and
must return well before.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import ModuleType
from typing import Any

import pytest

from pyconsumer import KafkaConsumer, TopicPartition
from pyconsumer.aio import AsyncKafkaConsumer
from pyconsumer.compat.aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from pyconsumer.errors import UnknownTopicOrPartitionError
from tests.behaviour.consumer_support import fill
from tests.support.cluster import Cluster
from tests.support.process import wait_until

WITHIN_S = 60  # a hang
MEMBER = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 300, "session_timeout_ms": 10_000}


@pytest.fixture(params=["aiokafka", "pyconsumer.compat.aiokafka"])
def package(request: pytest.FixtureRequest) -> ModuleType:
    """aiokafka, and ours in its place."""
    pytest.importorskip("aiokafka", reason="needs aiokafka, which pyconsumer[peers] installs")
    return importlib.import_module(request.param)


async def until(condition: Callable[[], bool]) -> None:
    """Look again and again, while tasks of the loop run. Fail after :data:`WITHIN_S`."""
    async with asyncio.timeout(WITHIN_S):
        while not condition():  # noqa: ASYNC110 (the client has no event for it)
            await asyncio.sleep(0.01)


@pytest.mark.asyncio
@pytest.mark.parametrize("with_group", [True, False])
async def test_every_call_of_aiokafka(
    package: ModuleType, cluster: Cluster, topic: str, group_id: str, with_group: bool
) -> None:
    tp = package.TopicPartition(topic, 0)
    group = {"group_id": group_id} if with_group else {}
    consumer = package.AIOKafkaConsumer(topic, bootstrap_servers=cluster.bootstrap_servers, **group, **MEMBER)
    async with asyncio.timeout(WITHIN_S), consumer:
        assert consumer.assignment() == {tp}
        assert consumer.subscription() == {topic}
        assert consumer.partitions_for_topic(topic) == {0}
        assert topic in await consumer.topics()
        assert await consumer.position(tp) == 0
        assert await consumer.getmany(timeout_ms=10) == {}
        assert await consumer.beginning_offsets([tp]) == await consumer.end_offsets([tp]) == {tp: 0}
        assert await consumer.offsets_for_times({tp: 0}) == {tp: None}
        assert await consumer.seek_to_beginning(tp)
        assert await consumer.seek_to_end()
        if with_group:
            assert await consumer.committed(tp) is None
            assert await consumer.seek_to_committed() == {tp: None}
            await consumer.commit()
            assert await consumer.committed(tp) == 0
        waiting = asyncio.create_task(consumer.getone())
        await asyncio.sleep(0)  # it waits, or is about to
        await consumer.stop()
        with pytest.raises(package.ConsumerStoppedError):
            await waiting


@pytest.mark.asyncio
async def test_a_member_without_partitions_starts_and_takes_over_without_reading(
    package: ModuleType, cluster: Cluster, topic: str, group_id: str
) -> None:
    fill(cluster, topic, 1)
    options = dict(bootstrap_servers=cluster.bootstrap_servers, group_id=group_id, **MEMBER)
    first, second = (package.AIOKafkaConsumer(topic, **options) for _ in range(2))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(second.stop)
        stack.push_async_callback(first.stop)
        async with asyncio.timeout(WITHIN_S):
            await first.start()
            reading = asyncio.create_task(first.getmany(timeout_ms=5000))
            await second.start()
            await reading
        await until(lambda: len(first.assignment() | second.assignment()) == 1)
        owner, other = (first, second) if first.assignment() else (second, first)
        if not other.assignment():
            async with asyncio.timeout(WITHIN_S):
                with pytest.raises(Exception, match="assigned"):
                    await other.seek_to_end(package.TopicPartition(topic, 0))
        await owner.stop()
        await until(lambda: len(other.assignment()) == 1)


@pytest.mark.asyncio
async def test_a_member_that_is_busy_with_a_record_does_not_block_the_others(
    package: ModuleType, cluster: Cluster, make_topic: Any, group_id: str
) -> None:
    topic = make_topic(2)
    for number in (0, 1):
        fill(cluster, topic, 1, partition=number)
    options = dict(bootstrap_servers=cluster.bootstrap_servers, group_id=group_id, **MEMBER)
    busy, other = (package.AIOKafkaConsumer(topic, **options) for _ in range(2))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(other.stop)
        stack.push_async_callback(busy.stop)
        async with asyncio.timeout(WITHIN_S):
            await busy.start()
            await busy.getone()  # and nothing is read any more
            await other.start()
        await until(lambda: len(busy.assignment()) == len(other.assignment()) == 1)


@pytest.mark.asyncio
async def test_a_pattern_is_matched_before_start_returns(
    package: ModuleType, cluster: Cluster, topic: str, group_id: str
) -> None:
    consumer = package.AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group_id, **MEMBER)
    consumer.subscribe(pattern=topic + "$")
    async with asyncio.timeout(WITHIN_S), consumer:
        assert consumer.subscription() == {topic}
        assert consumer.assignment() == {package.TopicPartition(topic, 0)}


@pytest.mark.asyncio
async def test_a_pattern_without_a_match_and_without_a_group(package: ModuleType, cluster: Cluster, topic: str) -> None:
    consumer = package.AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)
    consumer.subscribe(pattern=topic + "-nothing")
    async with asyncio.timeout(WITHIN_S), consumer:
        assert consumer.assignment() == set()


@pytest.mark.asyncio
async def test_an_unknown_topic_without_a_group_is_an_error_of_start(cluster: Cluster, topic: str) -> None:
    consumer = AIOKafkaConsumer(
        topic + "-unknown",
        bootstrap_servers=cluster.bootstrap_servers,
        request_timeout_ms=2000,
        allow_auto_create_topics=False,  # aiokafka creates topics, and raises the same error where it may not
    )
    try:
        with pytest.raises(UnknownTopicOrPartitionError, match="unknown"):
            await consumer.start()
    finally:
        await consumer.stop()


class Quiet(ConsumerRebalanceListener):
    """A listener without effect."""

    def on_partitions_revoked(self, revoked: Any) -> None:
        pass

    def on_partitions_assigned(self, assigned: Any) -> None:
        pass


@pytest.mark.asyncio
async def test_without_a_read_the_member_leaves_after_max_poll_interval(
    cluster: Cluster, topic: str, group_id: str
) -> None:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=group_id,
        max_poll_interval_ms=1000,
        **MEMBER,
    )
    async with asyncio.timeout(WITHIN_S), consumer:
        group = consumer.consumer._delegate.coordinator
        assert group is not None
        await until(lambda: group.group_metadata().generation_id < 0)
        await asyncio.sleep(0.5)
        assert group.group_metadata().generation_id < 0, "the task in the background has joined again"
        while not consumer.assignment() or group.group_metadata().generation_id < 0:
            await consumer.getmany(timeout_ms=100)


@pytest.mark.asyncio
async def test_every_call_of_the_client_for_event_loops(cluster: Cluster, topic: str, group_id: str) -> None:
    tp = TopicPartition(topic, 0)
    async with (
        asyncio.timeout(WITHIN_S),
        AsyncKafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=group_id,
            auto_offset_reset="earliest",
            consumer_timeout_ms=100,
        ) as consumer,
    ):
        while not consumer.assignment():
            assert not await consumer.poll(100)
        assert await consumer.position(tp) == 0
        assert await consumer.committed(tp) is None
        assert await consumer.partitions_for_topic(topic) == {0}
        assert topic in await consumer.topics()
        assert await consumer.beginning_offsets([tp]) == await consumer.end_offsets([tp]) == {tp: 0}
        assert await consumer.offsets_for_times({tp: 0}) == {tp: None}
        await consumer.commit()
        assert await consumer.committed(tp) == 0
        assert [record async for record in consumer] == []
        waiting = asyncio.create_task(consumer.poll(60_000))
        await asyncio.sleep(0)
        await consumer.close()
        with pytest.raises(Exception, match="closed"):
            await waiting


@pytest.mark.parametrize("name", ["pyconsumer", "kafka", "pyconsumer.compat.kafka"])
def test_every_call_of_the_blocking_clients(name: str, cluster: Cluster, topic: str, group_id: str) -> None:
    pytest.importorskip("kafka", reason="needs kafka-python, which pyconsumer[peers] installs")
    make: Any = KafkaConsumer if name == "pyconsumer" else importlib.import_module(name).KafkaConsumer
    structs = importlib.import_module("pyconsumer" if name == "pyconsumer" else name + ".structs")
    tp = structs.TopicPartition(topic, 0)
    began = time.monotonic()
    consumer = make(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=group_id,
        auto_offset_reset="earliest",
        consumer_timeout_ms=100,
    )
    if name == "kafka":  # joins without metadata of its topic, too, and then assigns nothing for five minutes
        wait_until(lambda: topic in consumer.topics(), WITHIN_S, "metadata of the topic")
    while not consumer.assignment():
        assert not consumer.poll(100)
        assert time.monotonic() < began + WITHIN_S
    assert consumer.position(tp) == 0
    assert consumer.committed(tp) is None
    assert consumer.partitions_for_topic(topic) == {0}
    assert topic in consumer.topics()
    assert consumer.beginning_offsets([tp]) == consumer.end_offsets([tp]) == {tp: 0}
    assert consumer.offsets_for_times({tp: 0}) == {tp: None}
    consumer.seek_to_end(tp)
    assert consumer.position(tp) == 0
    consumer.commit()
    assert consumer.committed(tp) == 0
    assert list(consumer) == []
    consumer.close()
    assert time.monotonic() < began + WITHIN_S
