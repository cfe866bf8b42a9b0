"""Typed streams whose processes are killed: each record is on exactly one side, once.

Values are of a registry, in one of the formats. Some have no id, and some have bytes behind their end. Three queries
read them. One writes structs in the same format exactly once, one writes good rows and dead letters to topics, one has
the good rows in files.

By default a process ends at one step of the sink's protocol, in the session of the tests, and each query has one
format. With ``PYCONSUMER_SPARK_KILLS`` each has all of them, and a process ends at each step.

A registry is killed then, too: a process of its own, which has a schema that the running queries do not have yet.
With ``PYCONSUMER_SPARK_CLUSTERS`` executors of a standalone cluster are killed, and a whole machine of it.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

pytest.importorskip("pyspark")

from pyconsumer import KafkaProducer
from pyconsumer.admin import KafkaAdminClient, NewTopic
from pyconsumer.broker import EmbeddedCluster
from pyconsumer.schemas import Schema, SchemaRegistryClient
from pyconsumer.spark.source import KafkaDataSource
from tests.behaviour.consumer_support import read_to_end
from tests.support.process import GuardedProcess, wait_until
from tests.support.spark_bare import workers_packages
from tests.support.spark_kills import NUMBERS, STEPS, KilledSource, killed_as_ours, plan_kill, typed_writer
from tests.support.spark_ledger import Ledger, assert_nothing_open
from tests.support.spark_standalone import Machines
from tests.support.spark_streams import SLOW_START
from tests.support.spark_topics import reader

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
PARTITIONS = 2
EVERY_STEP = bool(os.environ.get("PYCONSUMER_SPARK_KILLS"))


#: The three queries, each with a step and a format.
QUERIES = [("structs", "one ended", "json"), ("letters", "sent", "protobuf"), ("table", "decided", "avro")]
if EVERY_STEP:
    QUERIES = [(name, step, form) for name, step, _ in QUERIES for form in NUMBERS]


def varint(number: int) -> bytes:
    rest, found = number, bytearray()
    while rest > 127:
        found.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*found, rest])


def is_good(number: int) -> bool:
    return number % 7 > 1


def value_of(form: str, schema_id: int, number: int) -> bytes:
    """The value of a number. Of each seven, one has no id and one has bytes behind its end."""
    if number % 7 == 0:
        return b"x%d" % number
    made = {
        "avro": lambda: varint(number << 1),
        "json": lambda: b'{"number":%d}' % number,
        "protobuf": lambda: b"\0\x08" + varint(number),  # the first message type of the schema, and its field 1
    }
    return b"\0" + schema_id.to_bytes(4, "big") + made[form]() + (b"" if is_good(number) else b"\0")


def source_options(form: str, topic: str, registry: str) -> dict[str, object]:
    return {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "value.format": form,
        "schema.registry.url": registry,
        "onDecodeError": "null",
        "includeBytes": True,
    }


def written_options(form: str, registry: str) -> dict[str, str]:
    return {"value.format": form, "value.schema": NUMBERS[form], "schema.registry.url": registry}


def check(form: str, servers: str, topics: dict[str, str], files: Path | None, ids: dict[int, int]) -> None:
    """Each number is on one side, once. The table has it once, too, since a batch that is run again replaces it.

    Args:
        ids: the schemas of the numbers.
    """
    good = [number for number in ids if is_good(number)]
    bad = Counter(value_of(form, ids[number], number) for number in ids if not is_good(number))
    expected = {
        "structs": Counter(value_of(form, ids[number], number) for number in good),
        "letters": Counter(b'{"number":%d}' % number for number in good),
        "letters-dead": bad,
        "table-dead": bad,
    }
    for name, topic in topics.items():
        assert Counter(read_to_end(servers, topic, PARTITIONS, "read_committed")) == expected[name], name
    if files is not None:
        found = ds.dataset(sorted(files.rglob("*.parquet")), format="parquet").to_table()["number"].to_pylist()
        assert sorted(found) == good


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[str, str, SchemaRegistryClient]]:
    """A broker and a registry, in this process."""
    with (
        EmbeddedCluster(data_dir=":memory:", schema_registry=True) as cluster,
        SchemaRegistryClient(cluster.schema_registry_url) as client,
    ):
        yield cluster.bootstrap_servers, cluster.schema_registry_url, client


@pytest.fixture
def killed_source(spark: Any, tmp_path: Path) -> Iterator[Path]:
    """The plan of the kills in the sink of this session."""
    plan = tmp_path / "plan"
    spark.dataSource.register(KilledSource)
    spark.dataSource.register(killed_as_ours(plan))
    yield plan
    spark.dataSource.register(KafkaDataSource)


@pytest.mark.parametrize(("name", "step", "form"), QUERIES)
def test_a_typed_stream_whose_processes_end_at_steps(
    spark: Any,
    world: tuple[str, str, SchemaRegistryClient],
    topic_name: str,
    tmp_path: Path,
    killed_source: Path,
    name: str,
    step: str,
    form: str,
) -> None:
    servers, url, client = world
    topics = {part: f"{topic_name}-{part}" for part in (name, f"{name}-dead") if part not in ("table", "structs-dead")}
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in (topic_name, *topics.values())])
    schema_id = client.register_schema(f"{topic_name}-value", Schema(NUMBERS[form], form.upper()))
    options = {
        "sink": {"transactionalIdPrefix": topic_name},
        "topics": topics,
        "written": written_options(form, url),
    }
    if name == "structs":
        options["sink"] |= {"deliveryGuarantee": "exactly-once", "killPlan": str(killed_source)}

    def run() -> Exception | None:
        frame = reader(spark, servers, source_options(form, topic_name, url), stream=True).load()
        out = typed_writer(frame, servers, options, tmp_path, name)
        out = out.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
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

    numbers = 0
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for each in STEPS if EVERY_STEP else [step]:
            for number in range(numbers, numbers + 30):
                producer.send(topic_name, value_of(form, schema_id, number), partition=number % PARTITIONS)
            producer.flush()
            numbers += 30
            plan_kill(killed_source, each)
            error = run()
            assert error is not None, each
            assert not killed_source.exists(), (each, error)
    assert run() is None
    check(
        form,
        servers,
        topics,
        tmp_path / "output" if name == "table" else None,
        dict.fromkeys(range(numbers), schema_id),
    )
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        for topic in topics.values():
            assert_nothing_open(admin, topic, PARTITIONS, topic_name)


class OwnRegistry:
    """A registry that is a process of its own, ``pyconsumer broker``, with a folder. A restart keeps its address."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lines: list[str] = []
        self._process = self._started("0")
        self.url = self._lines[0].removeprefix("schema registry at ").strip()

    def _started(self, port: str) -> GuardedProcess:
        self._lines.clear()
        options = ["--schema-registry", port, "--data-dir", str(self._folder)]
        command = [sys.executable, "-m", "pyconsumer", "broker", "--port", "0", *options]
        process = GuardedProcess(command, on_line=self._lines.append)
        wait_until(lambda: len(self._lines) > 1 or not process.running, 60, "the registry's address")
        assert process.running, process.stderr
        return process

    def kill(self) -> None:
        self._process.kill()

    def restart(self) -> None:
        self._process = self._started(self.url.rpartition(":")[2])

    def stop(self) -> None:
        self._process.stop()


