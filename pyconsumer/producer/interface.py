"""The interface between an application and a producer: ``Producer``.

A program that takes a :class:`Producer` works with :class:`pyconsumer.KafkaProducer`, and is tested with
:class:`pyconsumer.testing.MockProducer`, which needs no cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Never, Protocol, Self, runtime_checkable

from pyconsumer.generic import Header, KeyIn, ValueIn, generic_alias
from pyconsumer.producer.future_records import FutureRecords
from pyconsumer.producer.implementation import FutureRecordMetadata
from pyconsumer.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Producer"]


@runtime_checkable
class Producer(Protocol[KeyIn, ValueIn]):
    """The methods of a producer of keys and values. :class:`pyconsumer.KafkaProducer` documents each of them.

    Java: ``org.apache.kafka.clients.producer.Producer``.
    """

    def send(
        self,
        topic: str,
        value: ValueIn | None = None,
        key: KeyIn | None = None,
        headers: Sequence[Header] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        """Send a record, and return the future of its partition and offset."""
        ...

    def send_many(
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

    def send_arrow(
        self, topic: str, table: pyarrow.Table | pyarrow.RecordBatch, *, partition: int | None = None
    ) -> FutureRecords:
        """Send the rows of a table."""
        ...

    def flush(self, *positional: Never, timeout_ms: float | None = None) -> None:
        """Wait until each record that was sent has succeeded or failed."""
        ...

    def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions of a topic."""
        ...

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return counters by group and name."""
        ...

    def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Prepare for transactions."""
        ...

    @property
    def is_initialized(self) -> bool:
        """Return whether :meth:`init_transactions` has succeeded."""
        ...

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        ...

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata | str,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit the positions of a consumer with the transaction."""
        ...

    def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Commit the transaction."""
        ...

    def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Abort the transaction."""
        ...

    def transaction(self) -> AbstractContextManager[Self]:
        """Run a block as a transaction."""
        ...

    def close(self, *positional: Never, timeout_ms: float | None = None) -> None:
        """Send the buffered records and end."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    if not TYPE_CHECKING:
        __class_getitem__ = generic_alias
