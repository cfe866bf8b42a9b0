"""The command under ``python -OO``, which removes docstrings."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


COMMANDS = ("", "topics", "topics create", "groups reset-offsets", "consume")

#: Runs the command with each of its arguments as ``python -m pyconsumer`` does, and prints the texts.
_PROGRAM = """
import contextlib, io, json, runpy, sys
texts = {}
for arguments in sys.argv[1:]:
    sys.argv = ["pyconsumer", *arguments.split(), "--help"]
    with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
        runpy.run_module("pyconsumer", run_name="__main__")
    texts[arguments] = text.getvalue()
print(json.dumps(texts))
"""


@functools.cache
def helps(*options: str) -> dict[str, str]:
    """Return the help of each command as a Python with these options prints it."""
    done = subprocess.run(
        [sys.executable, *options, "-c", _PROGRAM, *COMMANDS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("arguments", COMMANDS)
def test_help_stays(arguments: str) -> None:
    plain, optimized = helps()[arguments], helps("-OO")[arguments]
    assert optimized == plain
    assert plain.startswith("Usage: ")
    assert f" {arguments} [OPTIONS]" in plain.partition("\n")[0] or not arguments
    assert plain.count("\n\n") >= 2  # there is a text above the options
