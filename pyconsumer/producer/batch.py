"""``ProducerBatch`` and ``BufferMemory``, the memory that batches share: twins in Python of the compiled classes."""

from __future__ import annotations

from collections.abc import Sequence

from pyconsumer.producer.future import BatchResult
from pyconsumer.protocol.compiled import not_copied
from pyconsumer.protocol.records import BatchBuilder
from pyconsumer.structs import TopicPartition

__all__ = ["BufferMemory", "ProducerBatch"]


class BufferMemory:
    """Count of the bytes that a producer's batches hold.

    Args:
        limit: bytes, ``buffer_memory``.

    Attributes:
        used: bytes, uncompressed, from the append until the batch is done.
    """

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    __reduce__ = not_copied

    def has_room(self, size_bytes: int) -> bool:
        """Return whether a record of this size may be appended now. One that is alone always may."""
        return self.used + size_bytes <= self.limit or self.used == 0

    def take(self, size_bytes: int) -> None:
        """Count bytes as used."""
        self.used += size_bytes

    def give_back(self, size_bytes: int) -> None:
        """Count bytes as free again."""
        self.used -= size_bytes


class ProducerBatch:
    """One batch on its way. A closed batch never changes. Whoever takes it out of its queue closes it first.

    Args:
        topic_partition: where to.
        builder: of its records.
        now: monotonic seconds.
        memory: in which its records count.

    Attributes:
        result: the outcome.
        closed: no record can be added.
        created_at: monotonic seconds of its first record. Its delivery timeout counts from there.
        attempts: how often it was sent.
        retry_at: not to be sent before.
        base_sequence: -1 until it got one.
        producer: ``(id, epoch)`` that the sequence belongs to.
        uncertain: some attempt ended without showing whether the batch was written.
        expired: its delivery timeout passed while it was in flight. Its result is set, its response is still to come.
        memory: bytes that it counts for.
        data: its bytes for the broker, once it was built.
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
        """Add a record, which counts for ``size_bytes``, and return its index, or None if there is no room."""
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
        """Let no record be added any more."""
        self.closed = True

    def leave(self) -> None:
        """Close it, and count an attempt to send it."""
        self.closed = True
        self.attempts += 1

    def retry(self, at: float) -> None:
        """Set the time of the next attempt, which is made at ``at`` or later (monotonic seconds)."""
        self.retry_at = at

    def take_number(self, producer: tuple[int, int], base_sequence: int) -> None:
        """Take a sequence number of a producer. Bytes with another one are dropped."""
        self.producer, self.base_sequence, self.data = producer, base_sequence, None

    def built(self, data: bytes) -> bytes:
        """Store the encoded batch for retries and return it."""
        self.data = data
        return data

    def mark_uncertain(self) -> None:
        """Record that an attempt ended without showing whether the batch was written."""
        self.uncertain = True

    def expire(self) -> None:
        """Record that its delivery timeout passed while it was in flight, and give its memory back."""
        self.expired = True
        self.release()

    def move_memory(self, to: ProducerBatch, size_bytes: int) -> None:
        """Let another batch count for some of the memory."""
        self.memory -= size_bytes
        to.inherit_memory(size_bytes)

    def inherit_memory(self, size_bytes: int) -> None:
        """Count for memory that another batch has taken."""
        self.memory += size_bytes

    def done(self) -> None:
        """Let go of everything but the outcome: its memory and its bytes."""
        self.release()
        self.data = None

    def release(self) -> None:
        """Close it, and give its memory back."""
        self.closed = True
        self._memory.give_back(self.memory)
        self.memory = 0
