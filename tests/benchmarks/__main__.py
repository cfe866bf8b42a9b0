"""``python -m tests.benchmarks``: runs the workloads and writes the tables and the plots of the documentation."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import pytest

from tests.benchmarks.cells import CORE, GRID
from tests.benchmarks.measure import ROOT, compile_package
from tests.benchmarks.report import about, update
from tests.benchmarks.results import Results
from tests.benchmarks.setup import Setup
from tests.benchmarks.tables import markdown_table
from tests.benchmarks.workloads import WORKLOADS

#: These have pages of their own, and take long.
_DEFAULT = [name for name in WORKLOADS if name not in ("rebalance", "groups", "growth", "starts")]


@click.command(
    help="Measure pyconsumer beside other clients. Without names, all workloads but rebalance, groups, growth and "
    f"starts: about 50 minutes, of which `consume` takes half ({len(CORE)} kinds of topics). All of its {len(GRID)} "
    "kinds are run once by `consume --grid`, about an hour."
)
@click.argument("workloads", nargs=-1, type=click.Choice(list(WORKLOADS)))
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1))
@click.option("--scale", default=1.0, show_default=True, type=click.FloatRange(0, min_open=True), help="Fewer records.")
@click.option("--grid", is_flag=True, help="consume: every kind of topic once, but for the core ones.")
@click.option("--cell", "cells", multiple=True, metavar="TEXT", help="consume: only topics with this in their name.")
@click.option("--list-cells", is_flag=True, help="Print the names of the kinds of topics; those of the core first.")
@click.option("--only", multiple=True, metavar="TEXT", help="Only contenders with this in their name; repeatable.")
@click.option(
    "--results",
    "file",
    type=click.Path(path_type=Path),
    help="A file that gets every run as a line of JSON. Runs that it has already are not made again.",
)
@click.option("--report-only", is_flag=True, help="Run nothing: write the pages of what --results holds.")
@click.option("--docs", default=ROOT / "docs", type=click.Path(path_type=Path), help="Where the pages go.")
@click.option("--no-write", is_flag=True, help="Only print.")
def main(
    workloads: tuple[str, ...],
    rounds: int,
    scale: float,
    grid: bool,
    cells: tuple[str, ...],
    list_cells: bool,
    only: tuple[str, ...],
    file: Path | None,
    report_only: bool,
    docs: Path,
    no_write: bool,
) -> None:
    if list_cells:
        for cell in dict.fromkeys((*CORE, *GRID)):
            click.echo(f"{cell.name}: {cell.broker}, {cell.title}")
        return
    if report_only and file is None:
        raise click.UsageError("--report-only needs --results")
    results = Results.load(file) if file else Results()
    before = 0
    names = workloads or tuple(WORKLOADS if report_only else ["consume"] if grid else _DEFAULT)
    say = _say
    if not report_only:
        start = time.monotonic()
        before = len(results.lines)
        results.append({"about": about(_command(sys.argv[1:]), rounds)})
        _measure(Setup(say, results, rounds, scale, only, grid, cells), names)
        say(f"done in {time.monotonic() - start:.0f} s")
    tables: list[Any] = [table for name in names for table in WORKLOADS[name].tables(results)]
    if not report_only:
        for table in tables:
            click.echo(f"\n{table.title}\n{table.text}\n{markdown_table(asdict(table))}")
    if not no_write:
        for path in update(docs, tables, results.about(), list(WORKLOADS)):
            say(f"written: {path}")
    failed = [] if report_only else [line for line in results.lines[before:] if line.get("error")]
    if failed:
        raise click.ClickException(f"{len(failed)} runs failed; see above")


def _measure(setup: Setup, names: tuple[str, ...]) -> None:
    compile_package(ROOT)
    try:
        for name in names:
            setup.say(f"{name}:")
            WORKLOADS[name].measure(setup)
    except pytest.skip.Exception as error:
        raise click.ClickException(str(error)) from None
    finally:
        setup.stop()


def _command(given: list[str]) -> str:
    """The command as others would type it: without the names of files of this machine."""
    shown, skipped = ["python -m tests.benchmarks"], False
    for word in given:
        if skipped:
            skipped = False
        elif word in ("--results", "--docs"):
            skipped = True
        elif not word.startswith(("--results=", "--docs=")):
            shown.append(word)
    return " ".join(shown)


def _say(text: str) -> None:
    click.echo(text, err=True)


if __name__ == "__main__":
    main()
