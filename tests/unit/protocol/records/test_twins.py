"""Tests of rules for both implementations of the decoder together, and for the compiled one alone."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
from typing import Any

import pytest

from pyconsumer.protocol import records
from tests.fuzz.compare import WAYS, difference, read, read_quickly
from tests.fuzz.mutate import Inputs
from tests.support.examples import examples
from tests.unit.protocol.records.helpers import PURE, TIME, TP, Decoder, batch, decoder_named, raw_batch, values_of


@pytest.fixture
def native() -> Decoder:
    found = decoder_named("native")
    if found is None:
        pytest.skip("the compiled decoder was not built")
    return found


# -- the same on both


@pytest.mark.parametrize("seed", range(4))
def test_mutated_inputs_are_read_alike(seed: int, native: Decoder) -> None:
    made = Inputs(seed)
    for number in range(examples(1500)):
        data = made.next()
        wrong = difference(read(native, data, number), read(PURE, data, number))
        assert wrong is None, f"{data.hex()} {wrong}"


def test_mutated_inputs_do_no_harm(native: Decoder) -> None:
    made = Inputs(99)
    for number in range(examples(300)):
        for way, changed in enumerate(made.variants(made.next(), 50), number):
            read_quickly(native, changed, way % WAYS)


class Data(bytes):
    pass


class Records(list[Any]):
    pass


@pytest.mark.parametrize("twin", ["pure", "native"])
def test_subclasses_are_taken(twin: str) -> None:
    found = decoder_named(twin) or pytest.skip("the compiled decoder was not built")
    record = found.ConsumerRecord("t", 0, 1, key=Data(b"key"), value=Data(b"value"))
    assert (record.serialized_key_size, record.serialized_value_size) == (3, 5)
    data = batch(0, 5)
    for source in (Data(data), bytearray(data), memoryview(data)):
        raw = found.Cursor(TP, source, fetch_offset=0, aborted=Records([])).take(2)
        assert [one.offset for one in raw] == [0, 1]
    good = Records()
    assert found.convert(Records(raw), 1, bytes.decode, None, good) == (2, "", None)
    assert [(one.key, one.value) for one in good] == [("k1", b"v1")]
    builder = found.ColumnsBuilder(with_headers=True)
    builder.add(Records([record, *raw[:1]]))
    columns = builder.build()
    assert bytes(columns.values.data) == b"valuev0"


def varint(number: int) -> bytes:
    """The base-128 form of a number that is zigzagged already."""
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


@pytest.mark.parametrize("base", [TIME, 2**63 - 1, -(2**63), -1])
@pytest.mark.parametrize("delta", [2**64 - 1, 2**64 - 2, 2**63, 2**62 - 1, 5, 6])
def test_timestamps_wrap_round_as_in_java(base: int, delta: int, native: Decoder) -> None:
    body = b"\0" + varint(delta) + b"\0\1\1\0"
    data = bytearray(raw_batch(varint(2 * len(body)) + body, 1))
    data[27:35] = base.to_bytes(8, "big", signed=True)
    (expected,) = PURE.Cursor(TP, bytes(data), fetch_offset=0, check_crcs=False).take(1)
    (found,) = native.Cursor(TP, bytes(data), fetch_offset=0, check_crcs=False).take(1)
    signed = -(delta + 1) // 2 if delta & 1 else delta // 2
    assert found.timestamp == expected.timestamp == (base + signed + 2**63) % 2**64 - 2**63


def test_a_pickled_record_can_be_read_without_a_compiled_decoder(native: Decoder) -> None:
    (record,) = native.Cursor(TP, batch(7, 1), fetch_offset=0).take(1)
    data = pickle.dumps([record, record.deserialized("key", {"a": 1})])
    program = (
        "import pickle, sys; found = pickle.load(sys.stdin.buffer);"
        "print(*[f'{type(r).__module__}|{r!r}' for r in found], sep='\\n')"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        input=data,
        capture_output=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYCONSUMER_PURE": "1"},
    )
    lines = run.stdout.decode().splitlines()
    assert [line.partition("|")[0] for line in lines] == ["pyconsumer.protocol.records.record"] * 2
    assert [line.partition("|")[2] for line in lines] == [repr(record), repr(record.deserialized("key", {"a": 1}))]


@pytest.mark.parametrize(("pure", "expected"), [("1", "pure"), ("", "native")])
def test_the_decoder_is_chosen_by_the_environment(pure: str, expected: str, native: Decoder) -> None:
    program = (
        "from pyconsumer.protocol import records; from pyconsumer.cli import main; print(records.IMPLEMENTATION);"
        "main(['--version'])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYCONSUMER_PURE": pure},
    )
    implementation, version, *codecs = run.stdout.splitlines()
    assert implementation == expected
    assert version.endswith("compiled" if expected == "native" else "pure Python (PYCONSUMER_PURE is set)")
    serves = "the record decoder" if expected == "native" else "cramjam "
    assert [line for line in codecs if line.startswith(f"snappy is decompressed by {serves}")]


def test_a_build_of_another_source_is_not_used(native: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyconsumer.protocol.records import _native, native_module

    load = native_module.native_module.__wrapped__
    monkeypatch.delenv("PYCONSUMER_PURE", raising=False)
    assert load() == (_native, "")
    monkeypatch.setattr(_native, "REVISION", -1)
    found, reason = load()
    assert found is None
    assert "of another version" in reason
    assert "pip install -e" in reason, "in a source tree; otherwise: reinstall pyconsumer"


# -- records and the garbage collector


def kinds(decoder: Decoder) -> dict[str, tuple[Any, bool]]:
    """Return how to make a record of each kind from a raw one, and whether the collector has to know it."""
    return {
        "bytes": (lambda record: record, False),
        "str": (lambda record: record.deserialized("key", "value" + record.value.decode()), False),
        "int": (lambda record: record.deserialized(None, record.offset), False),
        "float": (lambda record: record.deserialized(None, float(record.offset)), False),
        "bool": (lambda record: record.deserialized(None, True), False),
        "none": (lambda record: record.deserialized(None, None), False),
        "dict": (lambda record: record.deserialized("key", {"offset": record.offset}), True),
        "subclass": (lambda record: record.deserialized(None, type("Text", (str,), {})("a")), True),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bytes", "str", "int", "dict"])
def test_a_million_records_are_kept_and_let_go(kind: str, native: Decoder) -> None:
    make, tracked = kinds(native)[kind]
    data = memoryview(bytearray(batch(0, 10_000)))
    gc.collect()
    before, blocks = len(gc.get_objects()), sys.getallocatedblocks()
    kept = []
    for _ in range(100):
        kept += [make(record) for record in native.Cursor(TP, data, fetch_offset=0).take(10_000)]
    assert len(kept) == 1_000_000
    assert {gc.is_tracked(record) for record in kept} == {tracked}
    if not tracked:
        assert len(gc.get_objects()) - before < 1000
    assert sys.getsizeof(kept[0]) <= (112 if tracked else 72)
    data.release()  # raises if anything still looks into it
    kept.clear()
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 5000


@pytest.mark.parametrize("kind", ["bytes", "str", "int", "float", "bool", "none", "dict", "subclass"])
def test_the_collector_tracks_a_record_only_if_it_can_be_part_of_a_cycle(kind: str, native: Decoder) -> None:
    make, tracked = kinds(native)[kind]
    (record,) = native.Cursor(TP, batch(0, 1), fetch_offset=0).take(1)
    made = make(record)
    assert gc.is_tracked(made) == tracked
    again = native.ConsumerRecord("t", 0, 1, key=made.key, value=made.value)
    assert gc.is_tracked(again) == tracked
    assert (again.key, again.value) == (made.key, made.value)


def test_a_cycle_through_a_record_is_collected(native: Decoder) -> None:
    import weakref

    class Value:
        record: Any

    value = Value()
    (record,) = native.Cursor(TP, batch(0, 1), fetch_offset=0).take(1)
    value.record = record.deserialized(None, value)
    gone = weakref.ref(value)
    del value
    gc.collect()
    assert gone() is None


def test_a_cursor_in_a_cycle_with_its_error_is_collected(native: Decoder) -> None:
    bad = bytearray(batch(0, 3))
    bad[-1] ^= 1
    for _ in range(20):
        reader = native.Cursor(TP, memoryview(bad), fetch_offset=0)
        try:
            reader.take(1)
        except records_error():
            pass  # the error's traceback holds this frame, and this frame the cursor
    del reader
    gc.collect()
    bad.append(0)  # refused while anything looks into it


def records_error() -> type[Exception]:
    from pyconsumer.errors import CorruptRecordError

    return CorruptRecordError


def test_native_records_cannot_be_changed(native: Decoder) -> None:
    (record,) = native.Cursor(TP, batch(0, 1), fetch_offset=0).take(1)
    for name in ("key", "value", "offset", "timestamp", "origin", "serialized_key_size"):
        with pytest.raises(AttributeError):
            setattr(record, name, None)
    with pytest.raises(AttributeError):
        record.other = 1


def test_a_cursor_in_use_rejects_another_call(native: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyconsumer.protocol.records import _native

    reader = native.Cursor(TP, batch(0, 3, codec="gzip"), fetch_offset=0)

    def intruding(*_: Any) -> bytes:
        for use in (lambda: reader.take(1), reader.close):
            with pytest.raises(RuntimeError, match="in use"):
                use()
        raise RuntimeError("seen")

    monkeypatch.setattr(_native, "decompress", intruding)
    with pytest.raises(RuntimeError, match="seen"):
        reader.take(3)
    monkeypatch.undo()
    assert len(reader.take(3)) == 3


def test_a_built_builder_takes_no_more_records(native: Decoder) -> None:
    builder = native.ColumnsBuilder()
    native.Cursor(TP, batch(0, 3), fetch_offset=0).take_into(builder, 2)
    columns = builder.build()
    with pytest.raises(ValueError, match="built"):
        native.Cursor(TP, batch(0, 3), fetch_offset=0).take_into(builder, 2)
    with pytest.raises(ValueError, match="built"):
        builder.build()
    assert values_of(columns.values) == [b"v0", b"v1"]


def test_a_batch_may_have_more_records_than_memory_for_their_rows(native: Decoder) -> None:
    # Seven bytes each: rows are bounded by their own weight, not by that of keys and values, which have none.
    payload = b"".join(b"\x0c\0\0" + varint(2 * n) + b"\1\1\0" for n in range(64))
    reader = native.Cursor(TP, raw_batch(payload, 64), fetch_offset=0)
    assert reader.take_into(native.ColumnsBuilder(), 10**9, 160) == 11
    assert reader.take_into(native.ColumnsBuilder(), 10**9) == 53


def test_crc_by_tables_and_by_hardware(native: Decoder) -> None:
    from pyconsumer.protocol.records import _native
    from pyconsumer.protocol.records.crc import crc32c

    data = bytes(range(251)) * 100
    for size in (0, 1, 7, 8, 9, 255, 767, 768, 769, 6143, 6144, 6145, 12_289, len(data)):
        expected = crc32c(data[:size])
        assert _native.crc32c(data[:size]) == _native.crc32c(data[:size], by_tables=True) == expected
        assert _native.crc32c(data[size:], expected) == crc32c(data)


def test_the_implementation_in_use_is_described() -> None:
    assert records.IMPLEMENTATION in ("native", "pure")
    assert records.describe().startswith("compiled" if records.IMPLEMENTATION == "native" else "pure Python (")
