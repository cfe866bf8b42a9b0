"""One segment: a file of record batches, and its three indexes.

A segment finds the positions of batches. :class:`~pyconsumer.broker.log.partition_log.PartitionLog` owns the segments
and decides which batches are appended, and up to which offset they are read. A segment is appended to, then sealed, and
at last removed or closed.

:class:`~pyconsumer.protocol.records.LogScan` finds the bounds and index entries. After a clean stop no batch is read:
the segment takes its bounds from its mark (:meth:`Segment.mark`) and loads its indexes when they are first needed.
Indexes that differ from the mark are rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from typing import Final

from pyconsumer.background_log import Log
from pyconsumer.broker.log.file_records import FileRecords
from pyconsumer.broker.log.index import OffsetIndex, TimeIndex
from pyconsumer.broker.log.index_file import IndexFile
from pyconsumer.broker.log.storage import DataFile, Storage, segment_name
from pyconsumer.broker.log.transaction_index import AbortedTransaction, TransactionIndex
from pyconsumer.errors import CorruptRecordError
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.records import LogScan, ScanStop
from pyconsumer.protocol.records.batch import (
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    BatchInfo,
    check_crc,
    scan,
    scan_until_damage,
)
from pyconsumer.structs import TopicPartition

__all__ = ["Segment"]

_log = Log(__name__)


_HEADERS_BYTES = 8192  # read at a time to find a batch by its header
_SCAN_BYTES = 1 << 20
_MAX_RELATIVE_OFFSET: Final = 2**31 - 1
_NO_TIMESTAMP = -1
#: The number of numbers in a mark, see :meth:`Segment.mark`.
_MARK_LENGTH: Final = 13


class Segment:
    """A file of batches, from ``base_offset`` on.

    Attributes:
        next_offset: the offset after the last batch.
        max_timestamp: the greatest timestamp in ms, or -1. ``max_timestamp_offset`` is the last offset of its batch.
            Batches that became empty by compaction are left out.
        first_timestamp: the greatest timestamp of the first batch, or -1. ``segment.ms`` starts at this time.
        created_ms: the time (ms since the epoch) of the first append. If records have no timestamps, ``segment.ms``
            starts at this time.

    Args:
        names: the names of the existing files, if the caller knows them.
    """

    def __init__(
        self,
        storage: Storage,
        base_offset: int,
        index_interval_bytes: int,
        created_ms: int,
        suffix: str = "",
        *,
        names: Collection[str] = (),
    ) -> None:
        self._storage = storage
        self.base_offset = base_offset
        self._suffix = suffix
        self._index_files = IndexFile(storage, self._name("index")), IndexFile(storage, self._name("timeindex"))
        for file, kind in zip(self._index_files, ("index", "timeindex"), strict=True):
            file.probe(self._name(kind) in names)
        self._indexes: tuple[OffsetIndex, TimeIndex] | None = None
        #: The mark of the last clean stop, until the indexes are loaded.
        self._mark: list[int] | None = None
        name = self._name("txnindex")
        self.transaction_index = TransactionIndex(storage, name, exists=not names or name in names)
        # Opened last, because it stays open: if an index cannot be opened, no descriptor is left.
        self._log: DataFile = storage.open(segment_name(base_offset, "log") + suffix)
        self.index_interval_bytes = index_interval_bytes
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

    def _name(self, kind: str) -> str:
        return segment_name(self.base_offset, kind) + self._suffix

    @property
    def offset_index(self) -> OffsetIndex:
        indexes = self._indexes
        return (self._load_indexes() if indexes is None else indexes)[0]

    @property
    def time_index(self) -> TimeIndex:
        indexes = self._indexes
        return (self._load_indexes() if indexes is None else indexes)[1]

    def _load_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Load the indexes, and rebuild them if they differ from the mark."""
        mark, self._mark = self._mark, None
        sums = [] if mark is None else [file.checksum() for file in self._index_files]
        loaded = self._indexes = (
            OffsetIndex(self._storage, self._name("index"), self.base_offset),
            TimeIndex(self._storage, self._name("timeindex"), self.base_offset),
        )
        if mark is not None and sums != mark[6:8]:
            _log.warning(
                "the indexes of segment %s have changed since the last shutdown, so they are rebuilt", self._name("log")
            )
            try:
                self.rebuild_indexes()
            except CorruptRecordError as error:
                _log.warning("the indexes of %s end at the damage: %s", self._name("log"), error)
            self.next_offset, self._last_batch_position = mark[2:4]  # also if they end before
        return loaded

    # --- writing

    def append(self, batches: Sequence[BatchInfo], buffers: Sequence[Buffer]) -> None:
        """Write whole batches at the end.

        Args:
            batches: the headers of the batches, with their offsets in the log.
            buffers: the bytes of the batches, in any number of pieces.

        Raises:
            OSError: the batches could not be written. The file is unchanged.
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
        self._mark = None
        for batch in batches:
            self._note_timestamp(batch)
            if position == 0:
                self.first_timestamp = batch.max_timestamp
            if self._since_index > self.index_interval_bytes:
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
        """Complete the time index after the last append, and write the indexes."""
        if self._mark is None:
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
        """Return a function that flushes the batches to disk, in any thread.

        Return None if they are on disk already.
        """
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
        self._storage.remove(self._name("log"))
        self._storage.remove(self._name("index"))
        self._storage.remove(self._name("timeindex"))
        self.transaction_index.remove()

    def rename(self, suffix: str) -> None:
        """Replace the suffix of all file names."""
        indexes = self.offset_index, self.time_index
        # First the index that cannot be rebuilt from this segment alone.
        self.transaction_index.rename(segment_name(self.base_offset, "txnindex") + suffix)
        self._storage.rename(
            segment_name(self.base_offset, "log") + self._suffix, segment_name(self.base_offset, "log") + suffix
        )
        self._suffix = suffix  # before the indexes, so that :meth:`remove` finds the log if one cannot be renamed
        indexes[0].file.rename(self._name("index"))
        indexes[1].file.rename(self._name("timeindex"))

    # --- reading

    def read(self, position: int, size: int) -> bytes:
        """Return ``size`` bytes, starting at ``position``. At the end of the file there may be fewer."""
        return self._log.read(position, size)

    def records(self, position: int, size: int) -> FileRecords:
        """Return an object for ``size`` bytes, starting at ``position``. They are read later."""
        return self._log.records(position, size)

    def locate(self, offset: int) -> tuple[int, int] | None:
        """Return position and size of the first batch that ends at or after ``offset``, or None."""
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
        """Log once that a batch with an impossible length makes ``offset`` unreadable."""
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
        """Yield all batches, starting at ``position``, each with its bytes.

        ``info.position`` is the position in the file.

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
        """Yield the headers of all batches, starting at ``position``. ``info.position`` is the position in the file.

        Raises:
            CorruptRecordError: a header is damaged. The headers before it were yielded.
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

    def scanning(self, log_scan: LogScan, *, check_crcs: bool, end: int | None = None) -> Generator[int, None, None]:
        """Pass the batches after ``log_scan.position`` to a scan. Stop at the first damage, or at the position ``end``.

        Each step yields the number of bytes that it has read.
        """
        position, want = log_scan.position, _SCAN_BYTES
        end = self._log.size if end is None else end
        while position < end:
            chunk = self._log.read(position, min(want, end - position))
            used = log_scan.feed(chunk, check_crcs)
            position += used
            yield used
            if used < len(chunk) and log_scan.stop != ScanStop.INCOMPLETE:
                return
            if used:
                want = _SCAN_BYTES
                continue
            # A batch that is larger than the chunk, or that was torn.
            size = int.from_bytes(chunk[8:12], "big") + LOG_OVERHEAD
            if len(chunk) <= BATCH_OVERHEAD or size <= len(chunk) or size > end - position:
                return
            want = size

    def begin_scan(self, log_scan: LogScan, offset: int = 0) -> None:
        """Start a scan at the last indexed batch that ends before ``offset``.

        If there is none, start at the first batch.

        The index may belong to another file. So the batch is compared with its index entry. If they differ, the scan
        starts at the first batch.
        """
        log_scan.begin_segment(self.base_offset)
        last, position = self.offset_index.entry_before(offset)
        if not position:
            return
        header = self._log.read(position, BATCH_OVERHEAD)
        if len(header) < BATCH_OVERHEAD or header[16] != 2:
            return
        base = int.from_bytes(header[:8], "big", signed=True)
        if base + int.from_bytes(header[23:27], "big", signed=True) != last:
            return
        timestamp, timestamp_offset = self.time_index.entry_up_to(last)
        first = int.from_bytes(self._log.read(0, BATCH_OVERHEAD)[35:43], "big", signed=True)
        log_scan.resume_segment(self.base_offset, base, position, timestamp, timestamp_offset, first)

    def adopt(self, log_scan: LogScan, start: int) -> None:
        """Truncate the segment where a scan has ended, and take over the bounds and index entries of the scan.

        Args:
            start: the position where the scan started.
        """
        if log_scan.position < self._log.size:
            self._log.truncate(log_scan.position)
            self._newest = (0, 0, 0, 0)
            self._unsynced = True
        self._adopt_indexes(log_scan, start)

    def _adopt_indexes(self, log_scan: LogScan, start: int) -> None:
        if start:
            self.offset_index.truncate_to_position(start + 1)
            self.time_index.truncate(self.offset_index.last_entry[0])
        else:
            self.offset_index.reset()
            self.time_index.reset()
        offsets, times = log_scan.offset_entries(), log_scan.time_entries()
        if offsets[0]:
            self.offset_index.extend(*offsets)
        if times[0]:
            self.time_index.extend(*times)
        self._adopt_bounds(log_scan)

    def _adopt_bounds(self, log_scan: LogScan) -> None:
        self.next_offset = log_scan.next_offset
        self.max_timestamp, self.max_timestamp_offset = log_scan.max_timestamp, log_scan.max_timestamp_offset
        self.first_timestamp = log_scan.first_timestamp
        self._last_batch_position = log_scan.last_batch_position
        self._since_index = log_scan.since_index

    def set_aborted(self, offset: int, aborted: Sequence[tuple[int, int, int, int]]) -> None:
        """Replace the entries of the transaction index, from ``offset`` on, by the entries of a scan."""
        self.transaction_index.truncate(offset)
        self.transaction_index.append(AbortedTransaction(*entry) for entry in aborted)

    def damage_at(self, position: int) -> CorruptRecordError:
        """Return the error for a scan that stopped at a position."""
        _, damage = scan_until_damage(self._log.read(position, _HEADERS_BYTES))
        return damage or CorruptRecordError(f"no batch at byte {position} of {self._name('log')}")

    def load_bounds(self) -> None:
        """Find ``next_offset`` and the timestamps.

        They come from the indexes, and from the batches after the last entries.

        Raises:
            CorruptRecordError: a header after the last index entry is damaged.
        """
        log_scan = LogScan(self.index_interval_bytes)
        self.begin_scan(log_scan, self.base_offset + _MAX_RELATIVE_OFFSET + 1)
        if not log_scan.position and len(self.offset_index):
            self.rebuild_indexes()  # the indexes belong to another file
            return
        for _ in self.scanning(log_scan, check_crcs=False):
            pass
        self._adopt_bounds(log_scan)
        timestamp, offset = self.time_index.last_entry
        if timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = timestamp, offset
        if log_scan.stop not in (ScanStop.NONE, ScanStop.INCOMPLETE):
            raise self.damage_at(log_scan.position)

    def mark(self) -> list[int]:
        """Return the mark of a sealed segment. With it, the next start need not read the segment (see :meth:`trust`).

        The mark is a list of numbers. First come base offset, size, next offset and position of the last batch. Then
        come the sizes and checksums of the offset index and the time index. The last numbers are the bytes since the
        last index entry, the three timestamps, and the time of the file's last change (ns).
        """
        if self._mark is not None:
            return self._mark
        indexes = self.offset_index.file, self.time_index.file
        sums = [index.checksum() for index in indexes]
        return [
            self.base_offset,
            self.size_bytes,
            self.next_offset,
            self._last_batch_position,
            *(index.size for index in indexes),
            *sums,
            self._since_index,
            self.max_timestamp,
            self.max_timestamp_offset,
            self.first_timestamp,
            self._log.modified_ns(),
        ]

    def trust(self, mark: Sequence[int]) -> bool:
        """Take over the bounds of a mark, if the files have the sizes in the mark. Return whether they have.

        The content of the indexes is checked when they are loaded.
        """
        sizes = [file.size for file in self._index_files]
        if len(mark) != _MARK_LENGTH or [self.base_offset, self.size_bytes] != list(mark[:2]):
            return False
        if sizes != list(mark[4:6]) and self._storage.durable:
            return False
        self.next_offset, self._last_batch_position = mark[2:4]
        self._since_index, self.max_timestamp, self.max_timestamp_offset, self.first_timestamp = mark[8:12]
        self._indexes, self._mark = None, list(mark)
        return True

    def distrust(self) -> None:
        """Forget the mark, so that the indexes are read again."""
        self._indexes = self._mark = None

    def is_unchanged(self, mark: Sequence[int]) -> bool:
        """Return whether the log file has not changed since :meth:`mark`, according to the time of its last change."""
        return len(mark) == _MARK_LENGTH and self._log.modified_ns() == mark[12]

    def ends_well(self) -> bool:
        """Return whether the last batch in the mark is undamaged and is the end of the file."""
        if self._last_batch_position < 0:
            return self.size_bytes == 0
        data = self.read(self._last_batch_position, self.size_bytes - self._last_batch_position)
        found, damage = scan_until_damage(data)
        if damage is not None or len(found) != 1 or found[0].end_position != len(data):
            return False
        return found[0].next_offset == self.next_offset and check_crc(data, found[0])

    def truncate_to_position(self, position: int) -> None:
        """Truncate the file after the batches before ``position``. Indexes and bounds are adapted."""
        self._log.truncate(position)
        self._newest = (0, 0, 0, 0)
        self._unsynced = True
        self.offset_index.truncate_to_position(position)
        log_scan = LogScan(self.index_interval_bytes)
        self.begin_scan(log_scan, self.base_offset + _MAX_RELATIVE_OFFSET + 1)
        start = log_scan.position
        for _ in self.scanning(log_scan, check_crcs=False):
            pass
        self._adopt_indexes(log_scan, start)

    def rebuild_indexes(self) -> None:
        """Rebuild the offset index, the time index and all bounds from the headers.

        Raises:
            CorruptRecordError: a header is damaged. The indexes end before it.
        """
        log_scan = LogScan(self.index_interval_bytes)
        log_scan.begin_segment(self.base_offset)
        for _ in self.scanning(log_scan, check_crcs=False):
            pass
        self._adopt_indexes(log_scan, 0)
        if log_scan.stop not in (ScanStop.NONE, ScanStop.INCOMPLETE):
            raise self.damage_at(log_scan.position)
