"""The log of a broker on standard error. Repeated lines are counted.

While a disk is full, or a client repeats a mistake, the same line would be written many times a second. The first one
is written at once. Those that follow within ten seconds are counted, and one line reports their number. State:
:class:`CountingHandler` has the lines that it counts, at most a hundred.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, Final

__all__ = ["CountingHandler", "log_to_stderr"]

_WINDOW_S: Final = 10.0
_MOST_LINES: Final = 100
_WITH_TIME: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _Line:
    """A written line and the number of its repetitions."""

    __slots__ = ("again", "began", "record")

    def __init__(self, record: logging.LogRecord, began: float) -> None:
        self.record = record
        self.began = began
        self.again = 0

    def repeat(self, record: logging.LogRecord) -> None:
        """Count the line once more and adopt its time."""
        self.record = record
        self.again += 1


class CountingHandler(logging.StreamHandler[IO[str]]):
    """Writes a repeated line once in ten seconds, and afterwards the number of its repetitions.

    Args:
        now: returns monotonic seconds.
        timed: True reports the counts in a thread. Tests call :meth:`report` instead.
    """

    def __init__(
        self, stream: IO[str] | None = None, now: Callable[[], float] = time.monotonic, *, timed: bool = True
    ) -> None:
        super().__init__(sys.stderr if stream is None else stream)
        self._now = now
        self._timed = timed
        self._waiting = False  # a thread reports the counts later
        self._ended = threading.Event()
        self._lines: dict[tuple[str, int, str], _Line] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write or count a line. Logging calls this under the handler's lock."""
        now = self._now()
        self._report(now)
        try:
            key = record.name, record.levelno, record.getMessage()
        except Exception:  # its arguments do not fit its format
            self.handleError(record)
            return
        line = self._lines.get(key)
        if line is not None:
            line.repeat(record)
            self._report_later()
            return
        if len(self._lines) < _MOST_LINES:
            self._lines[key] = _Line(record, now)
        super().emit(record)

    def report(self) -> None:
        """Write the counts of lines that were first written ten seconds ago or earlier."""
        with self.lock or threading.RLock():
            self._waiting = False
            self._report(self._now())
            if any(line.again for line in self._lines.values()):
                self._report_later()

    def _report(self, now: float) -> None:
        for key, line in list(self._lines.items()):
            if now - line.began >= _WINDOW_S:
                del self._lines[key]
                self._write_count(line, now)

    def _write_count(self, line: _Line, now: float) -> None:
        if line.again:
            times = "once" if line.again == 1 else f"{line.again} times"
            text = f"{line.record.getMessage()} (repeated {times} in {now - line.began:.0f} s)"
            changes = {"msg": text, "args": (), "exc_info": None, "exc_text": None}
            super().emit(logging.makeLogRecord(line.record.__dict__ | changes))

    def _report_later(self) -> None:
        if self._timed and not self._waiting:
            self._waiting = True
            threading.Thread(target=self._wait_and_report, name="pyconsumer-log", daemon=True).start()

    def _wait_and_report(self) -> None:
        if not self._ended.wait(_WINDOW_S):
            self.report()

    def close(self) -> None:
        """Write all counts."""
        with self.lock or threading.RLock():
            self._ended.set()
            now, lines = self._now(), list(self._lines.values())
            self._lines.clear()
            for line in lines:
                self._write_count(line, now)
        super().close()


def log_to_stderr(level: int | str = logging.WARNING, *, with_time: bool | None = None) -> None:
    """Make this process log to standard error. The progress of a long recovery is always logged.

    Args:
        with_time: True begins lines with time, level and logger. By default it is False only if standard error is a
            terminal.
    """
    if with_time is None:
        with_time = not sys.stderr.isatty()
    handler = CountingHandler()
    handler.setFormatter(logging.Formatter(_WITH_TIME if with_time else "%(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
    progress = logging.getLogger("pyconsumer.broker.progress")
    if not progress.isEnabledFor(logging.INFO):
        progress.setLevel(logging.INFO)
