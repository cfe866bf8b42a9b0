"""Both group protocols, ours beside Java's: large groups that change, and idle members."""

from __future__ import annotations

import json
import statistics
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyconsumer import KafkaAdminClient
from pyconsumer.admin import ConfigResource, ConfigResourceType
from tests.benchmarks import large_group
from tests.benchmarks.cells import APACHE, EMBEDDED
from tests.benchmarks.live_groups import steady_records
from tests.benchmarks.measure import ROOT
from tests.benchmarks.setup import Server, Setup
from tests.benchmarks.tables import Table
from tests.support.process import GuardedProcess, wait_until
from tests.support.proxy import KafkaProxy

__all__ = ["PAGE", "group_protocols"]

PAGE = "benchmarks-groups"
MEMBERS, PARTITIONS = 50, 1000
IDLE_MEMBERS, IDLE_PARTITIONS = 10, 20
_TICK_S = 0.5
_JAVA = Path(__file__).with_name("LargeGroup.java")
_BROKERS = (APACHE, EMBEDDED)
_EVENTS = {"join": "joins", "leave": "leaves"}


class Kind(NamedTuple):
    """A measured combination: a client, a protocol, and the least time between two assignments by the broker (ms)."""

    client: str
    protocol: str
    interval_ms: int | None

    @property
    def title(self) -> str:
        at_most = "" if self.interval_ms is None else f", interval {self.interval_ms}"
        return f"{self.client}, {self.protocol}{at_most}"


_KINDS = [
    Kind(client, protocol, interval)
    for protocol, interval in (("consumer", 1000), ("consumer", 0), ("classic", None))
    for client in ("pyconsumer", "Java")
]
_IDLE_KINDS = [kind for kind in _KINDS if kind.interval_ms != 0]


def group_protocols(setup: Setup) -> list[Table]:
    """Groups that form, grow and shrink on both brokers, then idle members."""
    tables = []
    for broker in _BROKERS:
        server = setup.server(broker)
        found: dict[Kind, list[dict[str, Any]]] = {kind: [] for kind in _KINDS}
        topic = server.create_topic(PARTITIONS)
        with steady_records(server.bootstrap_servers, topic, PARTITIONS, _TICK_S, linger_ms=20):
            for _ in range(setup.rounds):
                for kind in _KINDS:
                    found[kind].append(_run(setup, server, kind, topic))
        server.delete_topic(topic)
        tables += [_forming(broker, found), *(_event(broker, event, found) for event in _EVENTS)]
        tables.append(_idle(setup, broker, server))
    return tables


def _command(setup: Setup, servers: str, kind: Kind, topic: str, group: str, *, idle: bool) -> list[str]:
    members, partitions = (IDLE_MEMBERS, IDLE_PARTITIONS) if idle else (MEMBERS, PARTITIONS)
    if kind.client == "Java":
        given = [servers, topic, group, kind.protocol, str(partitions), str(members), str(idle).lower()]
        return [*setup.tools.compiled(_JAVA, quick=False), *given]
    arguments = {
        "servers": servers,
        "topic": topic,
        "group": group,
        "protocol": kind.protocol,
        "partitions": partitions,
        "members": members,
        "idle": idle,
    }
    return [sys.executable, "-m", large_group.__name__, json.dumps(arguments)]


def _prepare(server: Server, kind: Kind) -> str:
    """Return the name of a new group with its own interval."""
    group = f"group-{uuid.uuid4().hex[:8]}"
    if kind.interval_ms is not None:
        resource = ConfigResource(ConfigResourceType.GROUP, group)
        with KafkaAdminClient(bootstrap_servers=server.bootstrap_servers) as admin:
            admin.alter_configs({resource: {"consumer.assignment.interval.ms": str(kind.interval_ms)}})
    return group


def _run(setup: Setup, server: Server, kind: Kind, topic: str) -> dict[str, Any]:
    group = _prepare(server, kind)
    program = GuardedProcess(_command(setup, server.bootstrap_servers, kind, topic, group, idle=False), cwd=ROOT)
    try:
        found = _answer(program)
    finally:
        program.stop()
    shown = ", ".join(f"{event} {found[event]['settled_s']:.1f} s" for event in _EVENTS)
    setup.say(f"  {kind.title}: formed in {found['form_s']:.1f} s, {shown}")
    return found


