"""The command under ``python -OO``, which removes docstrings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("arguments", ["", "topics", "topics create", "groups reset-offsets", "consume"])
def test_help_stays(arguments: str) -> None:
    plain, optimized = (
        subprocess.run(
            [sys.executable, *options, "-m", "pyconsumer", *arguments.split(), "--help"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for options in ([], ["-OO"])
    )
    assert optimized == plain
    assert plain.count("\n\n") >= 2  # there is a text above the options
