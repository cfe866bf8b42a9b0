"""Drivers, workers and brokers of streaming queries are killed at random and between the steps of the sink's protocol.

A ledger has the records that the brokers acknowledged to an idempotent producer, which sends all the while. Three
queries of one driver copy them: into Parquet files, into a topic exactly once, and into another one by named writes of
``foreachBatch``. They run with speculation. Each restart of the driver has another ``local[n]`` and other cuts. In the
end each has every record once. ``PYCONSUMER_SPARK_KILLS=50`` kills so often, on Apache Kafka, too, and has Java's
consumer read the committed records. ``..._KILLS_LOG=FILE`` gets a line for each, ``..._KILLS_SEED`` repeats one.
"""

from __future__ import annotations

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

import pyarrow.dataset as ds
import pytest

pytest.importorskip("pyspark")

from pyconsumer.admin import KafkaAdminClient
from tests.behaviour.consumer_support import read_to_end
from tests.support.cluster import Cluster
from tests.support.java import KafkaTools, tools
from tests.support.process import GuardedProcess, descendants, wait_until
from tests.support.spark import need_spark
from tests.support.spark_kills import QUERIES, STEPS, plan_kill
from tests.support.spark_ledger import Ledger, assert_nothing_open
from tests.support.spark_streams import SLOW_START

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("PYCONSUMER_SPARK_KILLS", "0"))
SEED = int(os.environ.get("PYCONSUMER_SPARK_KILLS_SEED", "0"))
PARTITIONS = 3
pytestmark = [pytest.mark.spark, pytest.mark.slow, *([pytest.mark.spark_smoke] if KILLS else [])]  # that: on Kafka, too

_KINDS = {"step": 10, "worker": 4, "broker": 5, "driver": 5}


