"""Child processes end when they should, and their output is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.process import GuardedProcess, descendants, keep_bytecode, run, wait_until

pytestmark = pytest.mark.concurrent

# Ignores SIGTERM; says when it is ready to.
_STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(600)"
)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_command_gets_its_input_and_gives_its_outputs_and_status() -> None:
    program = "import sys; print(sys.stdin.read().upper()); print('bad', file=sys.stderr); sys.exit(3)"
    finished = run([sys.executable, "-c", program], input="hello")
    assert (finished.returncode, finished.stdout, finished.stderr) == (3, "HELLO\n", "bad\n")
    with pytest.raises(AssertionError, match=r"(?s)status 3 from.*HELLO.*bad"):
        finished.check()


def test_a_command_that_takes_too_long_is_ended_and_its_output_shown() -> None:
    before = descendants()
    with pytest.raises(AssertionError, match=r"(?s)not done after 0.5 s.*on"):
        run([sys.executable, "-c", "import time; print('on', flush=True); time.sleep(600)"], timeout_s=0.5)
    assert descendants().keys() <= before.keys()


def test_stop_kills_a_command_that_ignores_sigterm() -> None:
    before = descendants()
    with GuardedProcess([sys.executable, "-c", _STUBBORN], grace_s=0.2) as process:
        wait_until(lambda: process.stdout == "on\n", 60, "its first line")
        assert process.stop() == 128 + signal.SIGKILL
    assert descendants().keys() <= before.keys()


def test_lines_can_be_read_as_they_come() -> None:
    lines: list[str] = []
    program = "import sys; print('one', flush=True); sys.stdin.readline(); print('two')"
    with GuardedProcess([sys.executable, "-c", program], on_line=lines.append) as process:
        wait_until(lambda: lines == ["one\n"], 60, "the first line")
        process.write("go on\n")
        wait_until(lambda: lines == ["one\n", "two\n"], 60, "the second line")
    assert process.stdout == ""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_command_can_be_stopped_and_continued() -> None:
    program = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
    with GuardedProcess([sys.executable, "-c", program]) as process:
        process.write("a\n")
        wait_until(lambda: process.stdout == "a\n", 60, "an echo")
        (pid,) = descendants(process.pid)
        process.signal(signal.SIGSTOP)
        assert "T" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
        process.write("b\n")
        process.signal(signal.SIGCONT)
        wait_until(lambda: process.stdout == "a\nb\n", 60, "another echo")


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_command_ends_when_the_process_that_started_it_is_killed() -> None:
    program = f"""
        import sys
        from tests.support.process import GuardedProcess, descendants
        process = GuardedProcess([sys.executable, "-c", {_STUBBORN!r}], grace_s=0.1)
        while not process.stdout: pass
        print(*descendants(), flush=True)
        sys.stdin.read()
    """
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    with holder.stdin, holder.stdout:
        pids = [int(pid) for pid in holder.stdout.readline().split()]
        assert len(pids) == 2
        holder.kill()
        holder.wait()
    wait_until(lambda: not any(map(_alive, pids)), 60, "the end of the guard and of its command")


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_a_command_ends_when_its_guard_is_killed() -> None:
    with GuardedProcess([sys.executable, "-c", _STUBBORN]) as process:
        wait_until(lambda: process.stdout == "on\n", 60, "its first line")
        (command,) = descendants(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: not _alive(command), 60, "the end of the command")


def test_children_keep_bytecode(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "imported.py").touch()

    keep_bytecode()
    run([sys.executable, "-c", "import imported"], cwd=tmp_path).check()

    assert not sys.dont_write_bytecode
    assert len(list((tmp_path / "__pycache__").iterdir())) == 1
