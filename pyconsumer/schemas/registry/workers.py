"""A few threads that make the HTTP requests of one client, so that no event loop waits for a socket.

The threads start with the first requests and end after some seconds without one. They are daemons: a registry that does
not answer cannot hold up the end of a program. A call waits for its future, so Ctrl-C and deadlines end it at once.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from pyconsumer.background_log import background

__all__ = ["Workers"]

T = TypeVar("T")

_MOST_THREADS: Final = 8
_IDLE_S: Final = 5.0


class Workers:
    """See the module.

    Args:
        most: the most threads.
        idle_s: the seconds after which a thread without work ends.
    """

    def __init__(self, most: int = _MOST_THREADS, idle_s: float = _IDLE_S) -> None:
        self._most = most
        self._idle_s = idle_s
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._free = 0  # threads without work, less the jobs that wait for one
        self._closed = False

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Run a function in one of the threads. The future has its result or its error.

        Raises:
            RuntimeError: the threads have been closed.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("the client is closed")
            self._free -= 1
            if self._free < 0 and len(self._threads) < self._most:
                thread = threading.Thread(target=self._run, name="pyconsumer-registry", daemon=True)
                thread.start()
                self._threads.add(thread)
                self._free += 1
            self._jobs.put((job, future))
        return future

    def _run(self) -> None:
        with background():
            while True:
                try:
                    item = self._jobs.get(timeout=self._idle_s)
                except queue.Empty:
                    with self._lock:
                        if not self._jobs.empty():
                            continue
                        self._leave()
                    return
                if item is None:
                    with self._lock:
                        self._leave()
                    return
                self._do(*item)
                del item
                with self._lock:
                    self._free += 1

    def _leave(self) -> None:
        self._free -= 1
        self._threads.discard(threading.current_thread())

    @staticmethod
    def _do(job: Callable[[], Any], future: Future[Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = job()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def close(self) -> None:
        """End the threads after the requests that they are making. A second call has no effect."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for _ in self._threads:
                    self._jobs.put(None)
