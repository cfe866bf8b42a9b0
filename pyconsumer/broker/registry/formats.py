"""Schemas as text: checked, and in the form that the registry keeps.

* Avro: parsed by the rules of the decoder, references included. Kept in the form of Java's ``Schema.toString``, as
  Confluent's canonical string: no spaces, fixed order of attributes, primitive types as names.
* JSON Schema: an object or a boolean. Kept without spaces. Its keywords are not checked.
* Protobuf: kept as it is. A descriptor in base64, as Python's serializers send it, is parsed. The library ``protobuf``
  does that, where it is installed. Of a ``.proto`` text the braces, strings and comments must be whole. It is not
  parsed, since its compiler takes too long for the loop that serves the brokers.

Compatibility is checked by :mod:`.avro_compatibility`, :mod:`.json_compatibility` and :mod:`.protobuf_compatibility`. A
change that no rule covers, or of a schema that is not parsed, is refused unless the level is ``NONE``. It is never
called compatible without a check.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from pyconsumer.broker.registry import json_compatibility, protobuf_compatibility
from pyconsumer.broker.registry.avro_compatibility import incompatibilities
from pyconsumer.broker.registry.errors import RegistryError, RegistryErrors
from pyconsumer.broker.registry.json_compatibility import JsonText, UncheckedError
from pyconsumer.errors import ConfigurationError, SerializationError
from pyconsumer.protocol.avro.errors import AvroSchemaError
from pyconsumer.protocol.avro.schema import AvroSchema, parse_schema
from pyconsumer.protocol.protobuf.files import ProtoFile, is_descriptor, parse_file

__all__ = ["LEVELS", "TYPES", "ParsedSchema", "check_compatibility", "guid_of", "parse"]

TYPES: Final = ("JSON", "PROTOBUF", "AVRO")

LEVELS: Final = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)


class ParsedSchema(NamedTuple):
    """A schema that was checked.

    Attributes:
        type: one of :data:`TYPES`.
        text: the form that is kept.
        avro: the parsed schema, None for other formats.
        json: the same for JSON Schema.
        protobuf: the same for Protobuf. None also for what is not parsed.
    """

    type: str
    text: str
    avro: AvroSchema | None = None
    json: JsonText | None = None
    protobuf: ProtoFile | None = None


def parse(
    kind: str, text: str, references: Mapping[str, ParsedSchema] | None = None, *, normalize: bool = False
) -> ParsedSchema:
    """Check a schema.

    Args:
        kind: one of :data:`TYPES`.
        text: the schema.
        references: by name, the schemas that it refers to.
        normalize: leave out the differences that do not matter: for Avro the kept form does that for spaces and the
            order of attributes, and for JSON the names of an object are sorted.

    Raises:
        RegistryError: it is no schema. The message says where.
    """
    given = references or {}
    if kind == "AVRO":
        try:
            avro = parse_schema(text, [each.avro for each in given.values() if each.avro is not None])
        except AvroSchemaError as error:
            raise _invalid(kind, str(error)) from None
        return ParsedSchema(kind, java_text(json.loads(text)), avro=avro)
    if kind == "JSON":
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _invalid(kind, str(error)) from None
        if not isinstance(found, dict | bool):
            raise _invalid(kind, f"a JSON schema is an object or a boolean, not {type(found).__name__}")
        known = {name: each.json for name, each in given.items() if each.json is not None}
        return ParsedSchema(kind, _dumps(found, sort=normalize), json=JsonText(found, known))
    if kind == "PROTOBUF":
        problem = _protobuf_problem(text)
        if problem:
            raise _invalid(kind, problem)
        return ParsedSchema(kind, text.strip() + "\n", protobuf=_descriptor(text, given))
    raise RegistryError(RegistryErrors.INVALID_SCHEMA, f"Invalid schema type {kind}: it is one of {', '.join(TYPES)}")


def _invalid(kind: str, problem: str) -> RegistryError:
    return RegistryError(RegistryErrors.INVALID_SCHEMA, f"Invalid schema of type {kind}: {problem}")


def _dumps(value: Any, *, sort: bool = False) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=sort)


_TOKENS: Final = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|/\*|["'{}()\[\]]""", re.DOTALL
)
_CLOSES: Final = {"}": "{", ")": "(", "]": "["}


