"""Finds an installed copy of the package that would be tested instead of the sources beside the tests."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["other_copy"]


def other_copy(root: Path, distributions: Iterable[Any] | None = None) -> str | None:
    """Return what to do if tests in a source tree would import an installed copy, or None if they would not.

    Tests start programs in other folders. Those import the installed package, so it has to be an editable installation.

    Args:
        root: the source tree.
        distributions: the installations of ``pyconsumer``, by default those of this Python.
    """
    for found in metadata.distributions(name="pyconsumer") if distributions is None else distributions:
        installed = Path(str(found.locate_file("pyconsumer")))
        if (installed / "__init__.py").exists() and installed.resolve() != (root / "pyconsumer").resolve():
            return (
                f"some of these tests would test the copy of pyconsumer in {installed.parent} instead of {root}:"
                f" install the sources with pip install -e '{root}[test]'"
            )
    return None
