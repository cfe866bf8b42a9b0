"""One pass through a broker's log, which finds index entries, leader epochs and producers.

That is the end of the log, entries for the offset and time indexes, leader epochs, the state of producers, and the
transactions that have ended. No I/O: the caller reads the segments and feeds their bytes. :class:`LogScan` exists also
as compiled code with the same results, which is some hundred times faster.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, TypeAlias

from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.records.batch import (
    BATCH_OVERHEAD,
    CONTROL_FLAG,
    CRC_START,
    HEADER_V2,
    LOG_OVERHEAD,
    TRANSACTIONAL_FLAG,
    BatchInfo,
    scan_until_damage,
)
from pyconsumer.protocol.records.control import ControlRecordType
from pyconsumer.protocol.records.crc import crc32c
from pyconsumer.protocol.records.cursor import read_end_transaction_marker

__all__ = ["LogScan", "ScanStop", "ScannedBatch", "ScannedProducer"]

_KEPT_BATCHES: Final = 5
_MAX_OFFSET: Final = 2**63 - 1
_MAX_RELATIVE_OFFSET: Final = 2**31 - 1

#: Last sequence, last offset, last offset minus the first, timestamp in ms.
ScannedBatch: TypeAlias = tuple[int, int, int, int]
#: Producer id, epoch, coordinator epoch, last timestamp in ms, first offset of the open transaction (-1 without one),
#: and the last batches, at most five.
ScannedProducer: TypeAlias = tuple[int, int, int, int, int, list[ScannedBatch]]


class ScanStop(IntEnum):
    """The reason why a scan stopped before the end of the data."""

    NONE = 0
    INCOMPLETE = 1  #: the last batch goes on after the data
    HEADER = 2  #: a header is damaged
    CHECKSUM = 3
    ORDER = 4  #: a batch begins before the end of the one before, or is out of the segment's range
    FORMAT = 5  #: a message set of format v0 or v1


class _Producer:
    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "txn_first_offset")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.txn_first_offset = -1
        self.batches: deque[ScannedBatch] = deque(maxlen=_KEPT_BATCHES)

    def touch(self, epoch: int, timestamp: int) -> None:
        """Record a batch of ``epoch``. A new one has no batches yet."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
        self.last_timestamp = timestamp

    def restore(self, coordinator_epoch: int, timestamp: int, batches: Iterable[ScannedBatch]) -> None:
        """Set the values of a snapshot."""
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = timestamp
        self.batches.extend(batches)

    def begin(self, offset: int) -> None:
        """Begin a transaction."""
        self.txn_first_offset = offset

    def end(self, coordinator_epoch: int) -> int:
        """End the transaction. Return its first offset, -1 if none was open."""
        first, self.txn_first_offset = self.txn_first_offset, -1
        self.coordinator_epoch = coordinator_epoch
        return first


