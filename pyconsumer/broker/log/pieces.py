"""What a batch holds, as columns and a piece at a time: a compressed batch of 1 MB may hold millions of records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyconsumer.protocol.records import Columns, ColumnsBuilder, Cursor
from pyconsumer.structs import TopicPartition

__all__ = ["pieces"]

_RECORDS: Final = 10_000
_NOWHERE: Final = TopicPartition("", -1)


def pieces(
    batch: bytes | bytearray | memoryview, base_offset: int, *, with_keys: bool, check_crc: bool
) -> Iterator[Columns]:
    """Offsets, timestamps and, if wanted, keys of a batch's records. A control batch has none here.

    Raises:
        CorruptRecordError: it is damaged, or decompresses to more than any consumer takes; after the records before.
        UnsupportedCodecError: unknown codec, or its library is missing.
    """
    cursor = Cursor(_NOWHERE, batch, fetch_offset=base_offset, check_crcs=check_crc)
    while not cursor.exhausted:
        builder = ColumnsBuilder(with_keys=with_keys, with_values=False)
        cursor.take_into(builder, _RECORDS)
        yield builder.build()
