"""The common part of the blocking client and the one for asyncio: calls made in threads, and the state after a fork.

A call begins in the caller's thread. If the cache has the answer, no other thread takes part. Otherwise a worker makes
the requests, with their pauses, and the caller waits for a future: at most for the time of the call.
"""

from __future__ import annotations

import math
import os
import random
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from pyconsumer.clock import Clock, SystemClock, seconds_of
from pyconsumer.errors import IllegalStateError
from pyconsumer.schemas.errors import SchemaRegistryTimeoutError
from pyconsumer.schemas.registry.cache import Flight, SchemaCache
from pyconsumer.schemas.registry.exchange import Attempt, Exchange, Join, Pause, Step, Steps
from pyconsumer.schemas.registry.requests import RegistryCalls
from pyconsumer.schemas.registry.settings import RegistrySettings
from pyconsumer.schemas.registry.values import Schema
from pyconsumer.schemas.registry.workers import Workers

__all__ = ["GRACE_S", "RegistryDriver"]

P = ParamSpec("P")
T = TypeVar("T")

#: Seconds that a caller waits longer than a call may take, so that the call's own error, which says more, comes first.
GRACE_S: Final = 0.1
_LONGEST_S: Final = threading.TIMEOUT_MAX - 1

_drivers: weakref.WeakSet[RegistryDriver] = weakref.WeakSet()


class _DaemonTimer(threading.Timer):
    """A timer that does not keep the process alive."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.daemon = True


class RegistryDriver:
    """Begins calls.

    Args:
        conf: one URL, several, or confluent-kafka's dictionary.
        clock: the source of time.

    Raises:
        ConfigurationError: a setting is unknown or not legal.
    """

    def __init__(self, conf: str | Sequence[str] | Mapping[str, Any], *, clock: Clock | None = None) -> None:
        from pyconsumer.schemas.registry.http import Transport

        self._settings = RegistrySettings.of(conf)
        self._clock = clock or SystemClock()
        self._cache = SchemaCache(self._settings.cache_capacity, self._clock)
        exchange = Exchange(self._settings, self._clock, random.random)
        self._calls = RegistryCalls(self._settings, exchange, self._cache, self._clock)
        self._new_transport: Callable[[], Transport] = lambda: Transport(self._settings)
        self._transport: Transport | None = self._new_transport()
        self._lock = threading.Lock()
        self._workers = Workers()
        self._closing = threading.Event()
        _drivers.add(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._settings.urls)})"

    def after_fork(self) -> None:
        """Let a forked child have threads, locks and connections of its own. It keeps the cached answers."""
        closed = self._closing.is_set()
        self._cache.after_fork()
        self._lock = threading.Lock()
        self._workers = Workers()
        self._closing = threading.Event()
        self._transport = None
        if closed:
            self._end()

    # --- calls

    def _deadline(self, timeout_ms: float | None) -> float:
        seconds = self._settings.timeout_s if timeout_ms is None else seconds_of(timeout_ms)
        return self._clock.now() + min(seconds, _LONGEST_S)

    def _begin(
        self,
        deadline: float,
        call: Callable[Concatenate[float, P], Steps[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Future[T]:
        """Begin a call. The future has its result or its error."""
        if self._closing.is_set():
            raise IllegalStateError("the registry client is closed")
        result: Future[T] = Future()
        result.set_running_or_notify_cancel()  # others may wait for the same call, so it is never cancelled
        self._advance(call(deadline, *args, **kwargs), result)
        return result

    def _advance(self, steps: Steps[T], result: Future[T]) -> None:
        """Take a step that needs no thread, and hand the remaining ones to a worker."""
        try:
            step = next(steps)
        except StopIteration as stop:
            result.set_result(stop.value)
            return
        except BaseException as error:
            result.set_exception(error)
            return
        if isinstance(step, Join):
            self._watch(step.flight)
            step.flight.add_done_callback(lambda _: self._advance(steps, result))
            return
        try:
            self._workers.submit(lambda: self._work(steps, step, result))
        except RuntimeError:
            steps.close()
            result.set_exception(IllegalStateError("the registry client is closed"))

    def _watch(self, flight: Flight) -> None:
        """Give a flight back at the end of its caller's time. The first one that joins it sees to that."""
        if flight.is_watched or flight.until == math.inf:
            return
        flight.note_watched()
        seconds = min(max(flight.until - self._clock.now(), 0.0), _LONGEST_S)
        timer = _DaemonTimer(seconds, self._cache.abandon, (flight.key, flight))
        timer.start()
        flight.add_done_callback(lambda _: timer.cancel())

    def _work(self, steps: Steps[T], step: Step, result: Future[T]) -> None:
        """Take all steps of a call, in a worker."""
        try:
            while True:
                step = steps.send(self._take(step))
        except StopIteration as stop:
            result.set_result(stop.value)
        except BaseException as error:
            result.set_exception(error)
        finally:
            steps.close()

    def _take(self, step: Step) -> Any:
        if isinstance(step, Attempt):
            return self._sender().send(step)
        if isinstance(step, Pause):
            if self._closing.wait(min(step.seconds, _LONGEST_S)):
                raise IllegalStateError("the registry client was closed during the call")
        else:
            wait([step.flight], min(step.seconds, _LONGEST_S))
        return None

    def _sender(self) -> Any:
        with self._lock:
            if self._transport is None:
                self._transport = self._new_transport()
            return self._transport

    def _late(self) -> SchemaRegistryTimeoutError:
        return SchemaRegistryTimeoutError(
            -1, -1, f"{', '.join(self._settings.urls)}: the call did not end within its time (setting timeout)"
        )

    # --- without waiting

    def peek_schema(self, schema_id: int, subject_name: str | None = None) -> Schema | None:
        """Return a schema from the cache, or None. It makes no request and never waits.

        Args:
            schema_id: the schema's id.
            subject_name: a subject in the context of the id. By default the default context.
        """
        return self._calls.peek_schema(schema_id, subject_name)

    def peek_schema_by_guid(self, guid: str) -> Schema | None:
        """Return a schema from the cache, or None. It makes no request and never waits."""
        return self._calls.peek_schema_by_guid(guid)

    def fetch_schema(
        self, schema_id: int, subject_name: str | None = None, *, timeout_ms: float | None = None
    ) -> Future[Schema]:
        """Begin to fetch a schema by its id, and return a future at once. Its callbacks run in another thread."""
        deadline = self._deadline(timeout_ms)
        return self._begin(deadline, self._calls.get_schema, schema_id, subject_name, None, None)

    def fetch_schema_by_guid(self, guid: str, *, timeout_ms: float | None = None) -> Future[Schema]:
        """Begin to fetch a schema by its GUID, and return a future at once. Its callbacks run in another thread."""
        return self._begin(self._deadline(timeout_ms), self._calls.get_schema_by_guid, guid, None)

    def clear_latest_caches(self) -> None:
        """Forget the latest versions, so that the next call asks the registry."""
        self._calls.clear_latest_caches()

    def clear_caches(self) -> None:
        """Forget all answers."""
        self._calls.clear_caches()

    def _end(self) -> None:
        self._closing.set()
        self._workers.close()
        with self._lock:
            if self._transport is not None:
                self._transport.close()


def _after_fork() -> None:
    for driver in list(_drivers):
        driver.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
