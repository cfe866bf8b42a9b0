"""``python -m tests.benchmarks.layers``: kafka-python and aiokafka beside their layers in :mod:`pyconsumer.compat`.

The same program (:mod:`tests.benchmarks.layer_program`) runs with the copied client and with its layer, in turn, each
time in a process of its own. An embedded broker in another process has the topics. Values have 100 bytes. The figure is
the processor time of the program for each record, by default the median of five runs, and the ratio of the runs one by
one with its interval of 95 %. Reads are measured in two ways:
``steady`` reads from the broker all the time, and ``buffered`` begins when all records are in the client's buffers.
``idle`` is the processor time for each second of a member without records, and ``lone`` the time (not the processor's)
in which a record that is alone comes from ``send`` to ``getone``.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from pyconsumer import KafkaProducer
from pyconsumer.broker import EmbeddedCluster
from tests.benchmarks import layer_program
from tests.benchmarks.measure import ROOT, answer, compile_package
from tests.benchmarks.pairs import ratio
from tests.support.process import run

__all__ = ["main"]

_PARTITIONS = 4
_RECORDS = 1_000_000
#: Records (for ``idle`` seconds) of ours and of the original.
_COUNTS = {
    "kafka poll": (800_000, 100_000),
    "kafka for": (800_000, 100_000),
    "kafka send": (500_000, 100_000),
    "aiokafka getmany": (800_000, 100_000),
    "aiokafka getone": (800_000, 100_000),
    "aiokafka async for": (800_000, 100_000),
    "aiokafka send": (500_000, 100_000),
    "aiokafka send_and_wait": (3_000, 3_000),
    "aiokafka idle": (10, 10),
    "aiokafka lone": (500, 500),
}
_READS = ("kafka poll", "kafka for", "aiokafka getmany", "aiokafka getone", "aiokafka async for")


@click.command(help="Compare the layers with the copied clients.")
@click.argument("names", nargs=-1, type=click.Choice(list(layer_program.PROGRAMS)))
@click.option("--runs", default=5, show_default=True, type=click.IntRange(1))
@click.option("--way", "ways", multiple=True, type=click.Choice(["steady", "buffered"]), help="Reads; by default both.")
@click.option(
    "--before",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    help="The folder of another checkout, whose layers run, too. Its extension has to be built in place.",
)
@click.option("--without-original", is_flag=True)
@click.option("--scale", default=1.0, show_default=True, type=click.FloatRange(0, min_open=True), help="Fewer records.")
def main(
    names: tuple[str, ...], runs: int, ways: tuple[str, ...], before: Path | None, without_original: bool, scale: float
) -> None:
    folders = {"ours": ROOT} | ({} if before is None else {"before": before})
    for folder in folders.values():
        compile_package(folder)
    contenders = ([] if without_original else ["original"]) + list(folders)[::-1]
    with EmbeddedCluster() as cluster:
        cluster.create_topic("full", partitions=_PARTITIONS)
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in range(_PARTITIONS):
                producer.send_many("full", [b"v" * 100] * (_RECORDS // _PARTITIONS), partition=number)
        for name in names or layer_program.PROGRAMS:
            for way in (ways or ("steady", "buffered")) if name in _READS else ("",):
                _compare(cluster, name, way, contenders, folders, runs, scale)


def _compare(
    cluster: EmbeddedCluster,
    name: str,
    way: str,
    contenders: list[str],
    folders: dict[str, Path],
    runs: int,
    scale: float,
) -> None:
    found: dict[str, list[float]] = {each: [] for each in contenders}
    for number in range(runs):
        for contender in contenders if number % 2 == 0 else contenders[::-1]:
            count = _COUNTS[name][contender == "original"]
            topic = "full"
            if name not in _READS:
                topic = f"{name.replace(' ', '-')}-{contender}-{number}"
                cluster.create_topic(topic, partitions=1)
            arguments = {
                "program": name,
                "servers": cluster.bootstrap_servers,
                "topic": topic,
                "buffered": way == "buffered",
                "records": count if "idle" in name else max(1, int(count * scale)),
                "package": name.split()[0] if contender == "original" else f"pyconsumer.compat.{name.split()[0]}",
            }
            found[contender].append(_run(folders.get(contender, ROOT), arguments))
            if topic != "full":
                cluster.delete_topic(topic)
    medians = {contender: statistics.median(figures) for contender, figures in found.items()}
    shown = [
        f"{contender} {medians[contender]:,.3f} ({min(figures):,.3f} to {max(figures):,.3f})"
        for contender, figures in found.items()
    ]
    shown += [f"{other} / ours {medians[other] / medians['ours']:.2f}" for other in contenders if other != "ours"]
    if runs > 1:
        pairs = {other: list(zip(figures, found["ours"], strict=True)) for other, figures in found.items()}
        shown += [f"ours / {other} {ratio(pairs[other])}" for other in contenders if other != "ours"]
    click.echo(f"{name} {way}: microseconds: {', '.join(shown)}")


def _run(folder: Path, arguments: dict[str, Any]) -> float:
    """Run the program of this checkout with the package of a folder."""
    with tempfile.TemporaryDirectory() as place:
        Path(place, "pyconsumer").symlink_to(folder / "pyconsumer")
        command = [sys.executable, "-m", layer_program.__name__, json.dumps(arguments)]
        env = {"PYTHONPATH": os.pathsep.join([place, str(ROOT)]), "PYTHONHASHSEED": "0"}
        figure: float = answer(run(command, timeout_s=300, cwd=Path(place), env=env))["us"]
        return figure


if __name__ == "__main__":
    main()
