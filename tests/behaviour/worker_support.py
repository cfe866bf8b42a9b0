"""Topics for workers, and a run of workers to the end of a topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.aio import AsyncKafkaConsumer
from pyconsumer.workers import AsyncWorkers, Workers
from tests.support.cluster import Cluster

__all__ = ["COUNT", "committed_of", "fill", "settings_of", "work"]

COUNT = 400
KEYS = 20


def fill(cluster: Cluster, topic: str, count: int = COUNT, value: Callable[[int], bytes] = b"%d".__mod__) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(count):
            producer.send(topic, value(n), key=b"key %d" % (n % KEYS), headers=[("n", b"%d" % n)])


def settings_of(cluster: Cluster, group_id: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": group_id,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "auto_commit_interval_ms": 100,
        "heartbeat_interval_ms": 200,
        **more,
    }


def work(how: str, topic: str, handle: Callable[[Any], Any], consumer_settings: dict[str, Any], **more: Any) -> None:
    """Process a topic to its end with a plain function, in one of the ways."""
    if how != "tasks":
        with KafkaConsumer(topic, **consumer_settings) as consumer:
            Workers(consumer, handle, run_in=how, **more).run(until_caught_up=True)  # type: ignore[arg-type]
        return

    async def handle_later(record: Any) -> None:
        await asyncio.sleep(0)
        handle(record)

    async def run() -> None:
        async with AsyncKafkaConsumer(topic, **consumer_settings) as consumer:
            await AsyncWorkers(consumer, handle_later, **more).run(until_caught_up=True)

    asyncio.run(run())


def committed_of(cluster: Cluster, group_id: str, topic: str, partitions: int) -> int:
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group_id) as consumer:
        found = consumer.committed([TopicPartition(topic, n) for n in range(partitions)])
    return sum(offset or 0 for offset in found.values())
