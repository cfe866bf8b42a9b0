"""The hash function XXH3-64, which the metadata hash needs (KIP-1101).

The published algorithm (https://github.com/Cyan4973/xxHash, specification in its ``doc`` folder), checked against the
library that Kafka uses (``hash4j``). It hashes a few kilobytes when a topic changes, so speed does not matter.
"""

from __future__ import annotations

import struct
from typing import Final

__all__ = ["xxh3_64"]

_M64: Final = (1 << 64) - 1
_P32_1: Final = 0x9E3779B1
_P32_2: Final = 0x85EBCA77
_P32_3: Final = 0xC2B2AE3D
_P64_1: Final = 0x9E3779B185EBCA87
_P64_2: Final = 0xC2B2AE3D27D4EB4F
_P64_3: Final = 0x165667B19E3779F9
_P64_4: Final = 0x85EBCA77C2B2AE63
_P64_5: Final = 0x27D4EB2F165667C5
_PRIME_MX1: Final = 0x165667919E3779F9
_PRIME_MX2: Final = 0x9FB21C651E98DF25

_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE: Final = 64
_SECRET_STEP: Final = 8
_STRIPES_PER_BLOCK: Final = (192 - _STRIPE) // _SECRET_STEP


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _fold(a: int, b: int) -> int:
    product = a * b
    return (product & _M64) ^ (product >> 64)


def _avalanche(value: int) -> int:
    value ^= value >> 37
    value = value * _PRIME_MX1 & _M64
    return value ^ (value >> 32)


def _avalanche_64(value: int) -> int:
    value ^= value >> 33
    value = value * _P64_2 & _M64
    value ^= value >> 29
    value = value * _P64_3 & _M64
    return value ^ (value >> 32)


def _rotl(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _M64


def _mix16(data: bytes, at: int, secret_at: int) -> int:
    return _fold(_u64(data, at) ^ _u64(_SECRET, secret_at), _u64(data, at + 8) ^ _u64(_SECRET, secret_at + 8))


def xxh3_64(data: bytes) -> int:
    """Return the XXH3 hash of ``data``, an unsigned 64-bit number."""
    length = len(data)
    if length <= 16:
        return _short(data, length)
    if length <= 128:
        total = length * _P64_1
        for step in range((length - 1) // 32, -1, -1):
            total += _mix16(data, 16 * step, 32 * step) + _mix16(data, length - 16 * (step + 1), 32 * step + 16)
        return _avalanche(total & _M64)
    if length <= 240:
        total = length * _P64_1 + sum(_mix16(data, 16 * step, 16 * step) for step in range(8))
        total = _avalanche(total & _M64)
        total += sum(_mix16(data, 16 * step, 16 * (step - 8) + 3) for step in range(8, length // 16))
        total += _mix16(data, length - 16, 136 - 17)
        return _avalanche(total & _M64)
    return _long(data, length)


def _short(data: bytes, length: int) -> int:
    if length > 8:
        first = (_u64(_SECRET, 24) ^ _u64(_SECRET, 32)) ^ _u64(data, 0)
        last = (_u64(_SECRET, 40) ^ _u64(_SECRET, 48)) ^ _u64(data, length - 8)
        swapped = int.from_bytes(first.to_bytes(8, "little"), "big")
        return _avalanche((length + swapped + last + _fold(first, last)) & _M64)
    if length >= 4:
        both = _u32(data, length - 4) + (_u32(data, 0) << 32)
        value = both ^ (_u64(_SECRET, 8) ^ _u64(_SECRET, 16))
        value ^= _rotl(value, 49) ^ _rotl(value, 24)
        value = value * _PRIME_MX2 & _M64
        value ^= (value >> 35) + length
        value = value * _PRIME_MX2 & _M64
        return value ^ (value >> 28)
    if length:
        both = data[0] << 16 | data[length >> 1] << 24 | data[length - 1] | length << 8
        return _avalanche_64(both ^ (_u32(_SECRET, 0) ^ _u32(_SECRET, 4)))
    return _avalanche_64(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _long(data: bytes, length: int) -> int:
    lanes = [_P32_3, _P64_1, _P64_2, _P64_3, _P64_4, _P32_2, _P64_5, _P32_1]
    whole = (length - 1) // _STRIPE
    for stripe in range(whole):
        place = stripe % _STRIPES_PER_BLOCK
        _accumulate(lanes, data, stripe * _STRIPE, place * _SECRET_STEP)
        if place == _STRIPES_PER_BLOCK - 1:
            for index, key in enumerate(struct.unpack_from("<8Q", _SECRET, 192 - _STRIPE)):
                lane = lanes[index]
                lanes[index] = (lane ^ (lane >> 47) ^ key) * _P32_1 & _M64
    _accumulate(lanes, data, length - _STRIPE, 192 - _STRIPE - 7)
    total = length * _P64_1
    for index in range(4):
        place = 11 + 16 * index
        total += _fold(lanes[2 * index] ^ _u64(_SECRET, place), lanes[2 * index + 1] ^ _u64(_SECRET, place + 8))
    return _avalanche(total & _M64)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    values = struct.unpack_from("<8Q", data, at)
    for index, key in enumerate(struct.unpack_from("<8Q", _SECRET, secret_at)):
        value = values[index]
        mixed = value ^ key
        lanes[index ^ 1] = (lanes[index ^ 1] + value) & _M64
        lanes[index] = (lanes[index] + (mixed & 0xFFFFFFFF) * (mixed >> 32)) & _M64