class Driver:
    """The queries' process. See :mod:`tests.support.spark_kills`."""

    def __init__(self, folder: Path, servers: str, master: str, mode: str, options: object) -> None:
        self.runs = 0
        self.batches = 0
        self.failures: list[str] = []
        (folder / "tmp").mkdir(exist_ok=True)
        arguments = [str(folder), servers, master, mode, json.dumps(options)]
        self.process = GuardedProcess(
            [sys.executable, "-m", "tests.support.spark_kills", *arguments],
            on_line=self._on_line,
            env={"TMPDIR": str(folder / "tmp"), "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
        )

    def _on_line(self, line: str) -> None:
        word = line.partition(" ")[0]
        self.runs += word == "started"
        self.batches += word == "batch"
        if word == "failed":
            self.failures.append(line)

    def wait_for_batches(self, count: int) -> bool:
        """Wait for this number of more batches and return False if all that was there is read instead."""
        wanted = self.batches + count
        wait_until(lambda: self.batches >= wanted or not self.process.running, 300, f"{count} batches: {self.told}")
        assert self.process.running or self.process.returncode == 0, self.told
        return self.batches >= wanted and self.process.running

    def wait_until_gone(self, plan: Path, step: str) -> None:
        """Wait until a process has ended at a step, or all that was there is read."""
        wait_until(lambda: not plan.exists() or not self.process.running, 120, f"a process at {step}: {self.told}")
        assert self.process.running or self.process.returncode == 0, self.told

    @property
    def told(self) -> str:
        return f"{self.failures[-2:]} {self.process.stderr[-3000:]}"

    def kill_a_worker(self, dice: random.Random) -> str:
        """End one of the processes of Python that Java has started."""
        commands = descendants(self.process.pid)
        workers = [pid for pid, command in commands.items() if "pyspark" in command and "java" not in command]
        if not workers:
            return "no worker was there"
        os.kill(dice.choice(workers), signal.SIGKILL)
        return f"one of {len(workers)} workers"

    def kill(self, *, java_alone: bool) -> None:
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
def ledgers() -> Iterator[list[Ledger]]:
    made: list[Ledger] = []
    yield made
    for ledger in made:
        ledger._stopping.set()
        ledger._thread.join(30)
    made.clear()  # pytest keeps the list longer than the producers may live


class Chain:
    """One chain of kills.

    Args:
        topics: where the queries write, by their names.
    """

    def __init__(
        self, cluster: Cluster, folder: Path, source: str, topics: dict[str, str], log: Callable[[str], None], seed: int
    ) -> None:
        self.cluster = cluster
        self.folder = folder
        self.source = source
        self.topics = topics
        self.log = log
        self.dice = random.Random(seed)
        self.plan = folder / "plan"
        self.driver: Driver | None = None
        self.restarts: list[threading.Thread] = []
        self.kinds: Counter[str] = Counter()
        self.steps = [*STEPS]

    def start(self, mode: str) -> Driver:
        cuts = self.dice.randrange(2, 6)
        options = {
            "source": {
                "subscribe": self.source,
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": 10_000 if mode == "the rest" else 400,
                "minPartitions": cuts,
            },
            "sink": {
                "deliveryGuarantee": "exactly-once",
                "transactionalIdPrefix": self.source,
                "killPlan": str(self.plan),
                "killSlow": "0.1",
            },
            "topics": self.topics,
        }
        master = f"local[{self.dice.randrange(2, 5)},8]"
        self.log(f"  driver {master}, cuts {cuts}, {mode}")
        trigger = "running" if mode == "running" else "available"
        self.driver = Driver(self.folder, self.cluster.bootstrap_servers, master, trigger, options)
        return self.driver

    def at_work(self) -> Driver:
        """A driver that has just finished a batch. Now and then one that still starts."""
        while True:
            driver = self.driver or self.start("running" if self.dice.random() < 0.8 else "available")
            if self.dice.random() < 0.1 or driver.wait_for_batches(self.dice.randrange(1, 3)):
                return driver
            self.driver = None

    def kill_something(self, number: int, kind: str) -> None:
        """Wait until the queries are at work, then kill."""
        driver = self.at_work()
        time.sleep(self.dice.uniform(0, 0.6))
        if kind == "step":
            what = self.kill_at_a_step()
        elif kind == "worker":
            what = driver.kill_a_worker(self.dice)
        elif kind == "broker":
            failures = len(driver.failures)
            what = self.kill_a_broker()
            if driver.wait_for_batches(3):  # it may have been killed while a driver started, so no more than this
                found = [line for line in driver.failures[failures:] if line.startswith("failed files")]
                assert all(SLOW_START in line for line in found), found
        else:
            broker = f", and {self.kill_a_broker()}" if self.dice.random() < 0.3 else ""
            java_alone = self.dice.random() < 0.5
            driver.kill(java_alone=java_alone)
            self.driver = None
            what = f"the driver ({'Java alone' if java_alone else 'all of it'}){broker}"
        self.kinds[kind] += 1
        self.log(f"  kill {number}: {what}; {driver.batches} batches, {driver.runs} runs of this driver's queries")

    def kill_at_a_step(self) -> str:
        step = self.steps.pop(0) if self.steps else self.dice.choice(STEPS)
        plan_kill(self.plan, step)
        while True:
            (self.driver or self.start("running")).wait_until_gone(self.plan, step)
            if not self.plan.exists():
                return f"whoever reached step {step!r}"
            self.driver = None  # it had read all

    def kill_a_broker(self) -> str:
        for thread in self.restarts:
            thread.join(120)
        node = self.dice.choice(self.cluster.node_ids)
        self.cluster.kill(node)

        def restart(pause: float) -> None:
            time.sleep(pause)
            self.cluster.restart(node)

        self.restarts = [threading.Thread(target=restart, args=(self.dice.uniform(0.2, 3),), name="restart")]
        self.restarts[0].start()
        return f"broker {node} of {len(self.cluster.node_ids)}"

    def end(self) -> None:
        if self.driver is not None:
            self.driver.process.kill()
        for thread in self.restarts:
            thread.join(120)

    def finish(self) -> None:
        """Let the queries read all there is."""
        self.end()
        self.plan.unlink(missing_ok=True)
        driver = self.start("the rest")
        wait_until(lambda: not driver.process.running, 400, f"the end: {driver.told}")
        assert driver.process.returncode == 0, driver.told


@pytest.mark.timeout(900 + 90 * KILLS)
def test_each_record_once_whatever_is_killed(
    new_cluster: Callable[..., Cluster],
    cluster_kind: str,
    topic_name: str,
    tmp_path: Path,
    ledgers: list[Ledger],
    log: Callable[[str], None],
) -> None:
    need_spark()
    seed = SEED or random.randrange(1, 10**6)
    embedded = cluster_kind == "embedded"
    cluster = new_cluster(cluster_kind, data_dir=tmp_path / "data", brokers=3 if embedded else 1)
    source, *sinks = (
        cluster.create_topic(f"{topic_name}-{end}", PARTITIONS, replication_factor=3 if embedded else 1)
        for end in ("in", *QUERIES[1:])
    )
    ledger = Ledger(cluster.bootstrap_servers, source, PARTITIONS)
    ledgers.append(ledger)
    chain = Chain(cluster, tmp_path, source, dict(zip(QUERIES[1:], sinks, strict=True)), log, seed)
    kinds = chain.dice.choices([*_KINDS], [*_KINDS.values()], k=KILLS) or ["step", "driver"]
    log(f"{cluster_kind} seed {seed}: {len(kinds)} kills")
    began = time.monotonic()
    try:
        for number, kind in enumerate(kinds):
            chain.kill_something(number + 1, kind)
        ledger.stop()
        chain.finish()
    finally:
        chain.end()
    assert ledger.failed == []
    check_files(tmp_path / "output", ledger)
    expected = Counter(str(number) for number in ledger.acknowledged.values())
    aborted = 0
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        for sink in sinks:
            check_topic(cluster, sink, expected)
            every = read_to_end(cluster.bootstrap_servers, sink, PARTITIONS, "read_uncommitted")
            aborted += len(every) - expected.total()
            assert_nothing_open(admin, sink, PARTITIONS, source)
    log(
        f"{cluster_kind} seed {seed}: all {expected.total()} records once in files and in both topics after"
        f" {len(kinds)} kills {dict(chain.kinds)} in {time.monotonic() - began:.0f} s; {aborted} more were sent and are"
        " aborted"
    )


def check_files(folder: Path, ledger: Ledger) -> None:
    """Those that Spark's list of good files names have each record once."""
    good: dict[str, bool] = {}
    for path in sorted((folder / "_spark_metadata").iterdir(), key=lambda path: path.name.zfill(20)):
        if path.name.split(".")[0].isdecimal():
            for line in path.read_text().splitlines()[1:]:
                entry = json.loads(line)
                good[entry["path"].removeprefix("file://")] = entry["action"] == "add"
    rows = ds.dataset([path for path, is_there in good.items() if is_there], format="parquet").to_table().to_pylist()
    found = Counter(((row["partition"], row["offset"]), int(row["value"])) for row in rows)
    assert [row for row, count in found.items() if count > 1] == []
    assert ledger.acknowledged.items() - found.keys() == set()
    assert set(found) == set(ledger.acknowledged.items())


def check_topic(cluster: Cluster, topic: str, expected: Counter[str]) -> None:
    """Each record is committed once."""
    ways = {
        "ours": Counter(v.decode() for v in read_to_end(cluster.bootstrap_servers, topic, PARTITIONS, "read_committed"))
    }
    if KILLS:
        ways["Java's"] = read_by_java(tools(), cluster.bootstrap_servers, topic)
    for name, found in ways.items():
        assert {value: count for value, count in found.items() if count > 1} == {}, name
        assert expected - found == Counter(), name
        assert found == expected, name


def read_by_java(kafka_tools: KafkaTools, servers: str, topic: str) -> Counter[str]:
    java = kafka_tools.run(
        "ConsoleConsumer",
        *("--bootstrap-server", servers, "--topic", topic, "--from-beginning"),
        *("--isolation-level", "read_committed", "--timeout-ms", "8000"),
        check=False,
    )
    return Counter(java.lines)
