"""The decoder of Protobuf columns in Python: the twin of ``native/messages.pxi``, and the author of all messages.

It appends to the columns of :mod:`pyconsumer.protocol.avro._pure_columns`, whose rules hold here, too.

Rules

1. A field may come at any place. Of a singular field the last value counts, and messages are merged. A repeated number
   may be packed, whatever its declaration says. A oneof has the member that came last. Of the entries of a map with one
   key, the last one counts.
2. An unknown field is skipped, and so is a field with another wire type than its own. An unknown number of a closed
   enum is an unknown field. That of an open one is the text of the number. Unknown fields of an entry are skipped, as
   by Java's reader. (Google's for Python skips the entry.)
3. Text is UTF-8, in proto2 as well. A number that has more than its 32 or 64 bits is cut off, as by Google's readers.
   A path of message indexes stands before the message, if the program has one.
4. Messages, groups and entries of maps are nested at most ``MAX_LEVELS`` deep, those of unknown groups included. The
   bytes of a field without a column are not looked into, if their length stands before them.
5. A message counts 64 bytes and 8 for each of its fields, an entry of a map 64, a repeated item 8, texts their bytes.
6. A value is written when its bytes are met. So a singular column has the field exactly if it has as many values as
   its message has. At the end of a message the missing ones are filled in.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from pyconsumer.protocol.avro._pure import RefusedError, ValueCursor
from pyconsumer.protocol.avro._pure_columns import ColumnsDecoder, ValueProgram
from pyconsumer.protocol.avro.layout import Kind
from pyconsumer.protocol.avro.plan import MAX_LEVELS
from pyconsumer.protocol.protobuf.column_plan import Absent, MessagePlan, MessageTable, Op, ProtoField, Rule

__all__ = ["FREE_BYTES", "MessageProgram"]

#: A null that takes more bytes of memory than this counts towards the bound of a value.
FREE_BYTES: Final = 16
_MOST_INDEXES: Final = 64
_MOST_NUMBER: Final = (1 << 64) - 1
_MOST_TAG: Final = (1 << 32) - 1
_MOST_SIZE: Final = (1 << 31) - 1
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


class MessageProgram(ValueProgram):
    """A plan of Protobuf.

    Args:
        plan: see :func:`.column_plan.message_plan`.
        path: the path of the message type that must stand before the message. The empty one permits each path. None:
            there is no path in the bytes.
        zigzag: False reads the path as it was written before 2021.
    """

    def __init__(self, plan: MessagePlan, path: tuple[int, ...] | None = None, zigzag: bool = True) -> None:
        super().__init__(plan)
        self.path = path
        self.zigzag = zigzag
        self.by_number: list[dict[int, int]] = [
            {plan.fields[place].number: place for place in range(table.first, table.first + table.many)}
            for table in plan.tables
        ]

    def read_into(self, decoder: ColumnsDecoder, cursor: ValueCursor) -> None:
        """Append one message."""
        if self.path is not None:
            found = _path(cursor, self.zigzag)
            if self.path and found != self.path:
                raise RefusedError(
                    f"the value is a message of the type {list(found)} of its file, and the columns are those of"
                    f" {list(self.path)}"
                )
        reading = _Reading(self, decoder, cursor)
        count = reading.open(self.plan.tables[0], 0)
        reading.scan(0, count, 0, 0)
        reading.finish(0, count, 0)


class _Reading:
    """One value that is being read.

    Attributes:
        which: by oneof, the field that it has.
        entries: by field, the entries of a map, as the places of their bytes.
        moments: by field, seconds and nanoseconds.
    """

    def __init__(self, program: MessageProgram, decoder: ColumnsDecoder, cursor: ValueCursor) -> None:
        self._program = program
        self._plan: MessagePlan = program.plan
        self._decoder = decoder
        self._stores = decoder.stores
        self._cursor = cursor
        self.which: dict[int, int] = {}
        self.entries: dict[int, list[tuple[int, int]]] = {}
        self.moments: dict[int, list[int]] = {}

    def _count(self, column: int) -> int:
        return len(self._stores[column].valid)

    def open(self, table: MessageTable, level: int) -> int:
        """Begin a message. Return the number of values that its columns will have."""
        _check_level(level)
        self._cursor.charge(table.counted)
        valid = self._stores[table.column].valid
        valid.append(1)
        return len(valid)

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def scan(self, table: int, count: int, group: int, level: int) -> None:
        """Read fields up to the end of the bytes, or to the end of a group.

        Args:
            table: the number of the table.
            count: the number of values of a singular column that has its field.
            group: the number of the field that is a group, 0 if it is none.
            level: that of the message.
        """
        cursor, by_number = self._cursor, self._program.by_number[table]
        while cursor.at < cursor.end:
            number, wire = _tag(cursor)
            if wire == 4:
                if number != group:
                    raise RefusedError(f"the group {number} ends, and it did not begin")
                return
            place = by_number.get(number)
            if place is None:
                _skip(cursor, number, wire, level)
                continue
            field = self._plan.fields[place]
            try:
                self._field(place, field, wire, count, level)
            except RefusedError as error:
                error.way.append(f".{field.name}")
                raise
        if group:
            raise RefusedError(f"the bytes end within the group {group}")

    def _field(self, place: int, field: ProtoField, wire: int, count: int, level: int) -> None:
        if wire != field.wire:
            if wire == 2 and field.rule == Rule.REPEATED and field.wire in (0, 1, 5):
                self._packed(field)
            else:
                _skip(self._cursor, field.number, wire, level)
        elif field.rule == Rule.MAP:
            size = _size(self._cursor)
            self._cursor.charge(64)
            self.entries.setdefault(place, []).append((self._cursor.at, self._cursor.at + size))
            self._cursor.at += size
        elif field.rule == Rule.REPEATED:
            self._repeated(place, field, level)
        else:
            self._singular(place, field, count, level)

    def _packed(self, field: ProtoField) -> None:
        cursor = self._cursor
        size, end = _size(cursor), cursor.end
        cursor.end = cursor.at + size
        while cursor.at < cursor.end:
            value = self._scalar(field)
            if value is not None:
                cursor.charge(8)
                self._decoder.put(field.items, value)
        cursor.end = end

    def _repeated(self, place: int, field: ProtoField, level: int) -> None:
        if field.table < 0 and field.do != Op.MOMENT:
            value = self._scalar(field)
            if value is not None:
                self._cursor.charge(8)
                self._decoder.put(field.items, value)
            return
        self._cursor.charge(8)
        items = self._count(field.items) + 1
        try:
            self._inner(place, field, items, level + 1)
            self._close(place, field, items, level + 1)
        except RefusedError as error:
            error.way.append(f"[{items - 1 - self._stores[field.column].ends[-1]}]")
            raise

    def _singular(self, place: int, field: ProtoField, count: int, level: int) -> None:
        if field.do == Op.SKIP:
            _skip(self._cursor, field.number, field.wire, level)
            self._choose(place, field, count)
        elif field.table < 0 and field.do != Op.MOMENT:
            value = self._scalar(field)
            if value is None:
                return
            self._choose(place, field, count)
            if field.column >= 0:
                self._write(field.column, count, value)
        else:
            self._choose(place, field, count)
            self._inner(place, field, count, level + 1)

    def _write(self, column: int, count: int, value: Any) -> None:
        if self._count(column) == count:
            self._decoder.truncate_column(column, count - 1)
        self._decoder.put(column, value)

    def _choose(self, place: int, field: ProtoField, count: int) -> None:
        """Let a oneof have a field, and drop the one that it had."""
        if field.oneof < 0:
            return
        before = self.which.get(field.oneof, place)
        self.which[field.oneof] = place
        if before != place:
            dropped = self._plan.fields[before]
            if dropped.column >= 0:
                if dropped.do == Op.MESSAGE:
                    self._forget(dropped.table, count)
                self._decoder.truncate_column(dropped.column, count - 1)

    def _forget(self, table: int, count: int) -> None:
        """Forget the state of a message that is dropped."""
        of = self._plan.tables[table]
        for oneof in range(of.first_oneof, of.first_oneof + of.many_oneofs):
            self.which.pop(oneof, None)
        for place in range(of.first, of.first + of.many):
            field = self._plan.fields[place]
            if field.rule == Rule.MAP:
                self.entries.pop(place, None)
            elif field.rule == Rule.SINGULAR and field.do == Op.MESSAGE and self._count(field.column) == count:
                self._forget(field.table, count)

    def _inner(self, place: int, field: ProtoField, count: int, level: int) -> None:
        """Read a message in a field. Its columns may have it already: then both are merged."""
        cursor = self._cursor
        _check_level(level)
        group, end = 0, cursor.end
        if field.wire == 3:
            group = field.number
        else:
            size = _size(cursor)
            cursor.end = cursor.at + size
        self._begin(place, field, count, level)
        if field.do == Op.MOMENT:
            self._moment(self.moments[place], group, level)
        else:
            self.scan(field.table, count, group, level)
        cursor.end = end

    def _begin(self, place: int, field: ProtoField, count: int, level: int) -> None:
        """Begin the message of a field, unless its columns have it already."""
        column = field.items if field.rule == Rule.REPEATED else field.column
        if self._count(column) == count:
            return
        if field.do == Op.MESSAGE:
            self.open(self._plan.tables[field.table], level)
        elif field.do == Op.MOMENT:
            self.moments[place] = [0, 0]
            self._decoder.put(column, 0)
        else:
            self._default(self._plan.fields[self._plan.tables[field.table].first])

    def _moment(self, moment: list[int], group: int, level: int) -> None:
        cursor = self._cursor
        while cursor.at < cursor.end:
            number, wire = _tag(cursor)
            if wire == 4:
                if number != group:
                    raise RefusedError(f"the group {number} ends, and it did not begin")
                return
            if number in (1, 2) and wire == 0:
                found = _varint(cursor)
                moment[number - 1] = _signed(found, 64) if number == 1 else _signed(found & 0xFFFFFFFF, 32)
            else:
                _skip(cursor, number, wire, level)
        if group:
            raise RefusedError(f"the bytes end within the group {group}")

    def _scalar(self, field: ProtoField) -> Any:
        """Read a number or text as its column has it. None: it counts as an unknown field."""
        cursor = self._cursor
        found = _READ[field.do](cursor, field)
        if found is None or field.column < 0:
            return found
        if isinstance(found, bytes):
            cursor.charge(len(found))
            return found
        kind = self._stores[field.items if field.rule == Rule.REPEATED else field.column].kind
        return _as_stored(found, kind)

    # -- the end of a message ------------------------------------------------------------------------------------------

    def finish(self, table: int, count: int, level: int) -> None:
        """Fill in what a message lacks."""
        of = self._plan.tables[table]
        for oneof in range(of.first_oneof, of.first_oneof + of.many_oneofs):
            self.which.pop(oneof, None)
        for place in range(of.first, of.first + of.many):
            field = self._plan.fields[place]
            if field.column < 0:
                continue
            try:
                self._finish_field(place, field, count, level)
            except RefusedError as error:
                error.way.append(f".{field.name}")
                raise

    def _finish_field(self, place: int, field: ProtoField, count: int, level: int) -> None:
        if field.rule == Rule.SINGULAR:
            if self._count(field.column) < count:
                self._fill(place, field, level)
            self._close(place, field, count, level + 1)
            return
        if field.rule == Rule.MAP:
            self._map(place, field, level + 1)
        store = self._stores[field.column]
        store.valid.append(1)
        store.ends.append(self._count(field.items))
        self._decoder.most_now = max(self._decoder.most_now, store.ends[-1])

    def _close(self, place: int, field: ProtoField, count: int, level: int) -> None:
        """End a field that has a value or is null."""
        column = field.items if field.rule == Rule.REPEATED else field.column
        if not self._stores[column].valid[-1]:
            return
        if field.do == Op.MESSAGE:
            self.finish(field.table, count, level)
        elif field.do == Op.MOMENT:
            seconds, nanos = self.moments.get(place, (0, 0))
            micros = seconds * 1_000_000 + (abs(nanos) // 1000 if nanos >= 0 else -(abs(nanos) // 1000))
            if not all(-(1 << 63) <= each < 1 << 63 for each in (seconds * 1_000_000, micros)):
                raise RefusedError(f"{seconds} seconds are too many for a number of microseconds")
            self._stores[column].values[-1] = micros

    def _fill(self, place: int, field: ProtoField, level: int) -> None:
        if field.absent == Absent.NULL:
            null_bytes = self._plan.layout.columns[field.column].null_bytes
            if null_bytes > FREE_BYTES:
                self._cursor.charge(null_bytes)
            self._decoder.null(field.column)
        elif field.absent == Absent.EMPTY:
            self._begin(place, field, -1, level + 1)
        else:
            self.moments.pop(place, None)
            self._default(field)

    def _default(self, field: ProtoField) -> None:
        if field.absent == Absent.TEXT:
            self._cursor.charge(len(field.default))
            self._decoder.put(field.column, field.default)
        else:
            self._decoder.put(field.column, _as_stored(field.default, self._stores[field.column].kind))

    def _map(self, place: int, field: ProtoField, level: int) -> None:
        """Append the entries of a map: of those with one key, the last one."""
        entries = self.entries.pop(place, [])
        cursor = self._cursor
        at, end = cursor.at, cursor.end
        first = self._plan.tables[field.table].first
        keys, values = self._plan.fields[first : first + 2]
        last: dict[Any, int] = {}
        for number, (start, stop) in enumerate(entries):
            cursor.at, cursor.end = start, stop
            key = self._key(keys, values, level) if len(entries) > 1 or values.is_closed else b""
            if key is not None:
                last[key] = number
        kept = set(last.values())
        for number, (start, stop) in enumerate(entries):
            cursor.at, cursor.end = start, stop
            items = self._count(keys.column) + 1
            _check_level(level)
            self.scan(field.table, items, 0, level)
            self.finish(field.table, items, level)
            if number not in kept:
                self._decoder.truncate_column(keys.column, items - 1)
                self._decoder.truncate_column(field.items, items - 1)
        cursor.at, cursor.end = at, end

    def _key(self, keys: ProtoField, values: ProtoField, level: int) -> Any:
        """Return the key of the entry at the cursor, None if its value is an unknown number of a closed enum."""
        cursor = self._cursor
        key: Any = keys.default
        while cursor.at < cursor.end:
            number, wire = _tag(cursor)
            if wire == 4:
                raise RefusedError(f"the group {number} ends, and it did not begin")
            if number == 1 and wire == keys.wire:
                key = _READ[keys.do](cursor, keys)
            elif number == 2 and values.is_closed and wire == 0:
                if _enum(cursor, values) is None:
                    return None
            else:
                _skip(cursor, number, wire, level)
        return key


# -- scalars -----------------------------------------------------------------------------------------------------------


def _check_level(level: int) -> None:
    if level >= MAX_LEVELS:
        raise RefusedError(f"the value is nested more than {MAX_LEVELS} levels deep")


def _varint(cursor: ValueCursor, most: int = _MOST_NUMBER, longest: int = 10) -> int:
    number = shift = 0
    while True:
        if cursor.at >= cursor.end:
            raise RefusedError("the bytes end within a number")
        byte = cursor.data[cursor.at]
        cursor.at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
        if shift >= 7 * longest:
            raise RefusedError(f"a number has more than {longest} bytes")
    if most == _MOST_NUMBER:
        return number & most
    if number > most:
        raise RefusedError(f"a number is {number}, and at most {most}")
    return number


def _tag(cursor: ValueCursor) -> tuple[int, int]:
    tag = _varint(cursor, _MOST_TAG, 5)
    if not tag >> 3:
        raise RefusedError("a field has the number 0")
    return tag >> 3, tag & 7


def _size(cursor: ValueCursor) -> int:
    """Read a length."""
    size = _varint(cursor, _MOST_SIZE, 5)
    if size > cursor.end - cursor.at:
        raise RefusedError(f"{size} bytes are announced, and {cursor.end - cursor.at} are left")
    return size


def _skip(cursor: ValueCursor, number: int, wire: int, level: int) -> None:
    """Go past a field whose tag was read."""
    if wire == 0:
        _varint(cursor)
    elif wire == 1:
        cursor.take(8)
    elif wire == 2:
        cursor.take(_size(cursor))
    elif wire == 5:
        cursor.take(4)
    elif wire == 3:
        _check_level(level + 1)
        while True:
            if cursor.at >= cursor.end:
                raise RefusedError(f"the bytes end within the group {number}")
            inner, kind = _tag(cursor)
            if kind == 4:
                if inner != number:
                    raise RefusedError(f"the group {inner} ends within the group {number}")
                return
            _skip(cursor, inner, kind, level + 1)
    else:
        raise RefusedError(f"the field {number} has the wire type {wire}")


def _signed(number: int, size: int) -> int:
    return number - (1 << size) if number >> (size - 1) else number


def _zigzag(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


def _text(cursor: ValueCursor, _: ProtoField) -> bytes:
    data = cursor.take(_size(cursor))
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise RefusedError(f"the text is no UTF-8: {error}") from None
    return data


def _enum(cursor: ValueCursor, field: ProtoField) -> bytes | None:
    number = _signed(_varint(cursor) & 0xFFFFFFFF, 32)
    assert field.names is not None
    found = field.names.get(number)
    if found is None and not field.is_closed:
        return str(number).encode()
    return found


def _path(cursor: ValueCursor, zigzag: bool) -> tuple[int, ...]:
    def number() -> int:
        found = _varint(cursor, _MOST_TAG, 5)
        return _zigzag(found) if zigzag else found

    count = number()
    if count == 0:
        return (0,)
    if not 0 < count <= _MOST_INDEXES:
        raise RefusedError(f"a path of {count} message indexes cannot be")
    found = tuple([number() for _ in range(count)])
    if min(found) < 0:
        raise RefusedError("a message index cannot be negative")
    return found


def _as_stored(number: Any, kind: int) -> Any:
    """Return a number as its column has it. Numbers of fixed size are bits without a sign."""
    if kind == Kind.INT:
        return _signed(number & 0xFFFFFFFF, 32)
    if kind == Kind.LONG:
        return _signed(number & 0xFFFFFFFFFFFFFFFF, 64)
    if kind == Kind.FIXED:
        return number.to_bytes(16, "little")
    if kind == Kind.FLOAT and isinstance(number, int):
        return _FLOAT.unpack(number.to_bytes(4, "little"))[0]
    if kind == Kind.DOUBLE and isinstance(number, int):
        return _DOUBLE.unpack(number.to_bytes(8, "little"))[0]
    return number


def _fixed(size: int) -> Callable[[ValueCursor, ProtoField], int]:
    return lambda cursor, _: int.from_bytes(cursor.take(size), "little")


_READ: Final[dict[int, Callable[[ValueCursor, ProtoField], Any]]] = {
    Op.INT32: lambda cursor, _: _signed(_varint(cursor) & 0xFFFFFFFF, 32),
    Op.INT64: lambda cursor, _: _varint(cursor),
    Op.UINT32: lambda cursor, _: _varint(cursor) & 0xFFFFFFFF,
    Op.SINT32: lambda cursor, _: _zigzag(_varint(cursor) & 0xFFFFFFFF),
    Op.SINT64: lambda cursor, _: _zigzag(_varint(cursor)),
    Op.BOOL: lambda cursor, _: int(_varint(cursor) != 0),
    Op.ENUM: _enum,
    Op.FIXED32: _fixed(4),
    Op.SFIXED32: lambda cursor, _: _signed(int.from_bytes(cursor.take(4), "little"), 32),
    Op.FIXED64: _fixed(8),
    Op.STRING: _text,
    Op.BYTES: lambda cursor, _: cursor.take(_size(cursor)),
}
