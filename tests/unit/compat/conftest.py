"""Programs of other clients in Pythons of their own, beside packages that stand for the originals."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from pyconsumer.compat.__main__ import reads_the_variable
from tests.support.process import Finished, run

ROOT = Path(__file__).parents[3]

#: Runs a program, given as text, with ``install`` unless the value of the variable is given.
Program = Callable[..., Finished]


@pytest.fixture
def originals(tmp_path: Path) -> Path:
    """A folder with packages and metadata that have the originals' names."""
    folder = tmp_path / "originals"
    for name, distribution in {"aiokafka": "aiokafka", "kafka": "kafka_python"}.items():
        package = folder / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("original = True\nclass Client: pass\n")
        (package / "errors.py").write_text("original = True\n")
        (package / "metrics.py").write_text("original = True\n")
        metadata = folder / f"{distribution}-9.9.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 9.9\n")
    return folder


@pytest.fixture
def program(originals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Run a program with the originals' stand-ins in its path. ``PYCONSUMER_COMPAT`` is set if a value is given."""

    def run_program(text: str, *, variable: str = "", check: bool = True) -> Finished:
        if variable and not reads_the_variable():
            pytest.skip("pyconsumer is not installed, so Python does not read the variable when it starts")
        file = tmp_path / "program.py"
        file.write_text(textwrap.dedent(text))
        monkeypatch.delenv("PYCONSUMER_COMPAT", raising=False)
        env = {"PYTHONPATH": f"{originals}{os.pathsep}{ROOT}"} | ({"PYCONSUMER_COMPAT": variable} if variable else {})
        done = run([sys.executable, str(file)], env=env, cwd=tmp_path)
        return done.check() if check else done

    return run_program
