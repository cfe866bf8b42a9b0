"""Layouts: a reader's schema as a tree of columns. No bytes, no pyarrow.

Rules (the mapping of types, derived from spark-avro's)

1. A union of null and one type is that type, nullable. Union of int and long: long. Union of float and double: double,
   whatever their logical types. Null beside them makes the column nullable.
2. Each other union is a struct with a field for each branch but null, in order: ``member0``, ``member1`` and so on. One
   of them is not null. Null as a branch makes the struct nullable.
3. An enum is a dictionary of the reader's symbols. A fixed type has its size. An array is a list, a map is a map with
   text as its keys. (Maps of Protobuf may have numbers as keys.)
4. A decimal has at most 38 digits. Logical types that the specification ignores are ignored.
5. A record that contains itself has no columns. Nor has a schema with more than :data:`MOST_COLUMNS` of them.
6. A selection is a list of paths of names. The path goes through arrays and maps to their items. A member of a union
   struct has its name there. A column that no path needs is not in the layout.
7. The column of a whole key or value is nullable, since a record may lack it.
8. An engine may have its own form of a type: :class:`Target` says how.
9. Whole numbers of Protobuf without a sign have the logical types ``uint32`` and ``uint64``, its durations
   ``duration-micros``. Nothing else has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from pyconsumer.errors import ConfigurationError
from pyconsumer.protocol.avro.schema import AvroSchema
from pyconsumer.protocol.avro.types import AvroType, Logical

__all__ = ["ARROW", "MOST_COLUMNS", "MOST_DIGITS", "Column", "Kind", "Layout", "Target", "make_layout"]

#: A layout has at most this number of columns, nested ones included.
MOST_COLUMNS: Final = 10_000
#: The most digits of a decimal, as in Arrow's ``decimal128``.
MOST_DIGITS: Final = 38


class Target(NamedTuple):
    """The purpose of columns.

    Attributes:
        schema: the way to give another reader's schema, for messages.
        others: further ways out of a type without columns, for messages.
        in_micros: True stores timestamps of milliseconds in microseconds. A value that has no such number is refused.
        has_nanos: False refuses timestamps of nanoseconds.
        has_unsigned: False stores numbers of 32 bits without a sign as long, those of 64 bits as decimals of 20 digits.
    """

    schema: str
    others: str = ""
    in_micros: bool = False
    has_nanos: bool = True
    has_unsigned: bool = True


ARROW: Final = Target("a schema_str", ", or use poll() with the deserializer, which returns objects")


class Kind:
    """The ways to store a column. ``native/columns.pxi`` has the same numbers."""

    NULL, BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, FIXED, STRUCT, LIST, MAP = range(11)


@dataclass(slots=True)
class Column:
    """A column of a layout.

    Attributes:
        name: of the field, the member or the item.
        kind: one of :class:`Kind`.
        nullable: True if its values may be null.
        type: the reader's type of its values. Of a union struct: the union.
        width: of a FIXED column, the bytes of a value.
        children: the indexes of its columns in the layout. A map has two, keys and values.
        parts: the positions in ``children`` by the name of a record's field, or by the member's name.
        is_union: True if it is a struct of members.
        is_merged: True if it has the numbers of a union of two types.
        factor: a number of the reader's unit is stored times this factor.
        null_bytes: what a null counts, its children's included: its memory, and at least 4 bytes for each column.
    """

    name: str
    kind: int
    nullable: bool
    type: AvroType
    width: int = 0
    children: tuple[int, ...] = ()
    parts: dict[str, int] = field(default_factory=dict)
    is_union: bool = False
    is_merged: bool = False
    factor: int = 1
    null_bytes: int = 0


@dataclass(slots=True)
class Layout:
    """The columns of a key or value. The first one is the whole.

    Attributes:
        columns: by index. Children come after their parents.
        reader: the schema.
    """

    columns: list[Column]
    reader: AvroSchema


def make_layout(
    reader: AvroSchema,
    paths: Iterable[Sequence[str]] | None = None,
    *,
    side: str = "value",
    target: Target = ARROW,
) -> Layout:
    """Return the columns of a schema.

    Args:
        reader: the schema.
        paths: the wanted parts, None for all. The empty path is the whole.
        side: ``"key"`` or ``"value"``, for messages.
        target: their purpose.

    Raises:
        ConfigurationError: the schema has no columns (rules 4 and 5), or no such part.
    """
    wanted = None if paths is None else _tree(paths)
    maker = _Maker(side, target)
    maker.add("", reader.root, wanted, side, nullable=True)
    return Layout(maker.columns, reader)


class _Wanted:
    """The wanted parts of a type. Without any the whole is wanted."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: dict[str, _Wanted] = {}


