"""The workload ``growth``: the cost of one more partition for a consumer, and of one more connection for a broker.

Consumers read the same number of records from 1 to 10,000 partitions, and are timed from their construction to the
first record. Brokers get 10 to 5,000 connections, of which each sends one request after another.
"""

from __future__ import annotations

import json
import selectors
import socket
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyconsumer.protocol.api import encode_request
from pyconsumer.protocol.messages.api_versions import ApiVersionsRequest
from tests.benchmarks import client_program
from tests.benchmarks.cells import APACHE, EMBEDDED
from tests.benchmarks.clients import CLIENTS
from tests.benchmarks.measure import Contender, alternate, checked, child, process_cpu_s
from tests.benchmarks.results import Results, Run
from tests.benchmarks.setup import Setup, Topic, installed
from tests.benchmarks.tables import Matrix, cell_values
from tests.support.go import FRANZ_VERSION

__all__ = ["PAGE", "growth", "growth_tables"]

PAGE = "benchmarks-growth"
_PARTITIONS = (1, 10, 100, 1000, 10_000)
_CONNECTIONS = (10, 100, 1000, 5000)
_RECORDS, _SIZE_BYTES = 200_000, 100
_TIMES = 3
_EXCHANGES = 20_000
_PYTHON = ("pyconsumer", "confluent-kafka")


