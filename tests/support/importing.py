"""The order in which the processes of one run import the test modules: each begins at a place of its own.

In a fresh clone each module is compiled when it is imported first, and pytest rewrites its assertions, which takes 12 s
of a processor for all. Processes that began with the same module would all compile it, at the same time.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

import pytest

__all__ = ["import_in_turn", "modules_in_turn"]


def modules_in_turn(root: Path, folders: Sequence[Path], process: int, processes: int) -> list[str]:
    """Return the names of the test modules in some folders, in the order of one of several processes.

    Args:
        root: of the sources, above the folders.
        folders: each with its subfolders.
        process: its number, from 0.
        processes: how many there are.
    """
    found = sorted({path.relative_to(root) for folder in folders for path in folder.rglob("test_*.py")})
    names = [".".join(path.with_suffix("").parts) for path in found]
    first = len(names) * process // processes
    return names[first:] + names[:first]


def import_in_turn(config: pytest.Config) -> None:
    """Import the test modules of a process of pytest-xdist that collects folders.

    A module that cannot be imported is left to pytest, which imports it once more and reports it.
    """
    worker = getattr(config, "workerinput", None)
    folders = [Path(config.invocation_params.dir, argument) for argument in config.args]
    if worker is None or not all(folder.is_dir() and config.rootpath in folder.parents for folder in folders):
        return
    number = int(worker["workerid"].removeprefix("gw"))
    for name in modules_in_turn(config.rootpath, folders, number, worker["workercount"]):
        try:
            importlib.import_module(name)
        except (Exception, pytest.skip.Exception, pytest.fail.Exception):
            continue
