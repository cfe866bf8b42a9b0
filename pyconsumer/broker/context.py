"""The context that a handler gets with a request, and the way it waits.

Handlers are coroutines that know no event loop. The only thing they await is :func:`wait_for`, which passes a
:class:`Deferred` to :func:`run_handler`. The server's connections call that function, and so do tests and simulations
on a fake clock.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.security import ANONYMOUS, Session

__all__ = ["ANONYMOUS", "RequestContext", "run_handler", "wait_for"]

T = TypeVar("T")


@dataclass(slots=True)
class RequestContext:
    """The origin of a request, and the way to answer it.

    Attributes:
        api_key, api_version, correlation_id: from its header.
        client_id: from its header; empty if it gave none.
        client_host: the peer's address in Kafka's form, such as ``/127.0.0.1``.
        listener: name of the listener that it came through, such as ``PLAINTEXT``.
        principal: who sent it, such as ``User:alice``.
        now: monotonic seconds when it was taken up.
        wall_ms: the same in ms since the epoch.
        session: what is known of the connection.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    client_host: str
    listener: str
    principal: str
    now: float
    wall_ms: int
    session: Session = field(default_factory=Session)


class _Await:
    """Hands a deferred to the driver of the coroutine and gets its value back."""

    __slots__ = ("_deferred",)

    def __init__(self, deferred: Deferred[Any]) -> None:
        self._deferred = deferred

    def __await__(self) -> Generator[Deferred[Any], Any, Any]:
        return (yield self._deferred)


async def wait_for(deferred: Deferred[T]) -> T:
    """Wait in a handler until ``deferred`` is set, and return its value. If it is set already, nothing waits."""
    if deferred.done:
        return deferred.value
    value: T = await _Await(deferred)
    return value


def run_handler(
    coroutine: Coroutine[Any, Any, T],
    on_result: Callable[[T], None],
    on_error: Callable[[BaseException], None],
) -> None:
    """Run a handler as far as it goes, now and again whenever what it waits for is set.

    Args:
        on_result: called with what it returned, in the call that let it end (which may be this one).
        on_error: called with what it raised instead.

    To give up a handler that waits, close the coroutine: what it waits for may still be set and changes nothing.
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
        except Exception as error:  # whatever a handler raises is reported by its driver
            on_error(error)
            return
        if not deferred.done:
            deferred.on_done(lambda result: _step(coroutine, result, on_result, on_error))
            return
        value = deferred.value
