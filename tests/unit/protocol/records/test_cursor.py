"""The cursor: n records at a time, the position right over everything that is not delivered."""

from __future__ import annotations

import gc
import weakref
from array import array

import pytest

from pyconsumer.errors import CorruptRecordError, KafkaError, UnsupportedCodecError
from pyconsumer.protocol.records import ControlRecordType, build_end_transaction_marker, scan
from tests.unit.protocol.records import helpers
from tests.unit.protocol.records.helpers import CODECS, TIME, TP, batch, cursor, offsets, raw_batch, take_all, values_of

pytestmark = pytest.mark.usefixtures("decoder")


def marker(kind: ControlRecordType, producer_id: int, base_offset: int) -> bytes:
    return build_end_transaction_marker(
        kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=1, timestamp_ms=TIME, base_offset=base_offset
    )


def abort(producer_id: int, offset: int) -> bytes:
    return marker(ControlRecordType.ABORT, producer_id, offset)


def commit(producer_id: int, offset: int) -> bytes:
    return marker(ControlRecordType.COMMIT, producer_id, offset)


def broken(data: bytes) -> bytes:
    """The same batch with a byte of its last record changed."""
    return data[:-2] + bytes([data[-2] ^ 0x40]) + data[-1:]


# --- taking


@pytest.mark.parametrize("codec", CODECS)
def test_takes_exactly_n_records_across_batches(codec: str) -> None:
    reader = cursor(batch(0, 4, codec=codec) + batch(4, 1, codec=codec) + batch(5, 7, codec=codec))
    assert offsets(reader.take(3)) == [0, 1, 2]
    assert (reader.next_offset, reader.exhausted) == (3, False)
    assert offsets(reader.take(6)) == [3, 4, 5, 6, 7, 8]
    assert offsets(reader.take(500)) == [9, 10, 11]
    assert (reader.next_offset, reader.end_offset, reader.exhausted) == (12, 12, True)
    assert reader.take(5) == []


def test_taking_no_records_keeps_the_position() -> None:
    reader = cursor(batch(0, 4))
    assert reader.take(0) == []
    assert (reader.next_offset, reader.exhausted) == (0, False)


def test_an_empty_record_set_is_legal() -> None:
    reader = cursor(b"", 17)
    assert (reader.exhausted, reader.next_offset, reader.end_offset, reader.batch_count) == (True, 17, 17, 0)
    assert reader.take(1) == []
    assert not reader.has_incomplete_batch


@pytest.mark.parametrize("cut", [1, 11, 16, 17, 60, 61, 80])
def test_a_batch_cut_off_by_the_end_is_left_out(cut: int) -> None:
    whole = batch(0, 2)
    reader = cursor(whole + batch(2, 2)[:cut])
    assert offsets(take_all(reader)) == [0, 1]
    assert reader.has_incomplete_batch
    assert (reader.size_bytes, reader.end_offset) == (len(whole), 2)
    assert cursor(whole[:cut]).batch_count == 0


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("take", [1, 2, 100])
def test_records_below_the_fetch_offset_are_skipped(codec: str, take: int) -> None:
    reader = cursor(batch(10, 5, codec=codec) + batch(15, 5, codec=codec), 13)
    assert offsets(take_all(reader, take)) == [13, 14, 15, 16, 17, 18, 19]
    assert offsets(take_all(batch(10, 5) + batch(15, 5), fetch_offset=15)) == [15, 16, 17, 18, 19]


def test_the_position_passes_records_removed_by_compaction() -> None:
    data = batch(100, offsets=[102, 107], last_offset=119) + batch(120, offsets=[125], last_offset=130)
    reader = cursor(data, 100)
    assert (offsets(reader.take(1)), reader.next_offset) == ([102], 103)
    assert (offsets(reader.take(1)), reader.next_offset) == ([107], 120)
    assert (offsets(reader.take(9)), reader.next_offset, reader.exhausted) == ([125], 131, True)


def test_a_batch_that_compaction_emptied_is_passed() -> None:
    data = batch(5, offsets=[], last_offset=9, producer_id=4) + batch(10, 1)
    reader = cursor(data, 5)
    assert offsets(reader.take(1)) == [10]
    alone = cursor(batch(5, offsets=[], last_offset=9), 5)
    assert (alone.take(1), alone.next_offset, alone.exhausted) == ([], 10, True)


