"""Varints with zigzag, the lengths and deltas of records of format v2."""

from __future__ import annotations

from typing import Final

__all__ = ["SMALL_VARINTS", "DamageError", "encode_varint", "read_raw_varint", "zigzag"]


class DamageError(Exception):
    """Data that cannot be part of a record.

    Callers raise ``CorruptRecordError`` instead, with partition and offset.
    """


def read_raw_varint(data: bytes, position: int, max_bits: int = 64) -> tuple[int, int]:
    """Read a base-128 number, without decoding its zigzag form. Return ``(number, position after it)``.

    As in Java, the last possible byte of a number may have bits beyond ``max_bits``. They are dropped.

    Raises:
        DamageError: the data ends inside the number, or the number has more bytes than ``max_bits`` need.
    """
    shift = number = 0
    try:
        while True:
            byte = data[position]
            position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= max_bits:
                raise DamageError(f"a variable-length number is longer than {max_bits} bits")
    except IndexError:
        raise DamageError("a variable-length number is cut off") from None
    return number & (1 << max_bits) - 1, position


def zigzag(number: int) -> int:
    """Map a signed number to an unsigned one: 0, -1, 1, -2 are mapped to 0, 1, 2, 3."""
    return number << 1 if number >= 0 else ((-number) << 1) - 1


def _encode_unsigned(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


#: The encodings of 0, 1, 2, ... 2047, which include most lengths and deltas.
SMALL_VARINTS: Final[tuple[bytes, ...]] = (
    *[bytes((n << 1,)) for n in range(64)],
    *[bytes((n << 1 & 0x7F | 0x80, n >> 6)) for n in range(64, 2048)],
)


def encode_varint(number: int) -> bytes:
    """Encode a signed number as a varint with zigzag."""
    if 0 <= number < 0x2000:
        if number < 64:
            return SMALL_VARINTS[number]
        return bytes((number << 1 & 0x7F | 0x80, number >> 6))
    if 0 <= number < 0x100000:
        return bytes((number << 1 & 0x7F | 0x80, number >> 6 & 0x7F | 0x80, number >> 13))
    return _encode_unsigned(zigzag(number))
