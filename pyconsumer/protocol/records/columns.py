"""Records as columns: flat buffers in the layout of Arrow, without needing Arrow.

A reader with pyarrow makes arrays of them without copying: ``pyarrow.Array.from_buffers(pyarrow.binary(), len(column),
[bitmap, offsets, data])``, each of the three wrapped by ``pyarrow.py_buffer`` (the bitmap may be None).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby
from typing import Final

from pyconsumer.protocol.records.record import ConsumerRecord, Header

__all__ = ["BinaryColumn", "Columns", "ColumnsBuilder", "HeaderColumn"]

_AS_DIGITS: Final = bytes([0x30, 0x31]) + bytes(254)


class BinaryColumn:
    """Byte strings, some of them null.

    Attributes:
        offsets: n + 1 32-bit offsets into ``data``; string i is ``data[offsets[i]:offsets[i + 1]]``.
        data: all strings, one after the other.
        validity: n bytes, 1 where there is a string and 0 where there is none; None if all are there.
    """

    __slots__ = ("data", "offsets", "validity")

    def __init__(self, offsets: array[int], data: bytes, validity: bytes | None) -> None:
        self.offsets = offsets
        self.data = data
        self.validity = validity

    @classmethod
    def of(cls, strings: Sequence[bytes | None]) -> BinaryColumn:
        """Make a column.

        Raises:
            OverflowError: the strings have 2 GiB or more together.
        """
        validity = None
        present: Sequence[bytes]
        if None in strings:
            validity = bytes([string is not None for string in strings])
            present = [string or b"" for string in strings]
        else:
            present = strings  # type: ignore[assignment]
        return cls(array("i", accumulate(map(len, present), initial=0)), b"".join(present), validity)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def null_count(self) -> int:
        return 0 if self.validity is None else self.validity.count(0)

    def validity_bitmap(self) -> bytes | None:
        """The validity as Arrow has it, one bit a string, lowest bit first; None if all are there."""
        if self.validity is None:
            return None
        # Read as a number in base 2, most significant digit first: much faster than a loop over bits.
        number = int(self.validity.translate(_AS_DIGITS)[::-1] or b"0", 2)
        return number.to_bytes((len(self.validity) + 7) // 8, "little")

    def to_list(self) -> list[bytes | None]:
        """The strings as Python objects."""
        offsets, data, validity = self.offsets, self.data, self.validity
        return [
            None if validity is not None and not validity[i] else data[offsets[i] : offsets[i + 1]]
            for i in range(len(self))
        ]


class HeaderColumn:
    """The headers of n records as one list column: record i has those from ``offsets[i]`` to ``offsets[i + 1]``."""

    __slots__ = ("names", "offsets", "values")

    def __init__(self, offsets: array[int], names: BinaryColumn, values: BinaryColumn) -> None:
        self.offsets = offsets
        self.names = names
        self.values = values

    @classmethod
    def of(cls, headers: Iterable[Sequence[Header]]) -> HeaderColumn:
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
        topic, partition: where they are from.
        offsets, timestamps: 64-bit; timestamps in ms since the epoch.
        timestamp_types: 32-bit, 0 CreateTime, 1 LogAppendTime, -1 none.
        leader_epochs: 32-bit, -1 if unknown.
        keys, values: raw bytes. headers: None unless they were asked for.
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
        offsets: array[int],
        timestamps: array[int],
        timestamp_types: array[int],
        leader_epochs: array[int],
        keys: BinaryColumn,
        values: BinaryColumn,
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
        """Bytes of keys and values."""
        return len(self.keys.data) + len(self.values.data)


class ColumnsBuilder:
    """Makes columns of records that come in lists, none of which it keeps."""

    __slots__ = ("_epochs", "_headers", "_keys", "_offsets", "_timestamps", "_types", "_values", "size_bytes")

    def __init__(self, *, with_headers: bool = False) -> None:
        self._offsets = array("q")
        self._timestamps = array("q")
        self._types = array("i")
        self._epochs = array("i")
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: list[tuple[Header, ...]] | None = [] if with_headers else None
        #: Bytes of keys and values so far.
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, records: Sequence[ConsumerRecord]) -> None:
        """Append records, whose keys and values are bytes or None."""
        self._offsets.extend([record.offset for record in records])
        self._timestamps.extend([record.timestamp for record in records])
        for origin, run in groupby([record.origin for record in records]):
            count = len(list(run))
            self._types.extend([origin.timestamp_type] * count)
            self._epochs.extend([origin.leader_epoch] * count)
        for strings, column in (
            ([record.key for record in records], self._keys),
            ([record.value for record in records], self._values),
        ):
            column += strings
            self.size_bytes += sum([len(string) for string in strings if string])
        if self._headers is not None:
            self._headers += [record._headers for record in records]

    def build(self, topic: str, partition: int) -> Columns:
        """The columns of all records added.

        Raises:
            OverflowError: keys or values have 2 GiB or more together.
        """
        return Columns(
            topic,
            partition,
            self._offsets,
            self._timestamps,
            self._types,
            self._epochs,
            BinaryColumn.of(self._keys),
            BinaryColumn.of(self._values),
            None if self._headers is None else HeaderColumn.of(self._headers),
        )