def growth(setup: Setup) -> None:
    """Consumers by their partitions, then brokers by their connections."""
    rounds = min(setup.rounds, 3)
    server = setup.server(EMBEDDED)
    for partitions in _PARTITIONS:
        scope = setup.results.scope("growth", f"{partitions} partitions")
        names = [item.name for item in setup.wanted(_consumers(setup, None))]
        if all(scope.done(name, number) for name in names for number in range(1, rounds + 1)):
            continue
        setup.say(f"  {partitions:,} partitions")
        records = max(partitions, setup.scaled(_RECORDS) // partitions * partitions)
        topic = setup.fill(server, records, _SIZE_BYTES, partitions=partitions)
        try:
            alternate(setup.wanted(_consumers(setup, topic)), rounds, setup.say, scope)
        finally:
            topic.delete()
    for connections in _CONNECTIONS:
        setup.say(f"  {connections:,} connections")
        scope = setup.results.scope("growth", f"{connections} connections")
        alternate(setup.wanted(_brokers(setup, connections)), rounds, setup.say, scope)


def _consumers(setup: Setup, topic: Topic | None) -> list[Contender]:
    """Without a topic they are good for their names."""

    def run(read: Callable[[str], dict[str, Any]]) -> Run:
        assert topic is not None
        found, first = read("read"), read("first")
        checked("the reading", found, topic.truth, ("records", "checksums"))
        values = {"first_ms": statistics.median(first["next_ms"])}
        return Run("", "", topic.records, found["seconds"], found["cpu_s"], found["peak_bytes"], values)

    arguments = topic.arguments() | {"times": _TIMES, "subscribe": False} if topic else {}

    def python(name: str) -> Run:
        module = client_program.__name__
        return run(lambda program: child(module, {"program": program, "client": name, **arguments}))

    found = []
    for name in _PYTHON:
        version = installed(CLIENTS[name].package)
        if version is not None:
            found.append(Contender(name, lambda name=name: python(name), version))  # type: ignore[misc]
    java = Contender("Java", lambda: run(lambda program: setup.run_java(program, **arguments)), setup.tools.version)
    found.append(java)
    if setup.franz is not None:
        franz = Contender(
            "franz-go", lambda: run(lambda program: setup.run_franz(program, **arguments)), f"{FRANZ_VERSION} (Go)"
        )
        found.append(franz)
    return found


# ------------------------------------------------------------------ connections


def _brokers(setup: Setup, connections: int) -> list[Contender]:
    def run(kind: str) -> Run:
        server = setup.server(kind)
        told = {"servers": server.bootstrap_servers, "connections": connections, "exchanges": _EXCHANGES}
        found = child(__name__, told | {"pid": server.pid})
        values = {"median_ms": found["median_ms"], "memory_mb": found["memory_mb"]}
        return Run("", "", found["exchanges"], found["seconds"], found["broker_cpu_s"], None, values)

    names = {"embedded broker": EMBEDDED, "Apache Kafka": APACHE}
    return [Contender(name, lambda kind=kind: run(kind), "") for name, kind in names.items()]  # type: ignore[misc]


def _memory_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    raise AssertionError("a process without memory")


def exchanges(arguments: dict[str, Any]) -> dict[str, Any]:
    """Requests on many connections, sixteen of them at a time, each connection in turn. Run as a child process."""
    host, _, port = arguments["servers"].partition(",")[0].rpartition(":")
    pid, wanted = arguments["pid"], arguments["exchanges"]
    request = b"".join(encode_request(ApiVersionsRequest(client_software_name="growth"), 3, 1, "growth"))
    before = _memory_mb(pid)
    links = [socket.create_connection((host, int(port)), 30) for _ in range(arguments["connections"])]
    selector = selectors.DefaultSelector()
    for link in links:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(link, selectors.EVENT_READ)
        link.sendall(request)
        _frame(link)
    sent_at: dict[Any, float] = {}
    times: list[float] = []
    cpu, start, turn = process_cpu_s(pid), time.perf_counter(), 0
    while len(times) < wanted:
        while len(sent_at) < min(16, len(links)) and len(times) + len(sent_at) < wanted:
            link = links[turn % len(links)]
            turn += 1
            if link in sent_at:
                continue
            sent_at[link] = time.perf_counter()
            link.sendall(request)
        for key, _ in selector.select(30):
            _frame(key.fileobj)
            times.append(time.perf_counter() - sent_at.pop(key.fileobj))
    seconds = time.perf_counter() - start
    found = {
        "exchanges": len(times),
        "seconds": seconds,
        "broker_cpu_s": process_cpu_s(pid) - cpu,
        "median_ms": 1e3 * statistics.median(times),
        "memory_mb": _memory_mb(pid) - before,
    }
    for link in links:
        link.close()
    return found


def _frame(link: Any) -> None:
    """Read one response."""
    left = 4
    size = b""
    while left:
        data = link.recv(left)
        if not data:
            raise ConnectionError("the broker closed a connection")
        if len(size) < 4:
            size += data
            left -= len(data)
            if not left:
                left = int.from_bytes(size, "big")
        else:
            left -= len(data)


# ------------------------------------------------------------------ tables


def growth_tables(results: Results) -> list[Matrix]:
    where = f"{_RECORDS:,} records of {_SIZE_BYTES} bytes on the embedded broker, spread over the partitions."
    tables = [
        _matrix(results, "cpu", "Processor time by partitions", "CPU s", _PARTITIONS, "partitions")(
            f"Seconds of the client's process, all threads, for a million records. {where}",
            lambda run: run.cpu_s_per_million,
        ),
        _matrix(results, "memory", "Memory by partitions", "MB", _PARTITIONS, "partitions")(
            f"The most that the client's process had at any one time, virtual machine and all. {where}",
            lambda run: None if run.peak_bytes is None else run.peak_bytes / 1e6,
        ),
        _matrix(results, "first", "Time to the first record by partitions", "ms", _PARTITIONS, "partitions")(
            f"From the construction of the consumer, by `assign`, in a process that has made one before. Median of "
            f"{_TIMES}. {where}",
            lambda run: run.values["first_ms"],
        ),
        _matrix(
            results, "broker-cpu", "A broker's processor time by connections", "CPU s", _CONNECTIONS, "connections"
        )(
            "Seconds of the broker's process for a million requests (ApiVersions), sixteen at a time, each of the "
            "connections in turn.",
            lambda run: run.cpu_s_per_million,
        ),
        _matrix(results, "broker-memory", "A broker's memory by connections", "MB", _CONNECTIONS, "connections")(
            "Growth of the broker's process when the clients connected and sent requests.",
            lambda run: max(run.values["memory_mb"], 0.1),
        ),
        _matrix(results, "broker-time", "A broker's response time by connections", "ms", _CONNECTIONS, "connections")(
            "Median time of those requests.", lambda run: run.values["median_ms"]
        ),
    ]
    return [table for table in tables if table.columns]


def _matrix(
    results: Results, name: str, title: str, unit: str, sizes: tuple[int, ...], what: str
) -> Callable[[str, Callable[[Run], float | None]], Matrix]:
    def make(text: str, value: Callable[[Run], float | None]) -> Matrix:
        table = Matrix(f"growth-{name}", title, unit, text, [], page=PAGE)
        for size in sizes:
            series = results.scope("growth", f"{size} {what}").series()
            if not series:
                continue
            table.columns += [item.name for item in series if item.name not in table.columns]
            cells = {item.name: cell_values(item, value) for item in series}
            table.rows.append({"title": f"{size:,} {what}", "size": size, "cells": cells})
        return table

    return make


if __name__ == "__main__":
    print(json.dumps(exchanges(json.loads(sys.argv[1]))))
