"""The broker's checks of the records of a batch, before it accepts the batch. No state.

:func:`check_records` exists also as compiled code with the same results. :func:`record_problems`, which gives the
reasons, is called only for a batch that has failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.records._pure import decode_records
from pyconsumer.protocol.records.batch import CREATE_TIME, BatchInfo
from pyconsumer.protocol.records.record import ConsumerRecord, RecordOrigin

__all__ = ["Problem", "RecordProblem", "check_records", "record_problems"]

_NO_TIMESTAMP: Final = -1
_CHUNK: Final = 1000
_ORIGIN: Final = RecordOrigin("", -1, -1, CREATE_TIME)
_LEFT_OVER: Final = "bytes are left over after the last record"


class Problem:
    """Kinds of :class:`RecordProblem`."""

    DAMAGE: Final = "damage"
    NO_KEY: Final = "no key"
    TIMESTAMP: Final = "timestamp"


class RecordProblem(NamedTuple):
    """A problem with record ``number`` of a batch, counted from 0.

    Attributes:
        kind: see :class:`Problem`.
        timestamp: of the record, ms; -1 for damage.
        reason: a description of the damage, else empty.
    """

    number: int
    kind: str
    timestamp: int
    reason: str


def check_records(
    data: Buffer, position: int, end: int, info: BatchInfo, needs_keys: bool, earliest: int, latest: int
) -> tuple[int, int]:
    """Check all records of a v2 batch.

    They must fill ``data[position:end]`` and match the header: their number, and increasing offsets in its range.

    Args:
        data: contains the decompressed records.
        needs_keys: whether each record must have a key.
        earliest, latest: the range of timestamps in ms, both included; a record without one (-1) always passes.

    Returns:
        The index of the first bad record, -1 if all are good (the number of records if bytes are left over after
        them), and the largest timestamp of the records before it, -1 if none has one.
    """
    greatest = _NO_TIMESTAMP
    index = 0
    for records, damage in _chunks(data, position, end, info):
        for record in records:
            timestamp = record.timestamp
            if needs_keys and record.key is None:
                return index, greatest
            if timestamp != _NO_TIMESTAMP and not earliest <= timestamp <= latest:
                return index, greatest
            if timestamp > greatest:
                greatest = timestamp
            index += 1
        if damage is not None:
            return index, greatest
    return -1, greatest


def record_problems(
    data: Buffer, position: int, end: int, info: BatchInfo, needs_keys: bool, earliest: int, latest: int
) -> list[RecordProblem]:
    """Return all problems with the records of a batch, at most one per record; damage is the last one.

    The arguments are those of :func:`check_records`.
    """
    found = []
    index = 0
    for records, damage in _chunks(data, position, end, info):
        for record in records:
            if needs_keys and record.key is None:
                found.append(RecordProblem(index, Problem.NO_KEY, record.timestamp, ""))
            elif record.timestamp != _NO_TIMESTAMP and not earliest <= record.timestamp <= latest:
                found.append(RecordProblem(index, Problem.TIMESTAMP, record.timestamp, ""))
            index += 1
        if damage is not None:
            found.append(RecordProblem(index, Problem.DAMAGE, _NO_TIMESTAMP, damage))
    return found


def _chunks(
    data: Buffer, position: int, end: int, info: BatchInfo
) -> Iterator[tuple[list[ConsumerRecord], str | None]]:
    """Yield the records, a limited number at a time, and with the last of them a description of the damage, if any."""
    payload = bytes(memoryview(data)[position:end])
    at, lowest, left = 0, info.base_offset, info.record_count
    while left:
        records: list[ConsumerRecord] = []
        count = min(left, _CHUNK)
        at, lowest, damage = decode_records(payload, at, count, info, lowest, False, _ORIGIN, records)
        left -= count
        yield records, damage
        if damage is not None:
            return
    if at != len(payload):
        yield [], _LEFT_OVER
