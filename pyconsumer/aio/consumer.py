"""``AsyncKafkaConsumer``: the consumer for asyncio, with the names, settings and results of ``KafkaConsumer``.

Calls that may wait are coroutines, the others are plain methods. The generators and cores are those of the blocking
consumer; :class:`~pyconsumer.aio.driver.LoopDriver` runs them on the event loop. Heartbeats are sent by the same
thread, so a loop that is busy for seconds loses no membership.

State: the delegate's, and the task that closes the consumer. Only the thread of the loop touches it, but for
:meth:`AsyncKafkaConsumer.wakeup`; :class:`~pyconsumer.aio.guard.TaskGuard` refuses other calls.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from pyconsumer.aio.driver import LONGEST_TURN_S, LoopDriver
from pyconsumer.aio.guard import TaskGuard
from pyconsumer.aio.interface import AsyncConsumer
from pyconsumer.consumer.arguments import (
    as_partition,
    as_partitions,
    by_partition,
    check_max_records,
    is_partition,
    looks_like_seconds,
    point_out_milliseconds,
)
from pyconsumer.consumer.calls import DEFAULT_CLOSE_TIMEOUT_MS, ConsumerCalls
from pyconsumer.consumer.interface import CommitCallback, ConsumerRebalanceListener, Offsets
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.errors import IllegalStateError, KafkaTimeoutError, WakeupError
from pyconsumer.generic import K, V
from pyconsumer.network.futures import RequestFuture, Steps
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    import pyarrow

    from pyconsumer.clock import Clock

__all__ = ["AsyncConsumerRebalanceListener", "AsyncKafkaConsumer"]

_log = logging.getLogger("pyconsumer.consumer")

T = TypeVar("T")


class AsyncConsumerRebalanceListener(ConsumerRebalanceListener):
    """A rebalance listener whose methods are coroutines, which ``poll`` awaits.

    They may await calls such as ``commit``, ``committed`` and ``position``; ``poll`` and calls that change the
    subscription raise ``IllegalStateError``. A plain :class:`pyconsumer.ConsumerRebalanceListener` works as well.
    """

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition], /) -> None:  # type: ignore[override]
        """Commit processed records, as in :meth:`pyconsumer.ConsumerRebalanceListener.on_partitions_revoked`."""

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition], /) -> None:  # type: ignore[override]
        """Prepare for new partitions, as in :meth:`pyconsumer.ConsumerRebalanceListener.on_partitions_assigned`."""

    async def on_partitions_lost(self, lost: Collection[TopicPartition], /) -> None:  # type: ignore[override]
        """Discard the state of lost partitions; by default it awaits :meth:`on_partitions_revoked`."""
        await self.on_partitions_revoked(lost)


class AsyncKafkaConsumer(ConsumerCalls[K, V], AsyncConsumer[K, V]):
    """Reads records from Kafka on an event loop (asyncio or uvloop).

    Args:
        topics: names of topics to subscribe to. A mapping among them is read as settings, which allows Kafka's dotted
            names.
        clock: the clock, for tests: a :class:`pyconsumer.testing.RunningClock` can be moved ahead. By default that of
            the machine.
        settings: see :data:`pyconsumer.consumer.config.CONSUMER_SETTINGS`. For type checkers ``key_deserializer`` and
            ``value_deserializer`` decide the types of keys and values; without them both are ``bytes``.

    Raises:
        ConfigurationError: a setting is unknown, has a wrong value, or contradicts another one.

    The consumer belongs to the loop of its first awaited call. Use it in ``async with``, or await :meth:`close`. One
    task at a time may poll; all tasks of the loop may commit, seek, pause, and read positions and metrics, and all
    threads may call :meth:`wakeup`. A cancelled call has no effect on positions: its records stay buffered. If a commit
    is cancelled, its request stays in flight.

    Names, settings and errors are those of :class:`pyconsumer.KafkaConsumer`, which documents each call in full.
    """

    _name = "AsyncKafkaConsumer"
    _how_to_close = "await close(), or use it in async with"
    _guard: TaskGuard

    def _open(self, options: Mapping[str, Any], clock: Clock) -> None:
        super()._open(options, clock)
        client = self._client

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
        """Return records that have arrived, or wait for some, and move the positions past them.

        Args:
            timeout_ms: longest time to wait if no record has arrived; 0 returns at once.
            max_records: the most records to return; by default ``max_poll_records``.

        Returns:
            The records by partition, each partition's in the order of offsets; empty if none arrived in time.

        Raises:
            ConcurrentAccessError: another task is in ``poll``, or iterates over the consumer.
            KafkaError: as :meth:`pyconsumer.KafkaConsumer.poll`.
        """
        most = self.config.max_poll_records if max_records is None else check_max_records(max_records)
        found: ConsumerRecords[K, V] | None
        found = await self._poll(timeout_ms, partial(self._delegate.take_records, most), "poll")
        return ConsumerRecords() if found is None else found

    async def poll_arrow(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        columns: Iterable[str] | None = None,
        *,
        dictionary_topic: bool = False,
    ) -> pyarrow.RecordBatch:
        """Return records as columns; see :meth:`pyconsumer.KafkaConsumer.poll_arrow`."""
        from pyconsumer.consumer.arrow import ArrowPoll

        arrow = ArrowPoll(self._delegate, max_records, columns, dictionary_topic=dictionary_topic)
        return arrow.batch(await self._poll(timeout_ms, arrow.take, "poll_arrow"))

    async def _poll(self, timeout_ms: float, take: Callable[[], T | None], name: str) -> T | None:
        guard, delegate, driver = self._guard, self._delegate, self._driver
        driver.bind()
        guard.begin(name)
        try:
            delegate.note_delivered()
            if self._client.wakeup_waits:
                self._client.raise_wakeup()
            now = self._now()
            if now - driver.turn_began > LONGEST_TURN_S:
                await driver.let_others_run()
                now = self._now()
            delegate.metrics.on_poll_start(now)
            found = delegate.buffered(now, take)
            if found is not None:
                return found
            deadline = self._deadline(timeout_ms)
            if looks_like_seconds(timeout_ms) and not self._seconds_pointed_out:
                self._seconds_pointed_out = True
                point_out_milliseconds(name, timeout_ms)
            return await driver.run(delegate.fetched(deadline, take), deadline, interruptible=True)
        except (KeyboardInterrupt, SystemExit) as error:
            delegate.on_interrupt(error)
            raise
        finally:
            guard.end()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        """Return the next record and move the position past it: a commit in the loop covers it, but no later record.

        The loop ends when no record has arrived for ``consumer_timeout_ms``, and when another task closes the consumer.
        """
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
            record = await self._poll(wait, self._delegate.take_one, "iteration")
        except IllegalStateError:
            if self._guard.closing:
                raise StopAsyncIteration from None
            raise
        if record is None:
            raise StopAsyncIteration
        self._iteration.start()
        return record

    # -- subscription and positions ----------------------------------------------------------------------------------

    async def unsubscribe(self, timeout_ms: float | None = None) -> None:
        """Leave the group, or drop the partitions assigned by hand. The rebalance listener is notified first."""
        self._driver.bind()
        self._guard.begin("unsubscribe")
        try:
            deadline = self._deadline(timeout_ms)
            await self._on_loop(self._delegate.unsubscribe(deadline), deadline)
        finally:
            self._guard.end()

    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record of an assigned partition; wait until there is a position."""
        self._enter()
        tp = as_partition(partition)
        self._subscriptions.state(tp)
        deadline = self._deadline(timeout_ms)
        return await self._on_loop(self._delegate.position(tp, deadline), deadline)

    # -- commits -----------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commit offsets, by default all positions, and wait for the broker's response.

        Commits of several tasks are sent one after the other, in the order of the calls. If a call is cancelled, its
        request stays in flight, and it is unknown whether the offsets are committed.

        Args:
            offsets: the *next* offset to read of each partition, as a number or with metadata and leader epoch.
            timeout_ms: longest time to wait; by default ``default_api_timeout_ms``.

        Raises:
            KafkaError: as :meth:`pyconsumer.KafkaConsumer.commit`.
        """
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
        """Commit offsets without waiting.

        Args:
            offsets: as in :meth:`commit`.
            callback: ``callback(offsets, error or None)``, which may be a coroutine function; a later call of this
                consumer runs it.

        Returns:
            An awaitable, which raises the error of the commit, if any. It need not be awaited.
        """
        self._enter()
        request = self._delegate.commit_async(offsets, callback)
        self._driver.serve_soon()
        outcome: asyncio.Future[None] = self._driver.bind().create_future()
        request.add_callback(lambda done: _settle(outcome, done))
        return outcome

    @overload
    async def committed(
        self, partition: TopicPartition, metadata: Literal[False] = False, timeout_ms: float | None = None
    ) -> int | None: ...

    @overload
    async def committed(
        self, partition: TopicPartition, metadata: Literal[True], timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None: ...

    @overload
    async def committed(
        self, partition: Iterable[TopicPartition], metadata: Literal[False] = False, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int | None]: ...

    @overload
    async def committed(
        self, partition: Iterable[TopicPartition], metadata: Literal[True], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]: ...

    async def committed(
        self,
        partition: TopicPartition | Iterable[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> Any:
        """Return the offsets that the group has committed; see :meth:`pyconsumer.KafkaConsumer.committed`."""
        self._enter()
        single = is_partition(partition)
        wanted = as_partitions([partition] if single else partition)
        deadline = self._deadline(timeout_ms)
        found = await self._on_loop(self._delegate.committed(wanted, deadline), deadline)
        shown = {tp: o if o is None or metadata else o.offset for tp, o in found.items()}
        return shown[wanted[0]] if single else shown

    # -- the log -----------------------------------------------------------------------------------------------------

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offset of each partition whose timestamp is at or after a time (ms); None if there is none.

        Args:
            timestamps: times in ms since the epoch, by partition.

        Raises:
            KafkaError: as :meth:`pyconsumer.KafkaConsumer.offsets_for_times`.
        """
        self._enter()
        deadline = self._deadline(timeout_ms)
        wanted = by_partition(timestamps, "time in ms")
        return await self._on_loop(self._delegate.offsets_for_times(wanted, deadline), deadline)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each log. Raises as :meth:`offsets_for_times`."""
        return await self._ends(partitions, timeout_ms, end=False)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last readable record: the high watermark, or the last stable offset."""
        return await self._ends(partitions, timeout_ms, end=True)

    async def _ends(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None, *, end: bool
    ) -> dict[TopicPartition, int]:
        self._enter()
        deadline = self._deadline(timeout_ms)
        wanted = as_partitions(partitions)
        return await self._on_loop(self._delegate.end_or_beginning(wanted, deadline, end=end), deadline)

    async def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        """Return the numbers of a topic's partitions, None if there is no such topic."""
        self._enter()
        deadline = self._deadline(timeout_ms)
        return await self._on_loop(self._delegate.partitions_for(topic, deadline), deadline)

    async def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the names of all visible topics; internal ones only with ``exclude_internal_topics=False``."""
        self._enter()
        deadline = self._deadline(timeout_ms)
        return await self._on_loop(self._delegate.topics(deadline), deadline)

    # -- the rest ----------------------------------------------------------------------------------------------------

    async def close(self, timeout_ms: float | None = None, leave_group: bool | None = None) -> None:
        """Commit if commits are automatic, notify the rebalance listener, leave the group, close all connections.

        What the commit covers, and when it is left out, is said in :meth:`pyconsumer.KafkaConsumer.close`. If another
        task is processing records, or was cancelled, the commit ends before the records that it got last.

        A ``poll`` of another task raises ``IllegalStateError``, and its ``async for`` ends. If the task is cancelled,
        closing continues; another call waits until it is done, and later calls do nothing.

        Args:
            timeout_ms: longest time for all of this, by default 30 s. When it has passed, connections are closed at
                once.
            leave_group: True leaves the group, False stays in it; None leaves unless ``group_instance_id`` is set
                (KIP-1092).

        Raises:
            KafkaError: the commit or the listener failed; the consumer is closed nevertheless.
        """
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
            with self._client.disable_wakeups():
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
        try:
            return await self._driver.run(steps, deadline)
        except WakeupError:
            self._commit_on_close.note_wakeup()
            raise

    def _run_at_once(self, steps: Steps[None]) -> None:
        for _ in steps:
            raise IllegalStateError("this call would have to wait")

    def _checked_list(self, items: Any, call: str) -> Any:
        """Return the items. An empty list would mean to unsubscribe, which waits, so it is refused."""
        if isinstance(items, str) or not isinstance(items, Iterable):
            return items  # which another check refuses
        found = list(items)
        if not found:
            raise ValueError(f"{call} was called with an empty list; to drop the subscription, await unsubscribe()")
        return found

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
