"""Turns tables into pages: ``<page>.json`` (data), ``<page>.md`` (tables) and one or more plots."""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.plots import plot_curves, plot_matrix, plot_ratios, plot_tables
from tests.benchmarks.tables import REFERENCE, Matrix, Table, markdown_table

__all__ = ["PAGES", "about", "update"]

_MADE_BY = """\
# {title}

Made by

```console
$ {command}
```

on {machine}, {date}; load average at the start: {load}. Tables made by another call say so.

"""

_Draw = Callable[[Sequence[Mapping[str, Any]], Path], None]


@dataclass(frozen=True)
class Page:
    """Text of a page before its tables, and the data of its plots by the file's name."""

    title: str
    text: str
    plots: Mapping[str, _Draw]


def _in_unit(unit: str, scale: float, axis: str) -> _Draw:
    """Draws the tables of contenders with this unit."""

    def draw(tables: Sequence[Mapping[str, Any]], path: Path) -> None:
        chosen = [table for table in tables if table["unit"] == unit and "columns" not in table]
        plot_tables(chosen, path, scale=scale, axis=axis)

    return draw


def _rates_of(name: str, tables: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draws the matrix with this name."""
    for table in tables:
        if table["name"] == name:
            axis = "thousand records a second (median; line: least and most)"
            plot_matrix(table["rows"], table["columns"], path, axis=axis)


def _ratios_of(name: str, tables: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draws the matrix with this name, all figures divided by Java's."""
    for table in tables:
        if table["name"] == name:
            title = f"{table['title']}: x {REFERENCE}"
            plot_ratios(table["rows"], table["columns"], REFERENCE, path, title=title)


#: In the order in which they are written: the one that names the others is the last.
PAGES = {
    "benchmarks-grid": Page(
        "Benchmarks: all kinds of topics",
        """\
Every combination of size, codec, keys and partitions on both brokers. Most were run once: these figures say where
something is out of line, no more. Topics, clients and method are those of the main page:

* [benchmarks](benchmarks.md)

![Rates in relation to Java, Apache Kafka](benchmarks-grid-kafka.png)

![Rates in relation to Java, embedded broker](benchmarks-grid-embedded.png)
""",
        {
            "benchmarks-grid-kafka": partial(_ratios_of, "consume-grid-kafka-rate"),
            "benchmarks-grid-embedded": partial(_ratios_of, "consume-grid-embedded-rate"),
        },
    ),
    "benchmarks-rebalance": Page(
        "The cost of a rebalance",
        """\
Our consumers and Java's, one after the other, on the same Apache Kafka, {rounds} rounds each. The members of a group
are threads of one process. Heartbeats come every 3 s, the default (2.4 to 3 s, so that members are not in step). Most
of the times below come from that, since members learn of a rebalance by the response to a heartbeat. Under the *eager*
protocol those who learn first give up all their partitions and wait for those who learn last. So a partition that stays
with its member stands still for up to one heartbeat interval. Under the *cooperative* protocol it is read on, but a
partition that does move needs a second round. `heartbeat_interval_ms` sets the cost of both.

![Time without progress](benchmarks-rebalance.png)
""",
        {"benchmarks-rebalance": _in_unit("ms", 1.0, "milliseconds (median of the rounds; line: least and most)")},
    ),
    "benchmarks-groups": Page(
        "Both group protocols, in large groups",
        """\
Groups of 50 members and 1,000 partitions under the consumer protocol (KIP-848) and under the classic one with
`cooperative-sticky`, of our consumers and of Java's, on both brokers, {rounds} rounds, one after the other. The members
of a group are threads of one process, with default settings but for the size of fetches. A member of the consumer
protocol gets its assignment with its next heartbeat, every 5 s, one of the classic protocol learns of a rebalance every
3 s. *Interval* is `group.consumer.assignment.interval.ms`, 1,000 by default. Compare a row with the one below it.

![Times, side by side](benchmarks-groups.png)
""",
        {"benchmarks-groups": _in_unit("ms", 1.0, "milliseconds (median of the rounds; line: least and most)")},
    ),
    "benchmarks-growth": Page(
        "How costs grow",
        """\
The cost of one more partition in a consumer, and of one more connection in a broker: {rounds} rounds at most, all
clients in turn. The client's processor time and memory are its own process's. A curve that rises more steeply than that
of a peer would be a fault to mend. Both axes are logarithmic, so that equal slopes are equal growth.

![Curves](benchmarks-growth.png)
""",
        {"benchmarks-growth": plot_curves},
    ),
    "benchmarks-starts": Page(
        "How long a start takes",
        """\
One broker, the embedded one or Apache Kafka, with a topic of batches of 1 or of 500 records in 1 or in 1,000
partitions. It is killed (`kill -9`) and started again, then stopped cleanly and started again. Both recover the
data written after the last flush to disk: here all of it. {rounds} rounds at most, both in turn.
""",
        {},
    ),
    "benchmarks": Page(
        "Benchmarks",
        """\
All contenders use the same broker and topic, each run is a process of its own, and they run in turn (A B A B), {rounds}
rounds. **Only ratios within one table mean anything**: absolute figures move with the machine and its other work. Where
it had much other work, the CPU column (processor time of the client's process, all threads) says more than the rate. A
client that lost or changed a record would have failed: counts and checksums are compared with those of the writer.

More:

* [all kinds of topics](benchmarks-grid.md), each once
* [the cost of a rebalance](benchmarks-rebalance.md)
* [both group protocols in groups of 50 members](benchmarks-groups.md)
* [how costs grow with partitions and connections](benchmarks-growth.md)
* [how long a start takes](benchmarks-starts.md), after a crash and after a clean stop

![Rates, side by side](benchmarks.png)

![Times, side by side](benchmarks-times.png)

![Rates by kind of topic](benchmarks-topics.png)
""",
        {
            "benchmarks": _in_unit("records/s", 1e6, "million records a second (median; line: least and most)"),
            "benchmarks-times": _in_unit("ms", 1.0, "milliseconds (median of the rounds; line: least and most)"),
            "benchmarks-topics": partial(_rates_of, "consume-core-rate"),
        },
    ),
}


def about(command: str, rounds: int) -> dict[str, Any]:
    """Return a page's description of the call that made it: the machine and its load now."""
    return {
        "command": command,
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d"),
        "rounds": rounds,
        "load": round(os.getloadavg()[0], 1),
    }


def machine() -> str:
    """Return a description of the machine, in a line."""
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
    folder: Path, tables: Sequence[Table | Matrix], made_by: Mapping[str, Any], order: Sequence[str]
) -> list[Path]:
    """Put new tables in the place of old ones of the same name and write the files of each page.

    Args:
        made_by: the text of :func:`about`.
        order: names of workloads. Tables are shown in this order.

    Returns:
        the files that were written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, page in PAGES.items():
        mine = [table for table in tables if table.page == name]
        if mine:
            written += _update(folder, name, page, mine, made_by, order)
    return written


def _update(
    folder: Path,
    name: str,
    page: Page,
    tables: Iterable[Table | Matrix],
    made_by: Mapping[str, Any],
    order: Sequence[str],
) -> list[Path]:
    data_file = folder / f"{name}.json"
    data: dict[str, Any] = json.loads(data_file.read_text()) if data_file.exists() else {"tables": {}}
    for old in data["tables"].values():
        old.setdefault("made_by", {key: data.get(key, "") for key in made_by})
    data |= made_by
    for table in tables:
        data["tables"][table.name] = asdict(table) | {"made_by": dict(made_by)}
    data["tables"] = dict(sorted(data["tables"].items(), key=lambda item: _place(item[0], order)))
    data_file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    everything = list(data["tables"].values())
    written = [data_file]
    for plot, draw in page.plots.items():
        path = folder / f"{plot}.png"
        draw(everything, path)
        written += [path] if path.exists() else []
    parts = [_MADE_BY.format(title=page.title, **data) + _without_dead_links(page.text.format(**data), folder)]
    for item in everything:
        text = item["text"] + _other_call(item["made_by"], made_by)
        parts.append(f"## {item['title']}\n\n{text}\n\n{markdown_table(item)}")
    page_file = folder / f"{name}.md"
    page_file.write_text("\n".join(parts), encoding="utf-8")
    return [page_file, *written]


def _other_call(made_by: Mapping[str, Any], newest: Mapping[str, Any]) -> str:
    """Return the note below a table that was not made by the newest call."""
    if made_by == newest:
        return ""
    commands = ", ".join(f"`{command}`" for command in made_by["command"].split("\n$ "))
    rounds = f"{made_by['rounds']} round" + ("" if made_by["rounds"] == 1 else "s")
    date = f", {made_by['date']}" if made_by["date"] else ""
    return f"\n\n*{rounds}, made by {commands} on {made_by['machine']}{date}.*"


def _without_dead_links(text: str, folder: Path) -> str:
    """Leave out lines that show or name a file which has not been made yet."""

    def leads_somewhere(line: str) -> bool:
        return all((folder / target).exists() for target in re.findall(r"\]\(([^)]+)\)", line))

    kept = "\n".join(filter(leads_somewhere, text.split("\n")))
    return re.sub(r"\n{3,}", "\n\n", kept).rstrip("\n") + "\n"


def _place(name: str, order: Sequence[str]) -> int:
    """Return where a table stands: by the workload that its name begins with. Unknown ones at the end."""
    return next((at for at, first in enumerate(order) if name == first or name.startswith(f"{first}-")), len(order))
