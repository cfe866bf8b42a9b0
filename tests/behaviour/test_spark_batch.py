"""Spark reads topics as a batch."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.acls import AclFilter
from pyconsumer.admin import KafkaAdminClient, NewTopic
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.structs import TopicPartition
from tests.support.cluster import Cluster
from tests.support.spark_topics import TIME, Row, produce, reader, transact

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

Load = Callable[..., Any]


@pytest.fixture
def load(spark: Any, cluster: Cluster) -> Load:
    """Loads a DataFrame: ``load(subscribe=topic, columns="value")``. ``__`` stands for a dot."""
    return lambda **options: reader(spark, cluster.bootstrap_servers, options).load()


def values(frame: Any) -> list[bytes]:
    return sorted(bytes(row.value) for row in frame.select("value").collect())


def numbered(count: int, *, partitions: int = 1, first: int = 0) -> list[Row]:
    """Row i is in partition i modulo the number of partitions, has the value ``v<i>`` and the time TIME + i."""
    return [Row(b"v%d" % i, partition=i % partitions, timestamp=TIME + i) for i in range(first, first + count)]


@pytest.mark.spark_smoke
def test_every_column_of_every_record(load: Load, cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=2)
    produce(
        cluster.bootstrap_servers,
        topic,
        [
            Row(b"one", b"k", 0, TIME, (("a", b"1"), ("a", None))),
            Row(None, None, 0, TIME + 1),
            Row(b"", b"", 1, 1),
            Row("w\u00f6rld".encode(), b"\xff\x00", 1, TIME + 2, (("\u00e9", b""),)),
        ],
    )
    frame = load(subscribe=topic, includeHeaders=True)
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
        "headers:array<struct<key:string,value:binary>>>"
    )
    assert all(field.nullable for field in frame.schema.fields)

    def at(ms: int) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC).astimezone().replace(tzinfo=None)

    rows = frame.orderBy("partition", "offset").collect()
    found = [
        (*row[:5], row.timestamp, row.timestampType, row.headers and [tuple(h) for h in row.headers]) for row in rows
    ]
    assert found == [
        (b"k", b"one", topic, 0, 0, at(TIME), 0, [("a", b"1"), ("a", None)]),
        (None, None, topic, 0, 1, at(TIME + 1), 0, None),
        (b"", b"", topic, 1, 0, at(1), 0, None),
        (b"\xff\x00", "w\u00f6rld".encode(), topic, 1, 1, at(TIME + 2), 0, [("\u00e9", b"")]),
    ]


def test_chosen_columns_in_the_order_asked_for(load: Load, cluster: Cluster, topic: str) -> None:
    produce(cluster.bootstrap_servers, topic, numbered(3))
    frame = load(subscribe=topic, columns="offset,value")
    assert frame.columns == ["offset", "value"]
    assert [tuple(row) for row in frame.orderBy("offset").collect()] == [(0, b"v0"), (1, b"v1"), (2, b"v2")]


@pytest.mark.spark_smoke
def test_log_append_time(load: Load, cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(config={"message.timestamp.type": "LogAppendTime"})
    produce(cluster.bootstrap_servers, topic, numbered(1))
    row = load(subscribe=topic).collect()[0]
    assert row.timestampType == 1
    assert row.timestamp.year >= 2024


@pytest.mark.spark_smoke
def test_every_compression_and_several_topics(load: Load, cluster: Cluster, make_topic: Callable[..., str]) -> None:
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    topics = {codec: make_topic() for codec in codecs}
    for number, (codec, topic) in enumerate(topics.items()):
        produce(cluster.bootstrap_servers, topic, numbered(500, first=number * 500), compression=codec)
    frame = load(subscribe=" , ".join(topics.values()))
    assert values(frame) == sorted(b"v%d" % i for i in range(2500))
    assert {row.topic: row["count"] for row in frame.groupBy("topic").count().collect()} == dict.fromkeys(
        topics.values(), 500
    )


def test_an_empty_topic_has_no_rows(load: Load, topic: str) -> None:
    assert load(subscribe=topic).collect() == []


def test_a_pattern_without_a_match_has_no_rows(load: Load, topic_name: str) -> None:
    assert load(subscribePattern=f"{topic_name}-.*").collect() == []


def test_topics_by_pattern_and_partitions_by_name(
    load: Load, cluster: Cluster, make_topic: Callable[..., str], topic_name: str
) -> None:
    topic = make_topic(partitions=3)
    produce(cluster.bootstrap_servers, topic, numbered(9, partitions=3))
    assert load(subscribePattern=rf"\Q{topic[:-1]}\E\p{{Alnum}}").count() == 9
    found = load(assign=json.dumps({topic: [0, 2]}))
    assert {row.partition for row in found.collect()} == {0, 2}
    assert found.count() == 6


def test_it_works_in_sql(spark: Any, cluster: Cluster, topic: str) -> None:
    produce(cluster.bootstrap_servers, topic, numbered(5))
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW records USING pyconsumer OPTIONS ("
        f"`kafka.bootstrap.servers` '{cluster.bootstrap_servers}', subscribe '{topic}')"
    )
    assert spark.sql("SELECT max(offset) AS last FROM records WHERE partition = 0").collect()[0].last == 4


def test_the_end_is_frozen_when_a_frame_is_first_used(load: Load, cluster: Cluster, topic: str) -> None:
    produce(cluster.bootstrap_servers, topic, numbered(5))
    frame = load(subscribe=topic)
    assert frame.count() == 5
    produce(cluster.bootstrap_servers, topic, numbered(3, first=5))
    assert frame.count() == 5
    assert frame.filter("offset >= 0").count() == 5
    assert load(subscribe=topic).count() == 8


def test_a_task_that_is_given_up_half_way_does_no_harm_to_the_next(load: Load, cluster: Cluster, topic: str) -> None:
    rows = [Row(b"%06d" % i + b"x" * 1000) for i in range(3000)]
    produce(cluster.bootstrap_servers, topic, rows)
    frame = load(subscribe=topic, kafka__max__partition__fetch__bytes=20_000)
    for _ in range(2):
        assert len(frame.limit(3).collect()) == 3
    assert frame.selectExpr("count(distinct value) AS n").collect()[0].n == 3000


def test_ranges_are_cut_into_tasks(load: Load, cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=3)
    produce(cluster.bootstrap_servers, topic, numbered(3000, partitions=3))
    for options, tasks in (({"minPartitions": 7}, 6), ({"maxRecordsPerPartition": 400}, 9)):
        frame = load(subscribe=topic, columns="value", **options)
        assert frame.rdd.getNumPartitions() == tasks
        assert values(frame) == sorted(b"v%d" % i for i in range(3000))


@pytest.mark.spark_smoke
def test_a_part_of_the_offsets(load: Load, cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=2)
    produce(cluster.bootstrap_servers, topic, numbered(20, partitions=2))

    def offsets(**options: object) -> list[tuple[int, int]]:
        rows = load(subscribe=topic, columns="partition,offset", **options).collect()
        return sorted((row.partition, row.offset) for row in rows)

    first, second = [(0, i) for i in range(10)], [(1, i) for i in range(10)]
    assert offsets(startingOffsets=json.dumps({topic: {"0": 3, "1": -2}})) == first[3:] + second
    assert (
        offsets(
            startingOffsets=json.dumps({topic: {"0": 3, "1": 9}}), endingOffsets=json.dumps({topic: {"0": 5, "1": -1}})
        )
        == first[3:5] + second[9:]
    )
    # Record n of partition p has the time TIME + 2 n + p.
    assert offsets(startingTimestamp=TIME + 9) == first[5:] + second[4:]
    assert offsets(endingTimestamp=TIME + 9) == first[:5] + second[:4]
    assert (
        offsets(
            startingOffsetsByTimestamp=json.dumps({topic: {"0": TIME + 4, "1": TIME + 999}}),
            startingOffsetsByTimestampStrategy="latest",
        )
        == first[2:]
    )


@pytest.mark.spark_smoke
def test_deleted_offsets_are_an_error_or_skipped(load: Load, cluster: Cluster, topic: str) -> None:
    produce(cluster.bootstrap_servers, topic, numbered(10))
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition(topic, 0): 4})
    starting = json.dumps({topic: {"0": 1}})
    with pytest.raises(Exception, match=rf"DataLossError.*{topic}-0: offsets 1 to 3 are missing.*failOnDataLoss=false"):
        load(subscribe=topic, startingOffsets=starting).collect()
    lenient = load(subscribe=topic, startingOffsets=starting, failOnDataLoss=False)
    assert values(lenient) == [b"v%d" % i for i in range(4, 10)]


@pytest.mark.spark_smoke
def test_a_login_over_tls_as_java_clients_write_it(spark: Any, cluster: Cluster, topic: str) -> None:
    produce(cluster.bootstrap_servers, topic, numbered(5))
    user = cluster.credentials
    login = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        f' username="{user.username}" password="{user.password}";'
    )
    secure = {
        "subscribe": topic,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": login,
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": cluster.certificates.ca_pem,
    }
    address = cluster.address("SASL_SSL")
    assert reader(spark, address, secure).load().count() == 5
    wrong = secure | {"kafka.sasl.jaas.config": login.replace(user.password, "another")}
    with pytest.raises(Exception, match=r"AuthenticationError.*SASL") as caught:
        reader(spark, address, wrong).load().count()
    assert "another" not in str(caught.value)


def test_wrong_options_raise_when_the_frame_is_loaded(load: Load) -> None:
    with pytest.raises(Exception, match=r"ConfigurationError: unknown option 'startingoffset'.*'startingOffsets'"):
        load(subscribe="t", startingOffset="earliest")
    with pytest.raises(Exception, match="no topics to read are given: one of the options subscribe"):
        load()
    with pytest.raises(Exception, match=r"ConfigurationError: option kafka.auto.offset.reset is not supported"):
        load(subscribe="t", kafka__auto__offset__reset="latest")


def test_unreadable_topics_raise_when_the_frame_is_used(load: Load, topic_name: str, topic: str) -> None:
    with pytest.raises(Exception, match="option startingOffsets: latest cannot be used in a batch read"):
        load(subscribe=topic, startingOffsets="latest").collect()
    with pytest.raises(Exception, match=f"UnknownTopicOrPartitionError.*{topic_name}"):
        load(subscribe=topic_name, fetchOffset__retryIntervalMs=10).collect()
    with pytest.raises(Exception, match=f"UnknownTopicOrPartitionError.*{topic}-7"):
        load(assign=json.dumps({topic: [7]}), fetchOffset__retryIntervalMs=10).collect()
    with pytest.raises(Exception, match="KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED"):
        load(subscribe=topic, startingOffsets=json.dumps({topic: {"1": 5}})).collect()


def test_a_missing_cluster_raises_in_time(spark: Any, topic_name: str) -> None:
    options = {"subscribe": topic_name, "kafka.default.api.timeout.ms": 500}
    with pytest.raises(
        Exception, match=r"KafkaTimeoutError: looking up the topics at localhost:1 took longer than 500 ms"
    ):
        reader(spark, "localhost:1", options).load().collect()


@pytest.mark.kafka
def test_aborted_records_are_hidden_with_read_committed(spark: Any, apache: Cluster, topic_name: str) -> None:
    topic = apache.create_topic(topic_name)
    rows = numbered(30)
    transact(
        apache.bootstrap_servers,
        topic,
        f"{topic}-id",
        (rows[:10], True),
        (rows[10:20], False),
        (rows[20:], True),
    )
    options = {"subscribe": topic}
    assert reader(spark, apache.bootstrap_servers, options).load().count() == 30
    committed = options | {"kafka.isolation.level": "read_committed"}
    assert values(reader(spark, apache.bootstrap_servers, committed).load()) == sorted(
        b"v%d" % i for i in [*range(10), *range(20, 30)]
    )
    # The last offset of each part may be a transaction's end, which is no record.
    cut = reader(spark, apache.bootstrap_servers, committed | {"maxRecordsPerPartition": 1}).load()
    assert cut.count() == 20


#: A module of the user, which Spark copies to its executors.
_PROVIDER = """
import base64, json, os, time


