"""Calls of a mock that may run callbacks of the application: generators that yield the awaitables of these."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import Any, TypeVar

from pyconsumer.network.futures import refuse_awaitable

__all__ = ["MockSteps", "awaited", "on_mock", "run_on_loop", "without_waiting"]

T = TypeVar("T")

MockSteps = Generator[Awaitable[object], None, T]
"""A call that may run callbacks: a generator that yields awaitables."""


def without_waiting(steps: MockSteps[T]) -> T:
    """Run a call whose callbacks must be plain functions."""
    try:
        awaitable = next(steps)
    except StopIteration as stop:
        result: T = stop.value
        return result
    try:
        return steps.throw(refuse_awaitable(awaitable))  # type: ignore[return-value]
    finally:
        steps.close()


def awaited(outcome: object) -> Iterator[Awaitable[object]]:
    """Yield the result of a callback, if it is awaitable."""
    if isinstance(outcome, Awaitable):
        yield outcome


async def on_mock(client: Any, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Yield to the loop once, and make a call of the wrapped mock."""
    await asyncio.sleep(0)
    return method(client.mock, *args, **kwargs)


async def run_on_loop(steps: MockSteps[T]) -> T:
    """Yield to the loop once, run a call of a mock, and await the awaitables that its callbacks return."""
    try:
        await asyncio.sleep(0)
        awaitable = next(steps)
        while True:
            error: BaseException | None = None
            try:
                await awaitable
            except BaseException as raised:
                error = raised
            awaitable = steps.send(None) if error is None else steps.throw(error)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        steps.close()
