"""Writes a topic with one of the Python clients. Run as a child process by the benchmarks.

Each client sends a quarter of the records to another topic to warm up, then, with a new producer, all of them. The
clock runs from the first ``send`` until ``flush`` has returned. All of them: acks=all, linger 5 ms, batches of 64 KiB,
no key. Idempotence is as the client's own default says.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from crc32c import crc32c

from tests.benchmarks.client_program import Watch

_BATCH_SIZE_BYTES = 64 << 10
_LINGER_MS = 5
_CHUNK = 10_000  # records with one call


@dataclass(frozen=True)
class Job:
    """Records to write: ``records`` values, taken in turn."""

    servers: str
    topic: str
    values: list[bytes]
    records: int
    codec: str
    watch: Watch

    def chunks(self) -> Iterator[list[bytes]]:
        """The values, for calls that take many."""
        many = self.values * (_CHUNK // len(self.values))
        whole, rest = divmod(self.records, len(many))
        for _ in range(whole):
            yield many
        if rest:
            yield many[:rest]


def payloads(size_bytes: int, *, compressible: bool = False) -> list[bytes]:
    """A thousand different values, the same in every run. Hexadecimal digits if they are to be compressible."""
    source = random.Random(7)
    if compressible:
        return [source.randbytes(size_bytes // 2).hex().encode() for _ in range(1000)]
    return [source.randbytes(size_bytes) for _ in range(1000)]


def checksum(values: list[bytes], records: int) -> int:
    """Sum of the CRC-32C of each value, for ``records`` values taken in turn. The order does not matter."""
    sums = [crc32c(value) for value in values]
    whole, rest = divmod(records, len(values))
    return int(whole * sum(sums) + sum(sums[:rest]))


def _settings(servers: str, codec: str) -> dict[str, Any]:
    """Settings by the names of kafka-python, which pyconsumer has, too."""
    return {
        "bootstrap_servers": servers,
        "acks": "all",
        "linger_ms": _LINGER_MS,
        "batch_size": _BATCH_SIZE_BYTES,
        "compression_type": None if codec == "none" else codec,
    }


def write_pyconsumer(job: Job) -> None:
    from pyconsumer import KafkaProducer

    with KafkaProducer(**_settings(job.servers, job.codec)) as producer:
        producer.partitions_for(job.topic)
        job.watch.start()
        send, topic, values, number = producer.send, job.topic, job.values, len(job.values)
        for index in range(job.records):
            send(topic, values[index % number])
        producer.flush()
        job.watch.stop()


def write_many(job: Job) -> None:
    from pyconsumer import KafkaProducer

    with KafkaProducer(**_settings(job.servers, job.codec)) as producer:
        producer.partitions_for(job.topic)
        job.watch.start()
        for chunk in job.chunks():
            producer.send_many(job.topic, chunk)
        producer.flush()
        job.watch.stop()


def write_arrow(job: Job) -> None:
    import pyarrow as pa

    from pyconsumer import KafkaProducer

    tables = [pa.table({"value": pa.array(chunk, pa.binary())}) for chunk in job.chunks()]
    with KafkaProducer(**_settings(job.servers, job.codec)) as producer:
        producer.partitions_for(job.topic)
        job.watch.start()
        for table in tables:
            producer.send_arrow(job.topic, table)
        producer.flush()
        job.watch.stop()


def write_kafka_python(job: Job) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(**_settings(job.servers, job.codec))
    try:
        producer.partitions_for(job.topic)
        job.watch.start()
        send, topic, values, number = producer.send, job.topic, job.values, len(job.values)
        for index in range(job.records):
            send(topic, values[index % number])
        producer.flush()
        job.watch.stop()
    finally:
        producer.close()


def _confluent(job: Job) -> Any:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": job.servers,
            "acks": "all",
            "linger.ms": _LINGER_MS,
            "batch.size": _BATCH_SIZE_BYTES,
            "compression.type": job.codec,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    producer.list_topics(job.topic)
    return producer


def write_confluent(job: Job) -> None:
    producer = _confluent(job)
    job.watch.start()
    produce, poll = producer.produce, producer.poll
    topic, values, number = job.topic, job.values, len(job.values)
    for index in range(job.records):
        while True:
            try:
                produce(topic, values[index % number])
                break
            except BufferError:
                poll(0.01)
        if index % 1000 == 0:
            poll(0)
    producer.flush()
    job.watch.stop()


def write_confluent_batches(job: Job) -> None:
    producer = _confluent(job)
    job.watch.start()
    for chunk in job.chunks():
        messages = [{"value": value} for value in chunk]
        while producer.produce_batch(job.topic, messages) < len(messages):
            messages = [{"value": message["value"]} for message in messages if "_error" in message]  # queue full
            producer.poll(0.01)
        producer.poll(0)
    producer.flush()
    job.watch.stop()


@dataclass(frozen=True)
class Way:
    """A client, and how it is given the records.

    Attributes:
        package: the distribution that it needs.
        is_quick: False if it sends a quarter of the records.
        takes_many: True if it gets many records with one call.
    """

    package: str
    write: Callable[[Job], None]
    is_quick: bool = True
    takes_many: bool = False


WAYS: dict[str, Way] = {
    "pyconsumer": Way("pyconsumer", write_pyconsumer),
    "confluent-kafka": Way("confluent-kafka", write_confluent),
    "kafka-python": Way("kafka-python", write_kafka_python, is_quick=False),
    "pyconsumer, send_many": Way("pyconsumer", write_many, takes_many=True),
    "pyconsumer, send_arrow": Way("pyconsumer", write_arrow, takes_many=True),
    "confluent-kafka, produce_batch": Way("confluent-kafka", write_confluent_batches, takes_many=True),
}


def main(arguments: dict[str, Any]) -> dict[str, Any]:
    write, records, codec = WAYS[arguments["client"]].write, arguments["records"], arguments["codec"]
    values = payloads(arguments["record_size_bytes"], compressible=codec != "none")
    servers, watch = arguments["servers"], Watch()
    write(Job(servers, arguments["warm_up_topic"], values, records // 4, codec, Watch()))
    write(Job(servers, arguments["topic"], values, records, codec, watch))
    return {"records": records, "sum": checksum(values, records), **watch.found}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
