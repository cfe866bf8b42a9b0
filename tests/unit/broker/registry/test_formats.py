"""Schemas as the embedded registry keeps them, their GUIDs, and the levels of compatibility."""

from __future__ import annotations

import hashlib
import json
from uuid import UUID

import pytest

from pyconsumer.broker.registry.errors import RegistryError
from pyconsumer.broker.registry.formats import check_compatibility, guid_of, parse

_V1 = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
_WITH_DEFAULT = (
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int","default":1}]}'
)
_WITHOUT_DEFAULT = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int"}]}'


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (' { "type" : "string" } ', '"string"'),
        ('{"type": "string", "avro.java.string": "String"}', '{"type":"string","avro.java.string":"String"}'),
        ('{"type": {"type": "int"}}', '"int"'),
        (
            (
                '{"fields": [{"type": "int", "name": "a", "order": "ascending", "default": 1, "doc": "d"}],'
                ' "name": "x.R", "doc": "é", "type": "record", "aliases": ["x.Q", "y.Q"]}'
            ),
            (
                '{"type":"record","name":"R","namespace":"x","doc":"é","fields":[{"name":"a","type":"int","doc":"d",'
                '"default":1}],"aliases":["Q","y.Q"]}'
            ),
        ),
        (
            (
                '{"type": "record", "name": "R", "namespace": "x", "fields": [{"name": "e", "type": {"type": "enum",'
                ' "name": "E", "namespace": "x", "symbols": ["A"], "default": "A"}}, {"name": "f", "type": "x.E"}]}'
            ),
            (
                '{"type":"record","name":"R","namespace":"x","fields":[{"name":"e","type":{"type":"enum","name":"E",'
                '"symbols":["A"],"default":"A"}},{"name":"f","type":"E"}]}'
            ),
        ),
        (
            '["null", {"items": {"values": "long", "type": "map"}, "type": "array"}]',
            '["null",{"type":"array","items":{"type":"map","values":"long"}}]',
        ),
        (
            '{"size": 4, "type": "fixed", "name": "F", "logicalType": "decimal", "precision": 3}',
            '{"type":"fixed","name":"F","size":4,"logicalType":"decimal","precision":3}',
        ),
    ],
)
def test_avro_is_kept_as_java_prints_it(given: str, kept: str) -> None:
    assert parse("AVRO", given).text == kept
    assert parse("AVRO", kept).text == kept


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("AVRO", "{", "no JSON"),
        ("AVRO", '{"type":"record","name":"R"}', "fields"),
        ("AVRO", '"unknown"', "there is no type 'unknown'"),
        ("JSON", "[]", "an object or a boolean, not list"),
        ("JSON", "{", "Expecting"),
        ("PROTOBUF", " ", "the text is empty"),
        ("PROTOBUF", "message A {", "a { is not closed"),
        ("PROTOBUF", "message A }", "a } closes nothing"),
        ("PROTOBUF", 'message A { option x = "y; }', 'a " is not closed'),
        pytest.param("PROTOBUF", "message A {}" + "/* " * 300_000, "a /* is not closed", id="many open comments"),
        pytest.param("PROTOBUF", " " * 300_000 + "{", "the text defines no message", id="many spaces"),
        ("PROTOBUF", 'syntax = "proto3";', "defines no message"),
        ("THRIFT", "x", "one of JSON, PROTOBUF, AVRO"),
    ],
)
def test_a_text_that_is_no_schema_is_refused(kind: str, text: str, reason: str) -> None:
    with pytest.raises(RegistryError) as caught:
        parse(kind, text)
    assert reason in caught.value.message
    assert (caught.value.status, caught.value.code) == (422, 42201)


def test_protobuf_is_kept_as_it_is() -> None:
    text = 'syntax = "proto3"; // a }\n/* { */ message A { string b = 1 [json_name = "}\\""]; }\n'
    assert parse("PROTOBUF", text).text == text


