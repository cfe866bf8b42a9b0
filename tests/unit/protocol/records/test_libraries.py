"""The system's libraries for lz4 and zstd: the compiled decoder finds them when needed, and cramjam serves without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.process import run
from tests.unit.protocol.records.helpers import decoder_named

if decoder_named("native") is None:
    pytest.skip("the compiled decoder was not built", allow_module_level=True)

from pyconsumer.protocol.records import _native
from pyconsumer.protocol.records.compression import Codec

_HAS_BOTH = all(_native.library_of(codec)[3] == "" for codec in (Codec.LZ4, Codec.ZSTD))  # type: ignore[index]
needs_both = pytest.mark.skipif(not _HAS_BOTH, reason="libzstd and liblz4 are not there")

_READ = """
import logging
from tests.unit.protocol.records.helpers import TP, batch
from pyconsumer.protocol.records import _native, compression
from pyconsumer.protocol.records._varint import DamageError
from pyconsumer.errors import CorruptRecordError

logging.basicConfig(level=logging.INFO, format="%(message)s")
queue = _native.DecodeAhead(1, 1 << 20, 1)
for codec in ("lz4", "zstd"):
    data = batch(0, 30, codec=codec) + batch(30, 30, codec=codec)
    cursor = _native.Cursor(TP, memoryview(data), fetch_offset=0)
    print(codec, "is queued:", queue.add(cursor))
    print([record.offset for record in cursor.take(100)] == list(range(60)))
    cursor = _native.Cursor(TP, memoryview(data), fetch_offset=0, max_decompressed_bytes=100)
    try:
        cursor.take(100)
    except CorruptRecordError as error:
        print(error)
print(*compression.describe_codecs(), sep="\\n")
"""


def _run(program: str, **environment: str) -> tuple[list[str], list[str]]:
    """Run a program. Return its lines and those that were logged."""
    done = run([sys.executable, "-c", program], env=environment, timeout_s=60).check()
    return done.stdout.splitlines(), done.stderr.splitlines()


@needs_both
def test_each_library_has_its_version_and_file() -> None:
    for codec, name in ((Codec.LZ4, "liblz4"), (Codec.ZSTD, "libzstd")):
        found: Any = _native.library_of(codec)
        assert found[0] == name
        assert [int(number) for number in found[1].split(".")] >= [1, 4]
        assert f"/{name}" in found[2]
    assert _native.library_of(Codec.SNAPPY) is _native.library_of(Codec.GZIP) is None


@needs_both
@pytest.mark.parametrize(
    ("setting", "reason"),
    [("none", "PYCONSUMER_LIBZSTD is none"), ("/nowhere/libzstd.so.1", "/nowhere/libzstd.so.1: cannot open")],
)
def test_without_a_library_cramjam_serves(setting: str, reason: str) -> None:
    said, logged = _run(_READ, PYCONSUMER_LIBZSTD=setting, PYCONSUMER_LIBLZ4="none")
    too_large = "its records decompress to more than 100 bytes"
    assert [said[0], said[1], said[3], said[4]] == ["lz4 is queued: False", "True", "zstd is queued: False", "True"]
    assert too_large in said[2]
    assert too_large in said[5]
    assert "snappy is decompressed by the record decoder" in said
    assert [line for line in said if line.startswith("lz4 is decompressed by cramjam")]
    assert [line for line in said if line.startswith("zstd is decompressed by cramjam") and reason in line]
    assert len(logged) == 2
    assert logged[0] == "LZ4 is decompressed by cramjam: liblz4 is not used: PYCONSUMER_LIBLZ4 is none"
    assert logged[1].startswith(f"ZSTD is decompressed by cramjam: libzstd is not used: {reason}")


@needs_both
def test_with_the_libraries_zstd_is_decompressed_ahead_without_a_log_line() -> None:
    said, logged = _run(_READ)
    assert [said[0], said[1], said[3], said[4]] == ["lz4 is queued: False", "True", "zstd is queued: True", "True"]
    assert logged == []


@needs_both
def test_a_library_that_lacks_a_function_is_not_used() -> None:
    other: Any = _native.library_of(Codec.LZ4)
    said, _ = _run(_READ, PYCONSUMER_LIBZSTD=other[2])
    assert [line for line in said if "libzstd: it has no function ZSTD_versionNumber" in line]


@needs_both
def test_zstd_before_1_4_is_not_used(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    source = tmp_path / "old.c"
    names = ("ZSTD_createDCtx", "ZSTD_freeDCtx", "ZSTD_decompressDCtx", "ZSTD_isError", "ZSTD_getErrorCode")
    source.write_text(
        "unsigned ZSTD_versionNumber(void) { return 10308; }\n"
        + "".join(f"int {name}(void) {{ return 0; }}\n" for name in names)
    )
    library = tmp_path / "libzstd-old.so"
    subprocess.run([compiler, "-shared", "-fPIC", source, "-o", library], check=True)
    said, _ = _run(_READ, PYCONSUMER_LIBZSTD=str(library))
    assert said[4] == "True"
    assert [line for line in said if "zstd is decompressed by cramjam" in line and "libzstd: it is too old" in line]


@needs_both
@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs Linux's list of what is loaded")
def test_a_library_is_loaded_on_first_use() -> None:
    program = """
from tests.unit.protocol.records.helpers import TP, batch
from pyconsumer.protocol.records import _native
def loaded():
    text = open("/proc/self/maps").read()
    return [name for name in ("liblz4", "libzstd") if name in text]
print(loaded())
for codec in ("snappy", "lz4", "zstd"):
    _native.Cursor(TP, memoryview(batch(0, 3, codec=codec)), fetch_offset=0).take(3)
    print(loaded())
"""
    assert _run(program)[0] == ["[]", "[]", "['liblz4']", "['liblz4', 'libzstd']"]
