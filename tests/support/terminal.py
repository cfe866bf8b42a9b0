"""A terminal for tests: programs that look whether somebody watches find one, and keys can be typed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

__all__ = ["Terminal"]

#: Makes the terminal the controlling one, as shells want it, and becomes the program.
_WITH_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
)


class Terminal:
    """A program whose input and outputs are a pseudo-terminal of 40 lines and 200 columns.

    Args:
        command: program and arguments.
        env: its whole environment.

    Attributes:
        shown: all that it has written up to now, with the sequences that move the cursor.
    """

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str] | None = None) -> None:
        self.shown = b""
        self._ours, theirs = pty.openpty()
        try:
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-E", "-c", _WITH_TERMINAL, *command],
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                env=env,
                start_new_session=True,
            )
        except BaseException:
            os.close(self._ours)
            raise
        finally:
            os.close(theirs)

    def type(self, keys: str) -> None:
        """Type keys: ``\\t`` is the tab key, ``\\r`` is Enter."""
        os.write(self._ours, keys.encode())

    def read_until(self, pattern: bytes, within_s: float = 60.0) -> None:
        """Read until something is shown, or fail."""
        end = time.monotonic() + within_s
        while re.search(pattern, self.shown) is None:
            assert self._read(end), f"no {pattern!r} within {within_s:g} s, only {self.shown.decode(errors='replace')}"

    def wait(self, within_s: float = 60.0) -> int:
        """Return the program's exit status. Reads its output until then."""
        end = time.monotonic() + within_s
        while self._read(end):
            pass
        return self._process.wait(max(0.0, end - time.monotonic()))

    def _read(self, end: float) -> bool:
        """Read the available output, or wait for some. Return False if it is too late or the program has gone."""
        if not select.select([self._ours], [], [], max(0.0, end - time.monotonic()))[0]:
            return False
        try:
            found = os.read(self._ours, 65536)
        except OSError:  # nobody has the other side any more
            return False
        self.shown += found
        return bool(found)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._ours)
