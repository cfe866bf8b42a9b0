"""Columns of Avro by one decoder or the other, in a form that can be compared."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyconsumer.errors import ConfigurationError
from pyconsumer.protocol.avro import parse_schema
from pyconsumer.protocol.avro.arrow import arrow_array, arrow_type
from pyconsumer.protocol.avro.column_plan import column_plan
from pyconsumer.protocol.avro.layout import Kind, Layout, make_layout
from pyconsumer.protocol.avro.schema import AvroSchema
from pyconsumer.protocol.records.columns import BinaryColumn

__all__ = ["bits", "columns_of", "data_of", "decoded", "plain"]

pa = pytest.importorskip("pyarrow")


def columns_of(source: Any) -> tuple[AvroSchema, Layout] | None:
    """Return a schema with its layout, None if it has none."""
    schema = parse_schema(json.dumps(source))
    try:
        return schema, make_layout(schema)
    except ConfigurationError:
        return None


def decoded(
    twin: Any, writer: AvroSchema, layout: Layout, rows: list[bytes | None], most: int = 10_000
) -> tuple[Any, list[int], Any]:
    """Return the array, the refused rows and the buffers of some rows."""
    decoder = twin.ColumnsDecoder(layout.columns, most)
    program = twin.ColumnProgram(column_plan(writer, layout))
    used, bad = decoder.append(rows, {7: program})
    assert used == len(rows) == len(decoder)
    other = twin.ColumnsDecoder(layout.columns, most)  # the same rows in one buffer
    assert other.append_column(BinaryColumn.of(rows), len(rows), {7: program}) == (used, bad)
    found = decoder.finish()
    assert plain(found, layout) == plain(other.finish(), layout)
    array = arrow_array(pa, layout, arrow_type(pa, layout), found)
    array.validate(full=True)
    return array, [row for row, _, _ in bad], found


def plain(found: Any, layout: Layout) -> list[Any]:
    """Return buffers in a form that can be compared."""
    return [
        (
            column.length,
            column.null_count,
            None if column.bitmap is None else bits(column.bitmap, column.length),
            None if column.ends is None else bytes(column.ends),
            None if column.data is None else data_of(column, of.kind),
        )
        for column, of in zip(found, layout.columns, strict=True)
    ]


def data_of(column: Any, kind: int) -> Any:
    """Return data as bytes. Bits beyond the last value, and those of a NaN, have no meaning."""
    if kind == Kind.BOOLEAN:
        return bits(column.data, column.length)
    if kind == Kind.FLOAT:
        return repr(memoryview(bytes(column.data)).cast("f").tolist())
    return bytes(column.data)


def bits(memory: Any, count: int) -> int:
    return int.from_bytes(bytes(memory), "little") & ((1 << count) - 1)
