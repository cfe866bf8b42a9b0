"""The decoder and the encoder of Avro in Python: the twin of ``native/_native.pyx``, and the author of all messages.

Both give the same values and the same verdicts. The compiled ones call these when they refuse something.

Rules of decoding

1. A number has at most ten bytes and 64 bits, that of an int 32 bits. A boolean is 0 or 1. The index of an enum or a
   union is in range. Text is UTF-8. No byte is left at the end.
2. A length or a count is at least 0. A count below 0 is followed by the size of the block in bytes, which must be
   right. A block that is skipped by its size is not looked into.
3. A value decodes to at most ``max_decoded_bytes``. The bytes of texts, bytes and fixed values count. So do 64 for
   each array and each map, 8 for each item of an array, and 64 and its key for each entry of a map. A record counts 64,
   and 8 for each field of the reader or, if they are more, of the writer. Skipped items count, too, so that 10^9 items
   of no bytes come to an end.
4. Records, arrays and maps nest at most ``MAX_LEVELS`` deep.
5. A number that Python's date or time cannot hold is an error.

Rules of encoding

1. A value of a union may be a pair of a branch's name and the value, or a dictionary with the name as ``-type``. Else,
   in a union of null and one type, all but None has that type. In others the first branch that the value matches
   counts, a record with most of its fields before one with fewer, double before float (as in fastavro).
2. A field that a record lacks has its default. Without one it is None. Keys of no field are ignored.
3. A number is anything with ``__index__``, and for float and double anything with ``__float__``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from numbers import Real
from operator import index
from typing import Any, Final, NamedTuple
from uuid import UUID

from pyconsumer.protocol.avro.defaults import encode_long
from pyconsumer.protocol.avro.errors import AvroDecodeError, AvroEncodeError
from pyconsumer.protocol.avro.plan import MAX_DECODED_BYTES, MAX_LEVELS, Link, Node, Op, Plan

__all__ = [
    "UUID_TEXT",
    "AvroDuration",
    "Decoder",
    "Encoder",
    "PrefixDecoder",
    "RefusedError",
    "TooLargeError",
    "ValueCursor",
    "check_block",
    "check_writes",
    "decimal_bytes",
    "decimal_of",
    "duration_bytes",
    "is_real",
    "is_whole",
    "longest_decimal",
    "micros_of",
    "too_large",
    "unscaled",
]

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
UUID_TEXT: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_DURATION: Final = struct.Struct("<III")
_EPOCH: Final = datetime(1970, 1, 1)
_UTC_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY: Final = date(1970, 1, 1).toordinal()
_MICROSECOND: Final = timedelta(microseconds=1)
#: Decimals are exact, however many digits they have.
_EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
#: The longest decimal (bytes), unless its precision needs more. The time to make one grows with the square of this.
_LONGEST_DECIMAL: Final = 4096


class AvroDuration(NamedTuple):
    """A value of the logical type duration. The parts are independent of each other."""

    months: int
    days: int
    milliseconds: int


class RefusedError(Exception):
    """A value is refused. The way to it is added while the error rises."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.way: list[str] = []

    def text(self) -> str:
        way = "".join(reversed(self.way)).lstrip(".")
        return f"{way}: {self.args[0]}" if way else str(self.args[0])


class TooLargeError(Exception):
    """A value decodes to more than ``max_decoded_bytes``. The place does not matter, so the compiled decoder raises it
    itself: to decode so much again, in Python, would take seconds.
    """


def too_large(most: int) -> AvroDecodeError:
    """Return the error for a value that decodes to too much."""
    return AvroDecodeError(f"the value decodes to more than max_decoded_bytes ({most})")


