"""Unread responses: others are served, the broker's memory stays small, and late readers get everything."""

from __future__ import annotations

import contextlib
import os
import random
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyconsumer.protocol.messages.metadata import MetadataRequest
from pyconsumer.protocol.records import iter_records
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster
from tests.support.raw_client import RawClient

PARTITIONS = 8
VERSION = 12  # the last one in which a request has names of topics


def fill(servers: str, topic: str, count: int, size: int = 10_000, **options: Any) -> list[list[bytes]]:
    """Records for each partition. Their values."""
    numbers = random.Random(5)
    values = [[numbers.randbytes(size) for _ in range(count)] for _ in range(PARTITIONS)]
    with KafkaProducer(bootstrap_servers=servers, linger_ms=20, **options) as producer:
        for partition, wanted in enumerate(values):
            for value in wanted:
                producer.send(topic, value, partition=partition)
    return values


def everything(topic: str) -> FetchRequest:
    partitions = [FetchPartition(number, fetch_offset=0, partition_max_bytes=4 << 20) for number in range(PARTITIONS)]
    return FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=50 << 20, topics=[FetchTopic(topic=topic, partitions=partitions)]
    )


def values_in(response: Any) -> list[list[bytes | None]]:
    found = sorted(response.responses[0].partitions, key=lambda data: data.partition_index)
    return [[record.value for record in iter_records(data.records)] for data in found]


def test_others_are_served_and_late_readers_get_everything(cluster: Cluster, topic_name: str) -> None:
    cluster.create_topic(topic_name, PARTITIONS)
    values = fill(cluster.bootstrap_servers, topic_name, 100)
    with contextlib.ExitStack() as stack:
        lazy = [stack.enter_context(cluster.raw()) for _ in range(10)]
        for client in lazy:
            client.send(everything(topic_name), VERSION)
        modest = stack.enter_context(cluster.raw())
        for _ in range(20):
            assert modest.request(MetadataRequest(topics=None), 9).topics
        assert values_in(modest.request(everything(topic_name), VERSION)) == values
        for client in lazy:
            assert values_in(client.receive()[1]) == values
            assert client.request(MetadataRequest(topics=None), 9).topics, "the connection goes on"


@pytest.mark.parametrize("memory", [False, True], ids=["files", "memory"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.embedded_only("the same from a broker without files, and with TLS")
def test_late_readers_of_each_kind_of_cluster(
    tls: bool, memory: bool, cluster_kind: str, certificates: Certificates, topic_name: str
) -> None:
    with embedded(tls, memory, certificates) as (cluster, connect, options):
        cluster.create_topic(topic_name, PARTITIONS)
        values = fill(cluster.bootstrap_servers, topic_name, 50, **options)
        with contextlib.ExitStack() as stack:
            lazy = [stack.enter_context(connect()) for _ in range(5)]
            for client in lazy:
                client.send(everything(topic_name), VERSION)
            for client in reversed(lazy):
                assert values_in(client.receive()[1]) == values


def test_read_committed_of_much_data_leaves_out_aborted_records(cluster: Cluster, topic_name: str) -> None:
    """More than a broker reads ahead of sending, with aborted transactions of several producers between the others."""
    cluster.create_topic(topic_name, 1)
    expected, count = [], 0
    options = {"bootstrap_servers": cluster.bootstrap_servers, "linger_ms": 1}
    with contextlib.ExitStack() as stack:
        producers = [
            stack.enter_context(KafkaProducer(transactional_id=f"{topic_name}-{number}", **options))
            for number in range(3)
        ]
        for producer in producers:
            producer.init_transactions()
        for turn in range(12):
            for number, producer in enumerate(producers):
                producer.begin_transaction()
                for _ in range(20):
                    value = b"%d " % count + bytes(3000)
                    count += 1
                    producer.send(topic_name, value, partition=0)
                    if (turn + number) % 3:
                        expected.append(value)
                producer.flush()
                if (turn + number) % 3:
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()
    tp = TopicPartition(topic_name, 0)
    with KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([tp])
        end = consumer.end_offsets([tp])[tp]
        found = []
        until = time.monotonic() + 60
        while consumer.position(tp) < end and time.monotonic() < until:
            found += [record.value for record in consumer.poll(timeout_ms=500).records()]
    assert found == expected


# --- the memory of a broker's process


@contextlib.contextmanager
def embedded(tls: bool, memory: bool, certificates: Certificates) -> Any:
    """An embedded cluster. The function that connects to it, and the options of its clients."""
    listeners = {"listeners": ("SSL",), "ssl_certfile": certificates.server_pem} if tls else {}
    with EmbeddedCluster(data_dir=":memory:" if memory else None, **listeners) as cluster:
        context = ssl.create_default_context(cafile=str(certificates.ca_pem)) if tls else None
        options = {"security_protocol": "SSL", "ssl_cafile": str(certificates.ca_pem)} if tls else {}
        connect: Callable[[], RawClient] = lambda: RawClient(cluster.bootstrap_servers, tls=context)  # noqa: E731
        yield cluster, connect, options


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs the memory of another process")
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.embedded_only("looks at the memory of the embedded broker's process")
def test_many_connections_that_do_not_read_take_little_memory(
    tls: bool, cluster_kind: str, certificates: Certificates, topic_name: str
) -> None:
    with embedded(tls, False, certificates) as (cluster, connect, options):
        cluster.create_topic(topic_name, PARTITIONS)
        fill(cluster.bootstrap_servers, topic_name, 100, **options)  # so that each asks for 8 MB
        pid = int(cluster.command("ping"))
        with contextlib.ExitStack() as stack:
            for _ in range(500):
                stack.enter_context(connect()).send(everything(topic_name), VERSION)
            modest = stack.enter_context(connect())
            peak = 0.0
            for _ in range(100):
                assert modest.request(MetadataRequest(topics=None), 9).topics
                peak = max(peak, resident_mb(pid))
        assert peak < 200
