"""Short ways to build record sets, and to read them with a cursor."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import cramjam

from pyconsumer.protocol.records import BatchBuilder, ConsumerRecord, Cursor, columns, conversion, record
from pyconsumer.protocol.records import cursor as pure_cursor
from pyconsumer.protocol.records.batch import scan_until_damage
from pyconsumer.protocol.records.compression import compress
from pyconsumer.protocol.records.crc import crc32c
from pyconsumer.structs import TopicPartition

TP = TopicPartition("events", 2)
TIME = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Decoder(NamedTuple):
    """One of the twins."""

    name: str
    Cursor: Any
    ConsumerRecord: Any
    ColumnsBuilder: Any
    convert: Any


PURE = Decoder("pure", pure_cursor.Cursor, record.ConsumerRecord, columns.ColumnsBuilder, conversion.convert)


def decoder_named(name: str) -> Decoder | None:
    """One of the twins, None if it was not built here."""
    if name == "pure":
        return PURE
    try:
        from pyconsumer.protocol.records import _native
    except ImportError:
        return None
    return decoder_of(_native)


def decoder_of(native: Any) -> Decoder:
    """The decoder of a compiled module."""
    return Decoder("native", native.Cursor, native.ConsumerRecord, native.ColumnsBuilder, native.convert)


#: What :func:`cursor` and its like use; the fixture ``decoder`` sets it.
current = PURE


def batch(
    base_offset: int = 0,
    count: int = 3,
    *,
    codec: str = "none",
    offsets: Sequence[int] | None = None,
    last_offset: int | None = None,
    producer_id: int = -1,
    transactional: bool = False,
    leader_epoch: int = 0,
    value: bytes | None = None,
) -> bytes:
    """A v2 batch with the record ``k<n>``: ``v<n>`` at offset n, for ``offsets`` or ``count`` in a row."""
    builder = BatchBuilder(codec)
    for offset in range(base_offset, base_offset + count) if offsets is None else offsets:
        builder.try_append(
            TIME + offset,
            b"k%d" % offset,
            b"v%d" % offset if value is None else value,
            relative_offset=offset - base_offset,
        )
    return builder.build(
        base_offset,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        is_transactional=transactional,
        leader_epoch=leader_epoch,
        last_offset_delta=None if last_offset is None else last_offset - base_offset,
    )


def values_of(column: columns.BinaryColumn) -> list[bytes | None]:
    """The strings of a column as Python objects."""
    offsets, data, bitmap = column.offsets, bytes(column.data), column.bitmap
    return [
        None if bitmap is not None and not bitmap[i >> 3] >> (i & 7) & 1 else data[offsets[i] : offsets[i + 1]]
        for i in range(len(column))
    ]


def batch_after(data: bytes | bytearray, offset: int, start: int = 0) -> tuple[int, int] | None:
    """The offset and the position behind the batch that has an offset, from a position on.

    None if the batch has a damaged header, so that its end is unknown.
    """
    for info in scan_until_damage(memoryview(data)[start:])[0]:
        if info.last_offset >= offset:
            return info.next_offset, start + info.end_position
    return None


def raw_batch(
    payload: bytes, count: int, *, base_offset: int = 0, last_delta: int | None = None, attributes: int = 0
) -> bytes:
    """A v2 batch with a right checksum round any payload, legal or not."""
    delta = max(count - 1, 0) if last_delta is None else last_delta
    covered = struct.pack(">hiqqqhii", attributes, delta, TIME, TIME, -1, -1, -1, count) + payload
    return struct.pack(">qiibI", base_offset, 9 + len(covered), 0, 2, crc32c(covered)) + covered


def streamed(data: bytes) -> bytes:
    """A frame of zstd that does not say its size, as Java's producer writes them."""
    made = cramjam.zstd.Compressor()
    made.compress(data)
    return bytes(made.finish())


def streamed_batch(base_offset: int = 0, count: int = 3, *, value: bytes | None = None) -> bytes:
    """The batch of :func:`batch` in zstd, in such a frame."""
    whole = batch(base_offset, count, value=value)
    return raw_batch(streamed(whole[61:]), count, base_offset=base_offset, attributes=4)


def message(
    magic: int,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    timestamp: int = TIME,
    attributes: int = 0,
) -> bytes:
    """A message of format v0 or v1."""
    body = struct.pack(">bB", magic, attributes)
    if magic:
        body += struct.pack(">q", timestamp)
    for data in (key, value):
        body += struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
    crc = zlib.crc32(body)
    return struct.pack(">qiI", offset, len(body) + 4, crc) + body


def message_set(
    magic: int,
    codec: int,
    inner: Iterable[bytes],
    offset: int,
    *,
    timestamp: int = TIME,
    attributes: int = 0,
) -> bytes:
    """A compressed message that carries others."""
    packed = compress(codec, b"".join(inner))
    return message(magic, offset, None, packed, timestamp=timestamp, attributes=attributes | codec)


def cursor(data: bytes | bytearray | memoryview, fetch_offset: int = 0, **options: object) -> Cursor:
    made: Cursor = current.Cursor(TP, data, fetch_offset=fetch_offset, **options)
    return made


def take_all(data: bytes | Cursor, size: int = 500, **options: object) -> list[ConsumerRecord]:
    reader = cursor(data, **options) if isinstance(data, bytes) else data  # type: ignore[arg-type]
    records: list[ConsumerRecord] = []
    while not reader.exhausted:
        records += reader.take(size)
    return records


def offsets(records: Iterable[ConsumerRecord]) -> list[int]:
    return [record.offset for record in records]
