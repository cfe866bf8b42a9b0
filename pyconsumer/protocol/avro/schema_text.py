"""A parsed schema as one JSON text, with the types of its references in it.

The text is for another process, which parses it by ``parse_schema(text, strict=False)``. The schema there reads values
as this one does. What has no part in reading is left out: documentation, the order of sorting, attributes of others.
"""

from __future__ import annotations

import json
from typing import Any

from pyconsumer.protocol.avro.schema import AvroSchema
from pyconsumer.protocol.avro.types import NO_DEFAULT, AvroType, Field, Logical

__all__ = ["schema_text"]


def schema_text(schema: AvroSchema) -> str:
    """Return the text of a schema."""
    return json.dumps(_value(schema.root, set()), separators=(",", ":"))


def _value(kind: AvroType, seen: set[str]) -> Any:
    if kind.kind == "union":
        return [_value(branch, seen) for branch in kind.branches]
    if kind.kind in ("array", "map"):
        return {"type": kind.kind, "items" if kind.kind == "array" else "values": _value(kind.items, seen)}
    if kind.name in seen:
        return kind.name
    if not kind.name:
        return kind.kind if kind.logical is None else {"type": kind.kind, **_logical(kind.logical)}
    seen.add(kind.name)
    made: dict[str, Any] = {"type": kind.kind, "name": kind.name}
    if "." not in kind.name:
        made["namespace"] = ""  # or it would belong to that of the type around it
    if kind.aliases:
        made["aliases"] = list(kind.aliases)
    if kind.kind == "enum":
        made["symbols"] = list(kind.symbols)
        if kind.default is not None:
            made["default"] = kind.default
    elif kind.kind == "fixed":
        made["size"] = kind.size
        made |= {} if kind.logical is None else _logical(kind.logical)
    else:
        made["fields"] = [_field(each, seen) for each in kind.fields]
    return made


def _logical(logical: Logical) -> dict[str, Any]:
    if logical.name == "decimal":
        return {"logicalType": logical.name, "precision": logical.precision, "scale": logical.scale}
    return {"logicalType": logical.name}


def _field(field: Field, seen: set[str]) -> dict[str, Any]:
    made: dict[str, Any] = {"name": field.name, "type": _value(field.type, seen)}
    if field.aliases:
        made["aliases"] = list(field.aliases)
    if field.default is not NO_DEFAULT:
        made["default"] = field.default
    return made
