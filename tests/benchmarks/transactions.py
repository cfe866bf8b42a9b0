"""``python -m tests.benchmarks.transactions``: our transactions beside Java's, and our copying loop beside aiokafka's.

For each kind of broker it prints three figures:

* ms for a transaction of 100 records of 100 bytes (median of 200)
* records per second of Kafka's ProducerPerformance with a transactional id
* records per second copied from topic to topic exactly once, in batches of 500

Runs alternate, and the best of three counts.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from pyconsumer import KafkaConsumer, KafkaProducer, process_exactly_once
from tests.support.certificates import make_certificates
from tests.support.cluster import Cluster, start_cluster
from tests.support.java import VERSION, KafkaTools

__all__ = ["main"]

_ROUNDS = 3
_TRANSACTIONS = 200
_COPIED = 40_000
_BATCH = 500


def ours(servers: str, topic: str) -> float:
    """The median of our producer's transactions, ms."""
    times = []
    with KafkaProducer(bootstrap_servers=servers, transactional_id="our-loop") as producer:
        producer.init_transactions()
        for turn in range(-_TRANSACTIONS // 4, _TRANSACTIONS):
            begin = time.perf_counter()
            producer.begin_transaction()
            for _ in range(100):
                producer.send(topic, bytes(100))
            producer.commit_transaction()
            if turn >= 0:
                times.append((time.perf_counter() - begin) * 1000)
    return statistics.median(times)


def javas(tools: KafkaTools, servers: str, topic: str) -> float:
    """The median of Java's, ms."""
    source = Path(__file__).with_name("TransactionLoop.java")
    return float(tools.run_source(source, servers, topic, str(_TRANSACTIONS)).stdout.split()[-1])


def performance(tools: KafkaTools, servers: str, topic: str) -> float:
    """Records per second of ProducerPerformance."""
    text = tools.run(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", "300000", "--record-size", "100", "--throughput", "-1"),
        *("--bootstrap-server", servers, "--transactional-id", "perf", "--transaction-duration-ms", "100"),
        quick=False,
    ).stdout
    return float(re.findall(r"([\d.]+) records/sec", text)[-1])


def copy_ours(servers: str, source: str, sink: str, name: str) -> float:
    """Records per second of ``process_exactly_once``."""
    consumer = KafkaConsumer(
        source,
        bootstrap_servers=servers,
        group_id=name,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_records=_BATCH,
    )
    producer = KafkaProducer(bootstrap_servers=servers, transactional_id=name)
    copied, begin = 0, 0.0

    def transform(records):  # type: ignore[no-untyped-def]
        nonlocal copied, begin
        begin = begin or time.perf_counter()
        copied += records.count()
        return [(sink, record.value) for record in records.records()]

    with consumer, producer:
        process_exactly_once(consumer, producer, transform, stop=lambda: copied >= _COPIED, poll_timeout_ms=100)
        return copied / (time.perf_counter() - begin)


def copy_aiokafka(servers: str, source: str, sink: str, name: str) -> float:
    """Records per second of the same loop with aiokafka."""
    import aiokafka

    async def loop() -> float:
        consumer = aiokafka.AIOKafkaConsumer(
            source,
            bootstrap_servers=servers,
            group_id=name,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, transactional_id=name)
        await consumer.start()
        await producer.start()
        copied, begin = 0, 0.0
        while copied < _COPIED:
            batches = await consumer.getmany(timeout_ms=100, max_records=_BATCH)
            if not batches:
                continue
            begin = begin or time.perf_counter()
            async with producer.transaction():
                offsets = {}
                for tp, records in batches.items():
                    for record in records:
                        await producer.send(sink, record.value)
                    offsets[tp] = records[-1].offset + 1
                    copied += len(records)
                await producer.send_offsets_to_transaction(offsets, name)
        rate = copied / (time.perf_counter() - begin)
        await producer.stop()
        await consumer.stop()
        return rate

    return asyncio.run(loop())


def main() -> None:
    """Measure and print."""
    tools = KafkaTools(VERSION)
    with TemporaryDirectory() as folder:
        certificates = make_certificates(Path(folder))
        for kind in ("embedded", "apache"):
            cluster = start_cluster(kind, certificates)
            try:
                _measure(kind, cluster, tools)
            finally:
                cluster.stop()


def _measure(kind: str, cluster: Cluster, tools: KafkaTools) -> None:
    servers = cluster.bootstrap_servers
    for topic in ("loop", "perf", "source", "sink"):
        cluster.create_topic(topic, 1)
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for _ in range(_COPIED):
            producer.send("source", bytes(100))
    cells: dict[str, Callable[[int], float]] = {
        "100 records, ours, ms": lambda _: ours(servers, "loop"),
        "100 records, Java, ms": lambda _: javas(tools, servers, "loop"),
        "ProducerPerformance, records/s": lambda _: performance(tools, servers, "perf"),
        "copied, ours, records/s": lambda turn: copy_ours(servers, "source", "sink", f"ours-{turn}"),
        "copied, aiokafka, records/s": lambda turn: copy_aiokafka(servers, "source", "sink", f"aio-{turn}"),
    }
    found: dict[str, list[float]] = {name: [] for name in cells}
    for turn in range(_ROUNDS):
        for name, cell in cells.items():
            found[name].append(cell(turn))
    for name, values in found.items():
        best = min(values) if name.endswith("ms") else max(values)
        print(f"{kind}: {name}: {best:,.1f} (of {', '.join(f'{value:,.1f}' for value in values)})", flush=True)


if __name__ == "__main__":
    main()
