"""The decoder of columns in Python: the twin of ``native/columns.pxi``, and the author of all messages.

Both give the same columns and the same verdicts. The rules of decoding are those of :mod:`._pure`, with these beside.

Rules

1. A row is one key or value: None (a tombstone) becomes null. Bytes begin with a byte 0 and the number of their plan in
   four bytes, unless the caller names plan and start of that row.
2. A row that is refused leaves no trace: it becomes null, and its number is returned. Rows before and after it are as
   if it had been a tombstone.
3. A value counts as its object does (rule 3 of :mod:`._pure`). A null counts its memory, and at least 4 bytes for each
   column in it. If these are more than 16 bytes, they are charged.
4. Dates and timestamps are any number: their columns hold each. A time is one of a day. A decimal has its digits. Text
   is UTF-8, and that of a UUID has its form.
5. All entries of a map are kept, in their order. (An object has the last one of a key alone.)
6. A batch ends before its rows count more than ``MOST_HELD`` bytes, or a list has more than ``MOST_ITEMS`` items, by
   more than one value. A row counts ``ROW_BYTES``, and its value by rule 3 or the memory of its null. So no offset
   exceeds 31 bits. The caller learns how many rows were read. Without rows nothing is counted.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple
from uuid import UUID

from pyconsumer.errors import SerializationError
from pyconsumer.protocol.avro._pure import UUID_TEXT, Decoder, RefusedError, TooLargeError, ValueCursor, check_block
from pyconsumer.protocol.avro._pure import too_large as too_large_error
from pyconsumer.protocol.avro.column_plan import ColumnPlan, Do, Step
from pyconsumer.protocol.avro.errors import AvroDecodeError
from pyconsumer.protocol.avro.layout import Column, Kind
from pyconsumer.protocol.avro.plan import MAX_DECODED_BYTES, MAX_LEVELS
from pyconsumer.protocol.compiled import not_copied
from pyconsumer.protocol.records.columns import BinaryColumn

__all__ = [
    "MOST_HELD",
    "MOST_ITEMS",
    "MOST_ROOM",
    "ROW_BYTES",
    "Bad",
    "Buffers",
    "ColumnProgram",
    "ColumnsDecoder",
    "Odd",
    "Scanned",
    "Store",
    "ValueProgram",
    "check_columns",
    "explain",
    "rows_of",
]

#: The rows of a batch count about this number of bytes, at most.
MOST_HELD: Final = 256 * 1024 * 1024
#: A list column holds about this number of items, at most.
MOST_ITEMS: Final = 1 << 30
#: What a row counts besides its value.
ROW_BYTES: Final = 16
#: The largest ``max_decoded_bytes`` of a value.
MOST_ROOM: Final = 1 << 29
#: For longer values no place in them is looked for: it would take seconds.
_EXPLAINED_BYTES: Final = 65536
#: For the same reason, no place is looked for beyond this size of the decoded value.
_EXPLAINED_ROOM: Final = 4 << 20

Rows = Sequence[bytes | None]

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


class Buffers(NamedTuple):
    """One column in the layout of Arrow. Each buffer supports the buffer protocol, or is None if there is none.

    Attributes:
        length, null_count: its values, and the nulls among them.
        bitmap: a bit for each value, 0 for null.
        ends: the offsets of texts, lists and maps.
        data: numbers, bits, bytes.
    """

    length: int
    null_count: int
    bitmap: Any
    ends: Any
    data: Any


class Bad(NamedTuple):
    """A row that was refused.

    Attributes:
        row: its number among the given rows.
        plan: the program, or the object that stood in its place. None if there was none.
        start: the byte at which the value begins.
    """

    row: int
    plan: Any
    start: int


class Odd(NamedTuple):
    """A row that the caller has looked at.

    Attributes:
        plan: the program of the row. Any other object refuses the row.
        start: the byte at which the value begins.
    """

    plan: Any
    start: int


class Scanned(NamedTuple):
    """The result of a scan.

    Attributes:
        missing: the numbers of plans that are not known, each with the first row that has it.
        odd: the rows that do not begin with a byte 0 and a number.
    """

    missing: dict[int, int]
    odd: list[int]


class ValueProgram:
    """A plan of any format, made ready for decoders. Each format has a subclass.

    Args:
        plan: the plan. It has a ``layout``.
    """

    def __init__(self, plan: Any) -> None:
        self.plan = plan

    __reduce__ = not_copied

    def read_into(self, decoder: ColumnsDecoder, cursor: ValueCursor) -> None:
        """Append one value to all columns. The caller looks whether bytes are left.

        Raises:
            RefusedError, TooLargeError: the value is refused. Then the columns must be truncated.
        """
        raise NotImplementedError


class ColumnProgram(ValueProgram):
    """A plan of Avro.

    Args:
        plan: see :func:`.column_plan.column_plan`.
    """

    def __init__(self, plan: ColumnPlan) -> None:
        super().__init__(plan)
        self.skipper = Decoder(plan.skips)

    def read_into(self, decoder: ColumnsDecoder, cursor: ValueCursor) -> None:
        """Append one value, step by step."""
        decoder.read_step(self, cursor)


class Store:
    """The values of one column.

    Attributes:
        values: numbers and bytes. None of a struct.
        valid: 1 for a value, 0 for null.
        ends: of lists and maps.
    """

    __slots__ = ("children", "empty", "ends", "kind", "nullable", "valid", "values", "width")

    def __init__(self, column: Column) -> None:
        self.kind = column.kind
        self.nullable = column.nullable
        self.width = column.width
        self.children = column.children
        self.values: list[Any] = []
        self.valid = bytearray()
        self.ends = [0]
        self.empty: Any = {Kind.BYTES: b"", Kind.FIXED: bytes(column.width)}.get(column.kind, 0)


class ColumnsDecoder:
    """Reads values into columns.

    Args:
        columns: those of a layout.
        max_decoded_bytes: the bound of a value, at most :data:`MOST_ROOM`.
        most_held, most_items: rule 6.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        max_decoded_bytes: int = MAX_DECODED_BYTES,
        most_held: int = MOST_HELD,
        most_items: int = MOST_ITEMS,
    ) -> None:
        if not 0 <= max_decoded_bytes <= MOST_ROOM:
            raise ValueError(f"max_decoded_bytes is 0 to {MOST_ROOM}, not {max_decoded_bytes}")
        self.stores = [Store(column) for column in columns]
        self._columns = self._fitting = columns
        self._null_bytes = columns[0].null_bytes
        self._room = max_decoded_bytes
        self._most_held = most_held
        self._most_items = most_items
        self._held = 0
        self._most_now = 0  # items of the longest list

    __reduce__ = not_copied

    def __len__(self) -> int:
        return len(self.stores[0].valid)

    def scan(self, rows: Rows, programs: Mapping[int, Any]) -> Scanned:
        """Return the rows whose plan is not among the given ones. See :class:`Scanned`."""
        missing: dict[int, int] = {}
        odd: list[int] = []
        for row, data in enumerate(rows):
            if data is None:
                continue
            if len(data) < 5 or data[0]:
                odd.append(row)
                continue
            number = int.from_bytes(data[1:5], "big")
            if number not in programs:
                missing.setdefault(number, row)
        return Scanned(missing, odd)

    def append(
        self, rows: Rows, programs: Mapping[int, Any], odd: Mapping[int, Odd] | None = None, *, stop: bool = False
    ) -> tuple[int, list[Bad]]:
        """Append rows.

        Args:
            rows: keys or values.
            programs: by number. Another object in the place of a program refuses the rows of that number.
            odd: the rows that the caller has looked at.
            stop: end before the first row that is refused.

        Returns:
            The number of rows that were appended, and those that are null because they were refused. With ``stop`` the
            one that ended it.
        """
        bad: list[Bad] = []
        for row, data in enumerate(rows):
            if self._held > self._most_held or self._most_now > self._most_items:
                return row, bad
            if data is None:
                self._null_row()
                continue
            program, start = self._program(row, data, programs, odd)
            if isinstance(program, ValueProgram):
                self._check_program(program.plan.layout.columns)
                if self._append_one(program, data, start):
                    continue
            bad.append(Bad(row, program, start))
            if stop:
                return row, bad
            self._null_row()
        return len(rows), bad

    def _check_program(self, columns: Sequence[Column]) -> None:
        if columns is not self._columns and columns is not self._fitting:
            check_columns(self._columns, columns)
            self._fitting = columns

    def _null_row(self) -> None:
        self._held += ROW_BYTES + self._null_bytes
        self.null(0)

    def scan_column(self, column: BinaryColumn, count: int, programs: Mapping[int, Any]) -> Scanned:
        """Do as :meth:`scan`, with the first rows of a column."""
        return self.scan(rows_of(column, count), programs)

    def append_column(
        self,
        column: BinaryColumn,
        count: int,
        programs: Mapping[int, Any],
        odd: Mapping[int, Odd] | None = None,
        *,
        stop: bool = False,
    ) -> tuple[int, list[Bad]]:
        """Do as :meth:`append`, with the first rows of a column."""
        return self.append(rows_of(column, count), programs, odd, stop=stop)

    @staticmethod
    def _program(row: int, data: bytes, programs: Mapping[int, Any], odd: Mapping[int, Odd] | None) -> tuple[Any, int]:
        if odd and row in odd:
            return odd[row]
        if len(data) < 5 or data[0]:
            return None, 0
        return programs.get(int.from_bytes(data[1:5], "big")), 5

    def _append_one(self, program: ValueProgram, data: bytes, start: int) -> bool:
        before = len(self)
        try:
            cursor = ValueCursor(data, start, self._room)
            self.read_from(program, cursor)
            self._held += ROW_BYTES + self._room - cursor.room
        except (RefusedError, TooLargeError):
            self.truncate_column(0, before)
            return False
        return True

    def read_from(self, program: ValueProgram, cursor: ValueCursor) -> None:
        """Append one value, up to the end of its bytes. If it raises, the columns must be truncated."""
        program.read_into(self, cursor)
        if cursor.at != cursor.end:
            raise RefusedError(f"{cursor.end - cursor.at} bytes are left after the value")

    def expect(self, rows: int) -> None:
        """Announce the number of rows of all calls. The compiled decoder makes room for them at the first one."""

    def truncate(self, count: int) -> None:
        """Drop all rows but the first ``count``."""
        self.truncate_column(0, count)
        if not count:
            self._held = self._most_now = 0

    def end_list(self, number: int, items: int) -> None:
        """Append a list or a map. ``items``: the number of items that the column has now."""
        store = self.stores[number]
        store.valid.append(1)
        store.ends.append(items)
        self._most_now = max(self._most_now, items)

    def truncate_column(self, number: int, count: int) -> None:
        """Drop all values of a column but the first ``count``."""
        store = self.stores[number]
        # A struct has a value before its children do. The items of a list come before the list.
        if count >= len(store.valid) and store.kind not in (Kind.LIST, Kind.MAP):
            return
        del store.valid[count:], store.values[count:]
        if store.kind in (Kind.LIST, Kind.MAP):
            del store.ends[count + 1 :]
            count = store.ends[count]
        for child in store.children:
            self.truncate_column(child, count)

    def finish(self) -> list[Buffers]:
        """Return all columns. Nothing can be appended afterwards."""
        return [self._finished(store) for store in self.stores]

    def _finished(self, store: Store) -> Buffers:
        count = len(store.valid)
        nulls = store.valid.count(0) if store.nullable else 0
        bitmap = _bits(store.valid) if nulls and store.kind != Kind.NULL else None
        ends: Any = None
        data: Any = None
        if store.kind == Kind.BOOLEAN:
            data = _bits(bytes(store.values))
        elif store.kind in _ARRAYS:
            data = array(_ARRAYS[store.kind], store.values)
        elif store.kind == Kind.BYTES:
            ends = array("i", accumulate(map(len, store.values), initial=0))
            data = b"".join(store.values)
        elif store.kind == Kind.FIXED:
            data = b"".join(store.values)
        elif store.kind in (Kind.LIST, Kind.MAP):
            ends = array("i", store.ends)
        return Buffers(count, count if store.kind == Kind.NULL else nulls, bitmap, ends, data)

    # -- values --------------------------------------------------------------------------------------------------------

    def put(self, number: int, value: Any) -> None:
        """Append a value to a column without children."""
        store = self.stores[number]
        store.values.append(value)
        store.valid.append(1)

    def null(self, number: int) -> None:
        """Append a null to a column and its children."""
        store = self.stores[number]
        store.valid.append(0)
        if store.kind == Kind.STRUCT:
            for child in store.children:
                self.null(child)
        elif store.kind in (Kind.LIST, Kind.MAP):
            store.ends.append(store.ends[-1])
        elif store.kind != Kind.NULL:
            store.values.append(store.empty)

    def read_step(self, program: ColumnProgram, cursor: ValueCursor) -> None:
        """Append one value of Avro."""
        self._read(program, cursor, 0, 0)

    def _read(self, program: ColumnProgram, cursor: ValueCursor, number: int, level: int) -> None:
        step = program.plan.steps[number]
        scalar = _READ.get(step.do)
        if scalar is not None:
            self.put(step.column, scalar(cursor, step))
        elif step.do == Do.NULL:
            cursor.charge(step.c)
            self.null(step.column)
        elif step.do == Do.UNION:
            branch = cursor.long()
            if not 0 <= branch < step.b:
                raise RefusedError(f"the index {branch} is none of the union's {step.b} branches")
            self._read(program, cursor, program.plan.links[step.a + branch], level)
        elif step.do == Do.MEMBER:
            self._member(program, cursor, step, level)
        elif step.do == Do.SKIP:
            program.skipper.skip(cursor, step.a, level)
        elif step.do == Do.DEFAULT:
            inner = ValueCursor(step.of, 0, cursor.room)
            self._read(program, inner, step.a, level)
            cursor.charge(cursor.room - inner.room)
        elif step.do == Do.REFUSED:
            raise RefusedError(f"the schemas do not resolve for this branch: {step.of}")
        elif level >= MAX_LEVELS:
            raise RefusedError(f"the value is nested more than {MAX_LEVELS} levels deep")
        elif step.do == Do.RECORD:
            self._record(program, cursor, step, level + 1)
        else:
            self._items(program, cursor, step, level + 1)

    def _member(self, program: ColumnProgram, cursor: ValueCursor, step: Step, level: int) -> None:
        cursor.charge(step.c)
        store = self.stores[step.column]
        store.valid.append(1)
        for place, child in enumerate(store.children):
            if step.a < 0 or place != step.b:
                self.null(child)
        if step.a < 0:
            program.skipper.skip(cursor, step.b, level)
        else:
            self._read(program, cursor, step.a, level)

    def _record(self, program: ColumnProgram, cursor: ValueCursor, step: Step, level: int) -> None:
        cursor.charge(step.c)
        self.stores[step.column].valid.append(1)
        for link in program.plan.links[step.a : step.a + step.b]:
            try:
                self._read(program, cursor, link, level)
            except RefusedError as error:
                error.way.append(f".{self._name(program, link)}")
                raise

    @staticmethod
    def _name(program: ColumnProgram, link: int) -> str:
        """Return the name of a field, for a message."""
        steps, links = program.plan.steps, program.plan.links
        step = steps[link]
        if step.do == Do.SKIP:
            return f"({step.of}, which is skipped)"
        while step.column < 0 and step.do in (Do.UNION, Do.DEFAULT):
            step = steps[links[step.a + step.b - 1] if step.do == Do.UNION else step.a]
        return program.plan.layout.columns[step.column].name if step.column >= 0 else "(a field)"

    def _items(self, program: ColumnProgram, cursor: ValueCursor, step: Step, level: int) -> None:
        is_map = step.do == Do.MAP
        store = self.stores[step.column]
        cursor.charge(64)
        found = 0
        while True:
            count, end = cursor.block()
            if count == 0:
                check_block(cursor, end)
                break
            for _ in range(count):
                cursor.charge(64 if is_map else 8)
                if is_map:
                    self.put(store.children[0], _text(cursor, step))
                try:
                    self._read(program, cursor, step.a, level)
                except RefusedError as error:
                    error.way.append(f"[{found}]")
                    raise
                found += 1
            check_block(cursor, end)
        self.end_list(step.column, store.ends[-1] + found)


