"""Inputs: record sets of every format, codec and flag, damaged in many ways.

Most damaged bytes are detected by the checksum, by a length in the header or by the decompressor. So half of the inputs
are damaged *before* compression and checksum: they reach the innermost loops.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator, Sequence

from pyconsumer.protocol.records import (
    BatchBuilder,
    ControlRecordType,
    build_end_transaction_marker,
)
from pyconsumer.protocol.records.batch import BATCH_OVERHEAD, LOG_OVERHEAD
from pyconsumer.protocol.records.compression import compress
from pyconsumer.protocol.records.crc import crc32c
from tests.unit.protocol.records.helpers import CODECS, TIME, batch, message, message_set, raw_batch, streamed

__all__ = ["Inputs"]

_BYTES = (0, 1, 2, 3, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
_VARINTS = (
    b"\xff\xff\xff\xff\x0f",
    b"\xfe\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x1f",
    b"\x80\x80\x80\x80\x00",
    b"\x80\x00",
    b"\x81\x00",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x03",
    b"\x80" * 12,
)
_LENGTHS = (0, 1, 2, 13, 14, 22, 49, 61, 0x7F, 0x80, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def _payload(source: random.Random) -> tuple[bytes, int]:
    """The records of a batch, uncompressed, and their number."""
    builder = BatchBuilder()
    count = source.choice((0, 1, 1, 2, 3, 5, 5, 30))
    for number in range(count):
        key = source.choice((None, b"", b"key", bytes(130)))
        value = source.choice((None, b"", b"v" * number, b"value" * 30, bytes(range(200))))
        headers: list[tuple[str, bytes | None]] = [("name", b"value"), ("", None), ("\u00fc" * 40, b"")]
        builder.try_append(TIME + source.choice((0, 5, 700, -3)), key, value, headers[: source.choice((0, 0, 0, 1, 3))])
    return builder.build()[BATCH_OVERHEAD:], count


def _sets() -> list[bytes]:
    """Whole record sets, none of them damaged."""
    found = [batch(0, 4, codec=codec) + batch(4, 3, codec=codec, producer_id=7, transactional=True) for codec in CODECS]
    aborted = batch(0, 2, producer_id=7, transactional=True)
    for kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        marker = build_end_transaction_marker(
            kind, producer_id=7, producer_epoch=0, coordinator_epoch=1, timestamp_ms=TIME, base_offset=2
        )
        found.append(aborted + marker + batch(3, 2, producer_id=7, transactional=True) + batch(5, 1))
    builder = BatchBuilder(timestamp_type=1)
    for number in range(4):
        builder.try_append(TIME + number, b"k", b"v" * 30, [("name", b"value"), ("", None)][: number % 3])
    found += [builder.build(log_append_time_ms=TIME), batch(5, offsets=[], last_offset=9) + batch(10, 1)]
    found.append(batch(100, offsets=[102, 107], last_offset=119) + batch(120, offsets=[125], last_offset=130))
    for magic in (0, 1):
        inner = [message(magic, number, b"k", b"v" * number) for number in range(3)]
        found.append(b"".join(inner) + batch(5, 2))
        found += [message_set(magic, codec, inner, 2) + batch(5, 1) for codec in (1, 2, 3)]
    found.append(message(1, 0, None, b"v", attributes=8) + message_set(1, 1, inner, 3, attributes=8))
    return found


class Inputs:
    """An endless row of inputs that depends only on the seed and on the given frequency of each codec."""

    def __init__(self, seed: int, codecs: Sequence[int] = (0, 0, 0, 1, 2, 3, 4)) -> None:
        self._source = random.Random(seed)
        self._codecs = codecs
        self._sets = _sets()

    def next(self) -> bytes:
        source = self._source
        if source.random() < 0.5:
            data = self._damaged(bytearray(source.choice(self._sets)))
            if source.random() < 0.5:
                _repair(data)
            return bytes(data)
        return b"".join([self._batch() for _ in range(source.choice((1, 1, 1, 2, 3)))])

    def variants(self, data: bytes, count: int) -> Iterator[bytearray]:
        """An input with single bytes changed, repeatedly. It is the same object each time."""
        changed = bytearray(data or b"\0")
        source, size = self._source, len(changed)
        for _ in range(count):
            how = source.getrandbits(32)
            place = (how >> 8) % size
            before = changed[place]
            changed[place] = before ^ 1 << (how & 7) if how & 8 else _BYTES[how % len(_BYTES)]
            yield changed
            if how & 0x30:
                changed[place] = before

    def _batch(self) -> bytes:
        source = self._source
        payload, count = _payload(source)
        damaged = bytes(self._damaged(bytearray(payload))) if source.random() < 0.8 else payload
        codec = source.choice(self._codecs)
        packed = streamed(damaged) if codec == 4 and source.random() < 0.5 else compress(codec, damaged)
        if codec and source.random() < 0.1:  # something behind, which may be ignored
            more = compress(codec, payload)
            packed += source.choice((more, more[: source.randrange(len(more) + 1)], b"x", bytes(9), more[-3:]))
        if codec and source.random() < 0.3:
            packed = bytes(self._damaged(bytearray(packed)))
        attributes = codec | source.choice((0, 0, 0, 0x08, 0x10, 0x20, 0x30, 0x40, 0x80, 0x100))
        if source.random() < 0.1:
            count = source.choice((0, 1, 2, len(damaged) // 7, len(damaged), 2**31 - 1))
        last_delta = source.choice((None, None, None, 0, 1, 9, 2**31 - 1))
        base_offset = source.choice((0, 0, 3, 2**62, 2**63 - 2**31 - 2))
        return raw_batch(packed, count, base_offset=base_offset, last_delta=last_delta, attributes=attributes)

    def _damaged(self, data: bytearray) -> bytearray:
        source = self._source
        for _ in range(source.choice((0, 1, 1, 1, 2, 4))):
            if not data:
                break
            place = source.randrange(len(data))
            how = source.random()
            if how < 0.4:
                data[place] ^= 1 << source.randrange(8)
            elif how < 0.7:
                data[place] = source.choice(_BYTES)
            elif how < 0.8:
                data[place : place + source.choice((0, 1, 5))] = source.choice(_VARINTS)
            elif how < 0.9:
                data[place : place + 4] = struct.pack(">I", source.choice(_LENGTHS))
            elif how < 0.95:
                del data[place : place + source.randrange(1, 9)]
            elif how < 0.98:
                del data[place:]
            else:
                data[place:place] = data[: source.randrange(1, 80)]
        return data


def _repair(data: bytearray) -> None:
    """Make checksums right again, so that the damage reaches the records."""
    position = 0
    while len(data) - position > 16:
        magic = data[position + 16]
        size = int.from_bytes(data[position + 8 : position + 12], "big", signed=True) + LOG_OVERHEAD
        if size < 17 or size > len(data) - position:
            break
        view = memoryview(data)[: position + size]
        if magic == 2 and size >= BATCH_OVERHEAD:
            view[position + 17 : position + 21] = struct.pack(">I", crc32c(view[position + 21 :]))
        elif magic < 2:
            view[position + 12 : position + 16] = struct.pack(">I", zlib.crc32(view[position + 16 :]))
        view.release()
        position += size
