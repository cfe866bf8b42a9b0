"""``python -m tests.vectors.make_tolerance``: odd record sets, and the records that Java's consumer reads from each.

``TolerantReaders.java`` reads them with Apache Kafka's classes. The result is ``tolerance.json``: one set a line, with
a name for its oddity. Needs Java and Maven.
"""

from __future__ import annotations

import json
import struct
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cramjam

from pyconsumer.protocol.records.compression import Codec, compress
from pyconsumer.protocol.records.crc import crc32c
from tests.unit.protocol.records.helpers import TIME, message, message_set, raw_batch, streamed

HERE = Path(__file__).parent
FILE = HERE / "tolerance.json"

_SKIPPABLE = b"\x5a\x2a\x4d\x18\x05\0\0\0hello"
_HALF = 3  # the number of records in each half of a batch


def varint(value: int) -> bytes:
    """Return a signed number as Kafka encodes it."""
    return raw_varint((value << 1) ^ (value >> 63))


def raw_varint(value: int) -> bytes:
    """Return an unsigned number, seven bits a byte."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def body(
    delta: int | bytes,
    *,
    attributes: int = 0,
    timestamp: int | bytes = 0,
    key: bytes = varint(1) + b"k",
    value: bytes = varint(1) + b"v",
    headers: bytes = b"\0",
) -> bytes:
    """Return the fields of a record. Numbers in bytes are already encoded."""
    stamp = timestamp if isinstance(timestamp, bytes) else varint(timestamp)
    offset = delta if isinstance(delta, bytes) else varint(delta)
    return bytes([attributes]) + stamp + offset + key + value + headers


def sized(fields: bytes, more: int = 0) -> bytes:
    """Return a record: its length, which may be wrong by some bytes, and its fields."""
    return varint(len(fields) + more) + fields


def plain(count: int = 2 * _HALF, first: int = 0) -> bytes:
    """Return ordinary records."""
    return b"".join(
        sized(body(first + n, timestamp=n, key=varint(2) + b"k%d" % (first + n), value=varint(9) + b"some text"))
        for n in range(count)
    )


def lz4_frame(
    data: bytes,
    *,
    flags: int = 0x60,
    size: int | None = None,
    block_checksum: int | None = None,
    content_checksum: int | None = None,
    dictionary: bytes = b"",
    header_checksum_off: int = 0,
    block_bytes: int = 0x40,
    ends: bool = True,
    stored: bool = False,
) -> bytes:
    """Return a frame of lz4 of one block, with right or wrong fields."""
    descriptor = bytes([flags, block_bytes])
    if size is not None:
        descriptor += struct.pack("<Q", size)
    descriptor += dictionary
    check = bytes([(_xxh32(descriptor) >> 8 & 0xFF) ^ header_checksum_off])
    packed = data if stored else bytes(cramjam.lz4.compress_block(data, store_size=False))
    out = (
        b"\x04\x22\x4d\x18"
        + descriptor
        + check
        + struct.pack("<I", len(packed) | (0x80000000 if stored else 0))
        + packed
    )
    if block_checksum is not None:
        out += struct.pack("<I", _xxh32(packed) ^ block_checksum)
    if ends:
        out += b"\0\0\0\0"
    if content_checksum is not None:
        out += struct.pack("<I", _xxh32(data) ^ content_checksum)
    return out


def _xxh32(data: bytes) -> int:
    mask, p1, p2, p3, p4, p5 = 0xFFFFFFFF, 2654435761, 2246822519, 3266489917, 668265263, 374761393

    def rotated(value: int, bits: int) -> int:
        return (value << bits | value >> (32 - bits)) & mask

    position = 0
    if len(data) >= 16:
        lanes = [p1 + p2 & mask, p2, 0, -p1 & mask]
        while len(data) - position >= 16:
            for lane in range(4):
                word = int.from_bytes(data[position : position + 4], "little")
                lanes[lane] = rotated(lanes[lane] + word * p2 & mask, 13) * p1 & mask
                position += 4
        value = sum(rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & mask
    else:
        value = p5
    value = value + len(data) & mask
    while len(data) - position >= 4:
        word = int.from_bytes(data[position : position + 4], "little")
        value = rotated(value + word * p3 & mask, 17) * p4 & mask
        position += 4
    for byte in data[position:]:
        value = rotated(value + byte * p5 & mask, 11) * p1 & mask
    value = (value ^ value >> 15) * p2 & mask
    value = (value ^ value >> 13) * p3 & mask
    return value ^ value >> 16


def gzip_member(
    data: bytes, *, flags: int = 0, fields: bytes = b"", crc: int = 0, size: int = 0, method: int = 8
) -> bytes:
    """Return a member of gzip. ``crc`` and ``size`` are added to the right ones."""
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(data) + packer.flush()
    header = b"\x1f\x8b" + bytes([method, flags]) + b"\0\0\0\0\0\xff" + fields
    return header + packed + struct.pack("<II", zlib.crc32(data) ^ crc, len(data) + size & 0xFFFFFFFF)


def _with_header_crc(data: bytes, off: int = 0) -> bytes:
    header = b"\x1f\x8b\x08\x02\0\0\0\0\0\xff"
    return gzip_member(data, flags=2, fields=struct.pack("<H", zlib.crc32(header) & 0xFFFF ^ off))


def xerial(*blocks: bytes, version: int = 1, compatible: int = 1, magic: bytes = b"\x82SNAPPY\0") -> bytes:
    """Return a stream of xerial's framing, of blocks that are already compressed."""
    out = magic + struct.pack(">ii", version, compatible)
    return out + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def _snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def _compressed() -> Iterator[tuple[str, int, bytes, int]]:
    """Yield name, codec, payload and number of records."""
    whole, one, two = plain(), plain(_HALF), plain(_HALF, _HALF)
    count = 2 * _HALF
    garbage = {
        "1 byte": b"x",
        "3 bytes": b"xyz",
        "zeros": bytes(40),
        "noise": bytes(range(1, 90)),
        "long": b"x" * 9_000,
    }

    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        name = codec.name.lower()
        yield f"{name}: ordinary", codec, compress(codec, whole), count
        for kind, more in garbage.items():
            yield f"{name}: {kind} behind", codec, compress(codec, whole) + more, count
        yield f"{name}: two, each with half the records", codec, compress(codec, one) + compress(codec, two), count
        yield f"{name}: two, the count is that of the first", codec, compress(codec, one) + compress(codec, two), _HALF
        yield f"{name}: a second that is empty", codec, compress(codec, whole) + compress(codec, b""), count
        yield f"{name}: a first that is empty", codec, compress(codec, b"") + compress(codec, whole), count
        yield f"{name}: a second that is cut off", codec, compress(codec, whole) + compress(codec, two)[:-5], count
        yield (
            f"{name}: a second that is damaged",
            codec,
            compress(codec, whole) + compress(codec, bytes(90))[:-7] + b"1234567",
            count,
        )
        yield f"{name}: cut off", codec, compress(codec, whole)[:-3], count
        yield f"{name}: no bytes", codec, b"", count
        yield f"{name}: no bytes, no records", codec, b"", 0
        yield f"{name}: no records, but bytes", codec, compress(codec, whole), 0
        yield f"{name}: no records, but garbage", codec, b"garbage", 0
        yield f"{name}: bytes after the last record", codec, compress(codec, whole + b"more"), count
        yield f"{name}: fewer records than counted", codec, compress(codec, whole), count + 1
        yield f"{name}: more records than counted", codec, compress(codec, whole), count - 1
        yield f"{name}: not compressed at all", codec, whole, count
        yield f"{name}: a skippable frame in front", codec, _SKIPPABLE + compress(codec, whole), count
        yield f"{name}: a skippable frame behind", codec, compress(codec, whole) + _SKIPPABLE, count

    packed = gzip_member(whole)
    yield "gzip: with a name and a comment", 1, gzip_member(whole, flags=0x18, fields=b"name\0comment\0"), count
    yield "gzip: with an extra field", 1, gzip_member(whole, flags=4, fields=b"\x03\0abc"), count
    yield "gzip: with a checksum of the header", 1, _with_header_crc(whole), count
    yield "gzip: with a wrong checksum of the header", 1, _with_header_crc(whole, 1), count
    yield "gzip: reserved flags", 1, gzip_member(whole, flags=0xE0), count
    yield "gzip: another method", 1, gzip_member(whole, method=7), count
    yield "gzip: a wrong checksum", 1, gzip_member(whole, crc=1), count
    yield "gzip: a wrong size", 1, gzip_member(whole, size=1), count
    yield "gzip: without its trailer", 1, packed[:-8], count
    yield "gzip: without half of its trailer", 1, packed[:-4], count
    yield "gzip: zlib's own framing", 1, zlib.compress(whole), count
    yield "gzip: a header behind", 1, packed + b"\x1f\x8b\x08\0\0\0\0\0\0\xff", count
    yield "gzip: a header and 8 bytes behind", 1, packed + b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"12345678", count
    yield "gzip: a header and 9 bytes behind", 1, packed + b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"123456789", count
    yield "gzip: a header and noise behind", 1, packed + b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + bytes(range(200, 255)), count
    yield "gzip: half a header behind", 1, packed + b"\x1f\x8b\x08\0\0", count
    yield "gzip: a header of another method behind", 1, packed + b"\x1f\x8b\x07\0\0\0\0\0\0\xff" + bytes(30), count
    yield "gzip: a header with a wrong checksum behind", 1, packed + _with_header_crc(two, 1), count
    yield "gzip: garbage, then a member, behind", 1, packed + b"xx" + gzip_member(two), count
    yield "gzip: a member, then garbage, behind", 1, gzip_member(one) + gzip_member(two) + b"garbage" * 5, count
    yield "gzip: three members", 1, gzip_member(one) + gzip_member(two) + gzip_member(plain(1, count)), count + 1

    block, first, second = _snappy(whole), _snappy(one), _snappy(two)
    yield "snappy: bare", 2, block, count
    yield "snappy: bare, bytes behind", 2, block + b"more", count
    yield "snappy: bare, two", 2, first + second, count
    yield "snappy: two blocks", 2, xerial(first, second), count
    yield "snappy: another version", 2, xerial(block, version=7), count
    yield "snappy: compatible with a later version", 2, xerial(block, compatible=2), count
    yield "snappy: compatible with version 0", 2, xerial(block, compatible=0), count
    yield "snappy: another magic", 2, xerial(block, magic=b"\x82SNAPPX\0"), count
    yield "snappy: a second stream with another version", 2, xerial(first) + xerial(second, version=9), count
    yield "snappy: a second stream compatible with version 0", 2, xerial(first) + xerial(second, compatible=0), count
    yield "snappy: a second stream with another magic", 2, xerial(first) + xerial(second, magic=b"\x82SNAXXX\0"), count
    yield "snappy: half a header behind", 2, xerial(block) + xerial()[:9], count
    yield "snappy: a header behind", 2, xerial(block) + xerial(), count
    yield "snappy: a block of no bytes", 2, xerial(first, b"", second), count
    yield "snappy: a block that is empty", 2, xerial(first, _snappy(b""), second), count
    yield "snappy: a block that is empty at the end", 2, xerial(block, _snappy(b"")), count
    yield "snappy: a block with a negative length behind", 2, xerial(block) + b"\xff\xff\xff\xff", count
    yield "snappy: a block with bytes behind", 2, xerial(block + b"more"), count
    yield "snappy: a bare block behind", 2, xerial(first) + second, count
    yield "snappy: 1 byte of a length behind", 2, xerial(block) + b"\0", count
    yield "snappy: 3 bytes of a length behind", 2, xerial(block) + b"\0\0\0", count

    yield "lz4: a stored block", 3, lz4_frame(whole, stored=True), count
    yield "lz4: a content size", 3, lz4_frame(whole, flags=0x68, size=len(whole)), count
    yield "lz4: a wrong content size", 3, lz4_frame(whole, flags=0x68, size=len(whole) + 1), count
    yield "lz4: a content checksum", 3, lz4_frame(whole, flags=0x64, content_checksum=0), count
    yield "lz4: a wrong content checksum", 3, lz4_frame(whole, flags=0x64, content_checksum=1), count
    yield "lz4: without its content checksum", 3, lz4_frame(whole, flags=0x64), count
    yield "lz4: a block checksum", 3, lz4_frame(whole, flags=0x70, block_checksum=0), count
    yield "lz4: a wrong block checksum", 3, lz4_frame(whole, flags=0x70, block_checksum=1), count
    yield "lz4: a wrong header checksum", 3, lz4_frame(whole, header_checksum_off=1), count
    yield "lz4: a dictionary", 3, lz4_frame(whole, flags=0x61, dictionary=b"\1\2\3\4"), count
    yield "lz4: a reserved flag", 3, lz4_frame(whole, flags=0x62), count
    yield "lz4: another version", 3, lz4_frame(whole, flags=0xA0), count
    yield "lz4: a reserved bit of the block size", 3, lz4_frame(whole, block_bytes=0xC0), count
    yield "lz4: a low reserved bit of the block size", 3, lz4_frame(whole, block_bytes=0x41), count
    yield "lz4: an unknown block size", 3, lz4_frame(whole, block_bytes=0x30), count
    yield "lz4: linked blocks", 3, lz4_frame(whole, flags=0x40), count
    yield "lz4: without an end mark", 3, lz4_frame(whole, ends=False), count
    yield "lz4: an empty block", 3, lz4_frame(whole)[:-4] + b"\1\0\0\0\0" + b"\0\0\0\0", count

    yield "zstd: as a stream", 4, streamed(whole), count
    yield "zstd: a wrong checksum", 4, _zstd_with_wrong_checksum(whole), count
    yield (
        "zstd: a frame of no blocks that are raw",
        4,
        b"\x28\xb5\x2f\xfd\x20\x00\x01\x00\x00" + compress(4, whole),
        count,
    )
    yield "zstd: a wrong content size", 4, _zstd_raw(whole, size=len(whole) + 1), count
    yield "zstd: a raw block", 4, _zstd_raw(whole), count
    yield "zstd: a dictionary", 4, b"\x28\xb5\x2f\xfd\x21\x07" + _zstd_raw(whole)[5:], count
    yield "zstd: a reserved bit", 4, b"\x28\xb5\x2f\xfd\x28" + _zstd_raw(whole)[5:], count
    yield "zstd: an unused bit", 4, b"\x28\xb5\x2f\xfd\x30" + _zstd_raw(whole)[5:], count
    yield "zstd: half a magic behind", 4, compress(4, whole) + b"\x28\xb5", count
    yield "zstd: a magic behind", 4, compress(4, whole) + b"\x28\xb5\x2f\xfd", count
    yield "zstd: half a skippable frame behind", 4, compress(4, whole) + _SKIPPABLE[:10], count


