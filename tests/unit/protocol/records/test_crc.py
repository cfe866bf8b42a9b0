"""CRC-32C by each implementation."""

from __future__ import annotations

import random
import sys
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path

import crcmod.predefined
import pytest

from pyconsumer.protocol.records import crc
from tests.support.process import run

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
    monkeypatch.setattr(crc.time, "thread_time", lambda: next(ticks))
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
    assert names in (["the record decoder"], ["crc32c"], ["crcmod"]), "the last two without a compiler"
    names.clear()
    monkeypatch.setattr(crc, "compiled", lambda name: None)
    for module in ("nothing", "crc32c", "crcmod.predefined", "numpy"):
        monkeypatch.setitem(sys.modules, module, None)
        function, name = crc._choose()
        assert function(b"123456789") == 0xE3069283
        names.append(name)
    # numpy is preferred to crcmod where it was installed without a compiler.
    assert names in (["crc32c", "crcmod", "numpy", "python"], ["crc32c", "numpy", "numpy", "python"])


def test_without_crc32c_and_the_compiled_decoder_crcmod_serves_and_is_logged_once() -> None:
    program = """
import logging, sys
sys.modules["crc32c"] = sys.modules["numpy"] = None
logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s")
from tests.unit.protocol.records.helpers import batch, take_all
from pyconsumer.protocol import records
assert records.IMPLEMENTATION == "pure"
assert [record.offset for record in take_all(batch(0, 5) + batch(5, 5))] == list(range(10))
from pyconsumer.protocol.records.compression import describe_codecs
print(describe_codecs()[-1])
"""
    done = run([sys.executable, "-W", "ignore", "-c", program], env={"PYCONSUMER_PURE": "1"}, timeout_s=60).check()
    assert done.stdout.startswith("CRC-32C is computed by crcmod")
    if "without" not in done.stdout:  # crcmod itself was installed without a compiler
        expected = "CRC-32C is computed by crcmod, as the compiled decoder and crc32c are not installed"
        assert done.stderr.splitlines() == [f"pyconsumer.records INFO {expected}"]


@pytest.mark.parametrize(
    ("environment", "is_demanded"),
    [
        ({"sys_platform": "linux", "platform_machine": "x86_64"}, True),
        ({"sys_platform": "linux", "platform_machine": "aarch64"}, True),
        ({"sys_platform": "darwin", "platform_machine": "x86_64"}, True),
        ({"sys_platform": "darwin", "platform_machine": "arm64"}, True),
        ({"sys_platform": "linux", "platform_machine": "riscv64"}, False),
        ({"sys_platform": "linux", "platform_machine": "armv7l"}, False),
        ({"sys_platform": "linux", "platform_machine": "s390x"}, False),
        ({"sys_platform": "freebsd14", "platform_machine": "amd64"}, False),
        ({"sys_platform": "linux", "platform_machine": "x86_64", "platform_python_implementation": "PyPy"}, False),
    ],
    ids=lambda value: "-".join(value.values()) if isinstance(value, dict) else "",
)
def test_crc32c_is_required_where_it_has_wheels(environment: dict[str, str], is_demanded: bool) -> None:
    requirements = pytest.importorskip("packaging.requirements")
    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {found.name: found for found in map(requirements.Requirement, project["dependencies"])}
    given = {"platform_python_implementation": "CPython", **environment}
    assert wanted["crc32c"].marker.evaluate(given) is is_demanded
    assert wanted["crcmod"].marker is None, "what serves elsewhere"


def test_a_fast_implementation_does_not_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter((10.0, 10.00065))
    monkeypatch.setattr(crc.time, "thread_time", lambda: next(ticks))
    assert crc.warn_if_slow(lambda data: 0, "nothing") == pytest.approx(100.8e6, rel=0.001)


def test_a_wait_for_the_processor_does_not_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [10.0]
    monkeypatch.setattr(crc.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(crc.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(crc.time, "thread_time", lambda: 5.0)

    def interrupted(data: bytes) -> int:
        clock[0] += 3.0
        return 0

    assert crc.warn_if_slow(interrupted, "nothing") > 100e6
