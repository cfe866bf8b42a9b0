"""Tests of Avro schemas: the rules of names, types, logical types and defaults, and the canonical form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyconsumer.protocol.avro import AvroSchemaError, parse_schema


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(kind: Any, name: str = "f", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


class TestNames:
    def test_a_namespace_is_inherited_and_a_dotted_name_is_full(self) -> None:
        inner = {"type": "enum", "name": "E", "symbols": ["A"]}
        dotted = {"type": "fixed", "name": "other.F", "namespace": "ignored", "size": 2}
        schema = parse_schema(record(field(inner), field(dotted, "g"), namespace="a.b"))
        assert set(schema.names) == {"a.b.R", "a.b.E", "other.F"}

    def test_an_empty_namespace_means_none(self) -> None:
        inner = record(field("int"), name="Inner", namespace="")
        assert set(parse_schema(record(field(inner), namespace="a")).names) == {"a.R", "Inner"}

    def test_a_reference_is_looked_up_in_the_namespace_first_then_without(self) -> None:
        here = {"type": "fixed", "name": "a.X", "size": 1}
        bare = {"type": "fixed", "name": "X", "namespace": "", "size": 2}
        schema = parse_schema(record(field(bare, "b"), field(here, "h"), field("X", "r"), namespace="a"))
        assert schema.root.fields[2].type.name == "a.X"
        schema = parse_schema(record(field(bare, "b"), field("X", "r"), namespace="a"))
        assert schema.root.fields[1].type.name == "X"

    def test_a_record_may_contain_itself(self) -> None:
        schema = parse_schema(record(field(["null", "R"])))
        assert schema.root.fields[0].type.branches[1] is schema.root

    def test_references_give_named_types(self) -> None:
        base = parse_schema(record(field("int"), name="a.Base"))
        schema = parse_schema(record(field("a.Base")), [base])
        assert schema.root.fields[0].type is base.root
        assert '"name":"a.Base"' in schema.canonical

    def test_two_references_may_not_define_one_name(self) -> None:
        one, two = parse_schema(record(name="a.X")), parse_schema(record(name="a.X"))
        with pytest.raises(AvroSchemaError, match=r"'a\.X'|a\.X"):
            parse_schema('"string"', [one, two])

    def test_a_dotted_symbol_or_field_is_no_name(self) -> None:
        with pytest.raises(AvroSchemaError, match=r"\$\.symbols\[1\]: 'b\.c' is no name"):
            parse_schema({"type": "enum", "name": "E", "symbols": ["a", "b.c"]})

    def test_a_lenient_parse_takes_names_of_other_letters(self) -> None:
        source = record(field("int", "größe"))
        with pytest.raises(AvroSchemaError, match="is no name"):
            parse_schema(source)
        assert parse_schema(source, strict=False).root.fields[0].name == "größe"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{", "no JSON"),
        ('{"type": NaN}', "NaN"),
        (b'"\xff"', "no UTF-8"),
        (3, r"^\$: a type is a name"),
        ({"name": "x"}, r"^\$: the object has no 'type'"),
        ('"strin"', r"^\$: there is no type 'strin'"),
        (["null", "null"], r"^\$\[1\]: the union contains 'null' twice"),
        (["null", ["int"]], r"^\$\[1\]: a union may not contain a union"),
        ([{"type": "array", "items": "int"}, {"type": "array", "items": "long"}], "'array' twice"),
        ({"type": "array"}, r"^\$: the array has no 'items'"),
        ({"type": "map", "items": "int"}, r"^\$: the map has no 'values'"),
        ({"type": "record", "name": "R"}, r"^\$\.fields: the fields of 'R' are a list"),
        ({"type": "record", "fields": []}, r"^\$: the record has no 'name'"),
        (record(field("int"), field("int")), r"^\$\.fields\[1\]\.name: 'R' has two fields 'f'"),
        (record({"name": "f"}), r"^\$\.fields\[0\]: the field 'f' has no 'type'"),
        (record(field("int", order="up")), r"^\$\.fields\[0\]\.order"),
        (record(field("int", aliases="g")), r"^\$\.fields\[0\]\.aliases"),
        (record(field({"type": "array", "items": "nope"})), r"^\$\.fields\[0\]\.type\.items: there is no type"),
        ({"type": "fixed", "name": "F", "size": -1}, r"^\$\.size"),
        ({"type": "fixed", "name": "F", "size": True}, r"^\$\.size"),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "appears twice"),
        ({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}, r"^\$\.default: 'B' is no symbol"),
        (record(name="string"), "Avro's own"),
        (record(field(record(name="R"))), r"^\$\.fields\[0\]\.type\.name: 'R' is defined twice"),
        (record(namespace=3), r"^\$\.namespace"),
    ],
)
def test_an_error_says_where_in_the_schema(source: Any, message: str) -> None:
    with pytest.raises(AvroSchemaError, match=message):
        parse_schema(source)


def test_nesting_is_bounded() -> None:
    deep = "[" * 10_000 + '"int"' + "]" * 10_000
    with pytest.raises(AvroSchemaError, match="levels deep"):
        parse_schema(deep)
    source: Any = "int"
    for _ in range(300):
        source = {"type": "array", "items": source}
    with pytest.raises(AvroSchemaError, match="levels deep"):
        parse_schema(source)


class TestDefaults:
    @pytest.mark.parametrize(
        ("kind", "default", "encoded"),
        [
            ("null", None, b""),
            ("boolean", True, b"\1"),
            ("int", -1, b"\1"),
            ("long", 64, b"\x80\1"),
            ("float", 1, b"\0\0\x80\x3f"),
            ("double", 0.5, b"\0\0\0\0\0\0\xe0\x3f"),
            ("string", "é", b"\4\xc3\xa9"),
            ("bytes", "\xff", b"\2\xff"),
            ({"type": "fixed", "name": "F", "size": 2}, "\0\xff", b"\0\xff"),
            ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", b"\2"),
            ({"type": "array", "items": "int"}, [1, 2], b"\4\2\4\0"),
            ({"type": "array", "items": "int"}, [], b"\0"),
            ({"type": "map", "values": "int"}, {"k": 1}, b"\2\2k\2\0"),
            (["null", "int"], None, b"\0"),
            (["null", "int"], 3, b"\2\6"),  # 1.12: a value of any branch
            (record(field("int", default=7), name="Inner"), {}, b"\x0e"),
        ],
    )
    def test_a_default_becomes_bytes(self, kind: Any, default: Any, encoded: bytes) -> None:
        assert parse_schema(record(field(kind, default=default))).root.fields[0].default_bytes == encoded

    @pytest.mark.parametrize(
        ("kind", "default"),
        [
            ("null", 0),
            ("boolean", 1),
            ("int", True),
            ("int", 1.0),
            ("int", 1 << 31),
            ("long", 1 << 63),
            ("float", 1e39),
            ("double", "NaN"),
            ("string", None),
            ("bytes", "Ā"),
            ({"type": "fixed", "name": "F", "size": 2}, "a"),
            ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
            ({"type": "array", "items": "int"}, ["a"]),
            ({"type": "map", "values": "int"}, []),
            (["null", "int"], "a"),
            (record(field("int"), name="Inner"), {}),
        ],
    )
    def test_a_wrong_default_is_refused_and_a_lenient_parse_ignores_it(self, kind: Any, default: Any) -> None:
        source = record(field(kind, default=default))
        with pytest.raises(AvroSchemaError, match=r"^\$\.fields\[0\]\.default: the default of 'f' is not valid"):
            parse_schema(source)
        assert parse_schema(source, strict=False).root.fields[0].default_bytes is None

    def test_a_default_that_multiplies_without_end_is_refused(self) -> None:
        endless = record(field("R", "a", default={}), field("R", "b", default={}))
        with pytest.raises(AvroSchemaError, match="levels or"):
            parse_schema(endless)


@pytest.mark.parametrize(
    ("source", "logical"),
    [
        ({"type": "int", "logicalType": "date"}, "date"),
        ({"type": "long", "logicalType": "date"}, None),
        ({"type": "long", "logicalType": "time-millis"}, None),
        ({"type": "long", "logicalType": "local-timestamp-nanos"}, "local-timestamp-nanos"),
        ({"type": "long", "logicalType": "made-up"}, None),
        ({"type": "long", "logicalType": 7}, None),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "decimal"),
        ({"type": "bytes", "logicalType": "decimal"}, None),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, None),
        ({"type": "bytes", "logicalType": "decimal", "precision": 0}, None),
        ({"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 4}, "decimal"),
        ({"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 5}, None),
        ({"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}, "duration"),
        ({"type": "fixed", "name": "F", "size": 11, "logicalType": "duration"}, None),
        ({"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"}, "uuid"),
        ({"type": "string", "logicalType": "uuid"}, "uuid"),
        ({"type": "bytes", "logicalType": "uuid"}, None),
    ],
)
def test_a_logical_type_that_is_not_valid_is_ignored(source: Any, logical: str | None) -> None:
    found = parse_schema(source).root.logical
    assert (found.name if found else None) == logical


class TestCanonicalForm:
    def test_it_has_full_names_and_only_what_matters_for_bytes(self) -> None:
        inner = {"type": "fixed", "size": 4, "name": "F", "doc": "a doc", "aliases": ["G"]}
        source = record(
            field({"type": "string", "logicalType": "uuid"}, default="x", doc="another"),
            field(inner, "g"),
            field(["null", "F"], "h"),
            namespace="a",
        )
        assert json.loads(parse_schema(source).canonical) == {
            "name": "a.R",
            "type": "record",
            "fields": [
                {"name": "f", "type": "string"},
                {"name": "g", "type": {"name": "a.F", "type": "fixed", "size": 4}},
                {"name": "h", "type": ["null", "a.F"]},
            ],
        }

    @pytest.mark.parametrize(
        ("source", "fingerprint"),
        [  # of the specification's example, and of Java's SchemaNormalization tests
            ('"null"', 7195948357588979594),
            ('"boolean"', -6970731678124411036),
            ('"int"', 8247732601305521295),
            ('"string"', -8142146995180207161),
            ({"type": "fixed", "name": "foo", "size": 15}, 1756455273707447556),
            ({"type": "record", "name": "foo", "fields": []}, -4824392279771201922),
        ],
    )
    def test_fingerprints_are_those_of_java(self, source: Any, fingerprint: int) -> None:
        found = parse_schema(source).fingerprint()
        assert int.from_bytes(found, "little", signed=True) == fingerprint

    def test_other_fingerprints_are_hashes_of_the_canonical_form(self) -> None:
        assert parse_schema('"int"').fingerprint("md5").hex() == "ef524ea1b91e73173d938ade36c1db32"
