"""Work with a registry that takes time, such as fetching a schema with its references, apart from the caller's thread.

Rules

1. A job runs in a thread of its own, which ends with it. It is a plain sequence of calls of the registry's client. The
   caller gets a future. So a client on an event loop awaits the same job that a blocking one waits for.
2. One job runs for one key at a time. All callers get its future. All that wait for it get its result or its error.
3. A result is kept for the lifetime that the loader has, which may be without end. If it cannot be loaded again then,
   it is kept until that works. Each second another job tries, and no caller waits for that one.
4. An error of a schema itself is kept without end: it is no Avro, of another format, or a rule applies. That the
   registry does not know the schema (a 404 with a code of its own), or that it refuses to register one (409), is kept
   for a second.
5. Each other error is one of the way to the schema, and not of a record: it becomes a ``SchemaUnavailableError``, which
   is not kept. It is retriable, unless the registry refuses the client (401, 403). Errors of settings stay as they are.
6. At most :data:`MOST_RESULTS` results and :data:`MOST_ERRORS` errors are kept. One more drops all before it.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from typing import Any, Final, Generic, TypeVar

from pyconsumer.background_log import background
from pyconsumer.errors import ConfigurationError, SchemaUnavailableError, SerializationError
from pyconsumer.generic import PendingError
from pyconsumer.schemas.errors import (
    IncompatibleSchemaError,
    SchemaNotFoundError,
    SchemaRegistryAccessError,
    SchemaRegistryError,
)

__all__ = ["MOST_ERRORS", "MOST_RESULTS", "Loader", "call_registry"]

V = TypeVar("V")

MOST_RESULTS: Final = 10_000
MOST_ERRORS: Final = 1000
#: An id that the registry does not know is asked for again after this time (seconds).
_UNKNOWN_S: Final = 1.0


def call_registry(client: Any, name: str, *args: Any) -> Any:
    """Call a method of a registry's client, in a thread that may wait, and return its result.

    Args:
        client: a blocking client or one for asyncio.
        name: the method's name.
        args: its arguments.
    """
    result = getattr(client, name)(*args)
    if not inspect.isawaitable(result):
        return result

    async def wait() -> Any:
        return await result

    return asyncio.run(wait())


class Loader(Generic[V]):
    """Results of jobs by key.

    Args:
        load: the job. It gets the key.
        lifetime_s: results are loaded again after this time (seconds).
        now: the clock.
    """

    def __init__(
        self, load: Callable[[Any], V], lifetime_s: float = math.inf, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._load = load
        self._lifetime = lifetime_s
        self._now = now
        self._pid = os.getpid()
        self._begin()
        #: Results by key, to be read directly. Those that end are not in it.
        self.results: dict[Hashable, V] = {}
        self._ends: dict[Hashable, tuple[V, float]] = {}
        #: Keys of results that are kept although they have ended, since they could not be loaded again.
        self._overdue: set[Hashable] = set()
        self._errors: dict[Hashable, tuple[Exception, float]] = {}

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[Hashable, Future[V]] = {}

    def get(self, key: Hashable, name: str) -> V:
        """Return the result of a key.

        Args:
            key: of the result.
            name: for messages.

        Raises:
            PendingError: it is being loaded.
            Exception: the error of the job.
        """
        found = self.results.get(key)
        if found is not None:
            return found
        if self._pid != os.getpid():  # after a fork the threads are gone
            self._pid = os.getpid()
            self._begin()
        with self._lock:
            if key in self._ends:
                result, until = self._ends[key]
                if self._now() < until:
                    return result
                if key in self._overdue:
                    job = self._jobs.get(key)
                    if job is None:
                        job = self._jobs[key] = self._start(key)
                    return self._settle(key, job, name) if job.done() else result
            if key in self._errors:
                error, until = self._errors[key]
                if self._now() < until:
                    raise error.with_traceback(None)  # or it would grow with each record
                del self._errors[key]
            job = self._jobs.get(key)
            if job is None:
                job = self._jobs[key] = self._start(key)
            if not job.done():
                raise PendingError(job, name)
            return self._settle(key, job, name)

    def _start(self, key: Hashable) -> Future[V]:
        """Run the job of a key in a thread, which ends with it."""
        job: Future[V] = Future()
        job.set_running_or_notify_cancel()  # others may wait for it, so it is never cancelled

        def run() -> None:
            with background():
                try:
                    result = self._load(key)
                except BaseException as error:
                    job.set_exception(error)
                else:
                    job.set_result(result)

        try:
            threading.Thread(target=run, name="pyconsumer-schema", daemon=True).start()
        except (RuntimeError, MemoryError) as error:  # too many threads
            job.set_exception(error)
        return job

    def wait(self, key: Hashable, name: str) -> V:
        """Return the result of a key, and block until it is there. Raises as :meth:`get`, but no PendingError."""
        try:
            return self.get(key, name)
        except PendingError as pending:
            job: Any = pending.arrival
        wait([job])
        with self._lock:
            return self._settle(key, job, name)

    def _settle(self, key: Hashable, job: Future[V], name: str) -> V:
        """Return the result of a job that has ended, or raise its error. The first caller keeps what is to be kept."""
        is_first = self._jobs.get(key) is job
        if is_first:
            del self._jobs[key]
        error = job.exception()
        if error is None:
            result = job.result()
            if not is_first:
                return result
            kept: dict[Hashable, Any] = self.results if self._lifetime == math.inf else self._ends
            if len(kept) >= MOST_RESULTS and key not in kept:
                kept.clear()
                self._overdue.clear()
            self._overdue.discard(key)
            if self._lifetime == math.inf:
                self.results[key] = result
            else:
                self._ends[key] = result, self._now() + self._lifetime
            return result
        if not isinstance(error, Exception):
            raise error
        meant, seconds = _meaning(error, name)
        if key in self._ends:
            if isinstance(meant, SchemaUnavailableError):
                result = self._ends[key][0]
                if is_first:
                    self._overdue.add(key)
                    self._ends[key] = result, self._now() + _UNKNOWN_S
                return result
            if is_first:
                self._overdue.discard(key)
                del self._ends[key]
        if seconds and is_first:
            if len(self._errors) >= MOST_ERRORS:
                self._errors.clear()
            self._errors[key] = meant, self._now() + seconds
        if meant is error:
            raise error.with_traceback(None)
        raise meant from error


def _meaning(error: Exception, name: str) -> tuple[Exception, float]:
    """Return the error to raise for an error of a job, and the seconds for which it is kept."""
    status, code = getattr(error, "http_status_code", None), getattr(error, "error_code", None)
    if status == 404 and isinstance(code, int) and code // 100 == 404:
        if not isinstance(error, SchemaNotFoundError):  # another client has an error of its own for this
            return SchemaNotFoundError(404, code, str(error)), _UNKNOWN_S
        return error, _UNKNOWN_S
    if isinstance(error, SerializationError) and not isinstance(error, SchemaUnavailableError):
        may_pass = isinstance(error.__cause__, SchemaNotFoundError | IncompatibleSchemaError)
        return error, _UNKNOWN_S if may_pass else math.inf
    if isinstance(error, SchemaUnavailableError) or _is_of_settings(error):
        return error, 0.0
    cause = str(error) if isinstance(error, SchemaRegistryError) else f"{type(error).__name__}: {error}"
    is_refused = isinstance(error, SchemaRegistryAccessError) or status in (401, 403)
    return SchemaUnavailableError(f"{name}: {cause}", retriable=not is_refused), 0.0


def _is_of_settings(error: Exception) -> bool:
    return isinstance(error, ConfigurationError) and not isinstance(error, SchemaRegistryError)