def token():
    with open({seen!r}, "a") as file:
        file.write(f"{{os.getpid()}}\\n")
    now = int(time.time())
    parts = ({{"alg": "none"}}, {{"sub": "spark", "iat": now, "exp": now + 3600}})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, ""])
"""


def test_executors_get_tokens_by_a_provider_that_is_named_by_its_import_path(
    spark: Any, tmp_path: Path, topic_name: str
) -> None:
    module, seen = tmp_path / "provider_of_executors.py", tmp_path / "seen"
    module.write_text(_PROVIDER.format(seen=str(seen)))
    spark.sparkContext.addPyFile(str(module))
    with EmbeddedCluster(
        data_dir=":memory:",
        listeners=("SASL_PLAINTEXT", "PLAINTEXT"),
        oauth={"unsecured": True},
        acls=[f"spark: READ topic {topic_name}"],
        config={"super.users": "User:ANONYMOUS"},
    ) as guarded:
        plain, address = guarded.address("PLAINTEXT"), guarded.address("SASL_PLAINTEXT")
        with KafkaAdminClient(bootstrap_servers=plain) as admin:
            admin.create_topics([NewTopic(topic_name, 2)])
        produce(plain, topic_name, numbered(10, partitions=2))
        login = {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.oauth.token.provider": "provider_of_executors:token",
        }
        frame = reader(spark, address, {"subscribe": topic_name, **login}).load()
        assert values(frame) == [b"v%d" % number for number in range(10)]
        with KafkaAdminClient(bootstrap_servers=plain) as admin:
            admin.delete_acls([AclFilter()])
        with pytest.raises(Exception, match=r"AuthorizationFailed"):
            values(reader(spark, address, {"subscribe": topic_name, **login}).load())
    asked = set(map(int, seen.read_text().split()))
    assert asked - {os.getpid()}, "an executor has asked for a token"
