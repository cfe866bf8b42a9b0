"""Compression and decompression of batches, with a limit on the size.

=========  ======================================================================================
gzip       one or more members
snappy     xerial blocks (as Java and librdkafka write them), or one bare snappy block
lz4        one frame, independent blocks, written with 64 KiB blocks as Java does
zstd       one or more frames
=========  ======================================================================================

Apache Kafka stores whatever its own readers read, so that is read here, too. In ``tests/vectors/tolerance.json`` Java's
consumer judges each of these:

=========  ================================================  ===========================================================
codec      read although it is odd                           because
=========  ================================================  ===========================================================
gzip       bytes behind a member that do not begin a         Java's ``GZIPInputStream`` tries to read one more header,
           further one: no whole, valid header, or no more   if there is room for a member, and ignores what is none
           than 18 bytes
gzip       reserved flags                                    Java does not look at them
snappy     several xerial streams: of the header of a        where a block's length would be, snappy-java looks for the
           further one only the first four bytes count       first four bytes of a header
snappy     up to three bytes after the last block            they are no length of a block
lz4        anything behind the first frame                   Kafka's own reader ends with the frame
lz4        a content size or content checksum that is wrong  Kafka's own reader does not look at them
zstd       a cut off frame behind the first                  zstd-jni waits for the rest, and ends with the data
all        a batch without records that has bytes            its records are not read
=========  ================================================  ===========================================================

Some things are read that Java refuses: lz4 frames with linked blocks, a dictionary's id or skippable frames in front,
and zstd in formats v0 and v1. No broker stores them, so that this does no harm. All else is damage, for us as for
Java: garbage behind zstd, a wrong checksum of gzip, of zstd or of an lz4 block or header, bytes after the last record.

snappy, lz4 and zstd are decompressed by the compiled decoder (``native/decompress.c``), which uses the system's
libraries for lz4 and zstd. If it was not built, or a library is missing, the package ``cramjam`` is used, or
``pyarrow`` if a Spark worker lacks cramjam. These two also compress. The messages about damaged data are made here
(:func:`damage_of`), so that they are the same for all of them. :func:`describe_codecs` says which library serves.

State: the library, chosen at first use, and a buffer for each thread.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import cache
from struct import Struct
from typing import Any, Final

from pyconsumer.background_log import Log
from pyconsumer.errors import UnsupportedCodecError
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.records._varint import DamageError, read_raw_varint
from pyconsumer.protocol.records.crc import implementation
from pyconsumer.protocol.records.native_module import compiled

__all__ = ["DEFAULT_MAX_DECOMPRESSED_BYTES", "Codec", "compress", "damage_of", "decompress", "describe_codecs"]

_log = Log("pyconsumer.records")

#: Limit of the decompressed size of a batch, unless the caller sets another one.
DEFAULT_MAX_DECOMPRESSED_BYTES: Final = 256 * 1024 * 1024


class Codec(IntEnum):
    """Compression types, by their number in the attributes of a batch (zstd: KIP-110)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def of(cls, name: str | int | Codec) -> Codec:
        """Return the codec for a name such as ``"zstd"``, or for a number.

        Raises:
            UnsupportedCodecError: there is no such compression type.
        """
        # Not by cls(name), which is slow: this is called for each batch.
        found = cls.__members__.get(name.upper()) if isinstance(name, str) else _BY_NUMBER.get(name)
        if found is None:
            raise UnsupportedCodecError(
                f"compression type {name!r} is unknown; it must be none, gzip, snappy, lz4 or zstd"
            )
        return found


_BY_NUMBER: Final[dict[int, Codec]] = {int(codec): codec for codec in Codec}


#: The result of the compiled decoder for data that decompresses to more than the limit.
_TOO_LARGE: Final = 2


@cache
def _library() -> tuple[str, Any]:
    try:
        import cramjam

        return "cramjam", cramjam
    except ImportError:
        pass
    try:
        import pyarrow

        return "pyarrow", pyarrow
    except ImportError:
        return "", None


