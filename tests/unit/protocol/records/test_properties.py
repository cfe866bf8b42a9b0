"""Properties of the whole layer: built batches can be read, and damage always is an error."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyconsumer.errors import CorruptRecordError, UnsupportedCodecError
from pyconsumer.protocol.records import BatchBuilder, iter_records, scan
from tests.support.examples import examples
from tests.unit.protocol.records.helpers import CODECS, TP, batch, batch_after, cursor, message, message_set, take_all

pytestmark = pytest.mark.usefixtures("decoder")

maybe_bytes = st.none() | st.binary(max_size=300)
header = st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=100))
timestamp = st.integers(-(2**40), 2**42)
record = st.tuples(timestamp, maybe_bytes, maybe_bytes, st.lists(header, max_size=4), st.integers(1, 20_000))


@given(st.lists(record, min_size=1, max_size=40), st.sampled_from(CODECS), st.integers(0, 2**62), st.integers(1, 50))
def test_built_batches_can_be_read(
    records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]], int]],
    codec: str,
    base_offset: int,
    size: int,
) -> None:
    builder = BatchBuilder(codec)
    expected = []
    delta = -1
    for time, key, value, headers, step in records:
        delta += step
        assert builder.try_append(time, key, value, headers, relative_offset=delta) == delta
        expected.append((base_offset + delta, time, key, value, headers))
    data = builder.build(base_offset)
    found = take_all(cursor(data, base_offset), size)
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in found] == expected
    (info,) = scan(data)
    assert (info.record_count, info.last_offset, info.size_bytes) == (len(records), base_offset + delta, len(data))
    if codec == "none":
        assert builder.estimated_size == len(data)
    middle = expected[len(expected) // 2][0]
    later = take_all(cursor(data, middle), size)
    assert [r.offset for r in later] == [offset for offset, *_ in expected if offset >= middle]


@given(
    st.lists(st.tuples(maybe_bytes, maybe_bytes), min_size=1, max_size=20), st.sampled_from([0, 1]), st.integers(0, 3)
)
def test_message_sets_are_read(pairs: list[tuple[bytes | None, bytes | None]], magic: int, codec: int) -> None:
    inner = [message(magic, offset, key, value) for offset, (key, value) in enumerate(pairs)]
    data = message_set(magic, codec, inner, len(pairs) - 1) if codec else b"".join(inner)
    assert [(r.offset, r.key, r.value) for r in take_all(data, 3)] == [(i, *pair) for i, pair in enumerate(pairs)]


@given(st.binary(max_size=400), st.booleans())
def test_arbitrary_bytes_are_corrupt_or_empty(data: bytes, check_crcs: bool) -> None:
    read_all(data, check_crcs)


def read_all(data: bytes, check_crcs: bool) -> int:
    """Read as a consumer and as a broker do. Only the two errors may come, and the end must be reached."""
    read = start = 0
    how: dict[str, Any] = {"check_crcs": check_crcs, "aborted": [(7, 0)], "max_decompressed_bytes": 1 << 20}
    reader = cursor(data, **how)
    before = reader.next_offset
    partitions: set[object] = set()
    for _ in range(len(data) + 10):
        if reader.exhausted:
            break
        try:
            taken = reader.take(3)
            assert all(a.offset < b.offset for a, b in pairwise(taken))
            assert not taken or before <= taken[0].offset < taken[-1].offset + 1 <= reader.next_offset
            read += len(taken)
        except (CorruptRecordError, UnsupportedCodecError) as error:
            partitions.add(getattr(error, "topic_partition", TP))
            after = batch_after(data, reader.next_offset, start)
            if after is None:
                reader.close()
            else:
                offset, start = after
                reader = cursor(data[start:], fetch_offset=offset, **how)
        assert reader.next_offset >= before
        before = reader.next_offset
    assert reader.exhausted
    assert partitions <= {TP}
    try:
        list(iter_records(data, check_crcs=check_crcs, max_decompressed_bytes=1 << 20))
    except (CorruptRecordError, UnsupportedCodecError):
        pass
    return read


def samples() -> dict[str, bytes]:
    sets = {
        codec: batch(0, 4, codec=codec) + batch(4, 3, codec=codec, producer_id=7, transactional=True)
        for codec in CODECS
    }
    builder = BatchBuilder()
    for i in range(5):
        builder.try_append(1000 + 500 * i, b"key" * i, b"v" * 40 * i, [("name", b"value"), ("", None)][: i % 3])
    sets["headers"] = builder.build()
    for magic in (0, 1):
        sets[f"v{magic}"] = b"".join(message(magic, i, b"k", b"v" * i) for i in range(5))
        for codec in (1, 2, 3):
            inner = [message(magic, i, b"k", b"v" * i) for i in range(5)]
            sets[f"v{magic} {CODECS[codec]}"] = message_set(magic, codec, inner, 4)
    return sets


SAMPLES = samples()


@pytest.mark.parametrize("name", SAMPLES)
def test_cut_off_anywhere(name: str) -> None:
    data = SAMPLES[name]
    whole = read_all(data, True)
    for end in range(len(data)):
        assert read_all(data[:end], True) <= whole


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("check_crcs", [True, False])
def test_changed_bytes_give_records_or_the_error(name: str, check_crcs: bool) -> None:
    data = SAMPLES[name]
    source = random.Random(f"{name} {check_crcs}")
    whole = read_all(data, True)
    for _ in range(examples(600)):
        changed = bytearray(data)
        for _ in range(source.choice((1, 1, 2, 5))):
            position = source.randrange(len(changed))
            changed[position] = source.choice((0, 1, 0x7F, 0x80, 0xFF, changed[position] ^ 1 << source.randrange(8)))
        if source.random() < 0.2:
            start = source.randrange(len(changed))
            del changed[start : start + source.randrange(1, 9)]
        found = read_all(bytes(changed), check_crcs)
        if check_crcs:
            assert found <= whole
