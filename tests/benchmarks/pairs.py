"""``python -m tests.benchmarks.pairs BEFORE``: is this checkout slower than another one, in alternating pairs?

Each pair runs a program with the package of one folder and with that of the other, in processes of their own, on one
embedded broker that is this checkout's. With ``--broker`` the program is that of AFTER, and the brokers of both folders
run in turn (:mod:`.pair_brokers`). Who is first changes from pair to pair. The ratio after / before is the
geometric mean of the pairs, with the interval that holds it with 95 % (Student's t of the logarithms). A load on
the machine slows both of a pair. Something is slower if the whole interval is above 1.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pyconsumer.broker import EmbeddedCluster
from tests.benchmarks import pair_program
from tests.benchmarks.measure import ROOT, answer, compile_package
from tests.benchmarks.pair_brokers import PairedBroker, pair_of_brokers
from tests.benchmarks.setup import Server, Setup
from tests.support.process import run

__all__ = ["Ratio", "ratio"]

#: Student's t for 95 % on both sides, by the number of pairs; from the largest one on, the normal distribution's.
_T = {
    2: 12.71,
    3: 4.30,
    4: 3.18,
    5: 2.78,
    6: 2.57,
    7: 2.45,
    8: 2.36,
    9: 2.31,
    10: 2.26,
    12: 2.20,
    15: 2.14,
    20: 2.09,
    30: 2.05,
}
_PARTITIONS = 4
_RECORDS = {"import": 0, "produce": 1_000_000, "spark": 1_000_000}
_FIGURES = {"cpu_s": "processor time", "seconds": "wall clock", "peak_bytes": "memory"}
_BROKER_FIGURES = {"broker_cpu_s": "processor time of the broker", "cpu_s": "of the client", "seconds": "wall clock"}
#: Workloads that depend on a broker.
_WITH_BROKER = ("produce", "poll", "group", "columns")


@dataclass(frozen=True)
class Ratio:
    """After / before: the mean of the pairs and its interval of 95 %."""

    mean: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.least:.3f}, {self.most:.3f}]"


def ratio(pairs: Sequence[tuple[float, float]]) -> Ratio:
    """Compare pairs of (before, after), at least two of them, all above 0."""
    logs = [math.log(after / before) for before, after in pairs]
    mean = statistics.fmean(logs)
    t = _T[max(number for number in _T if number <= len(logs))]
    half = t * statistics.stdev(logs) / math.sqrt(len(logs))
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


@click.command(
    help="Compare this checkout with the one in the folder BEFORE, whose extension has to be built in place."
)
@click.argument("before", type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path))
@click.option("--after", default=ROOT, type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path))
@click.option("--pairs", default=10, show_default=True, type=click.IntRange(2))
@click.option("--workload", "names", multiple=True, type=click.Choice(list(pair_program.PROGRAMS)), help="Repeatable.")
@click.option("--scale", default=1.0, show_default=True, type=click.FloatRange(0, min_open=True), help="Fewer records.")
@click.option("--codec", default="none", show_default=True, help="Compression of the topic that is read.")
@click.option(
    "--size", default=100, show_default=True, type=click.IntRange(1), help="Bytes of the values that are read."
)
@click.option(
    "--sampler",
    type=click.Choice(pair_program.SAMPLERS),
    help="Observe the clients of AFTER by OpenTelemetry with this sampler.",
)
@click.option("--broker", is_flag=True, help="Compare the brokers: that of each checkout, with the clients of AFTER.")
@click.option(
    "--acls",
    type=click.IntRange(4),
    help="With --broker: clients log in, by PLAIN with BEFORE, by SCRAM and with this number of rules with AFTER.",
)
def main(
    before: Path,
    after: Path,
    pairs: int,
    names: tuple[str, ...],
    scale: float,
    codec: str,
    size: int,
    sampler: str | None,
    broker: bool,
    acls: int | None,
) -> None:
    if acls is not None and not broker:
        raise click.UsageError("--acls needs --broker")
    for folder in (before, after):
        if not (folder / "pyconsumer" / "__init__.py").is_file():
            raise click.UsageError(f"no package pyconsumer in {folder}")
        compile_package(folder)
    setup = Setup(lambda text: click.echo(text, err=True), scale=scale)
    if broker:
        with pair_of_brokers(before, after, acls) as brokers:
            for name in names or _WITH_BROKER:
                if name not in _WITH_BROKER:
                    raise click.UsageError(f"--broker has the workloads {', '.join(_WITH_BROKER)}")
                _compare_brokers(setup, brokers, after, name, pairs, codec, size)
        return
    with EmbeddedCluster() as cluster:
        server = Server(cluster)
        for name in names or tuple(pair_program.PROGRAMS):
            _compare(setup, server, name, (before, after), pairs, codec, size, sampler)


def _compare(
    setup: Setup,
    server: Server,
    name: str,
    folders: tuple[Path, Path],
    pairs: int,
    codec: str,
    size: int,
    sampler: str | None = None,
) -> None:
    records = setup.scaled(_RECORDS.get(name, 3_000_000))
    arguments = {"program": name, "servers": server.bootstrap_servers, "partitions": _PARTITIONS, "records": records}
    if name == "produce":
        arguments["topic"] = server.create_topic(_PARTITIONS)
    elif name != "import":
        arguments["topic"] = setup.fill(server, records, size, partitions=_PARTITIONS, codec=codec).name
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for number in range(pairs):
        turns = (0, 1) if number % 2 == 0 else (1, 0)
        observed = ({}, {"sampler": sampler})
        runs = {turn: _run(folders[turn], arguments | observed[turn]) for turn in turns}
        found.append((runs[0], runs[1]))
        if found[-1][0]["compiled"] != found[-1][1]["compiled"]:
            raise click.ClickException(
                "only one of the packages has its compiled extension: build it in the other's folder with"
                " `python setup.py build_ext --inplace`"
            )
        times = " and ".join(f"{each['cpu_s']:.3f}" for each in found[-1])
        setup.say(f"  {name}, pair {number + 1}: {times} CPU s")
    for key, title in _FIGURES.items():
        if (name, key) != ("spark", "peak_bytes"):  # it has many processes
            click.echo(f"{name}: {title} {ratio([(one[key], other[key]) for one, other in found])}")
    if "topic" in arguments:
        server.delete_topic(str(arguments["topic"]))


def _compare_brokers(
    setup: Setup,
    brokers: tuple[PairedBroker, PairedBroker],
    clients: Path,
    name: str,
    pairs: int,
    codec: str,
    size: int,
) -> None:
    records = setup.scaled(_RECORDS.get(name, 3_000_000))
    arguments = {"program": name, "partitions": _PARTITIONS, "records": records, "topic": f"pairs-{name}"}
    for one in brokers:
        one.prepare(f"pairs-{name}", _PARTITIONS, 0 if name == "produce" else records, size, codec)
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for number in range(pairs):
        runs: dict[int, dict[str, Any]] = {}
        for turn in (0, 1) if number % 2 == 0 else (1, 0):
            with brokers[turn].running() as running:
                began = running.cpu_s()
                runs[turn] = _run(clients, arguments | {"servers": running.servers, "login": running.login})
                runs[turn]["broker_cpu_s"] = max(running.cpu_s() - began, 1e-9)
        found.append((runs[0], runs[1]))
        times = " and ".join(f"{each['broker_cpu_s']:.2f}" for each in found[-1])
        setup.say(f"  {name}, pair {number + 1}: {times} CPU s of the brokers")
    for key, title in _BROKER_FIGURES.items():
        click.echo(f"{name}: {title} {ratio([(one[key], other[key]) for one, other in found])}")


def _run(folder: Path, arguments: dict[str, Any]) -> dict[str, Any]:
    """Run the program of this checkout, also in processes that Spark starts, with the package of a folder."""
    with tempfile.TemporaryDirectory() as place:
        Path(place, "pyconsumer").symlink_to(folder / "pyconsumer")
        command = [sys.executable, "-m", pair_program.__name__, json.dumps({**arguments, "folder": str(folder)})]
        path = os.pathsep.join([place, str(ROOT)])
        return answer(run(command, timeout_s=300, cwd=Path(place), env={"PYTHONPATH": path, "PYTHONHASHSEED": "0"}))


if __name__ == "__main__":
    main()
