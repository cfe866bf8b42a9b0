"""All workloads: a function that measures each, and one that makes tables of its results."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from tests.benchmarks import consume, group_protocols, growth, latency, memory, producers, rebalance, spark, starts
from tests.benchmarks.cells import APACHE, EMBEDDED
from tests.benchmarks.java_programs import consume_with_java, produce_with_java
from tests.benchmarks.measure import ROOT, Contender, alternate, checked, child, timed
from tests.benchmarks.results import Results, Run
from tests.benchmarks.setup import Setup, installed
from tests.benchmarks.tables import Table, spread
from tests.support.process import run

__all__ = ["WORKLOADS", "Workload"]

_SIZE_BYTES, _PARTITIONS, _RECORDS = 100, 4, 1_000_000


@dataclass(frozen=True)
class Workload:
    """Something to measure.

    Attributes:
        measure: puts runs into the results, those that are not there yet.
        tables: makes tables of the runs, however many there are.
    """

    measure: Callable[[Setup], None]
    tables: Callable[[Results], list[Any]]


# ------------------------------------------------------------------ produce


@dataclass(frozen=True)
class _Shape:
    """A kind of records to write.

    Attributes:
        name: in the results.
        records: how many of them.
        java: True if Java's own tool is compared.
    """

    name: str
    size_bytes: int
    codec: str
    records: int
    java: bool = False


_SHAPES = (_Shape("", 100, "none", 1_000_000, java=True), _Shape("zstd", 1000, "zstd", 200_000))


def produce(setup: Setup) -> None:
    """Write topics with each client."""
    for shape in _SHAPES:
        _produce(setup, shape)


def _produce(setup: Setup, shape: _Shape) -> None:
    cluster = setup.apache
    servers, size = cluster.bootstrap_servers, shape.size_bytes

    def python(client: str, records: int) -> Run:
        topic, warm_up = cluster.create_topic(_PARTITIONS), cluster.create_topic(_PARTITIONS)
        found = child(
            producers.__name__,
            {
                "client": client,
                "servers": servers,
                "topic": topic,
                "warm_up_topic": warm_up,
                "records": records,
                "record_size_bytes": size,
                "codec": shape.codec,
            },
        )
        truth = setup.run_java("read", servers=servers, topic=topic, partitions=_PARTITIONS, records=records, sum=True)
        checked(client, truth, found, ("records", "sum"))
        cluster.delete_topic(topic)
        cluster.delete_topic(warm_up)
        return Run("", amount=records, seconds=found["seconds"], cpu_s=found["cpu_s"])

    def java() -> Run:
        topic = cluster.create_topic(_PARTITIONS)
        settings = ("acks=all", "linger.ms=5", "batch.size=65536")
        records = setup.scaled(shape.records)
        measured = produce_with_java(setup, servers, topic, records, size, "--command-property", *settings)
        cluster.delete_topic(topic)
        return measured

    contenders = [
        Contender(
            name,
            lambda name=name, way=way: python(name, setup.scaled(shape.records // (1 if way.is_quick else 4))),  # type: ignore[misc]
            found,
        )
        for name, way in producers.WAYS.items()
        if (found := installed(way.package)) is not None
    ]
    if shape.java:
        contenders.insert(1, Contender(_JAVA_PRODUCER, java, f"Apache Kafka {setup.tools.version}"))
    alternate(setup.wanted(contenders), setup.rounds, setup.say, setup.results.scope("produce", shape.name))


def produce_tables(results: Results) -> list[Table]:
    found = []
    for shape in _SHAPES:
        series = results.scope("produce", shape.name).series()
        if not series:
            continue
        records = max((run.amount for item in series for run in item.runs), default=0)
        size = "1 kB" if shape.size_bytes == 1000 else f"{shape.size_bytes} bytes"
        packed = "without compression" if shape.codec == "none" else f"compressed with {shape.codec}"
        text = (
            f"{records:,.0f} records of {size} without keys, {packed}, to {_PARTITIONS} partitions of Apache Kafka"
            " (from kafka-python a quarter of them). Settings: acks=all, linger 5 ms, batches of 64 KiB. The time "
            "counts from the first `send` to the end of `flush`. `send_many`, `send_arrow` and `produce_batch` take "
            "10,000 records with one call, and return one future or none. Java's consumer reads all of it afterwards, "
            "and count and checksum are compared."
        )
        alone = _JAVA_PRODUCER if shape.java else "confluent-kafka"
        for many in (False, True):
            rows = [item for item in series if _takes_many(item.name) == many]
            reference = "confluent-kafka, produce_batch" if many else alone
            title = f"Producing{' many with one call' if many else ''}, {size}{_with(shape.codec)}"
            name = "-".join(filter(None, ("produce", shape.name, "many" if many else "")))
            if rows:
                found.append(Table(name, title, "records/s", text, reference).take(rows))
    return found


_JAVA_PRODUCER = "Java ProducerPerformance"


def _takes_many(contender: str) -> bool:
    way = producers.WAYS.get(contender)
    return way is not None and way.takes_many


def _with(codec: str) -> str:
    return "" if codec == "none" else f", {codec}"


# ------------------------------------------------------------------ broker

_STEPS = {
    "write": ("Embedded broker: producing", "Java's `ProducerPerformance`"),
    "read": ("Embedded broker: consuming", "Java's `ConsumerPerformance`"),
}


def broker(setup: Setup) -> None:
    """The embedded broker and Apache Kafka, both driven by Java's programs."""
    records = setup.scaled(_RECORDS)
    there = records + records // 4  # the producer's warm-up records are in the topic, too
    topics: dict[str, str] = {}

    def write(name: str) -> Run:
        cluster = setup.server(name)
        topics[name] = cluster.create_topic(_PARTITIONS)
        return produce_with_java(setup, cluster.bootstrap_servers, topics[name], records, _SIZE_BYTES)

    def read(name: str) -> Run:
        servers, topic = setup.server(name).bootstrap_servers, topics[name]
        measured = consume_with_java(setup, servers, topic, there)
        truth = setup.run_java("read", servers=servers, topic=topic, partitions=_PARTITIONS, records=there)
        checked(name, truth, {"size_bytes": there * _SIZE_BYTES}, ("size_bytes",))
        setup.server(name).delete_topic(topics.pop(name))
        return measured

    def once(name: str) -> Run:
        """One topic: written and read."""
        written, found = write(name), read(name)
        rates = {"write": written.rate, "read": found.rate}
        return Run("", values=rates)

    contenders = [Contender(name, lambda name=name: once(name)) for name in (EMBEDDED, APACHE)]  # type: ignore[misc]
    alternate(setup.wanted(contenders), setup.rounds, setup.say, setup.results.scope("broker"))


