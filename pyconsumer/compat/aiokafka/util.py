"""``aiokafka.util``: small functions that programs import from there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

__all__ = ["INTEGER_MAX_VALUE", "INTEGER_MIN_VALUE", "create_future", "create_task", "get_running_loop"]

T = TypeVar("T")

INTEGER_MAX_VALUE: Final = 2**31 - 1
INTEGER_MIN_VALUE: Final = -(2**31)


def create_task(coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a coroutine as a task of the running loop."""
    return asyncio.get_running_loop().create_task(coro)


def create_future(loop: asyncio.AbstractEventLoop | None = None) -> asyncio.Future[Any]:
    """Return a future of an event loop. By default it is the running loop."""
    return (asyncio.get_running_loop() if loop is None else loop).create_future()


def get_running_loop() -> asyncio.AbstractEventLoop:
    """Return the running loop."""
    return asyncio.get_running_loop()
