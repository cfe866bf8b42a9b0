"""Keeps between runs how checks have read the sources, so that a run reads only the files that have changed.

A file is read again when its content differs. All files are, when the program that reads them has changed or another
Python runs it. The readings are kept below ``build/readings``. Readings that have a place are made together: a file is
parsed once for all of them.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

__all__ = ["KeptReadings"]

T = TypeVar("T")

_ROOT = Path(__file__).parents[2]

_together: list[KeptReadings[Any]] = []


class KeptReadings(Generic[T]):
    """The readings of files by one function.

    Args:
        name: of the file that keeps them.
        read: reads a file. Its result depends on the file's path and content alone, and can be pickled.
        programs: the modules that take part in the reading.
        folder: has the kept file.
        place: a folder. When another reading with a place reads a module there, this one does so right after it.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[Path], T],
        programs: Iterable[ModuleType],
        folder: Path = _ROOT / "build" / "readings",
        place: Path | None = None,
    ) -> None:
        self._read = read
        self._programs = programs
        self._kept = folder / f"{name}.pickle"
        self._found: dict[Path, tuple[bytes, T]] | None = None
        self._is_saved = True
        self._place = place
        if place is not None:
            _together.append(self)

    def of(self, paths: Iterable[Path]) -> list[T]:
        """Return the readings of files, in their order."""
        others = [each for each in _together if each is not self] if self._place else []
        readings = []
        for path in paths:
            content = hashlib.sha256(path.read_bytes()).digest()
            reading, is_new = self._reading(path, content)
            readings.append(reading)
            if is_new:  # and the syntax tree is at hand
                for other in others:
                    if path.suffix == ".py" and other._place in path.parents:
                        other._reading(path, content)
        for each in (self, *others):
            each._save()
        return readings

    def _reading(self, path: Path, content: bytes) -> tuple[T, bool]:
        """Return the reading of a file of this content, and if the file has been read for it."""
        if self._found is None:
            self._found = self._load()
        kept = self._found.get(path)
        if kept is not None and kept[0] == content:
            return kept[1], False
        reading = self._read(path)
        self._found[path] = content, reading
        self._is_saved = False
        return reading, True

    def _program(self) -> bytes:
        sources = [Path(str(module.__file__)).read_bytes() for module in self._programs]
        return hashlib.sha256(b"\0".join([sys.version.encode(), *sources])).digest()

    def _load(self) -> dict[Path, tuple[bytes, T]]:
        try:
            program, found = pickle.loads(self._kept.read_bytes())
        except Exception:  # there is none yet, or one that is damaged
            return {}
        return found if program == self._program() else {}

    def _save(self) -> None:
        if self._is_saved or self._found is None:
            return
        there = {path: kept for path, kept in self._found.items() if path.exists()}
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        partial = self._kept.with_suffix(f".{os.getpid()}")
        partial.write_bytes(pickle.dumps((self._program(), there)))
        partial.replace(self._kept)  # another process may have written the same
        self._is_saved = True
