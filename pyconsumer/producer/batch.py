"""``ProducerBatch`` and ``BufferMemory`` in Python, the twins of compiled classes."""

from __future__ import annotations

from collections.abc import Sequence

from pyconsumer.producer.future import BatchResult
from pyconsumer.protocol.compiled import not_copied
from pyconsumer.protocol.records import BatchBuilder
from pyconsumer.structs import TopicPartition

__all__ = ["BufferMemory", "ProducerBatch"]


class BufferMemory:
    """Counts the bytes that the batches of a producer hold.

    Args:
        limit: the setting ``buffer_memory``, in bytes.

    Attributes:
        used: uncompressed bytes. A record counts from its append until its batch is done.
    """

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    __reduce__ = not_copied

    def has_room(self, size_bytes: int) -> bool:
        """Return whether a record of this size may be appended now. If no other record waits, any size is allowed."""
        return self.used + size_bytes <= self.limit or self.used == 0

    def take(self, size_bytes: int) -> None:
        """Count bytes as used."""
        self.used += size_bytes

    def give_back(self, size_bytes: int) -> None:
        """Count bytes as free again."""
        self.used -= size_bytes


class ProducerBatch:
    """One batch of records. A closed batch gets no more records.

    A batch must be closed before it is taken from its queue.

    Args:
        topic_partition: the partition to which the batch is sent.
        builder: the builder that holds the records.
        now: the present time, in monotonic seconds.
        memory: the count in which the batch's bytes are included.

    Attributes:
        result: the outcome.
        closed: True if no record can be added.
        created_at: the time of the first record, in monotonic seconds. The delivery timeout starts at this time.
        attempts: how often the batch was sent.
        retry_at: the time before which the batch is not sent, in monotonic seconds.
        base_sequence: the sequence number of the first record. -1 until the batch has one.
        producer: ``(id, epoch)`` of the producer to which the sequence number belongs.
        uncertain: True if it is unknown after some attempt whether the batch was written.
        expired: True if the delivery timeout was reached while the batch was in flight. Its result is set, but its
            response is still awaited.
        memory: the bytes that the batch counts for.
        data: the encoded batch, after it was built.
    """

    __slots__ = (
        "_memory",
        "attempts",
        "base_sequence",
        "builder",
        "closed",
        "created_at",
        "data",
        "expired",
        "memory",
        "producer",
        "result",
        "retry_at",
        "topic_partition",
        "uncertain",
    )

    def __init__(
        self, topic_partition: TopicPartition, builder: BatchBuilder, now: float, memory: BufferMemory
    ) -> None:
        self.topic_partition = topic_partition
        self.builder = builder
        self.created_at = now
        self.result = BatchResult(topic_partition)
        self.attempts = 0
        self.retry_at = 0.0
        self.closed = False
        self.uncertain = False
        self.expired = False
        self.memory = 0
        self._memory = memory
        self.base_sequence = -1
        self.producer = (-1, -1)
        self.data: bytes | None = None

    __reduce__ = not_copied

    @property
    def record_count(self) -> int:
        return self.builder.record_count

    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        size_bytes: int,
    ) -> int | None:
        """Add a record that counts for ``size_bytes``. Return its index, or None if there is no room."""
        if self.closed:
            return None
        index = self.builder.try_append(timestamp_ms, key, value, headers)
        if index is None:
            self.closed = True
        else:
            self.memory += size_bytes
            self._memory.take(size_bytes)
        return index

    def close(self) -> None:
        """Accept no more records."""
        self.closed = True

    def leave(self) -> None:
        """Close the batch, and count an attempt to send it."""
        self.closed = True
        self.attempts += 1

    def retry(self, at: float) -> None:
        """Set the earliest time of the next attempt to ``at`` (monotonic seconds)."""
        self.retry_at = at

    def take_number(self, producer: tuple[int, int], base_sequence: int) -> None:
        """Set the sequence number, which belongs to ``producer``.

        If the batch is encoded with another number, drop its bytes.
        """
        self.producer, self.base_sequence, self.data = producer, base_sequence, None

    def built(self, data: bytes) -> bytes:
        """Store the encoded batch for later attempts, and return it."""
        self.data = data
        return data

    def mark_uncertain(self) -> None:
        """Record that it is unknown after an attempt whether the batch was written."""
        self.uncertain = True

    def expire(self) -> None:
        """Record that the delivery timeout was reached while the batch was in flight. Release its memory."""
        self.expired = True
        self.release()

    def move_memory(self, to: ProducerBatch, size_bytes: int) -> None:
        """Let another batch count for some of this batch's memory."""
        self.memory -= size_bytes
        to.inherit_memory(size_bytes)

    def inherit_memory(self, size_bytes: int) -> None:
        """Count for memory that another batch counted for before."""
        self.memory += size_bytes

    def done(self) -> None:
        """Release the batch's memory and bytes. Only its result is kept."""
        self.release()
        self.data = None

    def release(self) -> None:
        """Close the batch, and release its memory."""
        self.closed = True
        self._memory.give_back(self.memory)
        self.memory = 0
