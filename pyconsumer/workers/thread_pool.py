"""Threads that take tasks from the schedule.

A thread takes the next task as soon as it has finished one. It does not wait for the consumer's thread. It runs the
user's function, so it logs as the application's own threads do.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable

from pyconsumer.workers.schedule import Schedule, Task

__all__ = ["Pool", "ThreadPool"]

_log = logging.getLogger("pyconsumer.workers")


class Pool:
    """No pool: the consumer's thread does the work."""

    def start(self) -> None:
        """Start the threads."""

    def look(self) -> None:
        """Look for tasks that last too long. Called by the consumer's thread after each poll."""

    def close(self) -> None:
        """End the threads. The schedule is closed."""


class ThreadPool(Pool):
    """Threads that process tasks.

    Args:
        schedule: has the tasks.
        call: processes one.
        count: how many threads.
        timeout: after how many seconds a task is reported, None for never.
    """

    def __init__(self, schedule: Schedule, call: Callable[[Task], None], count: int, timeout: float | None) -> None:
        self._schedule = schedule
        self._call = call
        self._timeout = timeout
        self._reported: dict[int, float] = {}  # by thread, the beginning of the attempt that was reported
        self._busy: dict[int, tuple[Task, float]] = {}
        self._threads = [
            threading.Thread(target=self._work, name=f"pyconsumer-worker-{number}", daemon=True)
            for number in range(count)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def _work(self) -> None:
        schedule, call = self._schedule, self._call
        if self._timeout is None:
            while (task := schedule.wait_for_task()) is not None:
                call(task)
            return
        me = threading.get_ident()
        while (task := schedule.wait_for_task()) is not None:
            self._busy[me] = task, time.monotonic()
            call(task)
            del self._busy[me]

    def look(self) -> None:
        if self._timeout is None:
            return
        now = time.monotonic()
        for thread, (task, since) in list(self._busy.items()):
            if now - since > self._timeout and self._reported.get(thread) != since:
                frame = sys._current_frames().get(thread)
                if self._busy.get(thread) != (task, since):
                    continue  # it has returned meanwhile, so the frame may be that of another task
                self._reported[thread] = since
                stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
                _log.warning(
                    "%s offset %d has been running for %d ms. A thread cannot be ended. It is at\n%s",
                    task.share.tp,
                    task.record.offset,
                    (now - since) * 1000,
                    stack,
                )

    def close(self) -> None:
        # Those that are still at work end with their task: they are daemons, and their result is ignored.
        until = time.monotonic() + 1
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, until - time.monotonic()))