def longest_decimal(precision: int) -> int:
    """Return the most bytes that a decimal may have."""
    return max(_LONGEST_DECIMAL, precision // 2 + 2)


def decimal_of(data: bytes, scale: int, precision: int) -> Decimal:
    """Return the decimal of an unscaled number in two's complement.

    Raises:
        ValueError: there are no bytes, or too many, or the number has more digits than the precision.
    """
    most = longest_decimal(precision)
    if not 0 < len(data) <= most:
        raise ValueError(f"the decimal has {len(data)} bytes, not 1 to {most}")
    number = Decimal(int.from_bytes(data, "big", signed=True))
    if number.adjusted() >= precision:
        raise ValueError(f"the decimal has more than {precision} digits")
    return number.scaleb(-scale, _EXACT)


def unscaled(value: Any, precision: int, scale: int) -> int:
    """Return a decimal's number at a scale.

    Raises:
        ValueError: it is no number, or does not fit the scale or the precision exactly.
    """
    given = value if isinstance(value, Decimal) else Decimal(value)
    if not given.is_finite():
        raise ValueError(f"{given} is no number")
    shown = f"{given:.20E}" if abs(given.adjusted()) > 50 else str(given)
    _, digits, exponent = given.as_tuple()
    assert isinstance(exponent, int)
    if given and len(digits) + exponent + scale > precision:
        raise ValueError(f"{shown} has more than {precision} digits at the scale {scale}")
    if exponent < -scale and any(digits[max(0, len(digits) + exponent + scale) :]):
        raise ValueError(f"{shown} has more than {scale} digits after the point")
    return int(given.scaleb(scale, _EXACT)) if given else 0


class ValueCursor:
    """The bytes of one value, and the rest of its bound."""

    __slots__ = ("at", "data", "end", "room")

    def __init__(self, data: bytes, at: int, room: int) -> None:
        self.data = data
        self.at = at
        self.end = len(data)
        self.room = room

    def long(self) -> int:
        number = shift = 0
        while True:
            if self.at >= self.end:
                raise RefusedError("the bytes end within a number")
            byte = self.data[self.at]
            self.at += 1
            if shift == 63 and byte > 1:
                raise RefusedError("a number has more than 64 bits")
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
            shift += 7

    def whole(self) -> int:
        number = self.long()
        if not -0x80000000 <= number <= 0x7FFFFFFF:
            raise RefusedError(f"{number} is no int of 32 bits")
        return number

    def take(self, size: int) -> bytes:
        if size > self.end - self.at:
            raise RefusedError(f"{size} bytes are announced, and {self.end - self.at} are left")
        start = self.at
        self.at += size
        return self.data[start : self.at]

    def sized(self) -> bytes:
        size = self.long()
        if size < 0:
            raise RefusedError(f"the length {size} is below 0")
        found = self.take(size)
        self.charge(size)
        return found

    def charge(self, size: int) -> None:
        self.room -= size
        if self.room < 0:
            raise TooLargeError

    def go(self, at: int, end: int) -> tuple[int, int]:
        """Go to another place, with an end of its own. Return those that were left."""
        before = self.at, self.end
        self.at, self.end = at, end
        return before

    def until(self, end: int) -> int:
        """Set the end. Return the one before."""
        return self.go(self.at, end)[1]

    def block(self) -> tuple[int, int]:
        """Return the number of items in the next block, and the end of the block, -1 if it is not known."""
        count = self.long()
        if count >= 0:
            return count, -1
        size = self.long()
        if size < 0 or size > self.end - self.at:
            raise RefusedError(f"a block of {size} bytes is announced, and {self.end - self.at} are left")
        return -count, self.at + size


class Decoder:
    """Decodes values of one plan.

    Args:
        plan: see :func:`.plan.read_plan`.
        max_decoded_bytes: rule 3.
    """

    def __init__(self, plan: Plan, max_decoded_bytes: int = MAX_DECODED_BYTES) -> None:
        self._nodes = plan.nodes
        self._links = plan.links
        self._room = max_decoded_bytes

    def decode(self, data: bytes, start: int = 0) -> Any:
        """Return the value that begins at an index and ends with the bytes.

        Raises:
            AvroDecodeError: the bytes are no value of the plan.
        """
        cursor = ValueCursor(bytes(data), start, self._room)
        try:
            found = self._read(cursor, 0, 0)
            if cursor.at != cursor.end:
                raise RefusedError(f"{cursor.end - cursor.at} bytes are left after the value")
        except RefusedError as error:
            raise AvroDecodeError(f"{error.text()} (at byte {cursor.at} of {cursor.end})") from None
        except TooLargeError:
            raise too_large(self._room) from None
        return found

    def _read(self, cursor: ValueCursor, number: int, level: int) -> Any:
        node = self._nodes[number]
        scalar = _READ.get(node.op)
        if scalar is not None:
            return scalar(cursor, node)
        if node.op == Op.UNION:
            return self._read(cursor, self._branch(cursor, node), level)
        if node.op == Op.NAMED:
            return node.of, self._read(cursor, node.a, level)
        if node.op == Op.DEFAULT:
            return self._default(cursor, node, level)
        if level >= MAX_LEVELS:
            raise RefusedError(f"the value is nested more than {MAX_LEVELS} levels deep")
        if node.op == Op.RECORD:
            return self._record(cursor, node, level + 1)
        return self._items(cursor, node, level + 1)

    def _branch(self, cursor: ValueCursor, node: Node) -> int:
        index = cursor.long()
        if not 0 <= index < node.b:
            raise RefusedError(f"the index {index} is none of the union's {node.b} branches")
        return self._links[node.a + index].node

    def _default(self, cursor: ValueCursor, node: Node, level: int) -> Any:
        inner = ValueCursor(node.of, 0, cursor.room)
        found = self._read(inner, node.a, level)
        cursor.charge(cursor.room - inner.room)
        return found

    def _record(self, cursor: ValueCursor, node: Node, level: int) -> dict[str, Any]:
        cursor.charge(64 + 8 * node.c)
        found: dict[str, Any] = node.of.template.copy()
        for link in self._links[node.a : node.a + node.b]:
            try:
                if link.key is None:
                    self.skip(cursor, link.node, level)
                else:
                    found[link.key] = self._read(cursor, link.node, level)
            except RefusedError as error:
                error.way.append(f".{link.key or '(a field that is skipped)'}")
                raise
        return found

    def _items(self, cursor: ValueCursor, node: Node, level: int) -> Any:
        is_map = node.op == Op.MAP
        found: Any = {} if is_map else []
        cursor.charge(64)
        while True:
            count, end = cursor.block()
            if count == 0:
                check_block(cursor, end)
                return found
            for _ in range(count):
                cursor.charge(64 if is_map else 8)
                key = _text(cursor) if is_map else None
                try:
                    item = self._read(cursor, node.a, level)
                except RefusedError as error:
                    error.way.append(f"[{key!r}]" if is_map else f"[{len(found)}]")
                    raise
                if is_map:
                    found[key] = item
                else:
                    found.append(item)
            check_block(cursor, end)

    def skip(self, cursor: ValueCursor, number: int, level: int) -> None:
        """Go past a value of the node ``number``, with those checks that need no object of it."""
        node = self._nodes[number]
        op = node.op
        if op in _SKIP_INT:
            cursor.whole()
        elif op in (Op.LONG, Op.AS_FLOAT, Op.AS_DOUBLE, Op.TIMESTAMP, Op.TIME_MICROS):
            cursor.long() if node.c or op == Op.LONG else cursor.whole()
        elif op in (Op.FLOAT, Op.DOUBLE):
            cursor.take(4 if op == Op.FLOAT else 8)
        elif op in (Op.BYTES, Op.STRING, Op.UUID) or (op == Op.DECIMAL and node.a < 0):
            size = cursor.long()
            if size < 0:
                raise RefusedError(f"the length {size} is below 0")
            cursor.take(size)
        elif op in (Op.FIXED, Op.DECIMAL, Op.UUID_FIXED, Op.DURATION):
            cursor.take(node.a)
        elif op == Op.UNION:
            self.skip(cursor, self._branch(cursor, node), level)
        elif op == Op.NAMED:
            self.skip(cursor, node.a, level)
        elif op in (Op.NULL, Op.BOOLEAN, Op.ENUM, Op.REFUSED):
            _READ[op](cursor, node)
        elif level >= MAX_LEVELS:
            raise RefusedError(f"the value is nested more than {MAX_LEVELS} levels deep")
        elif op == Op.RECORD:
            cursor.charge(64 + 8 * node.c)
            for link in self._links[node.a : node.a + node.b]:
                self.skip(cursor, link.node, level + 1)
        else:
            self._skip_items(cursor, node, level + 1)

    def _skip_items(self, cursor: ValueCursor, node: Node, level: int) -> None:
        cursor.charge(64)
        while True:
            count, end = cursor.block()
            if end >= 0:
                cursor.take(end - cursor.at)
            if count == 0:
                return
            if end >= 0:
                continue
            for _ in range(count):
                cursor.charge(64 if node.op == Op.MAP else 8)
                if node.op == Op.MAP:
                    size = cursor.long()
                    if size < 0:
                        raise RefusedError(f"the length {size} is below 0")
                    cursor.take(size)
                self.skip(cursor, node.a, level)


class PrefixDecoder:
    """Decodes values of records without headers that begin with a byte 0 and, in four bytes, their decoder's number.

    Args:
        decoders: by number. The caller may add some at any time.
        other: called with the record and its bytes for all other values. An error of a decoder rises with its number.
    """

    def __init__(self, decoders: dict[Any, Any], other: Callable[[Any, bytes], Any]) -> None:
        self._decoders = decoders
        self._other = other

    def __call__(self, record: Any, data: bytes) -> Any:
        """Return the value of some bytes of a record."""
        if data[:1] == b"\0" and len(data) > 4 and not record.headers:
            decoder = self._decoders.get(int.from_bytes(data[1:5], "big"))
            if decoder is not None:
                try:
                    return decoder.decode(data, 5)
                except AvroDecodeError as error:
                    raise AvroDecodeError(f"the schema {int.from_bytes(data[1:5], 'big')}: {error}") from None
        return self._other(record, data)


_SKIP_INT: Final = (Op.INT, Op.DATE, Op.TIME_MILLIS)


def check_block(cursor: ValueCursor, end: int) -> None:
    """Refuse a block that does not end where its size says."""
    if end >= 0 and cursor.at != end:
        raise RefusedError(f"a block ends at byte {cursor.at}, and its size says {end}")


def _boolean(cursor: ValueCursor, _: Node) -> bool:
    byte = cursor.take(1)[0]
    if byte > 1:
        raise RefusedError(f"the boolean is {byte}, and not 0 or 1")
    return byte == 1


def _text(cursor: ValueCursor, _: Node | None = None) -> str:
    data = cursor.sized()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RefusedError(f"the text is no UTF-8: {error}") from None


def _fixed(cursor: ValueCursor, node: Node) -> bytes:
    found = cursor.take(node.a)
    cursor.charge(node.a)
    return found


def _enum(cursor: ValueCursor, node: Node) -> str:
    index = cursor.whole()
    if not 0 <= index < len(node.of):
        raise RefusedError(f"the index {index} is none of the enum's {len(node.of)} symbols")
    symbol: str | None = node.of[index]
    if symbol is None:
        raise RefusedError(f"the symbol with the writer's index {index} is none of the reader's enum")
    return symbol


def _refused(_: ValueCursor, node: Node) -> Any:
    raise RefusedError(f"the schemas do not resolve for this branch: {node.of}")


def _as_float(cursor: ValueCursor, node: Node) -> float:
    number: float = _FLOAT.unpack(_FLOAT.pack(_whole(cursor, node)))[0]
    return number


def _whole(cursor: ValueCursor, node: Node) -> int:
    return cursor.long() if node.c else cursor.whole()


def _date(cursor: ValueCursor, _: Node) -> date:
    days = cursor.whole()
    try:
        return date.fromordinal(days + _FIRST_DAY)
    except (ValueError, OverflowError):
        raise RefusedError(f"{days} days since 1970 are no date of Python's") from None


def _time_millis(cursor: ValueCursor, _: Node) -> time:
    return _time(cursor.whole(), 1000)


def _time_micros(cursor: ValueCursor, node: Node) -> time:
    return _time(_whole(cursor, node), 1)


def _time(number: int, factor: int) -> time:
    if not 0 <= number * factor < 86_400_000_000:
        raise RefusedError(f"{number} is no time of a day")
    return (_EPOCH + timedelta(microseconds=number * factor)).time()


def _timestamp(cursor: ValueCursor, node: Node) -> datetime:
    number = _whole(cursor, node)
    try:
        return (_UTC_EPOCH if node.b else _EPOCH) + timedelta(microseconds=number * (1_000_000 // node.a))
    except OverflowError:
        raise RefusedError(f"the timestamp {number} is beyond the years of Python's datetime") from None


def _decimal(cursor: ValueCursor, node: Node) -> Decimal:
    data = cursor.sized() if node.a < 0 else _fixed(cursor, node)
    try:
        return decimal_of(data, node.b, node.c)
    except ValueError as error:
        raise RefusedError(str(error)) from None


def _uuid(cursor: ValueCursor, _: Node) -> UUID:
    text = _text(cursor)
    if UUID_TEXT.fullmatch(text) is None:
        raise RefusedError(f"{text[:50]!r} is no UUID")
    return UUID(text)


_READ: Final[dict[int, Callable[[ValueCursor, Node], Any]]] = {
    Op.NULL: lambda _, __: None,
    Op.BOOLEAN: _boolean,
    Op.INT: lambda cursor, _: cursor.whole(),
    Op.LONG: lambda cursor, _: cursor.long(),
    Op.FLOAT: lambda cursor, _: _FLOAT.unpack(cursor.take(4))[0],
    Op.DOUBLE: lambda cursor, _: _DOUBLE.unpack(cursor.take(8))[0],
    Op.BYTES: lambda cursor, _: cursor.sized(),
    Op.STRING: _text,
    Op.FIXED: _fixed,
    Op.ENUM: _enum,
    Op.REFUSED: _refused,
    Op.AS_FLOAT: _as_float,
    Op.AS_DOUBLE: lambda cursor, node: float(_whole(cursor, node)),
    Op.DATE: _date,
    Op.TIME_MILLIS: _time_millis,
    Op.TIME_MICROS: _time_micros,
    Op.TIMESTAMP: _timestamp,
    Op.DECIMAL: _decimal,
    Op.UUID: _uuid,
    Op.UUID_FIXED: lambda cursor, node: UUID(bytes=_fixed(cursor, node)),
    Op.DURATION: lambda cursor, node: AvroDuration(*_DURATION.unpack(_fixed(cursor, node))),
}


# -- encoding ----------------------------------------------------------------------------------------------------------


_READ_ONLY: Final = (Op.NAMED, Op.DEFAULT, Op.REFUSED, Op.AS_FLOAT, Op.AS_DOUBLE)


def check_writes(plan: Plan) -> None:
    """Check that a plan is one for encoding.

    Raises:
        ValueError: it resolves two schemas, or skips fields.
    """
    for node in plan.nodes:
        links = plan.links[node.a : node.a + node.b] if node.op in (Op.UNION, Op.RECORD) else ()
        no_symbol = node.op == Op.ENUM and None in node.of
        if node.op in _READ_ONLY or no_symbol or any(link.key is None for link in links):
            raise ValueError("an encoder takes a plan of write_plan, not one for decoding")


class Encoder:
    """Encodes values of one plan.

    Args:
        plan: see :func:`.plan.write_plan`.
    """

    def __init__(self, plan: Plan) -> None:
        check_writes(plan)
        self._nodes = plan.nodes
        self._links = plan.links

    def encode(self, value: Any, prefix: bytes = b"") -> bytes:
        """Return the bytes of a value, after a prefix.

        Raises:
            AvroEncodeError: the value does not fit the schema.
        """
        out = bytearray(prefix)
        try:
            self._write(out, 0, value, 0)
        except RefusedError as error:
            raise AvroEncodeError(error.text()) from None
        return bytes(out)

    def matches(self, value: Any, number: int = 0) -> bool:
        """Return whether a value has the type of a node. The choice of a union's branch uses this."""
        return self._matches(number, value, 0, {})

    def _write(self, out: bytearray, number: int, value: Any, level: int) -> None:
        node = self._nodes[number]
        scalar = _WRITE.get(node.op)
        if scalar is not None:
            scalar(out, node, value)
            return
        if node.op == Op.UNION:
            self._write_union(out, node, value, level)
            return
        if level >= MAX_LEVELS:
            raise RefusedError(f"the value is nested more than {MAX_LEVELS} levels deep")
        if node.op == Op.RECORD:
            self._write_record(out, node, value, level + 1)
        elif node.op == Op.ARRAY:
            self._write_array(out, node, value, level + 1)
        else:
            self._write_map(out, node, value, level + 1)

    def _write_record(self, out: bytearray, node: Node, value: Any, level: int) -> None:
        if not isinstance(value, Mapping):
            raise RefusedError(f"a record {node.of.name!r} is written from a dictionary, not from {_shown(value)}")
        for link in self._links[node.a : node.a + node.b]:
            item = value.get(link.key, _ABSENT)
            if item is _ABSENT:
                if link.default is not None:
                    out += link.default
                    continue
                item = None
            try:
                self._write(out, link.node, item, level)
            except RefusedError as error:
                error.way.append(f".{link.key}")
                raise

    def _write_array(self, out: bytearray, node: Node, value: Any, level: int) -> None:
        if not isinstance(value, (list, tuple)):
            if isinstance(value, (str, bytes, bytearray, memoryview, Mapping)) or not isinstance(value, Iterable):
                raise RefusedError(f"an array is written from a list, not from {_shown(value)}")
            value = list(value)
        if value:
            out += encode_long(len(value))
            for place, item in enumerate(value):
                try:
                    self._write(out, node.a, item, level)
                except RefusedError as error:
                    error.way.append(f"[{place}]")
                    raise
        out.append(0)

    def _write_map(self, out: bytearray, node: Node, value: Any, level: int) -> None:
        if not isinstance(value, Mapping):
            raise RefusedError(f"a map is written from a dictionary, not from {_shown(value)}")
        items = list(value.items())
        if items:
            out += encode_long(len(items))
            for key, item in items:
                _write_text(out, node, key)
                try:
                    self._write(out, node.a, item, level)
                except RefusedError as error:
                    error.way.append(f"[{key!r}]")
                    raise
        out.append(0)

    def _write_union(self, out: bytearray, node: Node, value: Any, level: int) -> None:
        branches = self._links[node.a : node.a + node.b]
        chosen, value = self._choose(branches, value)
        out += encode_long(chosen)
        self._write(out, branches[chosen].node, value, level)

    def _choose(self, branches: Sequence[Link], value: Any) -> tuple[int, Any]:
        """Return the index of the branch for a value of a union, and the value without the branch's name."""
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
            for place, link in enumerate(branches):
                if link.key == value[0]:
                    return place, value[1]
        elif isinstance(value, dict) and "-type" in value:
            for place, link in enumerate(branches):
                if link.key == value["-type"]:
                    return place, value
        nodes = [self._nodes[link.node] for link in branches]
        if len(nodes) == 2 and (nodes[0].op == Op.NULL) != (nodes[1].op == Op.NULL):
            null = 0 if nodes[0].op == Op.NULL else 1
            return (null if value is None else 1 - null), value
        best, most = -1, -1
        refused: dict[tuple[int, int, int], Any] = {}
        for place, node in enumerate(nodes):
            if best >= 0 and nodes[best].op == Op.FLOAT:
                if node.op == Op.DOUBLE:
                    return place, value
                continue
            if not self._matches(branches[place].node, value, 0, refused):
                continue
            if node.op != Op.RECORD:
                best = place
                if node.op != Op.FLOAT:
                    break
                continue
            count = sum(link.key in value for link in self._links[node.a : node.a + node.b])
            if count > most:
                best, most = place, count
        if best < 0:
            names = ", ".join(str(link.key) for link in branches)
            raise RefusedError(f"{_shown(value)} is none of the union's types: {names}")
        return best, value

    def _matches(self, number: int, value: Any, level: int, refused: dict[tuple[int, int, int], Any]) -> bool:
        """Compare a value with a type. ``refused`` keeps the pairs that do not fit, with the values of their ids."""
        node = self._nodes[number]
        scalar = _MATCHES.get(node.op)
        if scalar is not None:
            return scalar(node, value)
        known = number, id(value), level
        if known in refused:
            return False
        if self._matches_nested(node, value, level, refused):
            return True
        refused[known] = value
        return False

    def _matches_nested(self, node: Node, value: Any, level: int, refused: dict[tuple[int, int, int], Any]) -> bool:
        if node.op == Op.UNION:
            if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
                for link in self._links[node.a : node.a + node.b]:
                    if link.key == value[0]:
                        return self._matches(link.node, value[1], level, refused)
            branches = self._links[node.a : node.a + node.b]
            return any(self._matches(link.node, value, level, refused) for link in branches)
        if level >= MAX_LEVELS:
            return False
        level += 1
        if node.op == Op.ARRAY:
            return (
                isinstance(value, Sequence)
                and not isinstance(value, (str, bytes, bytearray, memoryview))
                and all(self._matches(node.a, item, level, refused) for item in value)
            )
        if not isinstance(value, Mapping):
            return False
        if node.op == Op.MAP:
            return all(
                isinstance(key, str) and self._matches(node.a, item, level, refused) for key, item in value.items()
            )
        if "-type" in value and value["-type"] != node.of.name:
            return False
        for link in self._links[node.a : node.a + node.b]:
            item = value.get(link.key, _ABSENT)
            if item is _ABSENT:
                if link.default is not None:
                    continue
                item = None
            if not self._matches(link.node, item, level, refused):
                return False
        return True


_ABSENT: Final[Any] = object()


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, (str, bytes, int, float, bool, type(None))) else ""
    return f"{text[:50]} ({type(value).__name__})" if text else f"a {type(value).__name__}"


def _write_null(_: bytearray, __: Node, value: Any) -> None:
    if value is not None:
        raise RefusedError(f"null is written from None, not from {_shown(value)}")


def _write_boolean(out: bytearray, _: Node, value: Any) -> None:
    if value is not True and value is not False:
        raise RefusedError(f"a boolean is True or False, not {_shown(value)}")
    out.append(value)


def _write_whole(out: bytearray, bits: int, value: Any) -> None:
    try:
        number = index(value)
    except TypeError:
        raise RefusedError(f"{_shown(value)} is no whole number") from None
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise RefusedError(f"the number is no {'int' if bits == 32 else 'long'} of {bits} bits")
    out += encode_long(number)


def _write_float(out: bytearray, node: Node, value: Any) -> None:
    try:
        out += (_FLOAT if node.op == Op.FLOAT else _DOUBLE).pack(value)
    except struct.error:
        raise RefusedError(f"{_shown(value)} is no number") from None
    except OverflowError:
        raise RefusedError("the number is too large") from None


def _write_bytes(out: bytearray, _: Node, value: Any) -> None:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise RefusedError(f"bytes are written from bytes, not from {_shown(value)}")
    data = bytes(value)
    out += encode_long(len(data)) + data


def _write_text(out: bytearray, _: Node, value: Any) -> None:
    if not isinstance(value, str):
        raise RefusedError(f"a string is written from text, not from {_shown(value)}")
    try:
        data = value.encode()
    except UnicodeEncodeError as error:
        raise RefusedError(f"the text has no UTF-8: {error}") from None
    out += encode_long(len(data)) + data


def _write_fixed(out: bytearray, node: Node, value: Any) -> None:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise RefusedError(f"a fixed value is written from bytes, not from {_shown(value)}")
    data = bytes(value)
    if len(data) != node.a:
        raise RefusedError(f"the fixed value has {len(data)} bytes, and must have {node.a}")
    out += data


def _write_enum(out: bytearray, node: Node, value: Any) -> None:
    if not isinstance(value, str) or value not in node.of:
        raise RefusedError(f"{_shown(value)} is no symbol of the enum: {', '.join(node.of[:20])}")
    out += encode_long(node.of.index(value))


def _write_date(out: bytearray, _: Node, value: Any) -> None:
    _write_whole(out, 32, value.toordinal() - _FIRST_DAY if isinstance(value, date) else value)


def micros_of_time(value: time) -> int:
    """Return the microseconds since midnight. A time with a zone is refused."""
    if value.tzinfo is not None:
        raise RefusedError(f"the time {value} has a zone, which would be lost")
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def micros_of(value: datetime, *, is_instant: bool) -> int:
    """Return the microseconds since 1970. A datetime without a zone, as an instant, is in the machine's (as in Python).

    Of a local timestamp the fields of the clock count, whatever the zone.
    """
    if not is_instant:
        return (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
    try:
        return ((value if value.tzinfo is not None else value.astimezone()) - _UTC_EPOCH) // _MICROSECOND
    except (OverflowError, OSError, ValueError) as error:
        raise RefusedError(f"{value} is no instant here: {error}") from None


def _write_time_millis(out: bytearray, _: Node, value: Any) -> None:
    _write_whole(out, 32, micros_of_time(value) // 1000 if isinstance(value, time) else value)


def _write_time_micros(out: bytearray, _: Node, value: Any) -> None:
    _write_whole(out, 64, micros_of_time(value) if isinstance(value, time) else value)


def _write_timestamp(out: bytearray, node: Node, value: Any) -> None:
    if isinstance(value, datetime):
        value = micros_of(value, is_instant=bool(node.b)) // (1_000_000 // node.a)
    _write_whole(out, 64, value)


def decimal_bytes(value: Any, node_size: int, scale: int, precision: int) -> bytes:
    """Return a decimal as unscaled bytes, without a length.

    Raises:
        ValueError: it does not fit.
    """
    number = unscaled(value, precision, scale)
    size = (~number if number < 0 else number).bit_length() // 8 + 1
    if node_size >= 0:
        if size > node_size:
            raise ValueError(f"the decimal does not fit {node_size} bytes")
        size = node_size
    return number.to_bytes(size, "big", signed=True)


def _write_decimal(out: bytearray, node: Node, value: Any) -> None:
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        if node.a >= 0 and len(data) != node.a:
            raise RefusedError(f"the fixed value has {len(data)} bytes, and must have {node.a}")
        try:
            decimal_of(data, node.b, node.c)
        except ValueError as error:
            raise RefusedError(str(error)) from None
    elif isinstance(value, (Decimal, int)):
        try:
            data = decimal_bytes(value, node.a, node.b, node.c)
        except ValueError as error:
            raise RefusedError(str(error)) from None
    else:
        raise RefusedError(f"a decimal is written from a Decimal, not from {_shown(value)}")
    if node.a < 0:
        out += encode_long(len(data))
    out += data


def _write_uuid(out: bytearray, node: Node, value: Any) -> None:
    _write_text(out, node, str(value) if isinstance(value, UUID) else value)


def _write_uuid_fixed(out: bytearray, node: Node, value: Any) -> None:
    _write_fixed(out, node, value.bytes if isinstance(value, UUID) else value)


def duration_bytes(value: Any) -> Any:
    """Return the bytes of a duration that is given as a tuple of three numbers. Anything else is returned as it is."""
    if not isinstance(value, tuple):
        return value
    try:
        return _DURATION.pack(*value)
    except struct.error as error:
        raise RefusedError(f"a duration is months, days and milliseconds, each from 0 to 2^32: {error}") from None


def _write_duration(out: bytearray, node: Node, value: Any) -> None:
    _write_fixed(out, node, duration_bytes(value))


_WRITE: Final[dict[int, Callable[[bytearray, Node, Any], None]]] = {
    Op.NULL: _write_null,
    Op.BOOLEAN: _write_boolean,
    Op.INT: lambda out, _, value: _write_whole(out, 32, value),
    Op.LONG: lambda out, _, value: _write_whole(out, 64, value),
    Op.FLOAT: _write_float,
    Op.DOUBLE: _write_float,
    Op.BYTES: _write_bytes,
    Op.STRING: _write_text,
    Op.FIXED: _write_fixed,
    Op.ENUM: _write_enum,
    Op.DATE: _write_date,
    Op.TIME_MILLIS: _write_time_millis,
    Op.TIME_MICROS: _write_time_micros,
    Op.TIMESTAMP: _write_timestamp,
    Op.DECIMAL: _write_decimal,
    Op.UUID: _write_uuid,
    Op.UUID_FIXED: _write_uuid_fixed,
    Op.DURATION: _write_duration,
}


def is_whole(value: Any, bits: int) -> bool:
    """Return whether a value is a whole number of that many bits. A boolean is not."""
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        return False
    return -(1 << bits - 1) <= index(value) < 1 << bits - 1


def is_real(value: Any) -> bool:
    """Return whether a value is a number for float and double. A boolean is not."""
    return isinstance(value, (int, float, Real)) and not isinstance(value, bool)


def _is_data(value: Any, size: int) -> bool:
    return isinstance(value, (bytes, bytearray, memoryview)) and (size < 0 or len(bytes(value)) == size)


_MATCHES: Final[dict[int, Callable[[Node, Any], bool]]] = {
    Op.NULL: lambda _, value: value is None,
    Op.BOOLEAN: lambda _, value: isinstance(value, bool),
    Op.INT: lambda _, value: is_whole(value, 32),
    Op.LONG: lambda _, value: is_whole(value, 64),
    Op.FLOAT: lambda _, value: is_real(value),
    Op.DOUBLE: lambda _, value: is_real(value),
    Op.BYTES: lambda _, value: _is_data(value, -1),
    Op.STRING: lambda _, value: isinstance(value, str),
    Op.FIXED: lambda node, value: _is_data(value, node.a),
    Op.ENUM: lambda node, value: isinstance(value, str) and value in node.of,
    Op.DATE: lambda _, value: isinstance(value, date) or is_whole(value, 32),
    Op.TIME_MILLIS: lambda _, value: isinstance(value, time) or is_whole(value, 32),
    Op.TIME_MICROS: lambda _, value: isinstance(value, time) or is_whole(value, 64),
    Op.TIMESTAMP: lambda _, value: isinstance(value, datetime) or is_whole(value, 64),
    Op.DECIMAL: lambda node, value: isinstance(value, Decimal) or _is_data(value, node.a),
    Op.UUID: lambda _, value: isinstance(value, (UUID, str)),
    Op.UUID_FIXED: lambda _, value: isinstance(value, UUID) or _is_data(value, 16),
    Op.DURATION: lambda _, value: isinstance(value, AvroDuration) or _is_data(value, 12),
}
