"""Compatibility of Protobuf files: each rule in both directions, and what no rule covers."""

from __future__ import annotations

import pytest

from pyconsumer.broker.registry.errors import RegistryError
from pyconsumer.broker.registry.formats import check_compatibility, parse
from pyconsumer.broker.registry.json_compatibility import UncheckedError
from pyconsumer.broker.registry.protobuf_compatibility import incompatibilities
from pyconsumer.protocol.protobuf.files import ProtoFile
from tests.support.proto_files import compiled, shop

#: The messages of one file, so that one run of the compiler is enough: ``A1`` and ``A2`` are two versions of ``A``.
_CASES: dict[str, tuple[str, str, str, str]] = {
    # the name: fields of the old version, of the new one, and the kinds of the first reason forth and back
    "Same": ("int32 a = 1;", "int32 a = 1;", "", ""),
    "Added": ("int32 a = 1;", "int32 a = 1; string b = 2;", "", ""),
    "Renamed": ("int32 a = 1;", "int32 b = 1;", "", ""),
    "Wider": ("int32 a = 1; bool b = 2; string c = 3;", "uint64 a = 1; int32 b = 2; bytes c = 3;", "", ""),
    "Fixed": ("fixed32 a = 1; sfixed64 b = 2;", "sfixed32 a = 1; fixed64 b = 2;", "", ""),
    "Zigzag": ("int32 a = 1;", "sint32 a = 1;", "FIELD_SCALAR_KIND_CHANGED", "FIELD_SCALAR_KIND_CHANGED"),
    "Float": ("float a = 1;", "double a = 1;", "FIELD_SCALAR_KIND_CHANGED", "FIELD_SCALAR_KIND_CHANGED"),
    "Enum": ("int32 a = 1;", "E a = 1; enum E { ZERO = 0; }", "", ""),
    "Kind": ("int32 a = 1;", "Other a = 1;", "FIELD_KIND_CHANGED", "FIELD_KIND_CHANGED"),
    "Named": ("Other a = 1;", "Third a = 1;", "FIELD_NAMED_TYPE_CHANGED", "FIELD_NAMED_TYPE_CHANGED"),
    "Repeated": ("int32 a = 1;", "repeated int32 a = 1;", "FIELD_NUMERIC_LABEL_CHANGED", "FIELD_NUMERIC_LABEL_CHANGED"),
    "Texts": ("string a = 1; Other b = 2;", "repeated string a = 1; repeated Other b = 2;", "", ""),
    "Optional": ("int32 a = 1;", "optional int32 a = 1;", "", ""),
    "Map": ("map<int32, bool> a = 1;", "map<int64, int32> a = 1;", "", ""),
    "MapKey": ("map<int32, bool> a = 1;", "map<string, bool> a = 1;", "FIELD_SCALAR_KIND", "FIELD_SCALAR_KIND"),
    "NoMap": ("map<int32, bool> a = 1;", "repeated Other a = 1;", "FIELD_KIND_CHANGED", "FIELD_KIND_CHANGED"),
    "Nested": ("message In { int32 a = 1; }", "message In { float a = 1; }", "FIELD_SCALAR", "FIELD_SCALAR"),
    "Gone": ("message In { int32 a = 1; }", "int32 a = 1;", "MESSAGE_REMOVED", ""),
    "IntoOne": ("int32 a = 1;", "oneof o { int32 a = 1; string b = 2; }", "", "ONEOF_FIELD_REMOVED"),
    "IntoMany": (
        "int32 a = 1; int32 b = 2;",
        "oneof o { int32 a = 1; int32 b = 2; }",
        "MULTIPLE_FIELDS_MOVED_TO_ONEOF",
        "",
    ),
    "IntoOld": (
        "int32 a = 1; oneof o { int32 b = 2; }",
        "oneof o { int32 a = 1; int32 b = 2; }",
        "FIELD_MOVED_TO_EXISTING_ONEOF",
        "",
    ),
    "OneofField": (
        "oneof o { int32 a = 1; int32 b = 2; }",
        "oneof o { int32 a = 1; }",
        "ONEOF_FIELD_REMOVED",
        "",
    ),
    "OneofName": ("oneof o { int32 a = 1; int32 b = 2; }", "oneof p { int32 a = 1; int32 b = 2; }", "", ""),
    "OneofDrop": (
        "oneof o { int32 a = 1; int32 b = 2; }",
        "oneof p { int32 a = 1; }",
        "ONEOF_FIELD_REMOVED",
        "",
    ),
    "Merged": (
        "oneof o { int32 a = 1; } oneof p { int32 b = 2; }",
        "oneof q { int32 a = 1; int32 b = 2; }",
        "FIELD_MOVED_TO_EXISTING_ONEOF",
        "",
    ),
}


