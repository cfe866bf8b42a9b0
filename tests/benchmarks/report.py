"""Turns results into pages: ``benchmarks.json`` (data), ``benchmarks.md`` (tables) and ``benchmarks.png`` (plot)."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.workloads import Table

__all__ = ["markdown_table", "update"]

_MADE_BY = """\
# {title}

Made by

```console
$ {command}
```

on {machine}; load average before it began: {load}.

"""


@dataclass(frozen=True)
class Page:
    """What a page says before its tables, and what its plot shows: tables with this unit, divided by ``scale``."""

    title: str
    text: str
    unit: str
    scale: float
    axis: str


PAGES = {
    "benchmarks": Page(
        "Benchmarks",
        """\
All contenders use the same broker and topic, each run is a process of its own, and they run in turn (A B A B), {rounds}
rounds. **Only ratios within one table mean anything**: absolute figures move with the machine and with what else it
does; where it did much else, the CPU column (processor time of the client's process, all threads) says more than the
rate. A client that lost or changed a record would fail the run: counts and checksums are compared with what Java's
consumer read. What a rebalance costs is on [a page of its own](benchmarks-rebalance.md).

![Rates, side by side](benchmarks.png)
""",
        "records/s",
        1e6,
        "million records a second (median; line: least and most)",
    ),
    "benchmarks-rebalance": Page(
        "What a rebalance costs",
        """\
Our consumers and Java's, one after the other, on the same Apache Kafka, {rounds} rounds each; the members of a group
are threads of one process. Heartbeats come every 3 s, the default (2.4 to 3 s, so that members are not in step), and
that is most of what is seen here: members learn of a rebalance by the answer to a heartbeat. Under the *eager* protocol
those who learn first give up all that they have and wait for those who learn last, so that a partition that goes
nowhere stands still for up to one heartbeat interval. Under the *cooperative* protocol it is read on; for that, a
partition that does move needs a second round. `heartbeat_interval_ms` sets the price of either.

![Time without progress](benchmarks-rebalance.png)
""",
        "ms",
        1.0,
        "milliseconds (median of the rounds; line: least and most)",
    ),
}


def _number(value: float, unit: str) -> str:
    if unit == "records/s":
        return f"{value:,.0f}"
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _is_ours(name: str) -> bool:
    return name.partition(",")[0] in ("pyconsumer", "embedded broker")


def markdown_table(table: Mapping[str, Any]) -> str:
    """One table as Markdown."""
    unit, series = table["unit"], table["series"]
    reference = next((item["median"] for item in series if item["name"] == table["reference"]), None)
    with_cpu = any(item.get("cpu_s_per_million") for item in series)
    with_notes = any(item["note"] for item in series)
    head = ["", f"median {unit}", "min", "max"]
    head += [f"x {table['reference']}"] if reference else []
    head += ["CPU s per million"] if with_cpu else []
    head += ["what"] if with_notes else []
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1 - with_notes) + "---|" * with_notes]
    for item in series:
        name = f"**{item['name']}**" if _is_ours(item["name"]) else item["name"]
        if " import " in f" {name}" or name.startswith("poll("):
            name = f"`{name}`"
        row = [name, *(_number(item[key], unit) for key in ("median", "min", "max"))]
        row += [f"{item['median'] / reference:.2f}"] if reference else []
        row += [f"{item['cpu_s_per_million']:.2f}" if item.get("cpu_s_per_million") else ""] if with_cpu else []
        row += [item["note"]] if with_notes else []
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def machine() -> str:
    """What it ran on, in a line."""
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass  # only Linux has it
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{os.cpu_count()} cores ({model}), {platform.system()}, {python}"


def update(
    folder: Path, tables: Sequence[Table], command: str, rounds: int, order: Sequence[str], load: float
) -> list[Path]:
    """Put new tables in the place of old ones of the same name and write the three files of each page.

    Args:
        order: names of workloads; tables are shown in this order.
        load: the machine's load average before the run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, page in PAGES.items():
        mine = [table for table in tables if table.page == name]
        if mine:
            written += _update(folder, name, page, mine, command, rounds, order, load)
    return written


def _update(
    folder: Path,
    name: str,
    page: Page,
    tables: Sequence[Table],
    command: str,
    rounds: int,
    order: Sequence[str],
    load: float,
) -> list[Path]:
    data_file = folder / f"{name}.json"
    data: dict[str, Any] = json.loads(data_file.read_text()) if data_file.exists() else {"tables": {}}
    data |= {"command": command, "machine": machine(), "rounds": rounds, "load": round(load, 1)}
    for table in tables:
        data["tables"][table.name] = asdict(table)
    data["tables"] = dict(
        sorted(data["tables"].items(), key=lambda item: [item[0].startswith(first) for first in order].index(True))
    )
    data_file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    parts = [_MADE_BY.format(title=page.title, **data) + page.text.format(**data)]
    parts += [f"## {item['title']}\n\n{item['text']}\n\n{markdown_table(item)}" for item in data["tables"].values()]
    text = folder / f"{name}.md"
    text.write_text("\n".join(parts), encoding="utf-8")
    plot = folder / f"{name}.png"
    _plot(list(data["tables"].values()), page, plot)
    return [text, plot, data_file]


def _plot(tables: list[dict[str, Any]], page: Page, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [table for table in tables if table["unit"] == page.unit]
    if not shown:
        return
    heights = [len(table["series"]) + 1.6 for table in shown]
    figure, axes = pyplot.subplots(
        len(shown), 1, figsize=(8, 0.42 * sum(heights)), height_ratios=heights, layout="constrained", squeeze=False
    )
    for axis, table in zip(axes[:, 0], shown, strict=True):
        series = list(reversed(table["series"]))
        names = [item["name"] for item in series]
        rates = [item["median"] / page.scale for item in series]
        spread = [
            [(item["median"] - item["min"]) / page.scale for item in series],
            [(item["max"] - item["median"]) / page.scale for item in series],
        ]
        axis.barh(names, rates, color=["#d1495b" if _is_ours(name) else "#8d99ae" for name in names], height=0.7)
        axis.errorbar(rates, names, xerr=spread, fmt="none", ecolor="#2b2d42", elinewidth=1, capsize=2)
        for position, item in enumerate(series):
            shown_as = item["median"] / page.scale
            axis.annotate(
                f"{shown_as:,.0f}" if page.scale == 1 else f"{shown_as:.2f}",
                (item["max"] / page.scale, position),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
            )
        axis.set_title(table["title"], loc="left", fontsize=10, fontweight="bold")
        axis.set_xlim(0, max(item["max"] for item in series) / page.scale * 1.12)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    axes[-1, 0].set_xlabel(page.axis, fontsize=8)
    figure.savefig(path, dpi=130, bbox_inches="tight", metadata={"Software": None})
    pyplot.close(figure)
