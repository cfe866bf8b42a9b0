"""Headers of batches, the builder, patching, control records."""

from __future__ import annotations

import struct

import pytest

from pyconsumer.errors import CorruptRecordError, UnsupportedCodecError
from pyconsumer.protocol.records import (
    BATCH_OVERHEAD,
    CREATE_TIME,
    LOG_APPEND_TIME,
    BatchBuilder,
    ControlRecordType,
    EndTransactionMarker,
    build_end_transaction_marker,
    check_crc,
    decode_control_type,
    decode_end_transaction_marker,
    encode_end_transaction_marker,
    iter_records,
    patch_batch,
    read_control_record,
    record_size_bound,
    scan,
)
from pyconsumer.protocol.records.crc import crc32c
from pyconsumer.structs import TopicPartition
from tests.unit.protocol.records.helpers import CODECS, TIME, batch, message, raw_batch, take_all

# VEC-01 to VEC-03: made with the Java classes of Kafka 2.0.0
MARKERS = {
    "transactions:VEC-01": (
        "000000000000000300000042000000000208dd3c67003000000000000001664a32b222000001664a32b2220000"
        "0000000003e80000ffffffff000000012000000008000000010c00000000000500"
    ),
    "transactions:VEC-02": (
        "0000000000000003000000420000000002fce3ea2f003000000000000001664a32b222000001664a32b2220000"
        "0000000003e80000ffffffff000000012000000008000000000c00000000000500"
    ),
}
DATA_BATCH = (
    "0000000000000000000000520000000002137193e2001000000002000001664a32b222000001664a32b22200000000000003e8000000000000"
    "000000031400000001086d736731001400000201086d736732001400000401086d73673300"
)


def test_the_checksum_covers_all_bytes_from_the_attributes_on() -> None:
    commit, abort = (bytearray.fromhex(data) for data in MARKERS.values())
    found = [int.from_bytes(data[17:21], "big") for data in (commit, abort)]
    assert found == [148716647, 4242795055] == [crc32c(data[21:]) for data in (commit, abort)]
    assert [at for at, (one, other) in enumerate(zip(commit, abort, strict=True)) if one != other] == [
        17,
        18,
        19,
        20,
        69,
    ]


# --- scan


def test_a_scan_reads_every_field_of_the_header() -> None:
    builder = BatchBuilder("gzip", LOG_APPEND_TIME)
    for time in (TIME + 5, TIME + 9, TIME):
        builder.try_append(time, None, b"x")
    data = builder.build(
        2**40,
        2**50,
        12,
        2147483646,
        is_transactional=True,
        is_control=True,
        leader_epoch=77,
        log_append_time_ms=TIME + 20,
    )
    first, second = scan(b"".join((data, batch(2**41, 1))))
    assert (first.position, first.size_bytes, first.magic, first.end_position) == (0, len(data), 2, len(data))
    assert (first.base_offset, first.last_offset, first.next_offset) == (2**40, 2**40 + 2, 2**40 + 3)
    assert (first.partition_leader_epoch, first.last_offset_delta, first.record_count) == (77, 2, 3)
    assert (first.codec, first.timestamp_type, first.is_transactional, first.is_control) == (
        1,
        LOG_APPEND_TIME,
        True,
        True,
    )
    assert (first.first_timestamp, first.max_timestamp) == (TIME + 5, TIME + 20)
    assert (first.producer_id, first.producer_epoch, first.base_sequence) == (2**50, 12, 2147483646)
    assert first.has_producer_id
    assert first.delete_horizon_ms is None
    assert (second.position, second.base_offset, second.timestamp_type) == (len(data), 2**41, CREATE_TIME)


@pytest.mark.parametrize(
    ("base", "count", "last"), [(-1, 3, -1), (0, 1, 0), (5, 3, 7), (2147483646, 3, 0), (2147483647, 1, 2147483647)]
)
def test_sequence_numbers_wrap_to_0(base: int, count: int, last: int) -> None:
    builder = BatchBuilder()
    for _ in range(count):
        builder.try_append(TIME, None, b"")
    (info,) = scan(builder.build(producer_id=1, producer_epoch=0, base_sequence=base))
    assert info.last_sequence == last


