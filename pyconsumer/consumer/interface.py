"""The interfaces between an application and a consumer: ``Consumer`` and ``ConsumerRebalanceListener``.

The application calls a :class:`Consumer`: :class:`pyconsumer.KafkaConsumer`, or
:class:`pyconsumer.testing.MockConsumer`, which needs no cluster. A program that takes a ``Consumer`` can be tested with
the latter. Keys and values have the types that the deserializers return.

The consumer calls the application's :class:`ConsumerRebalanceListener`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeAlias, overload, runtime_checkable

from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.errors import KafkaError, RecordDeserializationError
from pyconsumer.generic import K, V, generic_alias
from pyconsumer.network.futures import RequestFuture
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    SubscriptionPattern,
    TopicPartition,
)

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "CommitCallback",
    "Committed",
    "Consumer",
    "ConsumerRebalanceListener",
    "DeadLetterSink",
    "Metrics",
    "StorableOffsets",
]

_Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]
Committed = int | OffsetAndMetadata | None
CommitCallback = Callable[[Mapping[TopicPartition, OffsetAndMetadata], KafkaError | None], object]
"""A function of the offsets of a commit and of its error, None after success."""
Metrics = dict[str, dict[str, float | None]]
"""Counters by group and name."""
StorableOffsets: TypeAlias = _Offsets | ConsumerRecords | ConsumerRecord | Iterable[ConsumerRecord]
"""An argument of ``store_offsets``: offsets by partition, or records, whose successors are stored."""


class DeadLetterSink(Protocol):
    """Takes records that cannot be deserialized, as the setting ``on_record_error``."""

    def send(self, error: RecordDeserializationError, /) -> object:
        """Keep the record, which ``error`` has with its raw key and value; an exception stops the consumer there."""
        ...


class ConsumerRebalanceListener:
    """Notified when partitions are assigned, revoked or lost. Override the methods that you need; they do nothing.

    The consumer calls these methods in the application's thread, inside ``poll``, ``close``, ``unsubscribe`` or
    ``enforce_rebalance``, and at no other time. They may call ``commit``, ``commit_async``, ``seek*``, ``position``,
    ``committed``, ``pause``, ``resume``, ``assignment`` and ``wakeup``; ``poll``, ``subscribe``, ``unsubscribe``,
    ``assign`` and ``close`` raise ``IllegalStateError``. An exception of a listener is raised by the call in which the
    listener runs.

    Java: ``org.apache.kafka.clients.consumer.ConsumerRebalanceListener``; cooperative rebalancing: KIP-429.
    """

    def on_partitions_revoked(self, revoked: Collection[TopicPartition], /) -> None:
        """Commit what has been processed: these partitions are about to be revoked, and no one else has them yet.

        An eager assignor revokes all partitions before each rebalance. A cooperative one revokes only those that move
        to another member; if there are none, this is not called.
        """

    def on_partitions_assigned(self, assigned: Collection[TopicPartition], /) -> None:
        """Prepare for new partitions, after a rebalance; a ``seek`` here sets where reading starts.

        Called once for each completed rebalance, with an empty collection if nothing is new.
        """

    def on_partitions_lost(self, lost: Collection[TopicPartition], /) -> None:
        """Discard the state of partitions that are lost: another member may own them already, and commits fail.

        By default calls :meth:`on_partitions_revoked`.
        """
        return self.on_partitions_revoked(lost)  # with asyncio it may be an awaitable


@runtime_checkable
class Consumer(Protocol[K, V]):
    """The methods of a consumer of keys ``K`` and values ``V``; :class:`pyconsumer.KafkaConsumer` documents each.

    Java: ``org.apache.kafka.clients.consumer.Consumer``.
    """

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        """Return records that have arrived, or wait for some."""
        ...

    def poll_arrow(
        self,
        timeout_ms: float = 0,
        max_records: int | None = None,
        columns: Iterable[str] | None = None,
        *,
        dictionary_topic: bool = False,
    ) -> pyarrow.RecordBatch:
        """Return records as columns, like :meth:`poll`."""
        ...

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]: ...

    def __next__(self) -> ConsumerRecord[K, V]: ...

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics, whose partitions the group assigns."""
        ...

    def unsubscribe(self, timeout_ms: float | None = None) -> None:
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

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
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
        """Return how many records follow the position, None if unknown."""
        ...

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of an assigned partition as of its last fetch, None if unknown."""
        ...

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the last stable offset of an assigned partition as of its last fetch, None if unknown."""
        ...

    def commit(self, offsets: _Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commit offsets, by default all positions, and wait."""
        ...

    def commit_async(
        self, offsets: _Offsets | None = None, callback: CommitCallback | None = None
    ) -> RequestFuture[None]:
        """Commit offsets without waiting."""
        ...

    def store_offsets(self, offsets: StorableOffsets) -> None:
        """Store offsets of finished records, for the next commit; needs ``enable_auto_offset_store=False``."""
        ...

    @overload
    def committed(
        self, partition: TopicPartition, metadata: Literal[False] = False, timeout_ms: float | None = None
    ) -> int | None: ...

    @overload
    def committed(
        self, partition: TopicPartition, metadata: Literal[True], timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None: ...

    @overload
    def committed(
        self, partition: Iterable[TopicPartition], metadata: Literal[False] = False, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int | None]: ...

    @overload
    def committed(
        self, partition: Iterable[TopicPartition], metadata: Literal[True], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]: ...

    def committed(
        self,
        partition: TopicPartition | Iterable[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> Committed | dict[TopicPartition, int | None] | dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of one partition, or of several."""
        ...

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offset at or after a time."""
        ...

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each log."""
        ...

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last readable record."""
        ...

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        """Return the numbers of a topic's partitions, None if there is no such topic."""
        ...

    def known_partitions(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions according to the metadata at hand; empty if there is none."""
        ...

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Return the names of all topics."""
        ...

    def metrics(self, raw: bool = False) -> Metrics:
        """Return counters by group and name."""
        ...

    def wakeup(self) -> None:
        """Make the current blocking call, or the next one, raise ``WakeupError``."""
        ...

    def close(self, timeout_ms: float | None = None, leave_group: bool | None = None) -> None:
        """Commit if commits are automatic, leave the group, close all connections."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    if not TYPE_CHECKING:
        __class_getitem__ = generic_alias
