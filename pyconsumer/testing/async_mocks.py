"""``AsyncMockConsumer`` and ``AsyncMockProducer``: the mocks for programs on an event loop.

Each wraps a blocking mock, its attribute ``mock``, which has all the state: there the test takes the part of the
cluster, and the program awaits the calls here. The test awaits calls that may run callbacks of the program:
``await consumer.rebalance([...])``. A call yields to the loop once, and never waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Never, Self, TypeVar, overload

from pyconsumer.aio.interface import AsyncConsumer, AsyncProducer
from pyconsumer.consumer.interface import CommitCallback, ConsumerRebalanceListener, Metrics, StorableOffsets
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.errors import KafkaError
from pyconsumer.generic import Header, K, SentK, SentV, V
from pyconsumer.producer.future_records import FutureRecords
from pyconsumer.producer.implementation import FutureRecordMetadata
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RecordMetadata,
    SubscriptionPattern,
    TopicPartition,
)
from pyconsumer.testing.mock_consumer import MockConsumer, MockSteps
from pyconsumer.testing.mock_producer import MockProducer

if TYPE_CHECKING:
    import pyarrow

__all__ = ["AsyncMockConsumer", "AsyncMockProducer"]

T = TypeVar("T")

_Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


async def _run(steps: MockSteps[T]) -> T:
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


class AsyncMockConsumer(AsyncConsumer[K, V]):
    """A :class:`MockConsumer` for programs that take a :class:`pyconsumer.aio.AsyncConsumer`.

    Args:
        auto_offset_reset, options: as for :class:`MockConsumer`.
        mock: the wrapped consumer; by default a new one.
    """

    def __init__(
        self, auto_offset_reset: str = "latest", *, mock: MockConsumer[K, V] | None = None, **options: Any
    ) -> None:
        self.mock: MockConsumer[K, V] = MockConsumer(auto_offset_reset, **options) if mock is None else mock

    # -- called by the test ------------------------------------------------------------------------------------------

    async def rebalance(self, partitions: Iterable[TopicPartition]) -> None:
        """Let the group assign partitions, as :meth:`MockConsumer.rebalance`; the listener is awaited."""
        await _run(self.mock.rebalance_steps(partitions))

    async def lose(self) -> None:
        """Let the group continue without this member, as :meth:`MockConsumer.lose`; the listener is awaited."""
        await _run(self.mock.lose_steps())

    @property
    def closed(self) -> bool:
        """Return whether it was closed."""
        return self.mock.closed

    # -- called by the program ---------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        """Return records that the test has added, from the positions on, and move the positions past them."""
        return await _run(self.mock.poll_steps(timeout_ms, max_records))

    async def poll_arrow(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        columns: Iterable[str] | None = None,
        *,
        dictionary_topic: bool = False,
    ) -> pyarrow.RecordBatch:
        """Return records as columns; see :meth:`pyconsumer.KafkaConsumer.poll_arrow`."""
        await asyncio.sleep(0)
        return self.mock.poll_arrow(timeout_ms, max_records, columns, dictionary_topic=dictionary_topic)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        """Return the next record; the loop ends when no record is left."""
        for record in (await self.poll(max_records=1)).records():
            return record
        raise StopAsyncIteration

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics; the test assigns partitions."""
        if pattern is None and not isinstance(topics, str) and topics is not None and not list(topics):
            raise ValueError("subscribe was called with an empty list; to drop the subscription, await unsubscribe()")
        self.mock.subscribe(topics, pattern, listener)

    async def unsubscribe(self, timeout_ms: float | None = None) -> None:
        """Drop the subscription and the assignment; the listener is notified."""
        await _run(self.mock.unsubscribe_steps())

    def subscription(self) -> set[str]:
        """Return the subscribed topics."""
        return self.mock.subscription()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign partitions by hand."""
        self.mock.assign(partitions)

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions."""
        return self.mock.assignment()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Note the reason in ``mock.rebalances_asked``."""
        self.mock.enforce_rebalance(reason)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this member's identity in the group."""
        return self.mock.group_metadata()

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue from an offset."""
        self.mock.seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue from the start of the log."""
        self.mock.seek_to_beginning(*partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue from the end of the log."""
        self.mock.seek_to_end(*partitions)

    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record."""
        await asyncio.sleep(0)
        return self.mock.position(partition)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions for now."""
        self.mock.pause(*partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        self.mock.resume(*partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return self.mock.paused()

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return the number of offsets from the position to the end, None if unknown."""
        return self.mock.current_lag(partition)

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the end of an assigned partition's log, None if the test has not set it."""
        return self.mock.highwater(partition)

    async def commit(self, offsets: _Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commit offsets, by default all positions."""
        await asyncio.sleep(0)
        self.mock.commit(offsets)

    def commit_async(self, offsets: _Offsets | None = None, callback: CommitCallback | None = None) -> Awaitable[None]:
        """Commit offsets; if the callback is a coroutine function, the next poll awaits its coroutine."""
        done = self.mock.commit_async(offsets, callback)
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if done.exception is None:
            outcome.set_result(None)
        else:
            outcome.set_exception(done.exception)
            outcome.exception()  # it need not be awaited
        return outcome

    def store_offsets(self, offsets: StorableOffsets) -> None:
        """Store offsets of finished records, for the next commit."""
        self.mock.store_offsets(offsets)

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

    async def committed(self, partition: Any, metadata: Any = False, timeout_ms: float | None = None) -> Any:
        """Return the committed offset of one partition, or of several."""
        await asyncio.sleep(0)
        return self.mock.committed(partition, metadata)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offset at or after a time."""
        await asyncio.sleep(0)
        return self.mock.offsets_for_times(timestamps)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each log."""
        await asyncio.sleep(0)
        return self.mock.beginning_offsets(partitions)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last record."""
        await asyncio.sleep(0)
        return self.mock.end_offsets(partitions)

    async def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        """Return the numbers of a topic's partitions, None if there is no such topic."""
        await asyncio.sleep(0)
        return self.mock.partitions_for_topic(topic)

    async def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the names of all topics."""
        await asyncio.sleep(0)
        return self.mock.topics()

    def metrics(self, raw: bool = False) -> Metrics:
        """Return no counters."""
        return self.mock.metrics(raw)

    def wakeup(self) -> None:
        """Make the next poll or commit raise ``WakeupError``."""
        self.mock.wakeup()

    async def close(self, timeout_ms: float | None = None, leave_group: bool | None = None) -> None:
        """Commit if commits are automatic, and notify the listener."""
        await _run(self.mock.close_steps())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.mock.leave(error)
        await self.close()

    def __repr__(self) -> str:
        return repr(self.mock).replace("MockConsumer", "AsyncMockConsumer")


class AsyncMockProducer(AsyncProducer[SentK, SentV]):
    """A :class:`MockProducer` for programs that take a :class:`pyconsumer.aio.AsyncProducer`.

    Args:
        options: as for :class:`MockProducer`.
        mock: the wrapped producer; by default a new one.
    """

    def __init__(self, *, mock: MockProducer[SentK, SentV] | None = None, **options: Any) -> None:
        self.mock: MockProducer[SentK, SentV] = MockProducer(**options) if mock is None else mock

    @property
    def closed(self) -> bool:
        """Return whether it was closed."""
        return self.mock.closed

    async def send(
        self,
        topic: str,
        value: SentV | None = None,
        key: SentK | None = None,
        headers: Sequence[Header] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        """Keep a record; its future may be awaited, and with ``auto_complete=False`` waits for the test."""
        await asyncio.sleep(0)
        return self.mock.send(topic, value, key, headers, partition, timestamp_ms)

    async def send_and_wait(
        self,
        topic: str,
        value: SentV | None = None,
        key: SentK | None = None,
        headers: Sequence[Header] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Keep a record and wait until the test has acknowledged it."""
        return await (await self.send(topic, value, key, headers, partition, timestamp_ms))

    async def send_many(
        self,
        topic: str,
        values: Iterable[SentV | None],
        keys: Iterable[SentK | None] | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecords:
        """Keep many records, with one future for all."""
        await asyncio.sleep(0)
        return self.mock.send_many(topic, values, keys, partition=partition, timestamp_ms=timestamp_ms)

    async def send_arrow(
        self, topic: str, table: pyarrow.Table | pyarrow.RecordBatch, *, partition: int | None = None
    ) -> FutureRecords:
        """Keep the rows of a table."""
        await asyncio.sleep(0)
        return self.mock.send_arrow(topic, table, partition=partition)

    async def flush(self, *positional: Never, timeout_ms: float | None = None) -> None:
        """Acknowledge all pending records."""
        await asyncio.sleep(0)
        self.mock.flush(*positional, timeout_ms=timeout_ms)

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions of a topic."""
        await asyncio.sleep(0)
        return self.mock.partitions_for(topic)

    async def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Prepare for transactions."""
        await asyncio.sleep(0)
        self.mock.init_transactions()

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self.mock.begin_transaction()

    async def send_offsets_to_transaction(
        self, offsets: _Offsets, group_metadata: ConsumerGroupMetadata | str, timeout_ms: int | None = None
    ) -> None:
        """Commit positions with the transaction."""
        await asyncio.sleep(0)
        self.mock.send_offsets_to_transaction(offsets, group_metadata)

    async def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Acknowledge all pending records and commit."""
        await asyncio.sleep(0)
        self.mock.commit_transaction()

    async def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Abort the transaction."""
        await asyncio.sleep(0)
        self.mock.abort_transaction()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Run a block as a transaction: commit at its end, abort if it raises, is cancelled, or cannot be committed."""
        self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except BaseException:
            if self.mock.in_transaction and not self.closed:
                with contextlib.suppress(KafkaError):
                    self.mock.abort_transaction()
            raise

    @property
    def is_initialized(self) -> bool:
        """Return whether :meth:`init_transactions` has succeeded."""
        return self.mock.is_initialized

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return counters since the start, by group and name."""
        return self.mock.metrics()

    async def close(self, *positional: Never, timeout_ms: float | None = None) -> None:
        """Acknowledge all pending records; an open transaction is aborted."""
        await asyncio.sleep(0)
        self.mock.close(*positional, timeout_ms=timeout_ms)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(timeout_ms=None if kind is None else 0)

    def __repr__(self) -> str:
        return repr(self.mock).replace("MockProducer", "AsyncMockProducer")
