"""The program that :mod:`tests.benchmarks.layers` runs in turn with a copied client and with its layer.

It uses only names that both have, and prints one figure as JSON: microseconds of the processor for each record, of this
process with all its threads, from the first record on.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

__all__ = ["PROGRAMS"]

_VALUE = b"v" * 100
_IN_FLIGHT = 10_000  # records whose futures are awaited together
_FILL_S = 2.0  # to fill the buffers
_LARGE = 256 << 20  # bytes
_AT_START_S = 1.0  # to let a member come to rest

Arguments = dict[str, Any]


def _settings(arguments: Arguments, *, reads: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = {"bootstrap_servers": arguments["servers"]}
    if reads:
        found["auto_offset_reset"] = "earliest"
        if arguments["buffered"]:
            found |= {"max_partition_fetch_bytes": _LARGE, "fetch_max_bytes": _LARGE}
    return found


def _used(began: float, count: int) -> dict[str, float]:
    return {"us": (time.process_time() - began) / count * 1e6}


def kafka_poll(arguments: Arguments) -> dict[str, float]:
    """Read with ``poll`` of kafka-python's API."""
    with_buffer, most = arguments["buffered"], arguments["records"]
    consumer = _kafka_consumer(arguments)
    while not consumer.poll(1000):
        pass
    if with_buffer:
        time.sleep(_FILL_S)
        consumer.poll(1000)
    began, count = time.process_time(), 0
    while count < most:
        for records in consumer.poll(1000).values():
            count += len(records)
    found = _used(began, count)
    consumer.close()
    return found


def kafka_for(arguments: Arguments) -> dict[str, float]:
    """Read by iteration, with kafka-python's API."""
    consumer = _kafka_consumer(arguments)
    next(consumer)
    if arguments["buffered"]:
        time.sleep(_FILL_S)
        next(consumer)
    most = arguments["records"]
    began, count = time.process_time(), 0
    for _ in consumer:
        count += 1
        if count == most:
            break
    found = _used(began, count)
    consumer.close()
    return found


def _kafka_consumer(arguments: Arguments) -> Any:
    package = importlib.import_module(arguments["package"])
    return package.KafkaConsumer(arguments["topic"], consumer_timeout_ms=20_000, **_settings(arguments))


def kafka_send(arguments: Arguments) -> dict[str, float]:
    """Send with kafka-python's API, keep each future, and wait for the last one."""
    package = importlib.import_module(arguments["package"])
    producer = package.KafkaProducer(linger_ms=5, **_settings(arguments, reads=False))
    topic, count = arguments["topic"], arguments["records"]
    producer.send(topic, _VALUE).get(30)
    began = time.process_time()
    for _ in range(count):
        future = producer.send(topic, _VALUE)
    producer.flush()
    future.get(30)
    found = _used(began, count)
    producer.close()
    return found


async def _aio_consumer(arguments: Arguments, **settings: Any) -> Any:
    package = importlib.import_module(arguments["package"])
    consumer = package.AIOKafkaConsumer(arguments["topic"], **_settings(arguments), **settings)
    await consumer.start()
    return consumer


async def _first(arguments: Arguments) -> Any:
    consumer = await _aio_consumer(arguments)
    await consumer.getone()
    if arguments["buffered"]:
        await asyncio.sleep(_FILL_S)
        await consumer.getone()
    return consumer


async def aio_getmany(arguments: Arguments) -> dict[str, float]:
    """Read with ``getmany`` of aiokafka's API, without a limit."""
    consumer = await _first(arguments)
    began, count = time.process_time(), 0
    while count < arguments["records"]:
        for records in (await consumer.getmany(timeout_ms=1000)).values():
            count += len(records)
    found = _used(began, count)
    await consumer.stop()
    return found


async def aio_getone(arguments: Arguments) -> dict[str, float]:
    """Read with ``getone``."""
    consumer = await _first(arguments)
    began = time.process_time()
    for _ in range(arguments["records"]):
        await consumer.getone()
    found = _used(began, arguments["records"])
    await consumer.stop()
    return found


