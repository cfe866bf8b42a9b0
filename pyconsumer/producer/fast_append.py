"""``Appender`` in Python: adds a record to an open batch (the twin of a compiled class).

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
    """The open batches of a producer, by topic and partition. Appends records to them.

    Args:
        memory: the memory count of the producer.
        wake: called when a batch has become large enough to be sent.
        batch_size: a batch of this many bytes may be sent, and after this many bytes the sticky partition changes.
        largest: the largest size of a record, in bytes.
        ignore_keys: True treats records with a key like records without a key.
        chooses: True if the user's own partitioner chooses the partitions.
        reads_clock: True gives records without a timestamp the time of the system's clock. False leaves such records to
            Python.
        takes_text: False leaves a record whose key or value is text to Python.
        future_class: the class of the futures that it returns, None for ours.

    Attributes:
        is_open: False once the producer is closed.
        records: how many records this object has appended.
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
        takes_text: bool = True,
        future_class: type[FutureRecordMetadata] | None = None,
    ) -> None:
        self.is_open = True
        self.records = 0

    __reduce__ = not_copied

    def append(
        self, topic: Any, value: Any, key: Any, headers: Any, partition: Any, timestamp_ms: Any
    ) -> FutureRecordMetadata | None:
        """Append a record if no decision is needed. The arguments are those of ``send``, after serialization.

        Returns:
            The future of the record, or None if it was not appended.
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
        headers: Any = None,
    ) -> int:
        """Append records from index ``start`` on, until a decision is needed.

        Args:
            headers: of each of the records.
            runs: a list to which the appended records are added. Each entry is the result of a batch, the index of the
                first record in it, and the number of consecutive records.

        Returns:
            The index of the first value that was not appended.
        """
        return start

    def remember(self, topic: str, count: int, batch: ProducerBatch, partition: int, sticky: list[int] | None) -> None:
        """Remember the open batch of a partition.

        Args:
            count: the number of the topic's partitions.
            sticky: the partition for records without a key, and the bytes that were sent to it. None keeps the previous
                ones.
        """

    def forget(self) -> None:
        """Forget all batches, because metadata has changed."""

    def close(self) -> None:
        """Accept no more records."""
        self.is_open = False
