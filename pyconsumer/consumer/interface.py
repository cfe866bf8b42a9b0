"""``Consumer``: what a program may expect of a consumer, whichever it is given.

:class:`pyconsumer.KafkaConsumer` is one; :class:`pyconsumer.testing.MockConsumer` is one without a cluster. A program
that takes a ``Consumer`` can be tested with the latter. Keys and values have the types that deserializers give them.

What an application may be told about its assignment. Only the interface; the coordinator calls it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

__all__ = ["ConsumerRebalanceListener"]


class ConsumerRebalanceListener:
    """Told when partitions come and go. Derive from it and override what you need; the methods do nothing.

    All calls happen in the thread that uses the consumer, inside ``poll``, ``close``, ``unsubscribe`` or
    ``enforce_rebalance``, never at another time. Inside them ``commit``, ``commit_async``, ``seek*``, ``position``,
    ``committed``, ``pause``, ``resume``, ``assignment`` and ``wakeup`` may be called; ``poll``, ``subscribe``,
    ``unsubscribe``, ``assign`` and ``close`` raise ``IllegalStateError``. What a method raises comes out of the call
    that it runs in.

    Java: ``org.apache.kafka.clients.consumer.ConsumerRebalanceListener``; cooperative rebalancing: KIP-429.
    """

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """These partitions are about to be given up; nobody else has them yet. Commit what was processed.

        With an eager assignor it is called with all partitions before each rebalance; with a cooperative one only
        with those that really go, and not at all if there are none.
        """

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """A rebalance has finished and these partitions are new; a ``seek`` here decides where they begin.

        It is called once for each finished rebalance, with an empty collection too.
        """

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """These partitions are gone without a chance to commit: somebody else may read them already.

        By default the same as :meth:`on_partitions_revoked`.
        """
        self.on_partitions_revoked(lost)


__all__ = ["Consumer"]

_Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


@runtime_checkable
class Consumer(Protocol):
    """The methods of a consumer; :class:`pyconsumer.KafkaConsumer` says what each of them does.

    Java: ``org.apache.kafka.clients.consumer.Consumer``.
    """

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> ConsumerRecords:
        """Records that have come, or that come in time."""
        ...

    def __iter__(self) -> Iterator[ConsumerRecord]: ...

    def __next__(self) -> ConsumerRecord: ...

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Let the group assign partitions."""
        ...

    def unsubscribe(self, timeout_ms: float | None = None) -> None:
        """Give up what is subscribed or assigned."""
        ...

    def subscription(self) -> set[str]:
        """The topics subscribed to."""
        ...

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, without a group's help."""
        ...

    def assignment(self) -> set[TopicPartition]:
        """The partitions assigned now."""
        ...

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Let the group rebalance at the next poll."""
        ...

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who we are in the group."""
        ...

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on from an offset."""
        ...

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on from the log's start."""
        ...

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on from the log's end."""
        ...

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Offset of the next record."""
        ...

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out no more of these."""
        ...

    def resume(self, *partitions: TopicPartition) -> None:
        """End :meth:`pause`."""
        ...

    def paused(self) -> set[TopicPartition]:
        """The paused partitions."""
        ...

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Records between position and end, None if unknown."""
        ...

    def commit(self, offsets: _Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commit offsets, by default all positions, and wait."""
        ...

    def commit_async(self, offsets: _Offsets | None = None, callback: Callable[..., object] | None = None) -> Any:
        """Commit offsets without waiting."""
        ...

    def committed(self, partition: Any, metadata: bool = False, timeout_ms: float | None = None) -> Any:
        """What is committed for one partition, or for several."""
        ...

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first offset at or after a time."""
        ...

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each log."""
        ...

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last readable record."""
        ...

    def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> set[int] | None:
        """Numbers of a topic's partitions, None if there is no such topic."""
        ...

    def topics(self, timeout_ms: float | None = None) -> set[str]:
        """Names of all topics."""
        ...

    def metrics(self, raw: bool = False) -> dict[str, dict[str, Any]]:
        """Counters by group and name."""
        ...

    def wakeup(self) -> None:
        """Let the blocking call under way, or the next one, raise."""
        ...

    def close(self, timeout_ms: float | None = None, leave_group: bool | None = None) -> None:
        """End it."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
