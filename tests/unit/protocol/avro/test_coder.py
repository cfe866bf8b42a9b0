"""Tests of Avro's decoder and encoder, each on the compiled one and on its twin."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest

from pyconsumer.protocol.avro import (
    AvroDecodeError,
    AvroDuration,
    AvroEncodeError,
    AvroResolutionError,
    _pure,
    parse_schema,
    read_plan,
    write_plan,
)
from pyconsumer.protocol.avro.coder import REVISION
from pyconsumer.protocol.avro.defaults import encode_long
from pyconsumer.protocol.compiled import load_compiled


@pytest.fixture(params=["compiled", "twin"])
def coder(request: pytest.FixtureRequest) -> Any:
    if request.param == "twin":
        return _pure
    native, reason = load_compiled("pyconsumer.protocol.avro._native", REVISION)
    if native is None:
        pytest.skip(reason)
    return native


def parsed(source: Any) -> Any:
    return parse_schema(json.dumps(source))


def read(coder: Any, source: Any, data: bytes, reader: Any = None, **options: Any) -> Any:
    plan = read_plan(parsed(source), None if reader is None else parsed(reader))
    return coder.Decoder(plan, **options).decode(data)


def write(coder: Any, source: Any, value: Any) -> bytes:
    data: bytes = coder.Encoder(write_plan(parsed(source))).encode(value)
    return data


def record(*fields: tuple[Any, ...], name: str = "R") -> dict[str, Any]:
    """Return a record of fields (name, type) or (name, type, default)."""
    made = [dict(zip(("name", "type", "default"), entry, strict=False)) for entry in fields]
    return {"type": "record", "name": name, "fields": made}


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
INTS = {"type": "array", "items": "int"}
NULLS = {"type": "array", "items": "null"}
FIXED = {"type": "fixed", "name": "F", "size": 2}


class TestDamage:
    @pytest.mark.parametrize(
        ("source", "data", "message"),
        [
            ("int", b"", "the bytes end within a number"),
            ("int", b"\x80", "the bytes end within a number"),
            ("int", b"\xff\xff\xff\xff\x1f", "is no int of 32 bits"),
            ("long", b"\xff" * 9 + b"\x02", "more than 64 bits"),
            ("long", b"\x80" * 10 + b"\0", "more than 64 bits"),
            ("int", b"\0\0", r"1 bytes are left after the value \(at byte 1 of 2\)"),
            ("boolean", b"\7", "the boolean is 7"),
            ("float", b"\0\0\0", "4 bytes are announced, and 3 are left"),
            ("double", b"\0" * 7, "8 bytes are announced, and 7 are left"),
            ("string", b"\4a", "2 bytes are announced, and 1 are left"),
            ("string", b"\1", "the length -1 is below 0"),
            ("string", b"\2\xff", "no UTF-8"),
            ("string", b"\6\xed\xa0\x80", "no UTF-8"),  # a surrogate
            ("bytes", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "bytes are announced, and 0 are left"),
            (FIXED, b"a", "2 bytes are announced"),
            (ENUM, b"\1", "the index -1 is none of the enum's 2 symbols"),
            (ENUM, b"\4", "the index 2 is none"),
            (["null", "int"], b"\4\0", "the index 2 is none of the union's 2 branches"),
            (["null", "int"], b"\1", "the index -1 is none"),
            (INTS, b"\2", "^.0.: the bytes end"),
            (INTS, b"\1\4\2\0", r"a block ends at byte 3, and its size says 4"),
            (INTS, b"\1\x10\2\0", "a block of 8 bytes is announced, and 2 are left"),
            (INTS, b"\1\1\2\0", "a block of -1 bytes"),
            ({"type": "map", "values": "int"}, b"\2\2k\x80", r"^\['k'\]: the bytes end"),
            (record(("a", record(("b", INTS), name="S"))), b"\4\2", r"^a\.b\[1\]: the bytes end within a number"),
            ({"type": "string", "logicalType": "uuid"}, b"\2x", "'x' is no UUID"),
            ({"type": "int", "logicalType": "time-millis"}, b"\1", "is no time of a day"),
            ({"type": "int", "logicalType": "date"}, b"\xfe\xff\xff\xff\x0f", "no date of Python's"),
            ({"type": "long", "logicalType": "timestamp-millis"}, b"\xff" * 9 + b"\1", "beyond the years"),
        ],
    )
    def test_what_the_specification_forbids_is_an_error(
        self, coder: Any, source: Any, data: bytes, message: str
    ) -> None:
        with pytest.raises(AvroDecodeError, match=message):
            read(coder, source, data)

    def test_a_block_may_have_its_size(self, coder: Any) -> None:
        assert read(coder, INTS, b"\3\4\2\4\0") == [1, 2]
        assert read(coder, {"type": "map", "values": "int"}, b"\1\6\2k\2\0") == {"k": 1}

    def test_an_object_of_wrong_type_is_a_type_error(self, coder: Any) -> None:
        with pytest.raises(TypeError):
            read(coder, "int", 3.5)  # type: ignore[arg-type]


class TestBounds:
    @pytest.mark.parametrize(
        "data",
        [
            pytest.param(b"\x80\xa8\xd6\xb9\x07\0", id="10^9 nulls"),
            pytest.param(b"\x80\x80\x80\x80\x80\x80\x80\x80\x20\0", id="2^60 nulls"),
            pytest.param(b"\xff" * 9 + b"\1" + b"\0\0", id="-2^63 nulls"),
        ],
    )
    def test_items_without_bytes_are_bounded(self, coder: Any, data: bytes) -> None:
        with pytest.raises(AvroDecodeError, match=r"more than max_decoded_bytes \(100000\)"):
            read(coder, NULLS, data, max_decoded_bytes=100_000)

    def test_items_that_are_skipped_are_bounded(self, coder: Any) -> None:
        with pytest.raises(AvroDecodeError, match="max_decoded_bytes"):
            read(coder, record(("f", NULLS)), b"\x80\xa8\xd6\xb9\x07\0", record(), max_decoded_bytes=100_000)

    def test_records_without_bytes_are_bounded(self, coder: Any) -> None:
        source = {"type": "array", "items": record(("f", "null"))}
        with pytest.raises(AvroDecodeError, match="max_decoded_bytes"):
            read(coder, source, b"\x80\xa8\xd6\xb9\x07\0", max_decoded_bytes=100_000)

    def test_bytes_are_counted(self, coder: Any) -> None:
        assert len(read(coder, "bytes", b"\xc8\1" + b"x" * 100, max_decoded_bytes=100)) == 100
        with pytest.raises(AvroDecodeError, match="max_decoded_bytes"):
            read(coder, "bytes", b"\xc8\1" + b"x" * 100, max_decoded_bytes=99)

    def test_a_value_nests_at_most_64_levels(self, coder: Any) -> None:
        source = record(("next", ["null", "R"]))
        assert read(coder, source, b"\2" * 63 + b"\0")["next"] is not None
        with pytest.raises(AvroDecodeError, match="more than 64 levels"):
            read(coder, source, b"\2" * 10_000 + b"\0")
        with pytest.raises(AvroDecodeError, match="more than 64 levels"):
            read(coder, record(("f", source), name="Outer"), b"\2" * 10_000 + b"\0", record(name="Outer"))

    def test_a_record_that_only_contains_itself_ends(self, coder: Any) -> None:
        with pytest.raises(AvroDecodeError, match="more than 64 levels"):
            read(coder, record(("next", "R")), b"")

    def test_a_value_to_write_nests_at_most_64_levels(self, coder: Any) -> None:
        value: Any = None
        for _ in range(65):
            value = {"next": value}
        with pytest.raises(AvroEncodeError, match="more than 64 levels"):
            write(coder, record(("next", ["null", "R"])), value)

    def test_a_decimal_is_bounded(self, coder: Any) -> None:
        source = {"type": "bytes", "logicalType": "decimal", "precision": 4}
        with pytest.raises(AvroDecodeError, match="the decimal has 5000 bytes"):
            read(coder, source, encode_long(5000) + b"\1" * 5000)


class TestLogicalTypes:
    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            ({"type": "int", "logicalType": "date"}, date(1969, 12, 31)),
            ({"type": "int", "logicalType": "date"}, date.min),
            ({"type": "int", "logicalType": "date"}, date.max),
            ({"type": "int", "logicalType": "time-millis"}, time(23, 59, 59, 999_000)),
            ({"type": "long", "logicalType": "time-micros"}, time(1, 2, 3, 4)),
            (
                {"type": "long", "logicalType": "timestamp-millis"},
                datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
            ),
            ({"type": "long", "logicalType": "timestamp-micros"}, datetime.max.replace(tzinfo=UTC)),
            ({"type": "long", "logicalType": "timestamp-micros"}, datetime.min.replace(tzinfo=UTC)),
            ({"type": "long", "logicalType": "local-timestamp-millis"}, datetime(2026, 2, 28, 12)),
            ({"type": "long", "logicalType": "local-timestamp-micros"}, datetime(2000, 2, 29, 0, 0, 0, 1)),
            ({"type": "long", "logicalType": "timestamp-nanos"}, 1_700_000_000_000_000_001),
            ({"type": "string", "logicalType": "uuid"}, UUID("12345678-1234-5678-1234-567812345678")),
            ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, UUID(int=5)),
            ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, AvroDuration(1, 2, 4294967295)),
            ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, Decimal("-123.45")),
            (
                {"type": "bytes", "logicalType": "decimal", "precision": 40},
                Decimal("1234567890123456789012345678901234567890"),
            ),
            (
                {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 5, "scale": 2},
                Decimal("1.00"),
            ),
        ],
    )
    def test_values_go_there_and_back(self, coder: Any, kind: Any, value: Any) -> None:
        found = read(coder, kind, write(coder, kind, value))
        assert repr(found) == repr(value)

    @pytest.mark.parametrize(
        ("number", "data"), [("1.27", b"\2\x7f"), ("1.28", b"\4\0\x80"), ("-1.28", b"\2\x80"), ("-1.29", b"\4\xff\x7f")]
    )
    def test_decimals_are_as_short_as_in_java(self, coder: Any, number: str, data: bytes) -> None:
        source = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 2}
        assert write(coder, source, Decimal(number)) == data

    @pytest.mark.parametrize("value", ["1.234", "1000", "NaN", "Infinity", "1E+1000000000"])
    def test_a_decimal_that_does_not_fit_is_refused(self, coder: Any, value: str) -> None:
        source = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
        with pytest.raises(AvroEncodeError):
            write(coder, source, Decimal(value))

    def test_trailing_zeros_of_a_decimal_do_not_matter(self, coder: Any) -> None:
        source = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
        assert read(coder, source, write(coder, source, Decimal("1.50000"))) == Decimal("1.50")
        assert read(coder, source, write(coder, source, 7)) == Decimal("7.00")

    def test_timestamps_of_other_zones_are_the_same_instant(self, coder: Any) -> None:
        source = {"type": "long", "logicalType": "timestamp-millis"}
        value = datetime(1900, 1, 1, 1, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=2)))
        assert read(coder, source, write(coder, source, value)) == value - timedelta(microseconds=999)

    def test_a_naive_instant_is_in_the_zone_of_the_machine(self, coder: Any) -> None:
        source = {"type": "long", "logicalType": "timestamp-micros"}
        value = datetime(2026, 7, 1, 12)
        assert read(coder, source, write(coder, source, value)).timestamp() == value.timestamp()

    def test_numbers_are_taken_for_logical_types(self, coder: Any) -> None:
        for kind in ("timestamp-millis", "time-micros", "local-timestamp-micros"):
            assert write(coder, {"type": "long", "logicalType": kind}, 5) == b"\x0a"

    def test_an_invalid_logical_type_is_ignored(self, coder: Any) -> None:
        assert read(coder, {"type": "int", "logicalType": "timestamp-millis"}, b"\2") == 1


RECORDS = ["null", record(("x", "int"), name="A"), record(("x", "int"), ("y", "int", 0), name="B")]


class TestUnionsOnWriting:
    @pytest.mark.parametrize(
        ("source", "value", "branch"),
        [
            (["null", "string"], None, 0),
            (["null", "string"], "a", 1),
            (["string", "null"], None, 1),
            (["int", "long"], 1 << 31, 1),
            (["int", "boolean"], True, 1),
            (["float", "double"], 1.5, 1),
            (["double", "float"], 1.5, 0),
            (["null", "float", "string"], 1.5, 1),
            (["int", "double"], 1, 0),
            (["string", "bytes"], b"a", 1),
            (["null", ENUM, "string"], "B", 1),
            (["null", ENUM, "string"], "C", 2),
            (["null", FIXED, "bytes"], b"abc", 2),
            (["null", INTS, {"type": "map", "values": "int"}], {"a": 1}, 2),
            (["null", "long", {"type": "int", "logicalType": "date"}], date(2026, 1, 1), 2),
            (["null", "int", ("string", "int")[0]], ("string", "x"), 2),
            (RECORDS, {"x": 1}, 1),
            (RECORDS, {"x": 1, "y": 2}, 2),
            (RECORDS, ("B", {"x": 1}), 2),
            (RECORDS, {"-type": "B", "x": 1}, 2),
        ],
    )
    def test_the_best_branch_is_chosen(self, coder: Any, source: Any, value: Any, branch: int) -> None:
        assert write(coder, source, value)[0] == 2 * branch

    def test_no_branch_is_an_error_with_their_names(self, coder: Any) -> None:
        with pytest.raises(
            AvroEncodeError, match=r"^f: 1\.5 \(float\) is none of the union's types: null, int, string"
        ):
            write(coder, record(("f", ["null", "int", "string"])), {"f": 1.5})


class TestWriting:
    @pytest.mark.parametrize(
        ("source", "value", "message"),
        [
            ("null", 1, "null is written from None"),
            ("boolean", 1, "a boolean is True or False"),
            ("int", 1 << 31, "no int of 32 bits"),
            ("long", 1 << 63, "no long of 64 bits"),
            ("int", "1", r"'1' \(str\) is no whole number"),
            ("int", 1.0, "no whole number"),
            ("double", "1", "is no number"),
            ("float", 1e39, "too large"),
            ("string", b"a", "a string is written from text"),
            ("string", "\ud800", "no UTF-8"),
            ("bytes", "a", "bytes are written from bytes"),
            (FIXED, b"a", "has 1 bytes, and must have 2"),
            (ENUM, "C", "no symbol of the enum: A, B"),
            (INTS, "12", "an array is written from a list"),
            (INTS, [1, None], r"^\[1\]: None \(NoneType\) is no whole number"),
            ({"type": "map", "values": "int"}, {1: 1}, "a string is written from text"),
            (record(("a", INTS)), {"a": ["x"]}, r"^a\[0\]: 'x'"),
            (record(("a", "int")), {}, r"^a: None"),
            (record(("a", "int")), [1], "is written from a dictionary, not from a list"),
        ],
    )
    def test_a_value_that_does_not_fit_is_refused(self, coder: Any, source: Any, value: Any, message: str) -> None:
        with pytest.raises(AvroEncodeError, match=message):
            write(coder, source, value)

    def test_a_missing_field_has_its_default_or_is_null(self, coder: Any) -> None:
        source = record(("a", "int", 7), ("b", ["null", "int"]), ("c", ["int", "null"], 3))
        assert write(coder, source, {"unknown": 1}) == b"\x0e\0\0\6"
        assert write(coder, source, {"c": None}) == b"\x0e\0\2"

    def test_other_types_of_mappings_sequences_and_numbers_are_taken(self, coder: Any) -> None:
        class Symbol(StrEnum):
            B = "B"

        class Number:
            def __index__(self) -> int:
                return 1

            def __float__(self) -> float:
                return 1.0

        source = record(("a", INTS), ("e", ENUM), ("n", "int"), ("d", "double"), ("b", "bytes"))
        value = {"a": (1,), "e": Symbol.B, "n": Number(), "d": Number(), "b": memoryview(b"x")}
        assert write(coder, source, MappingProxyType(value)) == b"\2\2\0\2\2\0\0\0\0\0\0\xf0\x3f\2x"

    def test_an_exception_of_a_value_comes_out(self, coder: Any) -> None:
        class Broken(dict[str, Any]):
            def get(self, *_: Any) -> Any:
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            write(coder, record(("a", "int")), Broken())

    def test_the_bytes_follow_a_prefix(self, coder: Any) -> None:
        assert coder.Encoder(write_plan(parsed("int"))).encode(1, b"\0\0\0\0\5") == b"\0\0\0\0\5\2"


class TestResolution:
    @pytest.mark.parametrize(
        ("writer", "data", "reader", "value"),
        [
            ("int", b"\2", "long", 1),
            ("int", b"\2", "double", 1.0),
            ("long", b"\2", "float", 1.0),
            ("int", b"\xfe\xff\xff\xff\x0f", "float", 2147483648.0),
            ("float", b"\0\0\0\x3f", "double", 0.5),
            ("string", b"\2a", "bytes", b"a"),
            ("bytes", b"\2a", "string", "a"),
            ("int", b"\2", ["null", "long"], 1),
            (["null", "int"], b"\2\2", "int", 1),
            (["int", "string"], b"\2\2a", ["string", "null"], "a"),
            ("int", b"\2", ["double", "int"], 1),
            ("int", b"\2", ["string", "double"], 1.0),
            (
                "long",
                b"\2",
                {"type": "long", "logicalType": "timestamp-millis"},
                datetime(1970, 1, 1, 0, 0, 0, 1000, UTC),
            ),
            (
                "int",
                b"\2",
                {"type": "long", "logicalType": "timestamp-millis"},
                datetime(1970, 1, 1, 0, 0, 0, 1000, UTC),
            ),
            ({"type": "long", "logicalType": "timestamp-millis"}, b"\2", "long", 1),
            (ENUM, b"\2", {**ENUM, "symbols": ["B"]}, "B"),
            (ENUM, b"\0", {**ENUM, "symbols": ["B"], "default": "B"}, "B"),
            (ENUM, b"\0", {**ENUM, "name": "ns.E"}, "A"),
            (ENUM, b"\0", {**ENUM, "name": "New", "aliases": ["E"]}, "A"),
            (INTS, b"\2\2\0", {"type": "array", "items": "double"}, [1.0]),
            ({"type": "map", "values": "int"}, b"\2\2k\2\0", {"type": "map", "values": "long"}, {"k": 1}),
        ],
    )
    def test_types_resolve(self, coder: Any, writer: Any, data: bytes, reader: Any, value: Any) -> None:
        assert repr(read(coder, writer, data, reader)) == repr(value)

    def test_fields_are_reordered_skipped_renamed_and_filled(self, coder: Any) -> None:
        writer = record(("gone", {"type": "map", "values": INTS}), ("a", "int"), ("old", "string"))
        reader = record(("text", "string"), ("a", "long"), ("n", ["null", "int"], None), ("l", INTS, [1]))
        reader["fields"][0]["aliases"] = ["old"]
        data = b"\2\2k\2\2\0\0" + b"\4" + b"\2x"
        found = read(coder, writer, data, reader)
        assert found == {"text": "x", "a": 2, "n": None, "l": [1]}
        assert list(found) == ["text", "a", "n", "l"]

    def test_a_default_is_new_for_each_record(self, coder: Any) -> None:
        decoder = coder.Decoder(read_plan(parsed(record()), parsed(record(("l", INTS, [1])))))
        decoder.decode(b"")["l"].append(2)
        assert decoder.decode(b"") == {"l": [1]}

    def test_a_block_that_is_skipped_may_have_its_size(self, coder: Any) -> None:
        assert read(coder, record(("f", INTS), ("g", "int")), b"\3\4\2\4\0\6", record(("g", "int"))) == {"g": 3}

    def test_an_enum_symbol_without_a_default_is_an_error_for_its_value_alone(self, coder: Any) -> None:
        reader = {**ENUM, "symbols": ["B"]}
        with pytest.raises(AvroDecodeError, match="the symbol with the writer's index 0 is none of the reader's"):
            read(coder, ENUM, b"\0", reader)

    def test_a_union_branch_that_does_not_resolve_is_an_error_for_its_value_alone(self, coder: Any) -> None:
        assert read(coder, ["string", "int"], b"\2\2", "long") == 1
        with pytest.raises(AvroDecodeError, match="a string of the writer is no long of the reader"):
            read(coder, ["string", "int"], b"\0\2a", "long")

    def test_a_recursive_record_resolves(self, coder: Any) -> None:
        writer = record(("x", "int"), ("next", ["null", "R"]))
        reader = record(("next", ["null", "R"]), ("x", "double"))
        assert read(coder, writer, b"\2\2\4\0", reader) == {"next": {"next": None, "x": 2.0}, "x": 1.0}

    def test_record_names_of_a_union_on_request(self, coder: Any) -> None:
        source = ["null", record(("x", ["null", "R"]), name="ns.R")]
        plan = read_plan(parsed(source), return_record_name=True)
        assert coder.Decoder(plan).decode(b"\2\2\0") == ("ns.R", {"x": ("ns.R", {"x": None})})

    @pytest.mark.parametrize(
        ("writer", "reader", "message"),
        [
            ("long", "int", "a long of the writer is no int of the reader"),
            ("string", ["int", "null"], r"no branch of the reader's union \(int, null\) takes a string"),
            (record(), record(("a", "int")), "the reader's field 'a' of 'R' is not in the writer's schema"),
            (record(name="A"), record(name="B"), "'A' is not the reader's 'B'"),
            (FIXED, {**FIXED, "size": 3}, "has 2 bytes, the reader's 3"),
            (
                record(("a", record(("b", "int"), name="S"))),
                record(("a", record(("b", "string"), name="S"))),
                r"^a\.b: ",
            ),
        ],
    )
    def test_schemas_that_do_not_resolve_are_named(self, writer: Any, reader: Any, message: str) -> None:
        with pytest.raises(AvroResolutionError, match=message):
            read_plan(parsed(writer), parsed(reader))


def test_a_plan_with_wrong_numbers_is_refused() -> None:
    native, reason = load_compiled("pyconsumer.protocol.avro._native", REVISION)
    if native is None:
        pytest.skip(reason)
    plan = read_plan(parsed(["null", "int"]))
    for change in ({"a": 9}, {"b": 99}, {"op": 77}, {"a": -1}):
        broken = type(plan)([plan.nodes[0]._replace(**change), *plan.nodes[1:]], plan.links)
        with pytest.raises(ValueError, match="out of range"):
            native.Decoder(broken)
    with pytest.raises(ValueError, match="out of range"):
        native.Decoder(type(plan)(plan.nodes, [link._replace(node=99) for link in plan.links]))
