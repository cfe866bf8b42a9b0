"""The serializers of single values, beside those of ``confluent_kafka.serialization``."""

from __future__ import annotations

import importlib
import math
from typing import Any

import pytest

import pyconsumer.schemas as ours
from pyconsumer.errors import SerializationError
from pyconsumer.schemas import MessageField, SerializationContext

VALUE = SerializationContext("orders", MessageField.VALUE)

#: kind, arguments, value, bytes
GOOD = [
    ("String", (), "tea", b"tea"),
    ("String", (), "", b""),
    ("String", (), "caf\xe9 \U0001f375", None),
    ("String", ("utf_16_be",), "tea", b"\0t\0e\0a"),
    ("String", ("latin-1",), "\xe9", b"\xe9"),
    ("Integer", (), 0, bytes(4)),
    ("Integer", (), True, b"\0\0\0\1"),
    ("Integer", (), -1, b"\xff\xff\xff\xff"),
    ("Integer", (), 2**31 - 1, b"\x7f\xff\xff\xff"),
    ("Integer", (), -(2**31), b"\x80\0\0\0"),
    ("Double", (), 1.5, b"\x3f\xf8" + bytes(6)),
    ("Double", (), 3, b"\x40\x08" + bytes(6)),
    ("Double", (), -0.0, b"\x80" + bytes(7)),
    ("Double", (), math.inf, b"\x7f\xf0" + bytes(6)),
]
BAD_VALUES = [
    ("String", ("ascii",), "\xe9", True),
    ("String", (), "\ud800", True),
    ("String", (), b"tea", False),
    ("String", (), 5, False),
    ("String", ("no-such-codec",), "tea", False),
    ("Integer", (), 2**31, True),
    ("Integer", (), 1.0, True),
    ("Integer", (), "1", True),
    ("Double", (), "1", True),
    ("Double", (), 10**400, True),
]
BAD_BYTES = [
    ("String", (), b"\xff", True),
    ("String", ("no-such-codec",), b"tea", False),
    ("String", (), 5, False),
    ("Integer", (), b"", True),
    ("Integer", (), bytes(3), True),
    ("Integer", (), bytes(8), True),
    ("Integer", (), 5, False),
    ("Double", (), bytes(4), True),
]


def pair(kind: str, arguments: tuple[Any, ...], module: Any = ours) -> tuple[Any, Any]:
    return getattr(module, f"{kind}Serializer")(*arguments), getattr(module, f"{kind}Deserializer")(*arguments)


def confluents() -> Any:
    pytest.importorskip("confluent_kafka", reason="needs confluent-kafka, which pyconsumer[peers] installs")
    return importlib.import_module("confluent_kafka.serialization")


@pytest.mark.parametrize(("kind", "arguments", "value", "data"), GOOD)
def test_values_become_bytes_and_come_back(
    kind: str, arguments: tuple[Any, ...], value: Any, data: bytes | None
) -> None:
    write, read = pair(kind, arguments)
    written = write(value, VALUE)
    assert written == write(value)
    assert data is None or written == data
    assert read(written) == read(written, VALUE) == read(bytearray(written)) == read(memoryview(written)) == value
    assert (write(None), read(None, VALUE)) == (None, None)


@pytest.mark.parametrize(("kind", "arguments", "value", "data"), GOOD)
def test_confluents_classes_write_and_read_the_same(
    kind: str, arguments: tuple[Any, ...], value: Any, data: bytes | None
) -> None:
    write, read = pair(kind, arguments)
    their_write, their_read = pair(kind, arguments, confluents())
    written = write(value)
    assert written == their_write(value)
    assert type(read(their_write(value))) is type(their_read(written))
    assert read(their_write(value)) == their_read(written) == value
    assert vars(write) == vars(their_write)


@pytest.mark.parametrize(("kind", "arguments", "value", "is_theirs"), BAD_VALUES)
def test_a_value_that_cannot_be_written_is_an_error(
    kind: str, arguments: tuple[Any, ...], value: Any, is_theirs: bool
) -> None:
    with pytest.raises(SerializationError) as raised:
        pair(kind, arguments)[0](value, VALUE)
    assert str(raised.value)
    their = confluents()
    with pytest.raises(Exception) as other:  # its other errors are Python's own, see docs/schemas.md
        pair(kind, arguments, their)[0](value)
    assert isinstance(other.value, their.SerializationError) is is_theirs


@pytest.mark.parametrize(("kind", "arguments", "data", "is_theirs"), BAD_BYTES)
def test_bytes_that_cannot_be_read_are_an_error(
    kind: str, arguments: tuple[Any, ...], data: Any, is_theirs: bool
) -> None:
    with pytest.raises(SerializationError) as raised:
        pair(kind, arguments)[1](data, VALUE)
    assert str(raised.value)
    their = confluents()
    with pytest.raises(Exception) as other:  # as above
        pair(kind, arguments, their)[1](data)
    assert isinstance(other.value, their.SerializationError) is is_theirs


def test_a_serializer_of_your_own_has_a_base() -> None:
    class Upper(ours.Serializer):
        def __call__(self, obj: Any, ctx: Any = None) -> bytes:
            return str(obj).upper().encode()

    assert Upper()("tea", VALUE) == b"TEA"
    with pytest.raises(NotImplementedError):
        ours.Serializer()(1)
    with pytest.raises(NotImplementedError):
        ours.Deserializer()(b"")
