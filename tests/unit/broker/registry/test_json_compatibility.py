"""Compatibility of JSON schemas: each rule in both directions, and what no rule covers."""

from __future__ import annotations

from typing import Any

import pytest

from pyconsumer.broker.registry.json_compatibility import JsonText, UncheckedError, incompatibilities

_A = {"properties": {"a": {"type": "string"}}}
_AB = {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
_CLOSED = {"additionalProperties": False}
_STRINGS = {"additionalProperties": {"type": "string"}}
_NULL, _TEXT, _WHOLE = {"type": "null"}, {"type": "string"}, {"type": "integer"}


def reasons(reader: Any, writer: Any) -> list[str]:
    return incompatibilities(JsonText(reader, {}), JsonText(writer, {}))


@pytest.mark.parametrize(
    ("old", "new", "forth", "back"),
    [
        # old, new, the kind of the first reason for which the new one cannot read the old one, and the other way
        ({"title": "x", "format": "date"}, {"description": "y"}, "", ""),
        ({"type": "string"}, {}, "", "TYPE_CHANGED"),
        ({"type": "string"}, True, "", "TYPE_CHANGED"),
        (False, {"type": "string"}, "", "TYPE_CHANGED"),
        ({"type": "integer"}, {"type": "number"}, "", "TYPE_NARROWED"),
        ({"type": "string"}, {"type": ["string", "null"]}, "", "TYPE_NARROWED"),
        ({"type": "string"}, {"type": "integer"}, "TYPE_CHANGED", "TYPE_CHANGED"),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, "", "ENUM_ARRAY_NARROWED"),
        ({"const": 1}, {"enum": [1, True]}, "", "ENUM_ARRAY_NARROWED"),
        ({"enum": [1]}, {"enum": [True]}, "ENUM_ARRAY_NARROWED", "ENUM_ARRAY_NARROWED"),
        ({"type": "string", "enum": ["a"]}, {"type": "string"}, "", "TYPE_CHANGED"),
        ({"enum": ["a"]}, {"type": "string"}, "TYPE_CHANGED", "TYPE_CHANGED"),
        ({"minimum": 2}, {"minimum": 1}, "", "MINIMUM_INCREASED"),
        ({"minimum": 2}, {}, "", "MINIMUM_ADDED"),
        ({"exclusiveMaximum": 2}, {"exclusiveMaximum": 3}, "", "EXCLUSIVE_MAXIMUM_DECREASED"),
        ({"maxLength": 2}, {"maxLength": 3}, "", "MAX_LENGTH_DECREASED"),
        ({"multipleOf": 4}, {"multipleOf": 2}, "", "MULTIPLE_OF_CHANGED"),
        ({"multipleOf": 4}, {"type": "integer"}, "TYPE_CHANGED", "MULTIPLE_OF_ADDED"),
        ({"pattern": "a"}, {"pattern": "b"}, "PATTERN_CHANGED", "PATTERN_CHANGED"),
        ({"pattern": "a"}, {"minLength": 0}, "MIN_LENGTH_ADDED", "PATTERN_ADDED"),
        ({"uniqueItems": True}, {"uniqueItems": False}, "", "UNIQUE_ITEMS_ADDED"),
        ({"items": _WHOLE}, {"items": {"type": "number"}}, "", "TYPE_NARROWED"),
        ({"items": _WHOLE}, {"type": "array"}, "TYPE_CHANGED", "TYPE_CHANGED"),
        # objects: open, closed, and partially open
        (_A, _AB, "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", ""),
        (_A | _CLOSED, _AB | _CLOSED, "", "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"),
        (_A | _CLOSED, _AB, "", "PROPERTY_REMOVED_FROM_CLOSED"),
        (_A, {"properties": {**_A["properties"], "b": {}}}, "", ""),
        (_A | _STRINGS, _AB | _STRINGS, "PROPERTY_ADDED_NOT_COVERED", "PROPERTY_REMOVED_NOT_COVERED"),
        (_A | _STRINGS, {"properties": {**_A["properties"], "c": _TEXT}, **_STRINGS}, "", ""),
        (_A | _CLOSED, _A | _STRINGS, "", "ADDITIONAL_PROPERTIES_REMOVED"),
        (_A | _STRINGS, _A, "", "ADDITIONAL_PROPERTIES_NARROWED"),
        (_A | _STRINGS, _A | {"additionalProperties": {}}, "", "TYPE_CHANGED at #/additionalProperties"),
        (_A | {"required": ["a"]}, _A, "", "REQUIRED_ATTRIBUTE_ADDED"),
        (
            {"properties": {"a": {"default": 1}}},
            {"properties": {"a": {"default": 1}}, "required": ["a"]},
            "",
            "",
        ),
        (
            _A | _CLOSED,
            _AB | _CLOSED | {"required": ["b"]},
            "REQUIRED_PROPERTY_ADDED_TO_UNOPEN",
            "PROPERTY_REMOVED_FROM_CLOSED",
        ),
        (
            _A | _CLOSED | {"patternProperties": {"^b": _WHOLE}},
            _AB | _CLOSED | {"patternProperties": {"^b": _WHOLE}},
            "",
            "",
        ),
        # sums and products
        ({"oneOf": [_NULL, _TEXT]}, {"oneOf": [_WHOLE, _TEXT, _NULL]}, "", "SUM_TYPE_NARROWED"),
        ({"oneOf": [_NULL, _TEXT]}, {"anyOf": [_TEXT, _NULL]}, "", "COMBINED_TYPE_CHANGED"),
        ({"oneOf": [_NULL, _TEXT]}, {"oneOf": [_NULL, _WHOLE]}, "COMBINED_TYPE_SUBSCHEMAS_CHANGED", "COMBINED"),
        (_TEXT, {"oneOf": [_NULL, _TEXT]}, "", "TYPE_CHANGED"),
        ({"allOf": [_TEXT]}, _TEXT, "", ""),
        ({"allOf": [_A, _STRINGS]}, {"allOf": [_STRINGS]}, "", "PRODUCT_TYPE_EXTENDED"),
        ({"not": _TEXT}, {"not": _TEXT}, "", ""),
    ],
)
def test_the_rules(old: Any, new: Any, forth: str, back: str) -> None:
    for reader, writer, expected in ((new, old, forth), (old, new, back)):
        found = reasons(reader, writer)
        assert bool(found) == bool(expected)
        assert not found or found[0].startswith(expected)
    assert reasons(old, old) == []
    assert reasons(new, new) == []


