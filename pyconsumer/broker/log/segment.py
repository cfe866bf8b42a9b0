"""One segment: a file of record batches in the order of their offsets, and its three indexes, which it owns.

A segment finds the positions of batches. :class:`~pyconsumer.broker.log.partition_log.PartitionLog` owns the segments
and decides which batches are appended, and up to which offset they are read. A segment is appended to, then sealed, and
at last removed or closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pyconsumer.background_log import Log
from pyconsumer.broker.log.index import OffsetIndex, TimeIndex
from pyconsumer.broker.log.storage import DataFile, FileRecords, Storage, segment_name
from pyconsumer.broker.log.transaction_index import TransactionIndex
from pyconsumer.errors import CorruptRecordError
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.records import EndTransactionMarker, read_end_transaction_marker
from pyconsumer.protocol.records.batch import BATCH_OVERHEAD, BatchInfo, check_crc, scan, scan_until_damage
from pyconsumer.structs import TopicPartition

__all__ = ["Segment"]

_log = Log(__name__)


_HEADERS_BYTES = 8192  # read at a time to find a batch by its header
_SCAN_BYTES = 1 << 20
_NO_TIMESTAMP = -1


class Segment:
    """The batches from ``base_offset`` on.

    Attributes:
        next_offset: the offset after the last batch.
        max_timestamp: the greatest timestamp in ms, -1 without any. ``max_timestamp_offset`` is the last offset of its
            batch. Batches that compaction has emptied are left out.
        first_timestamp: the max timestamp of the first batch, -1 if there is none. ``segment.ms`` counts from it.
        created_ms: wall time of the first append. ``segment.ms`` counts from it if records have no timestamp.
    """

    def __init__(
        self, storage: Storage, base_offset: int, index_interval_bytes: int, created_ms: int, suffix: str = ""
    ) -> None:
        self._storage = storage
        self.base_offset = base_offset
        self._suffix = suffix
        self.offset_index = OffsetIndex(storage, segment_name(base_offset, "index") + suffix, base_offset)
        self.time_index = TimeIndex(storage, segment_name(base_offset, "timeindex") + suffix, base_offset)
        self.transaction_index = TransactionIndex(storage, segment_name(base_offset, "txnindex") + suffix)
        # Opened last, because it stays open: if an index cannot be opened, no descriptor is left.
        self._log: DataFile = storage.open(segment_name(base_offset, "log") + suffix)
        self._interval = index_interval_bytes
        self._since_index = 0
        self.next_offset = base_offset
        self.max_timestamp = _NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.first_timestamp = _NO_TIMESTAMP
        self.created_ms = created_ms
        self._last_batch_position = -1
        #: The batch that was appended last: the offsets after the one before it and after it, its position and size.
        self._newest = (0, 0, 0, 0)
        self._unsynced = False
        #: The positions of damage that was logged.
        self._logged_damage: set[int] = set()

    def begin(self, now_ms: int) -> None:
        """Record the wall time of the first append."""
        self.created_ms = now_ms

    @property
    def size_bytes(self) -> int:
        return self._log.size

    # --- writing

    def append(self, batches: Sequence[BatchInfo], buffers: Sequence[Buffer]) -> None:
        """Write whole batches at the end.

        Args:
            batches: their headers, with their offsets in the log.
            buffers: their bytes, in any number of pieces.

        Raises:
            OSError: the file could not be written; nothing was appended.
        """
        position = self._log.size
        self._log.append(buffers)
        self._unsynced = True
        self._index(batches, position)

    def _note_timestamp(self, batch: BatchInfo) -> None:
        if batch.max_timestamp > self.max_timestamp and batch.record_count:
            self.max_timestamp, self.max_timestamp_offset = batch.max_timestamp, batch.last_offset

    def _index(self, batches: Sequence[BatchInfo], position: int) -> None:
        """Update the indexes and bounds for batches that were written at ``position``."""
        for batch in batches:
            self._note_timestamp(batch)
            if position == 0:
                self.first_timestamp = batch.max_timestamp
            if self._since_index > self._interval:
                self.offset_index.append(batch.last_offset, position)
                if self.max_timestamp >= 0:
                    self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
                self._since_index = 0
            self._since_index += batch.size_bytes
            self._last_batch_position = position
            self._newest = (self.next_offset, batch.last_offset + 1, position, batch.size_bytes)
            position += batch.size_bytes
            self.next_offset = batch.last_offset + 1

    def seal(self) -> None:
        """Complete the time index, because nothing more is appended, and write the indexes."""
        if self.max_timestamp >= 0:
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        self.offset_index.write()
        self.time_index.write()
        self.transaction_index.write(sync=True)  # it is not rebuilt if a later producer snapshot is used

    def flush(self) -> None:
        """Flush batches and indexes to disk."""
        if self._unsynced:
            self._log.flush()
            self.offset_index.flush()
            self.time_index.flush()
            self.transaction_index.write(sync=True)
            self._unsynced = False

    def flusher(self) -> Callable[[], None] | None:
        """Return a function that flushes the batches to disk in any thread; None if they are on disk."""
        if not self._unsynced:
            return None
        self._unsynced = False
        return self._log.flusher()

    def close(self) -> None:
        """Complete the indexes and close the file."""
        self.seal()
        self._log.close()

    def abandon(self) -> None:
        """Close the file without writing anything, as if the process had been killed."""
        self._log.close()

    def remove(self) -> None:
        """Close and remove all files."""
        self._log.close()
        self._storage.remove(segment_name(self.base_offset, "log") + self._suffix)
        self.offset_index.file.remove()
        self.time_index.file.remove()
        self.transaction_index.remove()

    def rename(self, suffix: str) -> None:
        """Replace the suffix of all file names."""
        # First the index that cannot be rebuilt from this segment alone.
        self.transaction_index.rename(segment_name(self.base_offset, "txnindex") + suffix)
        self._storage.rename(
            segment_name(self.base_offset, "log") + self._suffix, segment_name(self.base_offset, "log") + suffix
        )
        self._suffix = suffix  # before the indexes, so that :meth:`remove` finds the log if one cannot be renamed
        self.offset_index.file.rename(segment_name(self.base_offset, "index") + suffix)
        self.time_index.file.rename(segment_name(self.base_offset, "timeindex") + suffix)

    # --- reading

    def read(self, position: int, size: int) -> bytes:
        """Return ``size`` bytes from a position; fewer only at the end."""
        return self._log.read(position, size)

    def records(self, position: int, size: int) -> FileRecords:
        """Return ``size`` bytes from a position that are read later."""
        return self._log.records(position, size)

    def locate(self, offset: int) -> tuple[int, int] | None:
        """Return position and size of the first batch that ends at or after ``offset``; None if there is none."""
        size = self._log.size
        after, before, at, batch_size = self._newest
        if after <= offset < before:
            return at, batch_size  # as for every reader at the end
        position = self.offset_index.position_before(offset)
        while position < size:
            chunk = self._log.read(position, _HEADERS_BYTES)
            at, end = 0, len(chunk)
            while end - at >= BATCH_OVERHEAD:
                batch_size = int.from_bytes(chunk[at + 8 : at + 12], "big") + 12
                last = int.from_bytes(chunk[at : at + 8], "big") + int.from_bytes(chunk[at + 23 : at + 27], "big")
                if last >= offset:
                    return position + at, batch_size
                at += batch_size
            if not at:
                return None
            position += at
        return None

    def log_damage(self, topic_partition: TopicPartition, offset: int) -> None:
        """Log, once, the batch with an impossible length because of which ``offset`` cannot be found or read."""
        position, size = self.offset_index.position_before(offset), self._log.size
        while position < size:
            header = self._log.read(position, BATCH_OVERHEAD)
            batch_size = int.from_bytes(header[8:12], "big") + 12
            if len(header) < BATCH_OVERHEAD or not BATCH_OVERHEAD <= batch_size <= size - position:
                break
            position += batch_size
        if position < size and position not in self._logged_damage:
            self._logged_damage.add(position)
            _log.error(
                "%s: the file %s is damaged: the batch at byte %d has an impossible length, and the records from there"
                " to offset %d cannot be read. Restore the file, or stop the broker and truncate the file to that byte",
                topic_partition,
                segment_name(self.base_offset),
                position,
                self.next_offset - 1,
            )

    def batches(self, position: int = 0, end: int | None = None) -> Iterator[tuple[BatchInfo, bytes]]:
        """Yield all batches from a position on, each with its bytes. ``info.position`` is that in the file.

        Raises:
            CorruptRecordError: a header is damaged.
        """
        end = self._log.size if end is None else min(end, self._log.size)
        want = _SCAN_BYTES
        while position < end:
            chunk = self._log.read(position, min(want, end - position))
            found = scan(chunk)
            if not found:
                if len(chunk) < want:  # the end of the file, or it was truncated in the meantime
                    return
                want = self._size_needed(chunk, want)
                continue
            want = _SCAN_BYTES
            for info in found:
                yield info._replace(position=position + info.position), chunk[info.position : info.end_position]
            position += found[-1].end_position

    @staticmethod
    def _size_needed(chunk: bytes, want: int) -> int:
        """Return how many bytes to read for a batch that is larger than ``want``."""
        return max(int.from_bytes(chunk[8:12], "big") + 12, want * 2)

    def headers(self, position: int = 0) -> Iterator[BatchInfo]:
        """Yield the headers of all batches from a position on. ``info.position`` is that in the file.

        Raises:
            CorruptRecordError: a header is damaged; the headers before it have been yielded.
        """
        size = self._log.size
        while position < size:
            chunk = self._log.read(position, _SCAN_BYTES)
            found, damage = scan_until_damage(chunk)
            for info in found:
                yield info._replace(position=position + info.position)
            if damage is not None:
                raise damage
            if found:
                position += found[-1].end_position
                continue
            # A batch that is larger than the chunk.
            batch_size = int.from_bytes(chunk[8:12], "big") + 12
            if len(chunk) < BATCH_OVERHEAD or position + batch_size > size:
                return
            found, damage = scan_until_damage(self._log.read(position, batch_size))
            if damage is not None or not found:
                raise damage or CorruptRecordError(f"no batch at byte {position}")
            yield found[0]._replace(position=position)
            position += batch_size

    # --- opening and recovery

    def load_bounds(self) -> None:
        """Find ``next_offset`` and the timestamps from the indexes and the batches after their last entries."""
        timestamp, offset = self.time_index.last_entry
        self.max_timestamp, self.max_timestamp_offset = timestamp, offset
        self._last_batch_position = -1
        position = self.offset_index.last_entry[1]
        first = next(self.headers(), None)
        self.first_timestamp = first.max_timestamp if first is not None else _NO_TIMESTAMP
        self._since_index = 0
        for info in self.headers(position):
            self._note_timestamp(info)
            self._since_index += info.size_bytes
            self._last_batch_position = info.position
            self.next_offset = info.last_offset + 1

    def mark(self) -> list[int]:
        """Return the mark of a sealed segment: its bounds, sizes and the indexes' checksums, see :meth:`matches`."""
        return [
            self.base_offset,
            self.size_bytes,
            self.next_offset,
            self._last_batch_position,
            self.offset_index.file.checksum(),
            self.time_index.file.checksum(),
        ]

    def matches(self, mark: Sequence[int]) -> bool:
        """Return whether the log has the size, and the indexes have the content, that they had in :meth:`mark`."""
        return [self.base_offset, self.size_bytes, *mark[2:4]] == list(mark[:4]) and [
            self.offset_index.file.checksum(),
            self.time_index.file.checksum(),
        ] == list(mark[4:])

    def ends_as(self, mark: Sequence[int]) -> bool:
        """Return whether the last batch is undamaged and that of :meth:`mark`; bounds must have been loaded."""
        if [self.next_offset, self._last_batch_position] != list(mark[2:4]):
            return False
        if self._last_batch_position < 0:
            return self.size_bytes == 0
        data = self.read(self._last_batch_position, self.size_bytes - self._last_batch_position)
        found, damage = scan_until_damage(data)
        return damage is None and len(found) == 1 and found[0].end_position == len(data) and check_crc(data, found[0])

    def end_marker(self, info: BatchInfo) -> EndTransactionMarker | None:
        """Read the end marker of a control batch, see :func:`read_end_transaction_marker`."""
        return read_end_transaction_marker(self.read(info.position, info.size_bytes), info._replace(position=0))

    def truncate_to_position(self, position: int) -> None:
        """Truncate the file, and rebuild the offset index, the time index and the bounds."""
        self._log.truncate(position)
        self._newest = (0, 0, 0, 0)
        self._unsynced = True
        self.rebuild_indexes()

    def rebuild_indexes(self) -> None:
        """Rebuild the offset index, the time index and all bounds from the headers."""
        self.offset_index.reset()
        self.time_index.reset()
        self._since_index = 0
        self.next_offset = self.base_offset
        self.max_timestamp = self.first_timestamp = _NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        self._last_batch_position = -1
        for info in self.headers():
            self._index((info,), info.position)
