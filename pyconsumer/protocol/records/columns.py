"""Records as columns: flat buffers in the layout of Arrow. Arrow itself is not needed.

With pyarrow they become arrays without copying: ``pyarrow.Array.from_buffers(pyarrow.binary(), len(column), [bitmap,
offsets, data])``, each of the three wrapped by ``pyarrow.py_buffer`` (the bitmap may be None). In the pure decoder they
are ``array`` and ``bytes`` objects, in the compiled one memoryviews.

A :class:`ColumnsBuilder` belongs to its caller: records are added, then it is built once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby
from typing import Final, TypeAlias

from pyconsumer.generic import Header
from pyconsumer.protocol.compiled import not_copied
from pyconsumer.protocol.records.record import ConsumerRecord

__all__ = ["BinaryColumn", "Columns", "ColumnsBuilder", "HeaderColumn", "Numbers", "bitmap_of"]

_AS_DIGITS: Final = bytes([0x30, 0x31]) + bytes(254)


Numbers: TypeAlias = "array[int] | memoryview"
"""A column of numbers: it supports the buffer protocol and indexing."""


def bitmap_of(validity: bytes) -> bytes:
    """Pack bytes that are 0 or 1 into bits, lowest bit first."""
    # As the digits of a binary number, most significant first: much faster than a loop over bits.
    number = int(validity.translate(_AS_DIGITS)[::-1] or b"0", 2)
    return number.to_bytes((len(validity) + 7) // 8, "little")


class BinaryColumn:
    """A column of byte strings, some of which may be null.

    Attributes:
        offsets: n + 1 32-bit offsets into ``data``. String i is ``data[offsets[i]:offsets[i + 1]]``.
        data: the concatenated strings.
        bitmap: Arrow's validity bitmap, lowest bit first. 0 means null. None if no string is null.
        null_count: the number of nulls.
    """

    __slots__ = ("bitmap", "data", "null_count", "offsets")

    def __init__(self, offsets: Numbers, data: bytes | memoryview, bitmap: bytes | None, null_count: int) -> None:
        self.offsets = offsets
        self.data = data
        self.bitmap = bitmap
        self.null_count = null_count

    @classmethod
    def of(cls, strings: Sequence[bytes | None]) -> BinaryColumn:
        """Return a column of strings.

        Raises:
            OverflowError: the strings have 2 GiB or more in total.
        """
        bitmap = None
        nulls = 0
        present: Sequence[bytes]
        if None in strings:
            validity = bytes([string is not None for string in strings])
            bitmap, nulls = bitmap_of(validity), validity.count(0)
            present = [string or b"" for string in strings]
        else:
            present = strings  # type: ignore[assignment]
        return cls(array("i", accumulate(map(len, present), initial=0)), b"".join(present), bitmap, nulls)

    def __len__(self) -> int:
        return len(self.offsets) - 1


class HeaderColumn:
    """The headers of n records as one list column.

    Record i has the headers from ``offsets[i]`` to ``offsets[i + 1]``.
    """

    __slots__ = ("names", "offsets", "values")

    def __init__(self, offsets: Numbers, names: BinaryColumn, values: BinaryColumn) -> None:
        self.offsets = offsets
        self.names = names
        self.values = values

    @classmethod
    def of(cls, headers: Iterable[Sequence[Header]]) -> HeaderColumn:
        """Return a column of the headers of each record."""
        lengths: list[int] = []
        names: list[bytes | None] = []
        values: list[bytes | None] = []
        for record_headers in headers:
            lengths.append(len(record_headers))
            for name, value in record_headers:
                names.append(name.encode())
                values.append(value)
        offsets = array("i", accumulate(lengths, initial=0))
        return cls(offsets, BinaryColumn.of(names), BinaryColumn.of(values))


class Columns:
    """Records of one partition, column by column.

    Attributes:
        topic, partition: the partition of the records.
        offsets, timestamps: 64-bit numbers. Timestamps are in ms since the epoch.
        timestamp_types: 32-bit numbers: 0 CreateTime, 1 LogAppendTime, -1 none.
        leader_epochs: 32-bit numbers, -1 if unknown.
        keys, values, headers: raw bytes, or None if the column was not requested.
    """

    __slots__ = (
        "headers",
        "keys",
        "leader_epochs",
        "offsets",
        "partition",
        "timestamp_types",
        "timestamps",
        "topic",
        "values",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        offsets: Numbers,
        timestamps: Numbers,
        timestamp_types: Numbers,
        leader_epochs: Numbers,
        keys: BinaryColumn | None,
        values: BinaryColumn | None,
        headers: HeaderColumn | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offsets = offsets
        self.timestamps = timestamps
        self.timestamp_types = timestamp_types
        self.leader_epochs = leader_epochs
        self.keys = keys
        self.values = values
        self.headers = headers

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def size_bytes(self) -> int:
        """Size of keys and values in bytes."""
        return sum([len(column.data) for column in (self.keys, self.values) if column is not None])

    def forget(self, *, keys: bool, values: bool) -> None:
        """Drop keys or values, as if they had not been requested."""
        if keys:
            self.keys = None
        if values:
            self.values = None


class ColumnsBuilder:
    """Builds columns from lists of records.

    Args:
        with_keys, with_values, with_headers: the columns to build in addition to the numeric ones.
    """

    __slots__ = (
        "_epochs",
        "_headers",
        "_keys",
        "_offsets",
        "_timestamps",
        "_types",
        "_values",
        "size_bytes",
        "weight",
    )

    def __init__(self, *, with_keys: bool = True, with_values: bool = True, with_headers: bool = False) -> None:
        self._offsets = array("q")
        self._timestamps = array("q")
        self._types = array("i")
        self._epochs = array("i")
        self._keys: list[bytes | None] | None = [] if with_keys else None
        self._values: list[bytes | None] | None = [] if with_values else None
        self._headers: list[tuple[Header, ...]] | None = [] if with_headers else None
        #: Size of keys and values so far in bytes.
        self.size_bytes = 0
        #: ``size_bytes`` and an estimate for headers, which is compared with the limit of :meth:`Cursor.take_into`.
        self.weight = 0

    __reduce__ = not_copied

    def __len__(self) -> int:
        return len(self._offsets)

    def expect(self, size_bytes: int) -> None:
        """Announce the expected number of bytes, so that memory is allocated at once.

        Only the compiled builder uses the number. This builder ignores it.
        """

    def add(self, records: Sequence[ConsumerRecord]) -> None:
        """Append records. Their keys and values are bytes or None."""
        self._offsets.extend([record.offset for record in records])
        self._timestamps.extend([record.timestamp for record in records])
        for origin, run in groupby([record.origin for record in records]):
            count = len(list(run))
            self._types.extend([origin.timestamp_type] * count)
            self._epochs.extend([origin.leader_epoch] * count)
        size = 0
        if self._keys is not None:
            keys = [record.key for record in records]
            self._keys += keys
            size += sum([len(key) for key in keys if key])
        if self._values is not None:
            values = [record.value for record in records]
            self._values += values
            size += sum([len(value) for value in values if value])
        self.size_bytes += size
        self.weight += size
        if self._headers is not None:
            headers = [record.header_tuple for record in records]
            self._headers += headers
            self.weight += sum([len(n.encode()) + len(v or b"") + 8 for pairs in headers if pairs for n, v in pairs])

    def build(self, topic: str = "", partition: int = -1) -> Columns:
        """Return the columns of all added records. The builder cannot be used afterwards.

        Raises:
            OverflowError: keys or values have 2 GiB or more in total.
        """
        return Columns(
            topic,
            partition,
            self._offsets,
            self._timestamps,
            self._types,
            self._epochs,
            None if self._keys is None else BinaryColumn.of(self._keys),
            None if self._values is None else BinaryColumn.of(self._values),
            None if self._headers is None else HeaderColumn.of(self._headers),
        )
