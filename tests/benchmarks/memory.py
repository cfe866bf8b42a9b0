"""The workload ``memory``: the memory of a consumer of large records, and whether it grows."""

from __future__ import annotations

import statistics
from typing import Any

from tests.benchmarks import client_program
from tests.benchmarks.clients import CLIENTS
from tests.benchmarks.measure import Contender, alternate, checked, child
from tests.benchmarks.results import Results, Run
from tests.benchmarks.setup import Setup, Topic, installed
from tests.benchmarks.tables import Table
from tests.support.go import FRANZ_VERSION

__all__ = ["memory", "tables"]

_PARTITIONS, _SIZE_BYTES, _RECORDS, _PASSES = 100, 1_000_000, 1000, 5
_MIB = 1 << 20
#: Beyond ``fetch_buffer_bytes``, as the target says.
_ALLOWED_MB = 50

#: Of ours: its client, what its program is told besides, and what ``fetch_buffer_bytes`` is.
_OURS: dict[str, tuple[str, dict[str, Any], int]] = {
    "pyconsumer": ("pyconsumer", {}, 100 * _MIB),
    "pyconsumer, in a group": ("pyconsumer", {"subscribe": True}, 100 * _MIB),
    "pyconsumer, 16 MiB": ("pyconsumer", {"settings": {"fetch_buffer_bytes": 16 * _MIB}}, 16 * _MIB),
    "pyconsumer, columns": ("pyconsumer, columns", {}, 100 * _MIB),
}
_OTHERS = ("confluent-kafka, defaults", "aiokafka", "kafka-python")


def memory(setup: Setup) -> None:
    """Read a topic of large records several times."""
    scope = setup.results.scope("memory")
    contenders = setup.wanted(_contenders(setup, None))
    rounds = min(setup.rounds, 3)
    if all(scope.done(item.name, number) for item in contenders for number in range(1, rounds + 1)):
        return
    records = max(_PARTITIONS, setup.scaled(_RECORDS) // _PARTITIONS * _PARTITIONS)
    topic = setup.fill(setup.apache, records, _SIZE_BYTES, partitions=_PARTITIONS)
    try:
        alternate(setup.wanted(_contenders(setup, topic)), rounds, setup.say, scope)
    finally:
        topic.delete()


def _contenders(setup: Setup, topic: Topic | None) -> list[Contender]:
    """Without a topic they are good for their names."""
    arguments = topic.arguments() if topic else {}

    def run(found: dict[str, Any]) -> Run:
        assert topic is not None
        checked("the reading", found, topic.truth, ("records", "checksums"))
        peaks, before = [peak / 1e6 for peak in found["peaks_bytes"]], found["before_bytes"] / 1e6
        return Run("", values={"growth": max(peaks) - before, "peak": max(peaks), "first": peaks[0], "last": peaks[-1]})

    def python(client: str, more: dict[str, Any]) -> Run:
        told = {"program": "memory", "client": client, "passes": _PASSES, **more, **arguments}
        return run(child(client_program.__name__, told))

    found = []
    for name, (client, more, buffer) in _OURS.items():
        note = f"{installed('pyconsumer')}, `fetch_buffer_bytes` {buffer / 1e6:.0f} MB, target: {_bound(buffer):.0f}"
        found.append(Contender(name, lambda client=client, more=more: python(client, more), note))  # type: ignore[misc]
    java = {"passes": _PASSES, **arguments}
    found.append(
        Contender("Java", lambda: run(setup.run_java("memory", **java)), f"Apache Kafka {setup.tools.version}")
    )
    if setup.franz is not None:
        note = f"{FRANZ_VERSION} (Go)"
        found.append(Contender("franz-go", lambda: run(setup.run_franz("memory", **java)), note))
    for name in _OTHERS:
        version = installed(CLIENTS[name].package)
        if version is not None:
            found.append(Contender(name, lambda name=name: python(name, {}), version))  # type: ignore[misc]
    return found


def _bound(buffer_bytes: int) -> float:
    return buffer_bytes / 1e6 + _ALLOWED_MB


def tables(results: Results) -> list[Table]:
    series = results.scope("memory").series()
    if not series:
        return []
    text = (
        f"A topic of {_RECORDS:,} records of {_SIZE_BYTES / 1e6:g} MB in {_PARTITIONS} partitions of Apache Kafka, "
        f"read {_PASSES} times. The figure is the largest growth of the process, compared with one that has imported "
        "everything and has made and closed one consumer. Each record is dropped before the next call."
    )
    table = Table("memory", "Memory", "MB", text, "").take(series, lambda run: run.values["growth"])
    for item, row in zip(series, table.series, strict=True):
        if item.runs:
            peak, first, last = (
                statistics.median(run.values[name] for run in item.runs) for name in ("peak", "first", "last")
            )
            row["note"] += f", whole process: {peak:.0f} MB, first pass {first:.0f}, last {last:.0f}"
    return [table]
