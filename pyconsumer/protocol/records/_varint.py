"""Zigzag varints, as records of format v2 use them for lengths and deltas."""

from __future__ import annotations

from typing import Final

__all__ = ["SMALL_VARINTS", "DamageError", "encode_varint", "read_raw_varint", "zigzag"]


class DamageError(Exception):
    """Bytes that no record can have. Callers turn it into ``CorruptRecordError`` with partition and offset."""


def read_raw_varint(data: bytes, position: int, max_bits: int = 64) -> tuple[int, int]:
    """Read one base-128 number without undoing the zigzag: ``(number, position after it)``.

    Raises:
        DamageError: the number does not end before the data does, or has more than ``max_bits`` bits.
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
    if number >> max_bits:
        raise DamageError(f"a variable-length number is larger than {max_bits} bits")
    return number, position


def zigzag(number: int) -> int:
    """Map a signed number to an unsigned one: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return number << 1 if number >= 0 else ((-number) << 1) - 1


def _encode_unsigned(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


#: The encoding of 0, 1, 2, ...: nearly every length and delta of a record is found here.
SMALL_VARINTS: Final[tuple[bytes, ...]] = (
    *[bytes((n << 1,)) for n in range(64)],
    *[bytes((n << 1 & 0x7F | 0x80, n >> 6)) for n in range(64, 2048)],
)


def encode_varint(number: int) -> bytes:
    """Encode a signed number."""
    if 0 <= number < 0x2000:
        if number < 64:
            return SMALL_VARINTS[number]
        return bytes((number << 1 & 0x7F | 0x80, number >> 6))
    if 0 <= number < 0x100000:
        return bytes((number << 1 & 0x7F | 0x80, number >> 6 & 0x7F | 0x80, number >> 13))
    return _encode_unsigned(zigzag(number))