def _tree(paths: Iterable[Sequence[str]]) -> _Wanted | None:
    root = _Wanted()
    for path in paths:
        if not path:
            return None
        at = root
        for name in path:
            at = at.parts.setdefault(name, _Wanted())
    return root


_KINDS: Final = {
    "null": Kind.NULL,
    "boolean": Kind.BOOLEAN,
    "int": Kind.INT,
    "long": Kind.LONG,
    "float": Kind.FLOAT,
    "double": Kind.DOUBLE,
    "bytes": Kind.BYTES,
    "string": Kind.BYTES,
    "enum": Kind.INT,
    "fixed": Kind.FIXED,
}
_WIDTHS: Final = {Kind.LONG: 8, Kind.DOUBLE: 8}
#: What a null counts at least in each column: booleans and structs take time, though no byte of memory.
_LEAST_NULL: Final = 4
_SIGNED: Final[dict[Logical | None, AvroType]] = {
    Logical("uint32"): AvroType("long"),
    Logical("uint64"): AvroType("fixed", size=16, logical=Logical("decimal", 20)),
}
_MERGED: Final = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}


class _Maker:
    def __init__(self, side: str, target: Target) -> None:
        self.columns: list[Column] = []
        self._side = side
        self._target = target
        self._open: set[int] = set()  # the records that are being added

    def add(self, name: str, kind: AvroType, wanted: _Wanted | None, where: str, *, nullable: bool = False) -> int:
        """Add the columns of a type, and return the index of the first."""
        if kind.kind == "union":
            return self._union(name, kind, wanted, where, nullable=nullable)
        if kind.kind == "record":
            return self._record(name, kind, wanted, where, nullable=nullable)
        if kind.kind == "array":
            number = self._new(Column(name, Kind.LIST, nullable, kind))
            self._finish(number, [self.add("item", kind.items, wanted, f"{where}[]")])
            return number
        if kind.kind == "map":
            number = self._new(Column(name, Kind.MAP, nullable, kind))
            keys = self._scalar("key", kind.keys or AvroType("string"), f"{where}{{}}", nullable=False)
            self._finish(number, [keys, self.add("value", kind.items, wanted, f"{where}{{}}")])
            return number
        if wanted is not None and wanted.parts:
            raise ConfigurationError(f"{where} is a {kind.label} without parts: it has no {_names(wanted.parts)}")
        return self._scalar(name, kind, where, nullable=nullable)

    def _new(self, column: Column) -> int:
        if len(self.columns) >= MOST_COLUMNS:
            raise ConfigurationError(
                f"the schema of the {self._side} has more than {MOST_COLUMNS} columns: name those that you need with"
                " columns"
            )
        self.columns.append(column)
        return len(self.columns) - 1

    def _finish(self, number: int, children: list[int], parts: dict[str, int] | None = None) -> None:
        column = self.columns[number]
        inner = [self.columns[child].null_bytes for child in children] if column.kind == Kind.STRUCT else []
        self.columns[number] = replace(
            column, children=tuple(children), parts=parts or {}, null_bytes=_LEAST_NULL + sum(inner)
        )

    def _scalar(self, name: str, kind: AvroType, where: str, *, nullable: bool, is_merged: bool = False) -> int:
        if not self._target.has_unsigned and kind.logical in _SIGNED:
            kind = _SIGNED[kind.logical]
        logical = "" if kind.logical is None else kind.logical.name
        stored, width = _KINDS[kind.kind], kind.size
        if logical == "decimal":
            assert kind.logical is not None
            if kind.logical.precision > MOST_DIGITS:
                raise ConfigurationError(
                    f"{where} is a decimal of {kind.logical.precision} digits, and a column has at most"
                    f" {MOST_DIGITS}: give {self._target.schema} in which it is plain {kind.kind}, or leave it out with"
                    f" columns{self._target.others}"
                )
            stored, width = Kind.FIXED, 16
        elif logical.endswith("timestamp-nanos") and not self._target.has_nanos:
            raise ConfigurationError(
                f"{where} is a {logical}, and there is no column of nanoseconds here: give {self._target.schema} in"
                f" which it is a plain long, or leave it out with columns{self._target.others}"
            )
        elif logical == "uuid":
            stored, width = Kind.BYTES, 0
        return self._new(
            Column(
                name,
                stored,
                nullable or stored == Kind.NULL,
                kind,
                width if stored == Kind.FIXED else 0,
                is_merged=is_merged,
                factor=1000 if self._target.in_micros and logical.endswith("timestamp-millis") else 1,
                null_bytes=max(_LEAST_NULL, width if stored == Kind.FIXED else _WIDTHS.get(stored, 0)),
            )
        )

    def _record(self, name: str, kind: AvroType, wanted: _Wanted | None, where: str, *, nullable: bool) -> int:
        if id(kind) in self._open:
            raise ConfigurationError(
                f"{where} is a {kind.name} within a {kind.name}, which has no columns: leave it out with"
                f" columns{self._target.others}"
            )
        self._open.add(id(kind))
        number = self._new(Column(name, Kind.STRUCT, nullable, kind))
        asked = {} if wanted is None else wanted.parts
        if unknown := [part for part in asked if all(f.name != part for f in kind.fields)]:
            raise ConfigurationError(
                f"{where} has no {_names(unknown)}: its fields are {_names(f.name for f in kind.fields)}"
            )
        children: list[int] = []
        parts: dict[str, int] = {}
        for f in kind.fields:
            if asked and f.name not in asked:
                continue
            parts[f.name] = len(children)
            children.append(self.add(f.name, f.type, asked.get(f.name), f"{where}.{f.name}"))
        self._open.remove(id(kind))
        self._finish(number, children, parts)
        return number

    def _union(self, name: str, kind: AvroType, wanted: _Wanted | None, where: str, *, nullable: bool) -> int:
        branches = [branch for branch in kind.branches if branch.kind != "null"]
        nullable = nullable or len(branches) < len(kind.branches)
        if not branches:
            return self._scalar(name, AvroType("null"), where, nullable=True)
        if len(branches) == 1:
            return self.add(name, branches[0], wanted, where, nullable=nullable)
        merged = _MERGED.get(frozenset([branch.kind for branch in branches]))
        if merged is not None:
            return self._scalar(name, AvroType(merged), where, nullable=nullable, is_merged=True)
        number = self._new(Column(name, Kind.STRUCT, nullable, kind, is_union=True))
        asked = {} if wanted is None else wanted.parts
        members = {f"member{place}": branch for place, branch in enumerate(branches)}
        if unknown := [part for part in asked if part not in members]:
            raise ConfigurationError(f"{where} is a union, and has no {_names(unknown)}: it has {_names(members)}")
        children: list[int] = []
        parts: dict[str, int] = {}
        for member, branch in members.items():
            if asked and member not in asked:
                continue
            parts[member] = len(children)
            children.append(self.add(member, branch, asked.get(member), f"{where}.{member}", nullable=True))
        self._finish(number, children, parts)
        return number


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
