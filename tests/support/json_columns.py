"""Columns of JSON by both readers, compared with each other, and random schemas with their documents."""

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

__all__ = ["MOST", "Documents", "both", "decoded", "plan_of"]

pa = pytest.importorskip("pyarrow")
native = load_compiled("pyconsumer.protocol.avro._native", REVISION)[0]
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
