"""Python processes of Spark beside which little is installed: Python itself, and what a worker of Spark needs."""

from __future__ import annotations

import os
import site
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.support.process import Finished, run

__all__ = ["bare_folder", "bare_python", "fill", "result_in", "run_in", "workers_packages"]

#: What a worker of Spark needs besides Python; nothing of ours, and none of our dependencies, is among it.
_WORKERS_PACKAGES = ("pyspark", "py4j", "pyarrow", "numpy", "pandas", "dateutil", "pytz", "six.py", "tzdata")


def fill(program: str, **values: str) -> str:
    """A program with values in place of ``<name>``."""
    for name, value in values.items():
        program = program.replace(f"<{name}>", repr(value))
    return program


def bare_folder(tmp_path: Path) -> Path:
    """A folder of commands that Spark's shell scripts use, without java."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "sh", "dirname", "basename", "ps", "tr", "grep", "sed", "awk", "uname", "cat", "ls", "env"):
        for place in ("/usr/local/bin", "/usr/bin", "/bin"):
            if Path(place, name).exists():
                (folder / name).symlink_to(Path(place, name))
                break
    return folder


def bare_python(tmp_path: Path) -> Path:
    """A Python without installed packages."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    return python


def workers_packages(tmp_path: Path) -> Path:
    """A folder of packages, without ours."""
    folder = tmp_path / "packages"
    folder.mkdir()
    spec = find_spec("pyarrow")
    assert spec is not None
    assert spec.origin is not None
    for place in {*site.getsitepackages(), str(Path(spec.origin).parents[1])}:
        for path in Path(place).iterdir():
            if path.name in _WORKERS_PACKAGES or path.name.startswith(("numpy.libs", "pandas.libs")):
                (folder / path.name).symlink_to(path)
    return folder


def run_in(environment: dict[str, str], script: Path, folder: Path) -> str:
    """Run a script as :func:`result_in` and return its output."""
    return result_in(environment, script, folder).stdout


def result_in(environment: dict[str, str], script: Path, folder: Path) -> Finished:
    """Run a script in exactly this environment."""
    names = [part for name in os.environ if name not in environment for part in ("-u", name)]
    pairs = [f"{name}={value}" for name, value in environment.items()]
    command = ["/usr/bin/env", *names, *pairs, sys.executable, str(script)]
    return run(command, timeout_s=600, cwd=folder).check()