def _protobuf_problem(text: str) -> str:
    """Return what is wrong with a file of Protobuf, "" if its text is whole."""
    if not text.strip():
        return "the text is empty"
    if is_descriptor(text):
        return ""  # a serialized descriptor
    if re.search(r"\b(message|enum|service|extend)\b", text) is None:
        return "the text defines no message"
    open_: list[str] = []
    for match in _TOKENS.finditer(text):  # one by one: behind an open comment each search goes to the end
        token = match[0]
        if token in _CLOSES:
            if not open_ or open_.pop() != _CLOSES[token]:
                return f"a {token} closes nothing"
        elif token in ("{", "(", "["):
            open_.append(token)
        elif token in ('"', "'", "/*"):
            return f"a {token} is not closed"
    return f"a {open_[-1]} is not closed" if open_ else ""


def _descriptor(text: str, given: Mapping[str, ParsedSchema]) -> ProtoFile | None:
    """Return the file of a descriptor in base64. None if it is text, or what reads it is not installed."""
    if not is_descriptor(text):
        return None
    known = {name: each.protobuf for name, each in given.items() if each.protobuf is not None}
    if len(known) < len(given):
        return None
    try:
        return parse_file(text, known)
    except SerializationError as error:
        raise _invalid("PROTOBUF", str(error)) from None
    except ConfigurationError:
        return None


# --- Avro as Java prints it

_PRIMITIVES: Final = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_NAMED_PARTS: Final = {
    "record": ("doc", "fields", "aliases"),
    "error": ("doc", "fields", "aliases"),
    "enum": ("doc", "symbols", "default", "aliases"),
    "fixed": ("doc", "size", "aliases"),
}


def java_text(schema: Any) -> str:
    """Return an Avro schema in the form of Java's ``Schema.toString``."""
    return _dumps(_ordered(schema, ""))


def _ordered(schema: Any, space: str) -> Any:
    if isinstance(schema, list):
        return [_ordered(branch, space) for branch in schema]
    if isinstance(schema, str):
        return _relative(schema, space)
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if not isinstance(kind, str):
        return _ordered(kind, space)
    rest = {name: value for name, value in schema.items() if name != "type"}
    if kind in ("array", "map"):
        part = "items" if kind == "array" else "values"
        return {"type": kind, part: _ordered(rest.pop(part), space), **rest}
    if kind in _NAMED_PARTS:
        return _ordered_named(kind, rest, space)
    # A primitive type, or a name in an object. Other attributes stay, and without them the name is enough.
    return {"type": kind, **rest} if rest and kind in _PRIMITIVES else _relative(kind, space)


def _ordered_named(kind: str, rest: dict[str, Any], space: str) -> dict[str, Any]:
    name, own = rest.pop("name"), rest.pop("namespace", None)
    if "." in name:
        own, _, name = name.rpartition(".")
    inner = space if own is None else own
    made: dict[str, Any] = {"type": kind, "name": name}
    if inner != space:
        made["namespace"] = inner
    after = {}
    for part in _NAMED_PARTS[kind]:
        if part not in rest:
            continue
        value = rest.pop(part)
        if part == "fields":
            value = [_ordered_field(field, inner) for field in value]
        if part == "aliases":
            if value:
                after[part] = [_relative(alias, inner) for alias in value]
        elif value is not None:
            made[part] = value
    return {**made, **rest, **after}


def _relative(full: str, space: str) -> str:
    """Return a name as it is written inside of a namespace."""
    before, dot, name = full.rpartition(".")
    return name if dot and before == space else full


def _ordered_field(field: Mapping[str, Any], space: str) -> dict[str, Any]:
    rest = dict(field)
    made = {"name": rest.pop("name"), "type": _ordered(rest.pop("type"), space)}
    for part in ("doc", "default"):
        if part in rest:
            made[part] = rest.pop(part)
    order, aliases = rest.pop("order", "ascending"), rest.pop("aliases", None)
    if order != "ascending":
        made["order"] = order
    if aliases:
        made["aliases"] = aliases
    return {**made, **rest}