@pytest.fixture
def own_registry(tmp_path: Path) -> Iterator[OwnRegistry]:
    made = OwnRegistry(tmp_path / "registry")
    yield made
    made.stop()


@pytest.mark.skipif(not EVERY_STEP, reason="set PYCONSUMER_SPARK_KILLS=1")
def test_a_registry_that_is_killed_in_the_middle(
    spark: Any, world: tuple[str, str, SchemaRegistryClient], topic_name: str, tmp_path: Path, own_registry: OwnRegistry
) -> None:
    """Records with a new schema are on neither side while no registry knows it, and then on one, once.

    One query waits for the registry within its task. The other fails, and is started again from its checkpoint.
    """
    servers, url = world[0], own_registry.url
    polls = {"letters": 120_000, "table": 6000}
    topics = {part: f"{topic_name}-{part}" for part in ("letters", "letters-dead", "table-dead")}
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        # Each query reads with one task, so that the one that waits leaves a core to the other.
        admin.create_topics([NewTopic(topic_name, 1, 1), *(NewTopic(one, PARTITIONS, 1) for one in topics.values())])
    with SchemaRegistryClient(url) as client:
        first = client.register_schema(f"{topic_name}-value", Schema(NUMBERS["avro"]))
        second = client.register_schema("another-value", Schema(NUMBERS["avro"].replace('"N"', '"N", "doc": "2"')))
    assert first != second
    ids = {number: first if number < 30 else second for number in range(60)}

    def send(numbers: range) -> None:
        with KafkaProducer(bootstrap_servers=servers) as producer:
            for number in numbers:
                producer.send(topic_name, value_of("avro", ids[number], number))

    def start(name: str) -> Any:
        given = source_options("avro", topic_name, url) | {
            "value.schema.id": first,
            "kafkaConsumer.pollTimeoutMs": polls[name],
        }
        frame = reader(spark, servers, given, stream=True).load()
        options = {"sink": {"transactionalIdPrefix": topic_name}, "topics": topics}
        out = typed_writer(frame, servers, options, tmp_path, name)
        out = out.option("checkpointLocation", str(tmp_path / f"checkpoint-{name}"))
        return out.trigger(processingTime="100 milliseconds").start()

    def seen() -> dict[str, int]:
        """Return the number of records on each side. Of topics, only committed ones count."""
        found = {name: len(read_to_end(servers, topic, PARTITIONS, "read_committed")) for name, topic in topics.items()}
        parts = [path for path in (tmp_path / "output").glob("*") if (path / "_SUCCESS").exists()]
        return found | {"table": sum(ds.dataset(path, format="parquet").count_rows() for path in parts)}

    good, bad = (sum(is_good(number) == wanted for number in range(30)) for wanted in (True, False))
    first_half = {"letters": good, "letters-dead": bad, "table": good, "table-dead": bad}
    queries = {name: start(name) for name in polls}
    try:
        send(range(30))
        wait_until(lambda: seen() == first_half, 120, "the first records")
        own_registry.kill()
        send(range(30, 60))
        wait_until(lambda: not queries["table"].isActive, 120, "the end of the query that does not wait")
        said = str(queries["table"].exception())
        assert "the schemas of its values are missing" in said
        assert queries["letters"].isActive
        assert seen() == first_half
        own_registry.restart()
        queries["table"] = start("table")
        for query in queries.values():
            query.processAllAvailable()
    finally:
        for query in queries.values():
            query.stop()
    check("avro", servers, topics, tmp_path / "output", ids)


