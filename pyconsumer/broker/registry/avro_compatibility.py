"""Checks whether data of one Avro schema can be read with another one: the specification's "Schema Resolution".

Names are compared without their namespaces, and aliases of the reader count, as in Java's ``SchemaCompatibility``. The
messages begin with its words for the kinds of incompatibility.
"""

from __future__ import annotations

from typing import Final

from pyconsumer.protocol.avro.schema import NO_DEFAULT, AvroSchema, AvroType, Field

__all__ = ["incompatibilities"]

#: The kinds that a reader's kind can read besides itself.
_PROMOTIONS: Final = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "string": ("bytes",),
    "bytes": ("string",),
}


def incompatibilities(reader: AvroSchema, writer: AvroSchema) -> list[str]:
    """Return the reasons for which ``reader`` cannot read all data of ``writer``. Empty if it can."""
    return _Comparison().compare(reader.root, writer.root, "/")


def _simple(name: str) -> str:
    return name.rpartition(".")[2]


class _Comparison:
    """The state of one comparison: the pairs of records that are being compared, which may contain themselves."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], list[str]] = {}

    def compare(self, reader: AvroType, writer: AvroType, path: str) -> list[str]:
        if writer.kind == "union":
            if reader.kind != "union" and len(writer.branches) == 1:
                return self.compare(reader, writer.branches[0], path)
            found: list[str] = []
            for index, branch in enumerate(writer.branches):
                found += self._branch(reader, branch, f"{path}{index}/")
            return found
        if reader.kind == "union":
            return self._branch(reader, writer, path)
        if reader.kind != writer.kind:
            if writer.kind in _PROMOTIONS.get(reader.kind, ()):
                return []
            return [f"TYPE_MISMATCH at {path}: {reader.label} cannot read {writer.label}"]
        if reader.kind in ("array", "map"):
            part = "items" if reader.kind == "array" else "values"
            return self.compare(reader.items, writer.items, f"{path}{part}/")
        if reader.name:
            return self._named(reader, writer, path)
        return []

    def _branch(self, reader: AvroType, writer: AvroType, path: str) -> list[str]:
        branches = reader.branches if reader.kind == "union" else [reader]
        if any(not self.compare(branch, writer, path) for branch in branches):
            return []
        if reader.kind != "union":
            return self.compare(reader, writer, path)
        return [f"MISSING_UNION_BRANCH at {path}: no branch of the reader's union can read {writer.label}"]

    def _named(self, reader: AvroType, writer: AvroType, path: str) -> list[str]:
        names = {reader.name, *reader.aliases}
        if writer.name not in names and _simple(reader.name) != _simple(writer.name):
            return [f"NAME_MISMATCH at {path}: expected {writer.name}, and no alias of {reader.name} is that name"]
        if reader.kind == "fixed":
            if reader.size != writer.size:
                return [f"FIXED_SIZE_MISMATCH at {path}: expected {writer.size} bytes, found {reader.size}"]
            return []
        if reader.kind == "enum":
            missing = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
            if missing and reader.default is None:
                return [f"MISSING_ENUM_SYMBOLS at {path}: the reader has no {', '.join(missing)}, and no default"]
            return []
        return self._record(reader, writer, path)

    def _record(self, reader: AvroType, writer: AvroType, path: str) -> list[str]:
        pair = (id(reader), id(writer))
        known = self._known.get(pair)
        if known is not None:
            return known
        self._known[pair] = []  # a record within itself is compatible unless something else is not
        fields = {field.name: field for field in writer.fields}
        found: list[str] = []
        for field in reader.fields:
            other = _written(field, fields)
            if other is not None:
                found += self.compare(field.type, other.type, f"{path}{field.name}/")
            elif field.default is NO_DEFAULT:
                found.append(
                    f"READER_FIELD_MISSING_DEFAULT_VALUE at {path}{field.name}: the writer has no such field, and the"
                    " reader's field has no default"
                )
        self._known[pair] = found
        return found


def _written(field: Field, fields: dict[str, Field]) -> Field | None:
    """Return the writer's field of a reader's field, by its name or an alias."""
    for name in (field.name, *field.aliases):
        if name in fields:
            return fields[name]
    return None