# --- the GUID


def guid_of(content: Mapping[str, Any]) -> str:
    """Return the GUID of a schema: the MD5 digest of its content, written as a UUID.

    The digest is of the text, of name, subject and version (four bytes) of each reference, and of metadata and rules
    with a byte 1 before each. That is ``Schema.updateHash`` of Confluent's source.

    Args:
        content: ``schema``, and ``references``, ``metadata``, ``ruleSet`` if there are any, in the registry's JSON.
    """
    digest = hashlib.md5(usedforsecurity=False)

    def add(*texts: Any) -> None:
        for text in texts:
            if text is not None:
                digest.update(str(text).encode())

    add(content["schema"])
    for reference in content.get("references") or ():
        add(reference.get("name"), reference.get("subject"))
        if reference.get("version") is not None:
            digest.update(int(reference["version"]).to_bytes(4, "big", signed=True))
    metadata = content.get("metadata")
    if metadata is not None:
        digest.update(b"\x01")
        for path, tags in sorted((metadata.get("tags") or {}).items()):
            add(path, *tags)
        for name, value in sorted((metadata.get("properties") or {}).items()):
            add(name, value)
        add(*(metadata.get("sensitive") or ()))
    rules = content.get("ruleSet")
    if rules is not None:
        digest.update(b"\x01")
        for part in ("migrationRules", "domainRules", "encodingRules"):
            for rule in rules.get(part) or ():
                add(*(rule.get(name) for name in ("name", "doc", "kind", "mode", "type")), *(rule.get("tags") or ()))
                for name, value in sorted((rule.get("params") or {}).items()):
                    add(name, value)
                add(rule.get("expr"), rule.get("onSuccess"), rule.get("onFailure"))
                if rule.get("disabled"):
                    digest.update(b"\x01")
        add(rules.get("enableAt"))
    return str(UUID(bytes=digest.digest()))


# --- compatibility


def check_compatibility(level: str, new: ParsedSchema, previous: Sequence[tuple[int, ParsedSchema]]) -> list[str]:
    """Return the reasons for which a schema is not compatible. Empty if it is.

    Args:
        level: one of :data:`LEVELS`.
        new: the schema.
        previous: versions with their numbers, the latest last. Only ``..._TRANSITIVE`` compares with all.

    Raises:
        RegistryError: no rule covers the change.
    """
    if level == "NONE":
        return []
    direction, _, transitive = level.partition("_")
    found: list[str] = []
    for version, old in previous if transitive else previous[-1:]:
        if old.type != new.type:
            found.append(f"the schema's type {new.type} is not that of version {version}, {old.type}")
            continue
        try:
            if direction in ("BACKWARD", "FULL"):
                found += _told(_reasons(new, old), f"the new schema cannot read version {version}")
            if direction in ("FORWARD", "FULL"):
                found += _told(_reasons(old, new), f"version {version} cannot read the new schema")
        except (UncheckedError, RecursionError) as error:
            raise RegistryError(
                RegistryErrors.INVALID_SCHEMA,
                f"cannot be checked: the embedded registry has no rule of compatibility for this change of {new.type}"
                f" since version {version} ({error}), and the level is {level}. Set the level NONE for this subject",
            ) from None
    return found


def _reasons(reader: ParsedSchema, writer: ParsedSchema) -> list[str]:
    """Return why a schema cannot read all data of another one of its format.

    Raises:
        UncheckedError: no rule covers the change.
    """
    if reader.avro is not None and writer.avro is not None:
        return incompatibilities(reader.avro, writer.avro)
    if reader.json is not None and writer.json is not None:
        return json_compatibility.incompatibilities(reader.json, writer.json)
    if reader.protobuf is not None and writer.protobuf is not None:
        return protobuf_compatibility.incompatibilities(reader.protobuf, writer.protobuf)
    if reader.text == writer.text:
        return []
    raise UncheckedError("its text differs, and the embedded registry does not parse it")


def _told(reasons: list[str], about: str) -> list[str]:
    return [f"{about}: {reason}" for reason in reasons]
