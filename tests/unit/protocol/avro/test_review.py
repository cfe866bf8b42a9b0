"""Tests of Avro's coders and schemas beyond the usual: other logical types, hostile schemas, plans and values."""

from __future__ import annotations

import contextlib
import json
import time as clock
from datetime import UTC, datetime, time
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer.protocol.avro import (
    AvroDecodeError,
    AvroDuration,
    AvroEncodeError,
    AvroResolutionError,
    AvroSchemaError,
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


def record(*fields: tuple[Any, ...], name: str = "R") -> dict[str, Any]:
    """Return a record of fields (name, type) or (name, type, default)."""
    made = [dict(zip(("name", "type", "default"), entry, strict=False)) for entry in fields]
    return {"type": "record", "name": name, "fields": made}


def logical(kind: str, name: str, **parts: int) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **parts}


class TestOtherLogicalTypes:
    @pytest.mark.parametrize(
        ("writer", "reader", "value"),
        [
            (
                logical("long", "timestamp-millis"),
                logical("long", "timestamp-micros"),
                datetime(1970, 1, 1, 0, 0, 0, 1000, UTC),
            ),
            (
                logical("long", "local-timestamp-millis"),
                logical("long", "local-timestamp-micros"),
                datetime(1970, 1, 1, 0, 0, 0, 1000),
            ),
            (logical("int", "time-millis"), logical("long", "time-micros"), time(0, 0, 0, 1000)),
        ],
    )
    def test_a_finer_unit_is_read_exactly(self, coder: Any, writer: Any, reader: Any, value: Any) -> None:
        assert coder.Decoder(read_plan(parsed(writer), parsed(reader))).decode(b"\2") == value

    @pytest.mark.parametrize(
        ("writer", "reader"),
        [
            (logical("bytes", "decimal", precision=4, scale=2), logical("bytes", "decimal", precision=4, scale=1)),
            (logical("bytes", "decimal", precision=4, scale=2), logical("bytes", "decimal", precision=5, scale=2)),
            (logical("long", "timestamp-micros"), logical("long", "timestamp-millis")),
            (logical("long", "timestamp-millis"), logical("long", "local-timestamp-millis")),
            (logical("int", "date"), logical("long", "timestamp-millis")),
            (logical("bytes", "decimal", precision=4), logical("string", "uuid")),
        ],
    )
    def test_others_do_not_resolve(self, writer: Any, reader: Any) -> None:
        with pytest.raises(AvroResolutionError, match=r"^a: the writer's logical type"):
            read_plan(parsed(record(("a", writer))), parsed(record(("a", reader))))


def write(coder: Any, source: Any, value: Any) -> bytes:
    data: bytes = coder.Encoder(write_plan(parsed(source))).encode(value)
    return data


