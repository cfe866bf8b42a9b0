"""Draws tables: bars side by side, one field for each table or each kind of topic."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.tables import is_ours

__all__ = ["plot_curves", "plot_matrix", "plot_ratios", "plot_tables"]

_OURS, _THEIRS, _LINES = "#d1495b", "#8d99ae", "#2b2d42"
_WIDTH = 8.5
_MOST = 4.0  #: colours end at 2 to the power of this, to both sides


def plot_tables(tables: Sequence[Mapping[str, Any]], path: Path, *, scale: float, axis: str) -> None:
    """Contenders' medians, with a line from the least to the most.

    Args:
        scale: the divisor of the figures.
        axis: the title of the axis.
    """
    pyplot = _pyplot()
    shown = [(table["title"], _bars(table["series"], scale)) for table in tables]
    shown = [(title, bars) for title, bars in shown if bars]
    if not shown:
        return
    heights = [len(bars) + 1.6 for _, bars in shown]
    figure, axes = pyplot.subplots(
        len(shown), 1, figsize=(_WIDTH, 0.42 * sum(heights)), height_ratios=heights, layout="constrained", squeeze=False
    )
    for field, (title, bars) in zip(axes[:, 0], shown, strict=True):
        _draw(field, bars, lambda value: f"{value:,.0f}" if value >= 100 else f"{value:.2f}")
        field.set_title(title, loc="left", fontsize=10, fontweight="bold")
    axes[-1, 0].set_xlabel(axis, fontsize=8)
    _save(pyplot, figure, path)


def plot_matrix(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], path: Path, *, axis: str) -> None:
    """A small field for each kind of topic, two side by side, each with a scale of its own."""
    pyplot = _pyplot()
    fields = [
        (item["title"], [(name, found) for name in columns if _is_number(found := item["cells"].get(name))])
        for item in rows
    ]
    fields = [(title, bars) for title, bars in fields if bars]
    if not fields:
        return
    lines = -(-len(fields) // 2)
    heights = [max(len(bars) for _, bars in fields[2 * line : 2 * line + 2]) + 1.8 for line in range(lines)]
    figure, axes = pyplot.subplots(
        lines,
        2,
        figsize=(1.35 * _WIDTH, 0.26 * sum(heights)),
        height_ratios=heights,
        layout="constrained",
        squeeze=False,
    )
    for number, field in enumerate(axes.flat):
        if number >= len(fields):
            field.set_visible(False)
            continue
        title, bars = fields[number]
        _draw(field, bars, _three_digits)
        field.set_title(title, loc="left", fontsize=9, fontweight="bold")
    figure.supxlabel(axis, fontsize=8)
    _save(pyplot, figure, path)


def plot_curves(tables: Sequence[Mapping[str, Any]], path: Path) -> None:
    """A field for each table: a curve for each contender over the sizes of the rows, both axes logarithmic."""
    pyplot = _pyplot()
    lines = -(-len(tables) // 2)
    figure, axes = pyplot.subplots(lines, 2, figsize=(1.2 * _WIDTH, 3.1 * lines), layout="constrained", squeeze=False)
    for field in axes.flat[len(tables) :]:
        field.set_visible(False)
    for field, table in zip(axes.flat, tables, strict=False):
        for name in table["columns"]:
            points = [(row["size"], found[0]) for row in table["rows"] if _is_number(found := row["cells"].get(name))]
            ours = is_ours(name)
            field.plot(
                *zip(*points, strict=True),
                marker="o",
                markersize=4,
                label=name,
                color=_OURS if ours else None,
                linewidth=2 if ours else 1.2,
                zorder=3 if ours else 2,
            )
        field.set_xscale("log")
        field.set_yscale("log")
        field.set_title(table["title"], loc="left", fontsize=10, fontweight="bold")
        field.set_ylabel(table["unit"], fontsize=8)
        field.set_xlabel(table["rows"][0]["title"].split()[-1].rstrip("s") + "s", fontsize=8)
        field.grid(alpha=0.3)
        field.legend(fontsize=7, frameon=False)
        field.spines[["top", "right"]].set_visible(False)
        field.tick_params(labelsize=8)
    _save(pyplot, figure, path)


def plot_ratios(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], reference: str, path: Path, *, title: str
) -> None:
    """One square for each kind of topic and contender: its rate in relation to that of the reference."""
    pyplot = _pyplot()
    ratios = [[_ratio(item["cells"], name, reference) for name in columns] for item in rows]
    if not any(math.isfinite(ratio) for line in ratios for ratio in line):
        return
    figure, field = pyplot.subplots(figsize=(0.75 * len(columns) + 3.5, 0.27 * len(rows) + 2.2), layout="constrained")
    colors = pyplot.get_cmap("RdBu").with_extremes(bad="#d8d8d8")
    logarithms = [[math.log2(ratio) for ratio in line] for line in ratios]
    field.imshow(logarithms, cmap=colors, vmin=-_MOST, vmax=_MOST, aspect="auto")
    for y, line in enumerate(ratios):
        for x, ratio in enumerate(line):
            failed = isinstance(rows[y]["cells"].get(columns[x]), str)
            text = f"{ratio:.2g}" if math.isfinite(ratio) else "failed" if failed else ""
            dark = math.isfinite(ratio) and abs(math.log2(ratio)) > 0.7 * _MOST
            field.text(x, y, text, ha="center", va="center", fontsize=7, color="white" if dark else "black")
    field.set_xticks(range(len(columns)), columns, rotation=35, ha="left", rotation_mode="anchor", fontsize=8)
    field.xaxis.tick_top()
    field.set_yticks(range(len(rows)), [item["title"] for item in rows], fontsize=8)
    field.tick_params(length=0)
    field.spines[:].set_visible(False)
    field.set_title(title, loc="left", fontsize=10, fontweight="bold")
    _save(pyplot, figure, path)


def _ratio(cells: Mapping[str, Any], name: str, reference: str) -> float:
    found, base = cells.get(name), cells.get(reference)
    if found is None or base is None or not (_is_number(found) and _is_number(base)):
        return math.nan
    return float(found[0] / base[0])


_Bars = list[tuple[str, Sequence[float]]]


def _bars(series: Sequence[Mapping[str, Any]], scale: float) -> _Bars:
    return [
        (item["name"], [item[key] / scale for key in ("median", "min", "max")])
        for item in series
        if item["median"] is not None
    ]


def _is_number(found: Any) -> bool:
    return bool(found) and not isinstance(found, str)


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _draw(field: Any, bars: _Bars, text: Callable[[float], str]) -> None:
    upwards = list(reversed(bars))
    names = [name for name, _ in upwards]
    medians = [found[0] for _, found in upwards]
    lines = [[found[0] - found[1] for _, found in upwards], [found[2] - found[0] for _, found in upwards]]
    field.barh(names, medians, color=[_color(name) for name in names], height=0.7)
    field.errorbar(medians, names, xerr=lines, fmt="none", ecolor=_LINES, elinewidth=1, capsize=2)
    for position, (_, (median, _, most)) in enumerate(upwards):
        field.annotate(
            text(median), (most, position), xytext=(5, 0), textcoords="offset points", va="center", fontsize=8
        )
    field.set_xlim(0, max(found[2] for _, found in bars) * 1.14 or 1)
    field.spines[["top", "right"]].set_visible(False)
    field.tick_params(labelsize=8)


def _color(name: str) -> str:
    """Ours stand out. Also statements that import ours."""
    return _OURS if is_ours(name) or "pyconsumer" in name.split() else _THEIRS


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _save(pyplot: Any, figure: Any, path: Path) -> None:
    # "tight" makes room for what is longer than its field, such as a title.
    figure.savefig(path, dpi=130, bbox_inches="tight", metadata={"Software": None})
    pyplot.close(figure)
