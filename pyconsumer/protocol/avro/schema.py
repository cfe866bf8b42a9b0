"""Schemas of Avro 1.12: from JSON to types, with the specification's rules, and back to the canonical form.

Rules

1. Names are full names. A name without dots belongs to its own ``namespace``, else to that of the enclosing type. A
   reference is looked up there first, then without a namespace (as Java's parser does).
2. A name is defined once, in the schema or in the references that are given beside it. A type may contain itself.
3. A union contains no union, and no two types of one kind (named types: of one name).
4. A logical type that is unknown, or does not fit its type, is ignored, as the specification demands. So is a
   decimal of more than 10,000 digits.
5. Defaults are checked. That of a union may be a value of any branch (1.12), and the first that fits counts. A strict
   parser refuses a wrong one. A lenient one treats it as absent, since a writer's data does not depend on it.
6. A schema nests at most :data:`MAX_LEVELS` deep.

The errors name the place as a JSON path.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from pyconsumer.protocol.avro.defaults import encode_default
from pyconsumer.protocol.avro.errors import AvroSchemaError
from pyconsumer.protocol.avro.types import NO_DEFAULT, NUMBERS, AvroType, Field, Logical

__all__ = [
    "MAX_LEVELS",
    "NO_DEFAULT",
    "NUMBERS",
    "AvroSchema",
    "AvroType",
    "Field",
    "Logical",
    "parse_schema",
    "rabin_fingerprint",
]

#: The deepest nesting of a schema.
MAX_LEVELS: Final = 200

_PRIMITIVES: Final = frozenset(("null", "boolean", *NUMBERS, "bytes", "string"))
_COMPLEX: Final = frozenset(("record", "error", "enum", "fixed", "array", "map"))
_NAMED: Final = frozenset(("record", "enum", "fixed"))
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ORDERS: Final = ("ascending", "descending", "ignore")
#: A decimal of a higher precision is no valid logical type here: its arithmetic would take too long.
_MOST_DIGITS: Final = 10_000
#: The types that a logical type may annotate. Decimal and fixed ones have further rules.
_LOGICAL: Final = {
    "decimal": ("bytes", "fixed"),
    "uuid": ("string", "fixed"),
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "duration": ("fixed",),
}


class AvroSchema:
    """A parsed schema.

    Attributes:
        root: its type.
        names: all named types that it may refer to, by full name, those of its references included.
    """

    def __init__(self, root: AvroType, names: Mapping[str, AvroType]) -> None:
        self.root = root
        self.names = names

    @cached_property
    def canonical(self) -> str:
        """The parsing canonical form: schemas with the same one read and write the same bytes."""
        return "".join(_canonical(self.root, set()))

    def fingerprint(self, algorithm: str = "CRC-64-AVRO") -> bytes:
        """Return the fingerprint of the canonical form, by ``CRC-64-AVRO`` (little-endian) or a name of ``hashlib``."""
        data = self.canonical.encode()
        if algorithm == "CRC-64-AVRO":
            return rabin_fingerprint(data).to_bytes(8, "little")
        return hashlib.new(algorithm, data).digest()

    def __repr__(self) -> str:
        return f"<AvroSchema {self.canonical}>"


def parse_schema(source: Any, references: Iterable[AvroSchema] = (), *, strict: bool = True) -> AvroSchema:
    """Parse a schema.

    Args:
        source: JSON text, or the value that such a text stands for.
        references: schemas whose named types this one may use.
        strict: refuse names and defaults that are against the specification (rule 5).

    Raises:
        AvroSchemaError: it is no schema. The message says where.
    """
    names: dict[str, AvroType] = {}
    for reference in references:
        for name, kind in reference.names.items():
            if names.setdefault(name, kind) is not kind:
                raise AvroSchemaError(f"{name!r} is defined in two of the references")
    if isinstance(source, (str, bytes, bytearray)):
        source = _loads(source)
    parser = _Parser(names, strict=strict)
    try:
        root = parser.parse(source, "$", "", 0)
        parser.check_defaults()
    except RecursionError:
        raise AvroSchemaError("the schema is nested too deep for the stack that is left") from None
    return AvroSchema(root, names)


def _loads(text: str | bytes | bytearray) -> Any:
    def refuse(constant: str) -> Any:
        raise AvroSchemaError(f"the schema is no JSON: it contains {constant}")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise AvroSchemaError(f"the schema is nested more than {MAX_LEVELS} levels deep") from None
    except UnicodeDecodeError as error:
        raise AvroSchemaError(f"the schema is no UTF-8: {error}") from None
    except json.JSONDecodeError as error:
        raise AvroSchemaError(f"the schema is no JSON: {error}") from None
    except ValueError as error:  # a number of thousands of digits
        raise AvroSchemaError(f"the schema is no JSON that can be read: {error}") from None


class _Parser:
    """The state of one parse: the names so far, and the defaults to check at the end, when all types are whole."""

    def __init__(self, names: dict[str, AvroType], *, strict: bool) -> None:
        self.names = names
        self.strict = strict
        self.defaults: list[tuple[Field, str]] = []

    def parse(self, source: Any, where: str, space: str, level: int) -> AvroType:
        if level > MAX_LEVELS:
            raise AvroSchemaError(f"{where[:80]}...: the schema is nested more than {MAX_LEVELS} levels deep")
        if isinstance(source, str):
            return AvroType(source) if source in _PRIMITIVES else self.reference(source, where, space)
        if isinstance(source, list):
            return self.union(source, where, space, level)
        if not isinstance(source, dict):
            raise AvroSchemaError(f"{where}: a type is a name, an object or a list, not {source!r}")
        if "type" not in source:
            raise AvroSchemaError(f"{where}: the object has no 'type'")
        kind = source["type"]
        if not isinstance(kind, str):
            return self.parse(kind, f"{where}.type", space, level + 1)
        if kind in _PRIMITIVES:
            return AvroType(kind, logical=_logical(kind, 0, source))
        if kind not in _COMPLEX:
            return self.reference(kind, f"{where}.type", space)
        if kind not in ("array", "map"):
            return self.named(kind, source, where, space, level)
        part = "items" if kind == "array" else "values"
        if part not in source:
            raise AvroSchemaError(f"{where}: the {kind} has no {part!r}")
        return AvroType(kind, items=self.parse(source[part], f"{where}.{part}", space, level + 1))

    def reference(self, name: str, where: str, space: str) -> AvroType:
        full = name if "." in name or not space else f"{space}.{name}"
        found = self.names.get(full) or self.names.get(name)
        if found is None:
            raise AvroSchemaError(f"{where}: there is no type {full!r} before this place, and no reference defines it")
        return found

    def union(self, source: list[Any], where: str, space: str, level: int) -> AvroType:
        made = AvroType("union")
        seen: set[str] = set()
        for index, part in enumerate(source):
            branch = self.parse(part, f"{where}[{index}]", space, level + 1)
            if branch.kind == "union":
                raise AvroSchemaError(f"{where}[{index}]: a union may not contain a union")
            if branch.label in seen:
                raise AvroSchemaError(f"{where}[{index}]: the union contains {branch.label!r} twice")
            seen.add(branch.label)
            made.branches.append(branch)
        return made

    def named(self, kind: str, source: dict[str, Any], where: str, space: str, level: int) -> AvroType:
        name = source.get("name")
        if not isinstance(name, str) or not name:
            raise AvroSchemaError(f"{where}: the {kind} has no 'name'")
        given = source.get("namespace")
        if given is not None and not isinstance(given, str):
            raise AvroSchemaError(f"{where}.namespace: a namespace is text, not {given!r}")
        if "." in name:
            space = name.rpartition(".")[0]
        else:
            space = given if given is not None else space
            name = f"{space}.{name}" if space else name
        self.check_name(name, f"{where}.name")
        if name in _PRIMITIVES:
            raise AvroSchemaError(f"{where}.name: {name!r} is a type of Avro's own")
        if name in self.names:
            raise AvroSchemaError(f"{where}.name: {name!r} is defined twice")
        aliases = self.aliases(source, where)
        full = tuple(a if "." in a or not space else f"{space}.{a}" for a in aliases)
        doc = source.get("doc")
        if kind == "fixed":
            size = source.get("size")
            if type(size) is not int or not 0 <= size < 1 << 31:
                raise AvroSchemaError(f"{where}.size: the size of {name!r} is a number from 0 on, not {size!r}")
            made = AvroType(kind, name, full, doc, size=size, logical=_logical(kind, size, source))
        elif kind == "enum":
            symbols, default = self.enum(name, source, where)
            made = AvroType(kind, name, full, doc, symbols=symbols, default=default)
        else:
            made = AvroType("record", name, full, doc)
        self.names[name] = made
        if made.kind == "record":
            self.record(made, source, where, space, level)
        return made

    def enum(self, name: str, source: dict[str, Any], where: str) -> tuple[tuple[str, ...], str | None]:
        symbols = source.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(s, str) for s in symbols):
            raise AvroSchemaError(f"{where}.symbols: the symbols of {name!r} are a list of names")
        for index, symbol in enumerate(symbols):
            self.check_name(symbol, f"{where}.symbols[{index}]", dots=False)
        if len(set(symbols)) < len(symbols):
            raise AvroSchemaError(f"{where}.symbols: a symbol of {name!r} appears twice")
        default = source.get("default")
        if default is not None and (not isinstance(default, str) or default not in symbols):
            if self.strict:
                raise AvroSchemaError(f"{where}.default: {default!r} is no symbol of {name!r}")
            default = None
        return tuple(symbols), default

    def record(self, made: AvroType, source: dict[str, Any], where: str, space: str, level: int) -> None:
        fields = source.get("fields")
        if not isinstance(fields, list):
            raise AvroSchemaError(f"{where}.fields: the fields of {made.name!r} are a list")
        seen: set[str] = set()
        for index, part in enumerate(fields):
            place = f"{where}.fields[{index}]"
            if not isinstance(part, dict):
                raise AvroSchemaError(f"{place}: a field is an object, not {part!r}")
            name = part.get("name")
            if not isinstance(name, str):
                raise AvroSchemaError(f"{place}: the field has no 'name'")
            self.check_name(name, f"{place}.name", dots=False)
            if name in seen:
                raise AvroSchemaError(f"{place}.name: {made.name!r} has two fields {name!r}")
            seen.add(name)
            if "type" not in part:
                raise AvroSchemaError(f"{place}: the field {name!r} has no 'type'")
            if self.strict and part.get("order", "ascending") not in _ORDERS:
                raise AvroSchemaError(f"{place}.order: {part['order']!r} is none of {', '.join(_ORDERS)}")
            kind = self.parse(part["type"], f"{place}.type", space, level + 1)
            default = part.get("default", NO_DEFAULT)
            field = Field(name, kind, self.aliases(part, place), default, part.get("doc"))
            made.fields.append(field)
            if default is not NO_DEFAULT:
                self.defaults.append((field, f"{place}.default"))

    def aliases(self, source: dict[str, Any], where: str) -> tuple[str, ...]:
        found = source.get("aliases", [])
        if not isinstance(found, list) or not all(isinstance(a, str) for a in found):
            raise AvroSchemaError(f"{where}.aliases: aliases are a list of names, not {found!r}")
        return tuple(found)

    def check_name(self, name: str, where: str, *, dots: bool = True) -> None:
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise AvroSchemaError(f"{where}: {name!r} has no UTF-8")
        for part in name.split(".") if dots else [name]:
            if _NAME.fullmatch(part) is None and (self.strict or not part):
                raise AvroSchemaError(
                    f"{where}: {name!r} is no name: letters, digits and _ are, not beginning by a digit"
                )

    def check_defaults(self) -> None:
        for field, where in self.defaults:
            try:
                field.settle_default(encode_default(field.type, field.default))
            except (ValueError, RecursionError) as error:
                if self.strict:
                    raise AvroSchemaError(f"{where}: the default of {field.name!r} is not valid: {error}") from None
                field.settle_default(None)


def _logical(kind: str, size: int, source: dict[str, Any]) -> Logical | None:
    """Return the logical type that an object declares, None if there is none or it is not valid (rule 4)."""
    name = source.get("logicalType")
    if not isinstance(name, str) or kind not in _LOGICAL.get(name, ()):
        return None
    if name == "decimal":
        precision, scale = source.get("precision"), source.get("scale", 0)
        if (
            type(precision) is not int
            or type(scale) is not int
            or not 0 <= scale <= precision
            or not 1 <= precision <= _MOST_DIGITS
        ):
            return None
        if kind == "fixed" and precision > _most_digits(size):
            return None
        return Logical(name, precision, scale)
    if kind == "fixed" and size != (12 if name == "duration" else 16):
        return None
    return Logical(name)


def _most_digits(size: int) -> int:
    """Return how many decimal digits any number of ``size`` bytes in two's complement may have."""
    return math.floor(math.log10(2) * (8 * size - 1)) if size else 0