def _answer(program: GuardedProcess) -> dict[str, Any]:
    """The last line that a program printed, once it has ended."""
    wait_until(lambda: not program.running, 600, "the group's program ends")
    lines = program.stdout.splitlines()
    assert lines, program.stderr[-2000:]
    found: dict[str, Any] = json.loads(lines[-1])
    return found


# ------------------------------------------------------------------ idle members


def _idle(setup: Setup, broker: str, server: Server) -> Table:
    text = (
        f"{IDLE_MEMBERS} members of one process that have settled on {IDLE_PARTITIONS} partitions without records, "
        "default settings. Milliseconds of processor time per second of each member. A proxy counts the requests."
    )
    table = Table(f"groups-{broker}-idle", f"Idle members, {broker}", "ms", text, "", page=PAGE)
    topic = server.create_topic(IDLE_PARTITIONS)
    for kind in _IDLE_KINDS:
        costs, counts = [], []
        for _ in range(setup.rounds):
            with KafkaProxy(server.bootstrap_servers) as proxy:
                cpu, count = _run_idle(setup, server, kind, topic, proxy)
            costs.append(cpu / IDLE_MEMBERS)
            counts.append(count / IDLE_MEMBERS / large_group.IDLE_S)
        row = _row(f"{kind.client}, {kind.protocol}", costs, f"{statistics.median(counts):.2f} requests a second each")
        setup.say(f"  idle: {row['name']}: {row['median']:.2f} ms/s, {row['note']}")
        table.series.append(row)
    server.delete_topic(topic)
    return table


def _run_idle(setup: Setup, server: Server, kind: Kind, topic: str, proxy: KafkaProxy) -> tuple[float, int]:
    """Return processor time per second, and how many requests there were in the same time."""
    group = _prepare(server, kind)
    program = GuardedProcess(_command(setup, proxy.bootstrap_servers, kind, topic, group, idle=True), cwd=ROOT)
    try:
        wait_until(lambda: "settled" in program.stdout or not program.running, 180, "the group settles")
        time.sleep(large_group.IDLE_AFTER_S)
        before = len(proxy.events(None, "request"))
        time.sleep(large_group.IDLE_S)
        count = len(proxy.events(None, "request")) - before
        return float(_answer(program)["idle_cpu"]), count
    finally:
        program.stop()


# ------------------------------------------------------------------ tables


def _row(name: str, seconds: Sequence[float], note: str) -> dict[str, Any]:
    times = [1e3 * value for value in seconds]
    return {"name": name, "note": note, "median": statistics.median(times), "min": min(times), "max": max(times)}


def _forming(broker: str, results: dict[Kind, list[dict[str, Any]]]) -> Table:
    text = f"{MEMBERS} members of one process start together, until they share {PARTITIONS:,} partitions evenly."
    table = Table(f"groups-{broker}-form", f"A group of {MEMBERS} forms, {broker}", "ms", text, "", page=PAGE)
    for kind, rounds in results.items():
        table.series.append(_row(kind.title, [each["form_s"] for each in rounds], ""))
    return table


def _event(broker: str, event: str, results: dict[Kind, list[dict[str, Any]]]) -> Table:
    text = (
        f"Until the members share the partitions evenly again. Each partition gets a record every {_TICK_S:g} s, and a "
        "member fetches five times a second: the time without records is never much less than that."
    )
    title = f"A member {_EVENTS[event]} a group of {MEMBERS}, {broker}"
    table = Table(f"groups-{broker}-{event}", title, "ms", text, "", page=PAGE)
    for kind, rounds in results.items():
        gaps = sorted(gap for each in rounds for gap in each[event]["gaps_s"])
        note = (
            f"without records: half of the partitions up to {gaps[len(gaps) // 2]:.1f} s, 99 of 100 up to "
            f"{gaps[len(gaps) * 99 // 100]:.1f} s, longest {gaps[-1]:.1f} s"
        )
        table.series.append(_row(kind.title, [each[event]["settled_s"] for each in rounds], note))
    return table
