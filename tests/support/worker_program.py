"""A program with workers that a test kills: it writes a line for each record that its function has finished.

``python -m tests.support.worker_program WAY SERVERS GROUP TOPIC [PROTOCOL [SINK]]`` with ``threads``, ``processes``,
``inline`` or ``tasks`` as the way. With a sink, each record is also copied to that topic, exactly once. It ends at the
end of the topic.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from typing import Any

from pyconsumer import KafkaConsumer, KafkaProducer
from pyconsumer.aio import AsyncKafkaConsumer, AsyncKafkaProducer
from pyconsumer.workers import AsyncWorkers, ProducerRecord, Workers

__all__ = ["CONCURRENCY", "handle"]

CONCURRENCY = 8


def handle(record: Any) -> ProducerRecord:
    """Work, then write key and number of the record in one step. Its last header names the file, the first the sink."""
    time.sleep(random.uniform(0, 0.004))
    _write(record)
    return _result(record)


async def _handle_later(record: Any) -> ProducerRecord:
    await asyncio.sleep(random.uniform(0, 0.004))
    _write(record)
    return _result(record)


def _result(record: Any) -> ProducerRecord:
    return ProducerRecord(record.headers[0][1].decode(), record.value, record.key)


def _write(record: Any) -> None:
    file = os.open(record.headers[-1][1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, b"%s %s\n" % (record.key, record.value))
    finally:
        os.close(file)


async def _tasks(topic: str, settings: dict[str, Any], transactional: dict[str, Any] | None) -> None:
    async with AsyncKafkaConsumer(topic, **settings) as consumer:
        if transactional is None:
            await AsyncWorkers(consumer, _handle_later, concurrency=CONCURRENCY).run(until_caught_up=True)
            return
        async with AsyncKafkaProducer(**transactional) as producer:
            workers = AsyncWorkers(
                consumer, _handle_later, concurrency=CONCURRENCY, producer=producer, exactly_once=True
            )
            await workers.run(until_caught_up=True)


def main(way: str, servers: str, group_id: str, topic: str, protocol: str = "classic", sink: str = "") -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": servers,
        "group_id": group_id,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "auto_commit_interval_ms": 50,
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 200,
        "group_instance_id": "one",  # the next one takes its place at once
        "isolation_level": "read_committed",
    }
    if protocol == "consumer":  # nobody takes the place of a killed member before its session ends
        del settings["group_instance_id"], settings["session_timeout_ms"]
        settings |= {"group_protocol": "consumer", "heartbeat_interval_ms": 20_000}
    transactional: dict[str, Any] | None = None
    if sink:
        transactional = {
            "bootstrap_servers": servers,
            "transactional_id": group_id,
            "transaction_timeout_ms": 10_000,
        }
    if way == "tasks":
        asyncio.run(_tasks(topic, settings, transactional))
        return
    with KafkaConsumer(topic, **settings) as consumer:
        common: dict[str, Any] = {"run_in": way, "concurrency": CONCURRENCY}
        if transactional is None:
            Workers(consumer, handle, **common).run(until_caught_up=True)
            return
        with KafkaProducer(**transactional) as producer:
            Workers(consumer, handle, producer=producer, exactly_once=True, **common).run(until_caught_up=True)


if __name__ == "__main__":
    main(*sys.argv[1:7])
