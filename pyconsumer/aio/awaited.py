"""``awaited``: makes a coroutine function of a blocking client's call. There is no other way from one to the other.

The call itself is written once, in the blocking class: ``KafkaConsumer.position``, ``KafkaAdminClient.list_topics``,
``MockConsumer.committed``. An asyncio class names the class from which its coroutines are made, and writes those that
behave in another way on an event loop, such as ``poll``. :func:`with_awaited` makes the rest of an interface.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

__all__ = ["awaited", "not_written", "with_awaited"]

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

Run = Callable[..., Any]
"""A function of the asyncio object, the blocking method and the arguments. It returns an awaitable of the result."""


def _on_itself(client: Any, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call the method on the asyncio object, whose ``_run`` returns a coroutine instead of waiting."""
    return method(client, *args, **kwargs)


def awaited(
    method: Callable[Concatenate[Any, P], R], run: Run = _on_itself
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return a method of a blocking class as a coroutine function.

    Args:
        method: the blocking method.
        run: a function that begins the call. By default the call begins on the asyncio object itself.
    """

    @functools.wraps(method)
    async def call(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = await run(client, method, *args, **kwargs)
        return result

    return call


def with_awaited(
    interface: type, blocking: type, run: Run = _on_itself, *, forward: str | None = None
) -> Callable[[C], C]:
    """Return a class decorator. It adds the calls of an interface that the class does not define itself.

    Args:
        interface: the interface for asyncio, with signatures and docstrings.
        blocking: the blocking class, which has the bodies of the calls.
        run: see :func:`awaited`.
        forward: the name of the attribute that holds the blocking object. Calls that do not wait are made on that
            object. None if the class has these calls itself.
    """

    def fill(cls: C) -> C:
        for name, declared in vars(interface).items():
            if name.startswith("_") or not inspect.isfunction(declared) or getattr(cls, name) is not declared:
                continue
            method = getattr(blocking, name)
            if inspect.iscoroutinefunction(declared):
                setattr(cls, name, functools.wraps(declared)(awaited(method, run)))
            elif forward is not None:
                setattr(cls, name, functools.wraps(declared)(_forwarded(method, forward)))
        return cls

    return fill


def _forwarded(method: Callable[..., R], attribute: str) -> Callable[..., R]:
    """Return a function that calls a method on an attribute of the object."""

    def call(client: Any, /, *args: Any, **kwargs: Any) -> R:
        return method(getattr(client, attribute), *args, **kwargs)

    return call


def not_written(name: str) -> AttributeError:
    """Return the error for a call that is in the interface but not in the class.

    The error is not ``NotImplementedError``. Type checkers take that as a sign that each class must define the call.
    """
    return AttributeError(f"this class has no {name}()")
