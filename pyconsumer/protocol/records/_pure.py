"""The decoder of records in Python. No state.

One loop decodes a batch. It is written for speed: no function call per record, one- and two-byte numbers are read
inline, bounds are checked once per record. A wrong length always leads to an error: to an index beyond the data, to a
record that ends beyond the data, or to fields that do not end where their record does.

Java's consumer reads some odd records, which Apache Kafka stores, and so does this decoder. (The list for compressed
data is in ``compression``, the cases are in ``tests/vectors/tolerance.json``.)

* each negative length of a key, a value or a header's value means null, not only -1.
* attributes of a record, and unknown attributes of a batch, are ignored.
* a number may have more bytes than it needs, and bits beyond its 32 or 64 are dropped.
* a batch without records may have bytes, which are not read.
* in formats v0 and v1: bytes after the value, inner messages of the other format, an inner message that is cut off at
  the end, and an outer offset of 0 round relative offsets.

Offsets that repeat, decrease or lie beyond their batch are damage here. Java leaves out such records without a word, or
goes back and reads some again. Kafka's broker stores no such batch: it writes other offsets.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct
from typing import Final

from pyconsumer.generic import Header
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.records._varint import DamageError, read_raw_varint
from pyconsumer.protocol.records.batch import (
    BATCH_OVERHEAD,
    CODEC_MASK,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    BatchInfo,
)
from pyconsumer.protocol.records.compression import decompress
from pyconsumer.protocol.records.record import ConsumerRecord, RecordOrigin, make_record

__all__ = ["check_count", "decode_message_set", "decode_records", "open_batch"]

#: A record has at least: length, attributes, two deltas, key length, value length, count of headers.
_MIN_RECORD_BYTES: Final = 7
_CUT_OFF: Final = "a record is cut off"
_BAD_LENGTH: Final = "a record's length is negative or goes beyond the batch"
_BAD_FIELDS: Final = "a record's fields do not fit into its length"
_NO_HEADERS: Final[tuple[Header, ...]] = ()
#: The sum of a timestamp and a delta up to this size fits into 64 bits.
_LIKELY: Final = 2**62


def open_batch(buffer: Buffer, info: BatchInfo, max_decompressed_bytes: int) -> bytes:
    """Return the decompressed records of a v2 batch. They are a copy, which does not keep the buffer alive.

    Raises:
        DamageError: the data is damaged, too large, or too short for the number of records.
        UnsupportedCodecError: the compression type is unknown, or its library is not installed.
    """
    view = memoryview(buffer)[info.position + BATCH_OVERHEAD : info.position + info.size_bytes]
    if info.attributes & CODEC_MASK and info.record_count:
        payload = decompress(info.attributes & CODEC_MASK, view, max_decompressed_bytes)
    else:
        payload = bytes(view)
    check_count(info.record_count, len(payload))
    return payload


def check_count(record_count: int, size_bytes: int) -> None:
    """Check that a batch has enough bytes for the number of records in its header.

    Raises:
        DamageError: the batch has fewer bytes than that.
    """
    if record_count * _MIN_RECORD_BYTES > size_bytes:
        raise DamageError(f"{record_count} records do not fit into {size_bytes} bytes")


def decode_records(
    data: bytes,
    position: int,
    count: int,
    info: BatchInfo,
    lowest: int,
    skipping: bool,
    origin: RecordOrigin,
    records: list[ConsumerRecord],
) -> tuple[int, int, str | None]:
    """Decode ``count`` records of a v2 batch from ``data[position:]`` and append them to ``records``.

    Args:
        lowest: the next offset. A record below it is skipped if ``skipping`` is True. Otherwise it counts as damage.
        skipping: True if no record of this batch has been delivered yet.

    Returns:
        Position and next offset after the last good record, and a description of the damage after it. Without damage:
        None.
    """
    new = object.__new__
    cls = ConsumerRecord
    append = records.append
    size = len(data)
    base_offset = info.base_offset
    highest = info.last_offset
    base_timestamp = info.first_timestamp
    log_append_time = info.max_timestamp if origin.timestamp_type == LOG_APPEND_TIME else None
    start = position
    first = len(records)
    wide = not -_LIKELY <= base_timestamp <= _LIKELY
    try:
        for _ in range(count):
            start = position
            # length
            b = data[position]
            if b < 128:
                position += 1
            else:
                c = data[position + 1]
                if c < 128:
                    b += (c << 7) - 128
                    position += 2
                else:
                    b, position = read_raw_varint(data, position, 32)
            end = position + (b >> 1)
            if b & 1 or end > size:
                return start, lowest, _BAD_LENGTH

            # attributes (unused), timestamp delta
            b = data[position + 1]
            if b < 128:
                position += 2
            else:
                c = data[position + 2]
                if c < 128:
                    b += (c << 7) - 128
                    position += 3
                else:
                    d = data[position + 3]
                    if d < 128:
                        b += (c << 7) + (d << 14) - 16512
                        position += 4
                    else:
                        b, position = read_raw_varint(data, position + 1)
                        wide = wide or b > _LIKELY
            timestamp = base_timestamp + (-(b + 1 >> 1) if b & 1 else b >> 1)

            # offset delta: a negative one gives offset -1, which is below the lowest
            b = data[position]
            if b < 128:
                position += 1
            else:
                c = data[position + 1]
                if c < 128:
                    b += (c << 7) - 128
                    position += 2
                else:
                    d = data[position + 2]
                    if d < 128:
                        b += (c << 7) + (d << 14) - 16512
                        position += 3
                    else:
                        b, position = read_raw_varint(data, position, 32)
            offset = -1 if b & 1 else base_offset + (b >> 1)
            if offset < lowest:
                if skipping and offset >= base_offset:
                    position = end
                    continue
                return start, lowest, f"offset {offset} comes after {lowest - 1}"

            # key
            b = data[position]
            if b == 1:
                key = None
                position += 1
            else:
                if b < 128:
                    position += 1
                else:
                    b, position = read_raw_varint(data, position, 32)
                if b & 1:  # as in Java, each negative length means null
                    key = None
                else:
                    stop = position + (b >> 1)
                    key = data[position:stop]
                    position = stop

            # value
            b = data[position]
            if b == 1:
                value = None
                position += 1
            else:
                if b < 128:
                    position += 1
                else:
                    c = data[position + 1]
                    if c < 128:
                        b += (c << 7) - 128
                        position += 2
                    else:
                        b, position = read_raw_varint(data, position, 32)
                if b & 1:
                    value = None
                else:
                    stop = position + (b >> 1)
                    value = data[position:stop]
                    position = stop

            # headers
            if data[position]:
                headers, position = _decode_headers(data, position, end)
            else:
                headers = _NO_HEADERS
                position += 1
            if position != end or offset > highest:
                return start, lowest, _BAD_FIELDS if position != end else f"offset {offset} is beyond {highest}"

            skipping = False
            lowest = offset + 1
            record = new(cls)
            record.origin = origin
            record.offset = offset
            record.timestamp = timestamp if log_append_time is None else log_append_time
            record.key = key
            record.value = value
            record.header_tuple = headers
            append(record)
    except IndexError:
        return start, lowest, _CUT_OFF
    except DamageError as exc:
        return start, lowest, str(exc)
    finally:
        if wide:
            for record in records[first:]:  # as in Java, the sum of 64-bit numbers may overflow
                record.timestamp = (record.timestamp + 2**63) % 2**64 - 2**63
    return position, lowest, None


def _decode_headers(data: bytes, position: int, end: int) -> tuple[tuple[Header, ...], int]:
    b = data[position]
    if b < 128:
        position += 1
    else:
        b, position = read_raw_varint(data, position, 32)
    if b & 1 or b >> 1 > end - position:
        raise DamageError("a record's number of headers is negative or larger than its bytes")
    headers: list[Header] = []
    for _ in range(b >> 1):
        b = data[position]
        if b < 128:
            position += 1
        else:
            b, position = read_raw_varint(data, position, 32)
        stop = position + (b >> 1)
        if b & 1 or stop > end:
            raise DamageError("the name of a header does not fit into its record")
        name = str(data[position:stop], "utf-8", "replace")  # as in Java, so that no name stops a consumer
        b = data[stop]
        if b == 1:
            value = None
            position = stop + 1
        else:
            if b < 128:
                position = stop + 1
            else:
                b, position = read_raw_varint(data, stop, 32)
            if b & 1:
                value = None
            else:
                stop = position + (b >> 1)
                if stop > end:
                    raise DamageError("the value of a header does not fit into its record")
                value = data[position:stop]
                position = stop
        headers.append((name, value))
    return tuple(headers), position


# --- message sets, formats v0 and v1

_OFFSET_LENGTH: Final = Struct(">qi")
_CRC_MAGIC_ATTRIBUTES: Final = Struct(">Ibb")
_I64: Final = Struct(">q")
_I32: Final = Struct(">i")
#: By format, the bytes of a message after its offset and length, if key and value are null.
_FIXED_BYTES: Final = (14, 22)

# offset, attributes, timestamp, key, value
_Message = tuple[int, int, int, bytes | None, bytes | None]


def decode_message_set(
    buffer: Buffer,
    info: BatchInfo,
    lowest: int,
    check_crcs: bool,
    max_decompressed_bytes: int,
    origin: RecordOrigin,
    make: Callable[[RecordOrigin, int, int, bytes | None, bytes | None], ConsumerRecord] = make_record,
) -> tuple[list[ConsumerRecord], str | None]:
    """Decode a message of format v0 or v1. If it is compressed, decode the message set inside it.

    Args:
        lowest: the next offset. Records below it are skipped.
        check_crcs: True checks the messages inside a compressed message. The caller checks the outer message.
        make: a function that makes a record from its origin, offset, timestamp, key and value.

    Returns:
        The records from offset ``lowest`` on, and a description of the damage after them. Without damage: None.

    Raises:
        DamageError: no record can be read.
        UnsupportedCodecError: the compression type is unknown, or its library is not installed.
    """
    outer = bytes(memoryview(buffer)[info.position : info.position + info.size_bytes])
    message = _decode_message(outer, 0, check_crc=False)[0]
    damage = None
    if not info.codec:
        messages = [message]
    else:
        packed = message[4]
        if packed is None:
            raise DamageError("a compressed message has no value")
        data = decompress(info.codec, packed, max_decompressed_bytes, info.magic)
        messages, damage = _decode_inner(data, check_crcs)
        if not messages:
            raise DamageError(damage or "a compressed message carries no message")
        if info.magic >= 1 and (info.last_offset or damage is not None):
            # Inner offsets are relative (KIP-31): the outer offset is that of the last inner message, even after
            # compaction. As in Java, an outer offset of 0 says nothing: librdkafka once produced that.
            first = info.last_offset - messages[-1][0] if damage is None else None
            if first is None or first < 0:
                raise DamageError(damage or "the offsets inside a compressed message do not fit its own")
            messages = [(first + m[0], *m[1:]) for m in messages]
    records = []
    timestamp_type = origin.timestamp_type
    for offset, _, timestamp, key, value in messages:
        if timestamp_type == LOG_APPEND_TIME:
            timestamp = info.max_timestamp
        if offset >= lowest:
            records.append(make(origin, offset, timestamp, key, value))
            lowest = offset + 1
    return records, damage


def _decode_inner(data: bytes, check_crcs: bool) -> tuple[list[_Message], str | None]:
    """Return the messages inside a compressed one, and a description of the damage after them, or None.

    As in Java, each may have either of the old formats, and what is cut off at the end is left out.
    """
    messages: list[_Message] = []
    position = 0
    last = -1
    try:
        while len(data) - position >= LOG_OVERHEAD:
            if LOG_OVERHEAD + _OFFSET_LENGTH.unpack_from(data, position)[1] > len(data) - position:
                break
            message, position = _decode_message(data, position, check_crcs)
            if message[1] & CODEC_MASK:
                return messages, "a compressed message is inside a compressed message"
            if message[0] <= last:
                return messages, f"offset {message[0]} comes after {last} inside a compressed message"
            last = message[0]
            messages.append(message)
    except DamageError as exc:
        return messages, str(exc)
    return messages, None


def _decode_message(data: bytes, position: int, check_crc: bool) -> tuple[_Message, int]:
    if len(data) - position < LOG_OVERHEAD + _FIXED_BYTES[0]:
        raise DamageError("a message is cut off")
    offset, length = _OFFSET_LENGTH.unpack_from(data, position)
    position += LOG_OVERHEAD
    end = position + length
    crc, magic, attributes = _CRC_MAGIC_ATTRIBUTES.unpack_from(data, position)
    if magic not in (0, 1):
        raise DamageError(f"a message of format v{magic} is inside one of format v0 or v1")
    if length < _FIXED_BYTES[magic] or end > len(data):
        raise DamageError(f"a message of {length} bytes does not fit")
    if check_crc and zlib.crc32(memoryview(data)[position + 4 : end]) != crc:
        raise DamageError("the checksum of a message inside a compressed one is wrong")
    position += 6
    timestamp = -1
    if magic:
        (timestamp,) = _I64.unpack_from(data, position)
        position += 8
    key, position = _nullable_bytes(data, position, end)
    value, position = _nullable_bytes(data, position, end)  # as in Java, bytes after it are ignored
    return (offset, attributes, timestamp, key, value), end


def _nullable_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    if end - position < 4:
        raise DamageError("a message is cut off")
    (length,) = _I32.unpack_from(data, position)
    position += 4
    if length < 0:  # as in Java, each negative length means null
        return None, position
    if length > end - position:
        raise DamageError(f"a key or value of {length} bytes does not fit into its message")
    return data[position : position + length], position + length