class TestRefusedValues:
    @pytest.mark.parametrize(
        ("source", "value"),
        [
            ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, AvroDuration(-1, 0, 0)),
            ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, (1, 2)),
            (logical("long", "timestamp-millis"), datetime(1, 1, 1)),
        ],
    )
    def test_a_value_without_bytes_is_named(
        self, coder: Any, source: Any, value: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TZ", "Europe/Berlin")
        with contextlib.ExitStack() as stack:
            stack.callback(clock.tzset)  # after the variable is as before
            stack.callback(monkeypatch.undo)
            clock.tzset()
            with pytest.raises(AvroEncodeError, match=r"^a: "):
                write(coder, record(("a", source)), {"a": value})


TWO = {
    "type": "record",
    "name": "A",
    "fields": [
        {
            "name": "u",
            "type": [
                "null",
                "A",
                {
                    "type": "record",
                    "name": "B",
                    "fields": [{"name": "u", "type": ["null", "A", "B"]}, {"name": "x", "type": "int"}],
                },
            ],
        },
        {"name": "x", "type": "int"},
    ],
}


class TestTimeToChoose:
    def test_a_wrong_leaf_below_similar_branches(self, coder: Any) -> None:
        value: dict[str, Any] = {"u": None, "x": "wrong"}
        for _ in range(40):
            value = {"u": value, "x": 1}
        with pytest.raises(AvroEncodeError, match="u: a dict is none of the union's types"):
            write(coder, TWO, value)

    def test_refused_branches_of_similar_records(self) -> None:
        writer, reader = wide(40, "int"), wide(40, "string")
        with pytest.raises(AvroResolutionError, match="x: a int of the writer is no string of the reader"):
            read_plan(writer, reader)


def wide(levels: int, leaf: str) -> Any:
    """Return a schema of records, each with two fields of one union with the next, and one field that differs."""
    source: Any = record(("x", leaf), name="R0")
    for level in range(1, levels):
        source = record(("a", ["null", source]), ("b", ["null", f"R{level - 1}"]), ("x", leaf), name=f"R{level}")
    return parsed(source)


class TestMemory:
    def test_constant_defaults_count(self, coder: Any) -> None:
        reader = record(*((f"f{place}", ["null", "int"], None) for place in range(100)))
        writer = {"type": "array", "items": record()}
        plan = read_plan(parsed(writer), parsed({"type": "array", "items": reader}))
        assert len(coder.Decoder(plan, 64 + 8 + 64 + 800).decode(b"\2\0")) == 1
        with pytest.raises(AvroDecodeError, match="max_decoded_bytes"):
            coder.Decoder(plan, 64 + 8 + 64 + 799).decode(b"\2\0")

    @pytest.mark.parametrize(
        ("items", "most"), [({"type": "array", "items": "null"}, 136), ({"type": "map", "values": "null"}, 136)]
    )
    def test_containers_count(self, coder: Any, items: Any, most: int) -> None:
        plan = read_plan(parsed({"type": "array", "items": items}))
        assert len(coder.Decoder(plan, most).decode(b"\2\0\0")) == 1
        with pytest.raises(AvroDecodeError, match="max_decoded_bytes"):
            coder.Decoder(plan, most - 1).decode(b"\2\0\0")


class TestBadBytes:
    def test_a_large_value_is_refused_without_the_twin(self, monkeypatch: pytest.MonkeyPatch) -> None:
        native, reason = load_compiled("pyconsumer.protocol.avro._native", REVISION)
        if native is None:
            pytest.skip(reason)
        monkeypatch.setattr(_pure, "Decoder", None)
        data = encode_long(70_000) + b"\1" * 69_999 + b"\2\0"
        decoder = native.Decoder(read_plan(parsed({"type": "array", "items": "boolean"})))
        with pytest.raises(AvroDecodeError, match="from byte 70003 of 70004 on"):
            decoder.decode(data)

    def test_the_decoder_of_prefixes_passes_errors_on(self, coder: Any) -> None:
        calls: list[Any] = []
        decoders = {7: coder.Decoder(read_plan(parsed("boolean")))}
        decode = coder.PrefixDecoder(decoders, lambda *given: calls.append(given))
        with pytest.raises(AvroDecodeError, match=r"^the schema 7: the boolean is 9"):
            decode(SimpleNamespace(headers=()), b"\0\0\0\0\7\t")
        assert not calls


class TestDecimals:
    @pytest.mark.parametrize(("precision", "scale"), [(10**30, 0), (5 * 10**18, 4 * 10**18), (10_001, 0)])
    def test_a_huge_precision_is_ignored(self, coder: Any, precision: int, scale: int) -> None:
        source = logical("bytes", "decimal", precision=precision, scale=scale)
        assert coder.Decoder(read_plan(parsed(source))).decode(b"\2a") == b"a"

    @pytest.mark.parametrize("data", [b"", b"\x27\x10", b"\xd8\xf0"])
    def test_no_bytes_and_too_many_digits_are_refused(self, coder: Any, data: bytes) -> None:
        source = logical("bytes", "decimal", precision=4, scale=2)
        with pytest.raises(AvroDecodeError, match="the decimal has"):
            coder.Decoder(read_plan(parsed(source))).decode(encode_long(len(data)) + data)
        with pytest.raises(AvroEncodeError, match="the decimal has"):
            write(coder, source, data)

    @pytest.mark.parametrize("value", ["1E+400000000", "1E-400000000", "100", "-100", "0.001"])
    def test_digits_are_counted(self, coder: Any, value: str) -> None:
        source = logical("bytes", "decimal", precision=4, scale=2)
        assert write(coder, source, Decimal("99.99")) == b"\4\x27\x0f"
        with pytest.raises(AvroEncodeError, match="has more than"):
            write(coder, source, Decimal(value))


def test_an_encoder_refuses_a_plan_for_decoding(coder: Any) -> None:
    for plan in (
        read_plan(parsed(record(("a", "int"))), parsed(record())),
        read_plan(parsed("int"), parsed("double")),
        read_plan(parsed(record()), parsed(record(("a", {"type": "array", "items": "int"}, [1])))),
    ):
        with pytest.raises(ValueError, match="an encoder takes a plan of write_plan"):
            coder.Encoder(plan)


@pytest.mark.parametrize("kind", [logical("int", "time-millis"), logical("long", "time-micros")])
def test_a_time_with_a_zone_is_refused(coder: Any, kind: Any) -> None:
    with pytest.raises(AvroEncodeError, match="has a zone"):
        write(coder, kind, time(1, tzinfo=UTC))


class TestSchemas:
    @pytest.mark.parametrize("default", ["1" + "0" * 400, "1e999", "9" * 5000])
    def test_a_default_that_no_double_holds(self, default: str) -> None:
        field = f'{{"name": "a", "type": "double", "default": {default}}}'
        with pytest.raises(AvroSchemaError):
            parse_schema(f'{{"type": "record", "name": "R", "fields": [{field}]}}')

    @pytest.mark.parametrize("strict", [True, False])
    def test_a_name_without_utf8(self, strict: bool) -> None:
        with pytest.raises(AvroSchemaError, match=r"\$.name: "):
            parse_schema({"type": "record", "name": "\ud800", "fields": []}, strict=strict)
