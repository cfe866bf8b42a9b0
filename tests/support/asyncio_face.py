"""The clients for asyncio behind the blocking interfaces, so that the same behaviour tests run on both.

A test that calls a client from a callback of it is the difficult case. The loop is running, so a blocking call cannot
run it, and the call has to be made in the task that called back. So each task runs in a greenlet: a callback, however
deep, switches back to the task, which awaits the call inside and then lets the callback continue.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import greenlet

from pyconsumer.aio import AsyncKafkaAdminClient, AsyncKafkaConsumer, AsyncKafkaProducer
from tests.support.event_loops import new_event_loop

__all__ = ["AsyncioAdmin", "AsyncioConsumer", "AsyncioProducer"]


class _Call(greenlet.greenlet):
    """A coroutine that runs beside the task that awaits it, so that plain functions below it may await others."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        super().__init__(self._drive)
        self._coroutine = coroutine
        self.gr_context = greenlet.getcurrent().gr_context

    def _drive(self, sent: Any) -> Any:
        error: BaseException | None = None
        while True:
            try:
                waited_for = self._coroutine.send(sent) if error is None else self._coroutine.throw(error)
            except StopIteration as stop:
                return "returned", stop.value
            sent, error = None, None
            try:
                sent = self.parent.switch("waits", waited_for)
            except BaseException as thrown:
                error = thrown

    def wait_for(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Await a coroutine in the task, from inside a callback."""
        return self.parent.switch("awaits", coroutine)

    def __await__(self) -> Generator[Any, Any, Any]:
        what, value = self.switch(None)
        while what != "returned":
            try:
                answer = (yield value) if what == "waits" else (yield from _Call(value).__await__())
            except BaseException as error:
                what, value = self.throw(error)
            else:
                what, value = self.switch(answer)
        return value


async def _called(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return await _Call(coroutine)


def _task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    """Make a task that runs in a greenlet: those of a client too, as close makes one."""
    return asyncio.Task(_called(coroutine), loop=loop, **options)


class _Face:
    """Runs each call of a client on an event loop of its own, until it has ended: asyncio's, or uvloop's, see
    :mod:`tests.support.event_loops`.
    """

    _make: Any
    _inner = ""  # attribute of the client with what only the blocking one has, for tests that look inside

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self._loop = new_event_loop()
        self._loop.set_task_factory(_task)
        try:
            self._client = self._make(*arguments, **settings)
        except BaseException:
            self._loop.close()
            raise

    def __getattr__(self, name: str) -> Any:
        if name == "_client":  # not made: __init__ has failed
            raise AttributeError(name)
        inside = self._inner and not hasattr(self._client, name)
        found = getattr(getattr(self._client, self._inner) if inside else self._client, name)
        if inspect.iscoroutinefunction(found):

            @functools.wraps(found)
            def call(*args: Any, **kwargs: Any) -> Any:
                return self._run(found(*args, **kwargs))

            return call
        return found

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        current = greenlet.getcurrent()
        if isinstance(current, _Call):
            return current.wait_for(coroutine)
        if self._loop.is_closed() or self._loop.is_running():
            return asyncio.run(coroutine)  # refused with the client's own error: it is closed, or another thread's

        return self._loop.run_until_complete(coroutine)

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Close the client and the loop."""
        if self._loop.is_closed():
            return
        try:
            self._run(self._client.close(*args, **kwargs))
        finally:
            if not self._loop.is_running():
                self._loop.close()

    def __repr__(self) -> str:
        return repr(self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._run(self._client.__aexit__(kind, error, traceback))
        finally:
            self._loop.close()


class AsyncioConsumer(_Face):
    """An ``AsyncKafkaConsumer`` as a blocking one."""

    _make = AsyncKafkaConsumer

    def commit_async(self, *args: Any, **kwargs: Any) -> Any:
        """Begin a commit inside the loop."""

        async def call() -> Any:
            return self._client.commit_async(*args, **kwargs)

        return self._run(call())

    def assign(self, partitions: Iterable[Any]) -> None:
        """Assign, or an empty list unsubscribes, as in the blocking face."""
        if isinstance(partitions, list | tuple | set) and not partitions:
            self.unsubscribe()
        else:
            self._client.assign(partitions)

    def subscribe(self, topics: Any = (), **kwargs: Any) -> None:
        """Subscribe, or an empty list unsubscribes, as in the blocking face."""
        if isinstance(topics, list | tuple | set) and not topics and not kwargs.get("pattern"):
            self.unsubscribe()
        else:
            self._client.subscribe(topics, **kwargs)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            return self._run(self._client.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None


class AsyncioProducer(_Face):
    """An ``AsyncKafkaProducer`` as a blocking one."""

    _make = AsyncKafkaProducer
    _inner = "_producer"

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Run a block as a transaction."""
        block = self._client.transaction()
        self._run(block.__aenter__())
        try:
            yield self
        except BaseException as error:
            if not self._run(block.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            self._run(block.__aexit__(None, None, None))


class AsyncioAdmin(_Face):
    """An ``AsyncKafkaAdminClient`` as a blocking one."""

    _make = AsyncKafkaAdminClient
    _inner = "calls"
