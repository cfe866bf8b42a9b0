"""JSON schemas as types of columns, and documents in the form of these types.

Rules

1. The types are those of Avro, so that layouts, columns and Arrow types are made as for Avro. An object with properties
   is a record. One with a schema of its additional properties alone is a map. An array with a schema of its items is an
   array. Text is string, integer long, number double. Boolean and null are themselves.
2. A list of types, ``anyOf`` or ``oneOf`` of null and one other is that one, nullable. A property that is not required
   is nullable.
3. ``$ref`` is followed. A schema that contains itself has no columns.
4. All else is a column of JSON text, which is nullable: several types, other combinations, any value, tuples.
5. Types and ``required`` are checked. A whole number has 64 bits, and ``1.0`` is one. Properties that are not declared
   are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote

from pyconsumer.errors import ConfigurationError, SerializationError
from pyconsumer.protocol.avro import AvroSchema, AvroType
from pyconsumer.protocol.avro.types import NO_DEFAULT, Field
from pyconsumer.schemas.json_schema.documents import dump_document
from pyconsumer.schemas.json_schema.validation import JsonSchema

__all__ = ["JSON_TEXT", "NOT_NULL", "REQUIRED", "Shaped", "shape_of"]

Shape = Callable[[Any], Any]

#: The ``doc`` of a type of JSON text, of a field that is required, and of one that may be missing but not be null.
JSON_TEXT: Final = "JSON text"
REQUIRED: Final = "required"
NOT_NULL: Final = "not null"

_NULL: Final = AvroType("null")
_MOST: Final = 1 << 63
#: Definitions that refer to others twice grow with each level.
_MOST_TYPES: Final = 10_000


class _UnfitError(Exception):
    """A value does not fit its type. ``steps`` lead to it, the last one first."""

    def __init__(self, wanted: str, value: Any, text: str | None = None) -> None:
        super().__init__()
        self.text = text or f"a value of {type(value).__name__} is no {wanted}"
        self.steps: list[str] = []


class Shaped:
    """A schema as a type of columns.

    Attributes:
        schema: the type.
        document: the JSON schema.
    """

    def __init__(self, schema: AvroSchema, shape: Shape, document: JsonSchema) -> None:
        self.schema = schema
        self.document = document
        self._shape = shape

    def fit(self, document: Any) -> Any:
        """Return a document in the form of the type.

        Raises:
            SerializationError: it does not fit. The message names the place.
        """
        try:
            return self._shape(document)
        except _UnfitError as error:
            raise SerializationError(f"${''.join(reversed(error.steps))}: {error.text}") from None


def shape_of(schema: JsonSchema) -> Shaped:
    """Return a JSON schema as a type of columns.

    Raises:
        ConfigurationError: it contains itself, or refers to a schema that is not there.
    """
    kind, shape = _Maker(schema).make(schema.document, schema.document, "the value", ())
    return Shaped(AvroSchema(kind, {}), shape, schema)


def _boolean(value: Any) -> Any:
    if type(value) is not bool:
        raise _UnfitError("boolean", value)
    return value


def _integer(value: Any) -> Any:
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int:
        raise _UnfitError("integer", value)
    if not -_MOST <= value < _MOST:
        raise _UnfitError("integer of 64 bits", value)
    return value


def _number(value: Any) -> Any:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise _UnfitError("number", value)
    try:
        return float(value)
    except OverflowError:
        raise _UnfitError("number of 64 bits", value) from None


def _string(value: Any) -> Any:
    if type(value) is not str:
        raise _UnfitError("string", value)
    return value


def _null(value: Any) -> Any:
    if value is not None:
        raise _UnfitError("null", value)
    return value


def _text(value: Any) -> Any:
    return None if value is None else dump_document(value).decode()


_SCALARS: Final[Mapping[str, tuple[str, Shape]]] = {
    "boolean": ("boolean", _boolean),
    "integer": ("long", _integer),
    "number": ("double", _number),
    "string": ("string", _string),
    "null": ("null", _null),
}


class _Maker:
    """Makes the types of a schema."""

    def __init__(self, schema: JsonSchema) -> None:
        self._schema = schema
        self._records = 0
        self._left = _MOST_TYPES

    def make(self, schema: Any, root: Any, where: str, way: tuple[int, ...]) -> tuple[AvroType, Shape]:
        """Return the type of a schema, and the function that makes its values.

        Args:
            schema: the schema.
            root: the document in which its references are looked for.
            where: its place, for messages.
            way: the schemas that it stands in.
        """
        self._left -= 1
        if self._left < 0:
            raise ConfigurationError(
                f"the schema has more than {_MOST_TYPES} columns: use poll() with the deserializer"
            )
        schema, root = self._resolved(schema, root, where)
        if id(schema) in way:
            raise ConfigurationError(
                f"{where} contains itself, and such a schema has no columns: use poll() with the deserializer, which"
                " returns objects"
            )
        way = (*way, id(schema))
        if not isinstance(schema, dict) or "allOf" in schema:
            return _as_text()
        for name in ("anyOf", "oneOf"):
            if name in schema:
                branches = schema[name] if isinstance(schema[name], list) else []
                others = [each for each in branches if not (isinstance(each, dict) and each.get("type") == "null")]
                if len(others) == 1 and len(branches) == 2 and not ({"type", "properties"} & schema.keys()):
                    return _nullable(*self.make(others[0], root, where, way))
                return _as_text()
        kind = _type(schema)
        if isinstance(kind, list):
            others = [each for each in kind if each != "null"]
            if len(others) == 1:
                found = self._typed(others[0], schema, root, where, way)
                return _nullable(*found) if len(others) < len(kind) else found
            if set(others) == {"integer", "number"}:
                found = AvroType("double"), _number
                return _nullable(*found) if len(others) < len(kind) else found
            return _as_text()
        return self._typed(kind, schema, root, where, way)

    def _typed(
        self, kind: Any, schema: dict[str, Any], root: Any, where: str, way: tuple[int, ...]
    ) -> tuple[AvroType, Shape]:
        if kind == "array" and isinstance(schema.get("items"), dict) and "prefixItems" not in schema:
            item, shape = self.make(schema["items"], root, f"{where}[]", way)
            return AvroType("array", items=item), _array(shape)
        properties = schema.get("properties")
        # A key "-type" names a record for Avro's encoder.
        if kind == "object" and isinstance(properties, dict) and properties and "-type" not in properties:
            return self._record(schema, root, where, way)
        others = schema.get("additionalProperties")
        if kind == "object" and isinstance(others, dict) and others and "patternProperties" not in schema:
            item, shape = self.make(others, root, f"{where}{{}}", way)
            return AvroType("map", items=item), _map(shape)
        if kind in _SCALARS:
            name, shape = _SCALARS[kind]
            return AvroType(name), shape
        return _as_text()

    def _record(self, schema: dict[str, Any], root: Any, where: str, way: tuple[int, ...]) -> tuple[AvroType, Shape]:
        self._records += 1
        made = AvroType("record", f"record{self._records}")
        required = schema.get("required")
        needed = set(required) if isinstance(required, list) else set()
        shapes: list[tuple[str, Shape, bool]] = []
        for name, each in schema["properties"].items():
            kind, shape = self.make(each, root, f"{where}.{name}", way)
            doc = REQUIRED if name in needed else None if kind.kind in ("null", "union") else NOT_NULL
            if name not in needed and kind.kind not in ("null", "union"):
                kind, shape = _with_null(kind), _branch(kind, shape)
            made.fields.append(Field(name, kind, (), NO_DEFAULT, doc))
            shapes.append((name, shape, name in needed))
        return made, _object(shapes)

    def _resolved(self, schema: Any, root: Any, where: str) -> tuple[Any, Any]:
        seen: set[int] = set()
        while isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
            if id(schema) in seen:
                raise ConfigurationError(f"{where} has references in a circle")
            seen.add(id(schema))
            reference = schema["$ref"]
            name, _, pointer = reference.partition("#")
            if pointer and not pointer.startswith("/"):
                raise ConfigurationError(f"{where} refers to the anchor {reference!r}, which columns do not follow")
            try:
                if name and name != _own_name(root):
                    root = self._schema.find(name)
                schema = root
                for step in pointer.split("/")[1:]:
                    step = unquote(step).replace("~1", "/").replace("~0", "~")
                    schema = schema[int(step)] if isinstance(schema, list) else schema[step]
            except (LookupError, TypeError, ValueError):
                raise ConfigurationError(f"{where} refers to {reference!r}, which is not found") from None
        return schema, root


def _own_name(root: Any) -> Any:
    return root.get("$id", root.get("id")) if isinstance(root, dict) else None


def _type(schema: dict[str, Any]) -> Any:
    """Return the type of a schema. One that declares none has that of its keywords."""
    if "type" in schema:
        return schema["type"]
    if "properties" in schema:
        return "object"
    if "items" in schema:
        return "array"
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list) and values and all(isinstance(each, str) for each in values):
        return "string"
    return None


def _as_text() -> tuple[AvroType, Shape]:
    return _with_null(AvroType("string", doc=JSON_TEXT)), _text


def _with_null(kind: AvroType) -> AvroType:
    if kind.kind in ("null", "union"):
        return kind
    made = AvroType("union")
    made.branches.extend((_NULL, kind))
    return made


def _nullable(kind: AvroType, shape: Shape) -> tuple[AvroType, Shape]:
    made = _branch(kind, shape) if kind.kind != "union" else shape
    return _with_null(kind), lambda value: None if value is None else made(value)


def _branch(kind: AvroType, shape: Shape) -> Shape:
    """Return the shape for a branch beside null. A map with the key "-type" would name another branch."""
    if kind.kind != "map":
        return shape

    def named(value: Any) -> Any:
        found = shape(value)
        return ("map", found) if "-type" in found else found

    return named


def _array(shape: Shape) -> Shape:
    def made(value: Any) -> Any:
        if type(value) is not list:
            raise _UnfitError("array", value)
        found: list[Any] = []
        add = found.append
        try:
            for each in value:
                add(shape(each))
        except _UnfitError as error:
            error.steps.append(f"[{len(found)}]")
            raise
        return found

    return made


def _map(shape: Shape) -> Shape:
    def made(value: Any) -> Any:
        if type(value) is not dict:
            raise _UnfitError("object", value)
        found: dict[str, Any] = {}
        name = ""
        try:
            for name, each in value.items():
                found[name] = shape(each)
        except _UnfitError as error:
            error.steps.append(f".{name}")
            raise
        return found

    return made


def _object(shapes: list[tuple[str, Shape, bool]]) -> Shape:
    def made(value: Any) -> Any:
        if type(value) is not dict:
            raise _UnfitError("object", value)
        found: dict[str, Any] = {}
        name = ""
        try:
            for name, shape, is_needed in shapes:
                if name in value:
                    found[name] = shape(value[name])
                elif is_needed:
                    missing, name = name, ""
                    raise _UnfitError("object", value, f"{missing!r} is missing")
                else:
                    found[name] = None
        except _UnfitError as error:
            if name:
                error.steps.append(f".{name}")
            raise
        return found

    return made
