"""``python -m tests.benchmarks.workers``: the cost of a record in :mod:`pyconsumer.workers`, with an empty function.

Each way runs in a process of its own, in turn with a plain loop over ``poll``. An embedded broker in another process
has the records of 100 bytes, with a key out of ``--keys``. The figure is the processor time of the program for each
record, with all its threads and processes. Each way runs with a quarter of the records and with all, and the difference
is counted. So the start of the program, of the group and of worker processes does not count.
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import click

from pyconsumer import KafkaConsumer, KafkaProducer
from pyconsumer.aio import AsyncKafkaConsumer
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.workers import AsyncWorkers, Workers
from tests.benchmarks.measure import answer
from tests.support.process import run

__all__ = ["WAYS", "main", "measure"]

_TOPIC = "records"
_PARTITIONS = 4
#: The most that a record may cost above the plain loop, in microseconds.
_LIMITS = {"inline": 3.0, "tasks": 8.0, "threads": 12.0, "processes": 25.0}


def handle(record: Any) -> None:
    """Do nothing with a record."""


async def handle_later(record: Any) -> None:
    """Do nothing with a record, in a coroutine."""


def _settings(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "bootstrap_servers": arguments["servers"],
        "group_id": f"workers-{time.time_ns()}",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }


def _used() -> float:
    found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in found)


def _loop(arguments: dict[str, Any]) -> int:
    count = 0
    with KafkaConsumer(arguments["topic"], **_settings(arguments)) as consumer:
        while count < arguments["records"]:
            for record in consumer.poll(timeout_ms=1000).records():
                handle(record)
                count += 1
    return count


def _blocking(arguments: dict[str, Any]) -> int:
    with KafkaConsumer(arguments["topic"], **_settings(arguments)) as consumer:
        workers = Workers(consumer, handle, run_in=arguments["way"], concurrency=arguments["concurrency"])
        workers.run(until_caught_up=True)
        return workers.status().finished


async def _tasks(arguments: dict[str, Any]) -> int:
    async with AsyncKafkaConsumer(arguments["topic"], **_settings(arguments)) as consumer:
        workers = AsyncWorkers(consumer, handle_later, concurrency=arguments["concurrency"])
        await workers.run(until_caught_up=True)
        return workers.status().finished


WAYS: dict[str, Callable[[dict[str, Any]], int]] = {
    "loop": _loop,
    "inline": _blocking,
    "tasks": lambda arguments: asyncio.run(_tasks(arguments)),
    "threads": _blocking,
    "processes": _blocking,
}


def measure(arguments: dict[str, Any]) -> dict[str, float]:
    """Process all records of a topic, and return the seconds of the processor that it took.

    Args:
        arguments: ``way``, ``servers``, ``topic``, ``records`` and ``concurrency``.
    """
    began = _used()
    count = WAYS[arguments["way"]](arguments)
    return {"seconds": _used() - began, "records": count}


@click.command(help="Measure what a record costs in workers with an empty function.")
@click.argument("ways", nargs=-1, type=click.Choice(list(WAYS)))
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1))
@click.option("--records", default=200_000, show_default=True, type=click.IntRange(4_000))
@click.option("--keys", default=1_000, show_default=True, type=click.IntRange(1))
@click.option("--concurrency", default=100, show_default=True, type=click.IntRange(1))
def main(ways: tuple[str, ...], runs: int, records: int, keys: int, concurrency: int) -> None:
    found: dict[str, list[float]] = {}
    sizes = (records, records // 4)
    with EmbeddedCluster() as cluster:
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for size in sizes:
                cluster.create_topic(f"{_TOPIC}-{size}", partitions=_PARTITIONS)
                for number in range(size):
                    producer.send(f"{_TOPIC}-{size}", b"v" * 100, key=b"%d" % (number % keys))
            producer.flush()
        for _ in range(runs):
            for way in dict.fromkeys(("loop", *(ways or WAYS))):
                seconds, counts = [], []
                for size in sizes:
                    arguments = {"way": way, "servers": cluster.bootstrap_servers, "topic": f"{_TOPIC}-{size}"}
                    arguments |= {"records": size, "concurrency": concurrency}
                    command = [sys.executable, "-m", "tests.benchmarks.workers_program", json.dumps(arguments)]
                    result = answer(run(command, timeout_s=300))
                    seconds.append(result["seconds"])
                    counts.append(result["records"])
                found.setdefault(way, []).append((seconds[0] - seconds[1]) / (counts[0] - counts[1]) * 1e6)
    plain = statistics.median(found["loop"])
    for way, figures in found.items():
        cost = statistics.median(figures)
        above = f", {cost - plain:.2f} above the loop (at most {_LIMITS[way]:g})" if way in _LIMITS else ""
        click.echo(f"{way}: {cost:.2f} microseconds ({min(figures):.2f} to {max(figures):.2f}){above}")


if __name__ == "__main__":
    main()
