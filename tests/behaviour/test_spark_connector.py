"""The same records, schema and tasks as Spark's own Kafka connector, on Apache Kafka."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyconsumer.spark import lag_metrics
from tests.support.cluster import Cluster
from tests.support.spark import connector_jars
from tests.support.spark_streams import Stream
from tests.support.spark_topics import TIME, Row, produce, reader, transact

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(480)]

_SIZES = (1, 700, 20, 3000)


@pytest.fixture(scope="module")
def filled(apache: Cluster, spark: Any) -> str:
    """A topic with partitions of different sizes: nulls, headers, transactions, and two codecs."""
    if not connector_jars():
        pytest.skip("needs the jars of Spark's Kafka connector, which Maven fetches")
    topic = apache.create_topic("t-spark-connector", partitions=len(_SIZES) + 1)
    rows = [
        Row(
            b"v%d" % i if i % 5 else None,
            b"k%d" % i if i % 3 else None,
            partition,
            TIME + i,
            (("h", b"%d" % i), ("n", None)) if i % 4 == 0 else (),
        )
        for partition, size in enumerate(_SIZES)
        for i in range(size)
    ]
    produce(apache.bootstrap_servers, topic, rows[::2], compression="lz4")
    produce(apache.bootstrap_servers, topic, rows[1::2], compression="zstd")
    ours = [Row(b"t%d" % i, partition=1) for i in range(30)]
    transact(
        apache.bootstrap_servers, topic, "t-spark-connector", (ours[:10], True), (ours[10:20], False), (ours[20:], True)
    )
    return topic


def both(spark: Any, cluster: Cluster, topic: str, **options: object) -> tuple[Any, Any]:
    """The topic read by Spark's connector and by ours."""
    chosen = {"subscribe": topic, **options}
    theirs, ours = (
        reader(spark, cluster.bootstrap_servers, chosen, format=name).load() for name in ("kafka", "pyconsumer")
    )
    return theirs, ours


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_schema_and_records_are_the_same(spark: Any, apache: Cluster, filled: str, isolation: str) -> None:
    theirs, ours = both(spark, apache, filled, includeHeaders=True, kafka__isolation__level=isolation)
    assert ours.schema == theirs.schema
    order = ("partition", "offset")
    expected = theirs.orderBy(*order).collect()
    assert len(expected) == sum(_SIZES) + (30 if isolation == "read_uncommitted" else 20)
    assert ours.orderBy(*order).collect() == expected


@pytest.mark.parametrize(
    "options",
    [
        {"minPartitions": 7},
        {"minPartitions": 50},
        # Without a minPartitions above the number of partitions, Spark's connector passes over the other option in a
        # batch; ours heeds it, as the documentation has it.
        {"maxRecordsPerPartition": 500, "minPartitions": 20},
    ],
    ids=str,
)
def test_tasks_are_the_same(spark: Any, apache: Cluster, filled: str, options: dict[str, int]) -> None:
    counts = []
    for frame in both(spark, apache, filled, **options):
        sizes = frame.selectExpr("spark_partition_id() AS task", "partition", "offset").groupBy("task", "partition")
        found = sizes.agg({"offset": "min", "partition": "count"}).collect()
        counts.append(sorted((row.partition, row["min(offset)"], row["count(partition)"]) for row in found))
    assert counts[0] == counts[1]


def test_a_part_of_the_offsets_is_the_same(spark: Any, apache: Cluster, filled: str) -> None:
    starting = {filled: {str(partition): -2 if partition % 2 else 1 for partition in range(len(_SIZES))} | {"4": 0}}
    for options in (
        {"startingOffsets": json.dumps(starting), "endingTimestamp": TIME + 500},
        {"startingTimestamp": TIME + 15, "startingOffsetsByTimestampStrategy": "latest"},
    ):
        theirs, ours = both(spark, apache, filled, **options)
        order = ("partition", "offset")
        expected = theirs.orderBy(*order).collect()
        assert expected
        assert ours.orderBy(*order).collect() == expected


def test_checkpoints_go_from_sparks_connector_to_ours_and_back(
    spark: Any, apache: Cluster, topic_name: str, tmp_path: Path
) -> None:
    if not connector_jars():
        pytest.skip("needs the jars of Spark's Kafka connector, which Maven fetches")
    topic = apache.create_topic(topic_name, partitions=2)
    # Spark finds sources by their place in the checkpoint, so only the format's name changes.
    stream = Stream(spark, apache.bootstrap_servers, tmp_path, {"subscribe": topic, "startingOffsets": "earliest"})
    expected = []
    for round_, name in enumerate(("kafka", "pyconsumer", "kafka", "pyconsumer")):
        offsets = range(10 * round_, 10 * round_ + 10)
        produce(apache.bootstrap_servers, topic, [Row(b"%d" % i, partition=p) for i in offsets for p in (0, 1)])
        expected += [(p, i) for i in offsets for p in (0, 1)]
        stream.options["maxOffsetsPerTrigger"] = 11
        progress = stream.run_available(format=name)
        assert stream.positions() == sorted(expected), name
        assert sum(found.numInputRows for found in progress) == 20, name
        # What their metrics say, and for every Python source they say nothing, is what ours say of both.
        behind = [lag_metrics(found) for found in progress]
        assert [found["maxOffsetsBehindLatest"] for found in behind] != ["0"] * len(behind)
        told = [dict(found.sources[0].metrics) for found in progress]
        assert told == (behind if name == "kafka" else [{} for _ in behind])
