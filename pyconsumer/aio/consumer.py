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
import os
import re
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from pyconsumer import background_log
from pyconsumer.aio.driver import LONGEST_TURN_S, LoopDriver
from pyconsumer.aio.guard import TaskGuard
from pyconsumer.aio.interface import AsyncConsumer
from pyconsumer.clock import Clock, SystemClock, seconds_of
from pyconsumer.consumer.arguments import (
    as_partition,
    as_partitions,
    by_partition,
    check_max_records,
    check_subscription,
    is_partition,
    looks_like_seconds,
    point_out_milliseconds,
    split_topics,
)
from pyconsumer.consumer.config import CONSUMER_SETTINGS
from pyconsumer.consumer.delegate import ConsumerDelegate
from pyconsumer.consumer.interface import CommitCallback, ConsumerRebalanceListener, Metrics, StorableOffsets
from pyconsumer.consumer.iteration import PrefetchedIteration, PrefetchedRecords
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.errors import IllegalStateError, KafkaTimeoutError, WakeupError
from pyconsumer.generic import K, V, refuse_pickling
from pyconsumer.network.futures import RequestFuture, Steps
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    SubscriptionPattern,
    TopicPartition,
)

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow

    from pyconsumer.consumer.typed_settings import ConsumerSettings
    from pyconsumer.generic import Deserializer

__all__ = ["AsyncConsumerRebalanceListener", "AsyncKafkaConsumer"]

_log = logging.getLogger("pyconsumer.consumer")

T = TypeVar("T")

_NAME = "AsyncKafkaConsumer"
_CLOSE_TIMEOUT_MS = 30_000


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


