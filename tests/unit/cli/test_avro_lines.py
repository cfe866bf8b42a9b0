"""Avro values as JSON and back, over random schemas and for each rule of the module."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyconsumer.cli.avro_lines import JsonValue, as_plain, from_plain
from pyconsumer.protocol.avro import Decoder, Encoder, parse_schema, read_plan, write_plan
from tests.support.avro_values import Values


def has_two_branches(source: Any) -> bool:
    """Return whether a schema has a union of more than null and one type: JSON does not tell their branches apart."""
    if isinstance(source, list):
        return len([branch for branch in source if branch != "null"]) > 1 or any(map(has_two_branches, source))
    if isinstance(source, dict):
        parts = [field["type"] for field in source.get("fields", ())]
        return any(map(has_two_branches, [*parts, source.get("items"), source.get("values")]))
    return False


@pytest.mark.parametrize("seed", range(200))
def test_a_value_goes_through_json_without_loss(seed: int) -> None:
    values = Values(seed)
    source = values.record() if seed % 2 else values.schema()
    if has_two_branches(source):
        return
    schema = parse_schema(json.dumps(source))
    encode, decode = Encoder(write_plan(schema)).encode, Decoder(read_plan(schema)).decode
    for _ in range(10):
        data = encode(values.value(schema.root), b"")
        value = decode(data, 0)
        line = JsonValue(value, "hex")
        again = encode(from_plain(schema.root, json.loads(line)), b"")
        assert repr(decode(again, 0)) == repr(value)  # a NaN equals no other
        assert json.dumps(json.loads(line)) == json.dumps(line.document)


def fit(schema: Any, value: Any) -> Any:
    return from_plain(parse_schema(json.dumps(schema)).root, value)


A = {"type": "record", "name": "s.A", "fields": [{"name": "x", "type": "int"}]}
B = {"type": "record", "name": "s.B", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": ["null", "int"]}]}


def test_the_branch_of_a_union_is_the_first_that_fits() -> None:
    union = ["null", "long", "string", A, B]
    assert fit(union, None) is None
    assert fit(union, 5) == 5
    assert fit(union, "5") == "5"
    assert fit(union, {"x": 1}) == ("s.A", {"x": 1})
    assert fit(union, {"x": 1, "y": 2}) == ("s.B", {"x": 1, "y": 2})
    assert fit(union, {"-type": "s.B", "x": 1}) == ("s.B", {"x": 1})
    with pytest.raises(ValueError, match="fits no branch"):
        fit(union, 1.5)
    with pytest.raises(ValueError, match="a whole number of 32 bits"):
        fit(["null", "int"], 1 << 40)


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ("boolean", 1, "true or false"),
        ("int", True, "a whole number"),
        ("long", 1.0, "a whole number"),
        ("double", "1", "a number"),
        ("null", 0, "null"),
        ("bytes", {"base64": "!"}, "not valid base64"),
        ("bytes", {"other": "x"}, "must be a string"),
        ({"type": "fixed", "name": "F", "size": 2}, "abc", "2 bytes"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "C", "one of A, B"),
        ({"type": "array", "items": "int"}, [1, "x"], r"the value\[1\] must be"),
        ({"type": "map", "values": "int"}, {"k": None}, r"the value\.k must be"),
        ({"type": "string", "logicalType": "uuid"}, "x", "a UUID"),
        ({"type": "int", "logicalType": "date"}, "x", "a date such as"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, "x", "nanoseconds"),
        ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, [1], "a list of months"),
        (A, {"-type": "s.B", "x": 1}, "a s.A"),
    ],
)
def test_what_does_not_fit_is_refused(schema: Any, value: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        fit(schema, value)


def test_floats_that_json_does_not_have_are_text() -> None:
    assert as_plain([float("nan"), float("inf"), float("-inf"), 0.5], "hex") == ["NaN", "Infinity", "-Infinity", 0.5]
    assert fit({"type": "array", "items": "float"}, ["Infinity", "-Infinity", 1]) == [float("inf"), float("-inf"), 1]
