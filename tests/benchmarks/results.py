"""Every finished run as a line of JSON, so that an aborted benchmark can continue and pages can be made again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Results", "Run", "Scope", "Series"]


@dataclass(frozen=True)
class Run:
    """One measured run.

    Attributes:
        contender: its name in tables, and ``note``: a remark about it there.
        amount, seconds: how much in how long.
        cpu_s: processor time of the contender's process, all threads.
        peak_bytes: the most memory that its process ever had.
        values: other figures, by name.
        error: why there is none of this: it failed.
    """

    contender: str
    note: str = ""
    amount: float = 0.0
    seconds: float = 0.0
    cpu_s: float | None = None
    peak_bytes: int | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    error: str = ""

    @property
    def rate(self) -> float:
        return self.amount / self.seconds if self.seconds else 0.0

    @property
    def cpu_s_per_million(self) -> float | None:
        return None if self.cpu_s is None or not self.amount else self.cpu_s / self.amount * 1e6


@dataclass
class Series:
    """All runs of one contender, failed ones apart."""

    name: str
    note: str = ""
    runs: list[Run] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Scope:
    """The runs of one workload on one kind of topic (a cell's name, or empty)."""

    results: Results
    workload: str
    cell: str = ""

    def done(self, contender: str, round_: int) -> bool:
        """Return whether that run has been made, with success."""
        return any(
            line["contender"] == contender and line["round"] == round_ and not line["error"] for line in self._lines()
        )

    def add(self, round_: int, run: Run) -> None:
        self.results.append({"workload": self.workload, "cell": self.cell, "round": round_, **asdict(run)})

    def series(self) -> list[Series]:
        """By contender, in the order of their first runs. A later success takes the place of an error."""
        found: dict[str, Series] = {}
        for line in self._lines():
            run = Run(**{key: value for key, value in line.items() if key not in ("workload", "cell", "round")})
            series = found.setdefault(run.contender, Series(run.contender))
            series.note = run.note or series.note
            if run.error:
                series.errors.append(run.error)
            else:
                series.runs.append(run)
        return list(found.values())

    def _lines(self) -> Iterator[dict[str, Any]]:
        for line in self.results.lines:
            if line.get("workload") == self.workload and line.get("cell") == self.cell and "contender" in line:
                yield line


@dataclass
class Results:
    """Lines in the order in which they came. With a ``path`` each is appended to that file at once."""

    path: Path | None = None
    lines: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path) -> Results:
        """Return the contents of a file. A last line that a crash has cut off is removed."""
        results = cls(path)
        if path.exists():
            text = path.read_bytes()
            whole = text[: text.rfind(b"\n") + 1]
            if whole != text:
                path.write_bytes(whole)
            results.lines = [json.loads(line) for line in whole.splitlines()]
        return results

    def append(self, line: dict[str, Any]) -> None:
        self.lines.append(line)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def scope(self, workload: str, cell: str = "") -> Scope:
        return Scope(self, workload, cell)

    def tables(self, workload: str) -> list[dict[str, Any]]:
        """The tables that a workload left as a whole, the newest of each name."""
        found = {
            line["table"]["name"]: line["table"]
            for line in self.lines
            if line.get("workload") == workload and "table" in line
        }
        return list(found.values())

    def about(self) -> dict[str, Any]:
        """Return the text on the calls: every command once, the newest machine, the most rounds, the highest load."""
        calls: list[dict[str, Any]] = [line["about"] for line in self.lines if "about" in line]
        if not calls:
            return {"command": "", "machine": "", "date": "", "rounds": 0, "load": 0.0}
        return calls[-1] | {
            "command": "\n$ ".join(dict.fromkeys(call["command"] for call in calls)),
            "rounds": max(call["rounds"] for call in calls),
            "load": max(call["load"] for call in calls),
        }
