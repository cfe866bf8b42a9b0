"""The compiled decoder of Protobuf columns against its twin and against Google's library, over random data."""

from __future__ import annotations

import random
from typing import Any

import pytest
from google.protobuf.message import DecodeError

from pyconsumer.protocol.avro import _pure_columns as twin_of_columns
from pyconsumer.protocol.avro.arrow import arrow_array, arrow_type
from pyconsumer.protocol.avro.coder import REVISION
from pyconsumer.protocol.avro.layout import Kind, Layout, make_layout
from pyconsumer.protocol.compiled import load_compiled
from pyconsumer.protocol.protobuf import _pure_columns as twin
from pyconsumer.protocol.protobuf.column_plan import MessagePlan, message_plan, message_schema
from tests.support.avro_values import damaged
from tests.support.proto_values import ProtoValues, shown

pa = pytest.importorskip("pyarrow")
native = load_compiled("pyconsumer.protocol.avro._native", REVISION)[0]
needs_compiled = pytest.mark.skipif(native is None, reason="the compiled coder is not in use")
PREFIX = b"\0\0\0\0\x07"
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


def decoded(columns: Any, program: Any, layout: Layout, rows: list[bytes | None]) -> tuple[list[Any], list[int], Any]:
    """Return the values, the refused rows and the buffers of some rows."""
    decoder = columns.ColumnsDecoder(layout.columns, MOST)
    used, bad = decoder.append(rows, {7: program})
    assert used == len(rows) == len(decoder)
    buffers = decoder.finish()
    array = arrow_array(pa, layout, plain_type(arrow_type(pa, layout)), buffers)
    array.validate(full=True)
    return array.to_pylist(), [row for row, _, _ in bad], buffers


def both(plan: MessagePlan, rows: list[bytes | None]) -> tuple[list[Any], list[int]]:
    """Decode by both twins, compare them, and return the values and the refused rows."""
    layout = plan.layout
    values, refused, buffers = decoded(native, native.MessageProgram(plan), layout, rows)
    values_there, refused_there, buffers_there = decoded(twin_of_columns, twin.MessageProgram(plan), layout, rows)
    assert refused == refused_there
    assert normal(values) == normal(values_there)
    for one, other, column in zip(buffers, buffers_there, layout.columns, strict=True):
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


def as_columns(value: Any) -> Any:
    """Return a message as columns show it. An empty map and an empty list look alike there."""
    if isinstance(value, dict):
        return {key: as_columns(each) for key, each in value.items()} or []
    if isinstance(value, list) and value and isinstance(value[0], tuple):  # a map
        return as_columns(dict(value))
    return [as_columns(each) for each in value] if isinstance(value, list) else value


def same(value: Any, message: Any) -> bool:
    return bool(normal(as_columns(value)) == normal(as_columns(shown(message))))


def plan_of(kind: Any, *paths: str) -> MessagePlan:
    wanted = [path.split(".") for path in paths] or None
    return message_plan(kind.DESCRIPTOR, make_layout(message_schema(kind.DESCRIPTOR), wanted))


@needs_compiled
@pytest.mark.parametrize("seed", range(100))
def test_the_twins_and_the_library_agree(seed: int) -> None:
    values = ProtoValues(seed)
    plan = plan_of(values.type)
    rows: list[bytes | None] = [None]
    whole: set[bytes | None] = set()
    for _ in range(5):
        data, other = values.message().SerializeToString(), values.message().SerializeToString()
        valid = [PREFIX + each for each in (data, data + other, values.mixed(data, other), values.mixed(data))]
        whole.update(valid)
        rows += valid
        rows += [PREFIX + damaged(each[5:], values.random) for each in valid for _ in range(3)]
    found, refused = both(plan, rows)
    for row, data in enumerate(rows):
        if data is None:
            assert found[row] is None
            continue
        try:
            message = values.type.FromString(data[5:])
        except DecodeError:
            assert row in refused, data
            continue
        if row in refused:
            why = str(twin_of_columns.explain(program_of(plan), data, 5, MOST))
            assert "UTF-8" in why or "max_decoded" in why or "microseconds" in why, (why, data)
            assert data not in whole
        elif not same(found[row], message):
            # Google's library drops an entry of a map that has unknown fields in it. Java's keeps it, as we do.
            assert data not in whole, (data, found[row], shown(message))
            assert "map_entry" in str(values.proto), (data, found[row], shown(message))


def program_of(plan: MessagePlan) -> Any:
    plan.twin = lambda program: twin.MessageProgram(program.plan, program.path, program.zigzag)
    return native.MessageProgram(plan)


@needs_compiled
@pytest.mark.parametrize("seed", range(40))
def test_parts_are_those_of_the_whole(seed: int) -> None:
    values = ProtoValues(10_000 + seed)
    names = [field.name for field in values.type.DESCRIPTOR.fields]
    chosen = values.random.sample(names, max(1, len(names) // 2))
    rows: list[bytes | None] = []
    for _ in range(6):
        data = values.mixed(values.message().SerializeToString(), values.message().SerializeToString())
        rows += [PREFIX + data, PREFIX + damaged(data, values.random)]
    found, refused = both(plan_of(values.type, *chosen), rows)
    whole, refused_whole = both(plan_of(values.type), rows)
    assert set(refused) <= set(refused_whole)
    for row, value in enumerate(whole):
        if row not in refused_whole:
            assert normal(found[row]) == normal({name: value[name] for name in names if name in chosen})


@needs_compiled
@pytest.mark.parametrize("seed", range(40))
def test_bytes_by_chance(seed: int) -> None:
    values = ProtoValues(20_000 + seed)
    rng = random.Random(seed)
    tags = [field.number << 3 | wire for field in values.type.DESCRIPTOR.fields for wire in (0, 1, 2, 3, 4, 5)]
    rows: list[bytes | None] = [
        PREFIX
        + bytes(rng.choice([rng.randrange(256), min(255, rng.choice(tags)), 1, 2]) for _ in range(rng.randrange(24)))
        for _ in range(60)
    ]
    both(plan_of(values.type), rows)
