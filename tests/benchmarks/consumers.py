"""Reads a topic with one of the Python clients; run as a child process by the benchmarks.

Each client reads a quarter of the records to warm up and then, with a new consumer, all of them. The clock runs from
``assign`` to the last record. Every client's loop does the same with what it gets: take the values, join them, and
carry on one CRC-32C per partition, which the benchmark compares with what Java's consumer read.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from crc32c import crc32c

_PATIENCE_S = 60.0


class Tally:
    """Counts what was read and keeps a checksum per partition, in the order of reading."""

    def __init__(self, partitions: int, wanted: int) -> None:
        self.wanted = wanted
        self.count = 0
        self.size_bytes = 0
        self.checksums = [0] * partitions
        self._seen, self._last = 0, time.monotonic()

    @property
    def more(self) -> bool:
        return self.count < self.wanted

    def add(self, partition: int, values: Sequence[bytes]) -> None:
        data = b"".join(values)
        self.checksums[partition] = crc32c(data, self.checksums[partition])
        self.count += len(values)
        self.size_bytes += len(data)

    def add_column(self, partition: int, values: Any) -> None:
        """An Arrow array of values, none of them null, whose bytes lie one after the other."""
        offsets, data = values.buffers()[1:]
        ends = memoryview(offsets).cast("i")
        joined = memoryview(data)[ends[values.offset] : ends[values.offset + len(values)]]
        self.checksums[partition] = crc32c(joined, self.checksums[partition])
        self.count += len(values)
        self.size_bytes += len(joined)

    def nothing_came(self) -> None:
        """Give up when that happens for a minute."""
        if self.count > self._seen:
            self._seen, self._last = self.count, time.monotonic()
        elif time.monotonic() - self._last > _PATIENCE_S:
            raise TimeoutError(f"only {self.count} of {self.wanted} records came")


class Watch:
    """Wall clock and processor time (of all threads) since :meth:`start`."""

    def start(self) -> None:
        self._cpu, self._start = time.process_time(), time.perf_counter()

    def stop(self) -> None:
        self.seconds = time.perf_counter() - self._start
        self.cpu_s = time.process_time() - self._cpu


def read_pyconsumer(servers: str, topic: str, tally: Tally, watch: Watch) -> None:
    from pyconsumer import KafkaConsumer, TopicPartition

    partitions = [TopicPartition(topic, number) for number in range(len(tally.checksums))]
    with KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.partitions_for_topic(topic)
        watch.start()
        consumer.assign(partitions)
        while tally.more:
            found = consumer.poll(timeout_ms=1000)
            for tp, records in found.items():
                tally.add(tp.partition, [record.value for record in records])
            if not found:
                tally.nothing_came()
        watch.stop()


def read_pyconsumer_pure(servers: str, topic: str, tally: Tally, watch: Watch) -> None:
    assert os.environ.setdefault("PYCONSUMER_PURE", "1") == "1"
    read_pyconsumer(servers, topic, tally, watch)


def read_pyconsumer_columns(servers: str, topic: str, tally: Tally, watch: Watch) -> None:
    import pyarrow

    from pyconsumer import KafkaConsumer, TopicPartition

    assert pyarrow.__version__  # imported before the clock runs
    partitions = [TopicPartition(topic, number) for number in range(len(tally.checksums))]
    with KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.partitions_for_topic(topic)
        watch.start()
        consumer.assign(partitions)
        while tally.more:
            batch = consumer.poll_arrow(timeout_ms=1000, columns=["partition", "offset", "timestamp", "key", "value"])
            start = 0
            while start < batch.num_rows:
                # Rows of one partition follow each other.
                partition = batch["partition"][start].as_py()
                end = _end_of_run(batch["partition"], start)
                tally.add_column(partition, batch["value"].slice(start, end - start))
                start = end
            if not batch.num_rows:
                tally.nothing_came()
        watch.stop()


def _end_of_run(numbers: Any, start: int) -> int:
    """Where the numbers equal to the one at ``start`` end."""
    import pyarrow.compute as pc

    same = pc.equal(numbers.slice(start), numbers[start])
    end = pc.index(same, False).as_py()
    return len(numbers) if end < 0 else start + int(end)


def read_kafka_python(servers: str, topic: str, tally: Tally, watch: Watch) -> None:
    from kafka import KafkaConsumer, TopicPartition

    partitions = [TopicPartition(topic, number) for number in range(len(tally.checksums))]
    consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", group_id=None)
    try:
        consumer.partitions_for_topic(topic)
        watch.start()
        consumer.assign(partitions)
        while tally.more:
            found = consumer.poll(timeout_ms=1000)
            for tp, records in found.items():
                tally.add(tp.partition, [record.value for record in records])
            if not found:
                tally.nothing_came()
        watch.stop()
    finally:
        consumer.close()


def read_aiokafka(servers: str, topic: str, tally: Tally, watch: Watch) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", group_id=None)
        await consumer.start()
        try:
            watch.start()
            consumer.assign([TopicPartition(topic, number) for number in range(len(tally.checksums))])
            while tally.more:
                found = await consumer.getmany(timeout_ms=1000)
                for tp, records in found.items():
                    tally.add(tp.partition, [record.value for record in records])
                if not found:
                    tally.nothing_came()
            watch.stop()
        finally:
            await consumer.stop()

    asyncio.run(read())


def read_confluent(servers: str, topic: str, tally: Tally, watch: Watch) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            # With its defaults it stalls for a second whenever its queue was full.
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 1 << 20,
            "fetch.queue.backoff.ms": 5,
        }
    )
    try:
        consumer.list_topics(topic)
        watch.start()
        consumer.assign([TopicPartition(topic, number, 0) for number in range(len(tally.checksums))])
        while tally.more:
            messages = consumer.consume(1000, timeout=1.0)
            values: list[list[Any]] = [[] for _ in tally.checksums]
            for message in messages:
                values[message.partition()].append(message.value())  # type: ignore[index]
            for partition, found in enumerate(values):
                if found:
                    tally.add(partition, found)
            if not messages:
                tally.nothing_came()
        watch.stop()
    finally:
        consumer.close()


CLIENTS: dict[str, Callable[[str, str, Tally, Watch], None]] = {
    "pyconsumer": read_pyconsumer,
    "pyconsumer, pure Python": read_pyconsumer_pure,
    "pyconsumer, columns": read_pyconsumer_columns,
    "confluent-kafka": read_confluent,
    "aiokafka": read_aiokafka,
    "kafka-python": read_kafka_python,
}


def main(arguments: dict[str, Any]) -> dict[str, Any]:
    read = CLIENTS[arguments["client"]]
    servers, topic, partitions = arguments["servers"], arguments["topic"], arguments["partitions"]
    read(servers, topic, Tally(partitions, arguments["records"] // 4), Watch())
    tally, watch = Tally(partitions, arguments["records"]), Watch()
    read(servers, topic, tally, watch)
    return {
        "records": tally.count,
        "size_bytes": tally.size_bytes,
        "checksums": tally.checksums,
        "seconds": watch.seconds,
        "cpu_s": watch.cpu_s,
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
