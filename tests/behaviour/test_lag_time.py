"""Lag as time: the age of the first uncommitted record, as a consumer, the command, the exporter and Spark show it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from pyconsumer.admin import first_records, log_ends
from pyconsumer.cli import _run, positions
from pyconsumer.protocol.api_keys import ApiKey
from tests.behaviour.consumer_support import append, read
from tests.support.cluster import Cluster
from tests.support.proxy import Event, KafkaProxy

MakeTopic = Callable[..., str]
_HOUR_MS = 3_600_000


def ages(consumer: KafkaConsumer) -> tuple[float | None, float | None]:
    """Return the lag of health() and of the metrics, in seconds."""
    metrics = consumer.metrics()["consumer-fetch-manager-metrics"]
    shown = metrics.get("records-lag-time-max")
    return consumer.health().lag_s, None if shown is None else shown / 1000


def reader(cluster: Cluster, topic: str, **settings: Any) -> KafkaConsumer:
    """A consumer that returns one record at a time, and commits nothing by itself."""
    return KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=1,
        **settings,
    )


@pytest.mark.smoke
def test_a_members_lag_as_time_falls_with_its_commits(cluster: Cluster, topic: str, group_id: str) -> None:
    now = int(time.time() * 1000)
    with cluster.raw() as client:
        for hours in (3, 2, 1):
            append(client, topic, [b"x"], timestamp_ms=now - hours * _HOUR_MS)
    with reader(cluster, topic, group_id=group_id) as consumer:
        assert len(read(consumer, 1)) == 1
        for lag_s in ages(consumer):
            assert lag_s == pytest.approx(3 * 3600, abs=300), "returned, and not committed"
        consumer.commit()
        assert consumer.health().lag_s == pytest.approx(2 * 3600, abs=300), "the next one waits in the buffer"
        assert len(read(consumer, 2)) == 2
        assert consumer.health().lag_s == pytest.approx(2 * 3600, abs=300)
        consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(2)})
        assert consumer.health().lag_s == pytest.approx(3600, abs=300)
        by_partition = consumer.metrics()[f"consumer-fetch-manager-metrics.{topic}-0"]
        assert by_partition["records-lag-time"] == pytest.approx(_HOUR_MS, abs=300_000)
        consumer.commit()
        assert ages(consumer) == (0.0, 0.0)


def test_without_a_group_and_with_commits_of_a_producer_the_position_counts(
    cluster: Cluster, topic: str, group_id: str
) -> None:
    now = int(time.time() * 1000)
    with cluster.raw() as client:
        for hours in (2, 1):
            append(client, topic, [b"x"], timestamp_ms=now - hours * _HOUR_MS)
    with reader(cluster, topic) as consumer:
        read(consumer, 1)
        assert consumer.health().lag_s == pytest.approx(3600, abs=300)
        read(consumer, 1)
        assert consumer.health().lag_s == 0.0
    with reader(cluster, topic, group_id=group_id) as consumer:
        read(consumer, 2)
        assert consumer.health().lag_s == pytest.approx(2 * 3600, abs=300)
        consumer.group_metadata()  # what a transaction asks for
        assert consumer.health().lag_s == 0.0


class Case:
    """A topic whose partitions are each at another odd place, and a group that is behind in all of them."""

    def __init__(self, cluster: Cluster, topic: str, group_id: str, admin: KafkaAdminClient) -> None:
        self.now = int(time.time() * 1000)
        self.topic = topic
        hour_ago, long_ago = self.now - _HOUR_MS, self.now - 5 * _HOUR_MS
        with cluster.raw() as client:
            append(client, topic, [b"x", b"y"], partition=0, timestamp_ms=hour_ago)
            append(client, topic, [b"x"], partition=1, timestamp_ms=hour_ago)
            append(client, topic, [b"x"] * 3, partition=3, timestamp_ms=long_ago)
            append(client, topic, [b"x"], partition=3, timestamp_ms=hour_ago)
            append(client, topic, [b"x"], partition=4, timestamp_ms=-1)
            append(client, topic, [b"x"], partition=5, timestamp_ms=self.now + _HOUR_MS // 2)
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=group_id) as producer:
            producer.init_transactions()
            for _ in range(2):  # in partition 2 a record and a marker, twice
                with producer.transaction():
                    producer.send(topic, b"x", partition=2, timestamp_ms=hour_ago)
        admin.delete_records({TopicPartition(topic, 3): 3})
        self.offsets = {0: 0, 1: 1, 2: 1, 3: 1, 4: 0, 5: 0, 6: 0}
        admin.alter_group_offsets(
            group_id, {TopicPartition(topic, number): OffsetAndMetadata(at) for number, at in self.offsets.items()}
        )
        self.hours: dict[int, float | None] = {0: 1, 1: 0, 2: 1, 3: 1, 4: None, 5: 0, 6: 0}


@pytest.fixture
def case(cluster: Cluster, make_topic: MakeTopic, group_id: str, admin: KafkaAdminClient) -> Case:
    return Case(cluster, make_topic(7), group_id, admin)


def test_first_records_of_odd_places(case: Case, admin: KafkaAdminClient) -> None:
    topic = case.topic
    offsets = {TopicPartition(topic, number): at for number, at in case.offsets.items()}
    offsets |= {TopicPartition(topic, 99): 0, TopicPartition("no-such-topic", 0): 0}
    found = admin.first_records(offsets)
    assert {tp.partition: first and (first.offset, first.timestamp) for tp, first in found.items()} == {
        0: (0, case.now - _HOUR_MS),
        1: None,
        2: (2, case.now - _HOUR_MS),
        3: (3, case.now - _HOUR_MS),
        4: (0, -1),
        5: (0, case.now + _HOUR_MS // 2),
        6: None,
    }
    of_second = admin.first_records({TopicPartition(topic, 0): 1, TopicPartition(topic, 2): 3})
    second = of_second[TopicPartition(topic, 0)]
    assert second is not None
    assert second.offset == 1, "within its batch"
    assert of_second[TopicPartition(topic, 2)] is None, "a marker alone"
    assert admin.first_records({TopicPartition(topic, 6): 7}) == {TopicPartition(topic, 6): None}, "beyond the end"


def test_the_command_and_spark_show_the_lag_as_time(
    cluster: Cluster, case: Case, group_id: str, capfd: pytest.CaptureFixture[str]
) -> None:
    status = _run(["groups", "describe", group_id, "--lag-time", "--json", "-b", cluster.bootstrap_servers])
    out, err = capfd.readouterr()
    assert (status, err) == (0, "")
    rows = json.loads(out)["partitions"]
    shown = {row["partition"]: None if (age := row["lag_time_s"]) is None else age / 3600 for row in rows}
    assert shown == pytest.approx(case.hours, abs=0.1)
    assert _run(["groups", "describe", group_id, "--lag-time", "-b", cluster.bootstrap_servers]) == 0
    out = capfd.readouterr().out
    assert "lag time" in out
    assert "60 min" in out

    pytest.importorskip("pyspark")
    from pyconsumer.spark.progress import lag_times

    def progress(offsets: dict[int, int]) -> dict[str, Any]:
        return {case.topic: {str(number): offset for number, offset in offsets.items()}}

    ends = {row["partition"]: row["end"] for row in rows}
    report = {"sources": [{"endOffset": progress(case.offsets), "latestOffset": progress(ends)}]}
    found = lag_times(report, {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": case.topic})
    hours = {tp.partition: age / 3600 for tp, age in found.items()}
    assert hours == pytest.approx({at: age for at, age in case.hours.items() if age is not None}, abs=0.1)


def test_the_exporter_has_the_lag_as_time(case: Case, group_id: str, admin: KafkaAdminClient) -> None:
    pytest.importorskip("prometheus_client")  # the extra [prometheus]
    from pyconsumer.cli.export import GroupLags

    other = f"{group_id}-other"
    admin.alter_group_offsets(other, {TopicPartition(case.topic, 0): OffsetAndMetadata(1)})
    found: dict[str, dict[int, float]] = {}
    lags = GroupLags(admin, f"{re.escape(group_id)}.*", "", 60_000, lag_time=True)
    for family in lags.collect():
        for sample in family.samples:
            if sample.name == "kafka_consumergroup_lag_seconds":
                assert sample.labels["topic"] == case.topic
                ages_of = found.setdefault(sample.labels["consumergroup"], {})
                ages_of[int(sample.labels["partition"])] = sample.value
    hours = {number: -1 if age is None else age * 3600 for number, age in case.hours.items()}
    assert found == {group_id: pytest.approx(hours, abs=300), other: pytest.approx({0: 3600}, abs=300)}


def test_a_frozen_leader_costs_a_bound_and_its_own_ends(
    new_cluster: Callable[..., Cluster],
    group_id: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A proxy swallows the requests to one leader, as a process that was stopped by SIGSTOP does."""
    monkeypatch.setattr(log_ends, "LONGEST_S", 0.5)
    cluster = new_cluster("embedded", brokers=2, config={"offsets.topic.replication.factor": 1})
    topic = cluster.create_topic("frozen", 2)
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.alter_group_offsets(group_id, {TopicPartition(topic, number): OffsetAndMetadata(0) for number in (0, 1)})
        (described,) = admin.describe_topics([topic])
    leaders = [one.leader for one in described.partitions]
    assert leaders[0] != leaders[1]

    def asks_the_frozen_one(event: Event) -> bool:
        return any(part.partition_index == 1 for asked in event.message.topics for part in asked.partitions)

    with KafkaProxy(cluster.bootstrap_servers) as proxy:
        rule = proxy.drop(ApiKey.LIST_OFFSETS, direction="request", where=asks_the_frozen_one)
        status = _run(["groups", "describe", group_id, "--lag-time", "--json", "-b", proxy.bootstrap_servers])
        assert rule.hits == 1
    out, err = capfd.readouterr()
    assert (status, err) == (0, "")
    rows = json.loads(out)["partitions"]
    assert [(row["lag"], row["lag_time_s"]) for row in rows] == [(0, 0.0), (None, None)]
    assert rows[1]["end_unknown"].startswith(f"its leader, node {leaders[1]}: no response to LIST_OFFSETS from")


