"""The metrics of real clients: the table, readers in other threads, reporters, clients that come and go."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import math
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.admin import OffsetSpec
from pyconsumer.aio import AsyncKafkaAdminClient
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.errors import ConfigurationError, WakeupError
from pyconsumer.metrics import Metric, MetricsReporter
from pyconsumer.metrics.source import open_sources
from pyconsumer.metrics.table import ADMIN, CONSUMER, CONSUMER_PROTOCOL, PRODUCER, Family
from pyconsumer.testing import RunningClock
from tests.support.process import run

_NOWHERE = "127.0.0.1:1"


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    with EmbeddedCluster(data_dir=":memory:", config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        cluster.create_topic("tea.green")
        cluster.create_topic("tea.black")
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send("tea.black", b"1").get(10)
        yield cluster.bootstrap_servers


def values(metrics: list[Metric]) -> dict[tuple[str, ...], float]:
    return {(metric.group, metric.name, *list(metric.tags.values())[1:]): metric.value for metric in metrics}


@pytest.mark.parametrize("families", [CONSUMER, CONSUMER_PROTOCOL, PRODUCER, ADMIN])
def test_a_metric_is_served_or_has_a_reason(families: tuple[Family, ...]) -> None:
    for family in families:
        names = [spec.name for spec in family.specs]
        assert len(names) == len(set(names))
        for spec in family.specs:
            assert bool(spec.source) is not bool(spec.reason), spec
            assert spec.description.endswith("."), spec


@pytest.mark.parametrize(
    ("make", "families"),
    [
        (lambda **settings: KafkaConsumer(group_id="g", **settings), CONSUMER),
        (lambda **settings: KafkaConsumer(group_id="g", group_protocol="consumer", **settings), CONSUMER_PROTOCOL),
        (lambda **settings: KafkaConsumer(**settings), CONSUMER),
        (lambda **settings: KafkaProducer(**settings), PRODUCER),
        (lambda **settings: KafkaAdminClient(**settings), ADMIN),
    ],
)
def test_a_new_client_serves_every_metric_of_its_table(make: Callable[..., Any], families: tuple[Family, ...]) -> None:
    client = make(bootstrap_servers=_NOWHERE, client_id="new")
    try:
        table = [metric for metric in client.metric_table() if "node-id" not in metric.tags]
        served = {(metric.group, metric.name) for metric in table}
        assert served == {
            (family.group, spec.name)
            for family in families
            for spec in family.specs
            if not spec.reason and not family.tags
        }
        assert all(metric.tags == {"client-id": "new"} for metric in table)
        for metric in table:
            # the producer's thread may have begun to connect
            if metric.name.endswith(("-consumed-rate", "-send-rate", "-error-rate", "-per-hour")):
                assert metric.value == 0.0, metric
            if metric.name.endswith(("-avg", "-max", "-min")) and not metric.name.startswith("io-"):
                assert math.isnan(metric.value), metric
    finally:
        client.close()


def test_averages_of_a_group_without_commits_are_nan_and_its_ages_are_minus_one() -> None:
    with KafkaConsumer(bootstrap_servers=_NOWHERE, group_id="g") as consumer:
        found = consumer.metrics()["consumer-coordinator-metrics"]
    assert math.isnan(found["commit-latency-avg"] or 0.0)
    assert (found["commit-rate"], found["last-heartbeat-seconds-ago"]) == (0.0, -1.0)


def test_the_work_of_a_consumer_and_a_producer_is_counted(brokers: str) -> None:
    clock = RunningClock()
    tp = TopicPartition("tea.green", 0)
    with KafkaProducer(bootstrap_servers=brokers, client_id="p", compression_type="gzip") as producer:
        for _ in range(3):
            producer.send("tea.green", b"x" * 1000).get(10)
        sent = values(producer.metric_table())
    with KafkaConsumer(bootstrap_servers=brokers, client_id="c", group_id="g1", clock=clock) as consumer:
        consumer.assign([tp])
        consumer.seek_to_beginning(tp)
        read = 0
        while read < 3:
            read += consumer.poll(timeout_ms=1000, max_records=1).count()
        consumer.commit()
        table = consumer.metric_table()
        found = values(table)
        clock.advance(3600.0)
        later = values(consumer.metric_table())
    clock.advance(3600.0)
    closed = values(consumer.metric_table())

    fetch = "consumer-fetch-manager-metrics"
    assert sent["producer-topic-metrics", "record-send-total", "tea.green"] == 3
    assert sent["producer-topic-metrics", "compression-rate", "tea.green"] < 0.5
    assert sent["producer-metrics", "record-size-avg"] > 1000
    assert sent["producer-metrics", "batch-size-max"] < 500
    assert sent["producer-metrics", "request-latency-max"] > 0
    assert found[fetch, "records-consumed-total"] == found[fetch, "records-consumed-total", "tea.green"] == 3
    assert found[fetch, "records-lag", "tea.green", "0"] == 0
    assert found[fetch, "records-lag-max", "tea.green", "0"] == 2
    assert found[fetch, "records-lag-max"] == 2
    assert found[fetch, "records-lead-min", "tea.green", "0"] == 1
    assert found[fetch, "preferred-read-replica", "tea.green", "0"] == -1
    assert found["consumer-metrics", "commit-sync-time-ns-total"] > 0
    assert found["consumer-coordinator-metrics", "commit-total"] == 1
    assert found["consumer-metrics", "connection-count"] >= 1
    assert found["consumer-metrics", "request-total"] == sum(
        value for key, value in found.items() if key[:2] == ("consumer-node-metrics", "request-total")
    )
    assert found["kafka-metrics-count", "count"] == len(table)
    # an hour later: totals stay, rates are over windows that are gone
    assert later[fetch, "records-consumed-total"] == 3
    assert later[fetch, "records-consumed-rate"] == 0.0
    assert math.isnan(later[fetch, "fetch-latency-max"])
    assert [key for key in later if key[0] == "consumer-node-metrics"], "its connection is open"
    assert not [key for key in closed if key[0] == "consumer-node-metrics"]


def test_the_metrics_of_a_partition_and_its_topic_go_when_it_is_revoked(brokers: str) -> None:
    tp = TopicPartition("tea.black", 0)
    with KafkaConsumer(bootstrap_servers=brokers, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        consumer.poll(timeout_ms=5000)
        before = {len(metric.tags) for metric in consumer.metric_table() if "fetch" in metric.group}
        consumer.unsubscribe()
        after = {len(metric.tags) for metric in consumer.metric_table() if "fetch" in metric.group}
    assert (before, after) == ({1, 2, 3}, {1})


def test_the_metrics_of_a_node_go_an_hour_after_its_last_use_by_the_injected_clock() -> None:
    clock = RunningClock()
    with (
        EmbeddedCluster(brokers=2, data_dir=":memory:") as cluster,
        KafkaAdminClient(
            bootstrap_servers=cluster.bootstrap_servers, clock=clock, metadata_max_age_ms=86_400_000
        ) as admin,
    ):
        cluster.create_topic("t", 2)
        (topic,) = admin.describe_topics(["t"])
        by_node = {one.leader: TopicPartition("t", one.partition) for one in topic.partitions}

        def nodes() -> set[str]:
            return {metric.tags["node-id"] for metric in admin.metric_table() if "node-id" in metric.tags}

        def use(*ids: int) -> None:
            admin.list_offsets({by_node[node]: OffsetSpec.LATEST for node in ids})

        use(0, 1)
        assert nodes() >= {"node-0", "node-1"}
        clock.advance(600.0)
        use(0)  # the idle connection is closed. Until then the node was in use
        for _ in range(5):
            clock.advance(700.0)
            use(0)
        assert nodes() >= {"node-0", "node-1"}
        clock.advance(110.0)
        use(0)
        assert nodes() == {"node-0"}


def test_the_metrics_of_a_producers_topic_go_an_hour_after_its_last_batch() -> None:
    clock = RunningClock()
    with (
        EmbeddedCluster(data_dir=":memory:") as cluster,
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, clock=clock) as producer,
    ):
        cluster.create_topic("old", 1)
        cluster.create_topic("new", 1)

        def topics() -> set[str]:
            return {metric.tags["topic"] for metric in producer.metric_table() if "topic" in metric.tags}

        for topic in ("old", "new"):
            producer.send(topic, b"x").get(30)
        assert topics() == {"old", "new"}
        clock.advance(3_500.0)
        producer.send("new", b"x").get(30)
        assert topics() == {"old", "new"}
        clock.advance(200.0)
        assert topics() == {"new"}


def test_metrics_are_read_in_another_thread_while_a_call_waits_and_after_close(brokers: str) -> None:
    consumer = KafkaConsumer(bootstrap_servers=brokers, group_id="waits", auto_offset_reset="latest")
    consumer.subscribe(["tea.green"])
    found: list[Any] = []

    def read_and_wake() -> None:
        while consumer.metrics()["consumer-coordinator-metrics"]["assigned-partitions"] == 0:
            pass
        found.extend(consumer.metric_table() for _ in range(50))
        consumer.wakeup()

    reader = threading.Thread(target=read_and_wake)
    reader.start()
    with pytest.raises(WakeupError):
        consumer.poll(timeout_ms=60_000)
    reader.join()
    consumer.close()
    assert len(found) == 50
    assert consumer.metrics()["consumer-metrics"]["request-total"]
    assert consumer.metric_table()


class Reporter:
    def __init__(self) -> None:
        self.settings: Mapping[str, Any] = {}
        self.read: Callable[[], list[Metric]] = list
        self.closed = 0

    def configure(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings

    def init(self, read: Callable[[], list[Metric]]) -> None:
        self.read = read

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("make", [KafkaConsumer, KafkaProducer, KafkaAdminClient])
def test_reporters_get_the_metrics_and_are_closed(make: Callable[..., Any]) -> None:
    reporter = Reporter()
    assert isinstance(reporter, MetricsReporter)
    client = make(
        bootstrap_servers=_NOWHERE,
        client_id="reported",
        metric_reporters=[reporter],
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="alice",
        sasl_plain_password="secret",
    )
    assert reporter.settings["client_id"] == "reported"
    assert "secret" not in repr(reporter.settings)
    assert [metric.name for metric in reporter.read()] == [metric.name for metric in client.metric_table()]
    client.close()
    client.close()
    assert reporter.closed == 1
    assert reporter.read(), "the metrics are there after close"
    del client
    gc.collect()
    assert reporter.read() == []


@pytest.mark.parametrize("make", [KafkaConsumer, KafkaProducer, KafkaAdminClient])
def test_a_reporter_that_raises_makes_no_client_and_leaves_no_trace(make: Callable[..., Any]) -> None:
    class Broken(Reporter):
        def init(self, read: Callable[[], list[Metric]]) -> None:
            raise RuntimeError("no room")

    first, broken = Reporter(), Broken()
    threads = set(threading.enumerate())
    with pytest.raises(RuntimeError, match="no room"):
        make(bootstrap_servers=_NOWHERE, client_id="broken", metric_reporters=[first, broken])
    assert (first.closed, broken.closed) == (1, 1)
    assert {one.name for one in set(threading.enumerate()) - threads} <= {"pyconsumer-log"}
    assert "broken" not in {source.label for source in open_sources()}


@pytest.mark.parametrize("make", [KafkaConsumer, KafkaProducer, KafkaAdminClient])
@pytest.mark.parametrize("given", [Reporter, print, object(), "a.Name", [Reporter()], None])
def test_an_object_that_is_not_a_reporter_is_refused_with_the_name_of_the_setting(
    make: Callable[..., Any], given: Any
) -> None:
    with pytest.raises(ConfigurationError, match="metric_reporters"):
        make(bootstrap_servers=_NOWHERE, metric_reporters=[given])


def test_a_topic_with_the_name_of_a_partition_has_a_key_of_its_own(brokers: str) -> None:
    with KafkaProducer(bootstrap_servers=brokers) as producer:
        producer.send("t", b"1").get(10)
        producer.send("t-0", b"12").get(10)
    with KafkaConsumer(bootstrap_servers=brokers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("t", 0), TopicPartition("t-0", 0)])
        read = 0
        while read < 2:
            read += consumer.poll(timeout_ms=5000).count()
        found = consumer.metrics()
    group = "consumer-fetch-manager-metrics"
    assert "records-lag" in found[f"{group}.t-0"]
    assert "records-consumed-total" not in found[f"{group}.t-0"]
    assert found[f"{group}.topic=t-0"]["records-consumed-total"] == 1
    assert found[f"{group}.topic=t"]["records-consumed-total"] == 1


def test_a_dropped_consumer_goes_without_the_garbage_collector() -> None:
    consumer = KafkaConsumer(bootstrap_servers=_NOWHERE, client_id="dropped", group_id="g")
    scopes = weakref.ref(consumer._metric_source._scopes)
    consumer.close()
    gc.disable()
    try:
        del consumer
        assert scopes() is None
    finally:
        gc.enable()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("make", [KafkaConsumer, KafkaProducer, KafkaAdminClient, AsyncKafkaAdminClient])
def test_a_forked_child_does_not_close_the_reporters_of_its_parent(make: Callable[..., Any], tmp_path: Path) -> None:
    class Writes(Reporter):
        def close(self) -> None:
            with (tmp_path / "closed").open("a") as file:
                file.write(f"{os.getpid()}\n")

    def end(client: Any) -> None:
        if make is AsyncKafkaAdminClient:
            asyncio.run(client.close())
        else:
            client.close()

    client = make(bootstrap_servers=_NOWHERE, metric_reporters=[Writes()])
    child = os.fork()
    if not child:
        signal.alarm(10)  # ends a child that hangs
        with contextlib.suppress(BaseException):
            end(client)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    end(client)
    assert (tmp_path / "closed").read_text().split() == [str(os.getpid())]


def test_clients_with_the_same_id_have_labels_of_their_own_and_go_at_the_end() -> None:
    def labels() -> set[str]:
        return {source.label for source in open_sources() if source.label.startswith("same")}

    first = KafkaAdminClient(bootstrap_servers=_NOWHERE, client_id="same")
    second = KafkaAdminClient(bootstrap_servers=_NOWHERE, client_id="same")
    assert labels() == {"same", "same-2"}
    first.close()
    assert labels() == {"same-2"}, "the label of a client does not change"
    third = KafkaAdminClient(bootstrap_servers=_NOWHERE, client_id="same")
    assert labels() == {"same", "same-2"}
    third.close()
    second.close()
    assert labels() == set()


_COSTS = """
import dataclasses, gc, importlib, inspect, json, sys, tracemalloc
from pyconsumer import KafkaConsumer

