"""Computes CRC-32C, the checksum of record batches. Message sets of format v0 and v1 use ``zlib.crc32``.

The compiled decoder has its own. Without it the first of these serves: the package ``crc32c``, which is as fast and is
installed where it has wheels, ``crcmod``, which installs without a compiler, numpy, and a table in Python. Numpy is
there for Spark's executors, which have it, but perhaps no wheel of ours. crcmod is logged, and the slow ones warn once.
State: the chosen function, and its tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from pyconsumer import background_log
from pyconsumer.background_log import Log
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.records.native_module import compiled

__all__ = ["crc32c", "implementation", "warn_if_slow"]


_log = Log("pyconsumer.records")

_SLOW_BYTES_PER_SECOND: Final = 100e6
_POLYNOMIAL: Final = 0x82F63B78  # Castagnoli, reflected


@cache
def _table() -> tuple[int, ...]:
    entries = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ _POLYNOMIAL if value & 1 else value >> 1
        entries.append(value)
    return tuple(entries)


def _update_by_table(register: int, data: Buffer) -> int:
    table = _table()
    for byte in data:
        register = register >> 8 ^ table[(register ^ byte) & 0xFF]
    return register


def _by_table(data: Buffer) -> int:
    return _update_by_table(0xFFFFFFFF, data) ^ 0xFFFFFFFF


@cache
def _lane_tables(numpy: Any, lane_bytes: int) -> tuple[Any, tuple[tuple[int, ...], ...]]:
    """Return the byte table as an array, and for each byte of a register its value after ``lane_bytes`` zero bytes."""
    array = numpy.array(_table(), dtype=numpy.uint32)
    registers = numpy.concatenate([numpy.arange(256, dtype=numpy.uint32) << (8 * i) for i in range(4)])
    for _ in range(lane_bytes):
        registers = registers >> 8 ^ array[registers & 0xFF]
    return array, tuple(tuple(part.tolist()) for part in registers.reshape(4, 256))


def _by_numpy(numpy: Any) -> Callable[[Buffer], int]:
    """Return a function that computes many lanes of the data in parallel, and combines them: CRC is linear."""

    def checksum(data: Buffer) -> int:
        size = len(data)
        if size < 512:
            return _by_table(data)
        # One byte of all lanes takes about as long as combining ten lanes.
        lane_bytes = 32 if size < 1 << 15 else 128 if size < 1 << 18 else 512
        lanes = size // lane_bytes
        table, (zero0, zero1, zero2, zero3) = _lane_tables(numpy, lane_bytes)
        whole = numpy.frombuffer(data, dtype=numpy.uint8, count=lanes * lane_bytes)
        columns = numpy.ascontiguousarray(whole.reshape(lanes, lane_bytes).T)
        registers = numpy.zeros(lanes, dtype=numpy.uint32)
        for column in columns:
            registers = registers >> 8 ^ table[(registers ^ column) & 0xFF]
        register = 0xFFFFFFFF
        for lane in registers.tolist():
            register = (
                zero0[register & 0xFF]
                ^ zero1[register >> 8 & 0xFF]
                ^ zero2[register >> 16 & 0xFF]
                ^ zero3[register >> 24]
                ^ lane
            )
        return _update_by_table(register, memoryview(data)[lanes * lane_bytes :]) ^ 0xFFFFFFFF

    return checksum


def _choose() -> tuple[Callable[[Buffer], int], str]:
    by_decoder = compiled("crc32c")
    if by_decoder is not None:
        return by_decoder, "the record decoder"
    try:
        from crc32c import crc32c as hardware
    except ImportError:
        pass
    else:
        return hardware, "crc32c"
    try:
        from crcmod.crcmod import _usingExtension
        from crcmod.predefined import mkPredefinedCrcFun
    except ImportError:
        pass
    else:
        function = mkPredefinedCrcFun("crc-32c")
        if _usingExtension:
            return function, "crcmod"
        name = "crcmod (without its compiled part)"
        try:
            import numpy
        except ImportError:
            return function, name
        return _by_numpy(numpy), "numpy"
    try:
        import numpy
    except ImportError:
        return _by_table, "python"
    return _by_numpy(numpy), "numpy"


def warn_if_slow(function: Callable[[Buffer], int], name: str) -> float:
    """Measure a checksum function and warn if it is slower than 100 MB/s. Return bytes per second.

    The processor time of this thread counts, so that a busy machine causes no warning.
    """
    sample = bytes(range(256)) * 256
    start = time.thread_time()
    function(sample)
    rate = len(sample) / max(time.thread_time() - start, 1e-9)
    if rate < _SLOW_BYTES_PER_SECOND:
        background_log.warn(
            f"CRC-32C is computed by {name} at {rate / 1e6:.1f} MB/s, which limits the speed of every consumer and"
            " producer: pip install crc32c, or set check_crcs=False if you trust the transport",
            RuntimeWarning,
            stacklevel=4,
        )
    return rate


_chosen: tuple[Callable[[Buffer], int], str] | None = None


def implementation() -> tuple[Callable[[Buffer], int], str]:
    """Return the function that computes checksums, and its origin. The first call warns if the function is slow.

    The function is chosen at the first call, because importing crc32c takes as long as all other imports of this
    package.
    """
    global _chosen
    if _chosen is None:
        _chosen = _choose()
        if _chosen[1] == "crcmod":
            _log.info("CRC-32C is computed by crcmod, as the compiled decoder and crc32c are not installed")
        elif _chosen[1] not in ("the record decoder", "crc32c"):
            warn_if_slow(*_chosen)
    return _chosen


def crc32c(data: Buffer) -> int:
    """Return the CRC-32C (Castagnoli) of a bytes-like object, as an unsigned 32-bit number."""
    return (_chosen or implementation())[0](data)
