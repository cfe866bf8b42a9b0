"""``AsyncKafkaConsumer``: the consumer for asyncio, with the names, settings and results of ``KafkaConsumer``.

Calls that may wait are coroutines. :func:`~pyconsumer.aio.awaited.with_awaited` makes them of the blocking consumer's
calls, but for those here, which behave in another way when several tasks use the consumer or one is cancelled. The
generators and cores are those of the blocking consumer. :class:`~pyconsumer.aio.driver.LoopDriver` runs them on the
event loop. Heartbeats are sent by the same thread, so a loop that is busy for seconds loses no membership.

State: the delegate's, and the task that closes the consumer. Only the thread of the loop touches it, but for
`AsyncKafkaConsumer.wakeup`. :class:`~pyconsumer.aio.guard.TaskGuard` refuses other calls.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pyconsumer.aio.awaited import with_awaited
from pyconsumer.aio.driver import LONGEST_TURN_S, LoopDriver
from pyconsumer.aio.guard import TaskGuard
from pyconsumer.aio.interface import AsyncConsumer
from pyconsumer.consumer.arguments import check_max_records, looks_like_seconds, not_empty, point_out_milliseconds
from pyconsumer.consumer.calls import DEFAULT_CLOSE_TIMEOUT_MS, ConsumerCalls
from pyconsumer.consumer.consumer import KafkaConsumer
from pyconsumer.consumer.interface import CommitCallback, ConsumerRebalanceListener, Offsets
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.errors import IllegalStateError, KafkaError, KafkaTimeoutError, WakeupError
from pyconsumer.generic import K, V
from pyconsumer.network.futures import RequestFuture, Steps
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    import pyarrow

    from pyconsumer.clock import Clock

__all__ = ["AsyncConsumerRebalanceListener", "AsyncKafkaConsumer"]

_log = logging.getLogger("pyconsumer.consumer")

T = TypeVar("T")


class AsyncConsumerRebalanceListener(ConsumerRebalanceListener):
    """A rebalance listener whose methods are coroutines. ``poll`` awaits them.

    The methods may await calls such as ``commit``, ``committed`` and ``position``. If they call ``poll`` or change the
    subscription, that raises ``IllegalStateError``. A plain :class:`pyconsumer.ConsumerRebalanceListener` works as
    well.
    """

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition], /) -> None:  # type: ignore[override]
        """Commit processed records. See :meth:`pyconsumer.ConsumerRebalanceListener.on_partitions_revoked`."""

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition], /) -> None:  # type: ignore[override]
        """Prepare for new partitions. See :meth:`pyconsumer.ConsumerRebalanceListener.on_partitions_assigned`."""

    async def on_partitions_lost(self, lost: Collection[TopicPartition], /) -> None:  # type: ignore[override]
        """Discard the state of lost partitions. By default this awaits :meth:`on_partitions_revoked`."""
        await self.on_partitions_revoked(lost)


@with_awaited(AsyncConsumer, KafkaConsumer)
class AsyncKafkaConsumer(ConsumerCalls[K, V], AsyncConsumer[K, V]):
    """Reads records from Kafka on an event loop (asyncio or uvloop).

    Args:
        topics: names of topics to subscribe to. A mapping in this place is read as settings, with Kafka's dotted names
            if you like.
        clock: the source of time. Tests can pass a :class:`pyconsumer.testing.RunningClock` and move it ahead. By
            default it is the machine's clock.
        settings: see :data:`pyconsumer.consumer.config.CONSUMER_SETTINGS`. Type checkers derive the types of keys and
            values from ``key_deserializer`` and ``value_deserializer``. Without deserializers, keys and values are
            ``bytes``.

    Raises:
        ConfigurationError: a setting is unknown, has a wrong value, or contradicts another one.

    The consumer belongs to the loop of its first awaited call. Use it in ``async with``, or await :meth:`close`. Only
    one task at a time may poll. All tasks of the loop may commit, seek, pause, and read positions and metrics. Any
    thread may call :meth:`wakeup`. If a call for records is cancelled, the positions do not move, and the records stay
    buffered. If a commit is cancelled, its request stays in flight.

    Names, settings and errors are those of :class:`pyconsumer.KafkaConsumer`, which documents each call in full.
    """

    _name = "AsyncKafkaConsumer"
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
        self._commits = asyncio.Lock()
        self._closing: asyncio.Task[None] | None = None

    def _make_guard(self) -> TaskGuard:
        return TaskGuard(self._name)

    # -- records -----------------------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        most = self.config.max_poll_records if max_records is None else check_max_records(max_records)
        found: ConsumerRecords[K, V] | None
        found = await self._poll(timeout_ms, self._delegate.take_records, most, "poll")
        return ConsumerRecords() if found is None else found

    async def poll_arrow(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        columns: Iterable[str] | None = None,
        *,
        dictionary_topic: bool = False,
        key: Any = None,
        value: Any = None,
    ) -> pyarrow.RecordBatch:
        from pyconsumer.consumer.arrow import ArrowPoll

        arrow = ArrowPoll(self._delegate, max_records, columns, dictionary_topic=dictionary_topic, key=key, value=value)
        if arrow.is_unsettled:
            self._driver.bind()
            self._guard.begin("poll_arrow")
            try:
                deadline = self._deadline(timeout_ms)
                await self._on_loop(arrow.settle(deadline), deadline + self._delegate.grace_s)
            finally:
                self._guard.end()
        return arrow.batch(await self._poll(timeout_ms, arrow.take, arrow.max_records, "poll_arrow"))

    async def _poll(self, timeout_ms: float, drain: Callable[[int], T | None], most: int, name: str) -> T | None:
        guard, delegate, driver = self._guard, self._delegate, self._driver
        driver.bind()
        guard.begin(name)
        try:
            delegate.note_delivered()
            if self._network.wakeup_waits:
                self._network.raise_wakeup()
            now = self._now()
            delegate.metrics.on_poll_start(now)  # before others run: one may cancel this task
            if now - driver.turn_began > LONGEST_TURN_S:
                await driver.let_others_run()
                now = self._now()
            found = delegate.buffered(now, drain, most)
            if found is not None:
                return found
            deadline = self._deadline(timeout_ms)
            if looks_like_seconds(timeout_ms) and not self._seconds_pointed_out:
                self._seconds_pointed_out = True
                point_out_milliseconds(name, timeout_ms)
            steps = delegate.fetched(deadline, drain, most)
            self._activity.enter()
            try:
                return await driver.run(steps, deadline + delegate.grace_s, interruptible=True)
            finally:
                self._activity.leave()
        except BaseException as error:
            self._note_failure(error)
            raise
        finally:
            guard.end()

    def _note_failure(self, error: BaseException) -> None:
        """Let health and observation know of the error that ends a read."""
        self._activity.raised(error)
        if isinstance(error, KafkaError):
            self._delegate.observation.failed(error)
        elif isinstance(error, (KeyboardInterrupt, SystemExit)):
            self._delegate.on_interrupt(error)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        prefetched = self._prefetched
        records = prefetched.records
        if records and self._now() < prefetched.until:
            return records.pop()
        if self._guard.closing:
            raise StopAsyncIteration
        timeout = self.config.consumer_timeout_ms
        wait = math.inf if timeout is None or timeout < 0 else timeout
        self._iteration.commit_taken()
        try:
            record = await self._poll(wait, self._delegate.take_one, self._delegate.most_ahead, "iteration")
        except IllegalStateError:
            if self._guard.closing:
                raise StopAsyncIteration from None
            raise
        if record is None:
            raise StopAsyncIteration
        self._iteration.start()
        return record

    # -- subscription and commits ------------------------------------------------------------------------------------

    async def unsubscribe(self, timeout_ms: float | None = None) -> None:
        self._driver.bind()
        self._guard.begin("unsubscribe")
        try:
            deadline = self._deadline(timeout_ms)
            await self._on_loop(self._delegate.unsubscribe(deadline), deadline)
        finally:
            self._guard.end()

    async def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        self._enter()
        deadline = self._deadline(timeout_ms)
        self._delegate.require_group()
        checked = self._delegate.offsets_to_commit(offsets)  # as of now, not as of when earlier commits are done
        try:
            async with asyncio.timeout(max(0.0, deadline - self._now())):
                await self._commits.acquire()
        except TimeoutError:
            raise KafkaTimeoutError("timed out while waiting for commits of other tasks to finish") from None
        try:
            await self._on_loop(self._delegate.commit(checked, deadline), deadline)
        finally:
            self._commits.release()

    def commit_async(
        self,
        offsets: Offsets | None = None,
        callback: CommitCallback | None = None,
    ) -> Awaitable[None]:
        self._enter()
        request = self._delegate.commit_async(offsets, callback)
        self._driver.serve_soon()
        outcome: asyncio.Future[None] = self._driver.bind().create_future()
        request.add_callback(lambda done: _settle(outcome, done))
        return outcome

    # -- the rest ----------------------------------------------------------------------------------------------------

    async def close(self, timeout_ms: float | None = None, leave_group: bool | None = None) -> None:
        if self._closing is None:
            if self._released or self._guard.forked:
                return
            if self._guard.in_callback():
                raise IllegalStateError("close must not be called from a callback")
            if self._driver.loop_is_closed:  # this cannot wait for anything; the heartbeat thread leaves the group
                self._release()
                return
            deadline = self._deadline(DEFAULT_CLOSE_TIMEOUT_MS if timeout_ms is None else timeout_ms)
            loop = self._bind()
            self._guard.enter()
            commit = self._commit_on_close.decide(busy=self._guard.has_busy_caller())
            self._guard.begin_closing()
            self._prefetched.stop()
            self._closing = loop.create_task(
                self._close(deadline, leave_group, commit=commit), name="close AsyncKafkaConsumer"
            )
        await asyncio.shield(self._closing)

    async def _close(self, deadline: float, leave_group: bool | None, *, commit: bool) -> None:
        try:
            self._driver.interrupt(IllegalStateError(f"the {self._name} was closed"))
            await self._guard.until_free(deadline - self._now())
            with self._network.disable_wakeups():
                steps = self._delegate.close(deadline, leave_group=leave_group, commit=commit)
                await self._driver.run(steps, deadline)
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
        self._commit_on_close.leave(error)
        await self.close()

    def _bind(self) -> asyncio.AbstractEventLoop:
        loop = self._driver.bind()
        self._guard.bind(loop)
        return loop

    def _enter(self) -> None:
        """Begin a call that is allowed to all tasks."""
        self._guard.enter()
        self._bind()

    def _run(self, steps: Steps[T], deadline: float) -> Any:
        """Return a coroutine that runs a call that returns no records."""
        return self._on_loop(steps, deadline)

    async def _on_loop(self, steps: Steps[T], deadline: float) -> T:
        self._bind()
        self._activity.enter()
        try:
            return await self._driver.run(steps, deadline)
        except BaseException as error:
            self._activity.raised(error)
            if isinstance(error, WakeupError):
                self._commit_on_close.note_wakeup()
            raise
        finally:
            self._activity.leave()

    def _run_at_once(self, steps: Steps[None]) -> None:
        for _ in steps:
            raise IllegalStateError("this call would have to wait")

    def _checked_list(self, items: Any, call: str) -> Any:
        return not_empty(items, call)

    def _serve_soon(self) -> None:
        self._driver.serve_soon()

    def _disconnect(self) -> None:
        self._driver.close()

    def _abandon(self) -> None:
        self._driver.abandon()


def _settle(outcome: asyncio.Future[None], request: RequestFuture[Any]) -> None:
    """Set the result of a request as that of a future, unless the future is done or its loop is closed."""
    if outcome.done() or outcome.get_loop().is_closed():
        return
    if request.exception is None:
        outcome.set_result(None)
    else:
        outcome.set_exception(request.exception)
        outcome.exception()  # retrieved, so that asyncio does not warn: the callback, or the log, has the error
