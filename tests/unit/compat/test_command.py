"""``python -m pyconsumer.compat``: starts programs, and refuses wrong command lines."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pyconsumer.compat.__main__ import reads_the_variable
from tests.support.process import Finished, run

_SHOW = "import sys, aiokafka; print(aiokafka.AIOKafkaConsumer.__module__, sys.argv[1:], sys.flags.optimize)"
_OURS = "pyconsumer.compat.aiokafka.consumer.consumer"


def _command(folder: Path, *arguments: str, flags: tuple[str, ...] = ()) -> Finished:
    command = [sys.executable, *flags, "-m", "pyconsumer.compat", *arguments]
    return run(command, env={"PYCONSUMER_COMPAT": ""}, cwd=folder)


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


@pytest.mark.parametrize(
    ("arguments", "flags", "message"),
    [
        ([], (), "no client is named"),
        (["-m", "program"], (), "pyconsumer has no layer for '-m', only for 'aiokafka' or 'kafka'"),
        (["aiokafak", "program.py"], (), "pyconsumer has no layer for 'aiokafak', only for 'aiokafka' or 'kafka'"),
        (["aiokafka,", "-m"], (), "-m needs the name of a module"),
        (["kafka", "--"], (), "-- needs a command"),
        (["kafka", "-x"], (), "there is no option '-x'"),
        (["kafka", "faststream", "run"], (), "there is no file 'faststream'. A command follows `--`, a module `-m`"),
        (["kafka", "--", "no-such-command"], (), "there is no command 'no-such-command'"),
        (["kafka", "--", "/dev/null"], (), "'/dev/null' cannot be started: Permission denied"),
        (["kafka", "program.py"], ("-S",), "pyconsumer-compat.pth is in none of the folders that this Python reads"),
    ],
)
def test_a_wrong_command_line_is_refused(
    tmp_path: Path, arguments: list[str], flags: tuple[str, ...], message: str
) -> None:
    (tmp_path / "program.py").write_text("print('ran')")
    if flags:
        command = [sys.executable, *flags, "-c", "import sys; from pyconsumer.compat.__main__ import main\n"]
        path = str(Path(__file__).parents[3])
        command[-1] += f"main({arguments!r})"
        done = run(command, env={"PYTHONPATH": path, "PYCONSUMER_COMPAT": ""}, cwd=tmp_path)
    elif "--" in arguments[:-1] and not reads_the_variable():
        pytest.skip("pyconsumer is not installed")
    else:
        done = _command(tmp_path, *arguments)
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.startswith(f"python -m pyconsumer.compat: {message}"), done.stderr
    assert "Traceback" not in done.stderr
    assert "usage: python -m pyconsumer.compat CLIENTS" in done.stderr


def test_help(tmp_path: Path) -> None:
    done = _command(tmp_path, "--help").check()
    assert done.lines[0].startswith("usage: python -m pyconsumer.compat CLIENTS [-m MODULE | FILE | -- COMMAND]")
