"""Reading one input with one decoder in one way, and what is seen of it."""

from __future__ import annotations

import random
from array import array
from typing import Any

from pyconsumer.errors import CorruptRecordError, UnsupportedCodecError
from pyconsumer.structs import TopicPartition
from tests.unit.records.helpers import Decoder

__all__ = ["MAX_DECOMPRESSED_BYTES", "difference", "read", "read_quickly"]

MAX_DECOMPRESSED_BYTES = 1 << 16
_TP = TopicPartition("events", 2)
_STEPS = 300
_ABORTED = [(7, 0)]


class HangError(Exception):
    """A decoder does not come to an end."""


def read(decoder: Decoder, data: bytes, seed: int) -> list[Any]:
    """Read all of it, in steps that the seed chooses. Returns what happened at each."""
    source = random.Random(seed)
    # An array, because other than bytes it has no byte behind its end which a reader may touch unnoticed.
    buffer = memoryview(array("B", data)) if decoder.name == "native" else data
    reader = decoder.Cursor(
        _TP,
        buffer,
        fetch_offset=source.choice((0, 0, 1, 4, 2**62)),
        check_crcs=source.random() < 0.7,
        aborted=source.choice((None, [(7, 0)], [(7, 1), (-1, 0), (9, 3)])),
        max_decompressed_bytes=MAX_DECOMPRESSED_BYTES,
    )
    seen: list[Any] = [reader.batch_count, reader.size_bytes, reader.end_offset, reader.has_incomplete_batch]
    as_columns = source.random() < 0.3
    for _ in range(_STEPS):
        if reader.exhausted:
            return seen
        count = source.choice((1, 2, 3, 1000))
        try:
            if as_columns:
                seen.append(_columns(decoder, reader, count))
            else:
                seen.append([_fields(record) for record in reader.take(count)])
        except (CorruptRecordError, UnsupportedCodecError) as error:
            seen.append((type(error).__name__, str(error), getattr(error, "offset", None)))
            if source.random() < 0.05:
                reader.close()
            reader.skip_batch()
        seen.append((reader.next_offset, reader.last_leader_epoch, reader.exhausted))
    raise HangError(f"{decoder.name} is not at the end after {_STEPS} steps")


def read_quickly(decoder: Decoder, data: bytearray, as_columns: bool) -> None:
    """Read the record set up to its first error, without checking checksums."""
    reader = decoder.Cursor(
        _TP,
        memoryview(array("B", data)),
        fetch_offset=0,
        check_crcs=False,
        aborted=_ABORTED,
        max_decompressed_bytes=MAX_DECOMPRESSED_BYTES,
    )
    try:
        if as_columns:
            builder = decoder.ColumnsBuilder(with_headers=True)
            reader.take_into(builder, 1000)
            builder.build()
        else:
            for record in reader.take(1000):
                if record.headers:
                    repr(record)
    except (CorruptRecordError, UnsupportedCodecError):
        pass


def _fields(record: Any) -> tuple[Any, ...]:
    return (
        record.offset,
        record.timestamp,
        tuple(record.origin),
        record.key,
        record.value,
        record.headers,
        record.serialized_key_size,
        record.serialized_value_size,
    )


def _columns(decoder: Decoder, reader: Any, count: int) -> Any:
    builder = decoder.ColumnsBuilder(with_headers=True)
    # Not take_columns, so that columns of several takes are seen as well.
    rows = reader.take_into(builder, count, 1 << 30)
    if not reader.exhausted and reader.error is None:
        rows += reader.take_into(builder, count, 1 << 30)
    found = builder.build()
    headers = found.headers
    return (
        rows,
        *(list(numbers) for numbers in (found.offsets, found.timestamps, found.timestamp_types, found.leader_epochs)),
        *(
            (list(column.offsets), bytes(column.data), column.bitmap, column.null_count)
            for column in (found.keys, found.values, headers.names, headers.values)
        ),
        list(headers.offsets),
    )


def difference(one: list[Any], other: list[Any]) -> str | None:
    """Where two readings part, None if they are the same."""
    for step, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return f"at step {step}:\n  {a}\n  {b}"
    return None if len(one) == len(other) else f"{len(one)} steps and {len(other)}"
