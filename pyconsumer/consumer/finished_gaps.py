"""Records that are finished above the committed offset, as a text in the commit's metadata.

A member that takes over a partition reads from the committed offset. The text tells it which of the records from there
on are finished already, so that it does not process these again.

The text is base64 of

* a byte with the version, 1,
* the CRC-32 (4 bytes, big-endian) of the committed offset (8 bytes, big-endian) and the rest,
* lengths of runs of offsets, from the committed offset on: unfinished, finished, unfinished, finished, ... Each is an
  unsigned LEB128 number.

Rules

1. A text that is longer than the limit loses runs at its end. Records of those are processed again, never lost.
2. Metadata of another kind, a wrong checksum or another version mean that no record is known to be finished. So an
   offset that somebody else has committed is never mistaken for one of ours.
"""

from __future__ import annotations

import binascii
import zlib
from collections.abc import Iterable
from itertools import islice

__all__ = ["DEFAULT_METADATA_LIMIT", "FinishedRun", "decode_finished", "encode_finished"]

FinishedRun = tuple[int, int]
"""The first offset of a run of finished records, and the offset after its last one."""

#: Longest text, in characters. A broker takes 4,096 by default (``offset.metadata.max.bytes``).
DEFAULT_METADATA_LIMIT = 3_000

_VERSION = 1
_HEAD_BYTES = 5


def encode_finished(offset: int, runs: Iterable[FinishedRun], limit: int = DEFAULT_METADATA_LIMIT) -> str:
    """Return the text for runs of finished records.

    Args:
        offset: the offset that is committed.
        runs: in ascending order, all above ``offset``.
        limit: longest text, in characters.

    Returns:
        The text. It is empty if no run fits, or there is none.
    """
    most = limit // 4 * 3 - _HEAD_BYTES
    body = bytearray()
    position = offset
    for start, end in runs:
        run = _number(start - position) + _number(end - start)
        if len(body) + len(run) > most:
            break
        body += run
        position = end
    if not body:
        return ""
    return binascii.b2a_base64(bytes([_VERSION]) + _checksum(offset, body) + body, newline=False).decode("ascii")


def decode_finished(offset: int, metadata: str) -> list[FinishedRun]:
    """Return the runs of finished records that a commit's metadata names.

    Args:
        offset: the committed offset.
        metadata: the commit's metadata.

    Returns:
        The runs in ascending order. None if the text is not one of :func:`encode_finished` for this offset.
    """
    try:
        data = binascii.a2b_base64(metadata, strict_mode=True)
    except ValueError:
        return []
    body = data[_HEAD_BYTES:]
    if len(data) <= _HEAD_BYTES or data[0] != _VERSION or data[1:_HEAD_BYTES] != _checksum(offset, body):
        return []
    lengths = _numbers(body)
    runs = []
    position = offset
    for unfinished, finished in zip(islice(lengths, 0, None, 2), islice(lengths, 1, None, 2), strict=False):
        start = position + unfinished
        position = start + finished
        runs.append((start, position))
    return runs


def _checksum(offset: int, body: bytes | bytearray) -> bytes:
    return zlib.crc32(body, zlib.crc32(offset.to_bytes(8, "big"))).to_bytes(4, "big")


def _number(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _numbers(body: bytes) -> list[int]:
    found = []
    value = shift = 0
    for byte in body:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            found.append(value)
            value = shift = 0
    return found
