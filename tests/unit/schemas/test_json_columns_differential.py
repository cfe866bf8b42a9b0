"""The compiled reader of JSON columns against Python's, over random schemas and documents."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from pyconsumer.protocol.avro import _pure_columns
from pyconsumer.protocol.avro.arrow import arrow_array, arrow_type
from pyconsumer.protocol.avro.coder import REVISION
from pyconsumer.protocol.avro.layout import make_layout
from pyconsumer.protocol.compiled import load_compiled
from pyconsumer.schemas.json_schema.column_plan import DocumentPlan, DocumentProgram
from pyconsumer.schemas.json_schema.documents import load_document
from pyconsumer.schemas.json_schema.shapes import shape_of
from pyconsumer.schemas.json_schema.validation import JsonSchema

pa = pytest.importorskip("pyarrow")
native = load_compiled("pyconsumer.protocol.avro._native", REVISION)[0]
pytestmark = pytest.mark.skipif(native is None, reason="the compiled coder is not in use")
PREFIX = b"\0\0\0\0\x07"
MOST = 5_000


class Documents:
    """Makes a schema, and documents of it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.schema = {"type": "object", "properties": self._properties(0), "required": ["p0"]}

    def _properties(self, level: int) -> dict[str, Any]:
        return {f"p{n}" if n else "p0": self._type(level + 1) for n in range(self.random.randrange(1, 7))}

    def _type(self, level: int) -> dict[str, Any]:
        rng = self.random
        kind = rng.choice(["string", "integer", "number", "boolean", "null", "any", *(["object", "map", "array"] * 2)])
        if kind == "any":
            return {}
        found: dict[str, Any] = {"type": kind}
        if kind in ("object", "map", "array") and level > 3:
            return {"type": "string"}
        if kind == "object":
            found["properties"] = self._properties(level)
            found["required"] = rng.sample(list(found["properties"]), rng.randrange(len(found["properties"]) + 1))
        elif kind == "map":
            found = {"type": "object", "additionalProperties": self._type(level + 1) or {"type": "string"}}
        elif kind == "array":
            found["items"] = self._type(level + 1)
        if rng.random() < 0.3 and isinstance(found["type"], str):
            found["type"] = [found["type"], "null"]
        return found

    def value(self, schema: dict[str, Any]) -> Any:
        rng = self.random
        kinds = schema.get("type", rng.choice(["string", "integer", "null"]))
        kind = rng.choice(kinds) if isinstance(kinds, list) else kinds
        if kind == "object" and "properties" in schema:
            needed = schema.get("required", ())
            found = {
                name: self.value(each)
                for name, each in schema["properties"].items()
                if name in needed or rng.random() < 0.7
            }
            if rng.random() < 0.3:
                found["other"] = rng.choice([1, [1.5, {"a": "b\n"}], {}, "x", None, True])
            pairs = list(found.items())
            if rng.random() < 0.5:
                rng.shuffle(pairs)
            return dict(pairs)
        if kind == "object":
            keys = rng.sample(["", "a", "b", "-type", "ü"], rng.randrange(4))
            return {key: self.value(schema["additionalProperties"]) for key in keys}
        if kind == "array":
            return [self.value(schema["items"]) for _ in range(rng.randrange(4))]
        return {
            "string": lambda: rng.choice(["", "a", 'q"\\/\b\f\n\r\t', "Zürich", "日本", "x" * 50, "😀", "\x7f\u20ac"]),
            "integer": lambda: rng.choice([0, -1, 1.0, 10**17, -(10**18), 2**63 - 1, -(2**63), rng.randrange(1000)]),
            "number": self.number,
            "boolean": lambda: rng.random() < 0.5,
            "null": lambda: None,
        }[kind]()

    def number(self) -> Any:
        rng = self.random
        return rng.choice(
            [0.0, -0.0, 0, 1, 0.1, 1e22, 1e-22, 123456.789, 5e-324, 1.7976931348623157e308, rng.random(),
             rng.uniform(-1e30, 1e30), rng.getrandbits(62), 2**60 + 1, 9007199254740993, 1e23]
        )  # fmt: skip

    def text(self) -> bytes:
        document = self.value(self.schema)
        ascii_only = self.random.random() < 0.3
        indent = self.random.choice([None, None, 1])
        text = json.dumps(document, ensure_ascii=ascii_only, indent=indent)
        return (" " + text + "\n" if indent else text).encode()

    def damaged(self, text: bytes) -> bytes:
        rng = self.random
        place = rng.randrange(len(text) + 1)
        parts = [b'"', b"{", b"}", b"[", b",", b":", b"\\", b"\\ud800", b"\\u00e9", b"0", b"-", b".", b"e9", b"1e400"]
        parts += [b"NaN", b"null", b":null,", b"true", b"\xff", b"\x01", b" ", b'"p0":1,', b'"a":1,', b"1.0"]
        return text[:place] + rng.choice([*parts, b""]) + text[place + rng.randrange(3) :]


def plan_of(schema: Any, paths: Any = None) -> DocumentPlan:
    shaped = shape_of(JsonSchema(schema, {}))
    layout = make_layout(shaped.schema, paths)
    return DocumentPlan(shaped.schema, layout, lambda data: shaped.fit(load_document(data)), is_plain=True)


def decoded(columns: Any, program: Any, plan: DocumentPlan, rows: list[bytes | None], **bounds: int) -> Any:
    """Return the values, and the rows that are refused, in parts that end where the decoder ends them."""
    found: list[Any] = []
    refused: list[int] = []
    sizes: list[int] = []
    while len(found) < len(rows):
        decoder = columns.ColumnsDecoder(plan.layout.columns, MOST, **bounds)
        used, bad = decoder.append(rows[len(found) :], {7: program})
        array = arrow_array(pa, plan.layout, arrow_type(pa, plan.layout), decoder.finish())
        array.validate(full=True)
        refused += [len(found) + one.row for one in bad]
        found += array.to_pylist()
        sizes.append(used)
    return repr(found), refused, sizes


def both(plan: DocumentPlan, rows: list[bytes | None], **bounds: int) -> Any:
    compiled = decoded(native, native.DocumentProgram(plan), plan, rows, **bounds)
    assert compiled == decoded(_pure_columns, DocumentProgram(plan), plan, rows, **bounds)
    return compiled


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
