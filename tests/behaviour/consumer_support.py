"""Parts of the consumer's behaviour tests: producing without a producer, reading until something is there."""

from __future__ import annotations

import importlib
import pkgutil
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

import pyconsumer.consumer
from pyconsumer import ConsumerRecord, KafkaAdminClient, KafkaConsumer, TopicPartition
from pyconsumer.errors import CorruptRecordError
from pyconsumer.protocol import records
from pyconsumer.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyconsumer.protocol.records import BatchBuilder
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.proxy_rules import Rule
from tests.support.raw_client import RawClient
from tests.unit.protocol.records.helpers import Decoder

#: What a test marked ``ahead`` sets: the codec of what is appended, and settings of all consumers made here.
default_codec = "none"
default_settings: dict[str, Any] = {}

__all__ = [
    "append",
    "consuming",
    "fill",
    "member",
    "offsets",
    "poll_until",
    "read",
    "read_to_end",
    "use_decoder",
    "values",
]


def use_decoder(chosen: Decoder, patch: pytest.MonkeyPatch) -> None:
    """Let consumers of this process read with a decoder."""
    names = [each.name for each in pkgutil.walk_packages(pyconsumer.consumer.__path__, "pyconsumer.consumer.")]
    users = [importlib.import_module(name) for name in names]
    for name in chosen._fields[1:]:
        ours = getattr(records, name)
        for module in users:
            if getattr(module, name, None) is ours:
                patch.setattr(module, name, getattr(chosen, name))


def append(
    client: RawClient,
    topic: str,
    values: Iterable[bytes | None],
    *,
    partition: int = 0,
    codec: str | None = None,
    timestamp_ms: int | None = None,
) -> int:
    """Append one batch and return its base offset. Timestamps count up by 1 ms from ``timestamp_ms`` (default: now)."""
    start = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    builder = BatchBuilder(codec=default_codec if codec is None else codec)
    for number, value in enumerate(values):
        assert builder.try_append(start + number, None if number % 2 else b"k%d" % number, value, []) is not None
    data = PartitionProduceData(index=partition, records=builder.build())
    request = ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    deadline = time.monotonic() + 60
    while True:
        answer = client.request(request, 9).responses[0].partition_responses[0]
        if answer.error_code == 0:
            return int(answer.base_offset)
        # Right after a topic was made its leader may not know of it yet.
        assert answer.error_code in (3, 5, 6), answer
        assert time.monotonic() < deadline, answer
        time.sleep(0.02)


def fill(cluster: Cluster, topic: str, count: int, *, partition: int = 0, size: int = 0, each: int = 100) -> None:
    """Append ``count`` records whose values are their numbers, padded to ``size`` bytes, in batches of ``each``.

    With a codec the padding cannot be compressed, so that a batch is as large as without.
    """
    with cluster.raw() as client:
        for start in range(0, count, each):
            numbers = range(start, min(start + each, count))
            append(client, topic, [_padded(b"%d" % n, size) for n in numbers], partition=partition)


def _padded(number: bytes, size: int) -> bytes:
    if default_codec == "none" or len(number) >= size:
        return number.ljust(size)
    return number + b" " + random.Random(number).randbytes(size - len(number) - 1)


@contextmanager
def consuming(servers: Cluster | str, *partitions: TopicPartition, **options: Any) -> Iterator[KafkaConsumer]:
    """A consumer with partitions assigned, from the start by default. Closed at the end."""
    bootstrap = servers if isinstance(servers, str) else servers.bootstrap_servers
    with ExitStack() as stack:
        settings = {"auto_offset_reset": "earliest", **default_settings, **options}
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, **settings)
        stack.callback(consumer.close, 5_000)
        if partitions:
            consumer.assign(partitions)
        yield consumer


@contextmanager
def member(cluster: Cluster, group_id: str, topic: str, **options: Any) -> Iterator[KafkaConsumer]:
    """A consumer that has joined a group, without automatic commits. Its client id is ``the-member``."""
    settings = {"client_id": "the-member", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    settings |= default_settings | options
    with KafkaConsumer(topic, bootstrap_servers=cluster.bootstrap_servers, group_id=group_id, **settings) as consumer:
        deadline = time.monotonic() + 60
        while not consumer.assignment():
            assert time.monotonic() < deadline, "the member has no partitions after 60 s"
            consumer.poll(100)
        yield consumer


def read(
    consumer: KafkaConsumer, count: int, *, timeout_s: float = 60.0, each: Callable[[], object] | None = None
) -> list[ConsumerRecord]:
    """Poll until ``count`` records came, or fail."""
    found: list[ConsumerRecord] = []
    deadline = time.monotonic() + timeout_s
    while len(found) < count:
        found += consumer.poll(500).records()
        if each is not None:
            each()
        assert time.monotonic() < deadline, f"{len(found)} of {count} records within {timeout_s:g} s"
    return found


def poll_until(consumer: KafkaConsumer, condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    """Poll until a condition holds that needs no record."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s"
        consumer.poll(50)


def offsets(records: Iterable[ConsumerRecord]) -> list[int]:
    """Offsets of records."""
    return [record.offset for record in records]


def values(records: Iterable[ConsumerRecord]) -> list[int]:
    """The numbers that :func:`fill` wrote."""
    return [int(record.value) for record in records]


def check_damage(
    consumer: KafkaConsumer, tp: TopicPartition, rule: Rule, *, damaged: int, after: int, end: int
) -> None:
    """Check that a damaged batch is raised each time, can be passed by a seek, and is read once ``rule`` is gone.

    Args:
        rule: damages the batch. Removed here.
        damaged: the first offset of the batch, at which the consumer is.
        after: the offset after the batch.
        end: the offset after the last record.
    """
    for _ in range(2):
        with pytest.raises(CorruptRecordError) as caught:
            consumer.poll(60_000)
        assert (caught.value.topic_partition, caught.value.offset) == (tp, damaged)
    assert consumer.position(tp) == damaged
    consumer.seek(tp, after)
    assert offsets(read(consumer, end - after)) == list(range(after, end))
    rule.remove()
    consumer.seek(tp, damaged)
    assert offsets(read(consumer, end - damaged)) == list(range(damaged, end))


def read_to_end(servers: str, topic: str, partitions: int, isolation_level: str) -> list[bytes]:
    """Return the values of a topic up to the end that a reader of this isolation level sees.

    Transactions that were decided before count: Apache Kafka answers before it has written their markers.
    """
    if isolation_level == "read_committed":
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            decided = ("PrepareCommit", "PrepareAbort")
            wait_until(lambda: not admin.list_transactions(states=decided), 60, "markers of transactions")
    chosen = [TopicPartition(topic, number) for number in range(partitions)]
    found: list[bytes] = []
    with KafkaConsumer(bootstrap_servers=servers, isolation_level=isolation_level) as consumer:
        consumer.assign(chosen)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(chosen)
        while any(consumer.position(tp) < ends[tp] for tp in chosen):
            found += [record.value or b"" for record in consumer.poll(timeout_ms=10_000).records()]
    return found
