"""The end of commands on SIGTERM: they finish their current work, and exit with status 143, as by convention."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Never

__all__ = ["SIGTERM_STATUS", "Terminated", "raise_on_sigterm"]

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
