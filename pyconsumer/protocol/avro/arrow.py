"""Layouts as Arrow types, and finished columns as arrays, without copying. The caller passes the module ``pyarrow``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pyconsumer.protocol.avro._pure_columns import Buffers
from pyconsumer.protocol.avro.layout import Column, Kind, Layout
from pyconsumer.protocol.records.arrow import text_array

__all__ = ["arrow_array", "arrow_type"]

_UNITS: Final = {"millis": "ms", "micros": "us", "nanos": "ns"}


def arrow_type(pa: Any, layout: Layout, number: int = 0) -> Any:
    """Return the Arrow type of a column, with its children. By default that of the whole.

    Args:
        pa: the module ``pyarrow``.
        layout: the columns.
        number: the index of the column.
    """
    column = layout.columns[number]
    if column.kind == Kind.STRUCT:
        return pa.struct([_field(pa, layout, child) for child in column.children])
    if column.kind == Kind.LIST:
        return pa.list_(_field(pa, layout, column.children[0]))
    if column.kind == Kind.MAP:
        return pa.map_(arrow_type(pa, layout, column.children[0]), _field(pa, layout, column.children[1]))
    return _scalar_type(pa, column)


def _field(pa: Any, layout: Layout, number: int) -> Any:
    column = layout.columns[number]
    return pa.field(column.name, arrow_type(pa, layout, number), nullable=column.nullable)


def _scalar_type(pa: Any, column: Column) -> Any:
    kind = column.type
    if kind.kind == "enum":
        return pa.dictionary(pa.int32(), pa.string())
    logical = "" if kind.logical is None else kind.logical.name
    if logical == "decimal":
        assert kind.logical is not None
        return pa.decimal128(kind.logical.precision, kind.logical.scale)
    if logical == "date":
        return pa.date32()
    if logical == "uuid":
        return pa.string()
    if logical in ("uint32", "uint64"):
        return pa.uint32() if logical == "uint32" else pa.uint64()
    if logical == "duration-micros":
        return pa.duration("us")
    if logical.startswith("time-"):
        return pa.time32("ms") if logical.endswith("millis") else pa.time64("us")
    if "timestamp-" in logical:
        unit = "us" if column.factor != 1 else _UNITS[logical.rpartition("-")[2]]
        return pa.timestamp(unit) if logical.startswith("local") else pa.timestamp(unit, tz="UTC")
    if column.kind == Kind.FIXED:
        return pa.binary(column.width)
    plain = {
        "null": pa.null,
        "boolean": pa.bool_,
        "int": pa.int32,
        "long": pa.int64,
        "float": pa.float32,
        "double": pa.float64,
        "bytes": pa.binary,
        "string": pa.string,
    }
    return plain[kind.kind]()


def arrow_array(pa: Any, layout: Layout, kind: Any, found: Sequence[Buffers], number: int = 0) -> Any:
    """Return a column as an array, which shares its memory.

    Args:
        pa, layout, number: as for :func:`arrow_type`.
        kind: the Arrow type of the column, or another type of the same numbers. For an enum that may be a string, for a
            fixed type binary.
        found: the finished columns of the layout.
    """
    column, of = layout.columns[number], found[number]
    if column.kind == Kind.NULL:
        return pa.nulls(of.length)
    buffers = [_buffer(pa, of.bitmap)]
    children = []
    if column.kind == Kind.STRUCT:
        children = [
            arrow_array(pa, layout, kind.field(place).type, found, child) for place, child in enumerate(column.children)
        ]
    elif column.kind == Kind.LIST:
        buffers.append(_buffer(pa, of.ends))
        children = [arrow_array(pa, layout, kind.value_type, found, column.children[0])]
    elif column.kind == Kind.MAP:
        buffers.append(_buffer(pa, of.ends))
        keys = arrow_array(pa, layout, kind.key_type, found, column.children[0])
        items = arrow_array(pa, layout, kind.item_type, found, column.children[1])
        entries = pa.struct([kind.key_field, kind.item_field])
        children = [pa.Array.from_buffers(entries, len(keys), [None], 0, children=[keys, items])]
    else:
        if of.ends is not None:
            buffers.append(_buffer(pa, of.ends))
        buffers.append(_buffer(pa, of.data))
    if column.type.kind == "enum" and column.kind == Kind.INT:
        numbers = pa.Array.from_buffers(pa.int32(), of.length, buffers, of.null_count)
        symbols = text_array(pa, column.type.symbols)
        words = pa.DictionaryArray.from_arrays(numbers, symbols, safe=False)
        return words if pa.types.is_dictionary(kind) else words.cast(kind)
    if column.kind == Kind.FIXED and pa.types.is_binary(kind):
        return pa.Array.from_buffers(pa.binary(column.width), of.length, buffers, of.null_count).cast(kind)
    return pa.Array.from_buffers(kind, of.length, buffers, of.null_count, children=children or None)


def _buffer(pa: Any, memory: Any) -> Any:
    return None if memory is None else pa.py_buffer(memory)
