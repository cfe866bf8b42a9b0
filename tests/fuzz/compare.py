"""Reading one input with one decoder in one way, and recording the result."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable
from functools import partial
from typing import Any

from pyconsumer.errors import CorruptRecordError, UnsupportedCodecError
from pyconsumer.structs import TopicPartition
from tests.unit.protocol.records.helpers import Decoder, batch_after

__all__ = ["MAX_DECOMPRESSED_BYTES", "WAYS", "difference", "read", "read_quickly"]

MAX_DECOMPRESSED_BYTES = 1 << 16
_TP = TopicPartition("events", 2)
_STEPS = 300
_ABORTED = [(7, 0)]
_DAMAGED_ZSTD = "zstd data is damaged"
_TOO_LARGE = f"its records decompress to more than {MAX_DECOMPRESSED_BYTES} bytes"


class HangError(Exception):
    """A decoder does not come to an end."""


def read(decoder: Decoder, data: bytes, seed: int) -> list[Any]:
    """Read all of it, in steps that the seed chooses. Return the result of each."""
    source = random.Random(seed)
    # An array, because other than bytes it has no byte behind its end which a reader may touch unnoticed.
    buffer = memoryview(array("B", data)) if decoder.name == "native" else data
    offset = source.choice((0, 0, 1, 4, 2**62))
    make = partial(
        decoder.Cursor,
        _TP,
        check_crcs=source.random() < 0.7,
        aborted=source.choice((None, [(7, 0)], [(7, 1), (-1, 0), (9, 3)])),
        max_decompressed_bytes=MAX_DECOMPRESSED_BYTES,
    )
    reader = make(buffer, fetch_offset=offset)
    start = 0
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
            after = batch_after(data, reader.next_offset, start)
            if after is None or source.random() < 0.05:
                reader.close()
            else:
                reader.close()  # its error refers to it
                offset, start = after
                reader = make(buffer[start:], fetch_offset=offset)
        seen.append((reader.next_offset, reader.last_leader_epoch, reader.exhausted))
    raise HangError(f"{decoder.name} is not at the end after {_STEPS} steps")


def read_quickly(decoder: Decoder, data: bytes | bytearray, way: int) -> None:
    """Read the record set to its end in one of :data:`WAYS` ways, past damaged batches, without checking checksums.

    The records must not keep the buffer alive.
    """
    buffer = array("B", data)
    view = memoryview(buffer)
    make = partial(
        decoder.Cursor,
        _TP,
        check_crcs=False,
        aborted=None if way & 16 else _ABORTED,
        max_decompressed_bytes=MAX_DECOMPRESSED_BYTES,
    )
    reader = make(view, fetch_offset=4 if way & 8 else 0)
    start = 0
    found: list[Any] = []
    for _ in range(_STEPS):
        if reader.exhausted:
            break
        try:
            found.append(_WAYS[way % 8](decoder, reader))
        except (CorruptRecordError, UnsupportedCodecError):
            after = batch_after(data, reader.next_offset, start)
            if after is None:
                break
            reader.close()  # its error refers to it
            offset, start = after
            reader = make(view[start:], fetch_offset=offset)
    else:
        raise HangError(f"{decoder.name} is not at the end after {_STEPS} steps")
    reader.close()
    del reader, make
    view.release()  # raises if anything still looks into it
    buffer.append(0)


def _take_all(_: Decoder, reader: Any) -> Any:
    records = reader.take(1000)
    for record in records:
        if record.headers:
            repr(record)
    return records


def _take_few(_: Decoder, reader: Any) -> Any:
    return reader.take(2)


def _take_text(decoder: Decoder, reader: Any) -> Any:
    good: list[Any] = []
    decoder.convert(reader.take(1000), 0, bytes.decode, bytes.decode, good)
    return good


def _take_and_close(_: Decoder, reader: Any) -> Any:
    records = reader.take(1)
    reader.close()
    return records


def _columns_of_all(decoder: Decoder, reader: Any) -> Any:
    builder = decoder.ColumnsBuilder(with_headers=True)
    reader.take_into(builder, 1000)
    return builder.build()


def _columns_of_few(decoder: Decoder, reader: Any) -> Any:
    builder = decoder.ColumnsBuilder(with_keys=False, with_headers=True)
    # The second time they have to grow.
    if reader.take_into(builder, 1) and not reader.exhausted and reader.error is None:
        try:
            reader.take_into(builder, 1000)
        except (CorruptRecordError, UnsupportedCodecError):
            return builder.build()  # with what there was before
    return builder.build()


def _columns_of_few_bytes(_: Decoder, reader: Any) -> Any:
    return reader.take_columns(1000, 40)


def _columns_and_records(decoder: Decoder, reader: Any) -> Any:
    builder = decoder.ColumnsBuilder(with_values=False)
    reader.take_into(builder, 2)
    if not reader.exhausted and reader.error is None:
        try:
            return builder.build(), reader.take(1)
        except (CorruptRecordError, UnsupportedCodecError):
            pass
    return builder


_WAYS: tuple[Callable[[Decoder, Any], Any], ...] = (
    _take_all,
    _columns_of_all,
    _take_few,
    _columns_of_few,
    _take_text,
    _columns_of_few_bytes,
    _take_and_close,
    _columns_and_records,
)
WAYS = 32


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
    """Return the first difference of two readings, None if they are the same.

    Zstd data can be damaged and, by its headers, too large as well. One version of the zstd library reports the damage
    first and another the size, and the decoders have different ones: either message will do.
    """
    for step, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b and not _are_of_zstd(a, b):
            return f"at step {step}:\n  {a}\n  {b}"
    return None if len(one) == len(other) else f"{len(one)} steps and {len(other)}"


def _are_of_zstd(one: Any, other: Any) -> bool:
    """Return whether two errors differ only in the first fault found in zstd data that is damaged and large."""
    if not all(isinstance(seen, tuple) and seen[0] == CorruptRecordError.__name__ for seen in (one, other)):
        return False
    start = one[1].removesuffix(_DAMAGED_ZSTD).removesuffix(_TOO_LARGE)
    return one[2] == other[2] and {one[1], other[1]} == {start + _DAMAGED_ZSTD, start + _TOO_LARGE}