def check_columns(columns: Sequence[Column], others: Sequence[Column]) -> None:
    """Check that a program may fill some columns: its own columns are stored as these are.

    Args:
        columns: those of the decoder.
        others: those of the program.

    Raises:
        ValueError: they differ, so the program would write into wrong columns.
    """
    if [_stored(each) for each in columns] != [_stored(each) for each in others]:
        raise ValueError("a program is of other columns than the decoder")


def _stored(column: Column) -> tuple[Any, ...]:
    return column.kind, column.width, bool(column.nullable), tuple(column.children)


def rows_of(column: BinaryColumn, count: int) -> list[bytes | None]:
    """Return the first strings of a column."""
    ends, data, bitmap = column.offsets, bytes(column.data), column.bitmap
    found: list[bytes | None] = [data[ends[row] : ends[row + 1]] for row in range(count)]
    if bitmap is not None:
        for row in range(count):
            if not bitmap[row >> 3] >> (row & 7) & 1:
                found[row] = None
    return found


def explain(program: Any, data: bytes, start: int, max_decoded_bytes: int) -> SerializationError:
    """Return the error of a value that a decoder has refused.

    Args:
        program: that of the value, compiled or not.
        data: the bytes of the key or value.
        start: the byte at which the value begins.
        max_decoded_bytes: the bound of a value.
    """
    plan = program.plan
    if hasattr(plan, "refusal"):  # JSON
        refusal: SerializationError = plan.refusal(program, data[start:])
        return refusal
    is_avro = isinstance(plan, ColumnPlan)
    error: Callable[[str], SerializationError] = AvroDecodeError if is_avro else SerializationError
    if len(data) - start > _EXPLAINED_BYTES:
        return error(f"the value of {len(data) - start} bytes is not that of the schema")
    cursor = ValueCursor(data, start, min(max_decoded_bytes, _EXPLAINED_ROOM))
    trial = ColumnsDecoder(plan.layout.columns, max_decoded_bytes)
    twin = ColumnProgram(plan) if is_avro else plan.twin(program)
    try:
        trial.read_from(twin, cursor)
    except RefusedError as refused:
        return error(f"{refused.text()} (at byte {cursor.at} of {len(data)})")
    except TooLargeError:
        if max_decoded_bytes > _EXPLAINED_ROOM:
            return error(f"the value is not that of the schema, or too large: {too_large_error(max_decoded_bytes)}")
        return error(str(too_large_error(max_decoded_bytes)))
    return error("the value is not that of the schema")


