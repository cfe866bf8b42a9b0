"""``poll_arrow``: records as columns, from a broker, with positions and commits as of ``poll``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from pyconsumer import KafkaConsumer, KafkaProducer, TopicPartition
from pyconsumer.errors import IllegalStateError
from tests.behaviour.consumer_support import append, consuming, fill, member
from tests.support.cluster import Cluster

pytestmark = [pytest.mark.twins, pytest.mark.faces]

DEFAULT = ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]


def read_columns(consumer: KafkaConsumer, count: int, *columns: str, **options: Any) -> pa.Table:
    """Poll until there is this number of rows."""
    found: list[pa.RecordBatch] = []
    deadline = time.monotonic() + 60
    while sum(batch.num_rows for batch in found) < count:
        assert time.monotonic() < deadline, f"{sum(b.num_rows for b in found)} of {count} rows came"
        found.append(consumer.poll_arrow(1000, columns=columns or None, **options))
    return pa.Table.from_batches(found)


def test_all_columns_hold_the_produced_values(cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=2)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send(topic, b"one", key=b"k", headers=[("h", b"1"), ("n", None)], partition=0, timestamp_ms=1000)
        producer.send(topic, None, key=b"", partition=1, timestamp_ms=2000)
        producer.send(topic, b"", partition=1, headers=[("\u00fc", b"")], timestamp_ms=3000)
    with consuming(cluster, TopicPartition(topic, 0), TopicPartition(topic, 1)) as consumer:
        table = read_columns(consumer, 3, *DEFAULT, "timestamp_type", "leader_epoch").sort_by(
            [("partition", "ascending"), ("offset", "ascending")]
        )
    table.validate(full=True)
    assert table.column_names == [*DEFAULT, "timestamp_type", "leader_epoch"]
    assert table["topic"].to_pylist() == [topic] * 3
    assert table["partition"].to_pylist() == [0, 1, 1]
    assert table["offset"].to_pylist() == [0, 0, 1]
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [1000, 2000, 3000]
    assert table["key"].to_pylist() == [b"k", b"", None]
    assert table["value"].to_pylist() == [b"one", None, b""]
    assert table["headers"].to_pylist() == [
        [{"key": "h", "value": b"1"}, {"key": "n", "value": None}],
        [],
        [{"key": "\u00fc", "value": b""}],
    ]
    assert table["timestamp_type"].to_pylist() == [0, 0, 0]
    assert min(table["leader_epoch"].to_pylist()) >= 0


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_rows_are_the_records_of_poll(cluster: Cluster, topic: str, codec: str) -> None:
    with cluster.raw() as client:
        for start in range(0, 1000, 100):
            append(client, topic, [b"%d" % n * (n % 50) for n in range(start, start + 100)], codec=codec)
    tp = TopicPartition(topic, 0)
    with consuming(cluster, tp) as consumer:
        records = []
        while len(records) < 1000:
            records += consumer.poll(1000).records()
        consumer.seek(tp, 0)
        table = read_columns(consumer, 1000)
        assert consumer.position(tp) == 1000
    assert table["value"].to_pylist() == [record.value for record in records]
    assert table["key"].to_pylist() == [record.key for record in records]
    assert table["offset"].to_pylist() == [record.offset for record in records]
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [record.timestamp for record in records]


def test_the_batch_has_several_partitions_and_the_positions_move(
    cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    topics = [make_topic(partitions=2), make_topic()]
    partitions = [TopicPartition(topics[0], 0), TopicPartition(topics[0], 1), TopicPartition(topics[1], 0)]
    for tp in partitions:
        fill(cluster, tp.topic, 50, partition=tp.partition)
    with consuming(cluster, *partitions) as consumer:
        found = read_columns(consumer, 150, "topic", "partition", "offset", dictionary_topic=True)
        assert [consumer.position(tp) for tp in partitions] == [50, 50, 50]
        assert consumer.metrics()["consumer-fetch-manager-metrics"]["records-consumed-total"] == 150
    assert pa.types.is_dictionary(found["topic"].type)
    rows = sorted(zip(*(found[name].to_pylist() for name in found.column_names), strict=True))
    assert rows == sorted((tp.topic, tp.partition, offset) for tp in partitions for offset in range(50))


def test_max_records_is_kept_and_poll_continues_after_it(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 300)
    tp = TopicPartition(topic, 0)
    with consuming(cluster, tp) as consumer:
        first = consumer.poll_arrow(60_000, max_records=120)
        assert first["offset"].to_pylist() == list(range(120))
        assert consumer.position(tp) == 120
        second = consumer.poll(1000, max_records=30)[tp]
        assert [record.offset for record in second] == list(range(120, 150))
        third = consumer.poll_arrow(1000)
        assert third["offset"].to_pylist()[0] == 150
        with pytest.raises(ValueError, match="at least 1"):
            consumer.poll_arrow(max_records=0)


def test_a_batch_stays_near_its_size(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 1200, size=10_000)
    with consuming(cluster, TopicPartition(topic, 0), max_partition_fetch_bytes=20_000_000) as consumer:
        sizes = []
        while sum(sizes) < 1200:
            sizes.append(consumer.poll_arrow(5000, columns=["value"]).num_rows)
    assert max(sizes) <= 840  # 8 MiB of values of 10,000 bytes


def test_no_record_is_an_empty_batch_with_the_schema(cluster: Cluster, topic: str) -> None:
    with consuming(cluster, TopicPartition(topic, 0)) as consumer:
        empty = consumer.poll_arrow(0)
        assert (empty.num_rows, empty.schema.names) == (0, DEFAULT)
        fill(cluster, topic, 5)
        full = consumer.poll_arrow(60_000)
        assert full.schema == empty.schema
        pa.Table.from_batches([empty, full]).validate(full=True)


def test_a_commit_covers_the_rows_that_were_returned(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 100)
    tp = TopicPartition(topic, 0)
    with member(cluster, group_id, topic) as consumer:
        consumer.seek(tp, 0)  # joining may have taken records
        assert consumer.poll_arrow(60_000, max_records=40).num_rows == 40
        consumer.commit()
        assert consumer.committed(TopicPartition(topic, 0)) == 40
        assert consumer.position(tp) == 40
    with member(cluster, group_id, topic, max_poll_records=1) as consumer:
        assert consumer.committed(tp) == 40


def test_automatic_commits_cover_the_records_of_the_previous_poll(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 100)
    tp = TopicPartition(topic, 0)
    options = {"enable_auto_commit": True, "auto_commit_interval_ms": 10}
    with member(cluster, group_id, topic, **options) as consumer:
        consumer.seek(tp, 0)
        assert consumer.poll_arrow(60_000, max_records=40).num_rows == 40
        deadline = time.monotonic() + 60
        while consumer.committed(tp) != 40:
            assert time.monotonic() < deadline
            time.sleep(0.02)
            consumer.pause(tp)
            assert consumer.poll_arrow(50).num_rows == 0


def test_columns_come_raw_whatever_the_deserializers(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 10)
    with consuming(cluster, TopicPartition(topic, 0), value_deserializer=int) as consumer:
        assert consumer.poll_arrow(60_000, max_records=3, columns=["value"])["value"].to_pylist() == [b"0", b"1", b"2"]
        assert [record.value for record in consumer.poll(1000).records()] == list(range(3, 10))


def test_a_batch_outlives_its_consumer(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 1000, size=500)
    with consuming(cluster, TopicPartition(topic, 0), fetch_max_wait_ms=20) as consumer:
        kept = read_columns(consumer, 1000, "value")
        for _ in range(5):  # others use the memory that is free, and not this
            consumer.seek(TopicPartition(topic, 0), 0)
            read_columns(consumer, 1000, "value")
    assert [int(value) for value in kept["value"].to_pylist()] == list(range(1000))


def test_unsubscribed_it_is_refused_as_poll_is(cluster: Cluster) -> None:
    with consuming(cluster) as consumer:
        with pytest.raises(IllegalStateError):
            consumer.poll_arrow(10)
        with pytest.raises(ValueError, match="'colour'"):
            consumer.poll_arrow(columns=["offset", "colour"])
