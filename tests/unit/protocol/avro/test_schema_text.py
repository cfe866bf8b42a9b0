"""A schema as one text: the other process reads by it what this one does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyconsumer.protocol.avro import parse_schema
from pyconsumer.protocol.avro.schema import AvroSchema
from pyconsumer.protocol.avro.schema_text import schema_text
from pyconsumer.protocol.avro.types import AvroType

SCHEMAS: list[Any] = [
    "long",
    ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
    {"type": "array", "items": {"type": "map", "values": {"type": "int", "logicalType": "date"}}},
    {"type": "fixed", "name": "F", "namespace": "a.b", "aliases": ["G", "c.H"], "size": 16, "logicalType": "uuid"},
    {"type": "enum", "name": "E", "symbols": ["X", "Y"], "default": "Y", "doc": "left out"},
    {
        "type": "record",
        "name": "a.Outer",
        "aliases": ["Older"],
        "fields": [
            {"name": "inner", "type": {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]}},
            {"name": "again", "type": "Inner", "default": {"x": 7}},
            {"name": "plain", "type": {"type": "fixed", "name": "Plain", "namespace": "", "size": 2}},
            {"name": "plain2", "type": ["null", "Plain"], "default": None, "aliases": ["old"]},
            {"name": "self", "type": ["null", "Outer"]},
        ],
    },
]


def facts(kind: AvroType, seen: frozenset[str] = frozenset()) -> Any:
    """All that has a part in reading."""
    if kind.name in seen:
        return kind.name
    seen |= {kind.name} if kind.name else frozenset()
    inner = [facts(kind.items, seen)] if kind.kind in ("array", "map") else []
    fields = [(f.name, f.aliases, f.default_bytes, facts(f.type, seen)) for f in kind.fields]
    branches = [facts(branch, seen) for branch in kind.branches]
    return (
        *(kind.kind, kind.name, kind.aliases, kind.size, kind.symbols, kind.default, kind.logical),
        *(inner, fields, branches),
    )


@pytest.mark.parametrize("source", SCHEMAS, ids=range(len(SCHEMAS)))
def test_the_text_has_all_that_reading_needs(source: Any) -> None:
    schema = parse_schema(json.dumps(source))
    again = parse_schema(schema_text(schema), strict=False)
    assert facts(again.root) == facts(schema.root)
    assert schema_text(again) == schema_text(schema)


def test_types_of_references_stand_in_it() -> None:
    money: AvroSchema = parse_schema({"type": "fixed", "name": "shop.Money", "size": 8})
    order = {"type": "record", "name": "shop.Order", "fields": [{"name": "price", "type": "Money"}]}
    text = schema_text(parse_schema(order, [money]))
    assert json.loads(text)["fields"][0]["type"] == {"type": "fixed", "name": "shop.Money", "size": 8}
    assert parse_schema(text).canonical == parse_schema(order, [money]).canonical
