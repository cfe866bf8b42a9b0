"""``python -m tests.benchmarks.parallel_consumer``: our workers beside Confluent's Parallel Consumer, on Apache Kafka.

All read the same topic in turn, ordered by key, each in a process and with a group of its own. The work on a record is
a pause. It cannot be done faster than ``min(keys, concurrency)`` records in the time of a pause. Figures are those of
the records behind the first ones, so starts and warm-up do not count. The topic has more records than are counted, so
the end of the topic does not count, either. ``asyncio`` has no workers: as many tasks as can be at work only pause, one
time after the other. It is what an event loop allows. asyncio rounds pauses up to a millisecond. With ``--exact`` the
pauses of tasks end at their time, as answers from a server do.

With several partitions, ``--partitions``, each of them has its part of the room of ours.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import sys
import threading
import time
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import click

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pyconsumer.admin import NewTopic
from pyconsumer.aio import AsyncKafkaConsumer
from pyconsumer.workers import AsyncWorkers, Workers
from pyconsumer.workers.common import WorkersSettings
from tests.benchmarks.exact_pauses import ExactPauses
from tests.benchmarks.measure import answer
from tests.support.apache_kafka import ApacheKafka
from tests.support.java import cache_folder, fetch_jars
from tests.support.process import run

__all__ = ["main", "process"]

_JAVA = Path(__file__).with_name("ParallelConsumerRate.java")
_VERSION = "0.5.3.3"
#: Ours, an event loop without workers, and theirs. The ratios are to the last one.
_WAYS = ("threads", "tasks", "asyncio", "Java")
_OURS = _WAYS[:2]
#: The least share of the rate that the work allows (for ours).
_LEAST = 0.95


class _Clock:
    """Notes when the first records and when all of them are finished. Any thread may count."""

    def __init__(self, warm: int, records: int) -> None:
        self._warm, self._records = warm, records
        self._count = 0
        self._lock = threading.Lock()
        self._began = self._used = 0.0
        self.figures: dict[str, float] = {}

    def count(self) -> bool:
        """Count a record. Return True if it is the last one."""
        with self._lock:
            self._count += 1
            if self._count == self._warm:
                self._began, self._used = time.perf_counter(), time.process_time()
            if self._count != self._warm + self._records:
                return False
            self.figures = {
                "seconds": time.perf_counter() - self._began,
                "cpu": time.process_time() - self._used,
                "records": self._records,
            }
            return True


def process(
    way: str,
    servers: str,
    topic: str,
    group_id: str,
    concurrency: int,
    work_ms: int,
    warm: int,
    records: int,
    buffered: int,
    exact: int,
) -> dict[str, float]:
    """Process with our workers, as ``ParallelConsumerRate.java`` does.

    Args:
        buffered: the most records that are buffered. 0: as many as by default.
        exact: 1 has exact pauses in tasks, 0 those of asyncio.
    """
    clock = _Clock(warm, records)
    settings: dict[str, Any] = {
        "bootstrap_servers": servers,
        "group_id": group_id,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    if way == "asyncio":
        with KafkaConsumer(topic, **settings) as consumer:
            keys = {record.key for record in consumer.poll(timeout_ms=30_000, max_records=2_000).records()}
        asyncio.run(_pauses(clock, min(len(keys), concurrency), work_ms / 1000, exact))
        return clock.figures
    more = WorkersSettings(concurrency=concurrency, max_buffered=buffered or None)
    if way == "tasks":
        asyncio.run(_tasks(clock, topic, settings, more, work_ms / 1000, exact))
        return clock.figures

    def handle(record: Any) -> None:
        time.sleep(work_ms / 1000)
        if clock.count():
            workers.stop()

    with KafkaConsumer(topic, **settings) as consumer:
        workers = Workers(consumer, handle, **more)
        workers.run()
    return clock.figures


async def _tasks(
    clock: _Clock, topic: str, settings: dict[str, Any], more: WorkersSettings, work: float, exact: int
) -> None:
    with ExactPauses(work) as pauses:
        pause = pauses.pause if exact else partial(asyncio.sleep, work)

        async def handle(record: Any) -> None:
            await pause()
            if clock.count():
                workers.stop()

        async with AsyncKafkaConsumer(topic, **settings) as consumer:
            workers = AsyncWorkers(consumer, handle, **more)
            await workers.run()


async def _pauses(clock: _Clock, tasks: int, seconds: float, exact: int) -> None:
    is_over = False
    with ExactPauses(seconds) as pauses:
        pause = pauses.pause if exact else partial(asyncio.sleep, seconds)

        async def work() -> None:
            nonlocal is_over
            while not is_over:
                await pause()
                is_over |= clock.count()

        await asyncio.gather(*(work() for _ in range(tasks)))


def _fill(servers: str, topic: str, partitions: int, keys: int, count: int) -> None:
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, partitions, 1)])
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(count):
            producer.send(topic, b"v" * 100, key=b"%d" % (number % keys))
        producer.flush()


def _command(way: str, arguments: list[str]) -> list[str]:
    if way != "Java":
        return [sys.executable, "-m", "tests.benchmarks.parallel_consumer", "--program", way, *arguments]
    name = f"io.confluent.parallelconsumer:parallel-consumer-core:{_VERSION}"
    jars = fetch_jars(cache_folder() / f"parallel-consumer-{_VERSION}" / "libs", [name])
    return [shutil.which("java") or "java", "-cp", f"{jars}/*", str(_JAVA), *arguments]


@click.command(help="Compare the rate of our workers with that of Confluent's Parallel Consumer.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1))
@click.option("--keys", default=[4, 1_000], show_default=True, multiple=True, type=click.IntRange(1))
@click.option("--concurrency", default=100, show_default=True, type=click.IntRange(1))
@click.option("--work-ms", default=10, show_default=True, type=click.IntRange(1), help="The pause of each record.")
@click.option("--seconds", default=10.0, show_default=True, help="Time of a measurement at the rate that is possible.")
@click.option("--partitions", default=1, show_default=True, type=click.IntRange(1))
@click.option("--max-buffered", default=0, type=click.IntRange(0), help="Of ours. 0: the default of workers.")
@click.option("--exact", is_flag=True, help="Let the pauses of tasks end at their time.")
def main(
    rounds: int,
    keys: tuple[int, ...],
    concurrency: int,
    work_ms: int,
    seconds: float,
    partitions: int,
    max_buffered: int,
    exact: bool,
) -> None:
    with ApacheKafka(quick=False) as broker:
        servers = broker.bootstrap_servers
        for count in keys:
            possible = min(count, concurrency) / work_ms * 1000
            records = max(10, int(possible * seconds))
            warm = max(1, records // 4)
            topic = f"keys-{count}"
            _fill(servers, topic, partitions, count, records + warm + max(2_000, records // 4))
            click.echo(f"{count} keys, {concurrency} at a time, {work_ms} ms each, {records:,} records")
            rates: dict[str, list[float]] = {}
            for number in range(1, rounds + 1):
                for way in _WAYS:
                    group_id = f"rate-{uuid.uuid4().hex[:8]}"
                    sizes = [str(size) for size in (concurrency, work_ms, warm, records)]
                    more = [] if way == "Java" else [str(max_buffered), str(int(exact))]
                    command = _command(way, [servers, topic, group_id, *sizes, *more])
                    result = answer(run(command, timeout_s=1800))
                    rate, cost = result["records"] / result["seconds"], result["cpu"] / result["records"] * 1e6
                    rates.setdefault(way, []).append(rate)
                    click.echo(
                        f"  round {number}, {way}: {rate:,.0f} records/s, {cost:.1f} us of the processor a record"
                    )
            for way, found in rates.items():
                share = statistics.median(found) / possible
                least = f", at least {_LEAST}" if way in _OURS else ""
                click.echo(f"  {way}: {share:.3f} of the {possible:,.0f} records/s that are possible{least}")
            for way, other in (("threads", "Java"), ("tasks", "Java"), ("tasks", "asyncio")):
                ratios = [ours / theirs for ours, theirs in zip(rates[way], rates[other], strict=True)]
                middle = statistics.median(ratios)
                click.echo(f"  {way}: {middle:.2f} of the rate of {other} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--program"]:
        chosen, servers, topic, group, *numbers = sys.argv[2:]
        print(json.dumps(process(chosen, servers, topic, group, *map(int, numbers))))
    else:
        main()
