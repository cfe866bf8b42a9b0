"""The workloads: what is compared with what. Each returns a :class:`Table`."""

from __future__ import annotations

import itertools
import re
import statistics
import sys
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyconsumer
from pyconsumer.broker import EmbeddedCluster
from tests.benchmarks import consumers, producers
from tests.benchmarks.measure import ROOT, Contender, Run, Series, WrongAnswerError, alternate, checked, child, timed
from tests.support.apache_kafka import ApacheKafka
from tests.support.java import KafkaTools, tools
from tests.support.process import run
from tests.support.raw_client import RawClient

__all__ = ["WORKLOADS", "Setup", "Table"]

_JAVA_CONSUMER = Path(__file__).with_name("WarmConsumer.java")
_NUMBERS = itertools.count(1)


@dataclass
class Table:
    """The outcome of a workload, ready to be shown on a page of the documentation."""

    name: str
    title: str
    unit: str
    text: str
    reference: str
    series: list[dict[str, Any]] = field(default_factory=list)
    page: str = "benchmarks"

    def take(self, series: list[Series]) -> Table:
        self.series = [item.as_dict() for item in series]
        return self


@dataclass(frozen=True)
class Server:
    """A running cluster, as both kinds of it look here."""

    cluster: ApacheKafka | EmbeddedCluster

    @property
    def bootstrap_servers(self) -> str:
        return self.cluster.bootstrap_servers

    def create_topic(self, name: str, partitions: int) -> str:
        with closing(RawClient(self.bootstrap_servers, timeout_s=60)) as client:
            client.create_topic(name, partitions)
        return name

    def delete_topic(self, name: str) -> None:
        with closing(RawClient(self.bootstrap_servers, timeout_s=60)) as client:
            client.delete_topic(name)

    def stop(self) -> None:
        self.cluster.stop()


@dataclass
class Setup:
    """What all workloads share. Apache Kafka is started when it is first needed.

    Attributes:
        records: per partition.
        record_size_bytes: of each value; there are no keys.
    """

    partitions: int
    records: int
    record_size_bytes: int
    rounds: int
    say: Callable[[str], None]
    only: tuple[str, ...] = ()
    _apache: Server | None = None

    @property
    def total(self) -> int:
        return self.partitions * self.records

    @property
    def tools(self) -> KafkaTools:
        return tools()

    @property
    def apache(self) -> Server:
        if self._apache is None:
            self.say("starting Apache Kafka")
            server = ApacheKafka()
            try:
                server.start()
            except BaseException:
                server.stop()
                raise
            self._apache = Server(server)
        return self._apache

    def stop(self) -> None:
        if self._apache is not None:
            self._apache.stop()
            self._apache = None

    def topic(self, cluster: Server) -> str:
        return cluster.create_topic(f"bench-{uuid.uuid4().hex[:6]}-{next(_NUMBERS)}", self.partitions)

    def wanted(self, contenders: list[Contender]) -> list[Contender]:
        """Those that the user asked for; all without a wish."""
        chosen = [item for item in contenders if not self.only or any(word in item.name for word in self.only)]
        return chosen or contenders


def installed(distribution: str) -> str | None:
    """The version of a package, or None."""
    if distribution == "pyconsumer":
        return pyconsumer.__version__
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _python_clients(names: list[str]) -> list[tuple[str, str]]:
    """Those that are installed, with their version."""
    return [(name, found) for name in names if (found := installed(name.partition(",")[0])) is not None]


# ------------------------------------------------------------------ Java's programs


