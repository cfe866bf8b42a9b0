"""The interfaces of clients on an event loop: ``AsyncConsumer`` and ``AsyncProducer``.

A program that is written for them runs with :class:`pyconsumer.aio.AsyncKafkaConsumer` and
:class:`pyconsumer.aio.AsyncKafkaProducer`, and is tested with :class:`pyconsumer.testing.AsyncMockConsumer` and
:class:`pyconsumer.testing.AsyncMockProducer`, which need no cluster.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Never, Protocol, Self, overload, runtime_checkable

from pyconsumer.consumer.interface import CommitCallback, Committed, ConsumerRebalanceListener, Metrics, StorableOffsets
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.generic import Header, K, KeyIn, V, ValueIn, generic_alias
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

__all__ = ["AsyncConsumer", "AsyncProducer"]

_Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


@runtime_checkable
class AsyncConsumer(Protocol[K, V]):
    """The methods of a consumer of keys ``K`` and values ``V`` on an event loop; see :class:`pyconsumer.Consumer`."""

    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        """Return records that have arrived, or wait for some."""
        ...

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> ConsumerRecord[K, V]: ...

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics, whose partitions the group assigns."""
        ...

    async def unsubscribe(self, timeout_ms: float | None = None) -> None:
        """Drop the subscription and the assignment."""
        ...

    def subscription(self) -> set[str]:
        """Return the subscribed topics."""
        ...

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign partitions by hand, without a group."""
        ...

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions."""
        ...

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Make the group rebalance at the next poll."""
        ...

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this member's identity in the group."""
        ...

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue from an offset."""
        ...

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue from the start of the log."""
        ...

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue from the end of the log."""
        ...

    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record."""
        ...

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions for now."""
        ...

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        ...

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        ...

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return the number of offsets from the position to the end, None if unknown."""
        ...

    async def commit(self, offsets: _Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commit offsets, by default all positions, and wait."""
        ...

    def commit_async(self, offsets: _Offsets | None = None, callback: CommitCallback | None = None) -> Awaitable[None]:
        """Commit offsets without waiting."""
        ...

    def store_offsets(self, offsets: StorableOffsets) -> None:
        """Store offsets of finished records, for the next commit; needs ``enable_auto_offset_store=False``."""
        ...

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
    ) -> Committed | dict[TopicPartition, int | None] | dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of one partition, or of several."""
        ...

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offset at or after a time."""
        ...

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each log."""
        ...

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last readable record."""
        ...

    async def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        """Return the numbers of a topic's partitions, None if there is no such topic."""
        ...

    async def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the names of all topics."""
        ...

    def metrics(self, raw: bool = False) -> Metrics:
        """Return counters by group and name."""
        ...

    def wakeup(self) -> None:
        """Make the current waiting call, or the next one, raise ``WakeupError``."""
        ...

    async def close(self, timeout_ms: float | None = None, leave_group: bool | None = None) -> None:
        """Commit if commits are automatic, leave the group, close all connections."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    if not TYPE_CHECKING:
        __class_getitem__ = generic_alias


@runtime_checkable
class AsyncProducer(Protocol[KeyIn, ValueIn]):
    """The methods of a producer on an event loop; see :class:`pyconsumer.Producer`."""

    async def send(
        self,
        topic: str,
        value: ValueIn | None = None,
        key: KeyIn | None = None,
        headers: Sequence[Header] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        """Enqueue a record to be sent; return the future of its metadata."""
        ...

    async def send_and_wait(
        self,
        topic: str,
        value: ValueIn | None = None,
        key: KeyIn | None = None,
        headers: Sequence[Header] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send a record and wait for the broker's response."""
        ...

    async def send_many(
        self,
        topic: str,
        values: Iterable[ValueIn | None],
        keys: Iterable[KeyIn | None] | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecords:
        """Send many records, with one future for all."""
        ...

    async def flush(self, *positional: Never, timeout_ms: float | None = None) -> None:
        """Wait until all records that were sent have succeeded or failed."""
        ...

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions of a topic."""
        ...

    async def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Prepare for transactions: get a producer id, and fence older producers with the same transactional id."""
        ...

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        ...

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata | str,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit the positions of a consumer with the transaction."""
        ...

    async def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Commit the transaction."""
        ...

    async def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Abort the transaction."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[Self]:
        """Run a block as a transaction."""
        ...

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return counters by group and name."""
        ...

    async def close(self, *positional: Never, timeout_ms: float | None = None) -> None:
        """Send the buffered records and close the producer."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    if not TYPE_CHECKING:
        __class_getitem__ = generic_alias