# -- buffers -----------------------------------------------------------------------------------------------------------

_ARRAYS: Final = {Kind.INT: "i", Kind.LONG: "q", Kind.FLOAT: "f", Kind.DOUBLE: "d"}
_AS_DIGITS: Final = bytes([0x30, 0x31]) + bytes(254)


def _bits(flags: bytes | bytearray) -> bytes:
    """Pack bytes that are 0 or 1 into bits, lowest bit first."""
    number = int(flags.translate(_AS_DIGITS)[::-1] or b"0", 2)
    return number.to_bytes((len(flags) + 7) // 8, "little")


# -- scalars -----------------------------------------------------------------------------------------------------------


def _boolean(cursor: ValueCursor, _: Step) -> int:
    byte = cursor.take(1)[0]
    if byte > 1:
        raise RefusedError(f"the boolean is {byte}, and not 0 or 1")
    return byte


def _whole(cursor: ValueCursor, step: Step) -> int:
    return cursor.long() if step.a else cursor.whole()


def _long(cursor: ValueCursor, step: Step) -> int:
    number = _whole(cursor, step) * step.b
    if not -(1 << 63) <= number < 1 << 63:
        raise RefusedError(f"{number} has more than 64 bits in the reader's unit")
    return number


def _time(cursor: ValueCursor, step: Step) -> int:
    number = _whole(cursor, step)
    if not 0 <= number < step.c:
        raise RefusedError(f"{number} is no time of a day")
    return number * step.b


def _rounded(cursor: ValueCursor, step: Step) -> float:
    number: float = _FLOAT.unpack(_FLOAT.pack(_whole(cursor, step)))[0]
    return number


def _text(cursor: ValueCursor, _: Step) -> bytes:
    data = cursor.sized()
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise RefusedError(f"the text is no UTF-8: {error}") from None
    return data


def _uuid(cursor: ValueCursor, step: Step) -> bytes:
    data = _text(cursor, step)
    if UUID_TEXT.fullmatch(data.decode()) is None:
        raise RefusedError(f"{data.decode()[:50]!r} is no UUID")
    return data


def _fixed(cursor: ValueCursor, step: Step) -> bytes:
    found = cursor.take(step.a)
    cursor.charge(step.a)
    return found


def _uuid_fixed(cursor: ValueCursor, _: Step) -> bytes:
    found = cursor.take(16)
    cursor.charge(16)
    return str(UUID(bytes=found)).encode()


def _decimal(cursor: ValueCursor, step: Step) -> bytes:
    data = cursor.sized() if step.a < 0 else _fixed(cursor, step)
    if not 0 < len(data) <= step.b:
        raise RefusedError(f"the decimal has {len(data)} bytes, not 1 to {step.b}")
    number = int.from_bytes(data, "big", signed=True)
    if abs(number) >= 10**step.c:
        raise RefusedError(f"the decimal has more than {step.c} digits")
    return number.to_bytes(16, "little", signed=True)


def _enum(cursor: ValueCursor, step: Step) -> int:
    index = cursor.whole()
    if not 0 <= index < len(step.of):
        raise RefusedError(f"the index {index} is none of the enum's {len(step.of)} symbols")
    symbol: int = step.of[index]
    if symbol < 0:
        raise RefusedError(f"the symbol with the writer's index {index} is none of the reader's enum")
    return symbol


_READ: Final[dict[int, Callable[[ValueCursor, Step], Any]]] = {
    Do.BOOLEAN: _boolean,
    Do.INT: lambda cursor, _: cursor.whole(),
    Do.LONG: _long,
    Do.TIME: _time,
    Do.FLOAT: lambda cursor, _: _FLOAT.unpack(cursor.take(4))[0],
    Do.DOUBLE: lambda cursor, _: _DOUBLE.unpack(cursor.take(8))[0],
    Do.ROUNDED: _rounded,
    Do.AS_DOUBLE: lambda cursor, step: float(_whole(cursor, step)),
    Do.BYTES: lambda cursor, _: cursor.sized(),
    Do.TEXT: _text,
    Do.UUID: _uuid,
    Do.FIXED: _fixed,
    Do.UUID_FIXED: _uuid_fixed,
    Do.DECIMAL: _decimal,
    Do.ENUM: _enum,
}
