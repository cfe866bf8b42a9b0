"""Serializers and deserializers of single values, as ``confluent_kafka.serialization`` has them. They need no registry.

Rules

1. Each is called with a value and, if you like, its context, which is ignored. None stays None.
2. Each value that cannot be written or read is a ``SerializationError``, and no other error.
3. They are also ``value_serializer``, ``value_deserializer`` and the like of our clients.
"""

from __future__ import annotations

import struct
from typing import Any

from pyconsumer.errors import SerializationError
from pyconsumer.schemas.subjects import SerializationContext

__all__ = [
    "Deserializer",
    "DoubleDeserializer",
    "DoubleSerializer",
    "IntegerDeserializer",
    "IntegerSerializer",
    "Serializer",
    "StringDeserializer",
    "StringSerializer",
]


class Serializer:
    """The base of serializers, for one of your own: define ``__call__``."""

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """Return the bytes of an object. None returns None.

        Raises:
            SerializationError: the object cannot be written.
        """
        raise NotImplementedError


class Deserializer:
    """The base of deserializers, for one of your own: define ``__call__``."""

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> Any:
        """Return the object of some bytes. None returns None.

        Raises:
            SerializationError: the bytes cannot be read.
        """
        raise NotImplementedError


class StringSerializer(Serializer):
    """Writes text.

    Args:
        codec: the encoding, one of Python's.
    """

    def __init__(self, codec: str = "utf_8") -> None:
        self.codec = codec

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """Return the bytes of a text.

        Raises:
            SerializationError: it is no text, or the encoding cannot express it.
        """
        if obj is None:
            return None
        if not isinstance(obj, str):
            raise SerializationError(f"{type(obj).__name__} is no text")
        try:
            return obj.encode(self.codec)
        except (UnicodeError, LookupError) as error:
            raise SerializationError(str(error)) from error


class StringDeserializer(Deserializer):
    """Reads text.

    Args:
        codec: the encoding, one of Python's.
    """

    def __init__(self, codec: str = "utf_8") -> None:
        self.codec = codec

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> str | None:
        """Return the text of some bytes.

        Raises:
            SerializationError: they are no text in this encoding.
        """
        if value is None:
            return None
        try:
            return str(value, self.codec)
        except (UnicodeError, LookupError, TypeError) as error:
            raise SerializationError(str(error)) from error


class IntegerSerializer(Serializer):
    """Writes whole numbers as four bytes, the highest first, as Java's does."""

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """Return the bytes of a number.

        Raises:
            SerializationError: it is no whole number of 32 bits.
        """
        return _packed(">i", obj)


class IntegerDeserializer(Deserializer):
    """Reads whole numbers of four bytes, as :class:`IntegerSerializer` writes them."""

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> int | None:
        """Return the number of some bytes.

        Raises:
            SerializationError: they are not four.
        """
        found: int | None = _unpacked(">i", value)
        return found


class DoubleSerializer(Serializer):
    """Writes floating point numbers as eight bytes, the highest first, as Java's does."""

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """Return the bytes of a number.

        Raises:
            SerializationError: it is no number, or too large.
        """
        return _packed(">d", obj)


class DoubleDeserializer(Deserializer):
    """Reads floating point numbers of eight bytes, as :class:`DoubleSerializer` writes them."""

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> float | None:
        """Return the number of some bytes.

        Raises:
            SerializationError: they are not eight.
        """
        found: float | None = _unpacked(">d", value)
        return found


def _packed(form: str, value: Any) -> bytes | None:
    if value is None:
        return None
    try:
        return struct.pack(form, value)
    except (struct.error, OverflowError) as error:
        raise SerializationError(f"{value!r:.100} cannot be written: {error}") from error


def _unpacked(form: str, data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return struct.unpack(form, data)[0]
    except (struct.error, TypeError) as error:
        raise SerializationError(str(error)) from error
