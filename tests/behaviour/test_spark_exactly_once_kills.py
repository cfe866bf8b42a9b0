"""Drivers, workers and brokers of an exactly-once query are killed at random and between its steps.

A ledger has what the brokers acknowledged to an idempotent producer, which goes on all the while. The query copies that
to another topic, with speculation, and with another ``local[n]`` and other cuts after each restart of its driver.
Java's consumer reads what is committed. ``PYCONSUMER_SPARK_EXACTLY_KILLS=50`` kills so often, ``..._KILLS_LOG=FILE``
gets a line for each, ``..._KILLS_SEED`` repeats one.
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

import pytest

from pyconsumer.admin import KafkaAdminClient
from tests.behaviour.consumer_support import read_to_end
from tests.support.cluster import Cluster
from tests.support.java import KafkaTools
from tests.support.process import GuardedProcess, descendants, wait_until
from tests.support.spark import need_spark
from tests.support.spark_kills import STEPS, plan_kill
from tests.support.spark_ledger import Ledger, assert_nothing_open

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("PYCONSUMER_SPARK_EXACTLY_KILLS", "0"))
SEED = int(os.environ.get("PYCONSUMER_SPARK_EXACTLY_KILLS_SEED", "0"))
PARTITIONS = 3
pytestmark = [pytest.mark.spark, pytest.mark.slow, *([pytest.mark.spark_smoke] if KILLS else [])]  # that: on Kafka, too


class Driver:
    """The query's process; see :mod:`tests.support.spark_kills`."""

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
        if line.startswith("started"):
            self.runs += 1
        elif line.startswith("batch"):
            self.batches += 1
        elif line.startswith("failed"):
            self.failures.append(line)

    def wait_for_batches(self, count: int) -> None:
        """Wait for so many more batches."""
        wanted = self.batches + count
        wait_until(lambda: self.batches >= wanted or not self.process.running, 300, f"{count} batches: {self.told}")
        assert self.process.running, self.told

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
    path = os.environ.get("PYCONSUMER_SPARK_EXACTLY_KILLS_LOG")

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


class Chain:
    """One chain of kills."""

    def __init__(
        self, cluster: Cluster, folder: Path, source: str, sink: str, log: Callable[[str], None], seed: int
    ) -> None:
        self.cluster = cluster
        self.folder = folder
        self.source = source
        self.sink = sink
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
                "maxOffsetsPerTrigger": 400 if mode == "running" else 10_000,
                "minPartitions": cuts,
            },
            "sink": {
                "topic": self.sink,
                "deliveryGuarantee": "exactly-once",
                "transactionalIdPrefix": self.sink,
                "killPlan": str(self.plan),
                "killSlow": "0.1",
            },
        }
        master = f"local[{self.dice.randrange(2, 5)},8]"
        self.log(f"  driver {master}, cuts {cuts}")
        self.driver = Driver(self.folder, self.cluster.bootstrap_servers, master, mode, options)
        return self.driver

    def kill_something(self, number: int) -> None:
        """Wait until the query is at work, then kill."""
        driver = self.driver or self.start("running")
        driver.wait_for_batches(self.dice.randrange(1, 3))
        kind = self.dice.choices(["step", "worker", "broker", "driver"], [10, 4, 5, 5])[0]
        time.sleep(self.dice.uniform(0, 0.6))
        if kind == "step":
            step = self.steps.pop(0) if self.steps else self.dice.choice(STEPS)
            plan_kill(self.plan, step)
            wait_until(lambda: not self.plan.exists(), 120, f"a process at step {step}: {driver.told}")
            what = f"whoever reached step {step!r}"
        elif kind == "worker":
            what = driver.kill_a_worker(self.dice)
        elif kind == "broker":
            what = self.kill_a_broker()
        else:
            java_alone = self.dice.random() < 0.5
            driver.kill(java_alone=java_alone)
            driver.process.kill()
            self.driver = None
            what = f"the driver ({'Java alone' if java_alone else 'all of it'})"
        self.kinds[kind] += 1
        self.log(f"  kill {number}: {what}; {driver.batches} batches, {driver.runs} runs of this driver")

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

    def finish(self) -> None:
        """Let the query read all there is."""
        if self.driver is not None:
            self.driver.process.kill()
        for thread in self.restarts:
            thread.join(120)
        self.plan.unlink(missing_ok=True)
        driver = self.start("available")
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
    kafka_tools: KafkaTools,
) -> None:
    need_spark()
    seed = SEED or random.randrange(1, 10**6)
    kills = KILLS or 1
    embedded = cluster_kind == "embedded"
    cluster = new_cluster(cluster_kind, data_dir=tmp_path / "data", brokers=3 if embedded else 1)
    source, sink = (
        cluster.create_topic(f"{topic_name}-{end}", PARTITIONS, replication_factor=3 if embedded else 1)
        for end in ("in", "out")
    )
    ledger = Ledger(cluster.bootstrap_servers, source, PARTITIONS)
    ledgers.append(ledger)
    log(f"{cluster_kind} seed {seed}: {kills} kills")
    chain = Chain(cluster, tmp_path, source, sink, log, seed)
    began = time.monotonic()
    try:
        for number in range(kills):
            chain.kill_something(number + 1)
        ledger.stop()
        chain.finish()
    finally:
        if chain.driver is not None:
            chain.driver.process.kill()
        for thread in chain.restarts:
            thread.join(120)
    assert ledger.failed == []
    expected = Counter(str(number) for number in ledger.acknowledged.values())
    java = kafka_tools.run(
        "ConsoleConsumer",
        *("--bootstrap-server", cluster.bootstrap_servers, "--topic", sink, "--from-beginning"),
        *("--isolation-level", "read_committed", "--timeout-ms", "8000"),
        check=False,
    )
    every = len(read_to_end(cluster.bootstrap_servers, sink, PARTITIONS, "read_uncommitted"))
    found = Counter(java.lines)
    assert {value: count for value, count in found.items() if count > 1} == {}
    assert expected - found == Counter()
    assert found == expected
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        assert_nothing_open(admin, sink, PARTITIONS, sink)
    log(
        f"{cluster_kind} seed {seed}: all {len(found)} records once after {kills} kills {dict(chain.kinds)} in"
        f" {time.monotonic() - began:.0f} s; {every - len(found)} more were sent and are aborted"
    )
