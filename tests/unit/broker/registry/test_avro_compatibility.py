"""Which Avro schemas can read which data: the specification's "Schema Resolution", pair by pair.

The kinds of incompatibility are those of Java's ``SchemaCompatibility``.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyconsumer.broker.registry.avro_compatibility import incompatibilities
from pyconsumer.protocol.avro.schema import parse_schema


def _record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def _field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def _enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def _found(reader: Any, writer: Any) -> list[str]:
    return incompatibilities(parse_schema(json.dumps(reader)), parse_schema(json.dumps(writer)))


_LIST = _record(_field("next", ["null", "R"], default=None), _field("x", "int"))

_READABLE = [
    ("int", "int"),
    ("long", "int"),
    ("float", "int"),
    ("double", "int"),
    ("float", "long"),
    ("double", "long"),
    ("double", "float"),
    ("string", "bytes"),
    ("bytes", "string"),
    (["null", "int"], "int"),
    (["null", "long"], "int"),
    (["null", "string"], ["null"]),
    (["string", "null"], ["null", "string"]),
    ("int", ["int"]),
    ("double", ["int", "float"]),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}),
    ({"type": "map", "values": "string"}, {"type": "map", "values": "bytes"}),
    (_record(_field("a", "int")), _record(_field("a", "int"), _field("b", "int"))),
    (_record(_field("a", "int"), _field("b", "int", default=1)), _record(_field("a", "int"))),
    (_record(_field("b", "int"), _field("a", "int")), _record(_field("a", "int"), _field("b", "int"))),
    (_record(_field("b", "int", aliases=["a"])), _record(_field("a", "int"))),
    (_record(name="New", aliases=["Old"]), _record(name="Old")),
    (_record(name="a.R"), _record(name="b.R")),
    (_enum("A", "B"), _enum("B")),
    (_enum("A", default="A"), _enum("A", "B")),
    ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 2}),
    (_LIST, _LIST),
    (_record(_field("x", "long"), _field("next", ["null", "R"])), _LIST),
]

_UNREADABLE = [
    ("int", "long", "TYPE_MISMATCH at /: int cannot read long"),
    ("int", "string", "TYPE_MISMATCH"),
    ("int", ["null", "int"], "TYPE_MISMATCH at /0/: int cannot read null"),
    (["null", "int"], "string", "MISSING_UNION_BRANCH at /"),
    (["null", "int"], ["null", "string"], "MISSING_UNION_BRANCH at /1/"),
    ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, "TYPE_MISMATCH at /items/"),
    ({"type": "map", "values": "int"}, {"type": "array", "items": "int"}, "TYPE_MISMATCH"),
    (_record(_field("a", "int"), _field("b", "int")), _record(_field("a", "int")), "READER_FIELD_MISSING_DEFAULT"),
    (_record(_field("a", {"type": "array", "items": "int"})), _record(_field("a", "int")), "TYPE_MISMATCH at /a/"),
    (_record(name="New"), _record(name="Old"), "NAME_MISMATCH at /"),
    (_enum("A"), _enum("A", "B"), "MISSING_ENUM_SYMBOLS at /: the reader has no B"),
    ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}, "FIXED_SIZE_MISMATCH"),
    (_record(_field("next", ["null", "R"], default=None), _field("x", "int"), _field("y", "int")), _LIST, "at /y"),
]


@pytest.mark.parametrize(("reader", "writer"), _READABLE, ids=json.dumps)
def test_data_can_be_read(reader: Any, writer: Any) -> None:
    assert _found(reader, writer) == []


@pytest.mark.parametrize(("reader", "writer", "reason"), _UNREADABLE, ids=json.dumps)
def test_data_cannot_be_read_for_a_reason(reader: Any, writer: Any, reason: str) -> None:
    found = _found(reader, writer)
    assert found
    assert any(reason in each for each in found), found


@pytest.mark.parametrize(
    ("reader", "writer", "expected"),
    [*((*pair, True) for pair in _READABLE), *((*pair[:2], False) for pair in _UNREADABLE)],
    ids=json.dumps,
)
def test_apaches_checker_for_python_agrees(reader: Any, writer: Any, expected: bool) -> None:
    compatibility = pytest.importorskip("avro.compatibility", reason="needs avro, which pyconsumer[peers] installs")
    parse = pytest.importorskip("avro.schema").parse
    checker = compatibility.ReaderWriterCompatibilityChecker()
    verdict = checker.get_compatibility(parse(json.dumps(reader)), parse(json.dumps(writer)))
    assert (verdict.compatibility is compatibility.SchemaCompatibilityType.compatible) is expected
