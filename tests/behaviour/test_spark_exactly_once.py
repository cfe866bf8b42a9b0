"""Spark writes topics exactly once: batches and streams, whatever ends where.

Processes of Spark's tasks and of the driver's side are killed at each step of the protocol. The judge reads what is
committed, and asks the brokers for what is left open.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.admin import KafkaAdminClient, OffsetSpec
from pyconsumer.structs import TopicPartition
from tests.behaviour.consumer_support import read_to_end
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.spark_kills import STEPS, KilledSource, plan_kill
from tests.support.spark_streams import SLOW_START
from tests.support.spark_topics import Row, produce, reader

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

PARTITIONS = 3
#: What Spark says when a process of Python has gone, in a task and on the driver's side.
_GONE = ("Python worker exited unexpectedly", "EOFException", "crashed", "Connection reset", "ended unexpectedly")


def committed(cluster: Cluster, topic: str) -> list[int]:
    """The numbers in a topic that are committed, sorted."""
    return sorted(int(value) for value in read_to_end(cluster.bootstrap_servers, topic, PARTITIONS, "read_committed"))


def assert_nothing_open(admin: KafkaAdminClient, topic: str, prefix: str) -> None:
    """No transaction is open, and the last stable offsets are the ends."""
    listed = admin.list_transactions(states=["Ongoing"])
    assert [one.transactional_id for one in listed if one.transactional_id.startswith(prefix)] == []
    ends = {TopicPartition(topic, partition): OffsetSpec.LATEST for partition in range(PARTITIONS)}

    def are_stable() -> bool:
        stable = admin.list_offsets(ends, isolation_level="read_committed")
        every = admin.list_offsets(ends, isolation_level="read_uncommitted")
        return {tp: one and one.offset for tp, one in stable.items()} == {
            tp: one and one.offset for tp, one in every.items()
        }

    wait_until(are_stable, 30, "last stable offsets at the ends")


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
    steps = STEPS if cluster_kind == "embedded" else ("sent", "decided", "one ended")
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
    assert_nothing_open(admin, query.sink, query.sink)
