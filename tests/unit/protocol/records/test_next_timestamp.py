"""The timestamp of a cursor's next record, by which a consumer knows the age of records that wait."""

from __future__ import annotations

import pytest

from pyconsumer.protocol.records import BatchBuilder, ControlRecordType, build_end_transaction_marker
from pyconsumer.protocol.records.batch import LOG_APPEND_TIME
from pyconsumer.structs import TopicPartition
from tests.unit.consumer.builders import batch
from tests.unit.protocol.records.helpers import Decoder

A = TopicPartition("a", 0)


def marker(at: int) -> bytes:
    return build_end_transaction_marker(
        ControlRecordType.COMMIT,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=5,
        base_offset=at,
    )


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_the_next_record_is_known_in_the_middle_of_a_batch(decoder: Decoder, codec: str) -> None:
    cursor = decoder.Cursor(A, batch(0, 5, codec=codec) + batch(5, 5), fetch_offset=0)
    seen = [cursor.next_timestamp]
    while cursor.take(2):
        seen.append(cursor.next_timestamp)
    assert seen == [1000, 1002, 1004, 1006, 1008, None]


def test_the_next_record_of_odd_record_sets(decoder: Decoder) -> None:
    appended = BatchBuilder(timestamp_type=LOG_APPEND_TIME)
    for number in range(3):
        appended.try_append(number, None, b"x", [])
    data = appended.build(log_append_time_ms=72)
    append_time = decoder.Cursor(A, data, fetch_offset=0)
    assert append_time.next_timestamp == 72, "the time of the append is that of all records"
    append_time.take(1)
    assert append_time.next_timestamp == 72
    hidden = decoder.Cursor(A, marker(0) + marker(1), fetch_offset=0)
    assert hidden.next_timestamp is None
    gap = decoder.Cursor(A, marker(0) + batch(9, 2), fetch_offset=0)
    assert gap.next_timestamp == 1009
    inside = decoder.Cursor(A, batch(0, 9) + batch(9, 2), fetch_offset=9)
    assert inside.next_timestamp == 1009, "a batch below the position does not count"
    damaged = bytearray(batch(0, 3))
    damaged[-1] ^= 1
    broken = decoder.Cursor(A, bytes(damaged), fetch_offset=0)
    with pytest.raises(Exception, match="checksum"):
        broken.take(1)
    assert broken.next_timestamp is None
    closed = decoder.Cursor(A, batch(0, 3), fetch_offset=0)
    closed.close()
    assert closed.next_timestamp is None


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_delete_horizon_is_no_time_of_a_record(decoder: Decoder, codec: str) -> None:
    """The log cleaner writes it in the place of the first timestamp (KIP-534)."""
    cleaned = BatchBuilder(codec, delete_horizon_ms=900_000)
    for number in range(3):
        cleaned.try_append(70 + number, b"k", None, [])
    cursor = decoder.Cursor(A, cleaned.build(), fetch_offset=0)
    assert cursor.next_timestamp == 72, "the first one is not known without decompression"
    assert [record.timestamp for record in cursor.take(1)] == [70]
    assert cursor.next_timestamp == 71
