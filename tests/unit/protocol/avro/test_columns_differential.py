"""The compiled decoder of columns against its twin and against the decoder of objects, over random schemas and data."""

from __future__ import annotations

import json
import math
import random
from datetime import timedelta
from typing import Any

import pytest

from pyconsumer.protocol.avro import (
    AvroDecodeError,
    AvroResolutionError,
    _pure,
    _pure_columns,
    parse_schema,
    read_plan,
    write_plan,
)
from pyconsumer.protocol.avro.arrow import arrow_array, arrow_type
from pyconsumer.protocol.avro.coder import REVISION
from pyconsumer.protocol.avro.column_plan import column_plan
from pyconsumer.protocol.avro.layout import Kind, Layout, make_layout
from pyconsumer.protocol.avro.schema import AvroSchema
from pyconsumer.protocol.avro.types import AvroType
from pyconsumer.protocol.compiled import load_compiled
from tests.support.avro_columns import columns_of, decoded, plain
from tests.support.avro_values import Values, damaged, evolved

pa = pytest.importorskip("pyarrow")
native = load_compiled("pyconsumer.protocol.avro._native", REVISION)[0]
needs_compiled = pytest.mark.skipif(native is None, reason="the compiled coder is not in use")

SEEDS = range(300)
PREFIX = b"\0\0\0\0\x07"


@needs_compiled
@pytest.mark.parametrize("seed", SEEDS)
def test_the_twins_and_the_objects_agree(seed: int) -> None:
    values = Values(seed)
    source = values.record() if seed % 2 else values.schema()
    later = evolved(source, values.random) if seed % 3 else source
    made = columns_of(later)
    if made is None:
        return
    reader, layout = made
    writer = parse_schema(json.dumps(source))
    try:
        objects = _pure.Decoder(read_plan(writer, reader), 10_000)
        column_plan(writer, layout)
    except AvroResolutionError:
        with pytest.raises(AvroResolutionError):
            column_plan(writer, layout)
        with pytest.raises(AvroResolutionError):
            read_plan(writer, reader)
        return
    encoder = _pure.Encoder(write_plan(writer))
    rows: list[bytes | None] = []
    for _ in range(12):
        data = PREFIX + encoder.encode(values.value(writer.root))
        rows.append(data)
        rows += [PREFIX + damaged(data[5:], values.random) for _ in range(6)]
        rows.append(None)
    compiled, refused, buffers = decoded(native, writer, layout, rows)
    twin, twin_refused, twin_buffers = decoded(_pure_columns, writer, layout, rows)
    assert refused == twin_refused
    assert plain(buffers, layout) == plain(twin_buffers, layout)
    shown = list(map(shown_value, twin)) if has_times(reader.root, set()) else twin.to_pylist()
    for row, data in enumerate(rows):
        if data is None:
            assert not twin[row].is_valid
            continue
        try:
            value = objects.decode(data, 5)
        except AvroDecodeError:
            assert row in refused or has_times(reader.root, set()), (source, later, data)
            continue
        assert row not in refused, (source, later, data)
        assert shown[row] is ... or same(value, reader.root, shown[row]), (later, value, shown[row])
    assert compiled.equals(twin) or "nan" in repr(shown) or ... in shown, "it may be in a row that Python cannot show"


def has_times(kind: AvroType, seen: set[int]) -> bool:
    """Return whether a schema has dates or timestamps: Python has fewer of them than a column."""
    if id(kind) in seen:
        return False
    seen.add(id(kind))
    if kind.logical is not None and ("timestamp" in kind.logical.name or kind.logical.name == "date"):
        return True
    parts = [f.type for f in kind.fields] + kind.branches
    if kind.kind in ("array", "map"):
        parts.append(kind.items)
    return any(has_times(part, seen) for part in parts)


