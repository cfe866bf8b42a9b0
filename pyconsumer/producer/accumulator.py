"""Batches that wait to be sent: lingering, sequence numbers, memory, delivery timeouts.

State: for each partition a queue of batches, oldest first, and whether one of them is in flight. Rules:

1. A record goes into the last batch of its partition, or into a new one if that was closed. A batch is closed when it
   leaves, or has reached ``largest_batch``.
2. A batch is ready when it has ``batch_size`` bytes, has waited ``linger``, others wait behind it, a call flushes or
   closes, or memory has run out. A batch that failed is ready again after its backoff. As long as a ready batch waits
   for the one in flight before it, records join it: so the batches are as large as a slow broker makes them.
3. At most one batch of a partition is in flight (the partition is *muted* in the meantime). Batches of a partition
   leave in their order, and one that has to be sent again goes back to the front: so order is kept, whatever fails.
4. Sequence numbers (idempotence) are given when a batch first leaves, and stay with it for every retry.
5. Memory is counted from the append until the batch is done, in uncompressed bytes.
6. Every batch ends by its delivery timeout, whether it waits, backs off or is in flight.
7. A batch that may have been written keeps its producer id and sequence for every retry, also when the producer has got
   a new id in the meantime. Only so does the broker recognise a batch that it has already. (A failure in one partition
   must not make a lost acknowledgement in another into a duplicate.) The batches behind it take the new id when they
   leave.
8. A batch is incomplete, for those who flush, until its result is set and its callbacks have run, wherever it is.
9. A partition with batches is busy, and its batches are incomplete, at whatever instant Ctrl-C ends an append.

The caller holds one lock during every call. Callbacks of futures are run by the caller, outside the lock. Only records
that join an open batch may come without it (:mod:`.fast_append`): so a batch is closed before anything is read of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple
from weakref import WeakSet

from pyconsumer.producer.implementation import BatchBuilder, BatchResult, BufferMemory, ProducerBatch
from pyconsumer.structs import TopicPartition

__all__ = ["Appended", "CallThatWaits", "RecordAccumulator", "RecordToSend"]

Header = tuple[str, bytes | None]
#: Timestamp in ms since the epoch, key, value and headers.
RecordToSend = tuple[int, bytes | None, bytes | None, Sequence[Header]]


_NO_LOADS: Mapping[int, int] = MappingProxyType({})


class Appended(NamedTuple):
    """The place of an appended record: its batch, its index in the batch, and whether to wake the sender."""

    batch: ProducerBatch
    position: int
    wake_sender: bool


class CallThatWaits:
    """Stands for one call that waits for memory or for its records. While there is one, batches do not linger."""

    __slots__ = ("__weakref__",)


class _Queue:
    """The batches of one partition."""

    __slots__ = ("batches", "muted", "next_sequence", "producer")

    def __init__(self) -> None:
        self.batches: deque[ProducerBatch] = deque()
        self.muted = False
        self.next_sequence = 0
        self.producer = (-1, -1)

    def mute(self, muted: bool = True) -> None:
        """Record whether a batch is in flight, which the next one waits for."""
        self.muted = muted

    def next_number(self, producer: tuple[int, int], record_count: int) -> int:
        """Return the sequence number of a batch. That of the next one follows its records."""
        if self.producer != producer:
            self.producer, self.next_sequence = producer, 0
        number = self.next_sequence
        self.next_sequence = (number + record_count) & 0x7FFFFFFF
        return number

    def go_back(self, sequence: int) -> None:
        """Give a sequence number to the next batch again."""
        self.next_sequence = sequence


class RecordAccumulator:
    """The batches of a producer that wait or are in flight. See the module.

    Args:
        batch_size: a batch of this many bytes is ready to be sent. 0 gives each record a batch of its own.
        largest_batch: the largest size (bytes) of a batch that waits. By default ``batch_size``.
        linger: the longest time that a batch waits for more records, in seconds.
        delivery_timeout: the longest time from a batch's first record to its result, in seconds.
        buffer_memory: the largest total size of all batches, in bytes.
        codec: the compression of batches.
        level: the level of the codec. None for its default.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        linger: float,
        delivery_timeout: float,
        buffer_memory: int,
        codec: str,
        level: int | None = None,
        largest_batch: int = 0,
    ) -> None:
        self._batch_size = batch_size
        self._largest_batch = max(batch_size, largest_batch)
        self._linger = linger
        self._delivery_timeout = delivery_timeout
        self._codec = codec
        self._level = level
        self._queues: dict[TopicPartition, _Queue] = {}
        self._busy: set[TopicPartition] = set()  # partitions with batches, so that nothing scans the idle ones
        self._in_flight: set[ProducerBatch] = set()
        self._unsettled: set[BatchResult] = set()
        self._whole: set[BatchResult] = set()  # of batches that are sent as they are, until they are settled
        self._ratio: dict[str, float] = {}
        self._loads: dict[str, dict[int, int]] = {}
        self._limits: dict[str, int] = {}  # bytes of a batch, by topic whose broker has refused a larger one
        self.memory = BufferMemory(buffer_memory)
        self.flushing = 0
        self.closing = False
        #: One object for each. They are weak, so that a call that Ctrl-C ended at any place no longer counts.
        self.flush_calls: WeakSet[CallThatWaits] = WeakSet()
        self.calls_for_memory: WeakSet[CallThatWaits] = WeakSet()

    def close(self) -> None:
        """Make every batch ready without lingering, and accept no more records."""
        self.closing = True

    def oldest_by_partition(self) -> list[tuple[TopicPartition, float]]:
        """Return when the oldest batch of each partition that is not settled was begun, in monotonic seconds.

        Any thread may call this. It takes no lock, so a partition that changes at this moment may be left out.
        """
        found: dict[TopicPartition, float] = {}
        for batch in list(self._in_flight):
            tp = batch.topic_partition
            found[tp] = min(batch.created_at, found.get(tp, batch.created_at))
        for tp in list(self._busy):
            queue = self._queues.get(tp)
            try:
                first = None if queue is None else queue.batches[0]
            except IndexError:
                continue
            if first is not None:
                found[tp] = min(first.created_at, found.get(tp, first.created_at))
        return list(found.items())

    def flush(self, more: bool = True) -> None:
        """With True, send batches without lingering. With False, end that: each True needs one False."""
        self.flushing += 1 if more else -1

    # ------------------------------------------------------------ appending

    def has_room(self, size_bytes: int) -> bool:
        """Return whether a record of this size may be appended now. If no other record waits, any size is allowed."""
        return self.memory.has_room(size_bytes)

    @property
    def memory_used(self) -> int:
        """The memory that all batches use, in bytes."""
        return self.memory.used

    def append(
        self,
        tp: TopicPartition,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        size_bytes: int,
        now: float,
    ) -> Appended:
        """Add a record. The caller must have checked with :meth:`has_room` that there is memory.

        Args:
            size_bytes: the memory that the record uses.
            now: monotonic seconds.
        """
        queue = self._queues.get(tp)
        if queue is None:
            queue = self._queues[tp] = _Queue()
        batches = queue.batches
        if batches and not batches[-1].closed:
            batch = batches[-1]
            index = batch.append(timestamp_ms, key, value, headers, size_bytes)
            if index is not None:
                full = self._is_full(batch)
                if tp not in self._busy:  # a second Ctrl-C, in the middle of what the first one led to
                    self._busy.add(tp)
                    return Appended(batch, index, True)
                return Appended(batch, index, full)
        batch = ProducerBatch(tp, self._new_builder(tp.topic), now, self.memory)
        try:
            index = batch.append(timestamp_ms, key, value, headers, size_bytes)
            assert index is not None  # the first record always fits
            if not self._batch_size:
                batch.close()
            self._unsettled.add(batch.result)
            batches.append(batch)
            self._busy.add(tp)
        except BaseException:  # Ctrl-C: the batch is either there for everybody or for nobody
            if batches and batches[-1] is batch:
                self._busy.add(tp)
            else:
                self._unsettled.discard(batch.result)
                batch.release()
            raise
        return Appended(batch, index, True)

    def append_batch(
        self, tp: TopicPartition, records: Sequence[RecordToSend], size_bytes: int, now: float
    ) -> ProducerBatch:
        """Add a batch of these records, which others neither join nor split. It takes its place behind all others.

        Args:
            size_bytes: the memory that it counts for. The caller made sure that there is as much.
            now: monotonic seconds.
        """
        batch = ProducerBatch(tp, BatchBuilder(self._codec, level=self._level), now, self.memory)
        queue = self._queues.setdefault(tp, _Queue())
        try:
            for timestamp_ms, key, value, headers in records:
                batch.append(timestamp_ms, key, value, headers, size_bytes if not batch.memory else 0)
            batch.close()
            if queue.batches:
                queue.batches[-1].close()  # a later record must not come before this batch
            self._unsettled.add(batch.result)
            self._whole.add(batch.result)
            queue.batches.append(batch)
            self._busy.add(tp)
        except BaseException:  # Ctrl-C: as in append
            if queue.batches and queue.batches[-1] is batch:
                self._busy.add(tp)
            else:
                self.settled(batch.result)
                batch.release()
            raise
        return batch

    def is_whole(self, batch: ProducerBatch) -> bool:
        """Return whether a batch was made by :meth:`append_batch`."""
        return batch.result in self._whole

    def _new_builder(self, topic: str) -> BatchBuilder:
        ratio = self._ratio.get(topic, 1.0)
        largest = self._batch_size
        limit = self._limits.get(topic)
        if limit is not None:
            largest = min(largest, limit)
        elif largest:  # what waits is bounded in uncompressed bytes, too
            largest = max(largest, int(self._largest_batch * ratio))
        return BatchBuilder(self._codec, size_limit=largest, expected_ratio=ratio, level=self._level)

    def _is_full(self, batch: ProducerBatch) -> bool:
        """Return whether a batch need not wait for more records."""
        return batch.closed or batch.builder.estimated_size >= self._batch_size

    # ------------------------------------------------------------ sending

    def busy_partitions(self) -> Iterable[TopicPartition]:
        """Partitions with waiting batches.

        The partition with the oldest batch comes first, so that none is left behind.
        """
        if len(self._busy) < 2:
            return self._busy
        return sorted(self._busy, key=lambda tp: self._queues[tp].batches[0].created_at)

    def loads(self, topic: str) -> Mapping[int, int]:
        """Return how many full batches waited for each partition of a topic when they were last counted.

        Partitions without one are left out. The object is the same as long as the numbers are.
        """
        return self._loads.get(topic, _NO_LOADS)

    def count_loads(self) -> None:
        """Count the full batches of each partition by bytes, since a waiting batch grows beyond ``batch_size``."""
        found: dict[str, dict[int, int]] = {}
        queues, full = self._queues, max(1, self._batch_size)
        for tp in self._busy:
            batches = queues[tp].batches
            # All but the last one are as large as the first, more or less. There may be hundreds.
            size = (len(batches) - 1) * batches[0].memory + batches[-1].memory
            if size >= full:
                found.setdefault(tp[0], {})[tp[1]] = size // full
        before = self._loads
        self._loads = {topic: before[topic] if before.get(topic) == new else new for topic, new in found.items()}

    def ready_at(self, tp: TopicPartition) -> float | None:
        """Time (monotonic seconds) at which the first batch of a partition may be sent.

        None if no batch waits, or one is in flight.
        """
        queue = self._queues[tp]
        return None if queue.muted or not queue.batches else self._due_at(queue)

    def is_due(self, tp: TopicPartition, now: float) -> bool:
        """Return whether the first waiting batch of a partition waits for its node, not for more records or a pause.

        It also does while another batch of the partition is in flight.
        """
        queue = self._queues[tp]
        return bool(queue.batches) and self._due_at(queue) <= now

    def _due_at(self, queue: _Queue) -> float:
        first = queue.batches[0]
        if first.attempts:
            return first.retry_at
        if self._is_full(first) or len(queue.batches) > 1 or self.flushing or self.closing:
            return 0.0
        if self.flush_calls or self.calls_for_memory:
            return 0.0
        return first.created_at + self._linger

    def first_waiting(self, tp: TopicPartition) -> ProducerBatch | None:
        """Return the batch of a partition that is sent next, or None if no batch waits."""
        queue = self._queues.get(tp)
        return queue.batches[0] if queue is not None and queue.batches else None

    def next_deadline(self) -> float | None:
        """The earliest time at which a waiting or sent batch reaches its delivery timeout, or None."""
        earliest = [self._queues[tp].batches[0].created_at for tp in self._busy]
        earliest += [batch.created_at for batch in self._in_flight if not batch.expired]
        return min(earliest) + self._delivery_timeout if earliest else None

    def next_size(self, tp: TopicPartition) -> int:
        """Return the approximate bytes of the batch that is sent next for a partition, or 0 if no batch waits."""
        batch = self.first_waiting(tp)
        return 0 if batch is None else batch.builder.estimated_size

    def take(self, tp: TopicPartition, producer: tuple[int, int] | None) -> ProducerBatch:
        """Close the first batch of a partition and count it as in flight.

        No other batch of the partition is sent until it is done.

        Args:
            producer: ``(id, epoch)`` of an idempotent producer, otherwise None.
        """
        queue = self._queues[tp]
        batch = queue.batches.popleft()
        if not queue.batches:
            self._busy.discard(tp)
        queue.mute()
        self._in_flight.add(batch)
        batch.leave()
        if producer is not None and batch.base_sequence < 0:
            batch.take_number(producer, queue.next_number(producer, batch.record_count))
        return batch

    def build(self, batch: ProducerBatch, *, transactional: bool = False) -> bytes:
        """Return the compressed bytes of a batch that was taken. Call this without the lock, since it is slow.

        Args:
            transactional: True if the batch is part of a transaction.
        """
        if batch.data is not None:
            return batch.data
        data = batch.builder.build(
            producer_id=batch.producer[0],
            producer_epoch=batch.producer[1],
            base_sequence=batch.base_sequence,
            is_transactional=transactional,
        )
        if self._codec != "none":
            topic = batch.topic_partition.topic
            ratio = batch.builder.compression_ratio
            self._ratio[topic] = min(1.0, max(ratio * 1.05, 0.05, self._ratio.get(topic, 1.0) * 0.9))
        return batch.built(data)

    # ------------------------------------------------------------ what became of it

    def is_in_flight(self, batch: ProducerBatch) -> bool:
        """Return whether a batch was taken, and is neither done nor put back."""
        return batch in self._in_flight

    def done(self, batch: ProducerBatch) -> None:
        """Release the memory and the partition of a batch that was acknowledged or has failed."""
        self._unmute(batch)
        batch.done()

    def put_back(self, batch: ProducerBatch, retry_at: float) -> None:
        """Put back a batch that must be sent again, not before ``retry_at`` (monotonic seconds)."""
        self._unmute(batch)
        batch.retry(retry_at)
        self._queues[batch.topic_partition].batches.appendleft(batch)
        self._busy.add(batch.topic_partition)

    def split(self, batch: ProducerBatch, builders: Sequence[BatchBuilder], limit_bytes: int) -> None:
        """Put back the records of a batch that was too large, as several batches, in the same order.

        Args:
            limit_bytes: the largest size of later batches of this topic.
        """
        self._unmute(batch)
        queue = self._queues[batch.topic_partition]
        self.reuse_sequence(batch)
        parts = []
        first = 0
        for builder in builders:
            part = ProducerBatch(batch.topic_partition, builder, batch.created_at, self.memory)
            part.close()
            parts.append((first, part))
            first += builder.record_count
        whole = batch.memory
        for _, part in parts:
            batch.move_memory(part, whole * part.record_count // max(1, batch.record_count))
        batch.move_memory(parts[0][1], batch.memory)
        queue.batches.extendleft(part for _, part in reversed(parts))
        self._busy.add(batch.topic_partition)
        self._ratio[batch.topic_partition.topic] = 1.0
        topic = batch.topic_partition.topic
        self._limits[topic] = min(self._limits.get(topic, limit_bytes), limit_bytes)
        self._unsettled.discard(batch.result)
        self._unsettled.update(part.result for _, part in parts)
        batch.result.split([(index, part.result) for index, part in parts])

    def renumber(self, batch: ProducerBatch) -> None:
        """Drop the batch's sequence number, because the broker rejected it.

        The batch gets a new one when it is sent again.
        """
        batch.take_number((-1, -1), -1)

    def reuse_sequence(self, batch: ProducerBatch) -> None:
        """Free the sequence number of a failed batch, for the partition's next batch.

        The failed batch was certainly not written.
        """
        queue = self._queues.get(batch.topic_partition)
        if queue is not None and batch.base_sequence >= 0 and queue.producer == batch.producer:
            queue.go_back(batch.base_sequence)  # one is in flight at a time, so it had the last number given

    def expired(self, now: float) -> list[ProducerBatch]:
        """Remove and return the batches that have reached their delivery timeout.

        If such a batch is in flight, its partition sends nothing until the response has arrived.
        """
        limit = now - self._delivery_timeout
        found = []
        for tp in list(self._busy):
            batches = self._queues[tp].batches
            while batches and batches[0].created_at <= limit:
                batch = batches.popleft()
                batch.release()
                found.append(batch)
            if not batches:
                self._busy.discard(tp)
        for batch in self._in_flight:
            if batch.created_at <= limit and not batch.expired:
                batch.expire()
                found.append(batch)
        return found

    def drop_waiting(self, *, sent_ones: bool = True) -> list[ProducerBatch]:
        """Remove and return all batches that are not in flight.

        Args:
            sent_ones: True includes batches that wait to be sent again.
        """
        found: list[ProducerBatch] = []
        for tp in list(self._busy):
            batches = self._queues[tp].batches
            kept = [] if sent_ones else [batch for batch in batches if batch.attempts]
            found += [batch for batch in batches if sent_ones or not batch.attempts]
            batches.clear()
            batches.extend(kept)
            if not batches:
                self._busy.discard(tp)
        for batch in found:
            batch.release()
        return found

    def drop_all(self) -> list[ProducerBatch]:
        """Remove and return all batches, including those in flight, because a close has stopped waiting."""
        found = [batch for tp in self._busy for batch in self._queues[tp].batches] + list(self._in_flight)
        self._queues.clear()
        self._busy.clear()
        self._in_flight.clear()
        for batch in found:
            batch.release()
        return found

    def settled(self, result: BatchResult) -> None:
        """Record that the result of a batch is set and that its callbacks have run."""
        self._unsettled.discard(result)
        self._whole.discard(result)

    def incomplete(self) -> list[BatchResult]:
        """The results of all batches that are not settled, including batches that were removed from the queues."""
        return list(self._unsettled)

    def topics(self) -> set[str]:
        """Topics with batches that wait or are in flight."""
        waiting = {tp.topic for tp in self._busy}
        return waiting | {batch.topic_partition.topic for batch in self._in_flight}

    def unacknowledged(self, failed: Mapping[str, int]) -> dict[str, int]:
        """Return the number of records that wait or are in flight, by topic. The numbers in ``failed`` are added."""
        found = dict(failed)
        for batch in [batch for tp in self._busy for batch in self._queues[tp].batches] + [
            batch for batch in self._in_flight if not batch.expired
        ]:
            topic = batch.topic_partition.topic
            found[topic] = found.get(topic, 0) + batch.record_count
        return found

    @property
    def is_empty(self) -> bool:
        return not self._busy and not self._in_flight

    def _unmute(self, batch: ProducerBatch) -> None:
        self._in_flight.discard(batch)
        queue = self._queues.get(batch.topic_partition)
        if queue is not None:
            queue.mute(False)
