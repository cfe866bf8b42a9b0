"""Defaults of fields: from the JSON of a schema to Avro bytes, with the specification's table of types."""

from __future__ import annotations

import math
import struct
from typing import Any, Final

from pyconsumer.protocol.avro.types import NO_DEFAULT, AvroType

__all__ = ["encode_default", "encode_long"]

_SCALARS: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "enum")
_RANGES: Final = {"int": 1 << 31, "long": 1 << 63}
_MAX_LEVELS: Final = 64
#: The most values in one default. Defaults of fields inside it may multiply.
_MAX_VALUES: Final = 100_000


def encode_long(value: int) -> bytes:
    """Return a number as Avro writes it: zigzag, seven bits a byte."""
    number = ((value << 1) ^ (value >> 63)) & 0xFFFFFFFFFFFFFFFF
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def encode_default(kind: AvroType, value: Any) -> bytes:
    """Return the Avro bytes of a default.

    Raises:
        ValueError: the JSON value is none of this type, or a default of endless size.
    """
    return _Encoder().encode(kind, value, 0)


class _TooLargeError(ValueError):
    """A default is nested too deep, or has too many values: no other branch of a union would help."""


class _Encoder:
    """Encodes one default, and counts its values."""

    def __init__(self) -> None:
        self._left = _MAX_VALUES

    def encode(self, kind: AvroType, value: Any, level: int) -> bytes:
        self._left -= 1
        if level > _MAX_LEVELS or self._left < 0:
            raise _TooLargeError(f"it has more than {_MAX_LEVELS} levels or {_MAX_VALUES} values")
        found = _scalar(kind, value) if kind.kind in _SCALARS else self._nested(kind, value, level + 1)
        if found is None:
            raise ValueError(f"{value!r} is no {kind.label}")
        return found

    def _nested(self, kind: AvroType, value: Any, level: int) -> bytes | None:
        name = kind.kind
        if name == "union":
            for index, branch in enumerate(kind.branches):
                try:
                    return encode_long(index) + self.encode(branch, value, level)
                except _TooLargeError:
                    raise
                except ValueError:
                    continue
            return None
        if name == "array":
            if not isinstance(value, list):
                return None
            items = b"".join(self.encode(kind.items, item, level) for item in value)
            return (encode_long(len(value)) + items if value else b"") + b"\0"
        if not isinstance(value, dict):
            return None
        found = bytearray()
        if name == "map":
            found += encode_long(len(value)) if value else b""
            for key, item in value.items():
                data = _utf8(key)
                if data is None:
                    raise ValueError(f"{key!r} is no text")
                found += encode_long(len(data)) + data + self.encode(kind.items, item, level)
            return bytes(found) + b"\0"
        for field in kind.fields:
            item = value.get(field.name, field.default)
            if item is NO_DEFAULT:
                raise ValueError(f"it has no {field.name!r}, and the field has no default")
            found += self.encode(field.type, item, level)
        return bytes(found)


def _scalar(kind: AvroType, value: Any) -> bytes | None:
    name = kind.kind
    if name == "null":
        return b"" if value is None else None
    if name == "boolean":
        return bytes([value]) if isinstance(value, bool) else None
    if name in _RANGES:
        limit = _RANGES[name]
        return encode_long(value) if type(value) is int and -limit <= value < limit else None
    if name in ("float", "double"):
        if type(value) not in (int, float):
            return None
        try:
            return struct.pack("<f" if name == "float" else "<d", value) if math.isfinite(value) else None
        except (OverflowError, struct.error):
            return None
    if name == "string":
        data = _utf8(value)
        return None if data is None else encode_long(len(data)) + data
    if name in ("bytes", "fixed"):
        data = _latin1(value)
        if data is None or (name == "fixed" and len(data) != kind.size):
            return None
        return data if name == "fixed" else encode_long(len(data)) + data
    return encode_long(kind.symbols.index(value)) if isinstance(value, str) and value in kind.symbols else None


def _utf8(value: Any) -> bytes | None:
    try:
        return value.encode() if isinstance(value, str) else None
    except UnicodeEncodeError:
        return None


def _latin1(value: Any) -> bytes | None:
    try:
        return value.encode("latin-1") if isinstance(value, str) else None
    except UnicodeEncodeError:
        return None
