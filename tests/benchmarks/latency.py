"""Two workloads of waiting: ``latency``, how long a record is on its way, and ``first``, how long a consumer starts."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.benchmarks import client_program
from tests.benchmarks.clients import CLIENTS
from tests.benchmarks.measure import Contender, alternate, child
from tests.benchmarks.results import Results, Run
from tests.benchmarks.setup import Setup, installed
from tests.benchmarks.tables import Table
from tests.support.go import FRANZ_VERSION
from tests.support.process import GuardedProcess, wait_until

__all__ = ["first", "first_tables", "latency", "latency_tables"]

_SIZE_BYTES, _PARTITIONS = 100, 4
_RATE = 1000
_WARM_UP_S, _MEASURED_S = 3.0, 5.0
_TIMES = 10
#: Java comes right after ours; it is what the others are set in relation to.
_PYTHON = ("pyconsumer", "confluent-kafka", "aiokafka", "kafka-python")
_NOTES = {"confluent-kafka": "`consume(1)`"}


def _contenders(setup: Setup, program: str, arguments: dict[str, Any], run: Callable[[Any], Run]) -> list[Contender]:
    """Every client, made to run one of the programs."""

    def python(name: str) -> Run:
        return run(child(client_program.__name__, {"program": program, "client": name, **arguments}))

    found = []
    for name in _PYTHON:
        version = installed(CLIENTS[name].package)
        if version is not None:
            note = _NOTES.get(name, CLIENTS[name].note) if program == "latency" else ""
            text = ", ".join(part for part in (version, note.removesuffix(", compiled decoder")) if part)
            found.append(Contender(name, lambda name=name: python(name), text))  # type: ignore[misc]
    java = Contender("Java", lambda: run(setup.run_java(program, **arguments)), f"Apache Kafka {setup.tools.version}")
    found.insert(1, java)
    if setup.franz is not None:
        text = f"{FRANZ_VERSION} (Go)"
        found.insert(2, Contender("franz-go", lambda: run(setup.run_franz(program, **arguments)), text))
    return found


# ------------------------------------------------------------------ latency


def latency(setup: Setup) -> None:
    """All clients read from the same topic at the same slow rate, one after the other."""
    server = setup.apache
    scope = setup.results.scope("latency")
    topic = server.create_topic(_PARTITIONS)
    arguments = {
        "servers": server.bootstrap_servers,
        "topic": topic,
        "partitions": _PARTITIONS,
        "records": setup.scaled(int(_RATE * _MEASURED_S)),
        "warm_up_s": _WARM_UP_S * min(1.0, setup.scale),
    }

    def run(found: dict[str, Any]) -> Run:
        values = {name: value for name, value in found.items() if name.endswith("_ms")}
        return Run("", amount=found["records"], cpu_s=found["cpu_s"], values=values)

    contenders = setup.wanted(_contenders(setup, "latency", arguments, run))
    if all(scope.done(item.name, number) for item in contenders for number in range(1, setup.rounds + 1)):
        return
    with _ticks(setup, server.bootstrap_servers, topic):
        alternate(contenders, setup.rounds, setup.say, scope)
    server.delete_topic(topic)


@contextmanager
def _ticks(setup: Setup, servers: str, topic: str) -> Iterator[None]:
    """Java's producer writes all the time, and has been at it for a second when this begins."""
    command = setup.java("TopicWriter", "tick", servers, topic, str(_PARTITIONS), str(_RATE), str(_SIZE_BYTES))
    with GuardedProcess(command) as process:
        wait_until(lambda: "ready" in process.stdout or not process.running, 60, "records at a fixed rate")
        yield
        process.write("stop\n")
        process.wait(30)
    if process.returncode:
        raise AssertionError(f"the producer failed:\n{process.stderr}")


def latency_tables(results: Results) -> list[Table]:
    series = results.scope("latency").series()
    if not series:
        return []
    how = (
        f"From the `send` of a Java producer without linger, {_RATE:,} records of {_SIZE_BYTES} bytes a second in "
        f"{_PARTITIONS} partitions of Apache Kafka. Measured to the return of the call that returns the record, by the "
        "same clock. Default settings. CPU: the consumer's process."
    )
    found = []
    for share, text in (("p50", how), ("p99", "One record in a hundred waits longer than this.")):
        table = Table(f"latency-{share}", f"Latency end to end, {share}", "ms", text, "Java")
        found.append(table.take(series, lambda run, share=share: run.values[f"{share}_ms"]))
    return found


# ------------------------------------------------------------------ first record


def first(setup: Setup) -> None:
    """From making a consumer to its first record, by ``assign`` and by ``subscribe``."""
    scopes = {how: setup.results.scope("first", how) for how in ("assign", "subscribe")}
    topic = setup.fill(setup.apache, setup.scaled(10_000), _SIZE_BYTES, partitions=_PARTITIONS)

    def run(found: dict[str, Any]) -> Run:
        return Run("", values={"first_ms": found["first_ms"], "next_ms": statistics.median(found["next_ms"])})

    try:
        for how, scope in scopes.items():
            setup.say(f"  {how}")
            arguments = topic.arguments() | {"times": _TIMES, "subscribe": how == "subscribe"}
            contenders = setup.wanted(_contenders(setup, "first", arguments, run))
            alternate(contenders, setup.rounds, setup.say, scope)
    finally:
        topic.delete()


def first_tables(results: Results) -> list[Table]:
    found = []
    texts = {
        "assign": f"From before the consumer is made to its first record, in a process that has made one before. "
        f"Medians of {_TIMES}.",
        "subscribe": "The same as the only member of a new group: coordinator, join, sync, committed offsets. The "
        "broker does not wait for more members (`group.initial.rebalance.delay.ms=0`).",
    }
    for how, text in texts.items():
        series = results.scope("first", how).series()
        if series:
            table = Table(f"first-{how}", f"Time to the first record, {how}", "ms", text, "Java")
            table.take(series, lambda run: run.values["next_ms"])
            for item, row in zip(series, table.series, strict=True):
                if item.runs:
                    first_ms = statistics.median(run.values["first_ms"] for run in item.runs)
                    row["note"] += f", the process's first one: {first_ms:,.0f} ms"
            found.append(table)
    return found