class AsyncKafkaConsumer(AsyncConsumer[K, V]):
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

    _released = True  # there is nothing to release: not opened yet, or closed
    _seconds_pointed_out = False  # that a timeout looks like seconds

    def __init__(
        self,
        *topics: str | Mapping[str, object],
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        clock: Clock | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        names, options = split_topics(topics, settings)
        if key_deserializer is not None:
            options["key_deserializer"] = key_deserializer
        if value_deserializer is not None:
            options["value_deserializer"] = value_deserializer
        self._open(options, clock or SystemClock())
        if names:
            try:
                self.subscribe(names)
            except BaseException:
                self._release()
                raise

    @classmethod
    def from_file(cls, path: str | os.PathLike[str] | None = None, *topics: str, **overrides: Any) -> Self:
        """Return a consumer with settings from a properties file and from the environment.

        Arguments and errors are those of :meth:`pyconsumer.KafkaConsumer.from_file`.
        """
        from pyconsumer.settings.properties import from_file

        return cls(*topics, **from_file(CONSUMER_SETTINGS, path, overrides))

    def _open(self, options: Mapping[str, Any], clock: Clock) -> None:
        self._now = clock.now
        self._prefetched = PrefetchedRecords()
        delegate = self._delegate = ConsumerDelegate.open(options, clock, on_news=self._prefetched.stop)
        client = delegate.client
        self.config = delegate.config
        self._client = client
        self._subscriptions = delegate.subscriptions
        self._guard = TaskGuard(_NAME)
        self._iteration = PrefetchedIteration(self._prefetched, delegate, self._guard.call_on_enter)
        self._commit_on_close = self._iteration.commit_on_close()

        def check() -> None:
            client.raise_wakeup()
            client.raise_cluster_error()

        self._driver = LoopDriver(client, _NAME, check=check)
        self._commits = asyncio.Lock()
        self._closing: asyncio.Task[None] | None = None
        self._released = False

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
        from pyconsumer.consumer.arrow import MAX_BYTES, arrow_columns

        wanted = arrow_columns(columns, dictionary_topic)
        most = sys.maxsize if max_records is None else check_max_records(max_records)
        builder = wanted.builder()
        runs = await self._poll(timeout_ms, lambda: self._delegate.take_columns(builder, most, MAX_BYTES), "poll_arrow")
        try:
            return wanted.batch(builder, runs or ())
        except MemoryError:
            self._delegate.fetcher.buffer.roll_back()  # the records have not reached the application
            raise

    async def _poll(self, timeout_ms: float, take: Callable[[], T | None], name: str) -> T | None:
        guard, delegate, driver = self._guard, self._delegate, self._driver
        guard.begin(name, driver.bind())
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

    # -- subscription ------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics by name or by pattern; see :meth:`pyconsumer.KafkaConsumer.subscribe`.

        Args:
            topics: names of topics. The list must not be empty: await :meth:`unsubscribe` instead.
            pattern: a regular expression that must match the whole name of a topic, instead of ``topics``. The client
                evaluates it; the broker does, if it is a :class:`SubscriptionPattern`.
            listener: is notified when partitions are assigned, revoked or lost; its methods may be coroutines.

        Raises:
            IllegalStateError: partitions are assigned by hand, or this was called from a callback.
            TypeError, ValueError: the arguments are not topics, or not a pattern.
        """
        self._guard.enter()
        self._guard.refuse_in_exclusive("subscribe")
        check_subscription(topics, pattern, listener)
        if pattern is not None:
            self._delegate.subscribe_pattern(pattern, listener)
        else:
            self._run_without_waiting(self._delegate.subscribe(_not_empty(topics, "subscribe"), listener))
        self._driver.serve_soon()

    async def unsubscribe(self, timeout_ms: float | None = None) -> None:
        """Leave the group, or drop the partitions assigned by hand. The rebalance listener is notified first."""
        self._guard.begin("unsubscribe", self._driver.bind())
        try:
            deadline = self._deadline(timeout_ms)
            await self._run(self._delegate.unsubscribe(deadline), deadline)
        finally:
            self._guard.end()

    def subscription(self) -> set[str]:
        """Return the subscribed topics; empty if partitions are assigned by hand.

        For a pattern these are the topics that match; for a :class:`SubscriptionPattern`, the topics with partitions
        that are assigned to this consumer.
        """
        self._guard.enter()
        return self._subscriptions.subscription()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign partitions by hand, without a group. The list replaces the assignment.

        Args:
            partitions: the partitions. The list must not be empty: await :meth:`unsubscribe` instead.

        Raises:
            IllegalStateError: topics or a pattern are subscribed.
            TypeError, ValueError: the argument is not a list of partitions.
        """
        self._guard.enter()
        self._guard.refuse_in_exclusive("assign")
        if partitions is None:
            raise TypeError("partitions must be a list of TopicPartition, not None")
        self._run_without_waiting(self._delegate.assign(_not_empty(as_partitions(partitions), "assign")))
        self._driver.serve_soon()

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are assigned now, by hand or by the group."""
        self._guard.enter()
        return self._subscriptions.assignment()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Make the group rebalance at the next poll, after a change that only the application can see (KIP-568)."""
        self._guard.enter()
        self._delegate.require_group().enforce_rebalance(reason)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this member's identity in the group, for a producer's ``send_offsets_to_transaction`` (KIP-447)."""
        self._guard.enter()
        return self._delegate.group_metadata()

    # -- positions ---------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue from an offset at the next poll; see :meth:`pyconsumer.KafkaConsumer.seek`."""
        self._guard.enter()
        self._delegate.seek(as_partition(partition), offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue from the start of the log; without arguments, in all assigned partitions."""
        self._guard.enter()
        self._delegate.seek_to([as_partition(tp) for tp in partitions], end=False)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue from the end of the log (with ``read_committed``: from its last stable offset)."""
        self._guard.enter()
        self._delegate.seek_to([as_partition(tp) for tp in partitions], end=True)

    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record of an assigned partition; wait until there is a position."""
        self._enter()
        tp = as_partition(partition)
        self._subscriptions.state(tp)
        deadline = self._deadline(timeout_ms)
        return await self._run(self._delegate.position(tp, deadline), deadline)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until :meth:`resume`; they stay assigned, and buffered records stay."""
        self._guard.enter()
        for tp in partitions:
            self._subscriptions.pause(as_partition(tp))

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again, see :meth:`pause`."""
        self._guard.enter()
        for tp in partitions:
            self._subscriptions.resume(as_partition(tp))

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        self._guard.enter()
        return self._subscriptions.paused()

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return the number of offsets from the position to the end at the last fetch; None if unknown (KIP-695)."""
        self._guard.enter()
        lag = self._delegate.current_lag(as_partition(partition))
        self._driver.serve_soon()
        return lag

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the last stable offset of an assigned partition as of its last fetch, None if unknown."""
        self._guard.enter()
        found = self._subscriptions.state(as_partition(partition)).last_stable_offset
        return None if found < 0 else found

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of an assigned partition as of its last fetch, None if unknown."""
        self._guard.enter()
        found = self._subscriptions.state(as_partition(partition)).high_watermark
        return None if found < 0 else found

    # -- commits -----------------------------------------------------------------------------------------------------

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None, timeout_ms: float | None = None
    ) -> None:
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
            await self._run(self._delegate.commit(checked, deadline), deadline)
        finally:
            self._commits.release()

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
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

    def store_offsets(self, offsets: StorableOffsets) -> None:
        """Store offsets of finished records, for the next commit; see :meth:`pyconsumer.KafkaConsumer.store_offsets`.

        Args:
            offsets: one or more finished records, which include all records before them, or the *next* offset to read
                of each partition.

        Raises:
            IllegalStateError: ``enable_auto_offset_store`` is True, or a partition is not assigned: nothing is stored.
        """
        self._guard.enter()
        self._delegate.store_offsets(offsets)

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
        found = await self._run(self._delegate.committed(wanted, deadline), deadline)
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
        return await self._run(self._delegate.offsets_for_times(wanted, deadline), deadline)

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
        return await self._run(self._delegate.end_or_beginning(wanted, deadline, end=end), deadline)

    async def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        """Return the numbers of a topic's partitions, None if there is no such topic."""
        self._enter()
        deadline = self._deadline(timeout_ms)
        return await self._run(self._delegate.partitions_for(topic, deadline), deadline)

    def known_partitions(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions according to the metadata at hand; empty if there is none."""
        self._guard.enter()
        return {found.partition for found in self._delegate.metadata.partitions_for(topic) or ()}

    async def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the names of all visible topics; internal ones only with ``exclude_internal_topics=False``."""
        self._enter()
        deadline = self._deadline(timeout_ms)
        return await self._run(self._delegate.topics(deadline), deadline)

    # -- the rest ----------------------------------------------------------------------------------------------------

    def metrics(self, raw: bool = False) -> Metrics:
        """Return counters by group and name, with the names of Kafka's metrics; times in ms.

        Args:
            raw: accepted for compatibility with kafka-python; there is only one form.
        """
        self._guard.enter()
        return self._delegate.metrics_snapshot()

    def wakeup(self) -> None:
        """Make the current waiting call, or the next one, raise ``WakeupError``. Any thread may call this."""
        self._client.wakeup()
        self._prefetched.stop()

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
            deadline = self._deadline(_CLOSE_TIMEOUT_MS if timeout_ms is None else timeout_ms)
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
            self._driver.interrupt(IllegalStateError(f"the {_NAME} was closed"))
            await self._guard.until_free(deadline - self._now())
            with self._client.disable_wakeups():
                steps = self._delegate.close(deadline, leave_group=leave_group, commit=commit)
                await self._driver.run(steps, deadline)
        except KafkaTimeoutError as error:
            _log.warning("closing did not finish in time: %s", error)
        finally:
            self._release()

    def _release(self) -> None:
        """Release threads and sockets; a second call is harmless."""
        self._guard.close()
        self._delegate.abandon("the consumer was closed")
        self._driver.close()
        self._delegate.fetcher.buffer.close()
        self._delegate.interceptors.close()
        self._released = True

    def __del__(self, _warn: Callable[..., None] = background_log.warn) -> None:
        # The garbage collector may run this in any thread, whatever lock that holds: it must not wait or take a lock.
        if self._released or self._guard.forked:
            return
        self._released = True
        self._delegate.abandon("the consumer was dropped without close()")
        self._driver.abandon()
        _warn(f"unclosed {self!r}: await close(), or use it in async with", ResourceWarning, source=self)

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

    async def _run(self, steps: Steps[T], deadline: float) -> T:
        """Run a call that returns no records."""
        try:
            return await self._driver.run(steps, deadline)
        except WakeupError:
            self._commit_on_close.note_wakeup()
            raise

    def _run_without_waiting(self, steps: Steps[None]) -> None:
        """Run a generator that must not wait."""
        for _ in steps:
            raise IllegalStateError("this call would have to wait")

    def _deadline(self, timeout_ms: float | None) -> float:
        if timeout_ms is None:
            timeout_ms = self.config.default_api_timeout_ms
        return self._now() + seconds_of(timeout_ms)

    __reduce__ = refuse_pickling

    def __repr__(self) -> str:
        group = f" group_id={self.config.group_id!r}" if self.config.group_id else ""
        state = "closed" if self._guard.closed else self._subscriptions.type.name
        if not self._guard.closed and (missing := self._delegate.missing_topics()):
            state += f" missing_topics={missing}"
        return f"<{_NAME}{group} client_id={self.config.client_id!r} {state}>"


def _not_empty(items: Any, call: str) -> Any:
    """Return the items; refuse an empty list, which would mean to unsubscribe, and that is a coroutine."""
    if isinstance(items, str) or not isinstance(items, Iterable):
        return items  # which another check refuses
    found = list(items)
    if not found:
        raise ValueError(f"{call} was called with an empty list; to drop the subscription, await unsubscribe()")
    return found


def _settle(outcome: asyncio.Future[None], request: RequestFuture[Any]) -> None:
    """Set the result of a request as that of a future, unless the future is done or its loop is closed."""
    if outcome.done() or outcome.get_loop().is_closed():
        return
    if request.exception is None:
        outcome.set_result(None)
    else:
        outcome.set_exception(request.exception)
        outcome.exception()  # retrieved, so that asyncio does not warn: the callback, or the log, has the error