def test_a_record_has_the_leader_epoch_of_its_batch() -> None:
    reader = cursor(batch(0, 1, leader_epoch=3) + batch(1, 1, leader_epoch=5))
    assert reader.last_leader_epoch == -1
    assert [record.leader_epoch for record in reader.take(1)] == [3]
    assert reader.last_leader_epoch == 3
    assert [record.leader_epoch for record in reader.take(1)] == [5]
    assert reader.last_leader_epoch == 5


def test_records_do_not_keep_the_buffer_alive() -> None:
    class Buffer(bytearray):
        pass

    for codec in CODECS:
        buffer = Buffer(batch(0, 50, codec=codec))
        gone = weakref.ref(buffer)
        reader = cursor(memoryview(buffer))
        records = reader.take(50)
        assert reader.exhausted
        del buffer
        gc.collect()
        assert gone() is None
        assert records[49].value == b"v49"


def test_closing_drops_the_remaining_records() -> None:
    reader = cursor(batch(0, 5) + batch(5, 5))
    reader.take(2)
    reader.close()
    assert (reader.exhausted, reader.take(5), reader.next_offset, reader.decompressed_bytes) == (True, [], 2, 0)


def test_the_decompressed_size_of_a_cursor_is_known() -> None:
    reader = cursor(batch(0, 100, codec="gzip", value=bytes(1000)))
    assert reader.decompressed_bytes == 0
    reader.take(1)
    assert 100_000 < reader.decompressed_bytes < 110_000
    reader.take(99)
    assert reader.decompressed_bytes == 0


# --- control batches and transactions


def test_control_batches_are_passed_and_never_delivered() -> None:
    data = batch(0, 3, producer_id=7, transactional=True) + commit(7, 3) + batch(4, 1)
    reader = cursor(data)
    assert (offsets(reader.take(3)), reader.next_offset) == ([0, 1, 2], 4)
    assert offsets(reader.take(3)) == [4]
    only = cursor(commit(7, 9), 9)
    assert (only.take(1), only.next_offset, only.exhausted) == ([], 10, True)


def test_a_control_batch_at_the_end_is_passed_with_the_last_record() -> None:
    reader = cursor(batch(0, 3, producer_id=7, transactional=True) + commit(7, 3))
    reader.take(3)
    assert (reader.next_offset, reader.exhausted) == (4, True)


def test_read_uncommitted_delivers_aborted_transactions() -> None:
    data = batch(0, 2, producer_id=7, transactional=True) + abort(7, 2) + batch(3, 1)
    assert offsets(take_all(data)) == [0, 1, 3]


def test_read_committed_skips_aborted_transactions_only() -> None:
    data = (
        batch(0, 2, producer_id=7, transactional=True)
        + batch(2, 2, producer_id=8, transactional=True)
        + batch(4, 1, producer_id=7)  # idempotent, in no transaction
        + abort(7, 5)
        + batch(6, 2, producer_id=7, transactional=True)
        + commit(8, 8)
        + commit(7, 9)
        + batch(10, 1, producer_id=8, transactional=True)
        + batch(11, 1)
        + abort(8, 12)
    )
    reader = cursor(data, aborted=[(8, 10), (7, 0)])
    assert offsets(take_all(reader, 2)) == [2, 3, 4, 6, 7, 11]
    assert reader.next_offset == 13


def test_a_transaction_that_began_before_the_record_set_is_skipped() -> None:
    data = (
        batch(50, 2, producer_id=7, transactional=True) + abort(7, 52) + batch(53, 2, producer_id=7, transactional=True)
    )
    assert offsets(take_all(cursor(data, 50, aborted=[(7, 12)]))) == [53, 54]


def test_a_marker_below_the_fetch_offset_ends_its_transaction() -> None:
    data = abort(7, 9) + batch(10, 2, producer_id=7, transactional=True)
    assert offsets(take_all(cursor(data, 10, aborted=[(7, 0)]))) == [10, 11]


def test_the_same_producer_aborts_twice() -> None:
    data = b"".join(
        batch(base, 1, producer_id=7, transactional=True) + end(7, base + 1)
        for base, end in ((0, abort), (2, commit), (4, abort), (6, commit))
    )
    assert offsets(take_all(cursor(data, aborted=[(7, 0), (7, 4)]))) == [2, 6]