def produce_with_java(setup: Setup, servers: str, topic: str, records: int, *extra: str) -> Run:
    """Java's ``ProducerPerformance``; its own figure, without its warm-up records."""
    warm_up = records // 4
    finished, _, cpu = timed(
        lambda: setup.tools.run(
            "ProducerPerformance",
            *("--bootstrap-server", servers, "--topic", topic, "--throughput", "-1"),
            *("--num-records", str(records + warm_up), "--warmup-records", str(warm_up)),
            *("--record-size", str(setup.record_size_bytes)),
            *extra,
            timeout_s=600,
            quick=False,
        )
    )
    everything = re.findall(r"^(\d+) records sent, ", finished.stdout, re.MULTILINE)
    steady = re.search(r"^(\d+) steady state records sent, ([\d.]+) records/sec", finished.stdout, re.MULTILINE)
    if not everything or int(everything[-1]) != records + warm_up or steady is None or int(steady[1]) != records:
        raise WrongAnswerError(f"ProducerPerformance did not send {records + warm_up} records:\n{finished.stdout}")
    # Its processor time is that of the whole process, so it is divided by all that it sent.
    return Run(records, records / float(steady[2]), cpu * records / (records + warm_up))


def consume_with_java(setup: Setup, servers: str, topic: str, records: int) -> Run:
    """Java's ``ConsumerPerformance``; its own figure, without the time until the group was formed."""
    finished, _, cpu = timed(
        lambda: setup.tools.run(
            "ConsumerPerformance",
            *("--bootstrap-server", servers, "--topic", topic, "--num-records", str(records), "--hide-header"),
            *("--timeout", "30000"),
            timeout_s=600,
            quick=False,
        )
    )
    fields = [text.strip() for text in finished.lines[-1].split(",")]
    if int(fields[4]) < records:
        raise WrongAnswerError(f"ConsumerPerformance read {fields[4]} of {records} records")
    return Run(records, int(fields[4]) / float(fields[9]) * records / int(fields[4]), cpu)


def read_with_java(
    setup: Setup, servers: str, topic: str, records: int, *, warm_ups: int = 0, each: bool = False
) -> dict[str, Any]:
    """Java's consumer in a program of ours, which also says what it read (see ``WarmConsumer.java``)."""
    import json

    command = [*setup.tools.java(quick=False), str(_JAVA_CONSUMER), servers, topic]
    command += [str(setup.partitions), str(records), str(warm_ups), *(["sum"] if each else [])]
    finished = run(command, timeout_s=600).check()
    answer: dict[str, Any] = json.loads(finished.lines[-1])
    return answer


# ------------------------------------------------------------------ workloads


def consume(setup: Setup) -> Table:
    """Read a whole topic by ``assign``."""
    cluster = setup.apache
    topic, servers, total = setup.topic(cluster), cluster.bootstrap_servers, setup.total
    setup.say(f"writing {total:,} records")
    setup.tools.run(
        "ProducerPerformance",
        *("--bootstrap-server", servers, "--topic", topic, "--throughput", "-1", "--num-records", str(total)),
        *("--record-size", str(setup.record_size_bytes)),
        *("--command-property", "partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner"),
        timeout_s=600,
        quick=False,
    )
    truth = read_with_java(setup, servers, topic, total)
    keys = ("records", "size_bytes", "checksums")
    checked("Java's consumer", truth, {"records": total, "size_bytes": total * setup.record_size_bytes}, keys[:2])

    def python(client: str) -> Run:
        found = child(
            consumers.__name__,
            {
                "client": client,
                "servers": servers,
                "topic": topic,
                "partitions": setup.partitions,
                "records": total,
            },
        )
        checked(client, found, truth, keys)
        return Run(total, found["seconds"], found["cpu_s"])

    def warm_java() -> Run:
        found = read_with_java(setup, servers, topic, total, warm_ups=1)
        checked("Java's consumer", found, truth, keys)
        return Run(total, found["seconds"], found["cpu_s"])

    notes = {
        "pyconsumer": "`poll()`, compiled decoder",
        "pyconsumer, pure Python": "`poll()`, `PYCONSUMER_PURE=1`",
        "pyconsumer, columns": "`poll_arrow()`",
        "confluent-kafka": "`consume(1000)`, tuned queue",
        "aiokafka": "`getmany()`",
        "kafka-python": "`poll()`",
    }
    kafka = f"Apache Kafka {setup.tools.version}"
    contenders = [
        Contender("Java, same loop", warm_java, f"{kafka}; JVM warmed up by reading the topic once"),
        Contender(
            "Java ConsumerPerformance", lambda: consume_with_java(setup, servers, topic, total), f"{kafka}; cold"
        ),
    ]
    for name, found in _python_clients(list(consumers.CLIENTS)):
        contenders.insert(
            0 if name == "pyconsumer" else len(contenders),
            Contender(name, lambda name=name: python(name), f"{found}, {notes[name]}"),  # type: ignore[misc]
        )
    table = Table(
        "consume",
        "Consuming",
        "records/s",
        f"{total:,} records of {setup.record_size_bytes} bytes without keys or compression in {setup.partitions} "
        "partitions, read from Apache Kafka by `assign` to the last record. Every value is read; the CRC-32C of each "
        "partition's values is the same for all.",
        "Java, same loop",
    )
    result = table.take(alternate(setup.wanted(contenders), setup.rounds, setup.say))
    cluster.delete_topic(topic)
    return result


