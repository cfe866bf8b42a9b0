"""CRC-32C by each implementation."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable

import crcmod.predefined
import pytest

from pyconsumer.protocol.records import crc

try:
    import numpy
except ImportError:  # comes with pyspark's packages
    numpy = None

KNOWN = [
    (b"", 0),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
]
IMPLEMENTATIONS: dict[str, Callable[[bytes | bytearray | memoryview], int]] = {
    "chosen": crc.crc32c,
    "crcmod": crcmod.predefined.mkPredefinedCrcFun("crc-32c"),
    "table": crc._by_table,
}
if numpy is not None:
    IMPLEMENTATIONS["numpy"] = crc._by_numpy(numpy)


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_known_checksums(name: str) -> None:
    for data, expected in KNOWN:
        assert IMPLEMENTATIONS[name](data) == expected
        assert IMPLEMENTATIONS[name](memoryview(data)) == expected


def test_all_implementations_agree() -> None:
    source = random.Random(5)
    for size in (1, 511, 512, 513, 4097, 32_767, 32_768, 70_001, 262_144, 300_003):
        data = source.randbytes(size)
        assert len({function(data) for function in IMPLEMENTATIONS.values()}) == 1


def test_a_slow_implementation_warns_once_with_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter((10.0, 10.0065536))
    monkeypatch.setattr(crc.time, "perf_counter", lambda: next(ticks))
    monkeypatch.setattr(crc, "_chosen", None)
    monkeypatch.setattr(crc, "_choose", lambda: (crc._by_table, "a slow one"))
    with pytest.warns(RuntimeWarning, match=r"by a slow one at 10\.0 MB/s.*pip install crc32c"):
        assert crc.crc32c(b"123456789") == 0xE3069283
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert crc.crc32c(b"123456789") == 0xE3069283


@pytest.mark.skipif(numpy is None, reason="needs numpy")
def test_the_fastest_implementation_that_is_there_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [crc._choose()[1]]
    for module in ("crc32c", "crcmod.predefined", "numpy"):
        monkeypatch.setitem(sys.modules, module, None)
        function, name = crc._choose()
        assert function(b"123456789") == 0xE3069283
        names.append(name)
    # crcmod is passed over for numpy where it was installed without a compiler.
    assert names in (["crc32c", "crcmod", "numpy", "python"], ["crc32c", "numpy", "numpy", "python"])


def test_a_fast_implementation_does_not_warn() -> None:
    assert crc.warn_if_slow(lambda data: 0, "nothing") > 100e6