class LogScan:
    """Reads the segments of one log, in the order of their offsets.

    For each segment call :meth:`begin_segment` or :meth:`resume_segment`, then call :meth:`feed` until all bytes are
    read. Bounds, index entries and aborted transactions are those of the current segment. All other results are for the
    whole log.

    Args:
        index_interval_bytes: the distance between index entries, in bytes.
        latest_epoch: the latest known leader epoch. A batch with a later epoch adds a new epoch.
        producers_from: batches that end before this offset do not count for the state of producers.

    Attributes:
        base_offset, next_offset: offsets of the segment. ``next_offset`` is the offset after the last batch.
        position: the end of the last batch in the segment. ``last_batch_position`` is its beginning, or -1.
        since_index: the number of bytes since the last index entry.
        max_timestamp, max_timestamp_offset, first_timestamp: the same values as in a broker's segment.
        stop: the reason why :meth:`feed` stopped, a :class:`ScanStop`.
    """

    def __init__(self, index_interval_bytes: int, latest_epoch: int = -1, producers_from: int = 0) -> None:
        self.base_offset = self.next_offset = self.position = self.since_index = self.max_timestamp_offset = 0
        self.max_timestamp = self.first_timestamp = self.last_batch_position = -1
        self.stop: int = ScanStop.NONE
        self._interval = index_interval_bytes
        self._latest_epoch = latest_epoch
        self._producers_from = producers_from
        self._last_indexed_timestamp = -1
        self._offsets: tuple[array[int], array[int]] = array("q"), array("q")
        self._times: tuple[array[int], array[int]] = array("q"), array("q")
        self._epochs: list[tuple[int, int]] = []
        self._aborted: list[tuple[int, int, int, int]] = []
        self._ended: dict[int, int] = {}
        self._producers: dict[int, _Producer] = {}
        #: The producers with an open transaction, by its first offset, in the order of offsets.
        self._open: dict[int, int] = {}

    # --- input

    def begin_segment(self, base_offset: int) -> None:
        """Start at the first batch of a segment."""
        self.resume_segment(base_offset, base_offset, 0, -1, base_offset, -1)

    def resume_segment(
        self,
        base_offset: int,
        next_offset: int,
        position: int,
        max_timestamp: int,
        max_timestamp_offset: int,
        first_timestamp: int,
    ) -> None:
        """Start in the middle of a segment.

        Args:
            position: the position of a batch. It is the batch of the last entry in the offset index, or an earlier one.
            next_offset: the lowest possible offset of the batches from that position on.
            max_timestamp, max_timestamp_offset: the last entry of the time index.
            first_timestamp: the first timestamp of the segment.
        """
        self.base_offset, self.next_offset, self.position = base_offset, next_offset, position
        self.max_timestamp = self._last_indexed_timestamp = max_timestamp
        self.max_timestamp_offset, self.first_timestamp = max_timestamp_offset, first_timestamp
        self.since_index, self.last_batch_position, self.stop = 0, -1, ScanStop.NONE
        self._offsets, self._times, self._aborted = (array("q"), array("q")), (array("q"), array("q")), []

    def add_producer(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        last_timestamp: int,
        txn_first_offset: int,
        batches: Iterable[ScannedBatch],
    ) -> None:
        """Add a producer from a snapshot.

        Producers with open transactions must be added in the order of their first offsets.
        """
        producer = self._producers.setdefault(producer_id, _Producer(epoch))
        producer.touch(epoch, last_timestamp)
        producer.restore(coordinator_epoch, last_timestamp, batches)
        if txn_first_offset >= 0 and producer.txn_first_offset < 0:
            producer.begin(txn_first_offset)
            self._open[txn_first_offset] = producer_id

    def feed(self, data: Buffer, check_crcs: bool = True) -> int:
        """Read the batches at the beginning of ``data``. The data must continue where the last batch ended.

        Returns:
            The number of bytes read. If it is less than the length of ``data``, ``stop`` has the reason.

        Raises:
            CorruptRecordError: a transaction marker cannot be read, although its batch is not damaged.
        """
        place, size, view = 0, len(data), memoryview(data)
        while place < size:
            self.stop = self._header(view, place, check_crcs)
            if self.stop != ScanStop.NONE:
                return place
            place += self.position - self.last_batch_position
        self.stop = ScanStop.NONE
        return place

    def _header(self, view: memoryview, place: int, check_crcs: bool) -> ScanStop:
        """Read one batch. Return the reason if that is impossible."""
        if len(view) - place >= BATCH_OVERHEAD and view[place + 16] == 2:
            fields = HEADER_V2.unpack_from(view, place)
            base_offset, length, _, _, crc, _, delta = fields[:7]
            size = length + LOG_OVERHEAD
            if size < BATCH_OVERHEAD:
                return ScanStop.HEADER
            if size > len(view) - place:
                return ScanStop.INCOMPLETE
            if base_offset < 0 or delta < 0 or base_offset + delta >= _MAX_OFFSET or fields[12] < 0:
                return ScanStop.HEADER
        else:
            found, damage = scan_until_damage(view[place:])
            return ScanStop.FORMAT if found else ScanStop.HEADER if damage is not None else ScanStop.INCOMPLETE
        if base_offset < self.next_offset or base_offset + delta - self.base_offset > _MAX_RELATIVE_OFFSET:
            return ScanStop.ORDER
        if check_crcs and crc32c(view[place + CRC_START : place + size]) != crc:
            return ScanStop.CHECKSUM
        if fields[9] >= 0 and base_offset + delta >= self._producers_from:
            self._add_to_producers(view[place : place + size], fields)
        self._add_to_index(size, fields)
        return ScanStop.NONE

    def _add_to_index(self, size: int, fields: tuple[int, ...]) -> None:
        base_offset, _, leader_epoch, _, _, _, delta, _, max_timestamp, _, _, _, count = fields
        last_offset = base_offset + delta
        if max_timestamp > self.max_timestamp and count:
            self.max_timestamp, self.max_timestamp_offset = max_timestamp, last_offset
        if self.position == 0:
            self.first_timestamp = max_timestamp
        if self.since_index > self._interval:
            self._offsets[0].append(last_offset)
            self._offsets[1].append(self.position)
            if self.max_timestamp >= 0 and self.max_timestamp > self._last_indexed_timestamp:
                self._times[0].append(self.max_timestamp)
                self._times[1].append(self.max_timestamp_offset)
                self._last_indexed_timestamp = self.max_timestamp
            self.since_index = 0
        self.since_index += size
        if leader_epoch > self._latest_epoch:
            self._latest_epoch = leader_epoch
            self._epochs.append((leader_epoch, base_offset))
        self.last_batch_position = self.position
        self.position += size
        self.next_offset = last_offset + 1

    def _add_to_producers(self, batch: memoryview, fields: tuple[int, ...]) -> None:
        base_offset, _, _, _, _, attributes, delta, _, timestamp, producer_id, epoch, sequence, _ = fields
        if attributes & CONTROL_FLAG:
            info = scan_until_damage(batch)[0][0]
            marker = read_end_transaction_marker(batch, info)
            if marker is not None:
                committed = marker.type is ControlRecordType.COMMIT
                self._end_transaction(info, marker.coordinator_epoch, committed=committed)
            return
        producer = self._producers.setdefault(producer_id, _Producer(epoch))
        producer.touch(epoch, timestamp)
        last_sequence = -1 if sequence < 0 else (sequence + delta) & 0x7FFFFFFF
        producer.batches.append((last_sequence, base_offset + delta, delta, timestamp))
        if attributes & TRANSACTIONAL_FLAG and producer.txn_first_offset < 0:
            producer.begin(base_offset)
            self._open[base_offset] = producer_id

    def _end_transaction(self, info: BatchInfo, coordinator_epoch: int, *, committed: bool) -> None:
        producer = self._producers.setdefault(info.producer_id, _Producer(info.producer_epoch))
        producer.touch(info.producer_epoch, info.max_timestamp)
        first = producer.end(coordinator_epoch)
        if first < 0:
            return
        self._open.pop(first, None)
        self._ended[first] = info.last_offset
        if not committed:
            stable = next(iter(self._open), info.last_offset + 1)
            self._aborted.append((info.producer_id, first, info.last_offset, stable))

    # --- results

    def offset_entries(self) -> tuple[array[int], array[int]]:
        """Return the entries for the offset index.

        Each is the last offset of a batch, and the position of the batch.
        """
        return self._offsets

    def time_entries(self) -> tuple[array[int], array[int]]:
        """Return the entries for the time index. Each is a timestamp in ms, and an offset."""
        return self._times

    def epochs(self) -> list[tuple[int, int]]:
        """Return the new leader epochs with their start offsets."""
        return self._epochs

    def aborted(self) -> list[tuple[int, int, int, int]]:
        """Return the aborted transactions.

        Each is a producer id, the first offset, the marker's offset, and the last stable offset.
        """
        return self._aborted

    def ended(self) -> dict[int, int]:
        """Return all ended transactions, as the offset of the marker by the first offset."""
        return self._ended

    def producers(self) -> list[ScannedProducer]:
        """Return all producers."""
        return [
            (
                producer_id,
                one.epoch,
                one.coordinator_epoch,
                one.last_timestamp,
                one.txn_first_offset,
                list(one.batches),
            )
            for producer_id, one in self._producers.items()
        ]