def test_the_position_passes_aborted_batches_without_returned_records() -> None:
    reader = cursor(batch(0, 5, producer_id=7, transactional=True) + abort(7, 5), aborted=[(7, 0)])
    assert (reader.take(10), reader.next_offset, reader.exhausted) == ([], 6, True)


def test_a_marker_of_an_unknown_type_ends_no_transaction() -> None:
    data = batch(0, 1, producer_id=7, transactional=True) + raw_batch_with_key(b"\0\0\0\x63") + batch(2, 1)
    assert offsets(take_all(cursor(data, aborted=[(7, 0)]))) == [2]


def raw_batch_with_key(key: bytes) -> bytes:
    from pyconsumer.protocol.records import BatchBuilder

    builder = BatchBuilder()
    builder.try_append(TIME, key, b"")
    return builder.build(1, 7, 0, is_transactional=True, is_control=True)


def test_a_marker_with_a_short_key_is_corrupt() -> None:
    data = batch(0, 1, producer_id=7, transactional=True) + raw_batch_with_key(b"\0\0\0") + batch(2, 1)
    reader = cursor(data, aborted=[(7, 0)])
    with pytest.raises(CorruptRecordError, match="3 bytes, and must have at least 4"):
        reader.take(1)


# --- damage


def test_a_wrong_checksum_is_a_repeated_error_at_its_batch() -> None:
    reader = cursor(batch(0, 3) + broken(batch(3, 3)) + batch(6, 3))
    assert offsets(reader.take(100)) == [0, 1, 2]
    for _ in range(3):
        with pytest.raises(CorruptRecordError, match=r"events-2 at offset 3: .* 3 to 5 .*checksum") as caught:
            reader.take(100)
        assert (caught.value.topic_partition, caught.value.offset) == (TP, 3)
        assert (reader.next_offset, reader.exhausted, reader.error) == (3, False, caught.value)


def test_checksums_are_not_checked_if_disabled() -> None:
    data = bytearray(batch(0, 3))
    data[17] ^= 0xFF
    assert offsets(take_all(cursor(data, check_crcs=False))) == [0, 1, 2]
    with pytest.raises(CorruptRecordError):
        take_all(cursor(data))


@pytest.mark.parametrize("kind", ["control", "aborted"])
def test_the_checksums_of_hidden_batches_are_checked(kind: str) -> None:
    hidden = commit(7, 2) if kind == "control" else batch(2, 1, producer_id=7, transactional=True)
    reader = cursor(batch(0, 2) + broken(hidden) + batch(3, 1), aborted=[(7, 0)])
    assert offsets(reader.take(2)) == [0, 1]
    with pytest.raises(CorruptRecordError) as caught:
        reader.take(1)
    assert caught.value.offset == reader.next_offset == 2
    assert caught.value.next_offset == 3
    assert offsets(take_all(cursor(batch(3, 1), fetch_offset=3))) == [3]


def test_good_records_of_a_damaged_batch_come_before_the_error() -> None:
    one, two = b"\x0e\0\0\0\x01\x02a\0", b"\x0e\0\0\x02\x01\x02b\0"
    bad = b"\x0e\0\0\x04\x01\x0cc\0"
    data = raw_batch(one + two + bad, 3) + batch(3, 2)
    reader = cursor(data)
    assert [record.value for record in reader.take(100)] == [b"a", b"b"]
    with pytest.raises(CorruptRecordError) as caught:
        reader.take(100)
    assert caught.value.offset == reader.next_offset == 2
    assert caught.value.next_offset == 3
    assert offsets(cursor(data, fetch_offset=3).take(100)) == [3, 4]


def test_an_error_comes_after_the_records_before_it() -> None:
    reader = cursor(batch(0, 3) + broken(batch(3, 1)))
    assert offsets(reader.take(3)) == [0, 1, 2]
    assert not reader.exhausted
    with pytest.raises(CorruptRecordError):
        reader.take(1)
    assert reader.take(0) == []


def test_good_batches_before_a_damaged_header_are_delivered() -> None:
    bad = bytearray(batch(3, 3))
    bad[16] = 9
    data = batch(0, 3) + bytes(bad)
    with pytest.raises(CorruptRecordError, match="magic 9"):
        scan(data, topic_partition=TP)
    reader = cursor(data)
    assert offsets(reader.take(2)) == [0, 1]
    assert offsets(reader.take(2)) == [2]
    with pytest.raises(CorruptRecordError) as caught:
        reader.take(2)
    assert (caught.value.offset, reader.exhausted) == (3, False)


