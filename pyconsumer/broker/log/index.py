"""The offset index and the time index of a segment, in Kafka's file formats.

* Offset index, 8 bytes an entry: i32 offset relative to the segment's base (the *last* offset of a batch), i32 position
  where that batch begins.
* Time index, 12 bytes an entry: i64 timestamp in ms, i32 relative offset. Every record with a greater timestamp is
  after that offset. Timestamps rise strictly.

State: the entries, in memory as arrays, and the number of those in the file. The file is written in large pieces, and
at the latest when the segment is flushed or closed. An index can always be rebuilt from its segment, so losing its tail
costs only that work. For the same reason a failed write is an error only when the segment is flushed or closed.
"""

from __future__ import annotations

import operator
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from pyconsumer.background_log import Log
from pyconsumer.broker.log.index_file import IndexFile
from pyconsumer.broker.log.storage import Storage

__all__ = ["OffsetIndex", "TimeIndex"]

_log = Log(__name__)

_WRITE_AT = 256  # entries that are written together
_SWAP = sys.byteorder == "little"


def _big_endian(values: array[int]) -> bytes:
    if _SWAP:
        values = array(values.typecode, values)
        values.byteswap()
    return values.tobytes()


def _rising(values: array[int]) -> int:
    """Return how many values, from the first one on, rise strictly."""
    if all(map(operator.lt, values, values[1:])):
        return len(values)
    return next(index for index in range(1, len(values)) if values[index] <= values[index - 1])


def _maybe_write(index: OffsetIndex | TimeIndex, unwritten: int) -> None:
    """Write an index that has 256 unwritten entries. If that fails, try again after 256 more."""
    if unwritten % _WRITE_AT == 0:
        try:
            index.write()
        except OSError as error:
            _log.warning("%d entries of an index could not be written and will be written later: %s", unwritten, error)


def _write_many(index: OffsetIndex | TimeIndex) -> None:
    """Write an index whose entries were found again in the batches. If that fails, the next call writes them."""
    try:
        index.write()
    except OSError as error:
        _log.warning("a rebuilt index could not be written and will be written later: %s", error)