def test_json_is_kept_without_spaces_and_sorted_if_normalized() -> None:
    assert parse("JSON", '{"type": "object", "a": 1}').text == '{"type":"object","a":1}'
    assert parse("JSON", '{"type": "object", "a": 1}', normalize=True).text == '{"a":1,"type":"object"}'


def test_the_guid_is_the_digest_of_the_content() -> None:
    """The rule of ``Schema.updateHash`` in Confluent's source."""

    def uuid(data: bytes) -> str:
        return str(UUID(bytes=hashlib.md5(data).digest()))

    assert guid_of({"schema": '"é"'}) == uuid('"é"'.encode())
    references = [{"name": "n", "subject": "s", "version": 258}]
    assert guid_of({"schema": "x", "references": references}) == uuid(b"xns\x00\x00\x01\x02")
    metadata = {"properties": {"b": "2", "a": "1"}, "tags": {"p": ["t"]}, "sensitive": ["a"]}
    assert guid_of({"schema": "x", "metadata": metadata}) == uuid(b"x\x01pta1b2a")
    rules = {"domainRules": [{"name": "r", "mode": "READ", "disabled": True}], "enableAt": "DOMAIN"}
    assert guid_of({"schema": "x", "ruleSet": rules}) == uuid(b"x\x01rREAD\x01DOMAIN")


@pytest.mark.parametrize(
    ("level", "with_default", "without_default", "first_only"),
    [
        ("NONE", True, True, True),
        ("BACKWARD", True, False, True),
        ("BACKWARD_TRANSITIVE", True, False, False),
        ("FORWARD", True, True, True),
        ("FORWARD_TRANSITIVE", True, True, True),
        ("FULL", True, False, True),
        ("FULL_TRANSITIVE", True, False, False),
    ],
)
def test_the_levels_name_the_direction_and_the_versions(
    level: str, with_default: bool, without_default: bool, first_only: bool
) -> None:
    first, default, none = (parse("AVRO", text) for text in (_V1, _WITH_DEFAULT, _WITHOUT_DEFAULT))
    assert (check_compatibility(level, default, [(1, first)]) == []) is with_default
    assert (check_compatibility(level, none, [(1, first)]) == []) is without_default
    # a third version that can read the second one, but not the first
    assert (check_compatibility(level, none, [(1, first), (2, default)]) == []) is first_only


def test_reasons_name_the_version_and_the_direction() -> None:
    first, second = parse("AVRO", _V1), parse("AVRO", '"string"')
    found = check_compatibility("FULL", second, [(3, first)])
    assert [reason.partition(": ")[0] for reason in found] == [
        "the new schema cannot read version 3",
        "version 3 cannot read the new schema",
    ]


def test_a_change_of_the_type_is_not_compatible() -> None:
    assert check_compatibility("BACKWARD", parse("JSON", "{}"), [(1, parse("AVRO", '"int"'))]) == [
        "the schema's type JSON is not that of version 1, AVRO"
    ]


@pytest.mark.parametrize(
    ("kind", "old", "new"), [("JSON", "{}", '{"not":{}}'), ("PROTOBUF", "message A {}", "message B {}")]
)
def test_a_change_without_a_rule_is_refused_and_never_called_compatible(kind: str, old: str, new: str) -> None:
    before, after = parse(kind, old), parse(kind, new)
    with pytest.raises(RegistryError, match=r"cannot be checked: .* of (JSON|PROTOBUF).*level NONE") as caught:
        check_compatibility("BACKWARD", after, [(1, before)])
    assert caught.value.status == 422
    assert check_compatibility("NONE", after, [(1, before)]) == []
    assert check_compatibility("FULL", before, [(1, before)]) == []


def test_a_schema_of_java_keeps_its_text() -> None:
    text = json.loads(json.dumps(_WITH_DEFAULT))
    assert parse("AVRO", text).text == _WITH_DEFAULT