def test_a_scan_makes_no_copy_and_decompresses_no_batch() -> None:
    data = bytearray(batch(0, 3, codec="gzip"))
    data[BATCH_OVERHEAD:] = bytes(len(data) - BATCH_OVERHEAD)
    (info,) = scan(memoryview(data))
    assert info.record_count == 3
    assert not check_crc(data, info)


@pytest.mark.parametrize(
    ("position", "format", "value"),
    [
        (16, ">b", 3),
        (16, ">b", -1),
        (8, ">i", 48),
        (8, ">i", 0),
        (8, ">i", -1),
        (8, ">i", -(2**31)),
        (0, ">q", -1),
        (0, ">q", 2**63 - 2),
        (23, ">i", -1),
        (57, ">i", -1),
    ],
)
def test_a_header_that_cannot_be_is_corrupt(position: int, format: str, value: int) -> None:
    data = bytearray(batch(0, 3))
    struct.pack_into(format, data, position, value)
    tp = TopicPartition("t", 0)
    with pytest.raises(CorruptRecordError, match=r"^t-0 at offset .*header") as caught:
        scan(batch(0, 1) + data, topic_partition=tp)
    assert caught.value.topic_partition == tp
    with pytest.raises(CorruptRecordError):
        list(iter_records(data))


@pytest.mark.parametrize("magic", [0, 1])
def test_a_legacy_header_that_cannot_be_is_corrupt(magic: int) -> None:
    for position, format, value in ((0, ">q", -1), (8, ">i", 13 if magic == 0 else 21), (8, ">i", -5)):
        data = bytearray(message(magic, 0, b"k", b"v"))
        struct.pack_into(format, data, position, value)
        with pytest.raises(CorruptRecordError):
            scan(data)


def test_a_length_beyond_the_buffer_is_a_batch_to_come() -> None:
    data = bytearray(batch(0, 3))
    struct.pack_into(">i", data, 8, 2**31 - 1)
    assert scan(data) == []


# --- builder


def test_a_batch_has_kafkas_bytes_for_transactional_records() -> None:
    builder = BatchBuilder()
    for value in (b"msg1", b"msg2", b"msg3"):
        builder.try_append(1538843128354, None, value)
    built = builder.build(0, 1000, 0, 0, is_transactional=True, leader_epoch=0)
    assert built.hex() == DATA_BATCH


def test_relative_offsets_count_up_or_are_given() -> None:
    builder = BatchBuilder()
    assert [builder.try_append(TIME, None, b"") for _ in range(3)] == [0, 1, 2]
    assert builder.try_append(TIME, None, b"", relative_offset=10) == 10
    assert builder.try_append(TIME, None, b"") == 11
    for wrong in (11, 3, -1, 2**31):
        with pytest.raises(ValueError, match="relative offset"):
            builder.try_append(TIME, None, b"", relative_offset=wrong)
    with pytest.raises(ValueError, match="last offset delta"):
        builder.build(last_offset_delta=10)
    assert [r.offset for r in iter_records(builder.build(100))] == [100, 101, 102, 110, 111]
    assert builder.record_count == 5


def test_a_full_batch_takes_no_more_records() -> None:
    builder = BatchBuilder(size_limit=1000)
    taken = 0
    while builder.try_append(TIME, b"k" * 10, b"v" * 90) is not None:
        taken += 1
    assert taken == builder.record_count == 8
    size = builder.estimated_size
    assert size <= 1000 < size + 115
    assert builder.try_append(TIME + 99, b"k" * 10, b"v" * 90) is None
    assert (builder.estimated_size, builder.max_timestamp) == (size, TIME)
    assert len(builder.build()) == size
    assert builder.try_append(TIME, None, b"") == 8  # a smaller one still fits


def test_the_first_record_is_accepted_in_any_size() -> None:
    builder = BatchBuilder(size_limit=10)
    assert builder.try_append(TIME, None, bytes(5000)) == 0
    assert builder.try_append(TIME, None, b"") is None


