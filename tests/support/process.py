"""Child processes of tests: they end with the test run, however it ends, and keep their output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

__all__ = ["Finished", "GuardedProcess", "descendants", "keep_bytecode", "run", "wait_until"]

_GUARD = Path(__file__).with_name("guard.py")


@dataclass(frozen=True)
class Finished:
    """Result of a command."""

    command: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str

    def check(self) -> Finished:
        """Fail with everything that was printed unless the status was 0."""
        if self.returncode != 0:
            raise AssertionError(
                f"status {self.returncode} from: {' '.join(self.command)}\n"
                f"-- stdout\n{self.stdout}\n-- stderr\n{self.stderr}"
            )
        return self

    @property
    def lines(self) -> list[str]:
        """Lines of standard output."""
        return self.stdout.splitlines()


class GuardedProcess:
    """A command that runs beside the test and that :meth:`stop` (or the death of this process) ends.

    Args:
        command: program and arguments.
        output: a file that takes both outputs. Without it they are collected (:attr:`stdout`, :attr:`stderr`).
        on_line: gets each line of standard output as it comes, in a thread of its own. They are not collected then.
        env: added to the environment.
        grace_s: seconds between SIGTERM and SIGKILL.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        output: Path | None = None,
        on_line: Callable[[str], object] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        grace_s: float = 10.0,
    ) -> None:
        self.command = tuple(command)
        self._on_line = on_line
        self._grace_s = grace_s
        self._threads: list[threading.Thread] = []
        self._texts: dict[str, list[str]] = {"stdout": [], "stderr": []}
        lifeline, self._lifeline = os.pipe()
        sink = output.open("ab") if output else None
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-E", str(_GUARD), str(lifeline), str(grace_s), *command],
                stdin=subprocess.PIPE,
                stdout=sink or subprocess.PIPE,
                stderr=subprocess.STDOUT if sink else subprocess.PIPE,
                env={**os.environ, **(env or {})},
                cwd=cwd,
                pass_fds=(lifeline,),
                start_new_session=True,  # Ctrl-C reaches the tests alone; they end it in their own order
            )
        except BaseException:
            os.close(self._lifeline)
            raise
        finally:
            os.close(lifeline)
            if sink:
                sink.close()
        if sink is None:
            for name in self._texts:
                stream = getattr(self._process, name)
                thread = threading.Thread(target=self._drain, args=(name, stream), name=f"{name} of {command[0]}")
                thread.start()
                self._threads.append(thread)

    def _drain(self, name: str, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                text = line.decode("utf-8", "replace")
                if name == "stdout" and self._on_line is not None:
                    self._on_line(text)
                else:
                    self._texts[name].append(text)

    @property
    def pid(self) -> int:
        """The guard's process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    @property
    def stdout(self) -> str:
        """Return its output up to now (empty when it prints into a file)."""
        return "".join(self._texts["stdout"])

    @property
    def stderr(self) -> str:
        return "".join(self._texts["stderr"])

    def write(self, text: str | bytes) -> None:
        """Send text to its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode() if isinstance(text, str) else text)
        self._process.stdin.flush()

    def close_input(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it ended without reading all

    def wait(self, timeout_s: float) -> int:
        """Wait for its end. ``subprocess.TimeoutExpired`` when it takes longer."""
        return self._process.wait(timeout_s)

    def stop(self) -> int:
        """SIGTERM, then SIGKILL after the grace time. Returns the status. A second call has no effect."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        self.close_input()
        try:
            status = self._process.wait(self._grace_s + 10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        for thread in self._threads:
            thread.join(10)
        return status

    def signal(self, number: int) -> None:
        """Send a signal to the command and all below it, such as SIGCONT, or SIGSTOP and wait until they stand."""
        pids = list(descendants(self.pid))
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass  # it ended meanwhile
        if number == signal.SIGSTOP:
            wait_until(lambda: all(map(_stands, pids)), 60, "the stop of all threads", 0.01)

    def kill(self) -> None:
        """SIGKILL to the command and all below it, then :meth:`stop`."""
        self.signal(signal.SIGKILL)
        self.stop()

    def __enter__(self) -> GuardedProcess:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()


def run(
    command: Sequence[str],
    *,
    input: str | bytes | None = None,
    timeout_s: float = 60.0,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Finished:
    """Run a command to its end.

    Raises:
        AssertionError: it took longer than ``timeout_s`` (and was ended). The message has its output.
    """
    process = GuardedProcess(command, env=env, cwd=cwd, grace_s=2.0)
    late = False
    try:
        if input is not None:
            try:
                process.write(input)
            except BrokenPipeError:
                pass  # the command's status tells why
        process.close_input()
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        late = True
    finally:
        status = process.stop()
    if late:
        raise AssertionError(
            f"not done after {timeout_s:g} s: {' '.join(command)}\n"
            f"-- stdout\n{process.stdout}\n-- stderr\n{process.stderr}"
        )
    return Finished(tuple(command), status, process.stdout, process.stderr)


def wait_until(condition: Callable[[], object], timeout_s: float, what: str, interval_s: float = 0.05) -> None:
    """Wait until another *process* has done something that can only be looked at. ``AssertionError`` when late."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}")
        time.sleep(interval_s)


def _stands(pid: int) -> bool:
    """Return whether all threads of a process are stopped. Busy processors let some of them run on for a moment."""
    try:
        stats = [(task / "stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return not Path(f"/proc/{pid}").exists()
    return all(stat.rpartition(")")[2].split()[0] in "TZX" for stat in stats)


def keep_bytecode() -> None:
    """Let this process and those that it starts keep the bytecode of modules, as they do in tox.

    With ``PYTHONDONTWRITEBYTECODE`` each process of pytest would compile all tests, and each child all of the package.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def descendants(pid: int | None = None) -> dict[int, str]:
    """Living processes below ``pid`` (this one by default): process id -> command. Empty where there is no /proc."""
    root = os.getpid() if pid is None else pid
    parents: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            stat = (entry / "stat").read_text()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:
            continue  # it ended meanwhile
        state, parent = stat.rpartition(")")[2].split()[:2]
        if state != "Z":
            parents[int(entry.name)] = (int(parent), command)
    found: dict[int, str] = {}
    level = {root}
    while level:
        level = {child for child, (parent, _) in parents.items() if parent in level}
        found.update((child, parents[child][1]) for child in level)
    return found