# -- canonical form ----------------------------------------------------------------------------------------------------


def _canonical(kind: AvroType, seen: set[str]) -> Iterator[str]:
    text = json.JSONEncoder(ensure_ascii=False).encode
    if kind.kind == "union":
        yield "["
        for index, branch in enumerate(kind.branches):
            if index:
                yield ","
            yield from _canonical(branch, seen)
        yield "]"
    elif kind.kind in ("array", "map"):
        yield f'{{"type":"{kind.kind}","{"items" if kind.kind == "array" else "values"}":'
        yield from _canonical(kind.items, seen)
        yield "}"
    elif kind.kind not in _NAMED:
        yield f'"{kind.kind}"'
    elif kind.name in seen:
        yield text(kind.name)
    else:
        seen.add(kind.name)
        yield f'{{"name":{text(kind.name)},"type":"{kind.kind}"'
        if kind.kind == "enum":
            yield f',"symbols":[{",".join(text(symbol) for symbol in kind.symbols)}]'
        elif kind.kind == "fixed":
            yield f',"size":{kind.size}'
        else:
            yield ',"fields":['
            for index, field in enumerate(kind.fields):
                yield f'{"," if index else ""}{{"name":{text(field.name)},"type":'
                yield from _canonical(field.type, seen)
                yield "}"
            yield "]"
        yield "}"


_EMPTY: Final = 0xC15D213AA4D7A795


def _rabin_table() -> list[int]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = (number >> 1) ^ (_EMPTY if number & 1 else 0)
        table.append(number)
    return table


_TABLE: list[int] = []


def rabin_fingerprint(data: bytes) -> int:
    """Return the CRC-64-AVRO of some bytes, as an unsigned number."""
    if not _TABLE:
        _TABLE.extend(_rabin_table())
    found = _EMPTY
    for byte in data:
        found = (found >> 8) ^ _TABLE[(found ^ byte) & 0xFF]
    return found