def broker_tables(results: Results) -> list[Table]:
    series = results.scope("broker").series()
    if not series:
        return []
    return [
        Table(
            f"broker-{step}",
            title,
            "records/s",
            f"{program} with its defaults, on a broker of its own, records of {_SIZE_BYTES} bytes, {_PARTITIONS} "
            "partitions.",
            APACHE,
        ).take(series, lambda found, step=step: found.values[step])
        for step, (title, program) in _STEPS.items()
    ]


# ------------------------------------------------------------------ import


def imports(setup: Setup) -> None:
    """Return how long it takes to import a client."""
    statements = {
        "import pyconsumer": "pyconsumer",
        "from pyconsumer import KafkaConsumer": "pyconsumer",
        "from confluent_kafka import Consumer": "confluent-kafka",
        "from aiokafka import AIOKafkaConsumer": "aiokafka",
        "from kafka import KafkaConsumer": "kafka-python",
    }

    def measure(statement: str) -> Run:
        code = f"import time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"
        finished, _, _ = timed(lambda: run([sys.executable, "-c", code], cwd=ROOT).check())
        return Run("", values={"ms": 1e3 * float(finished.lines[-1])})

    contenders = [
        Contender(statement, lambda statement=statement: measure(statement))  # type: ignore[misc]
        for statement, package in statements.items()
        if installed(package) is not None
    ]
    for contender in contenders:
        contender.measure()  # compiles and fills the file cache
    alternate(contenders, max(setup.rounds, 7), setup.say, setup.results.scope("imports"))


def imports_tables(results: Results) -> list[Table]:
    series = results.scope("imports").series()
    table = Table("imports", "Import", "ms", "A fresh interpreter, files cached.", "")
    return [table.take(series, lambda found: found.values["ms"])] if series else []


# ------------------------------------------------------------------ poll

_POLL_ROWS = {
    "call_us": "the call besides its records",
    "record_us": "each record",
    "poll_1_us": "poll(max_records=1)",
    "poll_500_us": "poll(max_records=500)",
}


def poll(setup: Setup) -> None:
    """The price of a call of ``poll()`` itself."""
    scope = setup.results.scope("poll")
    if all(scope.done("poll", number) for number in range(1, setup.rounds + 1)):
        return
    records = max(40_000, setup.scaled(200_000))  # the first polls do not count
    topic = setup.fill(setup.apache, records, _SIZE_BYTES, partitions=_PARTITIONS)

    def measure() -> Run:
        found = child("tests.benchmarks.poll_cost", topic.arguments())
        return Run("", values={key: found[key] for key in _POLL_ROWS})

    try:
        alternate([Contender("poll", measure)], setup.rounds, setup.say, scope)
    finally:
        topic.delete()


def poll_tables(results: Results) -> list[Table]:
    runs = [found for item in results.scope("poll").series() for found in item.runs]
    if not runs:
        return []
    text = "`KafkaConsumer.poll` served from the buffer, medians within each run."
    table = Table("poll", "One poll() with records buffered", "us", text, "")
    for key, name in _POLL_ROWS.items():
        table.series.append({"name": name, "note": "", **spread([found.values[key] for found in runs])})
    return [table]


# ------------------------------------------------------------------ rebalance


def measure_rebalance(setup: Setup) -> None:
    """All of it, unless it has been measured."""
    if not setup.results.tables("rebalance"):
        for table in rebalance.rebalance(setup):
            setup.results.append({"workload": "rebalance", "table": asdict(table)})


def rebalance_tables(results: Results) -> list[Table]:
    return [Table(**table) for table in results.tables("rebalance")]


def measure_groups(setup: Setup) -> None:
    """All of it, unless it has been measured."""
    if not setup.results.tables("groups"):
        for table in group_protocols.group_protocols(setup):
            setup.results.append({"workload": "groups", "table": asdict(table)})


def groups_tables(results: Results) -> list[Table]:
    return [Table(**table) for table in results.tables("groups")]


WORKLOADS: dict[str, Workload] = {
    "consume": Workload(consume.consume, consume.tables),
    "produce": Workload(produce, produce_tables),
    "broker": Workload(broker, broker_tables),
    "spark": Workload(spark.measure, spark.tables),
    "latency": Workload(latency.latency, latency.latency_tables),
    "first": Workload(latency.first, latency.first_tables),
    "memory": Workload(memory.memory, memory.tables),
    "imports": Workload(imports, imports_tables),
    "poll": Workload(poll, poll_tables),
    "growth": Workload(growth.growth, growth.growth_tables),
    "starts": Workload(starts.starts, starts.starts_tables),
    "rebalance": Workload(measure_rebalance, rebalance_tables),
    "groups": Workload(measure_groups, groups_tables),
}