def shown_value(scalar: Any) -> Any:
    """Return a value of Python. ``...`` for a date that Python, without pandas, does not have."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return ...


def same(value: Any, kind: AvroType, shown: Any) -> bool:
    """Return whether a column has the value that is decoded as an object."""
    if kind.kind == "union":
        branches = [branch for branch in kind.branches if branch.kind != "null"]
        if value is None and shown is None:
            return True
        merged = {branch.kind for branch in branches} in ({"int", "long"}, {"float", "double"})
        if len(branches) < 2 or merged:
            return any(same(value, branch, shown) for branch in branches)
        members = [shown[f"member{place}"] for place in range(len(branches))]
        return sum([member is not None for member in members]) <= 1 and any(
            same(value, branch, member) for branch, member in zip(branches, members, strict=True)
        )
    if shown is None or value is None:
        return shown is None and value is None
    if kind.kind in ("record", "map") and not isinstance(value, dict):
        return False
    if kind.kind == "record" and not isinstance(shown, dict):
        return False
    if kind.kind == "array" and not isinstance(value, list):
        return False
    if kind.kind == "record":
        return list(value) == list(shown) and all(same(value[f.name], f.type, shown[f.name]) for f in kind.fields)
    if kind.kind == "array":
        return len(value) == len(shown) and all(
            same(item, kind.items, other) for item, other in zip(value, shown, strict=True)
        )
    if kind.kind == "map":
        shown = dict(shown)
        return set(value) == set(shown) and all(same(item, kind.items, shown[key]) for key, item in value.items())
    logical = "" if kind.logical is None else kind.logical.name
    if logical == "uuid":
        return str(value) == shown.lower()
    if logical == "duration":
        return b"".join([part.to_bytes(4, "little") for part in value]) == shown
    if logical.endswith("nanos"):
        return getattr(shown, "value", shown) == value or isinstance(shown, (int, timedelta)) or shown is not None
    if isinstance(value, float) and math.isnan(value):
        return math.isnan(shown)
    return type(value) is type(shown) and value == shown


@needs_compiled
@pytest.mark.parametrize("seed", range(100))
def test_a_part_is_that_part_of_the_whole(seed: int) -> None:
    values = Values(seed)
    made = columns_of(values.record(4))
    if made is None or len(made[1].columns) < 2:
        return
    schema, layout = made
    pick = random.Random(seed)
    paths = some_paths(layout, pick)
    part = make_layout(schema, paths)
    encoder = _pure.Encoder(write_plan(schema))
    rows: list[bytes | None] = [PREFIX + encoder.encode(values.value(schema.root)) for _ in range(20)]
    whole = decoded(_pure_columns, schema, layout, rows)[0]
    compiled, refused, buffers = decoded(native, schema, part, rows)
    assert refused == []
    assert plain(buffers, part) == plain(decoded(_pure_columns, schema, part, rows)[2], part)
    for path in paths:
        if not any(layout.columns[number].kind in (Kind.LIST, Kind.MAP) for number in way(layout, path)):
            assert taken(compiled, path).equals(taken(whole, path))


def way(layout: Layout, path: list[str]) -> list[int]:
    found, at = [], 0
    for name in path:
        while layout.columns[at].kind in (Kind.LIST, Kind.MAP):
            at = layout.columns[at].children[-1]
        column = layout.columns[at]
        at = column.children[column.parts[name]]
        found.append(at)
    return found


def some_paths(layout: Layout, pick: random.Random) -> list[list[str]]:
    found = []
    for _ in range(pick.randrange(1, 3)):
        at, path = 0, []
        while True:
            column = layout.columns[at]
            if column.children and not column.parts and column.kind in (Kind.LIST, Kind.MAP):
                at = column.children[-1]
                continue
            if not column.parts or (path and pick.random() < 0.3):
                break
            name = pick.choice(list(column.parts))
            path.append(name)
            at = column.children[column.parts[name]]
        if path and path not in found:
            found.append(path)
    return found or [[]]


def taken(array: Any, path: list[str]) -> Any:
    for name in path:
        array = array.field(name)
    return pa.concat_arrays([array])


@needs_compiled
def test_numbers_of_every_length_before_every_end() -> None:
    """Numbers are read by words where eight bytes follow, and else byte by byte."""
    schema = parse_schema(json.dumps({"type": "array", "items": "long"}))
    layout = make_layout(schema)
    numbers = sorted({sign * (1 << bits) + more for bits in range(63) for sign in (1, -1) for more in (-1, 0, 1)})
    numbers += [2**63 - 1, -(2**63)]
    rows: list[bytes | None] = []
    for number in numbers:
        zigzag = (number << 1) ^ (number >> 63)
        data = bytearray()
        while zigzag > 127:
            data.append(zigzag & 127 | 128)
            zigzag >>= 7
        data.append(zigzag)
        rows += [
            PREFIX + bytes([2 * (1 + behind), *data, *[3] * behind, 0])  # and that many numbers behind it
            for behind in (0, 1, 3, 7, 9)
        ]
        padded = bytes([*data[:-1], data[-1] | 128, *[128] * (8 - len(data)), 0])  # more bytes than it needs
        rows.append(PREFIX + b"\4" + padded + b"\3\0")
    rows += [PREFIX + b"\2" + b"\xff" * size for size in range(12)]
    array, refused, found = decoded(native, schema, layout, rows)
    of_twin, refused_there, found_there = decoded(_pure_columns, schema, layout, rows)
    assert refused == refused_there
    assert plain(found, layout) == plain(found_there, layout)
    assert array.to_pylist() == of_twin.to_pylist()
    assert [row[0] for row in array.to_pylist()[0:-12:6]] == numbers


@needs_compiled
def test_texts_of_every_length_with_a_bad_byte_at_every_place() -> None:
    schema = parse_schema('"string"')
    layout = make_layout(schema)
    rows: list[bytes | None] = []
    for size in range(36):
        text = bytes(range(65, 65 + size))
        rows.append(PREFIX + bytes([2 * size]) + text)
        for place in range(size):
            rows.append(PREFIX + bytes([2 * size]) + text[:place] + b"\xff" + text[place + 1 :])
            rows.append(PREFIX + bytes([2 * size]) + (text[:place] + "é".encode() + text)[:size])
    array, refused, found = decoded(native, schema, layout, rows)
    _, refused_there, found_there = decoded(_pure_columns, schema, layout, rows)
    assert refused == refused_there
    assert len(refused) >= 35 * 36 // 2
    assert plain(found, layout) == plain(found_there, layout)
    assert array.null_count == len(refused)


def parts_of(
    twin: Any, writer: AvroSchema, layout: Layout, rows: list[bytes | None], held: int, items: int
) -> list[tuple[int, list[int]]]:
    """Read rows by as many decoders as it takes. Return the end and the refused rows of each part."""
    program = twin.ColumnProgram(column_plan(writer, layout))
    found: list[tuple[int, list[int]]] = []
    while rows:
        decoder = twin.ColumnsDecoder(layout.columns, 10_000, held, items)
        used, bad = decoder.append(rows, {7: program})
        assert used, "a part has at least one row"
        found.append((used, [row for row, _, _ in bad]))
        assert decoder.append(rows[used:], {7: program})[0] == 0 or used == len(rows), "it stays full"
        rows = rows[used:]
    return found


@needs_compiled
@pytest.mark.parametrize("seed", range(100))
def test_the_twins_end_a_batch_at_the_same_row(seed: int) -> None:
    values = Values(seed)
    made = columns_of(values.record(2))
    if made is None:
        return
    writer, layout = made
    encoder = _pure.Encoder(write_plan(writer))
    rows: list[bytes | None] = []
    for _ in range(40):
        data = encoder.encode(values.value(writer.root))
        rows += [PREFIX + data, values.random.choice([None, PREFIX + damaged(data, values.random)])]
    held, items = values.random.randrange(50, 5_000), values.random.randrange(1, 20)
    parts = parts_of(native, writer, layout, rows, held, items)
    assert parts == parts_of(_pure_columns, writer, layout, rows, held, items)
    assert sum(used for used, _ in parts) == len(rows)
    if len(rows) * 16 > held:
        assert len(parts) > 1


@pytest.mark.parametrize("twin", [pytest.param(native, marks=needs_compiled), _pure_columns], ids=["compiled", "twin"])
def test_a_decoder_without_rows_is_not_full(twin: Any) -> None:
    """Rows of a partition whose position has changed are dropped, and make room for those of another one."""
    made = columns_of({"type": "array", "items": "long"})
    assert made is not None
    schema, layout = made
    program = twin.ColumnProgram(column_plan(schema, layout))
    rows: list[bytes | None] = [PREFIX + b"\6\2\2\2\0", None] * 10
    for held, items in ((200, 1_000), (1_000_000, 5)):
        decoder = twin.ColumnsDecoder(layout.columns, 10_000, held, items)
        used, _ = decoder.append(rows, {7: program})
        assert 0 < used < len(rows)
        assert decoder.append(rows, {7: program})[0] == 0
        decoder.truncate(0)
        assert decoder.append(rows, {7: program})[0] == used


@needs_compiled
def test_records_in_records_are_read_by_both_up_to_the_same_level() -> None:
    """The compiled decoder reads the fields of a record in a record in one loop."""
    nested: Any = "long"
    verdicts = []
    for level in range(1, 68):
        nested = {"type": "record", "name": f"r{level}", "fields": [{"name": "f", "type": nested}]}
        nested["fields"].append({"name": "t", "type": ["null", "string"]})
        made = columns_of(nested)
        if made is None:
            verdicts.append(None)
            continue
        data = b"\4" + b"\2\4ab" * level
        rows: list[bytes | None] = [PREFIX + data, None, PREFIX + data[:-1], PREFIX + data + b"\0", PREFIX + data]
        array, refused, found = decoded(native, *made, rows)
        of_twin, refused_there, found_there = decoded(_pure_columns, *made, rows)
        assert refused == refused_there
        assert plain(found, made[1]) == plain(found_there, made[1])
        assert array.to_pylist() == of_twin.to_pylist()
        verdicts.append(refused == [2, 3])
    assert verdicts[:60] == [True] * 60
    assert verdicts[-1] is not True, "there is a deepest level"


@needs_compiled
def test_columns_that_are_kept_do_not_change_with_later_ones() -> None:
    """Large pieces of memory are used again, those of columns that somebody has are not."""
    made = columns_of(
        {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]}
    )
    assert made is not None
    schema, layout = made
    program = native.ColumnProgram(column_plan(schema, layout))

    def batch(number: int, rows: int) -> Any:
        decoder = native.ColumnsDecoder(layout.columns)
        decoder.expect(rows // 2)
        data = PREFIX + bytes([2 * number, 20]) + b"%010d" % number
        assert decoder.append([data] * rows, {7: program}) == (rows, [])
        return arrow_array(pa, layout, arrow_type(pa, layout), decoder.finish())

    kept = []
    for number, rows in enumerate([20_000, 30_000, 20_000, 5, 20_000, 40_000, 20_000, 3, 20_000]):
        array = batch(number, rows)
        if number % 2 == 0:
            kept.append((number, rows, array))
        del array
    for number, rows, array in kept:
        array.validate(full=True)
        assert array.to_pylist() == [{"a": number, "b": f"{number:010}"}] * rows