class OffsetIndex:
    """Maps an offset to the position of a batch. That batch contains the offset or comes before it.

    Args:
        name: name of the file. Its entries are loaded.
        base_offset: base offset of the segment.
    """

    def __init__(self, storage: Storage, name: str, base_offset: int) -> None:
        self._base = base_offset
        self.file = IndexFile(storage, name)
        self._offsets = array("i")
        self._positions = array("i")
        self._written = 0
        data = self.file.load()
        if data:
            self._load(data)

    def _load(self, data: bytes) -> None:
        entries = array("i")
        entries.frombytes(data[: len(data) // 8 * 8])
        if _SWAP:
            entries.byteswap()
        offsets, positions = entries[::2], entries[1::2]
        count = _rising(offsets)  # Kafka fills the file of an active segment with zeros
        self._offsets, self._positions, self._written = offsets[:count], positions[:count], count

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def size_bytes(self) -> int:
        return 8 * len(self._offsets)

    @property
    def last_entry(self) -> tuple[int, int]:
        """Return offset and position of the last entry. If there are no entries, return the base offset and 0."""
        if not self._offsets:
            return self._base, 0
        return self._base + self._offsets[-1], self._positions[-1]

    def append(self, offset: int, position: int) -> None:
        """Add an entry: the batch whose last offset is ``offset`` begins at ``position``."""
        self._offsets.append(offset - self._base)
        self._positions.append(position)
        _maybe_write(self, len(self._offsets) - self._written)

    def extend(self, offsets: Sequence[int], positions: Sequence[int]) -> None:
        """Add entries and write them. If the write fails, they are written later."""
        self._offsets.extend([offset - self._base for offset in offsets])
        self._positions.extend(list(positions))
        _write_many(self)

    def entry_before(self, offset: int) -> tuple[int, int]:
        """Return offset and position of the last entry whose batch ends before ``offset``.

        If there is none, return the base offset and 0.
        """
        index = bisect_left(self._offsets, min(offset - self._base, 0x7FFFFFFF)) - 1
        return (self._base + self._offsets[index], self._positions[index]) if index >= 0 else (self._base, 0)

    def position_before(self, offset: int) -> int:
        """Return the position of the last indexed batch whose last offset is at most ``offset``.

        If there is none, return 0.
        """
        index = bisect_right(self._offsets, min(offset - self._base, 0x7FFFFFFF)) - 1
        return self._positions[index] if index >= 0 else 0

    def position_at_or_before(self, position: int) -> int:
        """Return the greatest indexed position that is at most ``position``, or 0 if there is none."""
        index = bisect_right(self._positions, position) - 1
        return self._positions[index] if index >= 0 else 0

    def offset_at_or_after(self, position: int) -> int | None:
        """Return the last offset of the first indexed batch that begins at or after ``position``.

        If there is none, return None.
        """
        index = bisect_left(self._positions, position)
        return self._base + self._offsets[index] if index < len(self._positions) else None

    def truncate_to_position(self, position: int) -> None:
        """Remove the entries of batches that begin at or after ``position``."""
        count = len(self._positions)
        while count and self._positions[count - 1] >= position:
            count -= 1
        del self._offsets[count:]
        del self._positions[count:]
        if count < self._written:
            self.file.truncate(8 * count)
            self._written = count

    def reset(self) -> None:
        """Remove all entries. They are removed from the file, too."""
        del self._offsets[:]
        del self._positions[:]
        self._written = 0
        self.file.truncate(0)

    def write(self) -> None:
        """Write the entries that are not in the file yet, without fsync."""
        if self._written == len(self._offsets) and self.file.size <= 8 * self._written:
            return
        entries = array("i", bytes(8 * (len(self._offsets) - self._written)))
        entries[::2] = self._offsets[self._written :]
        entries[1::2] = self._positions[self._written :]
        self.file.put(8 * self._written, _big_endian(entries))
        self._written = len(self._offsets)

    def flush(self) -> None:
        """Flush all entries to disk."""
        self.write()
        self.file.sync()


class TimeIndex:
    """Maps a timestamp to an offset. No record up to that offset has a greater timestamp.

    The arguments are those of :class:`OffsetIndex`.
    """

    def __init__(self, storage: Storage, name: str, base_offset: int) -> None:
        self._base = base_offset
        self.file = IndexFile(storage, name)
        self._timestamps = array("q")
        self._offsets = array("i")
        self._written = 0
        data = self.file.load()
        if data:
            self._load(data)

    def _load(self, data: bytes) -> None:
        count = len(data) // 12
        parts = bytearray(8 * count), bytearray(4 * count)
        for byte in range(12):  # two columns, of 8 and of 4 bytes
            parts[byte // 8][byte % 8 :: 8 if byte < 8 else 4] = data[byte : 12 * count : 12]
        timestamps, offsets = array("q", bytes(parts[0])), array("i", bytes(parts[1]))
        if _SWAP:
            timestamps.byteswap()
            offsets.byteswap()
        count = self._written = _rising(timestamps)
        self._timestamps, self._offsets = timestamps[:count], offsets[:count]

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def size_bytes(self) -> int:
        return 12 * len(self._timestamps)

    @property
    def last_entry(self) -> tuple[int, int]:
        """Return timestamp and offset of the last entry. If there are no entries, return -1 and the base offset."""
        if not self._timestamps:
            return -1, self._base
        return self._timestamps[-1], self._base + self._offsets[-1]

    def entry_up_to(self, offset: int) -> tuple[int, int]:
        """Return timestamp and offset of the last entry whose offset is not after ``offset``."""
        index = bisect_right(self._offsets, offset - self._base) - 1
        return (self._timestamps[index], self._base + self._offsets[index]) if index >= 0 else (-1, self._base)

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add the greatest timestamp of the segment with the offset of its batch.

        If it is not greater than the last entry's timestamp, do nothing.
        """
        if self._timestamps and timestamp <= self._timestamps[-1]:
            return
        self._timestamps.append(timestamp)
        self._offsets.append(offset - self._base)
        _maybe_write(self, len(self._timestamps) - self._written)

    def extend(self, timestamps: Sequence[int], offsets: Sequence[int]) -> None:
        """Add entries and write them. If the write fails, they are written later."""
        self._timestamps.extend(list(timestamps))
        self._offsets.extend([offset - self._base for offset in offsets])
        _write_many(self)

    def truncate(self, offset: int) -> None:
        """Remove the entries after ``offset``."""
        count = len(self._offsets)
        while count and self._offsets[count - 1] > offset - self._base:
            count -= 1
        del self._timestamps[count:]
        del self._offsets[count:]
        if count < self._written:
            self.file.truncate(12 * count)
            self._written = count

    def offset_before(self, timestamp: int) -> int:
        """Return an offset at or before the first record whose timestamp is ``timestamp`` or greater."""
        index = bisect_right(self._timestamps, timestamp - 1) - 1
        return self._base + self._offsets[index] if index >= 0 else self._base

    def reset(self) -> None:
        """Remove all entries. They are removed from the file, too."""
        del self._timestamps[:]
        del self._offsets[:]
        self._written = 0
        self.file.truncate(0)

    def write(self) -> None:
        """Write the entries that are not in the file yet, without fsync."""
        if self._written == len(self._timestamps) and self.file.size <= 12 * self._written:
            return
        parts = _big_endian(self._timestamps[self._written :]), _big_endian(self._offsets[self._written :])
        data = bytearray(12 * (len(self._timestamps) - self._written))
        for byte in range(12):
            data[byte::12] = parts[byte // 8][byte % 8 :: 8 if byte < 8 else 4]
        self.file.put(12 * self._written, bytes(data))
        self._written = len(self._timestamps)

    def flush(self) -> None:
        """Flush all entries to disk."""
        self.write()
        self.file.sync()
