"""Runs a command that must not outlive whoever started it.

``python guard.py FD GRACE COMMAND...`` starts COMMAND and waits. If COMMAND ends, the guard ends with its status. If
the pipe whose reading end is FD closes, COMMAND gets SIGTERM and, GRACE seconds later, SIGKILL. The pipe closes at the
latest when the process that holds the writing end dies, even by SIGKILL. SIGTERM and SIGINT to the guard do the same.

It stands alone: it runs as a script, before anything of the project can be imported.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys

_PR_SET_PDEATHSIG = 1


def _die_with_guard() -> None:
    """Linux only: the command gets SIGKILL if the guard itself is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main(argv: list[str]) -> int:
    lifeline, grace, command = int(argv[0]), float(argv[1]), argv[2:]
    os.set_inheritable(lifeline, False)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    stopping = False

    def on_signal(signum: int, frame: object) -> None:
        nonlocal stopping
        stopping = stopping or signum != signal.SIGCHLD

    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(signum, on_signal)
    child = subprocess.Popen(command, preexec_fn=_die_with_guard)
    while child.poll() is None and not stopping:
        readable, _, _ = select.select([lifeline, wake_read], [], [])
        if wake_read in readable:
            os.read(wake_read, 512)
        if lifeline in readable and not os.read(lifeline, 512):
            break
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(grace)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    status = child.returncode
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
