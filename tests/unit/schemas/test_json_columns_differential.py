"""The compiled reader of JSON columns against Python's, over random schemas and documents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyconsumer.protocol.avro import _pure_columns
from pyconsumer.protocol.avro.coder import REVISION
from pyconsumer.protocol.compiled import load_compiled
from pyconsumer.schemas.json_schema.column_plan import DocumentPlan, DocumentProgram
from tests.support.json_columns import MOST, Documents, both, decoded, plan_of

pa = pytest.importorskip("pyarrow")
native = load_compiled("pyconsumer.protocol.avro._native", REVISION)[0]
pytestmark = pytest.mark.skipif(native is None, reason="the compiled coder is not in use")
PREFIX = b"\0\0\0\0\x07"


@pytest.mark.parametrize("seed", range(80))
def test_the_twins_agree(seed: int) -> None:
    documents = Documents(seed)
    plan = plan_of(documents.schema)
    rows: list[bytes | None] = [None]
    for _ in range(10):
        text = documents.text()
        rows += [PREFIX + text, *[PREFIX + documents.damaged(text) for _ in range(5)]]
    both(plan, rows, most_held=2_000)
    part = [[name] for name in documents.schema["properties"]][::2]
    both(plan_of(documents.schema, part), rows, most_held=2_000)


SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "price": {"type": ["number", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "inner": {"type": "object", "properties": {"a": {"type": "boolean"}}},
    },
    "required": ["id"],
}
PLAIN = (
    b' {"id": 12, "name": "a\\u00e9\\n", "price": -1.25e-3, "tags": ["x"], "counts": {"k": 1}, "inner": {"a": true}}'
)


def test_plain_documents_are_not_given_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(SCHEMA)
    given: list[bytes] = []
    monkeypatch.setattr(plan, "encode", lambda data: given.append(data) or DocumentPlan.encode(plan, data))
    rows: list[bytes | None] = [
        PREFIX + PLAIN,
        PREFIX + b'{"price":null,"id":-999999999999999999,"other":[{"deep":[1,2.5e10,"x"]}]}',
        PREFIX + b'{"price":0.0,"id":0,"inner":{}}',
    ]
    values, refused, _ = decoded(native, native.DocumentProgram(plan), plan, rows)
    assert (refused, given) == ([], [])
    assert values == decoded(_pure_columns, DocumentProgram(plan), plan, rows)[0]
    odd = [
        b'{"id":1.0}',
        b'{"id":1,"id":2}',
        b'{"\\u0069d":3}',
        b'{"id":1234567890123456789}',
        b'{"id":1,"name":"\\ud83d\\ude00"}',
    ]
    del given[:]
    assert both(plan, [PREFIX + each for each in odd])[1] == []
    assert given[: len(odd)] == odd


@pytest.mark.parametrize(
    "bad",
    [
        b"", b"{", b"{}", b"[]", b'{"id":1}x', b'{"id":01}', b'{"id":1,}', b'{"id":}', b'{"id" 1}',
        b'{"id":1 "name":2}',
        b'{"id":null}', b'{"id":"1"}', b'{"id":1,"name":null}', b'{"id":1,"name":"\x01"}', b'{"id":1,"name":"\xff"}',
        b'{"id":1,"name":"\\x"}', b'{"id":1,"name":"\\ud800"}', b'{"id":1,"other":"\\ud800"}', b'{"id":1,"other":NaN}',
        b'{"id":1,"price":1e999}', b'{"id":1,"price":-}', b'{"id":1,"price":1.}', b'{"id":1,"price":.5}',
        b'{"id":1,"other":1e999}', b'{"id":9223372036854775808}', b'{"id":1.5}', b'{"id":1,"tags":["a",]}',
        b'{"id":1,"tags":[null]}', b'{"id":1,"counts":{"a":"b"}}', b'\xef\xbb\xbf{"id":1}', b'{"id":1,"inner":{"a":1}}',
        b'{"id":1,"other":' + b"[" * 64 + b"]" * 64 + b"}", b'{"id":tru}', b'{"id":1,"other":tru}',
    ],
)  # fmt: skip
def test_bad_documents_are_refused_alike(bad: bytes) -> None:
    plan = plan_of(SCHEMA)
    assert both(plan, [PREFIX + b'{"id":1}', PREFIX + bad, PREFIX + b'{"id":2}'])[1] == [1]
    part = plan_of(SCHEMA, [["id"]])
    assert both(part, [PREFIX + bad])[1] == [0]


@pytest.mark.parametrize("kind", [{}, {"type": ["object", "null"]}, {"anyOf": [{"type": "null"}, {}]}])
@pytest.mark.parametrize("value", ["null", "map", "other"])
def test_a_map_may_have_any_key(kind: dict[str, Any], value: str) -> None:
    each = {"type": "object", "additionalProperties": {"type": "string"}} | kind
    if "anyOf" in kind:
        each = {"anyOf": [{"type": "null"}, {"type": "object", "additionalProperties": {"type": "string"}}]}
    for required in ([], ["m"]):
        plan = plan_of({"type": "object", "properties": {"m": each}, "required": required})
        values, refused, _ = both(plan, [PREFIX + b'{"m":{"-type":"%s"}}' % value.encode()])
        assert (values, refused) == (repr([{"m": [("-type", value)]}]), [])


def test_levels_and_long_maps() -> None:
    plan = plan_of(SCHEMA)
    deep = b'{"id":1,"other":' + b"[" * 63 + b"]" * 63 + b"}"
    many = json.dumps({"id": 1, "counts": {f"k{n}": n for n in range(40)}}).encode()
    assert both(plan, [PREFIX + deep, PREFIX + many])[1] == []
    assert both(plan, [PREFIX + json.dumps({"id": 1, "name": "x" * MOST}).encode()])[1] == [0]


def test_the_error_names_the_schema_and_the_place() -> None:
    error = _pure_columns.explain(native.DocumentProgram(plan_of(SCHEMA), 9), PREFIX + b'{"id":"x"}', 5, MOST)
    assert str(error) == "the schema 9: $.id: a value of str is no integer"