@cache
def _compiled() -> Callable[[int, Buffer, int, int], bytes | int | None] | None:
    """Return the compiled function that decompresses snappy, lz4 and zstd, or None if it was not built."""
    found: Callable[[int, Buffer, int, int], bytes | int | None] | None = compiled("decompress_compiled")
    return found


@cache
def _report_missing_library(codec: Codec) -> None:
    """Log once that the compiled decoder lacks a codec's library."""
    library_of = compiled("library_of")
    library = None if library_of is None else library_of(codec)
    if library is not None:
        _log.info("%s is decompressed by %s: %s is not used: %s", codec.name, _library()[0], library[0], library[3])


def describe_codecs() -> list[str]:
    """Return lines that name the libraries for decompression, compression and checksums, with their versions."""
    library_of = compiled("library_of")
    name, module = _library()
    package = f"{name} {module.__version__}" if name else "nothing: pip install cramjam"
    packed = {"gzip": f"zlib {zlib.ZLIB_RUNTIME_VERSION}"}
    for codec in (Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        library = None if library_of is None else library_of(codec)
        if library_of is None or (library is not None and library[3]):
            packed[codec.name.lower()] = package if library is None else f"{package} ({library[0]}: {library[3]})"
        else:
            used = "the record decoder" if library is None else f"{library[0]} {library[1]} ({library[2]})"
            packed[codec.name.lower()] = used
    return [
        *(f"{codec} is decompressed by {by}" for codec, by in packed.items()),
        f"snappy, lz4 and zstd are compressed by {package}",
        f"CRC-32C is computed by {implementation()[1]}",
    ]


def _require_library(codec: Codec) -> tuple[str, Any]:
    name, module = _library()
    if not name:
        raise UnsupportedCodecError(f"{codec.name.lower()} needs a library: pip install cramjam")
    return name, module


def decompress(codec: int, data: Buffer, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES, magic: int = 2) -> bytes:
    """Decompress a record set.

    Args:
        codec: the number in the attributes of the batch.
        max_bytes: the largest allowed size after decompression.
        magic: the format of the batch. In format v0, lz4 frames have a wrong header checksum, which is ignored.

    Raises:
        DamageError: the data is damaged, or decompresses to more than ``max_bytes``.
        UnsupportedCodecError: the compression type is unknown, or its library is not installed.
    """
    kind = Codec.of(codec)
    if kind is Codec.NONE:
        return bytes(data)
    if kind is Codec.GZIP:
        return _decompress_gzip(data, max_bytes)
    by_decoder = _compiled()
    if by_decoder is not None:
        result = by_decoder(kind, data, max_bytes, magic)
        if type(result) is bytes:
            return result
        if result is not None:
            raise damage_of(kind, data, max_bytes, magic, result == _TOO_LARGE)
        _report_missing_library(kind)
    name, module = _require_library(kind)
    try:
        view, bound = _extent(kind, data, max_bytes, magic)
        if kind is Codec.SNAPPY:
            return _decompress_snappy(name, module, memoryview(view))
        return _decompress_frames(name, module, kind.name.lower(), view, bound, max_bytes)
    except (DamageError, MemoryError):
        raise
    except Exception as exc:  # the libraries raise types of their own, or OSError
        raise damage_of(kind, data, max_bytes, magic) from exc


def damage_of(codec: int, data: Buffer, max_bytes: int, magic: int, is_too_large: bool = False) -> DamageError:
    """Return the error for snappy, lz4 or zstd data that could not be decompressed.

    Args:
        is_too_large: True if the data would decompress to more than ``max_bytes``. False if it is damaged.
    """
    kind = Codec.of(codec)
    try:
        _extent(kind, data, max_bytes, magic)
    except DamageError as error:
        return error
    return _too_large(max_bytes) if is_too_large else DamageError(f"{kind.name.lower()} data is damaged")


def _extent(kind: Codec, data: Buffer, max_bytes: int, magic: int) -> tuple[Buffer, int]:
    """Read the headers. Return the data, repaired if necessary, and an upper bound of the decompressed size.

    Raises:
        DamageError: a header is damaged, or it is certain that the limit will be exceeded.
    """
    view = memoryview(data)
    try:
        if kind is Codec.SNAPPY:
            return view, _snappy_size(view, max_bytes)
        return _lz4_extent(view, magic) if kind is Codec.LZ4 else _zstd_extent(view, max_bytes)
    except (IndexError, struct.error):
        raise DamageError(f"{kind.name.lower()} data is cut off") from None


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress a record set. ``level`` is the codec's level (KIP-390). None takes the codec's default.

    Raises:
        UnsupportedCodecError: the compression type is unknown, or its library is not installed.
    """
    kind = Codec.of(codec)
    if kind is Codec.NONE:
        return bytes(data)
    if kind is Codec.GZIP:
        return zlib.compress(data, -1 if level is None else level, wbits=31)
    name, module = _require_library(kind)
    if kind is Codec.SNAPPY:
        return _compress_snappy(name, module, memoryview(data))
    if kind is Codec.LZ4:
        return _compress_lz4(name, module, memoryview(data), level)
    if name == "cramjam":
        return bytes(module.zstd.compress(data, level=3 if level is None else level))
    codec_object = module.Codec("zstd", compression_level=3 if level is None else level)
    return bytes(codec_object.compress(bytes(data), asbytes=True))


def _too_large(max_bytes: int) -> DamageError:
    return DamageError(f"its records decompress to more than {max_bytes} bytes")


# The upper bound for frames written as a stream, as Java does, is far above their real size. Allocating that much new
# memory for each batch takes nearly as long as decompressing it.
class _ReusedBuffer(threading.local):
    """A buffer of each thread for decompressed data."""

    def __init__(self) -> None:
        self._buffer: bytearray | None = None

    def take(self) -> bytearray | None:
        """Return the buffer and forget it, so that a reentrant call gets another one. None if there is none."""
        buffer, self._buffer = self._buffer, None
        return buffer

    def keep(self, buffer: bytearray) -> None:
        """Keep a buffer for the next batch."""
        self._buffer = buffer


_reused: Final = _ReusedBuffer()
_LARGEST_REUSED: Final = 4 << 20


def _decompress_into(function: Callable[[Buffer, memoryview], int], data: Buffer, bound: int) -> bytes:
    """Return the output of a library's function that writes into a buffer of ``bound`` bytes."""
    keeps = bound <= _LARGEST_REUSED
    buffer = _reused.take() if keeps else None
    if buffer is None or len(buffer) < bound:
        buffer = bytearray(bound)
    output = memoryview(buffer)[:bound]
    size = function(data, output)
    if keeps:
        _reused.keep(buffer)
    return bytes(output[:size])


# --- gzip

_GZIP_HEADER: Final = Struct("<HBB6x")
_GZIP_TRAILER: Final = Struct("<II")
_GZIP_MAGIC: Final = 0x8B1F
_DEFLATE: Final = 8
_HAS_HEADER_CRC: Final = 0x02
_HAS_EXTRA: Final = 0x04
_HAS_NAME: Final = 0x08
_HAS_COMMENT: Final = 0x10
#: A member has a header of 10 bytes and a trailer of 8. Java looks for a further one only in more bytes than that.
_NO_MEMBER_BYTES: Final = 18
#: What a member's decompressor gets at a time: it copies the rest of that, so a batch of many small members is not
#: copied once for each.
_GZIP_PIECE: Final = 64 * 1024
_GZIP_FURTHER_PIECE: Final = 4 * 1024


def _decompress_gzip(data: Buffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    parts: list[bytes] = []
    room, piece = max_bytes, _GZIP_PIECE
    position = _after_gzip_header(view, 0)
    if position is None:
        _raise_gzip_header(view)
    while position is not None:
        position, size = _decompress_member(view, position, piece, room, parts, max_bytes)
        room -= size
        piece = _GZIP_FURTHER_PIECE
        position = _after_gzip_header(view, position) if len(view) - position > _NO_MEMBER_BYTES else None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _raise_gzip_header(view: memoryview) -> None:
    header = bytes(view[:4])
    if len(header) == 4 and _GZIP_HEADER.unpack(header + bytes(6))[:2] != (_GZIP_MAGIC, _DEFLATE):
        raise DamageError("gzip data is damaged: it does not begin with a gzip header")
    raise DamageError("gzip data is cut off, or its header is damaged")


def _after_gzip_header(view: memoryview, position: int) -> int | None:
    """Return the position after the header of a member, or None without a whole, valid header."""
    try:
        magic, method, flags = _GZIP_HEADER.unpack_from(view, position)
        if magic != _GZIP_MAGIC or method != _DEFLATE:
            return None
        end = position + _GZIP_HEADER.size
        if flags & _HAS_EXTRA:
            end += 2 + int.from_bytes(view[end : end + 2], "little")
        for flag in (_HAS_NAME, _HAS_COMMENT):
            if flags & flag:
                end = _after_zero(view, end)
        if flags & _HAS_HEADER_CRC:
            if end + 2 > len(view) or zlib.crc32(view[position:end]) & 0xFFFF != int.from_bytes(
                view[end : end + 2], "little"
            ):
                return None
            end += 2
    except (IndexError, struct.error):
        return None
    return end if end <= len(view) else None


def _after_zero(view: memoryview, position: int) -> int:
    """Return the position after the next byte that is 0."""
    while True:
        piece = bytes(view[position : position + 1024])
        if not piece:
            raise IndexError("there is none")
        if 0 in piece:
            return position + piece.index(0) + 1
        position += len(piece)


def _decompress_member(
    view: memoryview, position: int, piece: int, room: int, parts: list[bytes], max_bytes: int
) -> tuple[int, int]:
    """Decompress the member whose header ends at ``position``. Return the position after it, and its size."""
    member = zlib.decompressobj(wbits=-15)
    size = checksum = 0
    while not member.eof:
        given = view[position : position + piece]
        if not given:
            raise DamageError("gzip data is cut off")
        try:
            part = member.decompress(given, room - size + 1)
        except zlib.error as exc:
            raise DamageError(f"gzip data is damaged: {exc}") from None
        size += len(part)
        if size > room:
            raise _too_large(max_bytes)
        checksum = zlib.crc32(part, checksum)
        if part:
            parts.append(part)
        position += len(given) - len(member.unused_data)
    if len(view) - position < _GZIP_TRAILER.size:
        raise DamageError("gzip data is cut off")
    if _GZIP_TRAILER.unpack_from(view, position) != (checksum, size & 0xFFFFFFFF):
        raise DamageError("gzip data is damaged: its checksum or size is wrong")
    return position + _GZIP_TRAILER.size, size


# --- snappy

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_LENGTH: Final = Struct(">i")
_XERIAL_MAGIC_HEAD: Final = _LENGTH.unpack(_XERIAL_MAGIC[:4])[0]


def _snappy_blocks(view: memoryview) -> Iterator[memoryview]:
    if bytes(view[:8]) != _XERIAL_MAGIC:
        yield view
        return
    position, total = len(_XERIAL_HEADER), len(view)
    if total < position:
        raise DamageError("snappy data is cut off")
    while total - position >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(view, position)
        if length == _XERIAL_MAGIC_HEAD:  # of a further stream
            position += len(_XERIAL_HEADER)
            if position > total:
                raise DamageError("snappy data is cut off")
            continue
        position += 4
        if not 0 < length <= total - position:
            raise DamageError(f"a snappy block claims {length} bytes, but {total - position} bytes are left")
        yield view[position : position + length]
        position += length


def _block_size(block: memoryview) -> int:
    return read_raw_varint(bytes(block[:6]), 0, 32)[0]


def _snappy_size(view: memoryview, max_bytes: int) -> int:
    """Return the decompressed size, according to the headers of the blocks."""
    total = 0
    for block in _snappy_blocks(view):
        size = _block_size(block)
        if size > max_bytes - total:
            raise _too_large(max_bytes)
        if size > 64 * len(block):  # the longest copy element has 2 bytes and decompresses to 64
            raise DamageError("a snappy block claims to decompress to more bytes than it can")
        total += size
    return total


def _decompress_snappy(name: str, module: Any, view: memoryview) -> bytes:
    parts = []
    codec = None if name == "cramjam" else module.Codec("snappy")
    for block in _snappy_blocks(view):
        size = _block_size(block)
        if codec is None:
            parts.append(_decompress_into(module.snappy.decompress_raw_into, block, size))
        else:
            parts.append(bytes(codec.decompress(block, decompressed_size=size, asbytes=True)))
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _compress_snappy(name: str, module: Any, view: memoryview) -> bytes:
    codec = None if name == "cramjam" else module.Codec("snappy")
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = view[start : start + _XERIAL_BLOCK_BYTES]
        if codec is None:
            packed = bytes(module.snappy.compress_raw(block))
        else:
            packed = codec.compress(block, asbytes=True)
        parts += (_LENGTH.pack(len(packed)), packed)
    return b"".join(parts)


# --- lz4 and zstd: the headers of frames limit the size of their blocks


def _decompress_frames(name: str, module: Any, kind: str, data: Buffer, bound: int, max_bytes: int) -> bytes:
    if name == "cramjam":
        try:
            return _decompress_into(getattr(module, kind).decompress_into, data, min(bound, max_bytes))
        except module.DecompressionError as exc:
            if bound > max_bytes and "whole buffer" in str(exc):
                raise _too_large(max_bytes) from None
            raise
    with module.CompressedInputStream(module.BufferReader(module.py_buffer(data)), kind) as stream:
        content = stream.read(min(bound, max_bytes) + 1)
        if len(content) > max_bytes:
            raise _too_large(max_bytes)
        return bytes(content)


_LITTLE_U32: Final = Struct("<I")
_LZ4_MAGIC: Final = 0x184D2204
_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_MAGIC_BYTES: Final = _LITTLE_U32.pack(_ZSTD_MAGIC)
_SKIPPABLE_MAGIC: Final = 0x184D2A50  # to 0x184D2A5F, in both formats
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_STORED: Final = 0x80000000
_LZ4_DICTIONARY: Final = 0x01
_LZ4_CONTENT_CHECKSUM: Final = 0x04
_LZ4_CONTENT_SIZE: Final = 0x08
# As Java writes it: version 1, independent blocks, no checksums; blocks of 64 KiB; checksum of these two bytes.
_LZ4_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
_ZSTD_BLOCK_BYTES: Final = 128 * 1024
_ZSTD_LONGEST_WINDOW: Final = 128 * 1024 * 1024  # the default limit of the command zstd


def _after_skippable(view: memoryview, position: int, name: str) -> int:
    """Return the position after a skippable frame whose magic number has been read."""
    position += 4 + _LITTLE_U32.unpack_from(view, position)[0]
    if position > len(view):
        raise DamageError(f"{name} data is cut off")
    return position


def _lz4_extent(view: memoryview, magic: int) -> tuple[Buffer, int]:
    """Return the first frame of the data, as a library is to read it, and an upper bound of the decompressed size.

    The header's checksum is repaired for format v0. Content size and checksum are left out: Kafka does not check them.
    """
    position, bound, total = 0, 0, len(view)
    while True:
        start = position
        (frame_magic,) = _LITTLE_U32.unpack_from(view, position)
        position += 4
        if frame_magic & 0xFFFFFFF0 != _SKIPPABLE_MAGIC:
            break
        position = _after_skippable(view, position, "lz4")
    if frame_magic != _LZ4_MAGIC:
        raise DamageError("lz4 data does not begin with an lz4 frame")
    flags, block_flags = view[position], view[position + 1]
    block_id = block_flags >> 4 & 7
    if block_id < 4:
        raise DamageError(f"lz4 block size id {block_id} is unknown")
    block_bytes = 1 << (2 * block_id + 8)
    header_end = position + 2 + (8 if flags & _LZ4_CONTENT_SIZE else 0) + (4 if flags & _LZ4_DICTIONARY else 0)
    descriptor = bytes(view[position:header_end])
    if magic and _xxh32_short(descriptor) >> 8 & 0xFF != view[header_end]:
        raise DamageError("the checksum of an lz4 header is wrong")
    blocks = position = header_end + 1
    while True:
        (block,) = _LITTLE_U32.unpack_from(view, position)
        position += 4
        if not block:
            break
        length = block & ~_LZ4_STORED
        if length > block_bytes or length > total - position:
            raise DamageError(f"an lz4 block of {length} bytes does not fit into its frame")
        bound += length if block & _LZ4_STORED else min(block_bytes, 255 * length)
        position += length + (4 if flags & 0x10 else 0)
    end = position
    if flags & _LZ4_CONTENT_CHECKSUM:
        position += 4
    if position > total:
        raise DamageError("lz4 data is cut off")
    if magic and not flags & (_LZ4_CONTENT_SIZE | _LZ4_CONTENT_CHECKSUM):
        return view[start:end], bound
    # KAFKA-3160: in format v0 the header's checksum includes the frame's magic number.
    flags &= ~(_LZ4_CONTENT_SIZE | _LZ4_CONTENT_CHECKSUM)
    descriptor = bytes((flags, block_flags)) + descriptor[len(descriptor) - (4 if flags & _LZ4_DICTIONARY else 0) :]
    header = _LITTLE_U32.pack(_LZ4_MAGIC) + descriptor + bytes((_xxh32_short(descriptor) >> 8 & 0xFF,))
    return header + view[blocks:end], bound


def _xxh32_short(data: bytes) -> int:
    """Return the xxHash32 checksum, seed 0, of less than 16 bytes, such as the header of an lz4 frame."""
    p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    mask = 0xFFFFFFFF
    value = p5 + len(data) & mask
    position = 0
    while len(data) - position >= 4:
        value = value + int.from_bytes(data[position : position + 4], "little") * p3 & mask
        value = (value << 17 | value >> 15) * p4 & mask
        position += 4
    for byte in data[position:]:
        value = value + byte * p5 & mask
        value = (value << 11 | value >> 21) * p1 & mask
    value = (value ^ value >> 15) * p2 & mask
    value = (value ^ value >> 13) * p3 & mask
    return value ^ value >> 16


def _compress_lz4(name: str, module: Any, view: memoryview, level: int | None) -> bytes:
    codec = None if name == "cramjam" else module.Codec("lz4_raw", compression_level=level)
    parts = [_LZ4_HEADER]
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        block = view[start : start + _LZ4_BLOCK_BYTES]
        if codec is None and level is not None:
            packed = _lz4_block_of_level(module, block, level)
        elif codec is None:
            packed = bytes(module.lz4.compress_block(block, store_size=False))
        else:
            packed = codec.compress(block, asbytes=True)
        if len(packed) < len(block):
            parts += (_LITTLE_U32.pack(len(packed)), packed)
        else:
            parts += (_LITTLE_U32.pack(len(block) | _LZ4_STORED), bytes(block))
    parts.append(b"\x00\x00\x00\x00")
    return b"".join(parts)


def _lz4_block_of_level(module: Any, block: memoryview, level: int) -> bytes:
    """Return a compressed block, or the block itself if it does not become smaller.

    The package has levels for frames alone. A frame of so few bytes has one block, which depends on no other one, as
    Java wants it. Above level 12 there is nothing better to find.
    """
    frame = bytes(module.lz4.compress(block, level=min(level, 12)))
    start = 15 if frame[4] & 8 else 7  # the header may have the size of the content
    (size,) = _LITTLE_U32.unpack_from(frame, start)
    return bytes(block) if size >> 31 else frame[start + 4 : start + 4 + size]


def _zstd_extent(view: memoryview, max_bytes: int) -> tuple[memoryview, int]:
    """Return the whole frames of the data, and an upper bound of the decompressed size, from their headers."""
    position = bound = 0
    total = len(view)
    if not total:
        raise DamageError("zstd data is cut off")
    while position < total:
        try:
            position, more = _zstd_frame(view, position, max_bytes)
        except _CutOffError:
            if not position:
                raise
            break
        bound += more
    return view[:position], bound


class _CutOffError(DamageError):
    """The data ends inside a frame of zstd."""


def _zstd_frame(view: memoryview, position: int, max_bytes: int) -> tuple[int, int]:
    """Return the position after the frame, and an upper bound of its decompressed size."""
    total = len(view)
    try:
        start = bytes(view[position : position + 4])
        if len(start) < 4:
            if _ZSTD_MAGIC_BYTES.startswith(start) or (
                0x50 <= start[0] <= 0x5F and b"\x2a\x4d\x18".startswith(start[1:])
            ):
                raise _CutOffError("zstd data is cut off")
            raise DamageError("zstd data does not begin with a zstd frame")
        frame_magic = int.from_bytes(start, "little")
        position += 4
        if frame_magic & 0xFFFFFFF0 == _SKIPPABLE_MAGIC:
            position += 4 + _LITTLE_U32.unpack_from(view, position)[0]
            if position > total:
                raise _CutOffError("zstd data is cut off")
            return position, 0
        if frame_magic != _ZSTD_MAGIC:
            raise DamageError("zstd data does not begin with a zstd frame")
        descriptor = view[position]
        position += 1
        single_segment = descriptor & 0x20
        window = 0
        if not single_segment:
            window = 1 << (10 + (view[position] >> 3))
            window += (window >> 3) * (view[position] & 7)
            if window > min(max(max_bytes, 8 << 20), _ZSTD_LONGEST_WINDOW):  # a library would allocate it
                raise DamageError(f"a zstd frame needs a window of {window} bytes")
            position += 1
        position += (0, 1, 2, 4)[descriptor & 3]
        size_id = descriptor >> 6
        size_bytes = (1 if single_segment else 0, 2, 4, 8)[size_id]
        content_bytes = None
        if size_bytes:
            content_bytes = int.from_bytes(view[position : position + size_bytes], "little")
            content_bytes += 256 if size_id == 1 else 0
            position += size_bytes
        if single_segment:
            window = content_bytes or 0
        block_bytes = min(window, _ZSTD_BLOCK_BYTES)
        frame_bound = 0
        while True:
            if total - position < 3:
                raise _CutOffError("zstd data is cut off")
            block = view[position] | view[position + 1] << 8 | view[position + 2] << 16
            position += 3
            kind, length = block >> 1 & 3, block >> 3
            if kind == 3 or length > block_bytes:
                raise DamageError("the header of a zstd block is invalid")
            frame_bound += block_bytes if kind == 2 else length
            position += 1 if kind == 1 else length
            if block & 1:
                break
        position += 4 if descriptor & 4 else 0
        if position > total:
            raise _CutOffError("zstd data is cut off")
        if content_bytes is not None:
            if content_bytes > frame_bound:
                raise DamageError("a zstd frame claims to decompress to more bytes than its blocks can")
            frame_bound = content_bytes
    except (IndexError, struct.error):
        raise _CutOffError("zstd data is cut off") from None
    return position, frame_bound
