"""Turns results into ``benchmarks.json`` (the data), ``benchmarks.md`` (tables) and ``benchmarks.png`` (plot)."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.benchmarks.workloads import Table

__all__ = ["markdown_table", "update"]

_HEAD = """\
# Benchmarks

Made by

```console
$ {command}
```

on {machine}; load average before it began: {load}.

All contenders use the same broker and topic, each run is a process of its own, and they run in turn (A B A B), {rounds}
rounds. **Only ratios within one table mean anything**: absolute figures move with the machine and with what else it
does; where it did much else, the CPU column (processor time of the client's process, all threads) says more than the
rate. A client that lost or changed a record would fail the run: counts and checksums are compared with what Java's
consumer read.

![Rates, side by side](benchmarks.png)
"""


def _number(value: float, unit: str) -> str:
    if unit == "records/s":
        return f"{value:,.0f}"
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


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
        name = f"**{item['name']}**" if item["name"] in ("pyconsumer", "embedded broker") else item["name"]
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
    """Put new tables in the place of old ones of the same name and write the three files.

    Args:
        order: names of workloads; tables are shown in this order.
        load: the machine's load average before the run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data_file = folder / "benchmarks.json"
    data: dict[str, Any] = json.loads(data_file.read_text()) if data_file.exists() else {"tables": {}}
    data |= {"command": command, "machine": machine(), "rounds": rounds, "load": round(load, 1)}
    for table in tables:
        data["tables"][table.name] = asdict(table)
    data["tables"] = dict(
        sorted(data["tables"].items(), key=lambda item: [item[0].startswith(name) for name in order].index(True))
    )
    data_file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    parts = [_HEAD.format(**data)]
    parts += [f"## {item['title']}\n\n{item['text']}\n\n{markdown_table(item)}" for item in data["tables"].values()]
    page = folder / "benchmarks.md"
    page.write_text("\n".join(parts), encoding="utf-8")
    plot = folder / "benchmarks.png"
    _plot(list(data["tables"].values()), plot)
    return [page, plot, data_file]


def _plot(tables: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [table for table in tables if table["unit"] == "records/s"]
    if not shown:
        return
    heights = [len(table["series"]) + 1.6 for table in shown]
    figure, axes = pyplot.subplots(
        len(shown), 1, figsize=(8, 0.42 * sum(heights)), height_ratios=heights, layout="constrained", squeeze=False
    )
    for axis, table in zip(axes[:, 0], shown, strict=True):
        series = list(reversed(table["series"]))
        names = [item["name"] for item in series]
        rates = [item["median"] / 1e6 for item in series]
        spread = [
            [(item["median"] - item["min"]) / 1e6 for item in series],
            [(item["max"] - item["median"]) / 1e6 for item in series],
        ]
        ours = ("pyconsumer", "embedded broker")
        axis.barh(names, rates, color=["#d1495b" if name in ours else "#8d99ae" for name in names], height=0.7)
        axis.errorbar(rates, names, xerr=spread, fmt="none", ecolor="#2b2d42", elinewidth=1, capsize=2)
        for position, item in enumerate(series):
            axis.annotate(
                f"{item['median'] / 1e6:.2f}",
                (item["max"] / 1e6, position),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
            )
        axis.set_title(table["title"], loc="left", fontsize=10, fontweight="bold")
        axis.set_xlim(0, max(item["max"] for item in series) / 1e6 * 1.12)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    axes[-1, 0].set_xlabel("million records a second (median; line: least and most)", fontsize=8)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    pyplot.close(figure)
