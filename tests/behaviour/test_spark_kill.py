"""A streaming query and its broker are killed at random times; the output holds each record once.

A ledger has what the brokers acknowledged to an idempotent producer, which goes on all the while. The query writes
Parquet files. ``PYCONSUMER_SPARK_KILLS=50`` kills so often; ``PYCONSUMER_SPARK_KILLS_LOG=FILE`` gets a line for each.
"""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.process import GuardedProcess, descendants, wait_until
from tests.support.spark import need_spark
from tests.support.spark_ledger import Ledger
from tests.support.spark_streams import Stream

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("PYCONSUMER_SPARK_KILLS", "0"))
PARTITIONS = 3


class Driver:
    """The query's process; see :mod:`tests.support.spark_driver`."""

    def __init__(self, stream: Stream, mode: str) -> None:
        self.mode = mode
        self.started = threading.Event()
        self.batches = 0
        temporary = stream.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        options = json.dumps(stream.options)
        self.process = GuardedProcess(
            [sys.executable, "-m", "tests.support.spark_driver", str(stream.folder), stream.servers, mode, options],
            on_line=self._on_line,
            env={"TMPDIR": str(temporary)},
            cwd=ROOT,
        )

    def _on_line(self, line: str) -> None:
        if line.startswith("started"):
            self.started.set()
        elif line.startswith("batch"):
            self.batches += 1

    def wait_for_batches(self, count: int) -> None:
        """Wait until the query has started and finished so many batches, or has ended."""
        wait_until(
            lambda: (self.started.is_set() and self.batches >= count) or not self.process.running,
            600,
            f"{count} batches; {self.process.stderr[-5000:]}",
        )

    def kill(self, *, java_alone: bool) -> None:
        """``kill -9`` of everything, or of the Java process, which is what Spark calls the driver.

        The query must be running until then: neither it nor a task may give up because the broker was killed. Only
        with all that is available read it may have ended, or if Spark thought the machine too slow.
        """
        status = self.process.returncode
        assert status in ((None, 75, 0) if self.mode == "available" else (None, 75)), self.process.stderr[-5000:]
        if java_alone:
            for pid, command in descendants(self.process.pid).items():
                if "java" in command.split(" ", 1)[0]:
                    os.kill(pid, signal.SIGKILL)
        self.process.kill()


@pytest.fixture
def log() -> Callable[[str], None]:
    path = os.environ.get("PYCONSUMER_SPARK_KILLS_LOG")

    def write(line: str) -> None:
        print(line, flush=True)
        if path:
            with open(path, "a", encoding="utf-8") as file:
                file.write(line + "\n")

    return write


@pytest.fixture
def ledger_of() -> Iterator[Callable[[Cluster, str], Ledger]]:
    made: list[Ledger] = []

    def make(cluster: Cluster, topic: str) -> Ledger:
        made.append(Ledger(cluster.bootstrap_servers, topic, PARTITIONS))
        return made[-1]

    yield make
    for ledger in made:
        ledger._stopping.set()
        ledger._thread.join(30)


@pytest.fixture
def kill_and_count(
    new_cluster: Callable[..., Cluster],
    cluster_kind: str,
    spark: Any,
    topic_name: str,
    tmp_path: Path,
    ledger_of: Callable[[Cluster, str], Ledger],
    log: Callable[[str], None],
) -> Callable[[str], None]:
    """Kill the driver and the broker of a query of one mode, and assert that the output has each record once."""
    return functools.partial(_kill_and_count, new_cluster, cluster_kind, spark, topic_name, tmp_path, ledger_of, log)


@pytest.mark.spark_smoke
@pytest.mark.timeout(1800 + 120 * KILLS)
def test_each_record_once_however_often_a_query_of_what_is_there_is_killed(
    kill_and_count: Callable[[str], None],
) -> None:
    kill_and_count("available")


@pytest.mark.timeout(1800 + 120 * KILLS)
def test_each_record_once_however_often_a_query_that_keeps_running_is_killed(
    kill_and_count: Callable[[str], None],
) -> None:
    kill_and_count("running")


def _kill_and_count(
    new_cluster: Callable[..., Cluster],
    cluster_kind: str,
    spark: Any,
    topic_name: str,
    tmp_path: Path,
    ledger_of: Callable[[Cluster, str], Ledger],
    log: Callable[[str], None],
    mode: str,
) -> None:
    need_spark()
    kills = KILLS or (1 if cluster_kind == "apache" else 2)
    seed = random.randrange(10**6)
    dice = random.Random(seed)
    cluster = new_cluster(cluster_kind, data_dir=tmp_path / "data")
    topic = cluster.create_topic(topic_name, PARTITIONS)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 300, "minPartitions": 5}
    stream = Stream(spark, cluster.bootstrap_servers, tmp_path, options)
    ledger = ledger_of(cluster, topic)
    for number in range(kills):
        driver = Driver(stream, mode)
        try:
            # Most of the time in a batch, now and then while it starts.
            if dice.random() < 0.85:
                driver.wait_for_batches(dice.randrange(4))
            broker = "the broker lived"
            if dice.random() < 0.5:
                time.sleep(dice.uniform(0, 3))
                cluster.kill()
                broker = "the broker was killed"
                time.sleep(dice.uniform(0, 2))
                restart = threading.Thread(target=cluster.restart, name="restart")
                restart.start()
                time.sleep(dice.uniform(0, 6))
                java_alone = dice.random() < 0.5
                driver.kill(java_alone=java_alone)
                restart.join(120)
            else:
                time.sleep(dice.uniform(0, 6))
                java_alone = dice.random() < 0.5
                driver.kill(java_alone=java_alone)
        finally:
            driver.process.kill()
        died = "Java alone" if java_alone else "all of it"
        log(
            f"{cluster_kind} {mode} seed {seed} kill {number + 1} of {kills}: driver killed ({died}) after"
            f" {driver.batches} batches, {broker}; {len(ledger.acknowledged)} records acknowledged,"
            f" {len(stream.log('commits')) if stream.checkpoint.is_dir() else 0} batches committed"
        )
    ledger.stop()
    assert ledger.failed == []
    stream.options["maxOffsetsPerTrigger"] = 1_000_000
    stream.run_available()
    rows = spark.read.parquet(str(stream.output)).selectExpr("partition", "offset", "cast(value as string) AS value")
    found = Counter(((row.partition, row.offset), int(row.value)) for row in rows.collect())
    twice = [row for row, count in found.items() if count > 1]
    assert twice == []
    missing = ledger.acknowledged.items() - found.keys()
    assert missing == set()
    assert set(found) == set(ledger.acknowledged.items())
    log(f"{cluster_kind} {mode} seed {seed}: all {len(found)} records once, after {kills} kills")
