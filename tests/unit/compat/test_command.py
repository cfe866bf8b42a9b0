"""``python -m pyconsumer.compat``: starts programs, and refuses wrong command lines."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pyconsumer.compat.__main__ import reads_the_variable
from tests.support.process import Finished, run

_SHOW = "import sys, aiokafka; print(aiokafka.AIOKafkaConsumer.__module__, sys.argv[1:], sys.flags.optimize)"
_ROOT = str(Path(__file__).parents[3])
_OURS = "pyconsumer.compat.aiokafka.consumer.consumer"


def _command(folder: Path, *arguments: str, flags: tuple[str, ...] = ()) -> Finished:
    command = [sys.executable, *flags, "-m", "pyconsumer.compat", *arguments]
    return run(command, env={"PYCONSUMER_COMPAT": ""}, cwd=folder)


@pytest.mark.slow
@pytest.mark.skipif(not reads_the_variable(), reason="pyconsumer is not installed")
@pytest.mark.parametrize(
    ("program", "flags"),
    [
        (["-m", "shown", "-m", "x"], ()),
        (["shown.py", "-m", "x"], ()),
        (["shown.py", "-m", "x"], ("-O", "-X", "utf8")),
        (["--", sys.executable, "shown.py", "-m", "x"], ()),
    ],
)
def test_a_program_has_our_clients(tmp_path: Path, program: list[str], flags: tuple[str, ...]) -> None:
    (tmp_path / "shown.py").write_text(_SHOW)
    done = _command(tmp_path, "aiokafka,kafka", *program, flags=flags).check()
    assert done.lines == [f"{_OURS} ['-m', 'x'] {int('-O' in flags)}"]


@pytest.mark.skipif(not reads_the_variable(), reason="pyconsumer is not installed")
def test_the_status_is_that_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text("raise SystemExit(7)")
    assert _command(tmp_path, "kafka", "ends.py").returncode == 7


_WRONG = (
    ([], "no client is named"),
    (["-m", "program"], "pyconsumer has no layer for '-m', only for 'aiokafka' or 'kafka'"),
    (["aiokafak", "program.py"], "pyconsumer has no layer for 'aiokafak', only for 'aiokafka' or 'kafka'"),
    (["aiokafka,", "-m"], "-m needs the name of a module"),
    (["kafka", "--"], "-- needs a command"),
    (["kafka", "-x"], "there is no option '-x'"),
    (["kafka", "faststream", "run"], "there is no file 'faststream'. A command follows `--`, a module `-m`"),
)
_WRONG_COMMANDS = (
    (["kafka", "--", "no-such-command"], "there is no command 'no-such-command'"),
    (["kafka", "--", "/dev/null"], "'/dev/null' cannot be started: Permission denied"),
)

#: Runs the command with each list of arguments in turn, as ``python -m pyconsumer.compat`` does.
_RUN_EACH = """
import contextlib, io, json, runpy, sys
results = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["pyconsumer.compat", *arguments]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            runpy.run_module("pyconsumer.compat", run_name="__main__")
            status = None
        except SystemExit as end:
            status = end.code
    results.append([status, out.getvalue(), err.getvalue()])
print(json.dumps(results))
"""


def test_a_wrong_command_line_is_refused(tmp_path: Path) -> None:
    cases = [*_WRONG, *(_WRONG_COMMANDS if reads_the_variable() else ())]
    (tmp_path / "program.py").write_text("print('ran')")
    command = [sys.executable, "-c", _RUN_EACH, json.dumps([arguments for arguments, _ in cases])]
    done = run(command, env={"PYTHONPATH": _ROOT, "PYCONSUMER_COMPAT": ""}, cwd=tmp_path).check()
    assert done.stderr == ""
    for (arguments, message), (status, out, err) in zip(cases, json.loads(done.stdout), strict=True):
        assert (status, out) == (2, ""), arguments
        _assert_refused(err, message)


def test_a_python_that_does_not_read_the_variable_is_refused(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("print('ran')")
    program = "import sys; from pyconsumer.compat.__main__ import main\nmain(['kafka', 'program.py'])"
    command = [sys.executable, "-S", "-c", program]
    done = run(command, env={"PYTHONPATH": _ROOT, "PYCONSUMER_COMPAT": ""}, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    _assert_refused(done.stderr, "pyconsumer-compat.pth is in none of the folders that this Python reads")


def test_the_status_of_a_wrong_command_line_is_2(tmp_path: Path) -> None:
    done = _command(tmp_path, "kafka", "-x")
    assert (done.returncode, done.stdout) == (2, "")
    _assert_refused(done.stderr, "there is no option '-x'")


def _assert_refused(said: str, message: str) -> None:
    assert said.startswith(f"python -m pyconsumer.compat: {message}"), said
    assert "Traceback" not in said
    assert "usage: python -m pyconsumer.compat CLIENTS" in said


def test_help(tmp_path: Path) -> None:
    done = _command(tmp_path, "--help").check()
    assert done.lines[0].startswith("usage: python -m pyconsumer.compat CLIENTS [-m MODULE | FILE | -- COMMAND]")
