"""``AsyncKafkaShareConsumer``: the share consumer for asyncio, with names, settings and results of the blocking one.

The generators and cores are those of :class:`pyconsumer.KafkaShareConsumer`, and
:class:`~pyconsumer.aio.driver.LoopDriver` runs them on the event loop. Here are the calls that behave in another way
when several tasks use the consumer or one is cancelled. :func:`~pyconsumer.aio.awaited.with_awaited` makes the rest.

State: the delegate's, and the task that closes the consumer. Only the thread of the loop touches it, but for
``wakeup``. One task at a time may poll. All tasks may acknowledge and commit.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pyconsumer.aio.awaited import with_awaited
from pyconsumer.aio.driver import LONGEST_TURN_S, LoopDriver
from pyconsumer.aio.guard import TaskGuard
from pyconsumer.aio.interface import AsyncShareConsumer
from pyconsumer.consumer.arguments import check_max_records
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.consumer.share.calls import DEFAULT_CLOSE_TIMEOUT_MS, ShareCalls
from pyconsumer.consumer.share.consumer import KafkaShareConsumer
from pyconsumer.errors import IllegalStateError, KafkaTimeoutError
from pyconsumer.generic import K, V
from pyconsumer.network.futures import Steps
from pyconsumer.protocol.records import ConsumerRecord

if TYPE_CHECKING:
    import pyarrow

    from pyconsumer.clock import Clock

__all__ = ["AsyncKafkaShareConsumer"]

_log = logging.getLogger("pyconsumer.consumer")

T = TypeVar("T")


@with_awaited(AsyncShareConsumer, KafkaShareConsumer)
class AsyncKafkaShareConsumer(ShareCalls[K, V], AsyncShareConsumer[K, V]):
    """Reads records as a member of a share group on an event loop (asyncio or uvloop).

    Args:
        topics: names of topics to subscribe to. A mapping in this place is read as settings.
        clock: the source of time. By default it is the machine's clock.
        settings: see :data:`pyconsumer.consumer.share.config.SHARE_CONSUMER_SETTINGS`. ``group_id`` is required.

    Raises:
        ConfigurationError: a setting is unknown, has a wrong value, or belongs to the group on the broker.

    The consumer belongs to the loop of its first awaited call. Use it in ``async with``, or await :meth:`close`. Only
    one task at a time may poll. If a poll is cancelled, its records stay for the next one. Names, settings and errors
    are those of :class:`pyconsumer.KafkaShareConsumer`.

    Example::

        async with AsyncKafkaShareConsumer("orders", group_id="billing", bootstrap_servers="broker:9092") as consumer:
            async for record in consumer:
                print(record.value)
    """

    _name = "AsyncKafkaShareConsumer"
    _has_loop = True
    _how_to_close = "await close(), or use it in async with"
    _guard: TaskGuard

    def _open(self, options: Mapping[str, Any], clock: Clock) -> None:
        super()._open(options, clock)
        client = self._network

        def check() -> None:
            client.raise_wakeup()
            client.raise_cluster_error()

        self._driver = LoopDriver(client, self._name, check=check)
        self._closing: asyncio.Task[None] | None = None

    def _make_guard(self) -> TaskGuard:
        return TaskGuard(self._name)

    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        return await self._poll(timeout_ms, max_records, as_bytes=False)

    async def poll_arrow(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        columns: Iterable[str] | None = None,
        *,
        dictionary_topic: bool = False,
    ) -> pyarrow.RecordBatch:
        from pyconsumer.consumer.share.arrow import ShareColumns

        wanted = ShareColumns(columns, dictionary_topic=dictionary_topic)
        found = await self._poll(timeout_ms, max_records, as_bytes=True)
        return self._as_columns(wanted, found)

    async def _poll(self, timeout_ms: float, max_records: int | None, *, as_bytes: bool) -> ConsumerRecords[K, V]:
        most = None if max_records is None else check_max_records(max_records)
        guard, delegate, driver = self._guard, self._delegate, self._driver
        driver.bind()
        guard.begin("poll")
        try:
            delegate.note_returned()
            self._end_iteration()
            self._yielded = None
            if self._network.wakeup_waits:
                self._network.raise_wakeup()
            now = self._now()
            if now - driver.turn_began > LONGEST_TURN_S:
                await driver.let_others_run()
            delegate.metrics.on_poll_start(self._now())
            deadline = self._deadline(timeout_ms)
            steps = delegate.fetched(deadline, most, as_bytes=as_bytes)
            found = await driver.run(steps, deadline + delegate.grace_s, interruptible=True)
            return ConsumerRecords() if found is None else found
        except (KeyboardInterrupt, SystemExit) as error:
            delegate.on_interrupt(error)
            raise
        finally:
            guard.end()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        if not self._ahead:
            if self._guard.closing:
                raise StopAsyncIteration
            wait = self._iteration_wait()
            try:
                found = await self.poll(math.inf if wait is None else wait)
            except IllegalStateError:
                if self._guard.closing:
                    raise StopAsyncIteration from None
                raise
            if found.is_empty:
                raise StopAsyncIteration
            self._ahead = [*found.records()][::-1]
        return self._next_record()

    async def close(self, timeout_ms: float | None = None) -> None:
        if self._closing is None:
            if self._released or self._guard.forked:
                return
            if self._guard.in_callback():
                raise IllegalStateError("close must not be called from a callback")
            if self._driver.loop_is_closed:
                self._release()
                return
            deadline = self._deadline(DEFAULT_CLOSE_TIMEOUT_MS if timeout_ms is None else timeout_ms)
            loop = self._bind()
            self._guard.enter()
            self._end_iteration()
            self._accept_yielded()
            self._guard.begin_closing()
            self._closing = loop.create_task(self._close(deadline), name="close AsyncKafkaShareConsumer")
        await asyncio.shield(self._closing)

    async def _close(self, deadline: float) -> None:
        try:
            self._driver.interrupt(IllegalStateError(f"the {self._name} was closed"))
            await self._guard.until_free(deadline - self._now())
            with self._network.disable_wakeups():
                await self._driver.run(self._delegate.close(deadline), deadline)
        except KafkaTimeoutError as error:
            _log.warning("closing did not finish in time: %s", error)
        finally:
            self._release()

    async def __aenter__(self) -> Self:
        self._bind()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _bind(self) -> asyncio.AbstractEventLoop:
        loop = self._driver.bind()
        self._guard.bind(loop)
        return loop

    def _run(self, steps: Steps[T], deadline: float) -> Any:
        """Return a coroutine that runs a call."""
        return self._on_loop(steps, deadline)

    async def _on_loop(self, steps: Steps[T], deadline: float) -> T:
        self._bind()
        return await self._driver.run(steps, deadline)

    def _serve_soon(self) -> None:
        self._driver.serve_soon()

    def _disconnect(self) -> None:
        self._driver.close()

    def _abandon(self) -> None:
        self._driver.abandon()
