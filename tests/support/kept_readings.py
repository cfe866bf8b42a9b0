"""Keeps between runs how checks have read the sources, so that a run reads only the files that have changed.

A file is read again when its content differs. All files are, when the program that reads them has changed or another
Python runs it. The readings are kept below ``build/readings``.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

__all__ = ["KeptReadings"]

T = TypeVar("T")

_ROOT = Path(__file__).parents[2]


class KeptReadings(Generic[T]):
    """The readings of files by one function.

    Args:
        name: of the file that keeps them.
        read: reads a file. Its result depends on the file's path and content alone, and can be pickled.
        programs: the modules that take part in the reading.
        folder: has the kept file.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[Path], T],
        programs: Iterable[ModuleType],
        folder: Path = _ROOT / "build" / "readings",
    ) -> None:
        self._read = read
        self._programs = programs
        self._kept = folder / f"{name}.pickle"
        self._found: dict[Path, tuple[bytes, T]] | None = None

    def of(self, paths: Iterable[Path]) -> list[T]:
        """Return the readings of files, in their order."""
        if self._found is None:
            self._found = self._load()
        changed = False
        readings = []
        for path in paths:
            content = hashlib.sha256(path.read_bytes()).digest()
            kept = self._found.get(path)
            if kept is None or kept[0] != content:
                kept = self._found[path] = content, self._read(path)
                changed = True
            readings.append(kept[1])
        if changed:
            self._save(self._found)
        return readings

    def _program(self) -> bytes:
        sources = [Path(str(module.__file__)).read_bytes() for module in self._programs]
        return hashlib.sha256(b"\0".join([sys.version.encode(), *sources])).digest()

    def _load(self) -> dict[Path, tuple[bytes, T]]:
        try:
            program, found = pickle.loads(self._kept.read_bytes())
        except Exception:  # there is none yet, or one that is damaged
            return {}
        return found if program == self._program() else {}

    def _save(self, found: dict[Path, tuple[bytes, T]]) -> None:
        there = {path: kept for path, kept in found.items() if path.exists()}
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        partial = self._kept.with_suffix(f".{os.getpid()}")
        partial.write_bytes(pickle.dumps((self._program(), there)))
        partial.replace(self._kept)  # another process may have written the same