@pytest.mark.cluster
@pytest.mark.slow
def test_a_leader_that_freezes_before_the_fetch_costs_a_bound_and_the_lag_as_time_alone(
    nodes: Cluster,
    topic_name: str,
    group_id: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SIGSTOP of a broker of Apache Kafka. The embedded ones are one process: a proxy swallows the fetches of one."""
    topic, partitions = nodes.create_topic(topic_name, 3), range(3)
    with KafkaProducer(bootstrap_servers=nodes.bootstrap_servers) as producer:
        for number in partitions:
            producer.send(topic, b"x", partition=number)
    with nodes.raw() as client:
        leaders = client.leaders(topic)
    with KafkaAdminClient(bootstrap_servers=nodes.bootstrap_servers) as admin:
        admin.alter_group_offsets(
            group_id, {TopicPartition(topic, number): OffsetAndMetadata(0) for number in partitions}
        )
        (group,) = admin.describe_groups([group_id]).values()
    frozen = next(number for number in partitions if leaders[number] != group.coordinator.node_id)
    node = leaders[frozen]
    monkeypatch.setattr(first_records, "LONGEST_S", 1.0)
    monkeypatch.setattr(log_ends, "LONGEST_S", 1.0)

    def asks_the_frozen_one(event: Event) -> bool:
        found = {part.partition for asked in event.message.topics for part in asked.partitions}
        return frozen in found

    with ExitStack() as thaw, KafkaProxy(nodes.bootstrap_servers) as proxy:

        def freeze() -> None:
            if nodes.kind == "embedded":
                proxy.drop(ApiKey.FETCH, direction="request", where=asks_the_frozen_one)
            else:
                thaw.callback(nodes.thaw, node)
                nodes.freeze(node)

        real = positions.ends_of
        monkeypatch.setattr(positions, "ends_of", lambda *arguments: (real(*arguments), freeze())[0])
        servers = proxy.bootstrap_servers if nodes.kind == "embedded" else nodes.bootstrap_servers
        began = time.monotonic()
        status = _run(["groups", "describe", group_id, "--lag-time", "--json", "-b", servers])
        assert time.monotonic() - began < 15, "half of --timeout-ms"
        out, err = capfd.readouterr()
        assert (status, err) == (0, "")
        rows = json.loads(out)["partitions"]
        assert [row["lag"] for row in rows] == [1, 1, 1]
        assert [row["partition"] for row in rows if row["lag_time_s"] is None] == [frozen]
        assert rows[frozen]["lag_time_unknown"].startswith(f"its leader, node {node}: no response to FETCH from")
        if nodes.kind == "embedded":
            return
        living = [one for at, one in zip(nodes.node_ids, servers.split(","), strict=True) if at != node]
        monkeypatch.setattr(positions, "ends_of", real)
        assert _run(["groups", "describe", group_id, "--lag-time", "--json", "-b", ",".join(living)]) == 0
        rows = json.loads(capfd.readouterr().out)["partitions"]
        assert [row["partition"] for row in rows if row["lag"] is None] == [frozen]
        assert re.match(
            rf"its leader, node {node}: LIST_OFFSETS could not be sent|the partition has no leader",
            rows[frozen]["end_unknown"],
        ), "the controller moves its leaders after some seconds"


def test_a_marker_alone_is_no_lag_as_time(
    cluster: Cluster, topic: str, group_id: str, capfd: pytest.CaptureFixture[str], admin: KafkaAdminClient
) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=group_id) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"x")
    admin.alter_group_offsets(group_id, {TopicPartition(topic, 0): OffsetAndMetadata(1)})
    assert _run(["groups", "describe", group_id, "--lag-time", "--json", "-b", cluster.bootstrap_servers]) == 0
    (row,) = json.loads(capfd.readouterr().out)["partitions"]
    assert (row["lag"], row["lag_time_s"]) == (1, 0.0)
