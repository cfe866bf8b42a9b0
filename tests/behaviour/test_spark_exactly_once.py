"""Spark writes topics exactly once: batches and streams, whatever ends where.

Processes of Spark's tasks and of the driver's side are killed at some steps of the protocol, at all of them where
``PYCONSUMER_SPARK_EXACTLY_KILLS`` is set. The judge reads what is committed, and asks the brokers what is left open.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.admin import KafkaAdminClient
from tests.behaviour.consumer_support import read_to_end
from tests.support.cluster import Cluster
from tests.support.spark_kills import STEPS, KilledSource, plan_kill
from tests.support.spark_ledger import assert_nothing_open
from tests.support.spark_streams import SLOW_START
from tests.support.spark_topics import Row, produce, reader

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

PARTITIONS = 3


def committed(cluster: Cluster, topic: str) -> list[int]:
    """The numbers in a topic that are committed, sorted."""
    return sorted(int(value) for value in read_to_end(cluster.bootstrap_servers, topic, PARTITIONS, "read_committed"))


class Query:
    """A stream from topic to topic, exactly once.

    Args:
        source, sink: topics.
        options: of the sink, more; ``__`` stands for a dot.
    """

    def __init__(self, spark: Any, cluster: Cluster, source: str, sink: str, folder: Path, **options: object) -> None:
        self.spark = spark
        self.cluster = cluster
        self.source = source
        self.sink = sink
        self.folder = folder
        self.plan = folder / "plan"
        self.options = {"topic": sink, "deliveryGuarantee": "exactly-once", "transactionalIdPrefix": sink} | options
        self.per_batch = 100
        self.tasks = 2

    def run(self, *, killed: bool = False) -> Exception | None:
        """Run until all is read; return what ended it."""
        options = {
            "subscribe": self.source,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": self.per_batch,
            "minPartitions": self.tasks,
        }
        frame = reader(self.spark, self.cluster.bootstrap_servers, options, stream=True).load()
        out = frame.select("key", "value").writeStream
        out = out.format("pyconsumer-killed" if killed else "pyconsumer")
        if killed:
            out = out.option("killPlan", str(self.plan))
        out = out.option("kafka.bootstrap.servers", self.cluster.bootstrap_servers)
        for name, value in self.options.items():
            out = out.option(name.replace("__", "."), str(value))
        out = out.option("checkpointLocation", str(self.folder / "checkpoint")).trigger(availableNow=True)
        while True:
            query = out.start()
            try:
                query.awaitTermination()
            except Exception as error:
                if SLOW_START not in str(error):
                    return error
            else:
                return None
            finally:
                query.stop()


@pytest.fixture
def query_of(spark: Any, cluster: Cluster, make_topic: Callable[..., str], tmp_path: Path) -> Callable[..., Query]:
    """Makes a stream between two fresh topics: ``query_of(records, **options of the sink)``."""
    spark.dataSource.register(KilledSource)

    def make(records: int, **options: object) -> Query:
        source, sink = make_topic(partitions=PARTITIONS), make_topic(partitions=PARTITIONS)
        rows = [Row(b"%d" % i, b"k%d" % (i % 10), i % PARTITIONS) for i in range(records)]
        produce(cluster.bootstrap_servers, source, rows)
        return Query(spark, cluster, source, sink, tmp_path, **options)

    return make


@pytest.mark.spark_smoke
def test_a_stream_whose_processes_end_at_every_step(
    cluster: Cluster, cluster_kind: str, query_of: Callable[..., Query], admin: KafkaAdminClient
) -> None:
    every = STEPS if os.environ.get("PYCONSUMER_SPARK_EXACTLY_KILLS") else ("sent", "one ended")
    steps = every if cluster_kind == "embedded" else ("one ended",)
    query = query_of(300)
    query.per_batch = 60
    for number, step in enumerate(steps):
        query.tasks = 2 + number % 3  # so that a batch that is run again is split in another way
        plan_kill(query.plan, step)
        error = query.run(killed=True)
        assert error is not None, step
        assert not query.plan.exists(), step
        produce(cluster.bootstrap_servers, query.source, [Row(b"%d" % (300 + number), b"k", number % PARTITIONS)])
    assert query.run() is None
    assert committed(cluster, query.sink) == list(range(300 + len(steps)))
    assert_nothing_open(admin, query.sink, PARTITIONS, query.sink)


def write(frame: Any, cluster: Cluster, topic: str, **options: object) -> None:
    """Write a batch exactly once."""
    out = frame.write.format("pyconsumer").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    out = out.option("topic", topic).option("deliveryGuarantee", "exactly-once").option("transactionalIdPrefix", topic)
    for name, value in options.items():
        out = out.option(name.replace("__", "."), str(value))
    out.mode("append").save()


def test_a_batch_is_seen_whole_or_not_at_all(
    spark: Any, cluster: Cluster, make_topic: Callable[..., str], admin: KafkaAdminClient
) -> None:
    topic = make_topic(partitions=PARTITIONS)
    numbers = spark.range(1000, numPartitions=3).selectExpr("cast(id AS string) AS value", "id")
    with pytest.raises(Exception, match=r"DIVIDE_BY_ZERO"):
        write(numbers.selectExpr("value", "1 / (id - 999) AS x"), cluster, topic)
    assert_nothing_open(admin, topic, PARTITIONS, topic)
    assert committed(cluster, topic) == []
    write(numbers, cluster, topic)
    write(numbers.limit(0), cluster, topic)
    assert committed(cluster, topic) == list(range(1000))
    for _ in range(2):  # named: the second one is known to be there
        write(numbers.limit(10), cluster, topic, txnAppId="job", txnVersion=4)
    write(numbers.limit(10), cluster, topic, txnAppId="job", txnVersion=3)
    assert len(committed(cluster, topic)) == 1010
    with pytest.raises(Exception, match=r"InvalidTransactionTimeoutError|INVALID_TRANSACTION_TIMEOUT"):
        write(numbers, cluster, topic, kafka__transaction__timeout__ms=3_600_000)
    assert_nothing_open(admin, topic, PARTITIONS, topic)


def test_a_progress_that_is_gone_and_rows_that_choose_topics(
    cluster: Cluster, query_of: Callable[..., Query], admin: KafkaAdminClient, make_topic: Callable[..., str]
) -> None:
    progress = make_topic()
    query = query_of(30, progressTopic=progress)
    assert query.run() is None
    groups = [group.group_id for group in admin.list_groups() if group.group_id.startswith(query.sink)]
    assert len(groups) == 1
    admin.delete_groups(groups)
    produce(cluster.bootstrap_servers, query.source, [Row(b"30", b"k", 0)])
    error = query.run()
    assert error is not None
    assert "offsets.retention.minutes" in str(error)
    query.options["onMissingProgress"] = "begin"
    assert query.run() is None
    assert committed(cluster, query.sink) == list(range(31))
    assert_nothing_open(admin, query.sink, PARTITIONS, query.sink)