def test_the_estimate_of_a_compressed_batch_uses_the_expected_ratio() -> None:
    first = BatchBuilder("zstd", size_limit=2000)
    while first.try_append(TIME, None, bytes(100)) is not None:
        pass
    assert len(first.build()) < 200
    assert first.compression_ratio < 0.1
    second = BatchBuilder("zstd", size_limit=2000, expected_ratio=0.1)
    while second.try_append(TIME, None, bytes(100)) is not None:
        pass
    assert second.record_count > 9 * first.record_count
    assert second.estimated_size <= 2000


def test_a_record_never_takes_more_than_its_bound() -> None:
    for key, value, headers in (
        (None, None, []),
        (b"k" * 300, b"v" * 70_000, [("ü" * 100, b"x" * 500), ("", None)]),
        (b"", b"", [("h", b"")] * 20),
    ):
        builder = BatchBuilder()
        builder.try_append(0, None, None)
        before = builder.estimated_size
        builder.try_append(2**62, key, value, headers, relative_offset=2**31 - 1)
        assert builder.estimated_size - before <= record_size_bound(key, value, headers)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_is_rebuilt_with_another_producer_epoch(codec: str) -> None:
    builder = BatchBuilder(codec)
    builder.try_append(TIME, b"k", b"v")
    one = builder.build(producer_id=1, producer_epoch=0, base_sequence=0)
    two = builder.build(producer_id=1, producer_epoch=1, base_sequence=5)
    assert [(i.producer_epoch, i.base_sequence) for i in (*scan(one), *scan(two))] == [(0, 0), (1, 5)]
    builder.try_append(TIME, b"k2", b"v2")
    assert [r.key for r in iter_records(builder.build())] == [b"k", b"k2"]


def test_timestamps_may_go_back() -> None:
    builder = BatchBuilder()
    times = [TIME, TIME - 10**12, 0, -1, 2**62, TIME + 1]
    for time in times:
        builder.try_append(time, None, None)
    assert (builder.base_timestamp, builder.max_timestamp) == (TIME, 2**62)
    assert [r.timestamp for r in iter_records(builder.build())] == times


@pytest.mark.parametrize("wrong", ["text", 5, 2.5, [1]])
def test_only_bytes_are_taken(wrong: object) -> None:
    builder = BatchBuilder()
    for key, value in ((wrong, b""), (b"", wrong)):
        with pytest.raises(TypeError):
            builder.try_append(TIME, key, value)  # type: ignore[arg-type]
    assert builder.try_append(TIME, bytearray(b"k"), memoryview(b"v")) == 0
    (record,) = iter_records(builder.build())
    assert (record.key, record.value) == (b"k", b"v")


def test_unknown_codecs_are_rejected_at_once() -> None:
    with pytest.raises(UnsupportedCodecError, match="'brotli' is unknown"):
        BatchBuilder("brotli")


# --- patching


@pytest.mark.parametrize("codec", CODECS)
def test_patching_gives_a_batch_its_place(codec: str) -> None:
    data = bytearray(batch(0, 2, codec=codec) + batch(0, 3, codec=codec))
    second = scan(data)[1]
    patch_batch(data, position=second.position, base_offset=502, leader_epoch=4)
    before, after = scan(data)
    assert (before.base_offset, after.base_offset, after.partition_leader_epoch) == (0, 502, 4)
    assert check_crc(data, after)
    assert after.crc == second.crc
    assert [r.offset for r in iter_records(data)] == [0, 1, 502, 503, 504]


@pytest.mark.parametrize("codec", CODECS)
def test_patching_the_append_time_makes_a_new_checksum(codec: str) -> None:
    data = memoryview(bytearray(batch(0, 2, codec=codec)))
    patch_batch(data, log_append_time_ms=TIME + 99)
    (info,) = scan(data)
    assert (info.timestamp_type, info.max_timestamp, info.codec) == (LOG_APPEND_TIME, TIME + 99, CODECS.index(codec))
    assert {(r.timestamp, r.timestamp_type) for r in take_all(bytes(data))} == {(TIME + 99, LOG_APPEND_TIME)}


