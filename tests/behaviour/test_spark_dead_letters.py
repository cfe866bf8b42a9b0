"""``split_batches``: good rows on one side, bad ones in a topic for dead letters, each row once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.errors import ConfigurationError
from pyconsumer.spark import split_batches
from tests.support.cluster import Cluster
from tests.support.spark_streams import run_to_the_end
from tests.support.spark_topics import reader

pytestmark = [pytest.mark.spark, pytest.mark.timeout(480)]

NUMBER = json.dumps({"type": "record", "name": "N", "fields": [{"name": "x", "type": "int"}]})
#: Without a registry a value is bare Avro: one byte here.
GOOD, BAD = b"\x02", b"\x02\x02"
TYPED = {"value.format": "avro", "value.schema": NUMBER, "onDecodeError": "null", "includeBytes": True}


@pytest.fixture
def topics(cluster: Cluster, make_topic: Callable[..., str]) -> tuple[str, str, str]:
    """Those of the source, with five records, of the good rows, and of the dead letters."""
    source = make_topic(partitions=2)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number, value in enumerate([GOOD, BAD, GOOD, None, b""]):
            producer.send(source, value, key=b"k%d" % number, headers=[("own", b"h")], partition=number % 2)
    return source, make_topic(), make_topic()


def committed(cluster: Cluster, topic: str) -> list[Any]:
    """The records that a reader of committed ones sees, by key."""
    tp = TopicPartition(topic, 0)
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed") as consumer:
        consumer.assign([tp])
        consumer.seek_to_beginning(tp)
        end = consumer.end_offsets([tp])[tp]
        found: list[Any] = []
        while consumer.position(tp) < end:
            found += consumer.poll(timeout_ms=5000).records()
    return sorted(found, key=lambda record: record.key)


def check_letters(cluster: Cluster, topics: tuple[str, str, str]) -> None:
    letters = committed(cluster, topics[2])
    assert [(letter.key, letter.value) for letter in letters] == [(b"k1", BAD), (b"k4", b"")]
    headers = dict(letters[0].headers)
    assert headers["own"] == b"h"
    assert headers["dead-letter.topic"] == topics[0].encode()
    assert (headers["dead-letter.partition"], headers["dead-letter.offset"]) == (b"1", b"0")
    assert headers["dead-letter.timestamp"].isdigit()
    assert headers["dead-letter.stage"] == b"bytes"
    assert b"1 bytes are left" in headers["dead-letter.error"]


def test_both_sides_are_one_write_and_a_repeated_batch_is_skipped(
    spark: Any, cluster: Cluster, topics: tuple[str, str, str], topic_name: str
) -> None:
    source, good, dead = topics
    frame = reader(spark, cluster.bootstrap_servers, {"subscribe": source, "includeHeaders": True, **TYPED}).load()
    split = split_batches(good, dead, app_id=topic_name, options={"kafka.bootstrap.servers": cluster.bootstrap_servers})
    for _ in range(2):
        split(frame, 3)
    assert [(one.key, one.value) for one in committed(cluster, good)] == [
        (b"k0", b'{"x":1}'),
        (b"k2", b'{"x":1}'),
        (b"k3", None),
    ]
    check_letters(cluster, topics)


def test_good_rows_go_to_a_function(
    spark: Any, cluster: Cluster, topics: tuple[str, str, str], topic_name: str, tmp_path: Path
) -> None:
    source, _, dead = topics
    frame = reader(spark, cluster.bootstrap_servers, {"subscribe": source, "includeHeaders": True, **TYPED}).load()
    calls: list[int] = []

    def write(rows: Any, batch_id: int) -> None:
        calls.append(batch_id)
        assert "decodeError" not in rows.columns
        assert "value_bytes" not in rows.columns
        rows.selectExpr("cast(key AS string) AS key", "value.x").write.mode("overwrite").parquet(
            str(tmp_path / "table")
        )

    split = split_batches(
        write, dead, app_id=topic_name, options={"kafka.bootstrap.servers": cluster.bootstrap_servers}
    )
    for _ in range(2):
        split(frame, 0)
    assert calls == [0, 0]
    rows = spark.read.parquet(str(tmp_path / "table")).orderBy("key").collect()
    assert [tuple(row) for row in rows] == [("k0", 1), ("k2", 1), ("k3", None)]
    check_letters(cluster, topics)


def test_a_stream_without_the_columns_is_told(spark: Any, cluster: Cluster, topics: tuple[str, str, str]) -> None:
    options = {"subscribe": topics[0], **TYPED, "includeBytes": False}
    frame = reader(spark, cluster.bootstrap_servers, options).load()
    split = split_batches("a", "b", app_id="c", options={"kafka.bootstrap.servers": cluster.bootstrap_servers})
    with pytest.raises(ConfigurationError, match="lacks the columns value_bytes"):
        split(frame, 0)


@pytest.fixture
def no_streams_left(spark: Any) -> Iterator[None]:
    yield
    for query in spark.streams.active:
        query.stop()


@pytest.mark.usefixtures("no_streams_left")
def test_a_stream_of_decoded_bytes_needs_the_raw_ones(
    spark: Any, cluster: Cluster, topics: tuple[str, str, str], tmp_path: Path
) -> None:
    options = {"subscribe": topics[0], "startingOffsets": "earliest", **TYPED, "includeBytes": False}
    frame = reader(
        spark, cluster.bootstrap_servers, {**options, "value.schema": json.dumps("bytes")}, stream=True
    ).load()
    split = split_batches("a", "b", app_id="c", options={"kafka.bootstrap.servers": cluster.bootstrap_servers})
    writer = frame.writeStream.foreachBatch(split).option("checkpointLocation", str(tmp_path))
    with pytest.raises(Exception, match="lacks the columns value_bytes"):
        writer.trigger(availableNow=True).start().awaitTermination()


@pytest.mark.slow
@pytest.mark.usefixtures("no_streams_left")
def test_a_stream_whose_last_batch_is_run_again(
    spark: Any, cluster: Cluster, topics: tuple[str, str, str], topic_name: str, tmp_path: Path
) -> None:
    source, good, dead = topics
    options = {"subscribe": source, "startingOffsets": "earliest", "includeHeaders": True, **TYPED}
    split = split_batches(good, dead, app_id=topic_name, options={"kafka.bootstrap.servers": cluster.bootstrap_servers})

    def start() -> Any:
        frame = reader(spark, cluster.bootstrap_servers, options, stream=True).load()
        writer = frame.writeStream.foreachBatch(split).option("checkpointLocation", str(tmp_path))
        return writer.trigger(availableNow=True).start()

    run_to_the_end(start)
    for name in ("0", ".0.crc"):  # as if the driver had died after the write
        (tmp_path / "commits" / name).unlink(missing_ok=True)
    run_to_the_end(start)
    assert [one.key for one in committed(cluster, good)] == [b"k0", b"k2", b"k3"]
    check_letters(cluster, topics)
