"""A program with workers that a test kills: it writes a line for each record that its function has finished.

``python -m tests.support.worker_program WAY SERVERS GROUP TOPIC`` with ``threads``, ``processes``, ``inline`` or
``tasks`` as the way. It ends at the end of the topic.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from typing import Any

from pyconsumer import KafkaConsumer
from pyconsumer.aio import AsyncKafkaConsumer
from pyconsumer.workers import AsyncWorkers, Workers

__all__ = ["CONCURRENCY", "handle"]

CONCURRENCY = 8


def handle(record: Any) -> None:
    """Work, then write key and number of the record in one step. Its last header names the file."""
    time.sleep(random.uniform(0, 0.004))
    _write(record)


async def _handle_later(record: Any) -> None:
    await asyncio.sleep(random.uniform(0, 0.004))
    _write(record)


def _write(record: Any) -> None:
    file = os.open(record.headers[-1][1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, b"%s %s\n" % (record.key, record.value))
    finally:
        os.close(file)


async def _tasks(topic: str, settings: dict[str, Any]) -> None:
    async with AsyncKafkaConsumer(topic, **settings) as consumer:
        await AsyncWorkers(consumer, _handle_later, concurrency=CONCURRENCY).run(until_caught_up=True)


def main(way: str, servers: str, group_id: str, topic: str) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": servers,
        "group_id": group_id,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "auto_commit_interval_ms": 50,
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 200,
        "group_instance_id": "one",  # the next one takes its place at once
    }
    if way == "tasks":
        asyncio.run(_tasks(topic, settings))
        return
    with KafkaConsumer(topic, **settings) as consumer:
        Workers(consumer, handle, run_in=way, concurrency=CONCURRENCY).run(until_caught_up=True)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(*sys.argv[1:5])
