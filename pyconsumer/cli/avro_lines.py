"""Avro values as JSON, and back: ``consume`` and ``produce`` with ``--value-format avro``.

Rules

1. Records and maps are objects, arrays are arrays, numbers and text are themselves. A union is its branch's value.
2. Bytes and fixed values are as in ``consume --json``: text if they are UTF-8, otherwise ``{"base64": "..."}``. Both
   are read, and ``{"hex": "..."}``.
3. A decimal is text, so it stays exact. Dates, times and timestamps are text in ISO 8601, a UUID is text, a duration a
   list of months, days and milliseconds. Numbers are read in the place of dates and times, too.
4. ``"NaN"``, ``"Infinity"`` and ``"-Infinity"`` stand for the floats that JSON does not have.
5. Reading: a key that is no field is refused, since it is most often a misspelled one. The branch of a union is the
   first that the value fits. ``{"-type": "shop.Order", ...}`` names a record.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import uuid
from collections.abc import Callable
from typing import Any, Final, Self

from pyconsumer.cli.record_lines import bytes_as_json, bytes_of_json
from pyconsumer.protocol.avro import AvroDuration, AvroType

__all__ = ["JsonValue", "as_plain", "from_plain"]

_FLOATS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class JsonValue(bytes):
    """A value as one line of JSON.

    Attributes:
        document: the same, as Python's own values.
    """

    document: Any

    def __new__(cls, value: Any, binary: str) -> Self:
        """Return a decoded value as JSON.

        Args:
            value: from the deserializer.
            binary: how to write bytes that are not UTF-8 text: ``base64`` or ``hex``.
        """
        document = as_plain(value, binary)
        self = super().__new__(cls, json.dumps(document, ensure_ascii=False, allow_nan=False).encode())
        self.document = document
        return self


def as_plain(value: Any, binary: str) -> Any:
    """Return a decoded value as JSON's types (rules 1 to 4)."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, dict):
        return {key: as_plain(item, binary) for key, item in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else next(k for k, v in _FLOATS.items() if str(v) == str(value))
    if isinstance(value, bytes):
        return bytes_as_json(value, binary)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [as_plain(item, binary) for item in value]
    return str(value)  # a decimal, a UUID


def from_plain(kind: AvroType, value: Any, where: str = "the value") -> Any:
    """Return the value for the serializer of something from JSON (rule 5).

    Raises:
        ValueError: it does not fit the type. The message names the place.
    """
    if kind.kind == "union":
        return _branch(kind, value, where)
    logical = "" if kind.logical is None else kind.logical.name
    read = _LOGICAL.get(logical)
    if read is not None:
        return _logical(read, logical, value, where)
    if kind.kind == "record":
        return _record(kind, value, where)
    if kind.kind == "array":
        _check(isinstance(value, list), where, "a list", value)
        return [from_plain(kind.items, item, f"{where}[{place}]") for place, item in enumerate(value)]
    if kind.kind == "map":
        _check(isinstance(value, dict), where, "an object", value)
        return {key: from_plain(kind.items, item, f"{where}.{key}") for key, item in value.items()}
    if kind.kind in ("bytes", "fixed"):
        _check(isinstance(value, str | dict), where, "a string or an object", value)
        data = bytes_of_json(value, where)
        _check(
            kind.kind == "bytes" or (data is not None and len(data) == kind.size), where, f"{kind.size} bytes", value
        )
        return data
    return _scalar(kind, value, where)


def _check(fits: bool, where: str, wanted: str, value: Any) -> None:
    if not fits:
        text = json.dumps(value)
        raise ValueError(f"{where} must be {wanted}, not {text if len(text) <= 40 else f'{text[:37]}...'}")


def _scalar(kind: AvroType, value: Any, where: str) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind.kind in ("float", "double"):
        if isinstance(value, str) and value in _FLOATS:
            return _FLOATS[value]
        _check(is_number, where, "a number", value)
        return value
    if kind.kind in ("int", "long"):
        bits = 31 if kind.kind == "int" else 63
        _check(
            is_number and not isinstance(value, float) and -(1 << bits) <= value < 1 << bits,
            where,
            f"a whole number of {bits + 1} bits",
            value,
        )
    elif kind.kind == "null":
        _check(value is None, where, "null", value)
    elif kind.kind == "boolean":
        _check(isinstance(value, bool), where, "true or false", value)
    elif kind.kind == "enum":
        _check(isinstance(value, str) and value in kind.symbols, where, f"one of {', '.join(kind.symbols)}", value)
    else:
        _check(isinstance(value, str), where, "a string", value)
    return value


def _record(kind: AvroType, value: Any, where: str) -> dict[str, Any]:
    _check(isinstance(value, dict), where, "an object", value)
    named = value.get("-type", kind.name)
    _check(named == kind.name, where, f"a {kind.name}", value)
    types = {field.name: field.type for field in kind.fields}
    given = {name: item for name, item in value.items() if name != "-type" or "-type" in types}
    for name in given:
        if name not in types:
            raise ValueError(f"{where} has no field {name!r}. The fields are {', '.join(types)}")
    found = {name: from_plain(types[name], item, f"{where}.{name}") for name, item in given.items()}
    missing = [
        field.name
        for field in kind.fields
        if field.name not in given and field.default_bytes is None and not _may_be_null(field.type)
    ]
    if missing:
        raise ValueError(f"{where} has no {', '.join(map(repr, missing))}, which the schema demands")
    return found


def _may_be_null(kind: AvroType) -> bool:
    return kind.kind == "null" or any(branch.kind == "null" for branch in kind.branches)


def _branch(kind: AvroType, value: Any, where: str) -> Any:
    refusals: dict[str, str] = {}
    for branch in kind.branches:
        try:
            found = from_plain(branch, value, where)
        except ValueError as error:
            refusals[branch.kind] = str(error)
        else:
            return (branch.name, found) if branch.kind == "record" else found
    wanted = [text for name, text in refusals.items() if name != "null"]
    raise ValueError(wanted[0] if len(wanted) == 1 else f"{where} fits no branch of the union: {', '.join(wanted)}")


def _logical(read: Callable[[Any], Any], name: str, value: Any, where: str) -> Any:
    try:
        return read(value)
    except (ValueError, TypeError, AttributeError, decimal.InvalidOperation):
        _check(False, where, _WANTED.get(name, "a time in ISO 8601, or a number"), value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _decimal(value: Any) -> decimal.Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError
    found = decimal.Decimal(value)
    if not found.is_finite():
        raise ValueError
    return found


def _uuid(value: Any) -> uuid.UUID:
    return uuid.UUID(value)


def _duration(value: Any) -> AvroDuration:
    if not isinstance(value, list) or not all(map(_is_whole, value)):
        raise TypeError
    return AvroDuration(*value)


def _iso(kind: Any) -> Callable[[Any], Any]:
    return lambda value: value if _is_whole(value) else kind.fromisoformat(value)


def _whole(value: Any) -> int:
    if not _is_whole(value):
        raise TypeError
    return int(value)


_LOGICAL: Final[dict[str, Callable[[Any], Any]]] = {
    "decimal": _decimal,
    "uuid": _uuid,
    "duration": _duration,
    "date": _iso(datetime.date),
    "time-millis": _iso(datetime.time),
    "time-micros": _iso(datetime.time),
    "timestamp-millis": _iso(datetime.datetime),
    "timestamp-micros": _iso(datetime.datetime),
    "local-timestamp-millis": _iso(datetime.datetime),
    "local-timestamp-micros": _iso(datetime.datetime),
    "timestamp-nanos": _whole,
    "local-timestamp-nanos": _whole,
}
_WANTED: Final = {
    "decimal": 'a decimal as text, such as "12.50"',
    "uuid": "a UUID as text",
    "duration": "a list of months, days and milliseconds",
    "date": "a date such as 2026-01-31, or a number of days",
    "timestamp-nanos": "a number of nanoseconds",
    "local-timestamp-nanos": "a number of nanoseconds",
}