@pytest.mark.parametrize("data", [b"", batch(0, 1)[:60], message(1, 0, b"k", b"v" * 100), batch(0, 1)[:-1]])
def test_only_whole_v2_batches_are_patched(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a"):
        patch_batch(bytearray(data), base_offset=1, log_append_time_ms=5)


# --- control records


@pytest.mark.parametrize("vector", MARKERS)
def test_markers_have_kafkas_bytes(vector: str) -> None:
    kind = ControlRecordType.COMMIT if vector.endswith("01") else ControlRecordType.ABORT
    built = build_end_transaction_marker(
        kind,
        producer_id=1000,
        producer_epoch=0,
        coordinator_epoch=5,
        timestamp_ms=1538843128354,
        base_offset=3,
        leader_epoch=0,
    )
    assert built.hex() == MARKERS[vector]


def test_key_and_value_of_a_marker() -> None:
    key, value = encode_end_transaction_marker(EndTransactionMarker(ControlRecordType.COMMIT, 9))
    assert (key.hex(), value.hex()) == ("00000001", "000000000009")
    assert decode_end_transaction_marker(key, value) == (ControlRecordType.COMMIT, 9)
    newer = decode_end_transaction_marker(b"\0\7\0\0more", b"\0\3\0\0\0\2and more")
    assert newer == (ControlRecordType.ABORT, 2)


def test_markers_that_cannot_be_are_corrupt() -> None:
    assert decode_control_type(b"\0\0\0\x63") is ControlRecordType.UNKNOWN
    assert decode_control_type(b"\0\0\0\2") is ControlRecordType.LEADER_CHANGE
    for key in (None, b"", b"\0\0\0", b"\xff\xff\0\0"):
        with pytest.raises(CorruptRecordError):
            decode_control_type(key)
    for value in (None, b"\0\0\0\0\0", b"\xff\xff\0\0\0\0"):
        with pytest.raises(CorruptRecordError):
            decode_end_transaction_marker(b"\0\0\0\1", value)
    with pytest.raises(CorruptRecordError, match="does not end a transaction"):
        decode_end_transaction_marker(b"\0\0\0\2", b"\0\0\0\0\0\0")


def test_a_control_record_is_read_alone() -> None:
    data = batch(0, 1) + bytes.fromhex(MARKERS["transactions:VEC-02"])
    info = scan(data)[1]
    record = read_control_record(data, info)
    assert record is not None
    assert decode_end_transaction_marker(record.key, record.value) == (ControlRecordType.ABORT, 5)
    (empty,) = scan(raw_batch(b"", 0))
    assert read_control_record(raw_batch(b"", 0), empty) is None
    bad = raw_batch(b"\xff" * 20, 1)
    with pytest.raises(CorruptRecordError):
        read_control_record(bad, scan(bad)[0])
    short = raw_batch(b"\xff", 1)
    with pytest.raises(CorruptRecordError):
        read_control_record(short, scan(short)[0])


# --- reading a log


def test_a_log_is_read_to_its_damage() -> None:
    bad = bytearray(batch(3, 2))
    bad[-1] ^= 1
    log = iter_records(batch(0, 3) + bad, topic_partition=TopicPartition("__consumer_offsets", 4))
    found = [next(log).offset for _ in range(3)]
    with pytest.raises(CorruptRecordError, match="checksum") as caught:
        next(log)
    assert (found, caught.value.offset) == ([0, 1, 2], 3)
    assert str(caught.value).startswith("__consumer_offsets-4 at offset 3")
    found = [r.offset for r in iter_records(message(0, 7, b"k", None) + batch(8, 1)[:-1])]
    assert found == [7]


def test_records_of_a_log_name_their_producer() -> None:
    (record,) = iter_records(batch(4, 1, producer_id=9, transactional=True, leader_epoch=2))
    assert record == (4, TIME + 4, b"k4", b"v4", (), False, True, 9, 0, 2)
    tail = raw_batch(b"\x0e\0\0\0\x01\x02a\0" + b"\0", 1)
    with pytest.raises(CorruptRecordError, match="1 bytes are left"):
        list(iter_records(tail))
    few = raw_batch(b"\x0e\0", 1)
    with pytest.raises(CorruptRecordError, match="do not fit"):
        list(iter_records(few))
