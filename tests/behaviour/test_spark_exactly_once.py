"""Spark writes topics exactly once: batches and streams, whatever ends where.

These tests run on each PySpark from 4.0 on: the suite has the installed one, ``tox -e spark40`` to ``spark43`` the
others. So their streams come from Spark's own source of files. Those from topic to topic are in test_spark_kills.py.

Processes of Spark's tasks and of the driver's side are killed at some steps of the protocol, at all of them where
``PYCONSUMER_SPARK_KILLS`` is set. The judge reads the committed records, and asks the brokers for open transactions.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyspark

from pyconsumer.admin import KafkaAdminClient
from tests.behaviour.consumer_support import read_to_end
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.spark_kills import STEPS, KilledSource, plan_kill
from tests.support.spark_ledger import assert_nothing_open
from tests.support.spark_streams import SLOW_START, run_to_the_end
from tests.support.spark_topics import Row, produce, reader

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

PARTITIONS = 3
EVERY_STEP = bool(os.environ.get("PYCONSUMER_SPARK_KILLS"))


def committed(cluster: Cluster, topic: str) -> list[int]:
    """The numbers in a topic that are committed, sorted."""
    return sorted(int(value) for value in read_to_end(cluster.bootstrap_servers, topic, PARTITIONS, "read_committed"))


class Query:
    """A stream from files into a topic, exactly once. Each file is a batch.

    Args:
        sink: the topic.
        options: of the sink, more. ``__`` stands for a dot.
    """

    def __init__(self, spark: Any, cluster: Cluster, sink: str, folder: Path, **options: object) -> None:
        self.spark = spark
        self.cluster = cluster
        self.sink = sink
        self.folder = folder
        self.plan = folder / "plan"
        self.options = {"topic": sink, "deliveryGuarantee": "exactly-once", "transactionalIdPrefix": sink} | options
        self.tasks = 2
        self.numbers = 0
        self.ids: list[tuple[str, str]] = []
        (folder / "in").mkdir()

    def add(self, count: int) -> None:
        """Give it this number of more numbers, as one batch."""
        fresh = self.folder / "fresh"
        fresh.write_text("".join(f"{number}\n" for number in range(self.numbers, self.numbers + count)))
        fresh.rename(self.folder / "in" / f"{self.numbers}.txt")
        self.numbers += count

    def run(self, *, killed: bool = False) -> Exception | None:
        """Run until all is read and return the reason of its end."""
        frame = self.spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(self.folder / "in"))
        out = frame.repartition(self.tasks).selectExpr("value AS key", "value").writeStream
        out = out.format("pyconsumer-killed" if killed else "pyconsumer")
        if killed:
            out = out.option("killPlan", str(self.plan))
        out = out.option("kafka.bootstrap.servers", self.cluster.bootstrap_servers)
        for name, value in self.options.items():
            out = out.option(name.replace("__", "."), str(value))
        out = out.option("checkpointLocation", str(self.folder / "checkpoint")).trigger(availableNow=True)
        while True:
            query = out.start()
            self.ids.append((str(query.id), str(query.runId)))
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
def new_query(spark: Any, cluster: Cluster, make_topic: Callable[..., str], tmp_path: Path) -> Callable[..., Query]:
    """Makes a stream into a fresh topic: ``new_query(**options of the sink)``."""
    spark.dataSource.register(KilledSource)
    return lambda **options: Query(spark, cluster, make_topic(partitions=PARTITIONS), tmp_path, **options)


def test_tasks_get_the_ids_of_query_run_and_batch_from_spark(
    cluster: Cluster, new_query: Callable[..., Query], admin: KafkaAdminClient
) -> None:
    """All that the protocol takes from Spark is seen by its effect: the names of transactions and of the progress."""
    query = new_query()
    for count in (10, 20, 5):
        query.add(count)
    assert query.run() is None
    query.add(1)
    assert query.run() is None
    assert committed(cluster, query.sink) == list(range(36))
    (first, run), (second, another) = query.ids[0], query.ids[-1]
    assert first == second
    assert run != another
    transactions = {one.transactional_id for one in admin.list_transactions() if query.sink in one.transactional_id}
    driver = f"{query.sink}.{first}"
    assert driver in transactions
    of_tasks = {name.removeprefix(f"{driver}.").split(".")[0] for name in transactions - {driver}}
    assert {run, another} <= of_tasks <= {each for _, each in query.ids}
    (progress,) = admin.list_group_offsets(f"{driver}.0").values()
    assert progress.offset == 3  # the fourth batch
    assert_nothing_open(admin, query.sink, PARTITIONS, query.sink)


@pytest.mark.spark_smoke
def test_a_stream_whose_processes_end_at_every_step(
    cluster: Cluster, cluster_kind: str, new_query: Callable[..., Query], admin: KafkaAdminClient
) -> None:
    few = ("sent", "one ended") if cluster_kind == "embedded" else ("one ended",)
    query = new_query()
    for number, step in enumerate(STEPS if EVERY_STEP else few):
        query.tasks = 2 + number % 3  # so that a batch that is run again is split in another way
        query.add(40 + number)
        plan_kill(query.plan, step)
        error = query.run(killed=True)
        assert error is not None, step
        assert not query.plan.exists(), step
    query.tasks = 4
    assert query.run() is None
    assert committed(cluster, query.sink) == list(range(query.numbers))
    assert_nothing_open(admin, query.sink, PARTITIONS, query.sink)


def write(frame: Any, cluster: Cluster, topic: str, **options: object) -> None:
    """Write a batch exactly once. With ``killPlan`` a process ends on the way."""
    out = frame.write.format("pyconsumer-killed" if "killPlan" in options else "pyconsumer")
    out = out.option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    out = out.option("topic", topic).option("deliveryGuarantee", "exactly-once").option("transactionalIdPrefix", topic)
    for name, value in options.items():
        out = out.option(name.replace("__", "."), str(value))
    out.mode("append").save()


@pytest.mark.spark_smoke
def test_a_named_write_that_ends_between_its_decision_and_the_last_commit(
    spark: Any,
    cluster: Cluster,
    cluster_kind: str,
    make_topic: Callable[..., str],
    admin: KafkaAdminClient,
    tmp_path: Path,
) -> None:
    """The process that commits is killed. The same write, or a later one of the same name, finishes its decision."""
    spark.dataSource.register(KilledSource)
    topic, plan = make_topic(partitions=PARTITIONS), tmp_path / "plan"

    def numbers(first: int, tasks: int) -> Any:
        frame = spark.range(first, first + 30, numPartitions=tasks)  # each task has a partition of the topic, too
        return frame.selectExpr("cast(id AS string) AS value", "spark_partition_id() AS partition")

    def killed(step: str, number: int, *, seen: int = 0) -> None:
        """Kill a write of 30 numbers, and wait until this number of them can be read."""
        wanted = len(committed(cluster, topic)) + seen
        plan_kill(plan, step)
        message = SLOW_START
        while SLOW_START in message:
            with pytest.raises(Exception, match=r"(?s).+") as caught:
                write(numbers(30 * number, 3), cluster, topic, txnAppId="job", txnVersion=number, killPlan=plan)
            message = str(caught.value)
        assert not plan.exists(), message
        wait_until(lambda: len(committed(cluster, topic)) == wanted, 30, f"{seen} numbers after a kill at {step}")

    def again(number: int) -> None:
        write(numbers(30 * number, 2), cluster, topic, txnAppId="job", txnVersion=number)
        assert committed(cluster, topic) == list(range(30 * (number + 1)))

    killed("one ended", 0, seen=10)  # one of three tasks
    again(0)
    again(0)
    if EVERY_STEP or cluster_kind == "embedded":
        killed("decided", 1)
        again(2)  # the next one, though nobody has come back to the last
    if EVERY_STEP:
        for number, step in enumerate(STEPS, 3):
            killed(step, number, seen={"one ended": 10, "ended": 30, "cleared": 30}.get(step, 0))
            again(number)
    assert_nothing_open(admin, topic, PARTITIONS, topic)


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
    options = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
    assert reader(spark, cluster.bootstrap_servers, options).load().count() == 1000
    for _ in range(2):  # named: the second one is known to be there
        write(numbers.limit(10), cluster, topic, txnAppId="job", txnVersion=4)
    write(numbers.limit(10), cluster, topic, txnAppId="job", txnVersion=3)
    assert len(committed(cluster, topic)) == 1010
    with pytest.raises(Exception, match=r"InvalidTransactionTimeoutError|INVALID_TRANSACTION_TIMEOUT"):
        write(numbers, cluster, topic, kafka__transaction__timeout__ms=3_600_000)
    assert_nothing_open(admin, topic, PARTITIONS, topic)


def test_a_progress_that_is_gone_and_rows_that_choose_topics(
    cluster: Cluster, new_query: Callable[..., Query], admin: KafkaAdminClient, make_topic: Callable[..., str]
) -> None:
    progress = make_topic()
    query = new_query(progressTopic=progress)
    query.add(30)
    assert query.run() is None
    groups = [group.group_id for group in admin.list_groups() if group.group_id.startswith(query.sink)]
    assert len(groups) == 1
    admin.delete_groups(groups)
    query.add(1)
    error = query.run()
    assert error is not None
    assert "offsets.retention.minutes" in str(error)
    query.options["onMissingProgress"] = "begin"
    assert query.run() is None
    assert committed(cluster, query.sink) == list(range(31))
    assert_nothing_open(admin, query.sink, PARTITIONS, query.sink)


def test_streams_from_topic_to_topic_need_pyspark_4_2(
    spark: Any, cluster: Cluster, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    """From the latest offset, so that the first batch has no tasks of its own. It is decided all the same."""
    source, sink = make_topic(), make_topic(partitions=PARTITIONS)

    def run() -> None:
        out = reader(spark, cluster.bootstrap_servers, {"subscribe": source}, stream=True).load().writeStream
        out = out.format("pyconsumer").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        out = out.option("topic", sink).option("deliveryGuarantee", "exactly-once")
        run_to_the_end(out.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start)

    if tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2):
        with pytest.raises(Exception, match=r"streams need PySpark 4\.2 or newer"):
            run()
        return
    produce(cluster.bootstrap_servers, source, [Row(b"0")])
    run()
    produce(cluster.bootstrap_servers, source, [Row(b"%d" % number) for number in (1, 2)])
    run()
    assert committed(cluster, sink) == [1, 2]
