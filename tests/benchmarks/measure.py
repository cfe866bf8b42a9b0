"""What a benchmark is made of: contenders that are run in turn, each run in a process of its own."""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.process import Finished, run

__all__ = ["Contender", "Run", "Series", "WrongAnswerError", "alternate", "child", "children_cpu_s"]

ROOT = Path(__file__).parents[2]


class WrongAnswerError(Exception):
    """A contender was quick but did not do the work: records are missing, twice there, or changed."""


@dataclass(frozen=True)
class Run:
    """One measured run: how much in how long, and how many seconds of processor time the process took."""

    amount: float
    seconds: float
    cpu_s: float | None = None

    @property
    def rate(self) -> float:
        return self.amount / self.seconds


@dataclass
class Series:
    """All runs of one contender."""

    name: str
    runs: list[Run] = field(default_factory=list)
    note: str = ""

    def rates(self) -> list[float]:
        return [run.rate for run in self.runs]

    @property
    def median(self) -> float:
        return statistics.median(self.rates())

    @property
    def cpu_s_per_million(self) -> float | None:
        costs = [run.cpu_s / run.amount * 1e6 for run in self.runs if run.cpu_s is not None]
        return statistics.median(costs) if costs else None

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "note": self.note,
            "median": self.median,
            "min": min(self.rates()),
            "max": max(self.rates()),
            "cpu_s_per_million": self.cpu_s_per_million,
        }


@dataclass(frozen=True)
class Contender:
    """Something to measure: a name for the table and what makes one run of it (and raises if the answer is wrong)."""

    name: str
    measure: Callable[[], Run]
    note: str = ""


def alternate(contenders: Sequence[Contender], rounds: int, say: Callable[[str], None]) -> list[Series]:
    """Run all contenders once, then all again, and so on: what disturbs the machine disturbs each of them."""
    series = {contender.name: Series(contender.name, note=contender.note) for contender in contenders}
    for number in range(1, rounds + 1):
        for contender in contenders:
            measured = contender.measure()
            series[contender.name].runs.append(measured)
            cpu = "" if measured.cpu_s is None else f", {measured.cpu_s / measured.amount * 1e6:.2f} CPU s per million"
            say(f"  round {number}: {contender.name}: {measured.rate:,.0f}/s{cpu}")
    return list(series.values())


def children_cpu_s() -> float:
    """Processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(action: Callable[[], Finished]) -> tuple[Finished, float, float]:
    """Run a command; what it left, the seconds it took and its processor time."""
    cpu, start = children_cpu_s(), time.perf_counter()
    finished = action()
    return finished, time.perf_counter() - start, children_cpu_s() - cpu


def child(module: str, arguments: Mapping[str, Any], *, timeout_s: float = 600.0) -> dict[str, Any]:
    """Run ``python -m MODULE JSON`` and read the JSON that it prints last."""
    finished = run(
        [sys.executable, "-m", module, json.dumps(arguments)],
        timeout_s=timeout_s,
        cwd=ROOT,
        env={"PYTHONHASHSEED": "0"},
    ).check()
    answer: dict[str, Any] = json.loads(finished.lines[-1])
    return answer


def checked(what: str, found: Mapping[str, Any], wanted: Mapping[str, Any], keys: Iterable[str]) -> None:
    """Raise :class:`WrongAnswerError` unless ``found`` says what ``wanted`` says."""
    for key in keys:
        if found[key] != wanted[key]:
            raise WrongAnswerError(f"{what}: {key} is {found[key]}, it should be {wanted[key]}")
