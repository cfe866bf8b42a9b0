"""Start of another Python process that finds the same modules as this one.

Without these two the child would look into the current folder first, and in a clone run its sources, without
compiled modules.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

__all__ = ["child_environment", "child_python"]

_HERE: Final = str(Path(__file__).parents[1])  # where this package is


def child_python(*arguments: str) -> list[str]:
    """Return the command that runs this Python interpreter with ``arguments``, such as ``-m MODULE``."""
    return [sys.executable, "-P", *arguments]


def child_environment() -> dict[str, str]:
    """Return the environment for a child process, so that it has the same ``sys.path`` in the same order.

    The folder of this package comes first in two cases: the path has it only as the current folder (an empty entry), or
    not at all (an editable installation). In other cases this would put installed packages before Python's own modules.
    """
    path = [entry for entry in sys.path if entry]
    if _HERE not in path:
        path.insert(0, _HERE)
    return os.environ | {"PYTHONPATH": os.pathsep.join(path)}
