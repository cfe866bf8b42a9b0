"""One partition's records in a fetch response, and the check whether they are stale. A core: no I/O, no clock.

:mod:`.fetcher` makes these of the responses that arrive. :mod:`.fetch_buffer` queues them.

Rules (their numbers are those of :mod:`.fetch_buffer`, which has the others)

2. A response is stale if its partition is not assigned any more, or is in another fetch epoch or at another fetch
   offset than when it was requested. One that arrives stale is dropped (:func:`is_stale`, which the fetcher asks). A
   fetch that becomes stale in the buffer (:attr:`CompletedFetch.is_current`) is dropped at once, with its memory. The
   events that raise the fetch epoch: rule 3 of :mod:`.subscription_state`.
4. :attr:`CompletedFetch.next_offset` is the offset after everything that :meth:`CompletedFetch.take` has read, hidden
   records (control records, aborted transactions) included. Positions move there and nowhere else.
5. A deserializer that is interrupted (Ctrl-C) loses no record: the fetch starts again at the first one that was not
   returned. An error of a record comes again until the position has moved past it.
7. A record set is a view into the memory of the whole response. :meth:`CompletedFetch.detach` copies this partition's
   part, so that the response can be freed.

:func:`no_whole_batch` is the error for a part that holds bytes, but not one whole batch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from pyconsumer.consumer.fetch_session import SessionPartition
from pyconsumer.consumer.partition_state import TopicPartitionState
from pyconsumer.errors import CorruptRecordError, KafkaError, RecordTooLargeError
from pyconsumer.generic import PendingError
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.records import ColumnsBuilder, ConsumerRecord, Cursor
from pyconsumer.protocol.records.batch import BATCH_OVERHEAD, CRC_START
from pyconsumer.protocol.records.crc import crc32c
from pyconsumer.structs import TopicPartition

__all__ = ["CompletedFetch", "Convert", "Frame", "is_stale", "no_whole_batch"]

Convert = Callable[[list[ConsumerRecord[Any, Any]]], tuple[list[ConsumerRecord[Any, Any]], int, Exception | None]]
"""Deserializes raw records: returns the good ones, the number of raw ones used up, and the error that stopped it."""


def is_stale(state: TopicPartitionState, asked: SessionPartition) -> bool:
    """Return whether a response for an assigned partition is stale (rule 2).

    Args:
        state: state of the partition.
        asked: the request for the partition.
    """
    return state.fetch_offset != asked[1] or state.fetch_epoch != asked[4]  # by index, which takes fewer steps


class Frame:
    """Memory that is shared by the record sets of one response.

    Attributes:
        memory: the bytes. Each record set is a view of a part of them.
        parts: the fetches that still read from the memory.
    """

    __slots__ = ("memory", "parts")

    def __init__(self, memory: bytearray) -> None:
        self.memory = memory
        self.parts: set[CompletedFetch] = set()

    def release(self, part: CompletedFetch) -> int:
        """Remove a fetch that no longer reads from this memory.

        Return the number of bytes that become free: 0 until the last fetch is removed, then all.
        """
        parts = self.parts
        parts.discard(part)
        return 0 if parts else len(self.memory)


# Base offset, length, leader epoch, magic, crc, attributes, last offset delta.
_HEADER: Final = struct.Struct(">qiibIhi")
_OFFSET: Final = struct.Struct(">q")
_MAGICS: Final = (0, 1, 2)

_NO_RECORDS: Final[list[ConsumerRecord[Any, Any]]] = []
"""The records of a fetch that has decoded none ahead; nothing is ever added to this list."""
_NOTHING: Final[tuple[Buffer, bool, Sequence[tuple[int, int]] | None, type | None]] = (b"", True, None, None)


class CompletedFetch:
    """The records of one partition from one fetch response, or the error that arrived instead of records.

    Args:
        state: the partition.
        buffer: the record set, a view into the frame of the response. It is empty if there is an error.
        fetch_offset: the offset that was requested.
        check_crcs: True to check each batch's checksum.
        aborted: aborted transactions (producer id, first offset) for ``read_committed``, otherwise None.
        error: a function that is called when this fetch is next in the queue. It returns the error to raise, or None if
            the error is obsolete.
        frame: the response that contains the record set. Its memory is counted instead of the record set's.
        form: the class of the records that the decoder makes. None makes ``ConsumerRecord``. (:mod:`pyconsumer.compat`
            uses other classes.)

    Attributes:
        frame: the response that contains the record set, as long as this fetch is in a ``FetchBuffer``. None if the
            record set has memory of its own.
        charged, charged_decompressed: bytes counted at the last :meth:`charge`: in total, and only decompressed ones.
        blocks: True if the partition must not be fetched until this fetch has been removed. That is so for an error,
            and for a batch with a damaged header, since the next fetch could not continue after it.
        is_begun: True once iteration has taken records.
        is_paused: True while the partition is paused (rule 3 of :mod:`.fetch_buffer`).
        raw: decoded records that are not deserialized yet.
        ready: records that were decoded ahead for iteration. The next record is the last in the list.
    """

    __slots__ = (
        "_source",
        "_waits",
        "blocks",
        "charged",
        "charged_decompressed",
        "cursor",
        "dropped",
        "error",
        "fetch_epoch",
        "frame",
        "is_begun",
        "is_paused",
        "raw",
        "ready",
        "state",
        "topic_partition",
    )

    def __init__(
        self,
        state: TopicPartitionState,
        buffer: Buffer = b"",
        *,
        fetch_offset: int,
        check_crcs: bool = True,
        aborted: Sequence[tuple[int, int]] | None = None,
        error: Callable[[], Exception | None] | None = None,
        frame: Frame | None = None,
        form: type | None = None,
    ) -> None:
        self.state = state
        self.topic_partition = tp = state.topic_partition
        self.fetch_epoch = state.fetch_epoch
        self.error = error
        self.frame = frame
        self.charged = self.charged_decompressed = 0
        self.dropped = self.is_paused = self.is_begun = False
        self._source = buffer, check_crcs, aborted, form
        self.raw = self.ready = _NO_RECORDS
        self._waits: tuple[int, object, PendingError] | None = None
        self.cursor = cursor = Cursor(
            tp, buffer, fetch_offset=fetch_offset, check_crcs=check_crcs, aborted=aborted, form=form
        )
        self.blocks = (cursor.size_bytes < len(buffer) and not cursor.has_incomplete_batch) or error is not None

    def begin(self) -> None:
        """Note that iteration takes records."""
        self.is_begun = True

    @property
    def is_current(self) -> bool:
        """Return whether this fetch is still valid (rule 2)."""
        return not self.dropped and self.fetch_epoch == self.state.fetch_epoch

    @property
    def next_offset(self) -> int:
        """The offset after the last record that was taken."""
        if self.ready:
            return self.ready[-1].offset
        if self.raw:
            return self.raw[0].offset
        return self.cursor.next_offset

    @property
    def next_timestamp(self) -> int | None:
        """The timestamp (ms) of the next record, None if no record is left. See :attr:`Cursor.next_timestamp`."""
        if self.ready:
            return self.ready[-1].timestamp
        if self.raw:
            return self.raw[0].timestamp
        return self.cursor.next_timestamp

    @property
    def memory(self) -> bytearray | None:
        """The memory of the frame, if the record set is a view of it. Otherwise None."""
        buffer = self._source[0]
        return buffer.obj if isinstance(buffer, memoryview) else None  # type: ignore[return-value]

    @property
    def size_bytes(self) -> int:
        """Memory (bytes) that belongs to this fetch alone.

        It includes the open batch. The record set is included only if it is not a part of ``frame``.
        """
        if self.dropped:
            return 0
        own = 0 if self.frame is not None else len(self.memory or self._source[0])
        return own + self.cursor.decompressed_bytes

    @property
    def record_set_bytes(self) -> int:
        """Size of the record set in bytes."""
        return len(self._source[0])

    @property
    def record_bytes(self) -> float:
        """The approximate size of one record in bytes (compressed, if records are).

        It is not exact, because compaction and transactions leave gaps in the offsets.
        """
        return self.record_set_bytes / max(1, self.cursor.end_offset - self.cursor.next_offset)

    @property
    def exhausted(self) -> bool:
        """True if no record is left."""
        return not self.ready and not self.raw and self.cursor.exhausted

    def take(self, count: int, convert: Convert | None) -> list[ConsumerRecord[Any, Any]]:
        """Take up to ``count`` records, deserialized by ``convert``.

        Raises:
            KafkaError: the first record cannot be decoded or deserialized. The next call raises the same error again.
        """
        if self.ready:
            records = self.ready[: -count - 1 : -1]
            del self.ready[-count:]
            return records
        if self.raw:
            raw, self.raw = self.raw[:count], self.raw[count:]
        else:
            raw = self.cursor.take(count)
        if convert is None or not raw:
            return raw
        offset = raw[0].offset
        try:
            records, used, error = convert(raw)
        except BaseException:
            self.restart(offset)  # Ctrl-C in a deserializer: none of them is returned
            raise
        if used < len(raw):
            self.raw = raw[used:] + self.raw
        if error is not None and not records and used == 0:
            raise error
        return records

    def take_one(self, ahead: int, convert: Convert | None) -> ConsumerRecord[Any, Any] | None:
        """Take one record for iteration, and decode up to ``ahead`` records in advance.

        Return None if no record is left. Errors are those of :meth:`take`.
        """
        if not self.ready:
            ready = self.take(ahead, convert)
            if not ready:
                return None
            ready.reverse()
            self.ready = ready
        return self.ready.pop()

    def take_into(self, columns: ColumnsBuilder, max_records: int, max_bytes: int) -> int:
        """Append records to columns, and return how many were appended. Errors are those of :meth:`take`."""
        if self.ready or self.raw:
            self.restart(self.next_offset)
        return self.cursor.take_into(columns, max_records, max_bytes)

    def records_from(self, offset: int, count: int) -> list[ConsumerRecord[Any, Any]]:
        """Decode records once more, from an offset on, without taking them."""
        buffer, check_crcs, aborted, _ = self._source
        return Cursor(self.topic_partition, buffer, fetch_offset=offset, check_crcs=check_crcs, aborted=aborted).take(
            count
        )

    def record_at(self, offset: int, start: int) -> ConsumerRecord[Any, Any]:
        """Decode the record at an offset once more. ``start`` is one of an earlier record."""
        return self.records_from(max(offset, start), 1)[0]

    def leave(self, frame: Frame) -> int:
        """Stop sharing the memory of a response. Return the result of :meth:`Frame.release`."""
        self.frame = None
        return frame.release(self)

    def charge(self) -> int:
        """Count the memory that belongs to this fetch alone.

        Return by how many bytes it has changed since the last call.
        """
        size = self.size_bytes
        change = size - self.charged
        self.charged = size
        self.charged_decompressed = self.cursor.decompressed_bytes
        return change

    def pause(self) -> None:
        """Leave the queue while the partition is paused (rule 3)."""
        self.is_paused = True

    def restore(self) -> None:
        """Return to the queue after the pause."""
        self.is_paused = False

    def detach(self) -> None:
        """Copy this partition's bytes out of the response, so that the response's memory can be freed."""
        offset = self.next_offset
        buffer, *rest = self._source
        self._source = bytes(buffer), *rest  # type: ignore[assignment]
        self.restart(offset)

    def wait_for(self, offset: int, reader: object, error: PendingError) -> None:
        """Note the wait of the next record, so that the same columns are not decoded at each wake.

        Args:
            offset: the offset of the record.
            reader: the identity of the columns.
            error: has the awaited schemas.
        """
        self._waits = offset, reader, error

    def awaited(self, reader: object) -> PendingError | None:
        """Return the error of :meth:`wait_for` if the same record still waits for the same columns."""
        if self._waits is None:
            return None
        offset, of, error = self._waits
        if offset == self.next_offset and of == reader and not error.arrival.done():
            return error.with_traceback(None)  # it is raised again at each wake, and its traceback must not grow
        self._waits = None
        return None

    def restart(self, offset: int) -> None:
        """Read again from an offset. Records that were decoded ahead are dropped."""
        self.raw = _NO_RECORDS
        self.ready.clear()  # iteration may hold this list
        buffer, check_crcs, aborted, form = self._source
        self.cursor = Cursor(
            self.topic_partition, buffer, fetch_offset=offset, check_crcs=check_crcs, aborted=aborted, form=form
        )

    def forget_ahead(self) -> None:
        """Drop the records that were decoded ahead. They are decoded again."""
        if self.ready:
            self.restart(self.next_offset)

    def drop(self) -> int:
        """Release all memory. Return how many bytes of the response became free (see :meth:`Frame.release`)."""
        self.dropped = True
        self._source = _NOTHING
        if self.ready is not self.raw:  # both are the empty list of all fetches
            self.raw = _NO_RECORDS
            self.ready.clear()  # iteration may hold this list
        self.cursor.close()
        frame = self.frame
        if frame is None:
            return 0
        self.frame = None
        return frame.release(self)


def no_whole_batch(tp: TopicPartition, fetch_offset: int, records: Buffer, limit: int) -> KafkaError:
    """Return the error for a response that ends in the middle of its first batch.

    The checksum of a batch does not cover the length in its header. The length counts as damaged in three cases. The
    broker sent less than it was allowed to. Or the rest of the header makes no sense. Or the bytes up to the next batch
    have the right checksum. (Brokers send the first batch whole, however large it is: KIP-74.)

    Args:
        tp: the partition.
        fetch_offset: the offset that was requested.
        records: the bytes of the response.
        limit: the largest size (bytes) that was requested.
    """
    size = len(records)
    if size < BATCH_OVERHEAD:
        return _damaged(tp, fetch_offset, -1, f"{size} bytes are no header")
    base_offset, length, _, magic, crc, _, delta = _HEADER.unpack_from(records, 0)
    next_offset = base_offset + delta + 1 if magic == 2 and delta >= 0 else -1
    if magic not in _MAGICS or base_offset < 0 or (magic == 2 and not base_offset <= fetch_offset < next_offset):
        return _damaged(tp, fetch_offset, -1, f"magic {magic}, base offset {base_offset}, length {length}")
    reason = f"its header says {length} bytes, and the broker sent {size}"
    if size < limit or (magic == 2 and _ends_before(records, next_offset, crc)):
        return _damaged(tp, fetch_offset, next_offset, reason)
    return RecordTooLargeError(
        f"{tp} at offset {fetch_offset}: the broker sent {size} bytes without a whole batch; raise"
        " max_partition_fetch_bytes"
    )


def _ends_before(records: Buffer, next_offset: int, crc: int) -> bool:
    """Return whether a batch that begins with ``next_offset`` follows where the checksum of the first one is right."""
    data = bytes(records)
    start = _OFFSET.pack(next_offset)
    position = data.find(start, BATCH_OVERHEAD)
    while position >= 0:
        if crc32c(data[CRC_START:position]) == crc:
            return True
        position = data.find(start, position + 1)
    return False


def _damaged(tp: TopicPartition, offset: int, next_offset: int, reason: str) -> CorruptRecordError:
    return CorruptRecordError(
        f"the length of the record batch here is damaged: {reason}. Seek past the batch, or have the log repaired",
        topic_partition=tp,
        offset=offset,
        next_offset=next_offset,
    )
