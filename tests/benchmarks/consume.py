"""The workload ``consume``: all clients read whole topics, of every kind that :mod:`cells` lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.benchmarks import client_program, raw_loop
from tests.benchmarks.cells import APACHE, CORE, EMBEDDED, GRID, MAIN, Cell
from tests.benchmarks.clients import CLIENTS
from tests.benchmarks.java_programs import consume_with_java
from tests.benchmarks.measure import Contender, alternate, checked, child, process_cpu_s
from tests.benchmarks.results import Results, Run, Series
from tests.benchmarks.setup import Server, Setup, Topic, installed
from tests.benchmarks.tables import REFERENCE, Matrix, Table, cell_values, thousands
from tests.support.go import FRANZ_VERSION

__all__ = ["CELLS_PAGE", "GRID_PAGE", "consume", "tables"]

CELLS_PAGE, GRID_PAGE = "benchmarks", "benchmarks-grid"
#: In runs of less than a second the usual 5 s between commits would be never.
_COMMIT_MS = 200
_KEYS = ("records", "size_bytes", "checksums", "key_checksums")


def consume(setup: Setup) -> None:
    """The core cells ``rounds`` times, or with ``grid`` the other cells of the grid, once."""
    cells = [cell for cell in GRID if cell not in CORE] if setup.grid else CORE
    rounds = 1 if setup.grid else setup.rounds
    for cell in cells:
        if not setup.cells or any(word in cell.name for word in setup.cells):
            _measure(setup, cell, rounds)


def _measure(setup: Setup, cell: Cell, rounds: int) -> None:
    scope = setup.results.scope("consume", cell.name)
    names = [name for name, *_ in _contenders(setup)]
    wanted = {item.name for item in setup.wanted(Contender(name, lambda: Run("")) for name in names)}
    if all(scope.done(name, number) for name in wanted for number in range(1, rounds + 1)):
        return
    setup.say(f"{cell.broker}: {cell.title}")
    server = setup.server(cell.broker)
    topics: dict[bool, Topic] = {}
    try:
        for quick in (True, False):
            records = cell.records(quick=quick, scale=setup.scale)
            same = next((topic for topic in topics.values() if topic.records == records), None)
            topics[quick] = same or setup.fill(
                server, records, cell.size_bytes, partitions=cell.partitions, codec=cell.codec, keyed=cell.keyed
            )
        contenders = [
            Contender(
                name,
                lambda read=read, topic=topics[quick]: _with_broker(read, topic, server),  # type: ignore[misc]
                note,
            )
            for name, note, quick, read in _contenders(setup)
        ]
        alternate(setup.wanted(contenders), rounds, setup.say, scope)
    finally:
        for name in {topic.name for topic in topics.values()}:
            server.delete_topic(name)


def _with_broker(read: _Read, topic: Topic, server: Server) -> Run:
    """Read, and note the broker's processor time for a million records while the client's process was there."""
    pid = server.pid
    before = process_cpu_s(pid)
    run = read(topic)
    return replace(run, values={**run.values, "broker_cpu_s": (process_cpu_s(pid) - before) / run.amount * 1e6})


# ------------------------------------------------------------------ contenders

_Read = Callable[[Topic], Run]


def _contenders(setup: Setup) -> list[tuple[str, str, bool, _Read]]:
    """Of each: its name, a note, whether it gets the topic for quick ones, and how it reads."""
    found: list[tuple[str, str, bool, _Read]] = []
    for name, client in CLIENTS.items():
        version = installed(client.package)
        if version is not None:
            found.append((name, f"{version}, {client.note}", client.quick, _python(name)))
            if name == "pyconsumer":
                note = f"{version}, the same in a group, `subscribe`, auto-commit every {_COMMIT_MS} ms"
                found.append(("pyconsumer, group", note, True, _python(name, subscribe=True, commit_ms=_COMMIT_MS)))
    found.append((raw_loop.NAME, raw_loop.NOTE, True, _raw))
    kafka = f"Apache Kafka {setup.tools.version}"
    found[4:4] = [
        (REFERENCE, f"{kafka}, JVM warmed up by reading the topic once", True, lambda topic: _java(setup, topic)),
        (
            "Java ConsumerPerformance",
            f"{kafka}, cold, in a group, CPU of the whole process",
            True,
            lambda topic: consume_with_java(setup, topic.servers, topic.name, topic.records),
        ),
    ]
    if setup.franz is not None:
        note = f"{FRANZ_VERSION} (Go), `PollFetches`, with connecting"
        found.insert(6, ("franz-go", note, True, lambda topic: _franz(setup, topic)))
    return found


def _python(name: str, **more: Any) -> _Read:
    def read(topic: Topic) -> Run:
        found = child(client_program.__name__, {"program": "read", "client": name, **topic.arguments(), **more})
        return _run(name, found, topic)

    return read


def _raw(topic: Topic) -> Run:
    found = child(raw_loop.__name__, topic.arguments())
    checked(raw_loop.NAME, found, topic.truth, ("records",))
    return Run("", "", topic.records, found["seconds"], found["cpu_s"], found["peak_bytes"])


def _java(setup: Setup, topic: Topic) -> Run:
    return _run(REFERENCE, setup.run_java("read", **topic.arguments(), warm_ups=1), topic)


def _franz(setup: Setup, topic: Topic) -> Run:
    return _run("franz-go", setup.run_franz("read", **topic.arguments()), topic)


def _run(name: str, found: dict[str, Any], topic: Topic) -> Run:
    checked(name, found, topic.truth, _KEYS)
    return Run("", "", topic.records, found["seconds"], found["cpu_s"], found["peak_bytes"])


# ------------------------------------------------------------------ tables


def tables(results: Results) -> list[Table | Matrix]:
    """The main cell with everything. The other core cells and the grid one figure after the other."""
    found: list[Table | Matrix] = []
    main = results.scope("consume", MAIN.name).series()
    if main:
        most = max((run.amount for item in main for run in item.runs), default=0)
        text = (
            f"{most:,.0f} records of {MAIN.size_bytes} bytes without keys or compression in {MAIN.partitions} "
            "partitions (slower clients: an eighth of that), read from Apache Kafka to the last record. The time "
            "counts from `assign`, in a group from the moment at which it has its partitions. Every value is read, "
            "and the CRC-32C of each partition's values equals that of the writer."
        )
        found.append(Table("consume", "Consuming", "records/s", text, REFERENCE).take(main))
    found += _matrices(results, CORE, "consume-core", "Other topics", CELLS_PAGE)
    for broker, name in ((APACHE, "kafka"), (EMBEDDED, "embedded")):
        cells = [cell for cell in GRID if cell.broker == broker]
        if any(cell not in CORE and results.scope("consume", cell.name).series() for cell in cells):
            found += _matrices(results, cells, f"consume-grid-{name}", f"All kinds of topics, {broker}", GRID_PAGE)
    return found


_FIGURES: tuple[tuple[str, str, str, Callable[[Run], float | None], str], ...] = (
    ("rate", "", "thousand records/s", thousands, "Thousand records a second: median, and in brackets least and most."),
    (
        "cpu",
        ": processor time",
        "CPU s",
        lambda run: run.cpu_s_per_million,
        "Seconds of the client's process, all threads, for a million records.",
    ),
    (
        "broker",
        ": the broker's processor time",
        "CPU s",
        lambda run: run.values.get("broker_cpu_s"),
        (
            "Seconds of the broker's process for a million records while the client's process was there (Java, same "
            "loop, reads twice). Where both share the cores, no rate is above cores / (client's time + broker's time)."
        ),
    ),
    (
        "memory",
        ": memory",
        "MB",
        lambda run: run.peak_bytes / 1e6 if run.peak_bytes else None,
        "The most that the client's process had at any one time, interpreter or virtual machine and all.",
    ),
)


def _matrices(results: Results, cells: Sequence[Cell], name: str, title: str, page: str) -> list[Table | Matrix]:
    """A table for each figure: kinds of topics one below the other, contenders side by side."""
    with_broker = len({cell.broker for cell in cells}) > 1
    measured = {cell: series for cell in cells if (series := results.scope("consume", cell.name).series())}
    if len(measured) < 2:
        return []
    columns = list(dict.fromkeys(item.name for series in measured.values() for item in series))
    found: list[Table | Matrix] = []
    for key, more, unit, value, text in _FIGURES:
        if not any(value(run) for series in measured.values() for item in series for run in item.runs):
            continue  # older results lack it
        rows = [_row(cell, series, value, with_broker=with_broker) for cell, series in measured.items()]
        shown = [column for column in columns if any(item["cells"].get(column) for item in rows)]
        found.append(Matrix(f"{name}-{key}", f"{title}{more}", unit, text, shown, rows, page))
    return found


def _row(
    cell: Cell, series: Sequence[Series], value: Callable[[Run], float | None], *, with_broker: bool
) -> dict[str, Any]:
    title = f"{cell.title}, {cell.broker}" if with_broker and cell.broker != APACHE else cell.title
    return {"title": title, "cells": {item.name: cell_values(item, value) for item in series}}