tracemalloc.start()
client = KafkaConsumer(bootstrap_servers="127.0.0.1:1", group_id="g")
own = [name for name in sys.modules if name.startswith("pyconsumer.") and "metrics" in name]

def cost(call):
    gc.collect()
    names, before = set(sys.modules), tracemalloc.get_traced_memory()[0]
    kept = call()
    gc.collect()
    return tracemalloc.get_traced_memory()[0] - before, sorted(set(sys.modules) - names)

def import_again():
    return [sys.modules.pop(name) for name in own], [importlib.import_module(name) for name in own]

calls = {"health": client.health, "metrics": client.metrics, "metric_table": client.metric_table}
found = [(name, *cost(lambda: call() and None)) for _ in range(2) for name, call in calls.items()]
client.close()
found.append(("modules", *cost(import_again)))
print(json.dumps({"imported": own, "costs": found}))
"""


def test_the_memory_of_the_modules_of_metrics_and_health_is_bounded() -> None:
    """Memory in bytes, as Python counts it, and imports instead of times: those take most of the time of a first call.

    The program has ``dataclasses`` and ``inspect``, which the first ``health()`` imports otherwise: 0.9 MB.
    """
    found = json.loads(run([sys.executable, "-c", _COSTS], timeout_s=200).check().stdout)
    health, metrics, table, *again, modules = found["costs"]
    assert len(found["imported"]) <= 5
    assert health[2] == ["pyconsumer.metrics.health"]
    assert metrics[2] == ["pyconsumer.metrics.table"]
    assert (table[2], modules[2]) == ([], [])
    assert 0 < modules[1] < 260_000, "it was 182 KB"
    assert 0 < health[1] < 120_000, "it was 82 KB"
    assert 0 < metrics[1] < 140_000, "it was 95 KB"
    assert [(size < 5_000, names) for _, size, names in (table, *again)] == [(True, [])] * 4, "nothing is kept"