def test_bytes_after_the_last_record_are_an_error_after_it() -> None:
    reader = cursor(raw_batch(b"\x0e\0\0\0\x01\x02a\0" + b"xyz", 1))
    assert len(reader.take(5)) == 1
    with pytest.raises(CorruptRecordError, match="3 bytes are left"):
        reader.take(5)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"\x0e\0\0\0\x01\x02a\0" * 2, "offset 0 comes after 0"),
        (b"\x0e\0\0\x0a\x01\x02a\0" * 2, "beyond"),
        (b"\x0e\0\0\x01\x01\x02a\0" * 2, "comes after"),  # a negative delta
        (b"\x0d\0\0\0\x01\x02a\0" * 2, "length"),
        (b"\x7e\0\0\0\x01\x02a\0" * 2, "length"),
        (b"\x0e\0\0\0\x01\x02a\x01" * 2, "headers"),
        (b"\x0e\0\0\0\x01\x02a\x7e" * 2, "headers"),
        (b"\x0c\0\0\0\x01\x02a\0" * 2, "do not fit"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"\0" * 8, "longer than 32 bits"),
        (b"\xff" * 14, "longer than 32 bits"),
        (b"\x14\0" + b"\xff" * 12 + b"\0" * 10, "longer than 64 bits"),
    ],
    ids=range(11),
)
def test_records_that_cannot_be_are_corrupt(payload: bytes, reason: str) -> None:
    reader = cursor(raw_batch(payload, 2))
    with pytest.raises(CorruptRecordError, match=reason) as caught:
        take_all(reader)
    assert caught.value.topic_partition == TP


def test_an_impossible_record_count_allocates_no_memory() -> None:
    with pytest.raises(CorruptRecordError, match="2147483647 records do not fit into 8 bytes"):
        take_all(raw_batch(b"\x0e\0\0\0\x01\x02a\0", 2**31 - 1))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_compression_type_is_named(codec: int) -> None:
    reader = cursor(raw_batch(b"abcdefgh", 1, attributes=codec))
    for _ in range(2):
        with pytest.raises(UnsupportedCodecError, match=f"events-2 at offset 0: compression type {codec}"):
            reader.take(1)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_batch_that_decompresses_to_too_many_bytes_is_rejected(codec: str) -> None:
    data = batch(0, 1) + batch(1, 10, codec=codec, value=bytes(10_000)) + batch(11, 1)
    reader = cursor(data, max_decompressed_bytes=50_000)
    assert offsets(reader.take(100)) == [0]
    with pytest.raises(CorruptRecordError, match="more than 50000 bytes"):
        reader.take(100)
    assert len(take_all(cursor(data, max_decompressed_bytes=200_000))) == 12


def test_the_same_error_does_not_grow_a_traceback() -> None:
    reader = cursor(broken(batch(0, 1)))
    depths = []
    for _ in range(3):
        try:
            reader.take(1)
        except KafkaError as error:
            depth, trace = 0, error.__traceback__
            while trace is not None:
                depth, trace = depth + 1, trace.tb_next
            depths.append(depth)
    assert len(set(depths)) == 1


def test_a_header_name_that_is_not_utf8_does_not_stop_a_consumer() -> None:
    payload = b"\x18\0\0\0\x01\x02a\x02\x04\xff\xfe\x02z"
    (record,) = take_all(raw_batch(payload, 1))
    assert record.headers == [("\ufffd\ufffd", b"z")]


@pytest.mark.parametrize("cut", range(1, 6))
def test_inconsistent_headers_are_corrupt(cut: int) -> None:
    good = b"\0\0\0\x01\x02a\x02\x04hh\x02z"
    payload = bytes([(len(good) - cut) << 1]) + good[:-cut] + b"\0" * 20
    with pytest.raises(CorruptRecordError):
        take_all(raw_batch(payload, 1))


# --- columns


