"""Writes a topic with one of the Python clients; run as a child process by the benchmarks.

Each client sends a quarter of the records to another topic to warm up, then, with a new producer, all of them. The
clock runs from the first ``send`` until ``flush`` has returned. All of them: acks=all, linger 5 ms, batches of 64 KiB,
no compression, no key. Idempotence is as the client's own default says.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from typing import Any

from crc32c import crc32c

from tests.benchmarks.client_program import Watch

_BATCH_SIZE_BYTES = 64 << 10
_LINGER_MS = 5


def payloads(size_bytes: int) -> list[bytes]:
    """A thousand different values, the same in every run."""
    source = random.Random(7)
    return [source.randbytes(size_bytes) for _ in range(1000)]


def checksum(values: list[bytes], records: int) -> int:
    """Sum of the CRC-32C of each value, for ``records`` values taken in turn; the order does not matter."""
    sums = [crc32c(value) for value in values]
    whole, rest = divmod(records, len(values))
    return int(whole * sum(sums) + sum(sums[:rest]))


def write_pyconsumer(servers: str, topic: str, values: list[bytes], records: int, watch: Watch) -> None:
    from pyconsumer import KafkaProducer

    with KafkaProducer(
        bootstrap_servers=servers, acks="all", linger_ms=_LINGER_MS, batch_size=_BATCH_SIZE_BYTES
    ) as producer:
        producer.partitions_for(topic)
        watch.start()
        send, number = producer.send, len(values)
        for index in range(records):
            send(topic, values[index % number])
        producer.flush()
        watch.stop()


def write_kafka_python(servers: str, topic: str, values: list[bytes], records: int, watch: Watch) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=servers, acks="all", linger_ms=_LINGER_MS, batch_size=_BATCH_SIZE_BYTES)
    try:
        producer.partitions_for(topic)
        watch.start()
        send, number = producer.send, len(values)
        for index in range(records):
            send(topic, values[index % number])
        producer.flush()
        watch.stop()
    finally:
        producer.close()


def write_confluent(servers: str, topic: str, values: list[bytes], records: int, watch: Watch) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": servers,
            "acks": "all",
            "linger.ms": _LINGER_MS,
            "batch.size": _BATCH_SIZE_BYTES,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    producer.list_topics(topic)
    watch.start()
    produce, poll, number = producer.produce, producer.poll, len(values)
    for index in range(records):
        while True:
            try:
                produce(topic, values[index % number])
                break
            except BufferError:
                poll(0.01)
        if index % 1000 == 0:
            poll(0)
    producer.flush()
    watch.stop()


CLIENTS: dict[str, Callable[[str, str, list[bytes], int, Watch], None]] = {
    "pyconsumer": write_pyconsumer,
    "confluent-kafka": write_confluent,
    "kafka-python": write_kafka_python,
}


def main(arguments: dict[str, Any]) -> dict[str, Any]:
    write = CLIENTS[arguments["client"]]
    values, records = payloads(arguments["record_size_bytes"]), arguments["records"]
    write(arguments["servers"], arguments["warm_up_topic"], values, records // 4, Watch())
    watch = Watch()
    write(arguments["servers"], arguments["topic"], values, records, watch)
    return {"records": records, "sum": checksum(values, records), **watch.found}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