def _zstd_raw(data: bytes, size: int | None = None) -> bytes:
    """Return a frame of one raw block."""
    return (
        b"\x28\xb5\x2f\xfd\x20"
        + bytes([len(data) if size is None else size])
        + (len(data) << 3 | 1).to_bytes(3, "little")
        + data
    )


def _zstd_with_wrong_checksum(data: bytes) -> bytes:
    frame = bytearray(_zstd_raw(data))
    frame[4] |= 4
    return bytes(frame) + b"\1\2\3\4"


def _fields() -> Iterator[tuple[str, bytes, int]]:
    """Yield name, records that are not compressed, and their number."""
    after = sized(body(1))
    yield "record: ordinary", sized(body(0)) + after, 2
    for attributes in (1, 0x80, 0xFF):
        yield f"record: attributes {attributes:#x}", sized(body(0, attributes=attributes)) + after, 2
    for size in (-1, -2, -100, -(2**31)):
        yield f"record: a key of {size} bytes", sized(body(0, key=varint(size))) + after, 2
        yield f"record: a value of {size} bytes", sized(body(0, value=varint(size))) + after, 2
        name = varint(1) + b"h"
        yield (
            f"record: a header's value of {size} bytes",
            sized(body(0, headers=varint(1) + name + varint(size))) + after,
            2,
        )
        yield (
            f"record: a header's name of {size} bytes",
            sized(body(0, headers=varint(1) + varint(size) + b"\1")) + after,
            2,
        )
        yield f"record: {size} headers", sized(body(0, headers=varint(size))) + after, 2
        yield f"record: an offset of {size}", sized(body(size)) + after, 2
        yield f"record: a length of {size}", varint(size) + after, 2
    yield (
        "record: a header whose name is not UTF-8",
        sized(body(0, headers=varint(1) + varint(2) + b"\xff\xfe" + varint(0))) + after,
        2,
    )
    yield "record: a header without a name", sized(body(0, headers=varint(1) + varint(0) + varint(0))) + after, 2
    yield (
        "record: fewer headers than counted",
        sized(body(0, headers=varint(2) + varint(1) + b"h" + varint(0))) + after,
        2,
    )
    yield (
        "record: more headers than counted",
        sized(body(0, headers=varint(1) + (varint(1) + b"h" + varint(0)) * 2)) + after,
        2,
    )
    yield "record: bytes after its fields", sized(body(0) + b"more") + after, 2
    yield "record: a length that is too short", sized(body(0), -1) + after, 2
    yield "record: a length that is too long", sized(body(0), 1) + after, 2
    yield "record: a key longer than the record", sized(body(0, key=varint(100) + b"k")) + after, 2
    yield "record: no fields", varint(0) + after, 2
    long_zero, too_long = b"\x80\x80\x80\x80\x00", b"\x80\x80\x80\x80\x80\x00"
    yield (
        "record: numbers in more bytes than needed",
        sized(body(long_zero, timestamp=b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00")) + after,
        2,
    )
    yield "record: an offset in six bytes", sized(body(too_long)) + after, 2
    yield "record: a timestamp in eleven bytes", sized(body(0, timestamp=b"\x80" * 10 + b"\x00")) + after, 2
    yield "record: an offset of more than 32 bits", sized(body(b"\x80\x80\x80\x80\x10")) + after, 2
    yield "record: a key size of more than 32 bits", sized(body(0, key=b"\x82\x80\x80\x80\x70k")) + after, 2
    yield "record: a timestamp of more than 64 bits", sized(body(0, timestamp=b"\x80" * 9 + b"\x02")) + after, 2
    yield "record: a timestamp that overflows", sized(body(0, timestamp=2**63 - 1)) + after, 2
    yield "record: the same offset twice", sized(body(0)) + sized(body(0)), 2
    yield "record: offsets in the wrong order", sized(body(1)) + sized(body(0)), 2
    yield "record: an offset beyond the batch", sized(body(0)) + sized(body(9)), 2


def _batches() -> Iterator[tuple[str, bytes]]:
    """Yield name and record set of batches with odd headers."""
    whole, count = plain(), 2 * _HALF
    behind = raw_batch(plain(1), 1, base_offset=20)
    for attributes in (0x80, 0x7F80 & ~0x7F, 0x8000 - 0x10000):
        yield f"batch: attributes {attributes & 0xFFFF:#x}", raw_batch(whole, count, attributes=attributes) + behind
    for codec in (5, 6, 7):
        yield f"batch: codec {codec}", raw_batch(whole, count, attributes=codec) + behind
    yield "batch: append time", raw_batch(whole, count, attributes=8) + behind
    yield "batch: a delete horizon", raw_batch(whole, count, attributes=0x40) + behind
    yield "batch: transactional without a producer", raw_batch(whole, count, attributes=0x10) + behind
    yield "batch: no records", raw_batch(b"", 0, last_delta=5) + behind
    yield "batch: no records, but bytes", raw_batch(whole, 0, last_delta=5) + behind
    yield "batch: -1 records", raw_batch(whole, -1, last_delta=5) + behind
    yield "batch: fewer records than counted", raw_batch(whole, count + 1) + behind
    yield "batch: more records than counted", raw_batch(whole, count - 1, last_delta=count - 1) + behind
    yield "batch: 2147483647 records", raw_batch(whole, 2**31 - 1, last_delta=count - 1) + behind
    yield "batch: bytes after the last record", raw_batch(whole + b"more", count) + behind
    yield "batch: a gap in the offsets", raw_batch(sized(body(0)) + sized(body(5)), 2, last_delta=9) + behind
    yield "batch: last offset delta beyond the records", raw_batch(whole, count, last_delta=15) + behind
    yield "batch: last offset delta below the records", raw_batch(whole, count, last_delta=2) + behind
    yield "batch: last offset delta -1", raw_batch(whole, count, last_delta=-1) + behind
    yield "batch: base offset -1", raw_batch(whole, count, base_offset=-1) + behind
    yield "batch: the last offset overflows", raw_batch(whole, count, base_offset=2**63 - 3)
    wrong = bytearray(raw_batch(whole, count))
    wrong[17] ^= 1
    yield "batch: a wrong checksum", bytes(wrong) + behind
    yield "batch: offsets below the previous batch", behind + raw_batch(whole, count)
    yield "batch: the same batch twice", raw_batch(whole, count) * 2 + behind
    yield "batch: cut off", raw_batch(whole, count) + behind[:-1]
    yield "batch: 11 bytes behind", raw_batch(whole, count) + bytes(11)
    yield "batch: zeros behind", raw_batch(whole, count) + bytes(100)
    for magic in (3, 127, 255):
        changed = bytearray(raw_batch(whole, count))
        changed[16] = magic
        yield f"batch: magic {magic}", bytes(changed) + behind
    for size in (-1, 0, 13, 14, 48, 2**31 - 1):
        changed = bytearray(raw_batch(whole, count))
        changed[8:12] = struct.pack(">i", size)
        yield f"batch: length {size}", bytes(changed) + behind
    for epoch in (-1, -5, 2**31 - 1):
        changed = bytearray(raw_batch(whole, count))
        changed[12:16] = struct.pack(">i", epoch)
        yield f"batch: leader epoch {epoch}", bytes(changed) + behind
    yield "batch: producer id -7, sequence -9", _with_producer(whole, count, -7, -3, -9) + behind
    yield "batch: a producer id without a sequence", _with_producer(whole, count, 7, 0, -1) + behind


def _with_producer(payload: bytes, count: int, producer_id: int, epoch: int, sequence: int) -> bytes:
    covered = struct.pack(">hiqqqhii", 0, count - 1, TIME, TIME, producer_id, epoch, sequence, count) + payload
    return struct.pack(">qiibI", 0, 9 + len(covered), 0, 2, crc32c(covered)) + covered


def _old_message(magic: int, offset: int, fields: bytes, attributes: int = 0) -> bytes:
    content = struct.pack(">bB", magic, attributes) + (struct.pack(">q", TIME) if magic else b"") + fields
    return struct.pack(">qiI", offset, len(content) + 4, zlib.crc32(content)) + content


def _sets() -> Iterator[tuple[str, bytes]]:
    """Yield name and record set of the old formats."""
    behind = raw_batch(plain(1), 1, base_offset=20)
    for magic in (0, 1):
        name = f"v{magic}"
        inner = [message(magic, number, b"k", b"v") for number in range(3)]
        yield f"{name}: ordinary", b"".join(inner) + behind
        yield f"{name}: bytes after the value", _old_message(magic, 0, b"\0\0\0\1k\0\0\0\1vmore") + behind
        yield f"{name}: a key of -2 bytes", _old_message(magic, 0, b"\xff\xff\xff\xfe\0\0\0\1v") + behind
        yield f"{name}: a value of -2 bytes", _old_message(magic, 0, b"\0\0\0\1k\xff\xff\xff\xfe") + behind
        yield f"{name}: a value longer than the message", _old_message(magic, 0, b"\0\0\0\1k\0\0\0\x09v") + behind
        yield f"{name}: attributes 0xf0", _old_message(magic, 0, b"\0\0\0\1k\0\0\0\1v", 0xF0) + behind
        wrong = bytearray(message(magic, 0, b"k", b"v"))
        wrong[12] ^= 1
        yield f"{name}: a wrong checksum", bytes(wrong) + behind
        for codec in (1, 2, 3):
            kind = Codec(codec).name.lower()

            def wrapped(data: bytes, offset: int = 2, codec: int = codec, magic: int = magic) -> bytes:
                return message(magic, offset, None, data, attributes=codec) + behind

            whole = b"".join(inner)
            packed = compress(codec, whole)
            yield f"{name} {kind}: ordinary", message_set(magic, codec, inner, 2) + behind
            yield f"{name} {kind}: bytes behind", wrapped(packed + b"more")
            yield f"{name} {kind}: two", wrapped(compress(codec, inner[0]) + compress(codec, inner[1] + inner[2]))
        half = b"".join(inner) + message(magic, 3, b"k", b"v")[:-3]
        yield (
            f"{name}: an inner message that is cut off",
            message(magic, 3, None, compress(1, half), attributes=1) + behind,
        )
        yield (
            f"{name}: 5 bytes after the inner messages",
            message(magic, 2, None, compress(1, b"".join(inner) + b"12345"), attributes=1) + behind,
        )
        yield f"{name}: no inner message", message(magic, 2, None, compress(1, b""), attributes=1) + behind
        yield f"{name}: no value", message(magic, 2, None, None, attributes=1) + behind
        yield f"{name}: zstd", message_set(magic, 4, inner, 2) + behind
        damaged = bytearray(inner[1])
        damaged[12] ^= 1
        damaged_set = message_set(magic, 1, [inner[0], bytes(damaged)], 1)
        yield f"{name}: an inner message with a wrong checksum", damaged_set + behind
        yield f"{name}: compressed twice", message_set(magic, 1, [message_set(magic, 1, inner, 2)], 2) + behind
        yield (
            f"{name}: inner messages of the other format",
            message_set(magic, 1, [message(1 - magic, 0, b"k", b"v")], 0) + behind,
        )
        yield f"{name}: an inner batch of format 2", message_set(magic, 1, [raw_batch(plain(1), 1)], 0) + behind
        yield (
            f"{name}: absolute inner offsets",
            message_set(magic, 1, [message(magic, 10 + n, b"k", b"v") for n in range(3)], 12) + behind,
        )
        yield f"{name}: an outer offset of 0", message_set(magic, 1, inner, 0) + behind
        yield f"{name}: an outer offset below the inner ones", message_set(magic, 1, inner, 1) + behind
        yield (
            f"{name}: an outer offset of 0, absolute inner offsets",
            message_set(magic, 1, [message(magic, 10, b"k", b"v")], 0) + behind,
        )
        yield f"{name}: inner offsets with gaps", message_set(magic, 1, [inner[0], inner[2]], 12) + behind
        yield f"{name}: the same inner offset twice", message_set(magic, 1, [inner[0], inner[0]], 10) + behind
        yield f"{name}: inner offsets in the wrong order", message_set(magic, 1, [inner[1], inner[0]], 10) + behind
        yield f"{name}: append time", message_set(magic, 1, inner, 2, attributes=8) + behind
        yield (
            f"{name}: a key beside the inner messages",
            message(magic, 2, b"key", compress(1, b"".join(inner)), attributes=1) + behind,
        )


def client_batches() -> dict[str, tuple[bytes, int]]:
    """Return batches as a client would produce them, and their numbers of records, by the name of their record set."""
    found = {name: (raw_batch(data, n, attributes=codec), n) for name, codec, data, n in _compressed()}
    found |= {name: (raw_batch(data, n), n) for name, data, n in _fields()}
    return found


def record_sets() -> dict[str, bytes]:
    """Return the record sets by name."""
    behind = raw_batch(plain(1), 1, base_offset=20)
    found: dict[str, bytes] = {}
    for name, codec, payload, count in _compressed():
        found[name] = raw_batch(payload, count, attributes=codec, last_delta=9) + behind
    for name, records, count in _fields():
        found[name] = raw_batch(records, count) + behind
        found[f"{name}, compressed"] = raw_batch(compress(1, records), count, attributes=1) + behind
    for name, data in (*_batches(), *_sets()):
        assert name not in found, name
        found[name] = data
    return found


def judged(sets: dict[str, bytes]) -> list[dict[str, Any]]:
    """Return record sets with the records that Java reads from them."""
    from tests.support.java import tools

    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "sets.json"
        given.write_text(json.dumps([data.hex() for data in sets.values()]))
        said = tools().run_source(HERE / "TolerantReaders.java", str(given)).stdout
    answers = json.loads(said.strip().splitlines()[-1])
    return [
        {"name": name, **answer, "hex": data.hex()} for (name, data), answer in zip(sets.items(), answers, strict=True)
    ]


def main() -> None:
    """Write the file."""
    FILE.write_text("[\n" + ",\n".join(json.dumps(one) for one in judged(record_sets())) + "\n]\n")


if __name__ == "__main__":
    main()
