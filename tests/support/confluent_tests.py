"""Tests and examples of confluent-kafka-python, with the embedded broker and its registry.

The examples ask for what to write at the terminal, and end by Ctrl-C. Here :data:`_RUN` answers.
"""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path
from typing import Final

import tests.ports.originals as originals
from tests.support.confluent_programs import ported
from tests.support.process import Finished, GuardedProcess, run, wait_until
from tests.support.repositories import check_out

__all__ = ["check_out_examples", "read_by_example", "run_confluents_tests", "write_by_example"]

_REPOSITORY: Final = "https://github.com/confluentinc/confluent-kafka-python"
_COMMIT: Final = "8b1c7a613434eee3d0e1287d624d7af04932f410"  # 2.15
#: Runs a program. Its questions are answered by the lines of standard input, and then by Ctrl-C.
_RUN: Final = """
import builtins, runpy, sys, types

def answer(question):
    line = sys.stdin.readline()
    if not line:
        raise KeyboardInterrupt
    return line.rstrip()

builtins.input = answer
moves = types.ModuleType("six.moves")
moves.input = answer
sys.modules.update({"six": types.ModuleType("six"), "six.moves": moves})
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run_confluents_tests(folder: Path, *files: str, timeout_s: float) -> Finished:
    """Fetch the tests into an empty folder, and run files of ``tests/integration``, by default all."""
    check_out(_REPOSITORY, _COMMIT, "tests", folder)
    shutil.copy(Path(originals.__file__).with_name("conftest_of_confluent.py"), folder / "tests" / "conftest.py")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--timeout=120"]
    return run([*command, *(f"tests/integration/{file}" for file in files or ("",))], cwd=folder, timeout_s=timeout_s)


def check_out_examples(folder: Path) -> Path:
    """Fetch the examples into an empty folder. Those of schemas get our imports. Return their folder."""
    check_out(_REPOSITORY, _COMMIT, "examples", folder)
    for form in ("avro", "json", "protobuf"):
        for part in ("producer", "consumer"):
            path = folder / "examples" / f"{form}_{part}.py"
            path.write_text(ported(path.read_text(encoding="utf-8")), encoding="utf-8")
    return folder / "examples"


def _command(script: str, arguments: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-u", "-c", _RUN, script, *arguments]


def write_by_example(folder: Path, script: str, *arguments: str, answers: list[str]) -> str:
    """Run an example that writes, and return its output."""
    env = {"PYTHONPATH": str(folder)}
    with GuardedProcess(_command(script, arguments), cwd=folder, env=env) as process:
        process.write("".join(f"{line}\n" for line in answers))
        process.close_input()
        assert process.wait(60) == 0, process.stderr
        return process.stdout


def read_by_example(folder: Path, script: str, *arguments: str, until: str) -> str:
    """Run an example that reads, end it as Ctrl-C does once it has shown a text, and return its output."""
    env = {"PYTHONPATH": str(folder)}
    with GuardedProcess(_command(script, arguments), cwd=folder, env=env) as process:
        wait_until(lambda: until in process.stdout or not process.running, 60, "the record is shown")
        process.signal(signal.SIGINT)
        assert process.wait(60) == 0, process.stderr
        return process.stdout