def produce(setup: Setup) -> Table:
    """Write a topic."""
    cluster = setup.apache
    servers = cluster.bootstrap_servers
    records = max(1000, setup.total // 4)

    def python(client: str) -> Run:
        topic, warm_up = setup.topic(cluster), setup.topic(cluster)
        found = child(
            producers.__name__,
            {
                "client": client,
                "servers": servers,
                "topic": topic,
                "warm_up_topic": warm_up,
                "records": records,
                "record_size_bytes": setup.record_size_bytes,
            },
        )
        truth = read_with_java(setup, servers, topic, records, each=True)
        checked(client, truth, found, ("records", "sum"))
        cluster.delete_topic(topic)
        cluster.delete_topic(warm_up)
        return Run(records, found["seconds"], found["cpu_s"])

    def java() -> Run:
        topic = setup.topic(cluster)
        settings = ("acks=all", "linger.ms=5", "batch.size=65536")
        measured = produce_with_java(setup, servers, topic, records, "--command-property", *settings)
        cluster.delete_topic(topic)
        return measured

    contenders = [
        Contender(name, lambda name=name: python(name), found)  # type: ignore[misc]
        for name, found in _python_clients(list(producers.CLIENTS))
    ]
    contenders.insert(1, Contender("Java ProducerPerformance", java, f"Apache Kafka {setup.tools.version}"))
    table = Table(
        "produce",
        "Producing",
        "records/s",
        f"{records:,} records of {setup.record_size_bytes} bytes without keys or compression, to {setup.partitions} "
        "partitions of Apache Kafka: acks=all, linger 5 ms, batches of 64 KiB, from the first `send` to the end of "
        "`flush`. Java's consumer reads all of it afterwards, and count and checksum are compared.",
        "Java ProducerPerformance",
    )
    return table.take(alternate(setup.wanted(contenders), setup.rounds, setup.say))


def broker(setup: Setup) -> list[Table]:
    """The embedded broker and Apache Kafka, both driven by Java's programs."""
    server = EmbeddedCluster()
    server.start()
    clusters = {"Apache Kafka": setup.apache, "embedded broker": Server(server)}
    total = setup.total
    topics: dict[str, str] = {}

    def write(name: str) -> Run:
        cluster = clusters[name]
        topics[name] = setup.topic(cluster)
        return produce_with_java(setup, cluster.bootstrap_servers, topics[name], total)

    def read(name: str) -> Run:
        cluster = clusters[name]
        there = total + total // 4  # the producer's warm-up records are in the topic, too
        measured = consume_with_java(setup, cluster.bootstrap_servers, topics[name], there)
        truth = read_with_java(setup, cluster.bootstrap_servers, topics[name], there)
        checked(name, truth, {"size_bytes": there * setup.record_size_bytes}, ("size_bytes",))
        return measured

    series = {(name, step): Series(name) for step in ("write", "read") for name in clusters}
    try:
        for number in range(1, setup.rounds + 1):
            for step, action in (("write", write), ("read", read)):
                for name in clusters:
                    measured = action(name)
                    series[name, step].runs.append(Run(measured.amount, measured.seconds))
                    setup.say(f"  round {number}: {name}, {step}: {measured.rate:,.0f}/s")
            for name, cluster in clusters.items():
                cluster.delete_topic(topics.pop(name))
    finally:
        server.stop()
    size = f"{total:,} records of {setup.record_size_bytes} bytes, {setup.partitions} partitions"
    return [
        Table(
            f"broker-{step}",
            title,
            "records/s",
            f"{program} with its defaults, on a broker of its own; {size}.",
            "Apache Kafka",
        ).take([series[name, step] for name in reversed(clusters)])
        for step, title, program in (
            ("write", "Embedded broker: producing", "Java's `ProducerPerformance`"),
            ("read", "Embedded broker: consuming", "Java's `ConsumerPerformance`"),
        )
    ]


def imports(setup: Setup) -> Table:
    """How long it takes to import a client."""
    statements = {
        "import pyconsumer": "pyconsumer",
        "from pyconsumer import KafkaConsumer": "pyconsumer",
        "from confluent_kafka import Consumer": "confluent-kafka",
        "from aiokafka import AIOKafkaConsumer": "aiokafka",
        "from kafka import KafkaConsumer": "kafka-python",
    }

    def measure(statement: str) -> Run:
        code = f"import time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"
        finished, _, cpu = timed(lambda: run([sys.executable, "-c", code], cwd=ROOT).check())
        return Run(1, float(finished.lines[-1]), cpu)

    contenders = [
        Contender(statement, lambda statement=statement: measure(statement))  # type: ignore[misc]
        for statement, package in statements.items()
        if installed(package) is not None
    ]
    for contender in contenders:
        contender.measure()  # compiles and fills the file cache
    found = alternate(contenders, max(setup.rounds, 7), lambda _: None)
    table = Table("imports", "Import", "ms", "A fresh interpreter, files cached.", "")
    for item in found:
        times = [run.seconds * 1e3 for run in item.runs]
        table.series.append(
            {"name": item.name, "note": "", "median": statistics.median(times), "min": min(times), "max": max(times)}
        )
        setup.say(f"  {item.name}: {statistics.median(times):.0f} ms")
    return table


def poll(setup: Setup) -> Table:
    """The price of a call of ``poll()`` itself."""
    cluster = setup.apache
    topic, servers = setup.topic(cluster), cluster.bootstrap_servers
    records = min(setup.total, 200_000)
    setup.tools.run(
        "ProducerPerformance",
        *("--bootstrap-server", servers, "--topic", topic, "--throughput", "-1", "--num-records", str(records)),
        *("--record-size", str(setup.record_size_bytes)),
        timeout_s=300,
    )
    runs = []
    for number in range(1, setup.rounds + 1):
        found = child(
            "tests.benchmarks.poll_cost",
            {"servers": servers, "topic": topic, "partitions": setup.partitions, "records": records},
        )
        runs.append(found)
        setup.say(f"  round {number}: {found['call_us']:.1f} us a call, {found['record_us']:.2f} us a record")
    cluster.delete_topic(topic)
    table = Table(
        "poll",
        "One poll() with records buffered",
        "us",
        "`KafkaConsumer.poll` served from the buffer; medians within each run.",
        "",
    )
    for name, key in (
        ("the call besides its records", "call_us"),
        ("each record", "record_us"),
        ("poll(max_records=1)", "poll_1_us"),
        ("poll(max_records=500)", "poll_500_us"),
    ):
        values = [found[key] for found in runs]
        table.series.append(
            {
                "name": name,
                "note": "",
                "median": statistics.median(values),
                "min": min(values),
                "max": max(values),
            }
        )
    return table


WORKLOADS: dict[str, Callable[[Setup], Table | list[Table]]] = {
    "consume": consume,
    "produce": produce,
    "broker": broker,
    "imports": imports,
    "poll": poll,
}
