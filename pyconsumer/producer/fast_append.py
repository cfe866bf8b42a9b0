"""``Appender``, the short way of a record into its batch: the twin in Python of the compiled class.

In C a record whose batch is open joins it without a lock and without a decision. In Python that would save no time, so
the twin leaves every record to :meth:`KafkaProducer.send`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyconsumer.producer.batch import BufferMemory, ProducerBatch
from pyconsumer.producer.future import BatchResult, FutureRecordMetadata
from pyconsumer.protocol.compiled import not_copied

__all__ = ["Appender"]


class Appender:
    """The open batches of a producer, by topic and partition.

    Args:
        memory: of the producer.
        wake: called when a batch has become large enough to leave.
        batch_size: bytes from which a batch may leave, and after which the sticky partition changes.
        largest: most bytes of a record.
        ignore_keys: records with a key are treated like those without.
        chooses: a partitioner of the user's chooses partitions.
        reads_clock: records without a timestamp get the time of the system's clock. Otherwise they are left to Python.
        future_class: the class of the futures that it returns, None for ours.

    Attributes:
        is_open: False once the producer is closed.
        records: how many it has appended.
    """

    __slots__ = ("is_open", "records")

    def __init__(
        self,
        memory: BufferMemory,
        wake: Callable[[], None],
        *,
        batch_size: int,
        largest: int,
        ignore_keys: bool,
        chooses: bool,
        reads_clock: bool,
        future_class: type[FutureRecordMetadata] | None = None,
    ) -> None:
        self.is_open = True
        self.records = 0

    __reduce__ = not_copied

    def append(
        self, topic: Any, value: Any, key: Any, headers: Any, partition: Any, timestamp_ms: Any
    ) -> FutureRecordMetadata | None:
        """Append a record if no decision is needed. The arguments are those of ``send``, serialized.

        Returns:
            Its future, or None if the record was not appended.
        """
        return None

    def append_many(
        self,
        topic: Any,
        values: list[Any],
        keys: list[Any] | None,
        start: int,
        partition: Any,
        timestamp_ms: Any,
        runs: list[tuple[BatchResult, int, int]],
    ) -> int:
        """Append records from index ``start`` on, until a decision is needed.

        Args:
            runs: the appended records are added here: the result of a batch, the index of the first record there, and
                how many records follow one another.

        Returns:
            The index of the first value that was not appended.
        """
        return start

    def remember(self, topic: str, count: int, batch: ProducerBatch, partition: int, sticky: list[int] | None) -> None:
        """Remember the open batch of a partition.

        Args:
            count: of the topic's partitions.
            sticky: the partition that records without a key go to and the bytes that went there. None: as before.
        """

    def forget(self) -> None:
        """Forget all batches, since metadata has changed."""

    def close(self) -> None:
        """Append no more records."""
        self.is_open = False