class Driver:
    """The process of :mod:`tests.support.spark_kills`, and the numbers of batches of its queries."""

    def __init__(self, folder: Path, servers: str, machines: Machines, mode: str, options: dict[str, Any]) -> None:
        self.batches: Counter[str] = Counter()
        self.failures: list[str] = []
        (folder / "tmp").mkdir(exist_ok=True)
        arguments = (folder, servers, machines.url, mode, json.dumps(options))
        paths = os.pathsep.join([str(ROOT), machines.environment["PYTHONPATH"]])
        self.process = GuardedProcess(
            [sys.executable, "-m", "tests.support.spark_kills", *map(str, arguments)],
            on_line=self._on_line,
            env=machines.environment | {"PYTHONPATH": paths, "TMPDIR": str(folder / "tmp")},
            cwd=ROOT,
        )

    def _on_line(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "batch":
            self.batches[rest.split()[0]] += 1
        elif word == "failed":
            self.failures.append(rest)

    @property
    def told(self) -> str:
        return f"{self.failures[-2:]} {self.process.stderr[-3000:]}"

    def wait_for_batches(self, names: list[str]) -> None:
        """Wait until each query has finished two more batches."""
        wanted = {name: self.batches[name] + 2 for name in names}

        def are_done() -> bool:
            assert self.process.running, self.told
            return all(self.batches[name] >= count for name, count in wanted.items())

        wait_until(are_done, 300, "two batches of each query")


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """Two machines on which nothing of ours is installed. The driver's own processes have all that is here."""
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$PWD" in */app-*) exec {sys.executable} -S "$@" ;; esac\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    made = Machines(tmp_path, python, workers_packages(tmp_path))
    try:
        for _ in range(2):
            made.add(cores=2, memory="1g")
        yield made
    finally:
        made.stop()


@pytest.mark.skipif(not os.environ.get("PYCONSUMER_SPARK_CLUSTERS"), reason="set PYCONSUMER_SPARK_CLUSTERS=1")
@pytest.mark.timeout(1200)
def test_executors_and_a_machine_that_are_killed(
    world: tuple[str, str, SchemaRegistryClient], topic_name: str, tmp_path: Path, machines: Machines
) -> None:
    servers, url, client = world
    names = ["letters", "table"]
    topics = {part: f"{topic_name}-{part}" for part in ("letters", "letters-dead", "table-dead")}
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in (topic_name, *topics.values())])
    schema_id = client.register_schema(f"{topic_name}-value", Schema(NUMBERS["avro"]))
    options = {
        "queries": names,
        "source": source_options("avro", topic_name, url) | {"maxOffsetsPerTrigger": 400},
        "sink": {"transactionalIdPrefix": topic_name},
        "topics": topics,
        "session": {"spark.executor.cores": "2", "spark.executor.memory": "600m"},
    }
    ledger = Ledger(servers, topic_name, PARTITIONS, lambda number: value_of("avro", schema_id, number))
    try:
        driver = Driver(tmp_path, servers, machines, "running", options)
        try:
            for kill in (
                machines.kill_a_python,
                machines.kill_an_executor,
                machines.kill_a_machine,
                machines.kill_an_executor,
                machines.kill_a_python,
            ):
                driver.wait_for_batches(names)
                time.sleep(random.uniform(0, 0.6))
                kill()
                if kill == machines.kill_a_machine:
                    machines.add(cores=2, memory="1g")
            driver.wait_for_batches(names)
        finally:
            driver.process.kill()
    finally:
        ledger.stop()
    assert ledger.failed == []
    options["source"] |= {"maxOffsetsPerTrigger": 100_000}
    driver = Driver(tmp_path, servers, machines, "available", options)
    try:
        wait_until(lambda: not driver.process.running, 400, "the rest")
        assert driver.process.returncode == 0, driver.told
    finally:
        driver.process.stop()
    numbers = sorted(ledger.acknowledged.values())
    check("avro", servers, topics, tmp_path / "output", dict.fromkeys(numbers, schema_id))
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        for topic in topics.values():
            assert_nothing_open(admin, topic, PARTITIONS, topic_name)
