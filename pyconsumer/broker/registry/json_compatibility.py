"""Checks whether documents of one JSON schema fit another one, by the rules of Confluent's registry.

JSON Schema itself has no rules of evolution. The rules are those that Confluent documents ("JSON Schema compatibility
rules", docs.confluent.io, and "Understanding JSON Schema Compatibility" by its author), and the kinds of differences
have the registry's names.

Rules

1. A constraint may be dropped or loosened, and not be added or tightened.
2. A property may be added where the writer's object is closed (``additionalProperties`` is False), or where the schema
   of its additional properties covers the new property. A new property that is required needs a default. An open
   object takes only a new property that any value fits.
3. A property may be removed where the reader's object is open, or where the schema of its additional properties covers
   it.
4. A sum (``anyOf``, ``oneOf``) may get more branches, a product (``allOf``) may lose some. Each branch of the smaller
   side needs one of its own on the other side. A schema may become a branch of a sum.
5. ``$ref`` is followed, in the schema and in the references of the registry.
6. A keyword without a rule here must be the same on both sides. Otherwise the change cannot be checked, and
   :class:`UncheckedError` is raised. Nothing is compatible without a check.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

__all__ = ["JsonText", "UncheckedError", "incompatibilities"]


class UncheckedError(Exception):
    """No rule covers a change. The message names the place."""


class JsonText:
    """A JSON schema with the schemas that it refers to.

    Attributes:
        document: the schema.
        references: by name.
    """

    def __init__(self, document: Any, references: Mapping[str, JsonText]) -> None:
        self.document = document
        self.references = references


#: What a schema says about values without constraining them. ``format`` is not checked by validators either.
_NOTES: Final = frozenset(
    (
        "$anchor",
        "$comment",
        "$defs",
        "$id",
        "$schema",
        "contentEncoding",
        "contentMediaType",
        "default",
        "definitions",
        "deprecated",
        "description",
        "examples",
        "format",
        "id",
        "readOnly",
        "title",
        "writeOnly",
    )
)
_SUMS: Final = ("anyOf", "oneOf")
_COMBINED: Final = (*_SUMS, "allOf")
#: Limits that the reader may lower, and those that it may raise. The names of the differences follow.
_LOWER: Final = {
    "minimum": "MINIMUM",
    "exclusiveMinimum": "EXCLUSIVE_MINIMUM",
    "minLength": "MIN_LENGTH",
    "minItems": "MIN_ITEMS",
    "minProperties": "MIN_PROPERTIES",
}
_UPPER: Final = {
    "maximum": "MAXIMUM",
    "exclusiveMaximum": "EXCLUSIVE_MAXIMUM",
    "maxLength": "MAX_LENGTH",
    "maxItems": "MAX_ITEMS",
    "maxProperties": "MAX_PROPERTIES",
}
_OWN_RULES: Final = frozenset(
    (
        "$ref",
        "additionalProperties",
        "enum",
        "const",
        "items",
        "multipleOf",
        "pattern",
        "properties",
        "required",
        "type",
        "uniqueItems",
        *_COMBINED,
        *_LOWER,
        *_UPPER,
    )
)
_TYPES: Final = frozenset(("null", "boolean", "object", "array", "number", "string", "integer"))
_NO_SCHEMA: Final[Any] = object()
_MOST_STEPS: Final = 100
#: Pairs of schemas in a comparison. Definitions that refer to others twice grow with each level, and the broker waits.
MOST_PAIRS: Final = 10_000
#: A pattern that is a text, perhaps at the beginning or the end of a name.
_SIMPLE: Final = re.compile(r"\^?[A-Za-z0-9_-]*\$?")


class _Place:
    """A schema within a document, with the document that its references begin in."""

    __slots__ = ("home", "schema")

    def __init__(self, schema: Any, home: JsonText) -> None:
        self.schema = schema
        self.home = home

    def at(self, schema: Any) -> _Place:
        return _Place(schema, self.home)

    def get(self, name: str, default: Any = None) -> Any:
        return self.schema.get(name, default) if isinstance(self.schema, dict) else default

    @property
    def accepts_all(self) -> bool:
        if isinstance(self.schema, dict):
            return all(name in _NOTES for name in self.schema)
        return self.schema is True

    @property
    def combined(self) -> str | None:
        """The keyword of a sum or product that is all that the schema says."""
        names = [name for name in (self.schema if isinstance(self.schema, dict) else ()) if name not in _NOTES]
        found = names[0] if len(names) == 1 and names[0] in _COMBINED else None
        return found if found and isinstance(self.get(found), list) and self.get(found) else None


def incompatibilities(reader: JsonText, writer: JsonText) -> list[str]:
    """Return the reasons for which a document of ``writer`` may not fit ``reader``. Empty if each one fits.

    Raises:
        UncheckedError: no rule covers a change.
    """
    return _Comparison().compare(_Place(reader.document, reader), _Place(writer.document, writer), "#")


class _Comparison:
    """The state of one comparison: the pairs of schemas that are being compared, which may contain themselves."""

    def __init__(self) -> None:
        self._open: set[tuple[int, int]] = set()
        self._left = MOST_PAIRS

    def compare(self, reader: _Place, writer: _Place, path: str) -> list[str]:
        self._left -= 1
        if self._left < 0:
            raise UncheckedError(f"more than {MOST_PAIRS} pairs of schemas would have to be compared")
        reader, writer = _resolved(reader, path), _resolved(writer, path)
        for side in (reader, writer):
            if not isinstance(side.schema, dict | bool):
                raise UncheckedError(f"{path}: a schema is an object or a boolean")
        if reader.accepts_all or writer.schema is False:
            return []
        if reader.schema is False:
            return [f"TYPE_CHANGED at {path}: no value fits any more"]
        pair = id(reader.schema), id(writer.schema)
        if pair in self._open:
            return []
        self._open.add(pair)
        try:
            return self._compare(reader, writer, path)
        finally:
            self._open.discard(pair)

    def _compare(self, reader: _Place, writer: _Place, path: str) -> list[str]:
        if reader.combined or writer.combined:
            return self._combined(reader, writer, path)
        if writer.schema is True:
            writer = writer.at({})
        self._check_others(reader, writer, path)
        found = _types(reader, writer, path) or _values(reader, writer, path)
        if found:
            return found
        return [*_limits(reader, writer, path), *self._array(reader, writer, path), *self._object(reader, writer, path)]

    @staticmethod
    def _check_others(reader: _Place, writer: _Place, path: str) -> None:
        """Raise an error if a keyword without a rule differs, or a sum or product that others stand beside."""
        for name in sorted({*reader.schema, *writer.schema} - _NOTES - (_OWN_RULES - {*_COMBINED})):
            ours, theirs = reader.get(name, _NO_SCHEMA), writer.get(name, _NO_SCHEMA)
            if ours is _NO_SCHEMA or ours != theirs or _refers(ours):
                raise UncheckedError(f"{path}/{name}: no rule covers a change of this keyword here")

    # --- sums and products

    def _combined(self, reader: _Place, writer: _Place, path: str) -> list[str]:
        ours, theirs = reader.combined, writer.combined
        if ours is None or theirs is None:
            single = reader if ours else writer
            keyword = ours or theirs
            assert keyword is not None
            branches = [single.at(each) for each in single.get(keyword)]
            if ours in _SUMS or len(branches) == 1:
                for branch in branches:
                    pair = (branch, writer) if ours else (reader, branch)
                    if not self.compare(*pair, path):
                        return []
            return [f"TYPE_CHANGED at {path}: {keyword} {'was added' if ours else 'was removed'}"]
        readers = [reader.at(each) for each in reader.get(ours)]
        writers = [writer.at(each) for each in writer.get(theirs)]
        if len(readers) == len(writers) == 1:
            return self.compare(readers[0], writers[0], f"{path}/{ours}/0")
        if ours != theirs and (theirs, ours) != ("oneOf", "anyOf"):
            if theirs == "allOf":
                raise UncheckedError(f"{path}: no rule covers a change of {theirs} to {ours}")
            return [f"COMBINED_TYPE_CHANGED at {path}: {theirs} became {ours}"]
        if ours == "allOf":
            if len(readers) > len(writers):
                return [f"PRODUCT_TYPE_EXTENDED at {path}: {ours} has more branches"]
            matched = _matches(
                len(readers), len(writers), lambda i, k: not self.compare(readers[i], writers[k], f"{path}/{ours}/{i}")
            )
        else:
            if len(writers) > len(readers):
                return [f"SUM_TYPE_NARROWED at {path}: {ours} has fewer branches"]
            matched = _matches(
                len(writers), len(readers), lambda i, k: not self.compare(readers[k], writers[i], f"{path}/{ours}/{k}")
            )
        return [] if matched else [f"COMBINED_TYPE_SUBSCHEMAS_CHANGED at {path}: a branch of {ours} fits no other one"]

    # --- arrays and objects

    def _array(self, reader: _Place, writer: _Place, path: str) -> list[str]:
        found = []
        if reader.get("uniqueItems", False) and not writer.get("uniqueItems", False):
            found.append(f"UNIQUE_ITEMS_ADDED at {path}/uniqueItems")
        if "items" not in reader.schema or not _may_be("array", writer):
            return found
        ours, theirs = reader.get("items"), writer.get("items", True)
        if isinstance(ours, list) or isinstance(theirs, list):
            if ours != theirs or _refers(ours):
                raise UncheckedError(f"{path}/items: no rule covers a change of items that differ by position")
            return found
        return found + self.compare(reader.at(ours), writer.at(theirs), f"{path}/items")

    def _object(self, reader: _Place, writer: _Place, path: str) -> list[str]:
        if not _may_be("object", writer):
            return []
        ours, theirs = _properties(reader, path), _properties(writer, path)
        found: list[str] = []
        for name in sorted({*ours, *theirs}):
            place = f"{path}/properties/{name}"
            if name not in ours:
                found += self._removed(reader, writer.at(theirs[name]), name, place)
            elif name not in theirs:
                found += self._added(reader.at(ours[name]), writer, name, place)
            else:
                found += self.compare(reader.at(ours[name]), writer.at(theirs[name]), place)
        demanded, before = _required(reader, path), _required(writer, path)
        for name in sorted(demanded - before):
            has_default = isinstance(ours.get(name), dict) and "default" in ours[name]
            if not has_default:
                kind = "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL" if name not in theirs else None
                found.append(f"{kind or 'REQUIRED_ATTRIBUTE_ADDED'} at {path}/required/{name}")
        return found + self._additional(reader, writer, path)

    def _added(self, reader: _Place, writer: _Place, name: str, path: str) -> list[str]:
        covering = _covering(writer, name)
        if covering is True:
            if _resolved(reader, path).accepts_all:
                return []
            return [
                f"PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL at {path}: a document of the writer may have it with any value"
            ]
        if covering is False:
            return []
        reasons = self.compare(reader, writer.at(covering), path)
        return [f"PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL at {path}", *reasons] if reasons else []

    def _removed(self, reader: _Place, writer: _Place, name: str, path: str) -> list[str]:
        covering = _covering(reader, name)
        if covering is True or writer.schema is False:
            return []
        if covering is False:
            return [f"PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL at {path}"]
        reasons = self.compare(reader.at(covering), writer, path)
        return [f"PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL at {path}", *reasons] if reasons else []

    def _additional(self, reader: _Place, writer: _Place, path: str) -> list[str]:
        ours, theirs = reader.get("additionalProperties", True), writer.get("additionalProperties", True)
        place = f"{path}/additionalProperties"
        if ours is True or theirs is False:
            return []
        if ours is False:
            return [f"ADDITIONAL_PROPERTIES_REMOVED at {place}"]
        if theirs is True:
            narrowed = self.compare(reader.at(ours), writer.at(True), place)
            return [f"ADDITIONAL_PROPERTIES_NARROWED at {place}"] if narrowed else []
        return self.compare(reader.at(ours), writer.at(theirs), place)


def _matches(count: int, others: int, fits: Callable[[int, int], bool]) -> bool:
    """Return whether each of some branches has one of its own among others."""
    known = [[fits(i, k) for k in range(others)] for i in range(count)]
    owner: dict[int, int] = {}

    def place(i: int, seen: set[int]) -> bool:
        for k in range(others):
            if known[i][k] and k not in seen:
                seen.add(k)
                if k not in owner or place(owner[k], seen):
                    owner[k] = i
                    return True
        return False

    return all(place(i, set()) for i in range(count))


def _refers(schema: Any) -> bool:
    """Return whether a part of a schema refers to others, which may have changed although its text has not."""
    if isinstance(schema, dict):
        return any(name in ("$ref", "$dynamicRef", "$recursiveRef") for name in schema) or any(
            map(_refers, schema.values())
        )
    return isinstance(schema, list) and any(map(_refers, schema))


def _resolved(place: _Place, path: str) -> _Place:
    """Follow ``$ref``."""
    for _ in range(_MOST_STEPS):
        reference = place.get("$ref")
        if reference is None:
            return place
        beside = [name for name in place.schema if name not in _NOTES and name != "$ref"]
        if beside or not isinstance(reference, str):
            raise UncheckedError(f"{path}: no rule covers keywords beside $ref")
        name, _, pointer = reference.partition("#")
        home = place.home
        if name:
            own = home.document.get("$id", home.document.get("id")) if isinstance(home.document, dict) else None
            if name in home.references:
                home = home.references[name]
            elif name != own:
                raise UncheckedError(f"{path}: {reference} is no reference of the schema")
        found = home.document
        for step in pointer.split("/")[1:]:
            step = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and step in found:
                found = found[step]
            elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
                found = found[int(step)]
            else:
                raise UncheckedError(f"{path}: {reference} is not found in the schema")
        if pointer and not pointer.startswith("/"):
            raise UncheckedError(f"{path}: {reference} names an anchor")
        place = _Place(found, home)
    raise UncheckedError(f"{path}: references form a circle")


def _type_set(place: _Place, path: str) -> frozenset[str]:
    given = place.get("type")
    if given is None:
        return _TYPES
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not all(isinstance(name, str) and name in _TYPES for name in names):
        raise UncheckedError(f"{path}/type: {given!r} is no type")
    return frozenset(names) | ({"integer"} if "number" in names else set())


def _may_be(name: str, place: _Place) -> bool:
    given = place.get("type")
    return given is None or given == name or (isinstance(given, list) and name in given)


def _types(reader: _Place, writer: _Place, path: str) -> list[str]:
    missing = _type_set(writer, path) - _type_set(reader, path)
    if not missing:
        return []
    is_narrowed = "type" in writer.schema and _type_set(reader, path) & _type_set(writer, path)
    kind = "TYPE_NARROWED" if is_narrowed else "TYPE_CHANGED"
    return [f"{kind} at {path}: {', '.join(sorted(missing))} does not fit any more"]


def _listed(place: _Place) -> list[Any] | None:
    if "const" in place.schema:
        return [place.get("const")]
    found = place.get("enum")
    return found if isinstance(found, list) else None


def _values(reader: _Place, writer: _Place, path: str) -> list[str]:
    ours, theirs = _listed(reader), _listed(writer)
    if ours is None and (theirs is None or "type" in writer.schema):
        return []
    if ours is None or theirs is None:
        return [f"TYPE_CHANGED at {path}: the list of values was {'removed' if ours is None else 'added'}"]
    # 1 and true are equal in Python, and not in JSON.
    known = {json.dumps(each, sort_keys=True) for each in ours}
    missing = [value for value in theirs if json.dumps(value, sort_keys=True) not in known]
    return [f"ENUM_ARRAY_NARROWED at {path}/enum: {missing[0]!r} does not fit any more"] if missing else []


def _limits(reader: _Place, writer: _Place, path: str) -> list[str]:
    found = []
    for names, is_lower in ((_LOWER, True), (_UPPER, False)):
        for name, kind in names.items():
            ours, theirs = reader.get(name), writer.get(name)
            if ours is None or ours == theirs:
                continue
            if not _is_number(ours) or not (theirs is None or _is_number(theirs)):
                raise UncheckedError(f"{path}/{name}: no rule covers limits that are no numbers")
            if theirs is None:
                found.append(f"{kind}_ADDED at {path}/{name}")
            elif (ours > theirs) is is_lower:
                found.append(f"{kind}_{'INCREASED' if is_lower else 'DECREASED'} at {path}/{name}")
    ours, theirs = reader.get("multipleOf"), writer.get("multipleOf")
    if ours is not None and ours != theirs:
        if theirs is None:
            found.append(f"MULTIPLE_OF_ADDED at {path}/multipleOf")
        elif not (type(ours) is int and type(theirs) is int and ours > 0 and theirs % ours == 0):
            found.append(f"MULTIPLE_OF_CHANGED at {path}/multipleOf")
    if reader.get("pattern") is not None and reader.get("pattern") != writer.get("pattern"):
        kind = "ADDED" if writer.get("pattern") is None else "CHANGED"
        found.append(f"PATTERN_{kind} at {path}/pattern")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _properties(place: _Place, path: str) -> Mapping[str, Any]:
    found = place.get("properties", {})
    if not isinstance(found, dict):
        raise UncheckedError(f"{path}/properties: they are an object")
    return found


def _required(place: _Place, path: str) -> set[str]:
    found: Sequence[Any] = place.get("required", [])
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise UncheckedError(f"{path}/required: it is a list of names")
    return set(found)


def _covering(place: _Place, name: str) -> Any:
    """Return the schema of a property that is not declared. True: the object is open, False: it is closed."""
    patterns = place.get("patternProperties") or {}
    if not isinstance(patterns, dict):
        raise UncheckedError("patternProperties: they are an object")
    for pattern, schema in patterns.items():
        if not _SIMPLE.fullmatch(pattern):  # an expression of anyone may take hours, and the broker waits
            raise UncheckedError(f"patternProperties: the pattern {pattern!r} is more than a text with ^ and $")
        if re.search(pattern, name):
            return schema
    found = place.get("additionalProperties", True)
    if found is True and place.get("patternProperties"):
        return {}
    return found
