"""``python -m tests.benchmarks.instructions BEFORE``: instructions of a poll and of a send, beside another checkout.

Callgrind counts them, so a load on the machine makes no difference, and 0.1 % of a poll shows. It needs valgrind, its
header files, and a compiler of C. The extension of both checkouts must be built in place. Time passes for the clients
as slowly as for a processor that valgrind simulates, so that as many polls as usual lie between two of their checks.

A poll of 500 records depends on the allocator as well, by up to 1 %. That of one record shows what a call costs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from pyconsumer import KafkaProducer
from pyconsumer.broker import EmbeddedCluster
from tests.benchmarks import instructions_program
from tests.benchmarks.measure import ROOT, compile_package
from tests.support.process import run

_MARKS = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_TOGGLE_COLLECT; }
void end(void) { CALLGRIND_TOGGLE_COLLECT; CALLGRIND_DUMP_STATS; CALLGRIND_STOP_INSTRUMENTATION; }
"""
_PARTITIONS = 4
_RECORDS = 600_000
_CALLS = {"poll 500": 1000, "poll 1": 5000, "group 500": 1000, "group 1": 5000, "empty": 1000, "send": 20_000}


def _build_marks(place: Path) -> Path:
    """Compile the functions that start and end the count."""
    source, library = place / "marks.c", place / "marks.so"
    source.write_text(_MARKS)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return library


def _count(place: Path, folder: Path, arguments: dict[str, object]) -> float:
    """Return the instructions of a call, with the package of a folder."""
    found = place / "callgrind.out"
    for old in place.glob("callgrind.out*"):
        old.unlink()
    valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no"]
    program = [sys.executable, instructions_program.__file__, json.dumps({**arguments, "folder": str(folder)})]
    command = [*valgrind, f"--callgrind-out-file={found}", *program]
    run(command, timeout_s=600, cwd=place, env={"PYTHONHASHSEED": "0"}).check()
    (dump,) = place.glob("callgrind.out.1")
    totals = [line for line in dump.read_text().splitlines() if line.startswith(("totals:", "summary:"))]
    return int(totals[0].split()[1]) / int(str(arguments["calls"]))


@click.command(help="Count the instructions of calls in this checkout and in the one in the folder BEFORE.")
@click.argument("before", type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path))
@click.option("--call", "names", multiple=True, type=click.Choice(list(_CALLS)), help="Repeatable. By default all.")
def main(before: Path, names: tuple[str, ...]) -> None:
    for folder in (before, ROOT):
        compile_package(folder)
    with tempfile.TemporaryDirectory() as name, EmbeddedCluster() as cluster:
        place, servers = Path(name), cluster.bootstrap_servers
        library = _build_marks(place)
        for topic, partitions in (("read", _PARTITIONS), ("empty", 1), ("written", _PARTITIONS)):
            cluster.create_topic(topic, partitions)
        with KafkaProducer(bootstrap_servers=servers) as producer:
            for number in range(_RECORDS):
                producer.send("read", b"v" * 100, partition=number // 500 % _PARTITIONS)
        for call in names or tuple(_CALLS):
            arguments = {"call": call, "calls": _CALLS[call], "servers": servers, "marks": str(library)}
            old, new = (_count(place, folder, arguments) for folder in (before, ROOT))
            click.echo(f"{call}: {old:,.0f} and {new:,.0f} instructions, {new / old:.4f}")


if __name__ == "__main__":
    main()
