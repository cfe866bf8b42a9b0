"""Varints and UUIDs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyconsumer.errors import ProtocolError
from pyconsumer.protocol import primitives as p


def read_uvarint(data: bytes, position: int) -> tuple[int, int]:
    """Read as the generated decoders do."""
    try:
        first = data[position]
        return (first, position + 1) if first < 128 else p.read_uvarint_tail(data, position + 1, first)
    except IndexError:
        raise ProtocolError("the data ends inside a varint") from None


@given(st.integers(0, 0xFFFFFFFF))
def test_unsigned_varints_come_back(value: int) -> None:
    data = p.encode_uvarint(value)

    assert read_uvarint(b"x" + data, 1) == (value, 1 + len(data))
    assert len(data) == max(1, -(-value.bit_length() // 7))


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_zigzag_varints_come_back(value: int) -> None:
    data = p.encode_varint(value)

    assert p.read_varint(data, 0) == (value, len(data))


@pytest.mark.parametrize(
    ("value", "data"), [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (-65, "8101")]
)
def test_zigzag_varints_byte_for_byte(value: int, data: str) -> None:
    assert p.encode_varint(value).hex() == data


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x80\0"]
)
def test_invalid_varints_are_rejected(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_uvarint(data, 0)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 11])
def test_invalid_zigzag_varints_are_rejected(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        p.read_varint(data, 0)


def test_a_negative_unsigned_varint_is_rejected() -> None:
    with pytest.raises(ProtocolError, match="-3"):
        p.encode_uvarint(-3)


@given(st.binary(min_size=16, max_size=16))
def test_uuids_come_back(value: bytes) -> None:
    assert p.uuid_from_str(p.uuid_to_str(value)) == value


def test_a_uuid_is_printed_as_by_kafka() -> None:
    # java: new Uuid(0x0123456789abcdefL, 0xfedcba9876543210L).toString()
    assert p.uuid_to_str(bytes.fromhex("0123456789abcdeffedcba9876543210")) == "ASNFZ4mrze_-3LqYdlQyEA"
    assert p.uuid_to_str(p.ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize("text", ["", "AAAA", "é" * 22, "AAAAAAAAAAAAAAAAAAAAAA=", "!" * 22])
def test_an_invalid_uuid_is_rejected(text: str) -> None:
    with pytest.raises(ValueError):
        p.uuid_from_str(text)
