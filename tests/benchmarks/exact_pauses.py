"""Pauses in an event loop that end at their time, by a timer of Linux.

asyncio rounds the end of ``asyncio.sleep`` up to a millisecond, as its selector does. Work that waits for an answer is
not rounded: a descriptor is readable as soon as the answer comes. The timer here is such a descriptor.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from collections import deque
from types import TracebackType
from typing import Final

__all__ = ["ExactPauses"]

_MONOTONIC: Final = 1
_ABSOLUTE: Final = 1
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class ExactPauses:
    """Pauses of one length. To be made and used in a running loop, as a context manager."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._ends: deque[tuple[float, asyncio.Future[None]]] = deque()  # the lengths are equal, so they end in order
        self._timer = _LIBC.timerfd_create(_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._timer < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._loop.add_reader(self._timer, self._end_some)

    def __enter__(self) -> ExactPauses:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.remove_reader(self._timer)
        os.close(self._timer)

    async def pause(self) -> None:
        """Wait for the time of a pause."""
        end, over = time.monotonic() + self._seconds, self._loop.create_future()
        self._ends.append((end, over))
        if len(self._ends) == 1:
            self._set(end)
        await over

    def _end_some(self) -> None:
        os.read(self._timer, 8)
        now = time.monotonic()
        while self._ends and self._ends[0][0] <= now:
            _, over = self._ends.popleft()
            if not over.done():
                over.set_result(None)
        if self._ends:
            self._set(self._ends[0][0])

    def _set(self, end: float) -> None:
        whole = int(end)
        given = (ctypes.c_long * 4)(0, 0, whole, max(1, int((end - whole) * 1e9)))
        if _LIBC.timerfd_settime(self._timer, _ABSOLUTE, given, None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")
