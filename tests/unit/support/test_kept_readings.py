"""Readings of sources that are kept between runs: a file is read again only if it or the program has changed."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.support.kept_readings import KeptReadings


class _Run:
    """Readings as those of a new process each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read: list[str] = []  # the names of the files that were read
        self.program = ModuleType("program")
        self.program.__file__ = str(folder / "program.py")
        (folder / "program.py").write_text("1")
        self.paths = [folder / "a", folder / "b"]
        for path in self.paths:
            path.write_text(path.name)

    def _one(self, path: Path) -> str:
        self.read.append(path.name)
        return path.read_text().upper()

    def readings(self) -> list[str]:
        self.read.clear()
        return KeptReadings("upper", self._one, [self.program], self.folder / "kept").of(self.paths)


@pytest.fixture
def run(tmp_path: Path) -> _Run:
    made = _Run(tmp_path)
    assert made.readings() == ["A", "B"]
    assert made.read == ["a", "b"]
    return made


def test_unchanged_files_are_not_read_again(run: _Run) -> None:
    assert run.readings() == ["A", "B"]
    assert run.read == []


def test_a_changed_file_is_read_again(run: _Run) -> None:
    run.paths[1].write_text("c")

    assert run.readings() == ["A", "C"]
    assert run.read == ["b"]
    assert run.readings() == ["A", "C"]
    assert run.read == []


def test_another_program_reads_all_files_again(run: _Run) -> None:
    (run.folder / "program.py").write_text("2")

    assert run.readings() == ["A", "B"]
    assert run.read == ["a", "b"]


def test_a_damaged_file_of_readings_is_ignored(run: _Run) -> None:
    kept = run.folder / "kept" / "upper.pickle"
    kept.write_bytes(kept.read_bytes()[:-9])

    assert run.readings() == ["A", "B"]
    assert run.read == ["a", "b"]


def test_readings_of_removed_files_are_dropped(run: _Run) -> None:
    size = (run.folder / "kept" / "upper.pickle").stat().st_size
    run.paths.pop().unlink()
    run.paths[0].write_text("z")

    assert run.readings() == ["Z"]
    assert (run.folder / "kept" / "upper.pickle").stat().st_size < size