def test_columns_have_the_layout_of_arrow() -> None:
    from pyconsumer.protocol.records import BatchBuilder

    builder = BatchBuilder()
    builder.try_append(TIME, None, b"one", [("h", b"1"), ("i", None)])
    builder.try_append(TIME + 1, b"key", None)
    builder.try_append(TIME + 2, b"", b"", [("ü", b"")])
    columns = cursor(builder.build(40, leader_epoch=6), 40).take_columns(100, with_headers=True)
    assert (len(columns), columns.topic, columns.partition, columns.size_bytes) == (3, "events", 2, 6)
    for numbers, expected in (
        (columns.offsets, array("q", [40, 41, 42])),
        (columns.timestamps, array("q", [TIME, TIME + 1, TIME + 2])),
        (columns.timestamp_types, array("i", [0, 0, 0])),
        (columns.leader_epochs, array("i", [6, 6, 6])),
    ):
        assert memoryview(numbers) == memoryview(expected)
    keys, values, headers = columns.keys, columns.values, columns.headers
    assert keys is not None
    assert values is not None
    assert (list(keys.offsets), keys.data, keys.bitmap) == ([0, 0, 3, 3], b"key", b"\x06")
    assert (keys.null_count, len(keys)) == (1, 3)
    assert values_of(values) == [b"one", None, b""]
    assert headers is not None
    assert list(headers.offsets) == [0, 2, 2, 3]
    assert values_of(headers.names) == [b"h", b"i", "ü".encode()]
    assert values_of(headers.values) == [b"1", None, b""]


def test_rows_with_and_without_headers_alternate() -> None:
    from pyconsumer.protocol.records import BatchBuilder

    for pattern in range(64):
        has = [bool(pattern >> place & 1) for place in range(6)]
        builder = BatchBuilder()
        for place, given in enumerate(has):
            builder.try_append(TIME, b"k%d" % place, b"v", [("h", b"%d" % place)] * 2 if given else [])
        columns = cursor(builder.build(0), 0).take_columns(100, with_headers=True)
        assert columns.keys is not None
        assert columns.headers is not None
        assert list(columns.headers.offsets) == [2 * sum(has[:place]) for place in range(7)]
        assert values_of(columns.headers.values) == [b"%d" % place for place in range(6) if has[place] for _ in "12"]
        assert values_of(columns.keys) == [b"k%d" % place for place in range(6)]


def test_columns_without_nulls_have_no_bitmap() -> None:
    columns = cursor(batch(0, 20)).take_columns(7)
    assert columns.keys is not None
    assert columns.values is not None
    assert (columns.keys.bitmap, columns.values.bitmap, columns.headers) == (None, None, None)
    assert len(columns) == 7
    empty = cursor(b"").take_columns(7)
    assert empty.keys is not None
    assert (len(empty), list(empty.keys.offsets), empty.keys.data) == (0, [0], b"")


def test_a_bitmap_has_the_lowest_bit_first() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyconsumer.protocol.records import BinaryColumn

    for n in (1, 7, 8, 9, 64, 1000):
        strings = [None if (i * 7) % 3 == 0 else b"%d" % i for i in range(n)]
        column = BinaryColumn.of(strings)
        buffers = [pyarrow.py_buffer(b) for b in (column.bitmap or b"", column.offsets, column.data)]
        made = pyarrow.Array.from_buffers(pyarrow.binary(), n, buffers)
        made.validate(full=True)
        assert made.to_pylist() == strings == values_of(column)
        assert made.null_count == column.null_count


def test_columns_stop_soon_after_the_requested_bytes() -> None:
    reader = cursor(batch(0, 3000, value=bytes(1000)))
    sizes = []
    while not reader.exhausted:
        sizes.append(reader.take_columns(10**9, 500_000).size_bytes)
    assert sum(sizes) == 3000 * 1000 + sum(len(b"k%d" % i) for i in range(3000))
    assert all(500_000 <= size < 502_000 for size in sizes[:-1])


def test_columns_deliver_the_good_records_before_an_error() -> None:
    reader = cursor(batch(0, 30) + broken(batch(30, 3)))
    assert len(reader.take_columns(1000)) == 30
    with pytest.raises(CorruptRecordError):
        reader.take_columns(1000)


def test_a_cursor_only_needs_a_view() -> None:
    for data in (batch(0, 3), bytearray(batch(0, 3)), memoryview(batch(0, 3))):
        assert isinstance(reader := cursor(data), helpers.current.Cursor)
        assert offsets(take_all(reader)) == [0, 1, 2]
