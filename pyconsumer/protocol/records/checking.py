"""The broker's checks of the records in a batch. No state.

They are those of Java's ``LogValidator``, which differ from those of readers: any negative length of a key or value is
null, and the offsets in a batch without compression are not compared. :func:`check_records` exists also as compiled
code with the same results. :func:`record_problems` gives the reasons, and is called only for a batch that has failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.records._varint import DamageError, encode_varint, read_raw_varint
from pyconsumer.protocol.records.batch import BatchInfo

__all__ = ["Problem", "RecordProblem", "check_records", "record_problems", "renumbered"]

_NO_TIMESTAMP: Final = -1
_LEFT_OVER: Final = "bytes are left over after the last record"
_BAD_LENGTH: Final = "a record's length is negative or goes beyond the batch"
_BAD_FIELDS: Final = "a record's fields do not fit into its length"
_BAD_HEADERS: Final = "a record's number of headers is negative or larger than its bytes"
_BAD_NAME: Final = "the name of a header is null"


class Problem:
    """Kinds of :class:`RecordProblem`."""

    DAMAGE: Final = "damage"
    NO_KEY: Final = "no key"
    TIMESTAMP: Final = "timestamp"


class RecordProblem(NamedTuple):
    """A problem with record ``number`` of a batch, counted from 0.

    Attributes:
        kind: see :class:`Problem`.
        timestamp: the record's timestamp in ms. -1 for damage.
        reason: a description of the damage. Empty if the problem is not damage.
    """

    number: int
    kind: str
    timestamp: int
    reason: str


class _Record(NamedTuple):
    """A record that was read: its offset delta and the position of that number, its end, its timestamp in ms."""

    delta: int
    delta_at: int
    delta_end: int
    end: int
    timestamp: int
    has_key: bool


def check_records(
    data: Buffer,
    position: int,
    end: int,
    info: BatchInfo,
    needs_keys: bool,
    earliest: int,
    latest: int,
    needs_order: bool = True,
) -> tuple[int, int]:
    """Check all records of a v2 batch.

    The records must fill ``data[position:end]``, and their number must be that in the header.

    Args:
        data: contains the decompressed records.
        needs_keys: True if each record must have a key.
        earliest, latest: the range of allowed timestamps in ms, both ends included. A record without a timestamp (-1)
            is allowed.
        needs_order: True if the offset deltas must be 0, 1, 2 and so on.

    Returns:
        The index of the first bad record, or -1 if all are good. If bytes are left over after the last record, the
        index is the number of records. Also the largest timestamp of the records before that index, or -1 if none has a
        timestamp.
    """
    greatest = _NO_TIMESTAMP
    for index, record in _records(data, position, end, info):
        if isinstance(record, str) or (needs_order and record.delta != index):
            return index, greatest
        if needs_keys and not record.has_key:
            return index, greatest
        timestamp = record.timestamp
        if timestamp != _NO_TIMESTAMP and not earliest <= timestamp <= latest:
            return index, greatest
        if timestamp > greatest:
            greatest = timestamp
    return -1, greatest


def record_problems(
    data: Buffer,
    position: int,
    end: int,
    info: BatchInfo,
    needs_keys: bool,
    earliest: int,
    latest: int,
    needs_order: bool = True,
) -> list[RecordProblem]:
    """Return all problems with the records of a batch, at most one for each record. Damage is always the last problem.

    The arguments are those of :func:`check_records`.
    """
    found = []
    for index, record in _records(data, position, end, info):
        damage = record if isinstance(record, str) else None
        if damage is None and needs_order and record.delta != index:  # type: ignore[union-attr]
            damage = f"its offset delta is {record.delta} instead of {index}"  # type: ignore[union-attr]
        if damage is not None:
            found.append(RecordProblem(index, Problem.DAMAGE, _NO_TIMESTAMP, damage))
            break
        assert not isinstance(record, str)
        if needs_keys and not record.has_key:
            found.append(RecordProblem(index, Problem.NO_KEY, record.timestamp, ""))
        elif record.timestamp != _NO_TIMESTAMP and not earliest <= record.timestamp <= latest:
            found.append(RecordProblem(index, Problem.TIMESTAMP, record.timestamp, ""))
    return found


def renumbered(data: Buffer, info: BatchInfo) -> bytes:
    """Return the decompressed records of a good batch, with the offset deltas 0, 1, 2 and so on."""
    plain, out, position = bytes(data), bytearray(), 0
    for index, record in _records(plain, 0, len(plain), info):
        assert not isinstance(record, str)
        body_at = read_raw_varint(plain, position, 32)[1]
        body = plain[body_at : record.delta_at] + encode_varint(index) + plain[record.delta_end : record.end]
        out += encode_varint(len(body)) + body
        position = record.end
    return bytes(out)


def _records(data: Buffer, position: int, end: int, info: BatchInfo) -> Iterator[tuple[int, _Record | str]]:
    """Yield each record with its index. If there is damage, the last one is a description of it."""
    payload = bytes(memoryview(data)[position:end])
    at = 0
    for index in range(info.record_count):
        try:
            record = _read_record(payload, at, info.first_timestamp)
        except DamageError as error:
            yield index, str(error)
            return
        yield index, record
        at = record.end
    if at != len(payload):
        yield info.record_count, _LEFT_OVER


def _read_record(data: bytes, position: int, first_timestamp: int) -> _Record:
    number, at = read_raw_varint(data, position, 32)
    end = at + (number >> 1)
    if number & 1 or end > len(data):
        raise DamageError(_BAD_LENGTH)
    number, delta_at = read_raw_varint(data, at + 1)
    timestamp = first_timestamp + _unzigzag(number)
    timestamp = (timestamp + 2**63) % 2**64 - 2**63  # as in Java, the sum of 64-bit numbers may overflow
    number, delta_end = read_raw_varint(data, delta_at, 32)
    delta = _unzigzag(number)
    key, at = read_raw_varint(data, delta_end, 32)
    at += 0 if key & 1 else key >> 1
    at = _after_nullable(data, at)
    count, at = read_raw_varint(data, at, 32)
    if count & 1 or count >> 1 > end - at:
        raise DamageError(_BAD_HEADERS if at <= end else _BAD_FIELDS)
    for _ in range(count >> 1):
        name, at = read_raw_varint(data, at, 32)
        if name & 1:
            raise DamageError(_BAD_NAME)
        at = _after_nullable(data, at + (name >> 1))
        if at > end:
            break
    if at != end:
        raise DamageError(_BAD_FIELDS)
    return _Record(delta, delta_at, delta_end, end, timestamp, not key & 1)


def _after_nullable(data: bytes, position: int) -> int:
    number, position = read_raw_varint(data, position, 32)
    return position if number & 1 else position + (number >> 1)


def _unzigzag(number: int) -> int:
    return -(number + 1 >> 1) if number & 1 else number >> 1