def file_of(version: int) -> ProtoFile:
    others = "message Other { int32 n = 1; } message Third { int32 n = 1; }"
    messages = " ".join(f"message {name} {{ {case[version]} }}" for name, case in _CASES.items())
    return compiled(f'syntax = "proto3"; package p; {others} {messages}')


def reasons(reader: ProtoFile, writer: ProtoFile, name: str) -> list[str]:
    return [each for each in incompatibilities(reader, writer) if f"#/{name}/" in each]


@pytest.mark.parametrize("name", _CASES)
def test_the_rules(name: str) -> None:
    *_, forth, back = _CASES[name]
    for reader, writer, expected in ((file_of(1), file_of(0), forth), (file_of(0), file_of(1), back)):
        found = reasons(reader, writer, name)
        assert bool(found) == bool(expected)
        assert not found or found[0].startswith(expected)


def test_a_package_stays_and_messages_do_not_go() -> None:
    old = compiled('syntax = "proto3"; package a; message A {} message B {}')
    assert incompatibilities(compiled('syntax = "proto3"; package b; message A {}'), old) == [
        "PACKAGE_CHANGED at #/: 'a' became 'b'"
    ]
    moved = compiled('syntax = "proto3"; package a; message B {} message C {} message A {}')
    assert incompatibilities(moved, old) == []
    assert incompatibilities(old, moved) == ["MESSAGE_REMOVED at #/C"]


def test_required_fields_of_proto2() -> None:
    old = compiled('syntax = "proto2"; message A { optional int32 a = 1; }')
    new = compiled('syntax = "proto2"; message A { optional int32 a = 1; required int32 b = 2; }')
    assert incompatibilities(new, old) == ["REQUIRED_FIELD_ADDED at #/A/2"]
    assert incompatibilities(old, new) == ["REQUIRED_FIELD_REMOVED at #/A/2"]
    assert incompatibilities(compiled('syntax = "proto2"; message A { required int32 a = 1; }'), old) == [
        "REQUIRED_FIELD_ADDED at #/A/1"
    ]


def test_imports_are_compared_by_their_content() -> None:
    other = compiled('syntax = "proto3"; package shop; message Customer { double name = 1; }')
    changed = ProtoFile(shop().proto, {"customer.proto": other})
    assert incompatibilities(shop(), shop()) == []
    assert incompatibilities(changed, shop()) == [
        "FIELD_NAMED_TYPE_CHANGED at #/Order/2",
        "FIELD_SCALAR_KIND_CHANGED at #/Order/2/1",
    ]


@pytest.mark.parametrize(
    "text",
    [
        'edition = "2023"; message A {}',
        'syntax = "proto2"; message A { extensions 100 to 200; }',
        'syntax = "proto2"; message A { optional group B = 1 { optional int32 a = 1; } }',
    ],
)
def test_what_no_rule_covers_is_not_called_compatible(text: str) -> None:
    old, new = compiled(text), compiled(text.replace("A {", "C {} message A {"))
    assert incompatibilities(old, old) == []
    with pytest.raises(UncheckedError):
        incompatibilities(new, old)


def test_the_registry_parses_descriptors_and_not_text() -> None:
    old = compiled('syntax = "proto3"; message A { int32 a = 1; }')
    new = compiled('syntax = "proto3"; message A { float a = 1; }')
    parsed = [parse("PROTOBUF", each.base64) for each in (old, new)]
    assert check_compatibility("BACKWARD", parsed[1], [(1, parsed[0])])[0].endswith(
        "FIELD_SCALAR_KIND_CHANGED at #/A/1"
    )
    text = parse("PROTOBUF", 'syntax = "proto3"; message A { int32 a = 1; int32 b = 2; }')
    assert text.protobuf is None
    with pytest.raises(RegistryError, match=r"cannot be checked: .* does not parse it"):
        check_compatibility("BACKWARD", text, [(1, parsed[0])])
    with pytest.raises(RegistryError, match="no serialized Protobuf file"):
        parse("PROTOBUF", "AAAA")
    with pytest.raises(RegistryError, match=r"imports 'customer\.proto', and no reference has that name"):
        parse("PROTOBUF", shop().base64)
