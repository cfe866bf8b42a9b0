"""Odd record sets, each read by Java's consumer (``make_tolerance.py``): each decoder here reads the same records.

Where it differs, the tables say why.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.errors import CorruptRecordError, UnsupportedCodecError
from pyconsumer.protocol.records import Codec, compression, scan
from pyconsumer.protocol.records._varint import DamageError
from pyconsumer.protocol.records.batch import BATCH_OVERHEAD
from pyconsumer.structs import TopicPartition
from tests.unit.protocol.records.helpers import Decoder, decoder_named
from tests.vectors.make_tolerance import judged, record_sets

TP = TopicPartition("vectors", 3)
SETS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "tolerance.json").read_text())
BY_NAME = {one["name"]: one for one in SETS}

_LOSES = "Java leaves out records without a word, or goes back and reads some again; no broker stores such a batch"
_HARMLESS = "nothing is lost by reading it, and no broker stores it"
_NOT_LOOKED_AT = "the bytes of a batch without records are not looked at: there is nothing to lose"

#: Java reads these in its way; here they are damage.
ERRORS = {
    **dict.fromkeys(
        (
            f"record: {what}{how}"
            for how in ("", ", compressed")
            for what in (
                *(f"an offset of {delta}" for delta in (-1, -2, -100, -(2**31))),
                "the same offset twice",
                "offsets in the wrong order",
                "an offset beyond the batch",
            )
        ),
        _LOSES,
    ),
    **dict.fromkeys(
        (
            "batch: last offset delta below the records",
            "batch: last offset delta -1",
            "batch: base offset -1",
            "batch: the last offset overflows",
            *(
                f"v{magic}: {what}"
                for magic in (0, 1)
                for what in ("the same inner offset twice", "inner offsets in the wrong order")
            ),
        ),
        _LOSES,
    ),
}
#: These are read; Java raises an error.
READ = {
    **dict.fromkeys((f"{codec}: no records, but garbage" for codec in ("gzip", "snappy", "lz4")), _NOT_LOOKED_AT),
    **dict.fromkeys((f"{codec}: no bytes, no records" for codec in ("gzip", "snappy", "lz4")), _NOT_LOOKED_AT),
    **dict.fromkeys(("lz4: a skippable frame in front", "lz4: a dictionary", "lz4: linked blocks"), _HARMLESS),
    **dict.fromkeys(("v0: zstd", "v1: zstd"), _HARMLESS),
    "batch: length 2147483647": "it is a batch that is cut off: the rest may come with a larger fetch",
}
#: Both read the same records, and end elsewhere.
ENDS_ELSEWHERE = {"batch: offsets below the previous batch": "a position never goes back by itself"}


@pytest.fixture(params=["native", "native, decompressed ahead", "pure"])
def reader(request: pytest.FixtureRequest) -> Callable[[bytes], tuple[list[Any], int, str | None]]:
    """Reads a record set with one of the decoders. Returns the records, the next offset, and the error."""
    name, _, ahead = request.param.partition(", ")
    decoder = decoder_named(name)
    if decoder is None:
        pytest.skip("the compiled decoder was not built")
    queue = None
    if ahead:
        from pyconsumer.protocol.records import _native

        queue = _native.DecodeAhead(1, 1 << 20, 1)

    def read(data: bytes) -> tuple[list[Any], int, str | None]:
        return _read(decoder, data, queue)

    return read


def _read(decoder: Decoder, data: bytes, queue: Any) -> tuple[list[Any], int, str | None]:
    cursor = decoder.Cursor(TP, memoryview(data), fetch_offset=0)
    if queue is not None:
        queue.add(cursor)
    found: list[Any] = []
    try:
        while not cursor.exhausted:
            found += [_fields(record) for record in cursor.take(1000)]
    except (CorruptRecordError, UnsupportedCodecError) as error:
        return found, cursor.next_offset, str(error)
    return found, cursor.next_offset, None


def _fields(record: Any) -> list[Any]:
    key, value = (None if data is None else data.hex() for data in (record.key, record.value))
    headers = [[name, None if data is None else data.hex()] for name, data in record.headers]
    return [record.offset, record.timestamp, key, value, headers]


def test_record_sets_that_java_reads_are_read(reader: Callable[[bytes], tuple[list[Any], int, str | None]]) -> None:
    wrong = []
    for one in SETS:
        name, java_error = one["name"], one["error"]
        records, next_offset, error = reader(bytes.fromhex(one["hex"]))
        if name in ERRORS:
            right = java_error is None and error is not None
        elif name in READ:
            right = java_error is not None and error is None
        elif java_error is not None:
            right = error is not None
        else:
            ends = name in ENDS_ELSEWHERE or next_offset == one["next_offset"]
            right = error is None and records == one["records"] and ends
        if not right:
            wrong.append((name, java_error, error, len(records), next_offset))
    assert wrong == []


def test_the_tables_name_record_sets_that_are_there() -> None:
    assert len(BY_NAME) == len(SETS) > 350
    assert BY_NAME.keys() == record_sets().keys()
    assert {*ERRORS, *READ, *ENDS_ELSEWHERE} <= BY_NAME.keys()
    assert sum(one["error"] is None for one in SETS) > 180


@pytest.mark.parametrize("library", ["cramjam", "pyarrow"])
def test_each_library_decompresses_the_same(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    native = pytest.importorskip("pyconsumer.protocol.records._native")
    module = pytest.importorskip(library)
    monkeypatch.setattr(compression, "_library", lambda: (library, module))
    wrong = []
    for one in SETS:
        data = bytes.fromhex(one["hex"])
        if not one["name"].startswith(("snappy", "lz4", "zstd")):
            continue
        info = scan(data)[0]
        payload = data[BATCH_OVERHEAD : info.size_bytes]
        said = []
        for compiled in (native.decompress_compiled, None):
            monkeypatch.setattr(compression, "_compiled", lambda compiled=compiled: compiled)
            try:
                said.append(compression.decompress(Codec(info.codec), payload))
            except DamageError:
                said.append(b"damage")
        if said[0] != said[1]:
            wrong.append((one["name"], said))
    assert wrong == []


@pytest.mark.kafka
def test_java_still_gives_these_results() -> None:
    assert judged({one["name"]: bytes.fromhex(one["hex"]) for one in SETS}) == SETS


def test_samples_of_trailing_gzip_bytes_and_two_xerial_streams_are_included() -> None:
    for name in ("gzip: noise behind", "snappy: two, each with half the records"):
        assert BY_NAME[name]["error"] is None
        assert len(BY_NAME[name]["records"]) == 7
