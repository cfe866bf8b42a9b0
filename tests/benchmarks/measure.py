"""Runs of contenders: in turn, each in a process of its own, and their answers compared with the known contents."""

from __future__ import annotations

import compileall
import json
import resource
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.benchmarks.results import Run, Scope
from tests.support.process import Finished, run

__all__ = [
    "ROOT",
    "Contender",
    "WrongAnswerError",
    "alternate",
    "checked",
    "child",
    "compile_package",
    "process_cpu_s",
    "timed",
]

ROOT = Path(__file__).parents[2]


class WrongAnswerError(Exception):
    """A contender was quick but did not do the work: records are missing, twice there, or changed."""


@dataclass(frozen=True)
class Contender:
    """Something to measure: a name for the table and a function for one run (raises if the answer is wrong)."""

    name: str
    measure: Callable[[], Run]
    note: str = ""


def alternate(contenders: Sequence[Contender], rounds: int, say: Callable[[str], None], scope: Scope) -> None:
    """Run all contenders once, then all again, and so on, so that a disturbance of the machine affects all of them.

    Runs that ``scope`` has already are left out. New ones go there, also those that failed.
    """
    for round_ in range(1, rounds + 1):
        for contender in contenders:
            if not scope.done(contender.name, round_):
                scope.add(round_, _run(contender, round_, say))


def _run(contender: Contender, round_: int, say: Callable[[str], None]) -> Run:
    try:
        measured = replace(contender.measure(), contender=contender.name, note=contender.note)
    except (WrongAnswerError, AssertionError) as error:  # the latter: its process failed, or took too long
        say(f"  round {round_}: {contender.name}: FAILED\n{error}")
        return Run(contender.name, contender.note, error=_brief(error))
    say(f"  round {round_}: {contender.name}: {_told(measured)}")
    return measured


def _brief(error: Exception) -> str:
    """The most informative line of a message: the last one, or for a failed command the last line of its output."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else type(error).__name__


def _told(measured: Run) -> str:
    parts = [f"{measured.rate:,.0f}/s"] if measured.seconds else []
    if measured.seconds and measured.cpu_s_per_million is not None:
        parts.append(f"{measured.cpu_s_per_million:.2f} CPU s per million")
    parts += [f"{name} {value:,.2f}" for name, value in measured.values.items()]
    return ", ".join(parts)


def children_cpu_s() -> float:
    """Processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def process_cpu_s(pid: int) -> float:
    """Processor time that a running process has used, all threads. ``/proc`` has it in steps of 10 ms only."""
    clock = ~pid << 3 | 2  # Linux: the clock of a process (POSIX's clock_getcpuclockid)
    return time.clock_gettime(clock)


def timed(action: Callable[[], Finished]) -> tuple[Finished, float, float]:
    """Run a command. Return its completed process, the seconds it took and its processor time."""
    cpu, start = children_cpu_s(), time.perf_counter()
    finished = action()
    return finished, time.perf_counter() - start, children_cpu_s() - cpu


def compile_package(folder: Path) -> None:
    """Write the bytecode of the package in a checkout, as pip does with the others when it installs them.

    Otherwise each process would compile the sources again where PYTHONDONTWRITEBYTECODE is set.
    """
    compileall.compile_dir(folder / "pyconsumer", quiet=2)


def child(
    module: str, arguments: Mapping[str, Any], *, env: Mapping[str, str] | None = None, timeout_s: float = 600.0
) -> dict[str, Any]:
    """Run ``python -m MODULE JSON`` and read the JSON that it prints last."""
    finished = run(
        [sys.executable, "-m", module, json.dumps(arguments)],
        timeout_s=timeout_s,
        cwd=ROOT,
        env={"PYTHONHASHSEED": "0", **(env or {})},
    )
    return answer(finished)


def answer(finished: Finished) -> dict[str, Any]:
    """The JSON that a successful program printed last."""
    found: dict[str, Any] = json.loads(finished.check().lines[-1])
    return found


def checked(what: str, found: Mapping[str, Any], wanted: Mapping[str, Any], keys: Iterable[str]) -> None:
    """Raise :class:`WrongAnswerError` unless ``found`` agrees with ``wanted``."""
    for key in keys:
        if found[key] != wanted[key]:
            raise WrongAnswerError(f"{what}: {key} is {_short(found[key])}, it should be {_short(wanted[key])}")


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
