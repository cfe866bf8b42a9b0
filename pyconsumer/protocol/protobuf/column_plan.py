"""Plans for columns of Protobuf: message types as types of columns, and the tables that the decoders walk.

The types are those of Avro, so layouts, columns and Arrow types are made as for Avro.

Rules (the mapping of types, derived from spark-protobuf's)

1. Numbers, bool, string and bytes are themselves. ``uint32`` and ``uint64`` have no sign. An enum is the text of its
   name. A message is a record with its fields in the order of the file. A group is a message.
2. A field with presence is nullable: ``optional``, a member of a oneof, a message. A field of proto2 that declares a
   default has that one in the place of null, unless it is in a oneof. A field without presence has its zero.
3. A repeated field is an array, a map field a map. Both are empty rather than null, and so are their items.
4. ``Timestamp`` is a timestamp of microseconds, ``Duration`` a duration of microseconds. A wrapper such as
   ``Int64Value`` is its number or text, nullable. ``Any`` is the record that it is.
5. A message that contains itself has no columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pyconsumer.errors import SerializationError
from pyconsumer.protocol.avro.layout import Layout
from pyconsumer.protocol.avro.schema import AvroSchema
from pyconsumer.protocol.avro.types import NO_DEFAULT, AvroType, Field, Logical

__all__ = [
    "Absent",
    "MessagePlan",
    "MessageTable",
    "Op",
    "ProtoField",
    "Rule",
    "is_map",
    "is_repeated",
    "message_plan",
    "message_schema",
]

#: A plan has at most this number of fields.
MOST_FIELDS: Final = 100_000


class Op:
    """The ways to read a field. ``native/messages.pxi`` has the same numbers.

    * SKIP: a member of a oneof without a column. What is not in a oneof is skipped without an entry in the plan.
    * MOMENT: a ``Timestamp`` or ``Duration``. WRAPPER: a message with one number or text, in the column of the field.
    """

    SKIP, INT32, INT64, UINT32, SINT32, SINT64, BOOL, ENUM, FIXED32, SFIXED32, FIXED64, STRING, BYTES = range(13)
    MESSAGE, WRAPPER, MOMENT = range(13, 16)


class Rule:
    """The number of times that a field may come. ``native/messages.pxi`` has the same numbers."""

    SINGULAR, REPEATED, MAP = range(3)


class Absent:
    """The value of a field that is not there. ``native/messages.pxi`` has the same numbers.

    NULL. NUMBER: ``default`` is the bits of a number. TEXT: it is bytes. EMPTY: a message without fields.
    """

    NULL, NUMBER, TEXT, EMPTY = range(4)


class ProtoField(NamedTuple):
    """A field of a table.

    Attributes:
        number: of the field.
        do, rule, absent: of :class:`Op`, :class:`Rule` and :class:`Absent`.
        wire: the type in a tag.
        column: the index of its column, -1 without one. Of a wrapper's field: the column of the wrapper.
        items: of a repeated field, the column of its items.
        table: of a message, a wrapper and a map, the number of its table. -1 for other fields.
        oneof: the number of its oneof in the plan, -1 without one.
        default: see :class:`Absent`.
        names: of an enum, the names by number.
        is_closed: True if unknown numbers of an enum count as unknown fields.
        name: for messages.
    """

    number: int
    do: int
    wire: int
    rule: int = Rule.SINGULAR
    column: int = -1
    items: int = -1
    table: int = -1
    oneof: int = -1
    absent: int = Absent.NULL
    default: Any = 0
    names: Mapping[int, bytes] | None = None
    is_closed: bool = False
    name: str = ""


class MessageTable(NamedTuple):
    """The fields of a message type at one place.

    Attributes:
        column: of the struct. -1 for wrappers and for entries of maps.
        first, many: its fields, by ascending numbers.
        first_oneof, many_oneofs: its oneofs.
        counted: the bytes that a message counts.
    """

    column: int = -1
    first: int = 0
    many: int = 0
    first_oneof: int = 0
    many_oneofs: int = 0
    counted: int = 0


@dataclass(slots=True)
class MessagePlan:
    """Tables of fields. The first one is that of the whole value.

    Attributes:
        layout: the columns.
        tables: by number.
        fields: of all tables.
        oneofs: the number of oneofs.
        twin: makes the program in Python that explains an error of a compiled one.
    """

    layout: Layout
    tables: list[MessageTable] = field(default_factory=list)
    fields: list[ProtoField] = field(default_factory=list)
    oneofs: int = 0
    twin: Any = None

    def explain_by(self, twin: Any) -> None:
        """Set the function that makes the program in Python."""
        self.twin = twin


#: The types of ``FieldDescriptor``: the operation, the wire type, and the type of a column.
_UINT32, _UINT64 = Logical("uint32"), Logical("uint64")
_SCALARS: Final[dict[int, tuple[int, int, str, Logical | None]]] = {
    1: (Op.FIXED64, 1, "double", None),
    2: (Op.FIXED32, 5, "float", None),
    3: (Op.INT64, 0, "long", None),
    4: (Op.INT64, 0, "long", _UINT64),
    5: (Op.INT32, 0, "int", None),
    6: (Op.FIXED64, 1, "long", _UINT64),
    7: (Op.FIXED32, 5, "int", _UINT32),
    8: (Op.BOOL, 0, "boolean", None),
    9: (Op.STRING, 2, "string", None),
    12: (Op.BYTES, 2, "bytes", None),
    13: (Op.UINT32, 0, "int", _UINT32),
    14: (Op.ENUM, 0, "string", None),
    15: (Op.SFIXED32, 5, "int", None),
    16: (Op.FIXED64, 1, "long", None),
    17: (Op.SINT32, 0, "int", None),
    18: (Op.SINT64, 0, "long", None),
}
_GROUP, _MESSAGE = 10, 11
_MOMENTS: Final = {"google.protobuf.Timestamp": "timestamp-micros", "google.protobuf.Duration": "duration-micros"}
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


# -- types -------------------------------------------------------------------------------------------------------------


def message_schema(descriptor: Any) -> AvroSchema:
    """Return a message type as the type of a column.

    Args:
        descriptor: the ``DESCRIPTOR`` of a message class.
    """
    return AvroSchema(_record(descriptor, {}), {})


def _record(descriptor: Any, known: dict[str, AvroType]) -> AvroType:
    found = known.get(descriptor.full_name)
    if found is None:
        found = known[descriptor.full_name] = AvroType("record", descriptor.full_name)
        for each in descriptor.fields:
            found.fields.append(Field(each.name, _type(each, known), (), NO_DEFAULT, None))
    return found


def _type(given: Any, known: dict[str, AvroType]) -> AvroType:
    if is_map(given):
        key, value = given.message_type.fields_by_number[1], given.message_type.fields_by_number[2]
        keys = _item(key, known)
        return AvroType("map", items=_item(value, known), keys=None if keys.kind == "string" else keys)
    item = _item(given, known)
    if is_repeated(given):
        return AvroType("array", items=item)
    if _absent(given)[0] != Absent.NULL:
        return item
    union = AvroType("union")
    union.branches.extend((AvroType("null"), item))
    return union


def _item(given: Any, known: dict[str, AvroType]) -> AvroType:
    if given.message_type is None:
        _, _, kind, logical = _SCALARS[given.type]
        return AvroType(kind, logical=logical)
    name = given.message_type.full_name
    if name in _MOMENTS:
        return AvroType("long", logical=Logical(_MOMENTS[name]))
    if name in _WRAPPERS:
        return _item(given.message_type.fields_by_number[1], known)
    return _record(given.message_type, known)


def is_repeated(given: Any) -> bool:
    """Return whether a field may come several times. So may a map field."""
    found = getattr(given, "is_repeated", None)  # newer than ``label``, which newer versions warn of
    return given.label == given.LABEL_REPEATED if found is None else bool(found)


def is_map(given: Any) -> bool:
    """Return whether a field is a map."""
    kind = given.message_type
    return kind is not None and kind.GetOptions().map_entry and is_repeated(given)


def _oneof(given: Any) -> Any:
    """Return the oneof of a field. One of a single field, such as that of ``optional``, has no say."""
    found = given.containing_oneof
    return found if found is not None and len(found.fields) > 1 else None


def _absent(given: Any, *, is_entry: bool = False) -> tuple[int, Any]:
    """Return how a singular field that is not there is filled: a value of :class:`Absent`, and the default."""
    kind = given.message_type
    if kind is not None:
        if not is_entry:
            return Absent.NULL, 0
        if kind.full_name in _WRAPPERS:
            return _bits(kind.fields_by_number[1])
        return (Absent.NUMBER, 0) if kind.full_name in _MOMENTS else (Absent.EMPTY, 0)
    if given.has_presence and not is_entry and (not given.has_default_value or _oneof(given) is not None):
        return Absent.NULL, 0
    return _bits(given)


def _bits(given: Any) -> tuple[int, Any]:
    """Return the default of a number or text."""
    default = given.default_value
    if given.enum_type is not None:
        return Absent.TEXT, _names(given.enum_type).get(default, str(default).encode())
    if isinstance(default, str):
        return Absent.TEXT, default.encode()
    if isinstance(default, bytes):
        return Absent.TEXT, default
    return Absent.NUMBER, default if given.type in (1, 2) else int(default)


def _names(enum: Any) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for value in enum.values:
        found.setdefault(value.number, value.name.encode())
    return found


# -- plans -------------------------------------------------------------------------------------------------------------


def message_plan(descriptor: Any, layout: Layout) -> MessagePlan:
    """Return the plan for reading messages of a type into columns.

    Args:
        descriptor: the ``DESCRIPTOR`` of the message class.
        layout: that of its :func:`message_schema`, or of parts of it.

    Raises:
        SerializationError: the plan would be too large.
    """
    planner = _Planner(layout)
    planner.message(descriptor, 0)
    return MessagePlan(layout, planner.tables, planner.fields, planner.oneofs)


class _Planner:
    def __init__(self, layout: Layout) -> None:
        self.tables: list[MessageTable] = []
        self.fields: list[ProtoField] = []
        self.oneofs = 0
        self._columns = layout.columns

    def message(self, descriptor: Any, column: int) -> int:
        """Add the table of a message type, and return its number."""
        target = self._columns[column]
        number = self._new_table()
        first_oneof = self.oneofs
        oneofs: dict[str, int] = {}
        for name in _needed_oneofs(descriptor, target.parts):
            oneofs[name] = self.oneofs
            self.oneofs += 1
        found: list[ProtoField] = []
        for each in sorted(descriptor.fields, key=lambda one: int(one.number)):
            oneof = _oneof(each)
            place = -1 if oneof is None else oneofs.get(oneof.name, -1)
            if each.name in target.parts:
                child = target.children[target.parts[each.name]]
                found.append(self._field(each, child)._replace(oneof=place))
            elif place >= 0:
                found.append(self._skipped(each)._replace(oneof=place))
        self._fill(number, column, found, first_oneof, len(oneofs))
        return number

    def _new_table(self) -> int:
        self.tables.append(MessageTable())
        return len(self.tables) - 1

    def _fill(self, number: int, column: int, found: list[ProtoField], first_oneof: int = 0, many: int = 0) -> None:
        first = len(self.fields)
        self.fields.extend(found)
        if len(self.fields) > MOST_FIELDS:
            raise SerializationError(f"the plan of this message type has more than {MOST_FIELDS} fields")
        self.tables[number] = MessageTable(column, first, len(found), first_oneof, many, 64 + 8 * len(found))

    @staticmethod
    def _skipped(given: Any) -> ProtoField:
        if given.message_type is not None:
            return ProtoField(given.number, Op.SKIP, 3 if given.type == _GROUP else 2, name=given.name)
        if given.enum_type is not None and given.enum_type.is_closed:  # an unknown number does not choose the oneof
            names = _names(given.enum_type)
            return ProtoField(given.number, Op.ENUM, 0, names=names, is_closed=True, name=given.name)
        return ProtoField(given.number, Op.SKIP, _SCALARS[given.type][1], name=given.name)

    def _field(self, given: Any, column: int) -> ProtoField:
        """Return the field of a column."""
        children = self._columns[column].children
        if is_map(given):
            key, value = given.message_type.fields_by_number[1], given.message_type.fields_by_number[2]
            table = self._new_table()
            entry = [self._entry_field(key, children[0]), self._entry_field(value, children[1])]
            self._fill(table, -1, entry)
            return ProtoField(given.number, Op.MESSAGE, 2, Rule.MAP, column, children[1], table, name=given.name)
        if is_repeated(given):
            return self._item(given, children[0])._replace(rule=Rule.REPEATED, column=column, items=children[0])
        absent, default = _absent(given)
        return self._item(given, column)._replace(absent=absent, default=default)

    def _entry_field(self, given: Any, column: int) -> ProtoField:
        absent, default = _absent(given, is_entry=True)
        return self._item(given, column)._replace(absent=absent, default=default)

    def _item(self, given: Any, column: int) -> ProtoField:
        if given.message_type is None:
            op, wire, _, _ = _SCALARS[given.type]
            found = ProtoField(given.number, op, wire, column=column, name=given.name)
            if given.enum_type is not None:
                found = found._replace(names=_names(given.enum_type), is_closed=bool(given.enum_type.is_closed))
            return found
        wire = 3 if given.type == _GROUP else 2
        name = given.message_type.full_name
        if name in _MOMENTS:
            return ProtoField(given.number, Op.MOMENT, wire, column=column, name=given.name)
        if name in _WRAPPERS:
            table = self._new_table()
            inner = given.message_type.fields_by_number[1]
            absent, default = _bits(inner)
            self._fill(table, -1, [self._item(inner, column)._replace(absent=absent, default=default)])
            return ProtoField(given.number, Op.WRAPPER, wire, column=column, table=table, name=given.name)
        table = self.message(given.message_type, column)
        return ProtoField(given.number, Op.MESSAGE, wire, column=column, table=table, name=given.name)


def _needed_oneofs(descriptor: Any, parts: Mapping[str, int]) -> Iterator[str]:
    """Yield the names of the oneofs of which a column needs a member."""
    for oneof in descriptor.oneofs:
        if len(oneof.fields) > 1 and any(each.name in parts for each in oneof.fields):
            yield oneof.name
