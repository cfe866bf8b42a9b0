"""JSON schemas as columns: the mapping of types, and the documents that fit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyconsumer.errors import ConfigurationError, SerializationError
from pyconsumer.protocol.avro.arrow import arrow_type
from pyconsumer.protocol.avro.layout import make_layout
from pyconsumer.schemas import JSONDeserializer
from pyconsumer.schemas.json_schema.documents import load_document
from pyconsumer.schemas.json_schema.shapes import shape_of
from pyconsumer.schemas.json_schema.validation import JsonSchema

pa = pytest.importorskip("pyarrow")


def shaped(schema: Any, **references: Any) -> Any:
    return shape_of(JsonSchema(schema, references))


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, "string"),
        ({"type": "integer"}, "int64"),
        ({"type": "number"}, "double"),
        ({"type": "boolean"}, "bool"),
        ({"type": "null"}, "null"),
        ({"enum": ["a", "b"]}, "string"),
        ({"const": "a"}, "string"),
        ({"type": ["integer", "number"]}, "double"),
        ({"type": "array", "items": {"type": "integer"}}, "list<item: int64 not null>"),
        ({"items": {"type": ["integer", "null"]}}, "list<item: int64>"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "map<string, double>"),
        (
            {"type": "object", "properties": {"a": {"type": "integer"}, "b-b": {"type": "string"}}, "required": ["a"]},
            "struct<a: int64 not null, b-b: string>",
        ),
        ({"properties": {"a": {"oneOf": [{"type": "null"}, {"items": {"type": "string"}}]}}}, None),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}, "int64"),
        # JSON text
        ({}, "string"),
        (True, "string"),
        ({"type": "object"}, "string"),
        ({"type": "array"}, "string"),
        ({"items": [{"type": "string"}]}, "string"),
        ({"type": ["integer", "string"]}, "string"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "string"),
        ({"allOf": [{"type": "integer"}]}, "string"),
        ({"enum": [1, "a"]}, "string"),
        ({"properties": {"-type": {}}}, "string"),
    ],
)
def test_the_mapping_of_types(schema: Any, kind: str | None) -> None:
    found = str(arrow_type(pa, make_layout(shaped(schema).schema)))
    assert found == ("struct<a: list<item: string not null>>" if kind is None else kind)


def test_references_of_the_registry_are_followed() -> None:
    inner = {"$defs": {"n": {"type": "integer"}}, "properties": {"n": {"$ref": "#/$defs/n"}}}
    found = shaped({"properties": {"a": {"$ref": "inner.json"}}}, **{"inner.json": inner})
    assert str(arrow_type(pa, make_layout(found.schema))) == "struct<a: struct<n: int64>>"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"properties": {"next": {"$ref": "#"}}}, r"the value\.next contains itself"),
        ({"$ref": "#"}, "circle"),
        ({"$ref": "#/no"}, "refers to '#/no', which is not found"),
        ({"items": {"$ref": "x.json"}}, r"the value\[\] refers to 'x.json'"),
    ],
)
def test_schemas_without_columns(schema: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        shaped(schema)


_ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": ["number", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "any": {},
        "map": {"type": "object", "additionalProperties": {"type": "boolean"}},
    },
    "required": ["id"],
}


@pytest.mark.parametrize(
    ("document", "value"),
    [
        ({"id": 1}, {"id": 1, "price": None, "tags": None, "any": None, "map": None}),
        ({"id": 1.0, "other": 1}, {"id": 1, "price": None, "tags": None, "any": None, "map": None}),
        (
            {"id": -(2**63), "price": 2, "tags": ["a"], "any": {"a": [1, None]}, "map": {"x": True}},
            {"id": -(2**63), "price": 2.0, "tags": ["a"], "any": '{"a":[1,null]}', "map": {"x": True}},
        ),
    ],
)
def test_documents_that_fit(document: Any, value: Any) -> None:
    found = shaped(_ORDER).fit(document)
    assert found == value
    assert type(found["id"]) is int


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], r"^\$: a value of list is no object"),
        ({}, r"^\$: 'id' is missing"),
        ({"id": True}, r"^\$\.id: a value of bool is no integer"),
        ({"id": 1.5}, r"^\$\.id: a value of float is no integer"),
        ({"id": 2**63}, r"^\$\.id: a value of int is no integer of 64 bits"),
        ({"id": 1, "price": "2"}, r"^\$\.price: a value of str is no number"),
        ({"id": 1, "price": 10**400}, r"^\$\.price: a value of int is no number of 64 bits"),
        ({"id": 1, "tags": ["a", None]}, r"^\$\.tags\[1\]: a value of NoneType is no string"),
        ({"id": 1, "tags": None}, r"^\$\.tags: a value of NoneType is no array"),
        ({"id": 1, "map": {"x": 1}}, r"^\$\.map\.x: a value of int is no boolean"),
        ({"id": 1, "map": 1}, r"^\$\.map: a value of int is no object"),
    ],
)
def test_documents_that_do_not_fit(document: Any, message: str) -> None:
    with pytest.raises(SerializationError, match=message):
        shaped(_ORDER).fit(document)


def test_null_is_null_alone() -> None:
    assert shaped({"type": "null"}).fit(None) is None
    with pytest.raises(SerializationError, match="is no null"):
        shaped({"type": "null"}).fit(1)


def test_columns_need_a_schema_and_no_objects() -> None:
    text = json.dumps(_ORDER)
    with pytest.raises(ConfigurationError, match="a schema or a registry"):
        JSONDeserializer(None).columns("value")
    with pytest.raises(ConfigurationError, match="from_dict makes objects"):
        JSONDeserializer(text, lambda value, ctx: value).columns("value")
    deserializer = JSONDeserializer(text)
    assert deserializer.columns("value") is deserializer.columns("value")
    assert deserializer.columns("key") is not deserializer.columns("value")


def test_definitions_that_double_at_each_level_are_refused_in_time() -> None:
    definitions: dict[str, Any] = {"d30": {"type": "integer"}}
    for n in range(30):
        two = {name: {"$ref": f"#/$defs/d{n + 1}"} for name in "ab"}
        definitions[f"d{n}"] = {"type": "object", "properties": two}
    with pytest.raises(ConfigurationError, match="more than 10000 columns"):
        shaped({"$ref": "#/$defs/d0", "$defs": definitions})


def test_an_anchor_is_not_the_root_of_its_document() -> None:
    other = {"properties": {"x": {"type": "string"}}, "$defs": {"M": {"$anchor": "M", "properties": {"amount": {}}}}}
    with pytest.raises(ConfigurationError, match=r"the anchor 't.json#M', which columns do not follow"):
        shaped({"properties": {"m": {"$ref": "t.json#M"}}}, **{"t.json": other})


def test_a_long_number_with_a_short_exponent_is_not_infinite() -> None:
    with pytest.raises(SerializationError, match="is no number of JSON"):
        load_document(b'{"a":' + b"9" * 300 + b"e99}")
