"""The types that a schema of Avro consists of, without the rules of parsing."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

__all__ = ["NO_DEFAULT", "NUMBERS", "AvroType", "Field", "Logical"]

NO_DEFAULT: Final[Any] = type("_NoDefault", (), {"__repr__": lambda _: "NO_DEFAULT", "__slots__": ()})()

NUMBERS: Final = ("int", "long", "float", "double")


class Logical(NamedTuple):
    """A valid logical type. Precision and scale are those of a decimal."""

    name: str
    precision: int = 0
    scale: int = 0


class Field:
    """A field of a record.

    Attributes:
        name, type, aliases, doc: as declared.
        default: the JSON value, :data:`NO_DEFAULT` without one.
        default_bytes: the default as Avro, None without one.
    """

    __slots__ = ("aliases", "default", "default_bytes", "doc", "name", "type")

    def __init__(self, name: str, kind: AvroType, aliases: tuple[str, ...], default: Any, doc: str | None) -> None:
        self.name = name
        self.type = kind
        self.aliases = aliases
        self.default = default
        self.default_bytes: bytes | None = None
        self.doc = doc

    def settle_default(self, encoded: bytes | None) -> None:
        """Keep the default as Avro. None: the field has none."""
        self.default_bytes = encoded
        if encoded is None:
            self.default = NO_DEFAULT


class AvroType:
    """One type of a schema. Types refer to each other, in a circle if a record contains itself.

    Attributes:
        kind: ``null``, ``boolean``, ``int``, ``long``, ``float``, ``double``, ``bytes``, ``string``, ``record``,
            ``enum``, ``fixed``, ``array``, ``map`` or ``union``.
        name: the full name of a record, enum or fixed type, otherwise "".
        aliases: full names.
        fields: of a record.
        symbols, default: of an enum. The default is None without one.
        size: of a fixed type, in bytes.
        items: the type of an array's items, or of a map's values.
        keys: the type of a map's keys in a format other than Avro. None for text.
        branches: of a union.
        logical: None without a valid logical type.
        doc: as declared.
    """

    __slots__ = (
        "aliases",
        "branches",
        "default",
        "doc",
        "fields",
        "items",
        "keys",
        "kind",
        "logical",
        "name",
        "size",
        "symbols",
    )

    items: AvroType

    def __init__(
        self,
        kind: str,
        name: str = "",
        aliases: tuple[str, ...] = (),
        doc: str | None = None,
        *,
        size: int = 0,
        symbols: tuple[str, ...] = (),
        default: str | None = None,
        items: AvroType | None = None,
        keys: AvroType | None = None,
        logical: Logical | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.aliases = aliases
        self.doc = doc
        self.fields: list[Field] = []
        self.symbols = symbols
        self.default = default
        self.size = size
        if items is not None:
            self.items = items
        self.keys = keys
        self.branches: list[AvroType] = []
        self.logical = logical

    @property
    def label(self) -> str:
        """The name by which a union's branch is chosen: the full name, or the kind of an unnamed type."""
        return self.name or self.kind

    def __repr__(self) -> str:
        return f"<AvroType {self.kind} {self.name}>" if self.name else f"<AvroType {self.kind}>"
