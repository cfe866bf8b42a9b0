"""``Deferred``: a result that is set later. Handlers wait for it, and replies are sent when it is set.

The module needs no event loop.

Deferred results
----------------
Coordinators and logs return a :class:`Deferred`. Their driver (the asyncio server, a simulation) decides how to wait.
Callbacks run at once in the call that sets the result, in the order in which they were added.

Handlers
--------
Handlers are coroutines. The only thing they await is :func:`wait_for`, which passes a :class:`Deferred` to
:func:`run_handler`. The server's connections call that function, and so do tests and simulations on a fake clock.

Pending replies
---------------
A reply runs the client's next step at once, and that step may be another request to the same group: a pipelined one on
a connection, anything in a simulation. Replies are therefore collected while a request, a timer or the end of an append
is handled. They are sent when that work is complete, so no callback sees a group that is half changed.

Replies of such a next step are queued behind the ready ones. One loop sends them all, however many clients continue at
once. A reply whose callback fails is logged and does not affect the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

__all__ = ["Deferred", "PendingReplies", "run_handler", "wait_for"]

from pyconsumer.background_log import Log

_log = Log(__name__)

T = TypeVar("T")


class Deferred(Generic[T]):
    """A value that is set exactly once.

    A second ``set`` raises ``RuntimeError``, since a request gets only one response.
    """

    __slots__ = ("_callbacks", "_done", "_value")

    def __init__(self) -> None:
        self._done = False
        self._value: T | None = None
        self._callbacks: list[Callable[[T], None]] = []

    @classmethod
    def of(cls, value: T) -> Deferred[T]:
        """Return a deferred whose value is already set."""
        deferred = cls()
        deferred.set(value)
        return deferred

    @property
    def done(self) -> bool:
        return self._done

    @property
    def value(self) -> T:
        """Return the value. Raises ``RuntimeError`` if it is not set."""
        if not self._done:
            raise RuntimeError("the result is not set yet")
        return self._value  # type: ignore[return-value]

    def set(self, value: T) -> None:
        if self._done:
            raise RuntimeError("the result was set already")
        self._done = True
        self._value = value
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(value)

    def on_done(self, callback: Callable[[T], None]) -> None:
        """Call ``callback(value)`` when the value is set. If it is set already, call it now."""
        if self._done:
            callback(self._value)  # type: ignore[arg-type]
        else:
            self._callbacks.append(callback)


class _Await:
    """Passes a deferred to the driver of the coroutine and gets its value back."""

    __slots__ = ("_deferred",)

    def __init__(self, deferred: Deferred[Any]) -> None:
        self._deferred = deferred

    def __await__(self) -> Generator[Deferred[Any], Any, Any]:
        return (yield self._deferred)


async def wait_for(deferred: Deferred[T]) -> T:
    """Wait in a handler until ``deferred`` is set, and return its value."""
    if deferred.done:
        return deferred.value
    value: T = await _Await(deferred)
    return value


def run_handler(
    coroutine: Coroutine[Any, Any, T],
    on_result: Callable[[T], None],
    on_error: Callable[[BaseException], None],
) -> None:
    """Run a handler up to its next wait, and continue it each time the awaited value is set.

    Args:
        on_result: called with the handler's return value as soon as the handler ends. That may be within this call.
        on_error: called with the exception instead, if the handler raises.

    To abandon a waiting handler, close the coroutine. If the awaited value is set later, nothing happens.
    """
    _step(coroutine, None, on_result, on_error)


def _step(
    coroutine: Coroutine[Any, Any, T],
    value: Any,
    on_result: Callable[[T], None],
    on_error: Callable[[BaseException], None],
) -> None:
    if getattr(coroutine, "cr_frame", None) is None:
        return  # closed in the meantime
    while True:
        try:
            deferred: Deferred[Any] = coroutine.send(value)
        except StopIteration as stop:
            on_result(stop.value)
            return
        except Exception as error:  # the driver reports every error of a handler
            on_error(error)
            return
        if not deferred.done:
            deferred.on_done(lambda result: _step(coroutine, result, on_result, on_error))
            return
        value = deferred.value


class PendingReplies:
    """Replies that wait to be sent. ``with replies:`` encloses a piece of work.

    At the end of the outermost block they are sent in order.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._sending = False
        self._ready: deque[Callable[[], None]] = deque()

    def put(self, waiter: Deferred[T] | None, value: T) -> None:
        """Queue a reply. If ``waiter`` is None, or has received an error in the meantime, no reply is sent."""
        if waiter is not None:
            self._ready.append(partial(_send, waiter, value))

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *exc_info: object) -> None:
        self._depth -= 1
        if self._depth or self._sending:
            return
        self._sending = True
        try:
            while self._ready:
                self._ready.popleft()()
        finally:
            self._sending = False


def _send(waiter: Deferred[T], value: T) -> None:
    if waiter.done:
        return
    try:
        waiter.set(value)
    except Exception:
        _log.exception("The callback of a reply of the group coordinator failed")
