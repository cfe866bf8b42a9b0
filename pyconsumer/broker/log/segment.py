"""One segment: a file of record batches in the order of their offsets, and its three indexes.

A segment knows the positions of batches. :class:`~pyconsumer.broker.log.partition_log.PartitionLog` decides which
batches may be appended, and up to which offset readers may see them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from pyconsumer.broker.log.index import OffsetIndex, TimeIndex
from pyconsumer.broker.log.storage import DataFile, Storage, segment_name
from pyconsumer.broker.log.transaction_index import TransactionIndex
from pyconsumer.errors import CorruptRecordError
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.records import EndTransactionMarker, read_end_transaction_marker
from pyconsumer.protocol.records.batch import BATCH_OVERHEAD, BatchInfo, check_crc, scan, scan_until_damage
from pyconsumer.structs import TopicPartition

__all__ = ["Segment"]

_log = logging.getLogger(__name__)


_HEADERS_BYTES = 8192  # read at a time when headers are looked for
_SCAN_BYTES = 1 << 20
_NO_TIMESTAMP = -1


class Segment:
    """Batches from ``base_offset`` on.

    Attributes:
        next_offset: the offset after the last batch.
        max_timestamp: greatest timestamp in ms, -1 without any; ``max_timestamp_offset``: last offset of its batch.
            Batches that compaction has emptied don't count.
        created_ms: wall time of the first append. ``segment.ms`` counts from it if records have no timestamp.
        first_timestamp: max timestamp of the first batch, -1 if empty. ``segment.ms`` counts from it otherwise.
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
        # The last one, because it stays open: none is left open if another cannot be opened.
        self._log: DataFile = storage.open(segment_name(base_offset, "log") + suffix)
        self._interval = index_interval_bytes
        self._since_index = 0
        self.next_offset = base_offset
        self.max_timestamp = _NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.first_timestamp = _NO_TIMESTAMP
        self.created_ms = created_ms
        self._last_batch_position = -1
        self._unsynced = False
        #: Where damage was found and logged.
        self._noted: set[int] = set()

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
            batches: their headers, with the offsets that they have in the log.
            buffers: their bytes, joined.

        Raises:
            OSError: nothing was written.
        """
        position = self._log.size
        self._log.append(buffers)
        self._unsynced = True
        self._note(batches, position)

    def _note_timestamp(self, batch: BatchInfo) -> None:
        if batch.max_timestamp > self.max_timestamp and batch.record_count:
            self.max_timestamp, self.max_timestamp_offset = batch.max_timestamp, batch.last_offset

    def _note(self, batches: Sequence[BatchInfo], position: int) -> None:
        """Bring indexes and bounds up to date with batches that lie at ``position``."""
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
            position += batch.size_bytes
            self.next_offset = batch.last_offset + 1

    def seal(self) -> None:
        """Complete the time index when no more will be appended, and write both."""
        if self.max_timestamp >= 0:
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        self.offset_index.write()
        self.time_index.write()
        self.transaction_index.write(sync=True)  # it cannot be made again once a snapshot behind it is trusted

    def flush(self) -> None:
        """Force batches and indexes to disk."""
        if self._unsynced:
            self._log.flush()
            self.offset_index.flush()
            self.time_index.flush()
            self.transaction_index.write(sync=True)
            self._unsynced = False

    def flusher(self) -> Callable[[], None] | None:
        """A call that forces the batches to disk in any thread; None if nothing is to be done."""
        if not self._unsynced:
            return None
        self._unsynced = False
        return self._log.flusher()

    def close(self) -> None:
        """Complete the indexes and close the file."""
        self.seal()
        self._log.close()

    def abandon(self) -> None:
        """Close the file and write nothing more, as if the process had been killed."""
        self._log.close()

    def remove(self) -> None:
        """Close and remove all files."""
        self._log.close()
        self._storage.remove(segment_name(self.base_offset, "log") + self._suffix)
        self.offset_index.file.remove()
        self.time_index.file.remove()
        self.transaction_index.remove()

    def rename(self, suffix: str) -> None:
        """Give all files another suffix after their usual names."""
        # First the one that cannot be made again from this segment alone.
        self.transaction_index.rename(segment_name(self.base_offset, "txnindex") + suffix)
        self._storage.rename(
            segment_name(self.base_offset, "log") + self._suffix, segment_name(self.base_offset, "log") + suffix
        )
        self._suffix = suffix  # now, so that :meth:`remove` finds it if an index cannot be renamed
        self.offset_index.file.rename(segment_name(self.base_offset, "index") + suffix)
        self.time_index.file.rename(segment_name(self.base_offset, "timeindex") + suffix)

    # --- reading

    def read(self, position: int, size: int) -> bytes:
        """Raw bytes at a position; fewer only at the end."""
        return self._log.read(position, size)

    def locate(self, offset: int) -> tuple[int, int] | None:
        """Position and size of the first batch that ends at or after ``offset``; None if there is none."""
        position = self.offset_index.position_before(offset)
        size = self._log.size
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

    def note_damage(self, topic_partition: TopicPartition, offset: int) -> None:
        """Log, once, the header whose length keeps the batch of ``offset`` from being found or read."""
        position, size = self.offset_index.position_before(offset), self._log.size
        while position < size:
            header = self._log.read(position, BATCH_OVERHEAD)
            batch_size = int.from_bytes(header[8:12], "big") + 12
            if len(header) < BATCH_OVERHEAD or not BATCH_OVERHEAD <= batch_size <= size - position:
                break
            position += batch_size
        if position < size and position not in self._noted:
            self._noted.add(position)
            _log.error(
                "%s: the file %s is damaged: the batch at byte %d has an impossible length, and the records from there"
                " to offset %d cannot be read. Restore the file, or stop the broker and cut the file off at that byte",
                topic_partition,
                segment_name(self.base_offset),
                position,
                self.next_offset - 1,
            )

    def batches(self, position: int = 0, end: int | None = None) -> Iterator[tuple[BatchInfo, bytes]]:
        """All batches from a position on, each with its bytes. ``info.position`` is that in the file.

        Raises:
            CorruptRecordError: a header is damaged.
        """
        end = self._log.size if end is None else min(end, self._log.size)
        want = _SCAN_BYTES
        while position < end:
            chunk = self._log.read(position, min(want, end - position))
            found = scan(chunk)
            if not found:
                if len(chunk) < want:  # that was all, or it has been cut back in the meantime
                    return
                want = self._needed(chunk, want)
                continue
            want = _SCAN_BYTES
            for info in found:
                yield info._replace(position=position + info.position), chunk[info.position : info.end_position]
            position += found[-1].end_position

    @staticmethod
    def _needed(chunk: bytes, want: int) -> int:
        """Return how much to read for a batch that is larger than what was read."""
        return max(int.from_bytes(chunk[8:12], "big") + 12, want * 2)

    def headers(self, position: int = 0) -> Iterator[BatchInfo]:
        """Headers of all batches from a position on, read without their records. ``position`` is that in the file."""
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
            # A batch larger than the piece: its header alone, then on to the next.
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
        """After a clean stop: find ``next_offset`` and the timestamps from the indexes and the batches behind them."""
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
        """Return what vouches for the files of a sealed segment at the next start, see :meth:`matches`."""
        return [
            self.base_offset,
            self.size_bytes,
            self.next_offset,
            self._last_batch_position,
            self.offset_index.file.checksum(),
            self.time_index.file.checksum(),
        ]

    def matches(self, mark: Sequence[int]) -> bool:
        """Return whether all files have the sizes, and the indexes the content, that :meth:`mark` noted."""
        return [self.base_offset, self.size_bytes, *mark[2:4]] == list(mark[:4]) and [
            self.offset_index.file.checksum(),
            self.time_index.file.checksum(),
        ] == list(mark[4:])

    def ends_as(self, mark: Sequence[int]) -> bool:
        """Return whether the last batch is whole and the one that :meth:`mark` noted; bounds must be loaded."""
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
        """Cut the file and what the indexes say of the part behind; bounds are found again."""
        self._log.truncate(position)
        self._unsynced = True
        self.rebuild_indexes()

    def rebuild_indexes(self) -> None:
        """Make both indexes and all bounds again from the headers."""
        self.offset_index.reset()
        self.time_index.reset()
        self._since_index = 0
        self.next_offset = self.base_offset
        self.max_timestamp = self.first_timestamp = _NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        self._last_batch_position = -1
        for info in self.headers():
            self._note((info,), info.position)
