"""``python -m tests.benchmarks.worker_memory``: the peak memory of workers beside that of a plain loop.

A topic of 1 GB has records of 1 kB with a key. Each way reads all of it, in a process of its own, with an embedded
broker in another one. A record is 10 ms of waiting, 100 at a time. The plain loop does nothing with a record, since it
would take hours. The figure is the peak of the program's resident memory (``VmHWM``).
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import click

from pyconsumer import KafkaConsumer, KafkaProducer
from pyconsumer.aio import AsyncKafkaConsumer
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.workers import AsyncWorkers, Workers
from tests.benchmarks.measure import answer
from tests.support.process import run

__all__ = ["main", "measure"]

_TOPIC = "records"
_PARTITIONS = 4
_WORK_S = 0.01
_CONCURRENCY = 100
#: The most that workers may need above the plain loop (MB).
_LIMIT_MB = 30


def _wait(record: Any) -> None:
    time.sleep(_WORK_S)


async def _wait_later(record: Any) -> None:
    await asyncio.sleep(_WORK_S)


def _loop(servers: str, settings: dict[str, Any]) -> int:
    count = 0
    with KafkaConsumer(_TOPIC, bootstrap_servers=servers, **settings) as consumer:
        while True:
            found = consumer.poll(timeout_ms=3000)
            if found.is_empty and count:
                return count
            count += found.count()
            consumer.commit_async()


def _threads(servers: str, settings: dict[str, Any]) -> int:
    with KafkaConsumer(_TOPIC, bootstrap_servers=servers, **settings) as consumer:
        workers = Workers(consumer, _wait, concurrency=_CONCURRENCY)
        workers.run(until_caught_up=True)
        return workers.status().finished


async def _tasks(servers: str, settings: dict[str, Any]) -> int:
    async with AsyncKafkaConsumer(_TOPIC, bootstrap_servers=servers, **settings) as consumer:
        workers = AsyncWorkers(consumer, _wait_later, concurrency=_CONCURRENCY)
        await workers.run(until_caught_up=True)
        return workers.status().finished


def measure(way: str, servers: str) -> dict[str, float]:
    """Process the topic. Return the peak in MB, the seconds, and the number of records."""
    settings = {"group_id": way, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    began = time.monotonic()
    if way == "tasks":
        records = asyncio.run(_tasks(servers, settings))
    else:
        records = (_threads if way == "threads" else _loop)(servers, settings)
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("utf-8"))
    assert peak is not None
    return {"peak": int(peak[1]) / 1000, "seconds": time.monotonic() - began, "records": records}


@click.command(help="Compare the peak memory of workers with that of a plain loop.")
@click.argument("ways", nargs=-1, type=click.Choice(["loop", "threads", "tasks"]))
@click.option("--records", default=1_000_000, show_default=True, type=click.IntRange(1000))
@click.option("--keys", default=10_000, show_default=True, type=click.IntRange(1))
def main(ways: tuple[str, ...], records: int, keys: int) -> None:
    peaks: dict[str, float] = {}
    with EmbeddedCluster() as cluster:
        cluster.create_topic(_TOPIC, partitions=_PARTITIONS)
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in range(records):
                producer.send(_TOPIC, b"%1000d" % number, key=b"%d" % (number % keys))
            producer.flush()
        for way in ways or ("loop", "threads", "tasks"):
            command = [sys.executable, "-m", "tests.benchmarks.worker_memory", "--program", way]
            found = answer(run([*command, cluster.bootstrap_servers], timeout_s=3000))
            assert found["records"] == records, found
            peaks[way] = found["peak"]
            above = f", {peaks[way] - peaks['loop']:+.1f} MB (at most {_LIMIT_MB})" if "loop" in peaks else ""
            click.echo(f"{way}: peak {peaks[way]:.1f} MB in {found['seconds']:.0f} s{above}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--program"]:
        print(json.dumps(measure(*sys.argv[2:4])))
    else:
        main()
