"""Costs of a rebalance: our consumers and Java's on Apache Kafka, and larger groups of ours in simulated time.

The measure is the longest time without a record from a partition that stays with its member, while another
member joins or leaves. Records are written to every partition all the time.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks import rebalance_group, simulated_groups
from tests.benchmarks.live_groups import steady_records
from tests.benchmarks.measure import child
from tests.benchmarks.setup import Setup, installed
from tests.benchmarks.tables import Table
from tests.support.process import run

__all__ = ["PAGE", "rebalance"]

PAGE = "benchmarks-rebalance"
MEMBERS, PARTITIONS, FIRSTS = 10, 20, 10
SIMULATED = (10, 100)
_TICK_S = 0.02
_JAVA = Path(__file__).with_name("RebalanceGroup.java")
_PROTOCOLS = {"range": "eager", "cooperative-sticky": "cooperative"}
_CLASSES = {"range": "RangeAssignor", "cooperative-sticky": "CooperativeStickyAssignor"}
_EVENTS = {"join": "joins", "leave": "leaves"}


def rebalance(setup: Setup) -> list[Table]:
    """Both clients, both protocols, then the simulation."""
    cluster = setup.apache
    topic = cluster.create_topic(PARTITIONS)
    results: dict[tuple[str, str], dict[str, Any]] = {}
    with steady_records(cluster.bootstrap_servers, topic, PARTITIONS, _TICK_S):
        for assignor in _PROTOCOLS:
            for client, measure in (("pyconsumer", _ours), ("Java", _java)):
                setup.say(f"  {client}, {assignor}")
                results[client, assignor] = measure(setup, topic, f"{topic}-{client}-{assignor}", assignor)
    cluster.delete_topic(topic)
    versions = {"pyconsumer": installed("pyconsumer"), "Java": f"Apache Kafka {setup.tools.version}, warmed up once"}
    return [
        _first(results, {name: str(version) for name, version in versions.items()}),
        *(_event(event, results) for event in _EVENTS),
        _simulated(setup),
    ]


def _ours(setup: Setup, topic: str, group: str, assignor: str) -> dict[str, Any]:
    return child(
        rebalance_group.__name__,
        {
            "servers": setup.apache.bootstrap_servers,
            "topic": topic,
            "group": group,
            "assignor": assignor,
            "partitions": PARTITIONS,
            "members": MEMBERS,
            "rounds": setup.rounds,
            "firsts": FIRSTS,
        },
    )


def _java(setup: Setup, topic: str, group: str, assignor: str) -> dict[str, Any]:
    command = [*setup.tools.java(quick=False), str(_JAVA), setup.apache.bootstrap_servers, topic, group]
    command.append(f"org.apache.kafka.clients.consumer.{_CLASSES[assignor]}")
    command += [str(number) for number in (PARTITIONS, MEMBERS, setup.rounds, FIRSTS)]
    answer: dict[str, Any] = json.loads(run(command, timeout_s=600).check().lines[-1])
    return answer


# ------------------------------------------------------------------ tables


def _row(name: str, seconds: Sequence[float], note: str) -> dict[str, Any]:
    times = [1e3 * value for value in seconds]
    return {"name": name, "note": note, "median": statistics.median(times), "min": min(times), "max": max(times)}


def _first(results: dict[tuple[str, str], dict[str, Any]], notes: dict[str, str]) -> Table:
    text = (
        f"The only member of a new group, from `subscribe` and the first `poll` to its {PARTITIONS} partitions: "
        "connecting, metadata, coordinator, join (twice, KIP-394), sync. One client after the other, each in one "
        "process, the first of which does not count."
    )
    table = Table("rebalance-first", "Time to the first assignment", "ms", text, "Java", page=PAGE)
    for client, note in notes.items():
        times = [value for (name, _), found in results.items() if name == client for value in found["first_s"]]
        table.series.append(_row(client, times, note))
    return table


def _event(event: str, results: dict[tuple[str, str], dict[str, Any]]) -> Table:
    text = (
        f"Of the partitions that stay with their member while another {_EVENTS[event]}, the one that waits longest for "
        f"a record. {MEMBERS} members, {PARTITIONS} partitions, a record every {1000 * _TICK_S:g} ms in each. "
        "Settled: the last member has its new share and the group stays so. *When all is quiet* is the same over "
        "a few seconds without an event: the machine and its other work."
    )
    title = f"A member {_EVENTS[event]} a group of {MEMBERS}: longest time without progress"
    table = Table(f"rebalance-{event}", title, "ms", text, "", page=PAGE)
    for (client, assignor), found in results.items():
        row = _costs(f"{client}, {_PROTOCOLS[assignor]}", [each[event] for each in found["rounds"]])
        quiet = statistics.median(max(each["quiet"]["gaps_s"]) for each in found["rounds"])
        row["note"] += f", when all is quiet: {1e3 * quiet:.0f} ms"
        table.series.append(row)
    return table


def _costs(name: str, events: list[dict[str, Any]]) -> dict[str, Any]:
    longest = [max(each["gaps_s"]) for each in events]
    middle = statistics.median(statistics.median(each["gaps_s"]) for each in events)
    staying = statistics.median(len(each["gaps_s"]) for each in events)
    settled = statistics.median(each["settled_s"] for each in events)
    note = (
        f"{staying:.0f} partitions stay, half of them wait less than {1e3 * middle:.0f} ms, settled in {settled:.1f} s"
    )
    return _row(name, longest, note)


def _simulated(setup: Setup) -> Table:
    text = (
        "Our members and our coordinator in simulated time: messages take up to 3 ms, computing takes none, members "
        "poll every 20 ms. Twice as many partitions as members. *In step*: all heartbeats come at the same moment, as "
        "they do after a rebalance. Otherwise they are spread over the interval of 3 s."
    )
    table = Table("rebalance-simulated", "Simulated groups: longest time without progress", "ms", text, "", page=PAGE)
    for size in SIMULATED:
        for assignor, in_step in (("range", False), ("range", True), ("cooperative-sticky", False)):
            what = f"{size} members, {_PROTOCOLS[assignor]}{', in step' if in_step else ''}"
            setup.say(f"  simulated: {what}")
            found = simulated_groups.measure(assignor, size, setup.rounds, in_step=in_step)["rounds"]
            for event, verb in _EVENTS.items():
                table.series.append(_costs(f"pyconsumer, {what}, one {verb}", [each[event] for each in found]))
    return table
