"""Sequence diagrams in Mermaid's notation as SVG, so that a page shows them without a script or another host.

Code hosts draw the same blocks by themselves. The known statements: ``participant A as name``, messages (``->>`` and
``-->>``) and ``Note over A: text``. Colours come from the site's style sheet.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape

__all__ = ["DiagramError", "svg"]

_PARTICIPANT = re.compile(r"participant (\w+)(?: as (.+))?")
_MESSAGE = re.compile(r"(\w+)(--?>>)(\w+): ?(.+)")
_NOTE = re.compile(r"Note over (\w+(?:, ?\w+)*): ?(.+)")

_CHARACTER = 7.2  # average width at 13 px
_ROW, _HEAD, _MARGIN, _GAP = 38, 34, 12, 36


class DiagramError(ValueError):
    """A line of a diagram is not understood. The message has it."""


@dataclass
class _Message:
    start: str
    end: str
    text: str
    dashed: bool


@dataclass
class _Note:
    over: list[str]
    text: str


def svg(source: str) -> str:
    """Return a diagram as one element ``<svg>`` without line breaks.

    Raises:
        DiagramError: the source is no sequence diagram, or has a line of another kind.
    """
    names, rows = _read(source)
    centres = _place(names, rows)
    keys = list(names)
    sides = [_width(names[key]) / 2 for key in keys]
    left = min(centres[key] - side for key, side in zip(keys, sides, strict=True))
    right = max(centres[key] + side for key, side in zip(keys, sides, strict=True))
    for row in rows:
        if isinstance(row, _Note):
            middle, half = _note_box(row, centres)
            left, right = min(left, middle - half), max(right, middle + half)
        elif row.start == row.end:
            right = max(right, centres[row.start] + 40 + len(row.text) * _CHARACTER)
    shift = _MARGIN - left
    centres = {key: centre + shift for key, centre in centres.items()}
    width, height = right + shift + _MARGIN, _HEAD + _ROW * len(rows) + 30
    parts = [_lifeline(names[key], centres[key], height) for key in keys]
    for number, row in enumerate(rows):
        y = _HEAD + _ROW * (number + 1)
        parts.append(_note(row, centres, y) if isinstance(row, _Note) else _message(row, centres, y))
    label = escape("sequence diagram: " + ", ".join(names.values()), quote=True)
    return (
        f'<svg class="sequence" role="img" aria-label="{label}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}">{"".join(parts)}</svg>'
    )


def _read(source: str) -> tuple[dict[str, str], list[_Message | _Note]]:
    lines = [line.strip() for line in source.strip().splitlines() if line.strip()]
    if not lines or lines[0] != "sequenceDiagram":
        raise DiagramError(f"only sequence diagrams are drawn here, not {lines[:1]}")
    names: dict[str, str] = {}
    rows: list[_Message | _Note] = []
    for line in lines[1:]:
        if found := _PARTICIPANT.fullmatch(line):
            names[found[1]] = found[2] or found[1]
        elif found := _NOTE.fullmatch(line):
            rows.append(_Note(re.split(", ?", found[1]), found[2]))
        elif found := _MESSAGE.fullmatch(line):
            rows.append(_Message(found[1], found[3], found[4], found[2] == "-->>"))
        else:
            raise DiagramError(f"a line of a sequence diagram is not understood: {line!r}")
    used = {name for row in rows for name in (row.over if isinstance(row, _Note) else (row.start, row.end))}
    for name in sorted(used - names.keys()):
        raise DiagramError(f"{name!r} is used, and no participant")
    return names, rows


def _place(names: dict[str, str], rows: list[_Message | _Note]) -> dict[str, float]:
    """Return the middle of each participant, so that every text has room between its two."""
    keys = list(names)
    at = {key: number for number, key in enumerate(keys)}
    centres = [0.0] * len(keys)
    for number in range(1, len(keys)):
        room = (_width(names[keys[number - 1]]) + _width(names[keys[number]])) / 2 + _GAP
        centres[number] = centres[number - 1] + room
        for row in rows:
            ends = sorted(at[each] for each in (row.over if isinstance(row, _Note) else (row.start, row.end)))
            if ends[0] != ends[-1] == number:
                needed = len(row.text) * _CHARACTER + 30
                centres[number] = max(centres[number], centres[ends[0]] + needed)
    return dict(zip(keys, centres, strict=True))


def _width(text: str) -> float:
    return len(text) * _CHARACTER + 24


def _note_box(row: _Note, centres: dict[str, float]) -> tuple[float, float]:
    """Return the middle of a note and half of its width."""
    first, last = min(centres[each] for each in row.over), max(centres[each] for each in row.over)
    return (first + last) / 2, max(_width(row.text), last - first + 40) / 2


def _lifeline(name: str, x: float, height: float) -> str:
    half = _width(name) / 2
    return (
        f'<line class="life" x1="{x:.1f}" x2="{x:.1f}" y1="{_HEAD}" y2="{height - 6:.1f}"/>'
        f'<rect class="head" x="{x - half:.1f}" y="4" width="{2 * half:.1f}" height="{_HEAD - 6}" rx="4"/>'
        f'<text x="{x:.1f}" y="{_HEAD / 2 + 5:.1f}">{escape(name)}</text>'
    )


def _note(row: _Note, centres: dict[str, float], y: float) -> str:
    middle, half = _note_box(row, centres)
    return (
        f'<rect class="note" x="{middle - half:.1f}" y="{y - 17:.1f}" width="{2 * half:.1f}" height="26" rx="3"/>'
        f'<text class="noted" x="{middle:.1f}" y="{y + 1:.1f}">{escape(row.text)}</text>'
    )


def _message(row: _Message, centres: dict[str, float], y: float) -> str:
    start, end = centres[row.start], centres[row.end]
    kind = "back" if row.dashed else "there"
    if row.start == row.end:
        path = f"M{start:.1f} {y - 8:.1f}h26v14h-20"
        return (
            f'<path class="{kind}" d="{path}"/>{_head(start + 1, y + 6, -1)}'
            f'<text class="self" x="{start + 34:.1f}" y="{y + 3:.1f}">{escape(row.text)}</text>'
        )
    way = 1 if end > start else -1
    return (
        f'<line class="{kind}" x1="{start:.1f}" x2="{end - way * 7:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f"{_head(end, y, way)}"
        f'<text x="{(start + end) / 2:.1f}" y="{y - 6:.1f}">{escape(row.text)}</text>'
    )


def _head(x: float, y: float, way: int) -> str:
    return f'<path class="arrow" d="M{x - way:.1f} {y:.1f}l{-way * 8} -4v8z"/>'
