"""Spark writes topics, as a batch and as a stream."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.spark_streams import run_to_the_end
from tests.support.spark_topics import TIME, Row, produce, reader

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(480)]


def writer(target: Any, cluster: Cluster, **options: object) -> Any:
    """A DataFrameWriter or DataStreamWriter with options. ``__`` stands for a dot."""
    found = target.format("pyconsumer").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    for name, value in options.items():
        found = found.option(name.replace("__", "."), str(value))
    return found


def read(spark: Any, cluster: Cluster, topic: str) -> list[Any]:
    """All records of a topic by partition and offset."""
    frame = reader(spark, cluster.bootstrap_servers, {"subscribe": topic, "includeHeaders": True}).load()
    return list(frame.orderBy("topic", "partition", "offset").collect())


@pytest.mark.spark_smoke
def test_every_column(spark: Any, cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=3)
    rows = [
        (b"k", b"v", topic, 2, [("h", b"1"), ("h", None)]),
        (None, None, topic, 0, None),
        (b"", b"\xff", topic, 1, []),
    ]
    kinds = "key binary, value binary, topic string, partition int, headers array<struct<key: string, value: binary>>"
    writer(spark.createDataFrame(rows, kinds).write, cluster).mode("append").save()
    found = [
        (row.key, row.value, row.topic, row.partition, row.headers and [tuple(header) for header in row.headers])
        for row in read(spark, cluster, topic)
    ]
    assert found == [
        (None, None, topic, 0, None),
        (b"", b"\xff", topic, 1, None),
        (b"k", b"v", topic, 2, [("h", b"1"), ("h", None)]),
    ]


def test_text_several_topics_and_the_stronger_option(
    spark: Any, cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    first, second = make_topic(), make_topic()
    frame = spark.createDataFrame([("a", first), ("\u00fc", second)], "value string, topic string")
    writer(frame.write, cluster).mode("append").save()
    writer(frame.write, cluster, topic=second).mode("append").save()
    assert [row.value for row in read(spark, cluster, first)] == [b"a"]
    assert sorted(row.value for row in read(spark, cluster, second)) == [b"a", "\u00fc".encode(), "\u00fc".encode()]


@pytest.mark.spark_smoke
def test_keys_stay_in_order_and_go_where_java_puts_them(
    spark: Any, cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    topic, expected = make_topic(partitions=4), make_topic(partitions=4)
    frame = spark.range(20_000, numPartitions=2).selectExpr(
        "cast(id % 50 as string) AS key", "cast(id AS string) AS value"
    )
    writer(frame.repartition(2, "key").sortWithinPartitions(frame.value.cast("long")).write, cluster, topic=topic).mode(
        "append"
    ).save()
    places: dict[bytes, set[int]] = {}
    last: dict[bytes, int] = {}
    count = 0
    for row in read(spark, cluster, topic):
        count += 1
        places.setdefault(bytes(row.key), set()).add(row.partition)
        assert last.get(bytes(row.key), -1) < int(row.value)
        last[bytes(row.key)] = int(row.value)
    assert count == 20_000
    from confluent_kafka import Producer

    # librdkafka's murmur2_random is the partitioner of Java's clients.
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "partitioner": "murmur2_random"})
    for key in places:
        producer.produce(expected, key=key, value=b"")
    assert producer.flush(30) == 0
    assert places == {bytes(row.key): {row.partition} for row in read(spark, cluster, expected)}


def test_times_of_the_rows_on_request(spark: Any, cluster: Cluster, make_topic: Callable[..., str]) -> None:
    source, copy, later = make_topic(), make_topic(), make_topic()
    produce(cluster.bootstrap_servers, source, [Row(b"x", timestamp=TIME + 7)])
    frame = reader(spark, cluster.bootstrap_servers, {"subscribe": source}).load().drop("topic", "partition")
    writer(frame.write, cluster, topic=copy, includeTimestamp="true").mode("append").save()
    writer(frame.write, cluster, topic=later).mode("append").save()
    at = datetime.datetime.fromtimestamp((TIME + 7) / 1000, datetime.UTC).astimezone().replace(tzinfo=None)
    assert [row.timestamp for row in read(spark, cluster, copy)] == [at]
    assert read(spark, cluster, later)[0].timestamp > at


def test_a_stream_from_topic_to_topic(
    spark: Any, cluster: Cluster, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, target = make_topic(partitions=2), make_topic(partitions=2)
    produce(cluster.bootstrap_servers, source, [Row(b"%d" % i, b"k%d" % i, i % 2) for i in range(1000)])
    options = {"subscribe": source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 400}
    frame = reader(spark, cluster.bootstrap_servers, options, stream=True).load()

    def run(batch: Any, **more: object) -> None:
        out = writer(batch.writeStream, cluster, topic=target, **more)
        run_to_the_end(out.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start)

    run(frame.select("key", "value"), kafka__compression__type="lz4")
    assert sorted(int(row.value) for row in read(spark, cluster, target)) == list(range(1000))
    produce(cluster.bootstrap_servers, source, [Row(b"1000", b"k", 0)])
    run(frame.select("key", "value"))
    assert sorted(int(row.value) for row in read(spark, cluster, target)) == list(range(1001))


def test_a_stream_of_whole_results(
    spark: Any, cluster: Cluster, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, target = make_topic(), make_topic()
    produce(cluster.bootstrap_servers, source, [Row(b"x") for _ in range(5)])
    options = {"subscribe": source, "startingOffsets": "earliest"}
    frame = reader(spark, cluster.bootstrap_servers, options, stream=True).load()
    counts = frame.groupBy("value").count().selectExpr("value AS key", "cast(count AS string) AS value")
    out = writer(counts.writeStream, cluster, topic=target).option("checkpointLocation", str(tmp_path / "complete"))
    run_to_the_end(out.outputMode("complete").trigger(availableNow=True).start)
    assert [(row.key, row.value) for row in read(spark, cluster, target)] == [(b"x", b"5")]
    # Spark refuses this mode for every sink in Python; foreachBatch with a batch write takes its place.
    other = writer(counts.writeStream, cluster, topic=target).option("checkpointLocation", str(tmp_path / "update"))
    with pytest.raises(Exception, match=r"(?i)does not support update"):
        run_to_the_end(other.outputMode("update").start)


def test_wrong_options_raise(spark: Any, cluster: Cluster, topic: str) -> None:
    frame = spark.createDataFrame([(b"x", topic), (b"y", None)], "value binary, topic string")
    with pytest.raises(Exception, match=r"ErrorIfExists.*[Aa]ppend"):
        writer(frame.write, cluster, topic=topic).save()
    with pytest.raises(Exception, match=r"a topic cannot be overwritten"):
        writer(frame.write, cluster, topic=topic).mode("overwrite").save()
    with pytest.raises(Exception, match=r"no topic to write to is given"):
        writer(frame.select("value").write, cluster).mode("append").save()
    with pytest.raises(Exception, match=r"column value must be binary or string, not int"):
        writer(frame.selectExpr("1 AS value").write, cluster, topic=topic).mode("append").save()
    with pytest.raises(Exception, match=r"unknown option 'topik'.*did you mean 'topic'"):
        writer(frame.write, cluster, topik=topic).mode("append").save()
    with pytest.raises(Exception, match=r"KAFKA_NULL_TOPIC_IN_DATA"):
        writer(frame.write, cluster).mode("append").save()
    large = frame.selectExpr("repeat('x', 2000000) AS value").limit(1)
    with pytest.raises(Exception, match=r"WriteError: a record to topic .*RecordTooLargeError"):
        writer(large.write, cluster, topic=topic).mode("append").save()
    with pytest.raises(Exception, match=r"has partitions 0 to 0, not 5"):
        writer(frame.selectExpr("value", "5 AS partition").write, cluster, topic=topic).mode("append").save()
    with pytest.raises(Exception, match=r"WriteError: a record to topic 'no topic' .*InvalidTopicError"):
        writer(frame.select("value").write, cluster, topic="no topic").mode("append").save()
