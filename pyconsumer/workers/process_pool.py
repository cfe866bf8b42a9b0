"""Processes that process tasks. Each has a thread of this process, which takes tasks from the schedule.

Rules

1. A process gets a chunk of tasks, at most :data:`CHUNK`, of different keys: so the order by key holds. It reports each
   one. Its thread waits for that no longer than ``timeout_ms`` for each task.
2. A chunk has as many tasks as take about :data:`_CHUNK_S`, by the time of the last chunk. If a task lasts longer, the
   tasks behind it are taken back, so that other processes may have them.
3. A process that dies, or is killed for a task that lasted too long, is replaced. The attempt of the task that it was
   working on counts as failed. The tasks of the chunk behind it did not begin, and are put back. Marks in shared memory
   show which one it was.
4. A process that dies before it can begin ends all work: the next one would die, too.
5. Processes are made by ``forkserver``, or ``spawn`` where there is none: a fork would copy the locks of other threads.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Final, Protocol

from pyconsumer.errors import KafkaTimeoutError
from pyconsumer.telemetry import Client
from pyconsumer.workers.child import DONE, RUNNING, TAKEN_BACK, Result, error_of, serve
from pyconsumer.workers.schedule import Schedule, Task
from pyconsumer.workers.thread_pool import Pool

__all__ = ["ProcessPool", "WorkerDiedError"]

#: Most tasks that a process gets at once.
CHUNK: Final = 32
_CHUNK_S: Final = 0.02
#: Longest wait for the lock of a child, which holds it for a moment only, unless it died (seconds).
_LOCK_S: Final = 1.0


class WorkerDiedError(RuntimeError):
    """A worker process ended while it was processing a record."""


class _Owner(Protocol):
    """The part of :class:`.Workers` that the pool of processes needs."""

    def argument(self, task: Task) -> Any: ...

    def succeeded(self, returned: list[tuple[Task, Any]]) -> None: ...

    def after_failure(self, task: Task, error: Exception) -> None: ...

    def not_deserialized(self, task: Task, error: Exception) -> None: ...


class ProcessPool(Pool):
    """Processes that process tasks, each with a thread of this process.

    Args:
        schedule: has the tasks.
        owner: deserializes, and deals with failures.
        handle: the function that the processes call.
        concurrency: most tasks in work at a time.
        timeout: longest time of a task in seconds, None without end.
        has_results: True if the owner wants what the function returns.
        client: the consumer that polls the records, for what observes the processes.
        modules: a process imports them before it begins, so that no import counts for ``timeout``.
    """

    def __init__(
        self,
        schedule: Schedule,
        owner: _Owner,
        handle: Callable[[Any], Any],
        concurrency: int,
        timeout: float | None,
        has_results: bool = False,
        client: Client | None = None,
        modules: Sequence[str] = (),
    ) -> None:
        methods = multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        self._schedule = schedule
        self._owner = owner
        self._handle = handle
        self._timeout = timeout
        self._has_results = has_results
        self._client = client
        self._modules = modules
        self._children: set[_Child] = set()
        self._closing = False
        count = min(os.cpu_count() or 1, concurrency)
        self._chunk = max(1, min(CHUNK, concurrency // count))
        self._threads = [
            threading.Thread(target=self._work, name=f"pyconsumer-worker-{number}", daemon=True)
            for number in range(count)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def _work(self) -> None:
        child: _Child | None = None
        chunk: list[Task] = []
        size = 1
        try:
            while (first := self._schedule.wait_for_task()) is not None:
                chunk = self._more(first, size)
                if child is None:
                    child = _Child(
                        self._context, self._chunk, self._handle, self._has_results, self._client, self._modules
                    )
                    self._children.add(child)
                    if self._closing:  # perhaps close has not seen it, and nothing else would end its function
                        child.kill()
                    if not self._has_begun(child, chunk):
                        return
                began = time.monotonic()
                if self._process(child, chunk):
                    lasted = (time.monotonic() - began) / len(chunk)
                    size = max(1, min(self._chunk, 2 * len(chunk), int(_CHUNK_S / max(lasted, 1e-6))))
                else:
                    size = 1
                    self._children.discard(child)
                    child.kill()
                    child = None
        except BaseException as error:
            for task in chunk:
                self._schedule.abort(task, error)
            self._schedule.abort_all(error)
        finally:
            if child is not None:
                child.end()

    def _has_begun(self, child: _Child, chunk: list[Task]) -> bool:
        try:
            child.receive(None)
        except (EOFError, OSError):
            for task in reversed(chunk):
                self._schedule.give_back(task)
            if not self._closing:
                self._schedule.abort_all(
                    WorkerDiedError(
                        f"a worker process {child.describe()} before its first record. Its output says why. A program "
                        'that starts processes needs `if __name__ == "__main__":` around its main part'
                    )
                )
            return False
        return True

    def _more(self, first: Task, most: int) -> list[Task]:
        chunk = [first]
        if most == 1:
            return chunk
        with self._schedule.lock:
            while len(chunk) < most and (task := self._schedule.next_task()) is not None:
                chunk.append(task)
        return chunk

    def _process(self, child: _Child, chunk: list[Task]) -> bool:
        """Process a chunk. Return False if the process is of no more use."""
        sent: list[Task] = []
        records: list[bytes] = []
        for task in chunk:
            try:
                record = self._owner.argument(task)
            except Exception as error:
                self._owner.not_deserialized(task, error)
                continue
            if record is None:
                self._schedule.leave_out(task)
                continue
            try:
                records.append(pickle.dumps(record))
            except Exception as error:  # an error of this record alone
                self._owner.after_failure(task, error)
                continue
            sent.append(task)
        if not sent:
            return True
        try:
            child.send(records)
        except OSError:  # it has died between two chunks
            for task in reversed(sent):
                self._schedule.give_back(task)
            return False
        done, is_over = 0, False
        until = math.inf if self._timeout is None else time.monotonic() + self._timeout
        while not is_over:
            try:
                if len(sent) - done > 1 and not child.has_results(_CHUNK_S):
                    begun = child.take_back(len(sent))
                    for task in reversed(sent[begun:]):
                        self._schedule.give_back(task)
                    del sent[begun:]
                results, is_over = child.receive(None if until == math.inf else max(0.0, until - time.monotonic()))
            except TimeoutError:
                lasted = (
                    f"the function has not returned within {(self._timeout or 0) * 1000:.0f} ms, its process was ended"
                )
                child.kill()
                return self._lost(sent[done:], child.marks[done:], KafkaTimeoutError(lasted))
            except (EOFError, OSError):
                died = WorkerDiedError(f"the worker process {child.describe()}")
                return self._lost(sent[done:], child.marks[done:], died)
            if self._timeout is not None:
                until = time.monotonic() + self._timeout
            returned: list[tuple[Task, Any]] = []
            for result in results:
                task = sent[done]
                done += 1
                if result is None:
                    self._schedule.finish(task)
                elif isinstance(result, bytes):
                    try:
                        value = pickle.loads(result)
                    except Exception as error:  # its classes decide what happens here
                        self._owner.after_failure(task, error)
                    else:
                        returned.append((task, value))
                else:
                    failed = error_of(result)
                    if isinstance(failed, Exception):
                        self._owner.after_failure(task, failed)
                    else:
                        self._schedule.abort(task, failed)
            if returned:
                self._owner.succeeded(returned)
        return True

    def _lost(self, tasks: list[Task], marks: bytes, error: Exception) -> bool:
        if self._closing:
            return False
        if not any(marks[: len(tasks)]):  # it has died before the first record, perhaps because of it
            marks = bytes([RUNNING]) + marks[1:]
        for task, mark in reversed(list(zip(tasks, marks, strict=False))):
            if mark == DONE:
                self._schedule.finish(task)
            elif mark == RUNNING:
                self._owner.after_failure(task, error)
            else:
                self._schedule.give_back(task)
        return False

    def close(self) -> None:
        self._closing = True
        until = time.monotonic() + 1
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, until - time.monotonic()))
        for child in list(self._children):  # of a function that has not returned in time
            child.kill()
        until = time.monotonic() + 5
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, until - time.monotonic()))


class _Child:
    """A worker process, seen from its thread."""

    def __init__(self, context: Any, chunk: int, handle: Callable[[Any], Any], *rest: Any) -> None:
        self._pipe: Connection
        self._pipe, theirs = context.Pipe()
        self._marks = context.RawArray("B", chunk)
        self._lock = context.Lock()
        arguments = (theirs, handle, self._marks, self._lock, *rest)
        self._process = context.Process(target=serve, args=arguments, daemon=True, name="pyconsumer-worker")
        self._process.start()
        theirs.close()

    @property
    def marks(self) -> bytes:
        return bytes(self._marks)

    def send(self, records: list[bytes]) -> None:
        self._marks[:] = bytes(len(self._marks))
        self._pipe.send(records)

    def has_results(self, timeout: float) -> bool:
        """Wait for results or the end of the process, at most for a time in seconds. Return False if there is none."""
        return self._pipe.poll(timeout)

    def take_back(self, count: int) -> int:
        """Take back the records that did not begin. Return how many have begun, of as many as were sent."""
        if not self._lock.acquire(timeout=_LOCK_S):
            return count  # it died with it
        try:
            begun = 0
            while begun < count and self._marks[begun]:
                begun += 1
            for place in range(begun, count):
                self._marks[place] = TAKEN_BACK
            return begun
        finally:
            self._lock.release()

    def receive(self, timeout: float | None) -> tuple[list[Result], bool]:
        """Return the results of the next tasks, and True if there are no more of the chunk.

        Raises:
            TimeoutError: there is none in time.
            EOFError, OSError: the process has ended.
        """
        if not self._pipe.poll(timeout):
            raise TimeoutError
        found: tuple[list[Result], bool] = self._pipe.recv()
        return found

    def describe(self) -> str:
        self._process.join(5)
        code = self._process.exitcode
        return f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with status {code}"

    def kill(self) -> None:
        self._process.kill()
        self._process.join(5)
        self._pipe.close()

    def end(self) -> None:
        """Let the process end."""
        self._pipe.close()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(5)