def test_reasons_name_the_place() -> None:
    outer = {"properties": {"list": {"items": {"properties": {"n": _WHOLE}}}}}
    inner = {"properties": {"list": {"items": {"properties": {"n": _TEXT}}}}}
    assert reasons(outer, inner) == [
        "TYPE_CHANGED at #/properties/list/items/properties/n: string does not fit any more"
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"not": _TEXT}, {"not": _WHOLE}),
        ({}, {"if": _TEXT}),
        ({"dependentRequired": {"a": ["b"]}}, {"type": "object"}),
        ({"anyOf": [_TEXT], "minLength": 1}, {"anyOf": [_NULL, _TEXT], "minLength": 1}),
        ({"items": [_TEXT]}, {"items": [_WHOLE]}),
        ({"$ref": "other.json"}, {"type": "string"}),
        ({"$ref": "#/no"}, {"type": "string"}),
        ({"$ref": "#"}, {"type": "string"}),
        ({"type": "text"}, {"type": "string"}),
        ({"not": {"$ref": "#/x"}}, {"not": {"$ref": "#/x"}}),
        ({"minimum": 1}, {"minimum": 2, "exclusiveMinimum": True}),
        ({"properties": 1}, {"properties": {}}),
    ],
)
def test_what_no_rule_covers_is_not_called_compatible(old: Any, new: Any) -> None:
    with pytest.raises(UncheckedError):
        reasons(new, old) or reasons(old, new)


def test_references_are_followed() -> None:
    node = {"properties": {"next": {"$ref": "#/$defs/node"}, "n": _WHOLE}}
    tree = {"$ref": "#/$defs/node", "$defs": {"node": node}}
    wider = {"$ref": "#/$defs/node", "$defs": {"node": {"properties": {**node["properties"], "n": {"type": "number"}}}}}
    assert reasons(wider, tree) == []
    assert reasons(tree, wider)[0].startswith("TYPE_NARROWED at #/properties/n")

    inner = JsonText(_TEXT, {}), JsonText({"type": ["string", "null"]}, {})
    old, new = (JsonText({"properties": {"a": {"$ref": "inner.json"}}}, {"inner.json": each}) for each in inner)
    assert incompatibilities(new, old) == []
    assert incompatibilities(old, new)[0].startswith("TYPE_NARROWED at #/properties/a")


def test_each_branch_has_one_of_its_own() -> None:
    """Two branches of the writer fit the same one of the reader, and the matching finds the other one."""
    old = {"anyOf": [{"type": "integer"}, {"type": "number"}]}
    new = {"anyOf": [{"type": "number"}, {"type": "integer"}]}
    assert reasons(new, old) == []
    assert reasons({"anyOf": [{"type": "number"}, _TEXT]}, old)[0].startswith("COMBINED_TYPE_SUBSCHEMAS_CHANGED")


def levels(count: int, last: str) -> dict[str, Any]:
    """Return definitions that refer to the next one twice."""
    found: dict[str, Any] = {f"d{count}": {"type": last}}
    for n in range(count):
        found[f"d{n}"] = {"type": "object", "properties": {name: {"$ref": f"#/$defs/d{n + 1}"} for name in "ab"}}
    return {"$ref": "#/$defs/d0", "$defs": found}


def test_definitions_that_double_at_each_level_are_not_compared_to_the_end() -> None:
    with pytest.raises(UncheckedError, match="more than 10000 pairs"):
        reasons(levels(30, "integer"), levels(30, "number"))


def test_a_pattern_of_a_schema_is_not_run() -> None:
    old = {"type": "object", "patternProperties": {"^(a+)+$": {}}}
    added = {"properties": {"a" * 40 + "!": {"type": "string"}}}
    with pytest.raises(UncheckedError, match="is more than a text"):
        reasons({**old, **added}, old)
    broken = {"type": "object", "patternProperties": ["x"]}
    with pytest.raises(UncheckedError, match="they are an object"):
        reasons({**broken, **added}, broken)


def test_values_in_lists_have_the_types_of_json() -> None:
    assert reasons({"enum": [[1]]}, {"enum": [[True]]})
    assert not reasons({"enum": [[1, 2]]}, {"enum": [[1, 2]]})
