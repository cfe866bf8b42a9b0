"""``python -m tests.benchmarks``: runs the workloads and writes the tables and the plot of the documentation."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click
import pytest

from tests.benchmarks.measure import ROOT, WrongAnswerError
from tests.benchmarks.rebalance import rebalance
from tests.benchmarks.report import markdown_table, update
from tests.benchmarks.workloads import WORKLOADS, Setup, Table

_ALL = WORKLOADS | {"rebalance": rebalance}


@click.command(
    help="Measure pyconsumer beside other clients. Without names, all workloads but the rebalance, which has a page of "
    "its own; about 8 minutes, and twice as many for that one."
)
@click.argument("workloads", nargs=-1, type=click.Choice(list(_ALL)))
@click.option("--records", default=250_000, show_default=True, type=click.IntRange(1000), help="Per partition.")
@click.option("--partitions", default=4, show_default=True, type=click.IntRange(1))
@click.option("--record-size", default=100, show_default=True, type=click.IntRange(1), help="Bytes of each value.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1))
@click.option("--only", multiple=True, metavar="TEXT", help="Only contenders with this in their name; repeatable.")
@click.option("--docs", default=ROOT / "docs", type=click.Path(path_type=Path), help="Where the results go.")
@click.option("--no-write", is_flag=True, help="Only print.")
def main(
    workloads: tuple[str, ...],
    records: int,
    partitions: int,
    record_size: int,
    rounds: int,
    only: tuple[str, ...],
    docs: Path,
    no_write: bool,
) -> None:
    start, load = time.monotonic(), os.getloadavg()[0]
    setup = Setup(partitions, records, record_size, rounds, lambda text: click.echo(text, err=True), only)
    names = workloads or tuple(WORKLOADS)
    tables: list[Table] = []
    try:
        for name in names:
            setup.say(f"{name}:")
            made = _ALL[name](setup)
            tables += made if isinstance(made, list) else [made]
    except WrongAnswerError as error:
        raise click.ClickException(str(error)) from error
    except pytest.skip.Exception as error:
        raise click.ClickException(str(error)) from None
    finally:
        setup.stop()
    for table in tables:
        click.echo(f"\n{table.title}\n{table.text}\n{markdown_table(vars(table))}")
    if not (no_write or only):
        command = " ".join(["python -m tests.benchmarks", *_given()])
        for path in update(docs, tables, command, rounds, list(_ALL), load):
            setup.say(f"written: {path}")
    setup.say(f"done in {time.monotonic() - start:.0f} s")


def _given() -> list[str]:
    """The arguments of this call, as they were typed."""
    return sys.argv[1:]


if __name__ == "__main__":
    main()
