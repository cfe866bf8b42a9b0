"""Record batches with any field set to any value, and payloads of each codec as encoders other than ours make them."""

from __future__ import annotations

import gzip
import struct
import time
import zlib
from collections.abc import Sequence
from typing import Any

import cramjam

from pyconsumer.protocol.records.crc import crc32c

__all__ = ["NOW", "batch", "gzipped", "legacy", "lz4", "lz4_block", "now_ms", "payload", "record", "snappy", "varint"]

#: Stands for the wall time at which a batch is made.
NOW = object()

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
TIMESTAMP_TYPE, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40

_HEADER = struct.Struct(">hiqqqhii")
_XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


def now_ms() -> int:
    return int(time.time() * 1000)


def varint(value: int, *, size: int = 0) -> bytes:
    """Return a zigzag varint, with ``size`` in at least this number of bytes."""
    left = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while left > 0x7F or len(out) + 1 < size:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _field(data: bytes | None, length: int | None) -> bytes:
    if length is None:
        length = -1 if data is None else len(data)
    return varint(length) + (data or b"")


def record(
    value: bytes | None = b"v",
    key: bytes | None = b"k",
    *,
    offset: int = 0,
    timestamp: int = 0,
    attributes: int = 0,
    headers: Sequence[tuple[bytes | None, bytes | None]] = (),
    header_count: int | None = None,
    key_length: int | None = None,
    value_length: int | None = None,
    headers_as: bytes | None = None,
    tail: bytes = b"",
    length: int | None = None,
    length_as: bytes | None = None,
) -> bytes:
    """Return a record. ``offset`` and ``timestamp`` are deltas, ``*_as`` the bytes of a field."""
    listed = varint(len(headers) if header_count is None else header_count)
    listed += b"".join(_field(name, None) + _field(content, None) for name, content in headers)
    body = (
        (attributes & 0xFF).to_bytes(1, "big")
        + varint(timestamp)
        + varint(offset)
        + _field(key, key_length)
        + _field(value, value_length)
        + (listed if headers_as is None else headers_as)
        + tail
    )
    return (varint(len(body) if length is None else length) if length_as is None else length_as) + body


def batch(
    *records: bytes,
    codec: int = 0,
    content: bytes | None = None,
    base_offset: int = 0,
    length: int | None = None,
    leader_epoch: int = -1,
    magic: int = 2,
    crc: int | None = None,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    first_timestamp: Any = NOW,
    max_timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    count: int | None = None,
) -> bytes:
    """Return a v2 batch. Fields that are not given fit the records, of which there is one by default.

    Args:
        content: the bytes after the header instead of the records in the codec.
    """
    if not records and content is None:
        records = (record(),)
    if content is None:
        content = payload(codec, b"".join(records))
    count = len(records) or 1 if count is None else count
    delta = count - 1 if last_offset_delta is None else last_offset_delta
    first = now_ms() if first_timestamp is NOW else first_timestamp
    latest = first if max_timestamp is None else max_timestamp
    bits = attributes | codec
    bits -= 0x10000 if bits > 0x7FFF else 0
    body = _HEADER.pack(bits, delta, first, latest, producer_id, producer_epoch, sequence, count) + content
    sum_ = crc32c(body) if crc is None else crc
    size = 9 + len(body) if length is None else length
    return struct.pack(">qiibI", base_offset, size, leader_epoch, magic, sum_) + body


def legacy(
    magic: int, value: bytes | None = b"v", key: bytes | None = b"k", *, attributes: int = 0, offset: int = 0
) -> bytes:
    """Return a message of format v0 or v1."""
    body = bytes((magic, attributes)) + (b"" if magic == 0 else struct.pack(">q", now_ms()))
    for part in (key, value):
        body += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


# --- codecs


def payload(codec: int, data: bytes) -> bytes:
    """Return data in a codec as Java writes it."""
    if codec == GZIP:
        return gzipped(data)
    if codec == SNAPPY:
        return snappy(data)
    if codec == LZ4:
        return lz4(data)
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data, level=3))
    return data


def gzipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def snappy(data: bytes, *, header: bytes = _XERIAL) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(data))
    return header + struct.pack(">i", len(block)) + block


def lz4_block(data: bytes) -> bytes:
    """Return a block of an lz4 frame with its size."""
    block = bytes(cramjam.lz4.compress_block(data, store_size=False))
    return struct.pack("<I", len(block)) + block


def lz4(
    data: bytes,
    *,
    flags: int = 0x60,
    sizes: int = 0x40,
    extra: bytes = b"",
    header_sum: int | None = None,
    sum_from: int = 4,
    block_sum: bytes = b"",
    blocks: bytes | None = None,
    end: bytes = b"\0\0\0\0",
) -> bytes:
    """Return an lz4 frame.

    Args:
        flags, sizes: the two bytes of the frame's descriptor.
        extra: the bytes after them.
        sum_from: 0 to include the magic number in the header's checksum, as Kafka's format v0 had it (KAFKA-3160).
    """
    header = b"\x04\x22\x4d\x18" + bytes((flags, sizes)) + extra
    sum_ = xxh32(header[sum_from:]) >> 8 & 0xFF if header_sum is None else header_sum
    return header + bytes((sum_,)) + (lz4_block(data) if blocks is None else blocks) + block_sum + end


def xxh32(data: bytes) -> int:
    """Return the xxHash32 of less than 16 bytes."""
    assert len(data) < 16
    p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    mask = 0xFFFFFFFF
    value = p5 + len(data) & mask
    words, rest = len(data) // 4 * 4, data[len(data) // 4 * 4 :]
    for (word,) in struct.iter_unpack("<I", data[:words]):
        value = value + word * p3 & mask
        value = (value << 17 | value >> 15) * p4 & mask
    for byte in rest:
        value = value + byte * p5 & mask
        value = (value << 11 | value >> 21) * p1 & mask
    value = (value ^ value >> 15) * p2 & mask
    value = (value ^ value >> 13) * p3 & mask
    return value ^ value >> 16
