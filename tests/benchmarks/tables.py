"""Results as tables: of contenders, and tables that set cells against contenders. Both as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.benchmarks.results import Run, Series

__all__ = ["REFERENCE", "Matrix", "Table", "figure", "is_ours", "markdown_table", "row"]

#: The contender that other consumers are set in relation to.
REFERENCE = "Java, same loop"


@dataclass
class Table:
    """Contenders one below the other.

    Attributes:
        name: by which a newer one takes its place. Begins with the workload's name.
        unit: of the medians, such as ``records/s``.
        reference: the contender that the others are compared with, or empty.
        page: the name of the page that shows it.
    """

    name: str
    title: str
    unit: str
    text: str
    reference: str
    series: list[dict[str, Any]] = field(default_factory=list)
    page: str = "benchmarks"

    def take(self, series: Iterable[Series], value: Any = None) -> Table:
        """Add a row for each contender: of its rates, or of the result of ``value`` for a run."""
        self.series += [row(item, value or (lambda run: run.rate)) for item in series]
        return self


@dataclass
class Matrix:
    """Kinds of topics one below the other, contenders side by side. The rest as in :class:`Table`.

    Attributes:
        columns: names of contenders.
        rows: of each kind of topic its title and, by contender, ``[median, least, most]`` (or none).
    """

    name: str
    title: str
    unit: str
    text: str
    columns: list[str]
    rows: list[dict[str, Any]] = field(default_factory=list)
    page: str = "benchmarks"


def row(series: Series, value: Any) -> dict[str, Any]:
    """A row of a table: median, least and most of a figure, and further facts about each contender."""
    found = [value(run) for run in series.runs]
    costs = [run.cpu_s_per_million for run in series.runs if run.cpu_s_per_million is not None]
    peaks = [run.peak_bytes for run in series.runs if run.peak_bytes]
    return {
        "name": series.name,
        "note": series.note,
        **spread(found),
        "cpu_s_per_million": statistics.median(costs) if costs else None,
        "peak_mb": statistics.median(peaks) / 1e6 if peaks else None,
        "error": "" if series.runs else (series.errors or ["not run"])[-1],
    }


def spread(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return {"median": None, "min": None, "max": None}
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def is_ours(name: str) -> bool:
    return name.partition(",")[0] in ("pyconsumer", "embedded broker")


def figure(value: float | None, unit: str) -> str:
    """A number as it stands in a table."""
    if value is None:
        return ""
    if unit == "records/s" and value >= 10_000:
        return f"{value:,.0f}"
    if unit in ("thousand records/s", "CPU s"):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{value:,.1f}" if abs(value) < 100 else f"{value:,.0f}"


def markdown_table(table: Mapping[str, Any]) -> str:
    """One table as Markdown. ``table`` is a :class:`Table` or a :class:`Matrix` as a dictionary."""
    return _matrix(table) if "columns" in table else _contenders(table)


def _contenders(table: Mapping[str, Any]) -> str:
    unit, series = table["unit"], table["series"]
    reference = next((item["median"] for item in series if item["name"] == table["reference"]), None)
    with_cpu = any(item.get("cpu_s_per_million") for item in series)
    with_peak = any(item.get("peak_mb") for item in series)
    with_notes = any(item["note"] or item.get("error") for item in series)
    head = ["", f"median {unit}", "min", "max"]
    head += [f"x {table['reference']}"] if reference else []
    head += ["CPU s per million"] if with_cpu else []
    head += ["peak MB"] if with_peak else []
    head += ["note"] if with_notes else []
    lines = [_line(head), "|---|" + "---:|" * (len(head) - 1 - with_notes) + "---|" * with_notes]
    for item in series:
        name = f"**{item['name']}**" if is_ours(item["name"]) else item["name"]
        if " import " in f" {name}" or name.startswith("poll("):
            name = f"`{name}`"
        cells = [name, *(figure(item[key], unit) for key in ("median", "min", "max"))]
        cells += [_ratio(item["median"], reference)] if reference else []
        cells += [_optional(item.get("cpu_s_per_million"), 2)] if with_cpu else []
        cells += [_optional(item.get("peak_mb"), 0)] if with_peak else []
        cells += [_note(item)] if with_notes else []
        lines.append(_line(cells))
    return "\n".join(lines) + "\n"


def _matrix(table: Mapping[str, Any]) -> str:
    columns = table["columns"]
    lines = [_line(["", *(f"**{name}**" if is_ours(name) else name for name in columns)])]
    lines.append("|---|" + "---:|" * len(columns))
    lines += [
        _line([item["title"], *(_triple(item["cells"].get(name), table["unit"]) for name in columns)])
        for item in table["rows"]
    ]
    return "\n".join(lines) + "\n"


def _triple(found: Sequence[float] | str | None, unit: str) -> str:
    """``5 (4-6)``, ``5`` if there was one run, or the error."""
    if not found or isinstance(found, str):
        return "failed" if found else ""
    median, least, most = (figure(value, unit) for value in found)
    return median if least == most else f"{median} ({least}-{most})"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in cells) + " |"


def _note(item: Mapping[str, Any]) -> str:
    failed = f"failed: {item['error']}" if item.get("error") else ""
    return "; ".join(text for text in (item["note"], failed) if text)


def _ratio(value: float | None, reference: float) -> str:
    return "" if value is None else f"{value / reference:.2f}"


def _optional(value: float | None, digits: int) -> str:
    return f"{value:,.{digits}f}" if value else ""


def cell_values(series: Series, value: Any) -> list[float] | str | None:
    """Return a contender's cell of a matrix: median, least, most, or the error."""
    found = [each for run in series.runs if (each := value(run)) is not None]
    if not found:
        return series.errors[-1] if series.errors and not series.runs else None
    return [statistics.median(found), min(found), max(found)]


def thousands(run: Run) -> float:
    return run.rate / 1000
