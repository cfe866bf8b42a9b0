"""The metrics of the same work, done by Java's clients and by ours: which numbers are equal, and which alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer
from pyconsumer.metrics import Metric
from pyconsumer.protocol.records.batch import BATCH_OVERHEAD
from tests.support.cluster import Cluster
from tests.support.java import tools
from tests.support.process import run

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS, COMMIT_EACH = 4000, 1000
_FETCHES, _GROUP = "consumer-fetch-manager-metrics", "consumer-coordinator-metrics"
Values = dict[tuple[str, str, str, str], float]


def of_java(cluster: Cluster, topic: str, group_id: str) -> Values:
    program = Path(__file__).parent / "SameWork.java"
    arguments = (cluster.bootstrap_servers, topic, group_id, str(RECORDS), str(COMMIT_EACH))
    done = run([*tools().java(str(program), *arguments)], timeout_s=240).check()
    found: Values = {}
    for line in done.stdout.splitlines():
        client, group, name, tags, value = line.split("\t")
        if name != "commit-id" and tags in ("client-id", "client-id,topic"):
            try:
                found[client, group, name, tags] = float(value)
            except ValueError:  # a text
                continue
    return found


def of_ours(cluster: Cluster, written: str, read_from: str, group_id: str) -> Values:
    found: Values = {}

    def keep(client: str, metrics: list[Metric]) -> None:
        for metric in metrics:
            if metric.value is not None:
                found[client, metric.group, metric.name, ",".join(sorted(metric.tags))] = metric.value

    servers = cluster.bootstrap_servers
    with KafkaProducer(bootstrap_servers=servers, linger_ms=5000) as producer:
        for number in range(RECORDS):
            producer.send(written, bytes(100), partition=number % 2)
        producer.flush()
        keep("producer", producer.metric_table())
    settings: Any = {"group_id": group_id, "max_poll_records": 100, "enable_auto_commit": False}
    with KafkaConsumer(read_from, bootstrap_servers=servers, auto_offset_reset="earliest", **settings) as consumer:
        read = 0
        while read < RECORDS:
            before = read // COMMIT_EACH
            read += consumer.poll(1000).count()
            if read // COMMIT_EACH > before:
                consumer.commit()
        consumer.poll(100)
        keep("consumer", consumer.metric_table())
    return found


def test_the_same_work_has_the_same_numbers_on_java_and_here(cluster: Cluster, make_topic: Any, group_id: str) -> None:
    first, second = make_topic(2), make_topic(2)
    java, ours = of_java(cluster, first, f"{group_id}-java"), of_ours(cluster, second, first, group_id)
    for client, group, name, tags in (
        ("producer", "producer-metrics", "record-send-total", "client-id"),
        ("producer", "producer-topic-metrics", "record-send-total", "client-id,topic"),
        ("producer", "producer-metrics", "record-error-total", "client-id"),
        ("consumer", _FETCHES, "records-consumed-total", "client-id"),
        ("consumer", _FETCHES, "records-consumed-total", "client-id,topic"),
        ("consumer", _GROUP, "commit-total", "client-id"),
        ("consumer", _GROUP, "rebalance-total", "client-id"),
        ("consumer", _GROUP, "assigned-partitions", "client-id"),
    ):
        key = (client, group, name, tags)
        assert ours[key] == java[key], key
    # Both have read the same batches. Java counts the bytes of records, ours those of batches as they were received.
    key = ("consumer", _FETCHES, "bytes-consumed-total", "client-id,topic")
    headers = ours[key] - java[key]
    assert headers % BATCH_OVERHEAD == 0
    assert 0 < headers < 0.02 * java[key]
    for client in ("producer", "consumer"):
        for name in ("request-total", "response-total", "outgoing-byte-total", "incoming-byte-total"):
            key = (client, f"{client}-metrics", name, "client-id")
            assert ours[key] <= java[key] * 3, (key, java[key], ours[key])
    for key in (  # most of these bytes are records. Our producer puts more batches into a request
        ("producer", "producer-metrics", "outgoing-byte-total", "client-id"),
        ("consumer", "consumer-metrics", "incoming-byte-total", "client-id"),
    ):
        assert java[key] / 3 <= ours[key], (key, java[key], ours[key])
