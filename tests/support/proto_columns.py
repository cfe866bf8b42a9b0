"""Columns of Protobuf by both decoders, compared with each other."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer.protocol.avro import _pure_columns as twin_of_columns
from pyconsumer.protocol.avro.arrow import arrow_array, arrow_type
from pyconsumer.protocol.avro.coder import REVISION
from pyconsumer.protocol.avro.layout import Kind, Layout, make_layout
from pyconsumer.protocol.compiled import load_compiled
from pyconsumer.protocol.protobuf import _pure_columns as twin
from pyconsumer.protocol.protobuf.column_plan import MessagePlan, message_plan, message_schema
from pyconsumer.protocol.records.columns import BinaryColumn

__all__ = ["MOST", "both", "normal", "plain_type", "plan_of"]

pa = pytest.importorskip("pyarrow")
native = load_compiled("pyconsumer.protocol.avro._native", REVISION)[0]
MOST = 20_000


def plain_type(kind: Any) -> Any:
    """Return an Arrow type with whole numbers in the place of moments: Python has fewer of these."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, plain_type(f.type)) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, plain_type(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(plain_type(kind.value_type))
    return pa.int64() if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) else kind


def decoded(layout: Layout, rows: list[bytes | None], append: Any, columns: Any) -> tuple[list[Any], list[int], Any]:
    """Return the values, the refused rows and the buffers of some rows. ``append`` adds them to a new decoder."""
    decoder = columns.ColumnsDecoder(layout.columns, MOST)
    refused = append(decoder)
    assert len(decoder) == len(rows)
    buffers = decoder.finish()
    array = arrow_array(pa, layout, plain_type(arrow_type(pa, layout)), buffers)
    array.validate(full=True)
    return array.to_pylist(), refused, buffers


def in_one_list(decoder: Any, rows: list[bytes | None], program: Any) -> list[int]:
    used, bad = decoder.append(rows, {7: program})
    assert used == len(rows)
    return [row for row, _, _ in bad]


def in_one_buffer(decoder: Any, rows: list[bytes | None], program: Any) -> list[int]:
    used, bad = decoder.append_column(BinaryColumn.of(rows), len(rows), {7: program})
    assert used == len(rows)
    return [row for row, _, _ in bad]


def one_by_one(decoder: Any, rows: list[bytes | None], plan: MessagePlan) -> list[int]:
    """Append each row with a program that has not failed, so that its fields are expected in order."""
    return [number for number, row in enumerate(rows) if in_one_list(decoder, [row], native.MessageProgram(plan))]


def both(plan: MessagePlan, rows: list[bytes | None]) -> tuple[list[Any], list[int]]:
    """Decode by both twins, in all ways, compare them, and return the values and the refused rows."""
    layout, there = plan.layout, twin.MessageProgram(plan)
    values, refused, buffers = decoded(
        layout, rows, lambda decoder: in_one_list(decoder, rows, there), columns=twin_of_columns
    )
    ways = (
        lambda decoder: in_one_list(decoder, rows, native.MessageProgram(plan)),
        lambda decoder: in_one_buffer(decoder, rows, native.MessageProgram(plan)),
        lambda decoder: one_by_one(decoder, rows, plan),
    )
    for way in ways:
        values_here, refused_here, buffers_here = decoded(layout, rows, way, columns=native)
        assert refused_here == refused
        assert normal(values_here) == normal(values)
        for one, other, column in zip(buffers_here, buffers, layout.columns, strict=True):
            assert one[:2] == other[:2]
            assert (one.ends is None) == (other.ends is None)
            if one.ends is not None:
                assert bytes(one.ends) == bytes(other.ends)
            if column.kind in (Kind.BYTES, Kind.INT, Kind.LONG, Kind.FIXED):
                assert bytes(one.data) == bytes(other.data)
    return values, refused


def normal(value: Any) -> Any:
    """Return a value in a form that can be compared: maps are in one order, and a NaN is itself."""
    if isinstance(value, dict):
        return {"sorted": sorted([(repr(key), normal(each)) for key, each in value.items()], key=repr)}
    if isinstance(value, list):
        if value and isinstance(value[0], tuple):  # a map
            assert len(dict(value)) == len(value)
            return normal(dict(value))
        return [normal(each) for each in value]
    return repr(value)


def plan_of(kind: Any, *paths: str) -> MessagePlan:
    wanted = [path.split(".") for path in paths] or None
    return message_plan(kind.DESCRIPTOR, make_layout(message_schema(kind.DESCRIPTOR), wanted))
