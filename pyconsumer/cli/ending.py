"""The end of commands on SIGTERM: they finish their current work, and exit with status 143, as by convention."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Final, Never, Self

__all__ = ["SIGTERM_STATUS", "FirstSignal", "Terminated", "raise_on_sigterm"]

SIGTERM_STATUS = 128 + signal.SIGTERM


class Terminated(BaseException):
    """SIGTERM has arrived."""


@contextlib.contextmanager
def raise_on_sigterm() -> Iterator[None]:
    """Let SIGTERM raise :class:`Terminated` in this block, as Ctrl-C raises KeyboardInterrupt."""

    def handle(_number: int, _frame: FrameType | None) -> Never:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():  # Python handles signals only there
        yield
        return
    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


#: Signals within this time of the first one belong to it (seconds): tox sends SIGINT again, and then SIGTERM.
_SAME_S: Final = 2.0
_SHOW_CURSOR: Final = b"\x1b[?25h"


class FirstSignal:
    """Lets the first signal in this block raise an error: KeyboardInterrupt for SIGINT, :class:`Terminated` for
    SIGTERM.

    Signals that follow soon are ignored, so that they do not interrupt the code that stops processes. The terminal gets
    its cursor back and the message at once, because tox and similar tools kill a process that takes longer to end.

    Args:
        message: a line for standard error.
    """

    def __init__(self, message: str) -> None:
        self._message = message
        self._first = -1.0
        self._before: dict[signal.Signals, object] = {}
        self._error_output = -1

    def __enter__(self) -> Self:
        self._error_output = os.dup(2)  # which may be redirected when a signal arrives
        if threading.current_thread() is threading.main_thread():
            self._before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
            self.install()
        return self

    def __exit__(self, *_: object) -> None:
        for each, before in self._before.items():
            signal.signal(each, signal.SIG_DFL if before is None else before)  # type: ignore[arg-type]
        self._before = {}
        os.close(self._error_output)

    def install(self) -> None:
        """Set the handlers again, because a library has set its own. (PySpark does so for SIGINT.)"""
        for each in self._before or ():
            signal.signal(each, self._handle)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._first >= 0 and now - self._first < _SAME_S:
            return
        if self._first < 0:
            with contextlib.suppress(OSError):
                if sys.stdout.isatty():
                    os.write(sys.stdout.fileno(), _SHOW_CURSOR)
                os.write(self._error_output, f"\n{self._message}\n".encode())
        self._first = now
        if number == signal.SIGTERM:
            raise Terminated
        raise KeyboardInterrupt
