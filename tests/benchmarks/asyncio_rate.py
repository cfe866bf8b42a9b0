"""``python -m tests.benchmarks.asyncio_rate``: the consumer for asyncio beside the blocking one, and aiokafka's.

Prints millions of records of 100 bytes per second from an embedded broker: median of five alternating rounds, and the
median of the rounds' ratios to the blocking consumer.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from typing import Any

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.aio import AsyncKafkaConsumer
from pyconsumer.broker import EmbeddedCluster

__all__ = ["main"]

_RECORDS = 2_000_000
_ROUNDS = 5
_PARTITIONS = [TopicPartition("rate", number) for number in range(4)]


def blocking(servers: str, way: str) -> float:
    """Return the rate of the blocking consumer, records per second."""
    with KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(_PARTITIONS)
        begin, count = time.perf_counter(), 0
        while count < _RECORDS:
            if way == "poll":
                count += consumer.poll(1000).count()
            elif way == "poll_arrow":
                count += consumer.poll_arrow(1000).num_rows
            else:
                for _ in consumer:
                    count += 1
                    if count == _RECORDS:
                        break
        return count / (time.perf_counter() - begin)


async def on_loop(servers: str, way: str) -> float:
    """Return the rate of the consumer for asyncio."""
    async with AsyncKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(_PARTITIONS)
        begin, count = time.perf_counter(), 0
        while count < _RECORDS:
            if way == "poll":
                count += (await consumer.poll(1000)).count()
            elif way == "poll_arrow":
                count += (await consumer.poll_arrow(1000)).num_rows
            else:
                async for _ in consumer:
                    count += 1
                    if count == _RECORDS:
                        break
        return count / (time.perf_counter() - begin)


async def aiokafkas(servers: str, way: str) -> float:
    """Return the rate of aiokafka's consumer."""
    import aiokafka

    consumer: Any = aiokafka.AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", group_id=None)
    await consumer.start()
    consumer.assign([aiokafka.TopicPartition(*tp) for tp in _PARTITIONS])
    begin, count = time.perf_counter(), 0
    while count < _RECORDS // 10:
        if way == "poll":
            count += sum(map(len, (await consumer.getmany(timeout_ms=1000, max_records=500)).values()))
        else:
            async for _ in consumer:
                count += 1
                if count == _RECORDS // 10:
                    break
    rate = count / (time.perf_counter() - begin)
    await consumer.stop()
    return rate


def main() -> None:
    """Measure and print."""
    import uvloop

    def with_uvloop(servers: str, way: str) -> float:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(on_loop(servers, way))

    faces: dict[str, Callable[[str, str], float]] = {
        "blocking": blocking,
        "asyncio": lambda servers, way: asyncio.run(on_loop(servers, way)),
        "uvloop": with_uvloop,
        "aiokafka": lambda servers, way: asyncio.run(aiokafkas(servers, way)),
    }
    with EmbeddedCluster(config={"num.partitions": 4}) as cluster:
        servers = cluster.bootstrap_servers
        with KafkaProducer(bootstrap_servers=servers) as producer:
            producer.send_many("rate", [bytes(100)] * _RECORDS)
        for way in ("poll", "poll_arrow", "iteration"):
            blocking(servers, way)  # warm up
            rates: dict[str, list[float]] = {name: [] for name in faces}
            for _ in range(_ROUNDS):
                for name, measure in faces.items():
                    if name != "aiokafka" or way != "poll_arrow":
                        rates[name].append(measure(servers, way))
            for name, found in rates.items():
                if found:
                    ratio = statistics.median(a / b for a, b in zip(found, rates["blocking"], strict=True))
                    print(f"{way:10} {name:9} {statistics.median(found) / 1e6:6.2f} million/s  {ratio:.2f} x blocking")


if __name__ == "__main__":
    main()
