"""The consumer for asyncio behind the blocking interface, so that the same behaviour tests run on both."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from pyconsumer.aio import AsyncKafkaConsumer

__all__ = ["AsyncioFace"]


class AsyncioFace:
    """Runs each call of an ``AsyncKafkaConsumer`` on an event loop of its own, until it has ended."""

    def __init__(self, *topics: Any, **settings: Any) -> None:
        self._loop = asyncio.new_event_loop()
        try:
            self._consumer = AsyncKafkaConsumer(*topics, **settings)
        except BaseException:
            self._loop.close()
            raise

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._consumer, name)
        if inspect.iscoroutinefunction(found):
            return lambda *args, **kwargs: self._loop.run_until_complete(found(*args, **kwargs))
        return found

    def commit_async(self, *args: Any, **kwargs: Any) -> Any:
        """Begin a commit inside the loop."""

        async def call() -> Any:
            return self._consumer.commit_async(*args, **kwargs)

        return self._loop.run_until_complete(call())

    def assign(self, partitions: Iterable[Any]) -> None:
        """Assign; an empty list unsubscribes, as in the blocking face."""
        if isinstance(partitions, list | tuple | set) and not partitions:
            self.unsubscribe()
        else:
            self._consumer.assign(partitions)

    def subscribe(self, topics: Any = (), **kwargs: Any) -> None:
        """Subscribe; an empty list unsubscribes, as in the blocking face."""
        if isinstance(topics, list | tuple | set) and not topics and not kwargs.get("pattern"):
            self.unsubscribe()
        else:
            self._consumer.subscribe(topics, **kwargs)

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Close the consumer and the loop."""
        if self._loop.is_closed():
            return
        try:
            self._loop.run_until_complete(self._consumer.close(*args, **kwargs))
        finally:
            self._loop.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            return self._loop.run_until_complete(anext(self._consumer))
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
