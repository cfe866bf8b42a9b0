"""Responses of HTTP that arrive in time, headers and body.

A socket's own timeout begins again with each piece, so a slow server could hold a request for ever.

For connections of ``http.client``, and of libraries that are made on it. The connections of brokers are elsewhere.
"""

from __future__ import annotations

import http.client
import io
import threading
import time
from typing import Any, Final

__all__ = ["LONGEST_WAIT_S", "TimedResponse", "time_of_request"]

LONGEST_WAIT_S: Final = 2_000_000.0
"""A socket cannot wait longer than 2^31 ms."""


class _TimeOfRequest(threading.local):
    """The end of the time of the thread's request, in monotonic seconds."""

    until: float | None = None

    def begin(self, until: float) -> None:
        self.until = until


time_of_request: Final = _TimeOfRequest()
"""Call ``begin`` with the end of a request's time before the request is sent, in the same thread."""


class _TimedReader(io.RawIOBase):
    """Reads a socket within the time of the thread's request."""

    def __init__(self, raw: Any, sock: Any) -> None:
        self._raw = raw
        self._socket = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        until = time_of_request.until
        if until is not None:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            self._socket.settimeout(min(left, LONGEST_WAIT_S))
        found: int | None = self._raw.readinto(buffer)
        return found

    def fileno(self) -> int:
        number: int = self._raw.fileno()
        return number

    def close(self) -> None:
        self._raw.close()
        super().close()


class TimedResponse(http.client.HTTPResponse):
    """A response whose headers and body arrive within the time of the thread's request."""

    def __init__(self, sock: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp: Any = io.BufferedReader(_TimedReader(self.fp.detach(), sock))
