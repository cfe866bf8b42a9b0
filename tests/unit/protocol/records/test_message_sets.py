"""Message formats v0 and v1, which old segments still hold."""

from __future__ import annotations

import pytest

from pyconsumer.errors import CorruptRecordError
from pyconsumer.protocol.records import LOG_APPEND_TIME, NO_TIMESTAMP_TYPE, scan
from tests.unit.protocol.records.helpers import TIME, batch, cursor, message, message_set, offsets, take_all

pytestmark = pytest.mark.usefixtures("decoder")

SET_CODECS = {"gzip": 1, "snappy": 2, "lz4": 3}


def simple(magic: int, offset: int) -> bytes:
    return message(magic, offset, b"k%d" % offset, b"v%d" % offset, timestamp=TIME + offset)


def wrapped(magic: int, first: int, count: int, codec: int = 1, *, gaps: int = 0) -> bytes:
    """Compressed messages from offset ``first`` on: inside, v0 has whole offsets and v1 offsets from 0 on."""
    numbers = [i * (gaps + 1) for i in range(count)]
    inner = [
        message(magic, number + (0 if magic else first), b"k", b"v%d" % (first + number), timestamp=TIME + number)
        for number in numbers
    ]
    return message_set(magic, codec, inner, first + numbers[-1])


@pytest.mark.parametrize("magic", [0, 1])
def test_plain_messages(magic: int) -> None:
    data = simple(magic, 5) + simple(magic, 6) + message(magic, 9, None, None)
    records = take_all(data, 2, fetch_offset=5)
    assert [(r.offset, r.key, r.value) for r in records] == [(5, b"k5", b"v5"), (6, b"k6", b"v6"), (9, None, None)]
    expected = (NO_TIMESTAMP_TYPE, -1) if magic == 0 else (0, TIME + 5)
    assert (records[0].timestamp_type, records[0].timestamp) == expected
    assert records[0].headers == []
    assert records[0].leader_epoch == -1


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", SET_CODECS)
@pytest.mark.parametrize("take", [1, 3, 100])
def test_compressed_sets(magic: int, codec: str, take: int) -> None:
    data = wrapped(magic, 10, 4, SET_CODECS[codec]) + wrapped(magic, 14, 2, SET_CODECS[codec], gaps=4)
    reader = cursor(data, 11)
    assert offsets(take_all(reader, take)) == [11, 12, 13, 14, 19]
    assert (reader.next_offset, reader.end_offset) == (20, 20)


def test_offsets_inside_count_back_from_the_last() -> None:
    # After compaction of the inner messages the first relative offset is not 0 any more (KIP-31).
    data = message_set(1, 1, [message(1, 3, b"a", b"a"), message(1, 7, b"b", b"b")], 107)
    assert offsets(take_all(data)) == [103, 107]


def test_log_append_time_is_that_of_the_outer_message() -> None:
    inner = [message(1, i, None, b"v", timestamp=5) for i in range(2)]
    records = take_all(message_set(1, 1, inner, 1, timestamp=TIME, attributes=0x08))
    assert [(r.timestamp, r.timestamp_type) for r in records] == [(TIME, LOG_APPEND_TIME)] * 2
    (alone,) = take_all(message(1, 0, None, b"v", timestamp=TIME, attributes=0x08))
    assert (alone.timestamp, alone.timestamp_type) == (TIME, LOG_APPEND_TIME)


def test_formats_follow_each_other() -> None:
    data = simple(0, 0) + wrapped(0, 1, 2) + simple(1, 3) + wrapped(1, 4, 2) + batch(6, 2)
    assert offsets(take_all(data, 3)) == list(range(8))


def test_a_scan_does_not_decompress() -> None:
    first, second = scan(simple(1, 4) + wrapped(1, 5, 3))
    assert (first.base_offset, first.last_offset, first.record_count, first.codec) == (4, 4, 1, 0)
    assert (second.base_offset, second.last_offset, second.record_count, second.codec) == (7, 7, -1, 1)
    assert (first.is_control, first.is_transactional, first.has_producer_id, first.last_sequence) == (False,) * 3 + (
        -1,
    )


@pytest.mark.parametrize("magic", [0, 1])
def test_checksums_of_outer_and_inner_messages(magic: int) -> None:
    bad = bytearray(simple(magic, 0))
    bad[-1] ^= 1
    with pytest.raises(CorruptRecordError, match="checksum is wrong"):
        take_all(bytes(bad))
    assert len(take_all(bytes(bad), check_crcs=False)) == 1
    inside = message_set(magic, 1, [bytes(bad)], 0)
    with pytest.raises(CorruptRecordError, match="checksum of a message inside"):
        take_all(inside)
    assert len(take_all(inside, check_crcs=False)) == 1


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (message(1, 0, None, None, attributes=1), "no value"),
        (message_set(1, 1, [], 0), "carries no message"),
        (message_set(0, 1, [batch(0, 1)], 0), "format v2 is inside one of format v0 or v1"),
        (message_set(1, 1, [wrapped(1, 0, 1)], 0), "inside a compressed message"),
        (message_set(1, 1, [simple(1, 1), simple(1, 1)], 1), "comes after"),
        (message_set(1, 1, [simple(1, 9)], 3), "do not fit its own"),
        (message_set(0, 1, [simple(0, 0)[:-3]], 0), "carries no message"),
        (message_set(1, 2, [simple(1, 0)[:20]], 0), "carries no message"),
        (message(1, 0, None, b"not gzip", attributes=1), "gzip data is damaged"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_sets_that_cannot_be_are_corrupt(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptRecordError, match=reason):
        take_all(data)


def test_lengths_inside_a_message_are_checked() -> None:
    good = bytearray(simple(1, 0))
    for value in (b"\xff\xff\xff\xfe", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x03", b"\x00\x00\x00\x01"):
        good[26:30] = value  # the key's length
        with pytest.raises(CorruptRecordError):
            take_all(bytes(good), check_crcs=False)


def test_a_damaged_set_is_one_error_and_can_be_skipped() -> None:
    data = wrapped(1, 0, 2) + message(1, 5, None, b"??", attributes=2) + wrapped(1, 6, 2)
    reader = cursor(data)
    assert offsets(reader.take(100)) == [0, 1]
    with pytest.raises(CorruptRecordError) as caught:
        reader.take(100)
    assert (caught.value.offset, caught.value.next_offset) == (2, 6)
    assert offsets(cursor(data, fetch_offset=6).take(100)) == [6, 7]


def test_a_decompression_bomb_in_a_set_is_rejected() -> None:
    with pytest.raises(CorruptRecordError, match="more than 1000 bytes"):
        take_all(message_set(1, 1, [message(1, 0, None, bytes(100_000))], 0), max_decompressed_bytes=1000)