async def aio_for(arguments: Arguments) -> dict[str, float]:
    """Read with ``async for``."""
    consumer = await _first(arguments)
    most = arguments["records"]
    began, count = time.process_time(), 0
    async for _ in consumer:
        count += 1
        if count == most:
            break
    found = _used(began, count)
    await consumer.stop()
    return found


async def _aio_producer(arguments: Arguments, linger_ms: int) -> Any:
    package = importlib.import_module(arguments["package"])
    producer = package.AIOKafkaProducer(linger_ms=linger_ms, **_settings(arguments, reads=False))
    await producer.start()
    await producer.send_and_wait(arguments["topic"], _VALUE)
    return producer


async def aio_send(arguments: Arguments) -> dict[str, float]:
    """Await ``send`` of aiokafka's API for each record, and the futures of many records together."""
    producer = await _aio_producer(arguments, 5)
    topic, count = arguments["topic"], arguments["records"]
    began, left = time.process_time(), count
    while left:
        some = min(left, _IN_FLIGHT)
        futures = [await producer.send(topic, _VALUE) for _ in range(some)]
        for future in futures:
            await future
        left -= some
    found = _used(began, count)
    await producer.stop()
    return found


async def aio_send_and_wait(arguments: Arguments) -> dict[str, float]:
    """Send records one after the other, each acknowledged before the next one."""
    producer = await _aio_producer(arguments, 0)
    topic, count = arguments["topic"], arguments["records"]
    began = time.process_time()
    for _ in range(count):
        await producer.send_and_wait(topic, _VALUE)
    found = _used(began, count)
    await producer.stop()
    return found


async def aio_idle(arguments: Arguments) -> dict[str, float]:
    """Be a member of a group that reads no record, and return microseconds of the processor for each second."""
    consumer = await _aio_consumer(arguments, group_id=f"idle-{time.time_ns()}")
    read = asyncio.ensure_future(_read_on(consumer))
    await asyncio.sleep(_AT_START_S)
    began, start = time.process_time(), time.perf_counter()
    await asyncio.sleep(arguments["records"])
    used = (time.process_time() - began) / (time.perf_counter() - start)
    read.cancel()
    await asyncio.wait([read])
    await consumer.stop()
    return {"us": used * 1e6}


async def _read_on(consumer: Any) -> None:
    while True:
        await consumer.getone()


async def aio_lone(arguments: Arguments) -> dict[str, float]:
    """Return the median time (microseconds of the clock) from ``send`` of a lone record to its return by ``getone``."""
    consumer = await _aio_consumer(arguments, group_id=f"lone-{time.time_ns()}")
    reading = asyncio.ensure_future(consumer.getone())
    producer = await _aio_producer(arguments, 0)
    await reading
    while await consumer.getmany(timeout_ms=500):
        pass
    times = []
    for _ in range(arguments["records"]):
        reading = asyncio.ensure_future(consumer.getone())
        await asyncio.sleep(0.005)
        began = time.perf_counter()
        await producer.send(arguments["topic"], _VALUE)
        await reading
        times.append(time.perf_counter() - began)
    await producer.stop()
    await consumer.stop()
    return {"us": statistics.median(times) * 1e6}


def _on_loop(program: Callable[[Arguments], Any]) -> Callable[[Arguments], dict[str, float]]:
    return lambda arguments: asyncio.run(program(arguments))


PROGRAMS: dict[str, Callable[[Arguments], dict[str, float]]] = {
    "kafka poll": kafka_poll,
    "kafka for": kafka_for,
    "kafka send": kafka_send,
    "aiokafka getmany": _on_loop(aio_getmany),
    "aiokafka getone": _on_loop(aio_getone),
    "aiokafka async for": _on_loop(aio_for),
    "aiokafka send": _on_loop(aio_send),
    "aiokafka send_and_wait": _on_loop(aio_send_and_wait),
    "aiokafka idle": _on_loop(aio_idle),
    "aiokafka lone": _on_loop(aio_lone),
}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps(PROGRAMS[given["program"]](given)))
