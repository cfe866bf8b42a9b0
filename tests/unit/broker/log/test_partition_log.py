"""Tests of appends, of reads, and of rolling and deleting segments. On disk and in memory alike."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.broker.log.partition_log import PartitionLog
from pyconsumer.broker.log.validation import record_columns
from pyconsumer.broker.partition import Partition
from pyconsumer.clock import ManualClock
from pyconsumer.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
    RecordListTooLargeError,
    UnsupportedCompressionTypeError,
)
from pyconsumer.protocol.records import CREATE_TIME, LOG_APPEND_TIME, BatchBuilder, iter_records, scan
from tests.unit.broker.support import NOW_MS, TP, FailingStorage, batch, keyed, log_in, records_of

Opener = Callable[..., PartitionLog]


@pytest.fixture(params=["disk", "memory"])
def new_log(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens an empty log: ``new_log(clock, segment_bytes=...)``."""

    def make(clock: ManualClock | None = None, **config: Any) -> PartitionLog:
        return log_in(tmp_path if request.param == "disk" else None, clock, **config)

    return make


def whole(log: PartitionLog, offset: int, max_bytes: int = 1 << 20, end: int | None = None) -> list[int]:
    """Base offsets of the whole batches that a read returns."""
    data = log.read(offset, max_bytes, log.log_end_offset if end is None else end, at_least_one=True)
    return [info.base_offset for info in scan(data)]


class TestAppend:
    def test_batches_get_offsets_and_the_leader_epoch(self, new_log: Opener) -> None:
        log = new_log()
        assert log.append(batch(b"a", b"b"), 3)[:2] == (0, 1)
        assert log.append(batch(b"c"), 4)[:2] == (2, 2)
        headers = scan(log.read(0, 1 << 20, 3, at_least_one=True))
        assert [(h.base_offset, h.last_offset, h.partition_leader_epoch) for h in headers] == [(0, 1, 3), (2, 2, 4)]
        assert [r.value for r in records_of(log)] == [b"a", b"b", b"c"]

    def test_a_batch_is_stored_as_sent_except_for_its_offset(self, new_log: Opener) -> None:
        log = new_log()
        log.append(batch(b"first"), 0)
        sent = batch(b"a" * 300, codec="zstd")
        expected = bytes(sent)
        log.append(sent, 7)
        stored = log.read(1, 1 << 20, 2, at_least_one=True)
        assert stored[16:] == expected[16:]
        assert stored[:16] == (1).to_bytes(8, "big") + expected[8:12] + (7).to_bytes(4, "big")

    def test_bytes_that_cannot_be_changed_are_taken_as_well(self, new_log: Opener) -> None:
        log = new_log()
        log.append(bytes(batch(b"a")), 0)
        log.append(memoryview(bytes(batch(b"b"))), 0)
        assert [r.value for r in records_of(log)] == [b"a", b"b"]

    def test_log_append_time_replaces_the_producers(self, new_log: Opener) -> None:
        clock = ManualClock(wall_ms=NOW_MS + 5000)
        log = new_log(clock, log_append_time=True)
        result = log.append(batch(b"a", b"b", timestamp_ms=12), 0)
        assert result.log_append_time_ms == NOW_MS + 5000
        data = log.read(0, 1 << 20, 2, at_least_one=True)
        assert scan(data)[0].timestamp_type == LOG_APPEND_TIME
        assert [r.timestamp for r in iter_records(data)] == [NOW_MS + 5000] * 2

    def test_create_time_is_kept(self, new_log: Opener) -> None:
        log = new_log()
        assert log.append(batch(b"a", timestamp_ms=12), 0).log_append_time_ms == -1
        data = log.read(0, 1 << 20, 1, at_least_one=True)
        assert scan(data)[0].timestamp_type == CREATE_TIME
        assert next(iter_records(data)).timestamp == 12

    def test_the_topics_own_compression_is_applied(self, new_log: Opener) -> None:
        log = new_log(compression_type="gzip")
        log.append(batch(b"a" * 500, b"b" * 500, codec="lz4"), 0)
        log.append(batch(b"c" * 500), 0)
        assert [h.codec for h in scan(log.read(0, 1 << 20, 3, at_least_one=True))] == [1, 1]
        assert [r.value[:1] for r in records_of(log) if r.value] == [b"a", b"b", b"c"]

    def test_uncompressed_undoes_the_producers_compression(self, new_log: Opener) -> None:
        log = new_log(compression_type="uncompressed")
        log.append(batch(b"a" * 500, codec="snappy"), 0)
        assert scan(log.read(0, 1 << 20, 1, at_least_one=True))[0].codec == 0
        assert records_of(log)[0].value == b"a" * 500


class TestRefusal:
    @pytest.mark.parametrize("at", [17, 30, 61, -1])
    def test_a_flipped_byte_is_a_corrupt_message(self, new_log: Opener, at: int) -> None:
        log = new_log()
        damaged = batch(b"abc")
        damaged[at] ^= 0x40
        with pytest.raises(CorruptMessageError):
            log.append(damaged, 0)
        assert log.log_end_offset == 0

    def test_a_cut_batch_is_no_record(self, new_log: Opener) -> None:
        log = new_log()
        sent = batch(b"abc")
        for size in range(len(sent)):
            with pytest.raises(InvalidRecordError, match="no complete"):
                log.append(sent[:size], 0)
        with pytest.raises(CorruptMessageError, match="end"):
            log.append(sent + sent[:20], 0)

    def test_two_batches_in_one_request_are_rejected(self, new_log: Opener) -> None:
        with pytest.raises(InvalidRecordError, match="exactly one"):
            new_log().append(batch(b"a") + batch(b"b"), 0)

    def test_a_batch_larger_than_max_message_bytes(self, new_log: Opener) -> None:
        log = new_log(max_message_bytes=200)
        log.append(batch(b"x" * 100), 0)
        with pytest.raises(MessageTooLargeError, match=r"max\.message\.bytes=200"):
            log.append(batch(b"x" * 200), 0)

    def test_a_batch_larger_than_a_segment(self, new_log: Opener) -> None:
        with pytest.raises(RecordListTooLargeError):
            new_log(segment_bytes=100).append(batch(b"x" * 200), 0)

    def test_a_timestamp_too_far_ahead(self, new_log: Opener) -> None:
        log = new_log(timestamp_after_max_ms=1000)
        log.append(batch(b"a", timestamp_ms=NOW_MS + 1000), 0)
        with pytest.raises(InvalidTimestampError, match="ahead"):
            log.append(batch(b"a", timestamp_ms=NOW_MS + 1001), 0)

    def test_a_timestamp_too_far_behind(self, new_log: Opener) -> None:
        log = new_log(timestamp_before_max_ms=1000)
        log.append(batch(b"a", timestamp_ms=NOW_MS - 1000), 0)
        with pytest.raises(InvalidTimestampError, match="behind"):
            log.append(batch(b"a", timestamp_ms=NOW_MS - 1001), 0)

    def test_log_append_time_lets_any_timestamp_pass(self, new_log: Opener) -> None:
        log = new_log(log_append_time=True, timestamp_after_max_ms=1, timestamp_before_max_ms=1)
        log.append(batch(b"a", timestamp_ms=NOW_MS * 2), 0)
        log.append(batch(b"a", timestamp_ms=1), 0)

    def test_a_compacted_topic_requires_keys(self, new_log: Opener) -> None:
        log = new_log(compact=True, delete=False)
        log.append(keyed((b"k", b"v"), (b"l", None)), 0)
        with pytest.raises(InvalidRecordError, match="key"):
            log.append(keyed((b"k", b"v"), (None, b"v")), 0)

    def test_clients_cannot_write_control_records(self, new_log: Opener) -> None:
        log = new_log()
        control = batch(b"a", producer_id=5, epoch=0, control=True)
        with pytest.raises(InvalidRecordError, match="control"):
            log.append(bytearray(control), 0)
        log.append(control, 0, from_client=False)

    def test_an_unknown_codec(self, new_log: Opener) -> None:
        with pytest.raises(UnsupportedCompressionTypeError):
            new_log().append(_resealed(batch(b"a"), slice(21, 23), (5).to_bytes(2, "big")), 0)

    def test_a_record_count_that_does_not_match_the_offsets(self, new_log: Opener) -> None:
        with pytest.raises(InvalidRecordError, match="offsets are for"):
            new_log().append(_resealed(batch(b"a", b"b"), slice(57, 61), (1).to_bytes(4, "big")), 0)


def _resealed(data: bytearray, where: slice, content: bytes) -> bytearray:
    """A batch with other bytes and a matching checksum."""
    from pyconsumer.protocol.records.crc import crc32c

    data[where] = content
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return data


class TestRead:
    def test_from_inside_a_batch_the_whole_batch_is_given(self, new_log: Opener) -> None:
        log = new_log()
        log.append(batch(b"a", b"b", b"c"), 0)
        log.append(batch(b"d"), 0)
        assert whole(log, 1) == [0, 3]
        assert whole(log, 3) == [3]

    def test_a_read_at_the_end_is_empty(self, new_log: Opener) -> None:
        log = new_log()
        assert log.read(0, 100, 0, at_least_one=True) == b""
        log.append(batch(b"a"), 0)
        assert log.read(1, 100, 1, at_least_one=True) == b""

    def test_beyond_either_end_is_out_of_range(self, new_log: Opener) -> None:
        log = new_log()
        log.append(batch(b"a", b"b"), 0)
        for offset in (-1, 3):
            with pytest.raises(OffsetOutOfRangeError):
                log.read(offset, 100, 2, at_least_one=True)

    def test_batches_at_or_above_the_bound_are_not_returned(self, new_log: Opener) -> None:
        log = new_log()
        for _ in range(4):
            log.append(batch(b"a", b"b"), 0)
        assert whole(log, 0, end=4) == [0, 2]
        assert whole(log, 4, end=4) == []
        assert log.read(6, 100, 4, at_least_one=True) == b""

    def test_the_byte_limit_cuts_but_the_first_batch_may_come_whole(self, new_log: Opener) -> None:
        log = new_log()
        size = log.append(batch(b"x" * 100), 0).size_bytes
        log.append(batch(b"x" * 100), 0)
        assert len(log.read(0, size + 10, 2, at_least_one=True)) == size + 10
        assert len(log.read(0, 10, 2, at_least_one=True)) == size
        assert log.read(0, 10, 2, at_least_one=False) == b""  # as Kafka: never a cut-off batch alone
        assert log.read(0, 0, 2, at_least_one=False) == b""

    def test_every_offset_of_a_long_log_is_found(self, new_log: Opener) -> None:
        log = new_log(segment_bytes=20_000, index_interval_bytes=300)
        starts = [log.append(batch(*[b"v" * 37] * (1 + index % 5)), 0).first_offset for index in range(500)]
        assert len(log.segments) > 3
        for offset in range(log.log_end_offset):
            expected = max(start for start in starts if start <= offset)
            assert whole(log, offset, max_bytes=1)[0] == expected

    def test_the_whole_log_in_pieces(self, new_log: Opener) -> None:
        log = new_log(segment_bytes=3000)
        for index in range(100):
            log.append(batch(str(index).encode()), 0)
        pieces = list(log.raw(500))
        assert len(pieces) > 5
        assert [r.value for piece in pieces for r in iter_records(piece)] == [str(i).encode() for i in range(100)]


class TestSegments:
    def test_a_new_one_begins_when_the_size_is_reached(self, new_log: Opener) -> None:
        log = new_log(segment_bytes=500)
        for _ in range(10):
            log.append(batch(b"x" * 150), 0)
        assert all(segment.size_bytes <= 500 for segment in log.segments)
        assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6, 8]

    def test_a_new_one_begins_when_records_are_segment_ms_apart(self, new_log: Opener) -> None:
        log = new_log(segment_ms=1000)
        for age in (0, 500, 1000, 1001, 1500, 2100):
            log.append(batch(b"a", timestamp_ms=NOW_MS + age), 0)
        assert [segment.base_offset for segment in log.segments] == [0, 3, 5]

    def test_a_new_one_begins_when_an_index_is_full(self, new_log: Opener) -> None:
        log = new_log(index_interval_bytes=0, segment_index_bytes=80)
        for _ in range(30):
            log.append(batch(b"a"), 0)
        assert len(log.segments) > 2

    def test_jitter_lets_them_begin_earlier(self, new_log: Opener) -> None:
        log = new_log(segment_ms=1000, segment_jitter_ms=1000)
        for age in range(0, 20_000, 100):
            log.append(batch(b"a", timestamp_ms=NOW_MS + age), 0)
        assert len(log.segments) > 20


class TestRetention:
    def test_by_time_old_segments_go_and_the_log_begins_later(self, new_log: Opener) -> None:
        clock = ManualClock(wall_ms=NOW_MS)
        log = new_log(clock, segment_bytes=100, retention_ms=1000)
        for index in range(4):
            log.append(batch(b"x" * 30, timestamp_ms=NOW_MS + 400 * index), 0)
        clock.advance(1.5)
        assert log.delete_old_segments(log.log_end_offset) == 2
        assert (log.log_start_offset, log.log_end_offset) == (2, 4)
        with pytest.raises(OffsetOutOfRangeError):
            log.read(1, 100, 4, at_least_one=True)

    def test_the_last_segment_is_deleted_too_and_offsets_continue(self, new_log: Opener) -> None:
        clock = ManualClock(wall_ms=NOW_MS)
        log = new_log(clock, retention_ms=1000)
        log.append(batch(b"a", b"b"), 0)
        clock.advance(10)
        assert log.delete_old_segments(2) == 1
        assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (2, 2, 0)
        assert log.append(batch(b"c"), 0).first_offset == 2

    def test_by_size(self, new_log: Opener) -> None:
        log = new_log(segment_bytes=100, retention_bytes=250)
        size = log.append(batch(b"x" * 30), 0).size_bytes
        for _ in range(4):
            log.append(batch(b"x" * 30), 0)
        log.delete_old_segments(5)
        assert log.size_bytes == 3 * size
        assert log.log_start_offset == 2

    def test_segments_above_the_high_watermark_are_kept(self, new_log: Opener) -> None:
        clock = ManualClock(wall_ms=NOW_MS)
        log = new_log(clock, segment_bytes=100, retention_ms=1000)
        for _ in range(4):
            log.append(batch(b"x" * 30), 0)
        clock.advance(10)
        assert log.delete_old_segments(2) == 2

    @pytest.mark.parametrize("config", [{"retention_ms": -1}, {"delete": False, "compact": True, "retention_ms": 1}])
    def test_without_retention_no_segment_is_deleted(self, new_log: Opener, config: dict[str, object]) -> None:
        clock = ManualClock(wall_ms=NOW_MS)
        log = new_log(clock, segment_bytes=100, **config)
        for _ in range(4):
            log.append(keyed((b"k", b"x" * 25)), 0)
        clock.advance(1e6)
        assert log.delete_old_segments(4) == 0

    def test_deleted_records_are_hidden_and_whole_segments_removed(self, new_log: Opener) -> None:
        log = new_log(segment_bytes=250)
        for _ in range(9):
            log.append(batch(b"x"), 0)
        log.advance_log_start_offset(5)
        assert log.log_start_offset == 5
        assert log.segments[0].base_offset == 3
        assert [r.offset for r in records_of(log)] == [5, 6, 7, 8]
        log.advance_log_start_offset(2)
        assert log.log_start_offset == 5


class TestByTime:
    def test_the_first_record_at_or_after_a_time(self, new_log: Opener) -> None:
        log = new_log(segment_bytes=1000, index_interval_bytes=100)
        for index in range(50):
            log.append(batch(b"a", b"b", timestamp_ms=NOW_MS + 10 * index, codec="gzip"), 2)
        for index in range(50):
            assert log.offset_for_timestamp(NOW_MS + 10 * index) == (2 * index, NOW_MS + 10 * index, 2)
            assert log.offset_for_timestamp(NOW_MS + 10 * index + 1) == (2 * index + 1, NOW_MS + 10 * index + 1, 2)
        assert log.offset_for_timestamp(0) == (0, NOW_MS, 2)
        assert log.offset_for_timestamp(NOW_MS + 492) is None

    def test_timestamps_out_of_order(self, new_log: Opener) -> None:
        log = new_log(segment_bytes=300, index_interval_bytes=0)
        times = [5, 3, 9, 1, 7, 9, 2, 12, 4]
        for time in times:
            log.append(batch(b"a", timestamp_ms=time), 0)
        for time in range(13):
            expected = next(index for index, found in enumerate(times) if found >= time)
            found = log.offset_for_timestamp(time)
            assert found is not None
            assert found.offset == expected

    def test_the_record_with_the_greatest_timestamp(self, new_log: Opener) -> None:
        log = new_log(segment_bytes=300)
        assert log.offset_of_max_timestamp() is None
        for time in (5, 3, 9, 1, 7, 9, 2):
            log.append(batch(b"a", timestamp_ms=time), 0)
        found = log.offset_of_max_timestamp()
        assert found is not None
        assert found[:2] == (2, 9)

    @pytest.mark.parametrize("seed", range(20))
    def test_the_greatest_timestamp_of_visible_records(self, new_log: Opener, seed: int) -> None:
        chance = random.Random(seed)
        log = new_log(segment_bytes=chance.choice((150, 400, 5000)), index_interval_bytes=chance.choice((0, 4096)))
        times: list[int] = []
        while len(times) < 40:
            some = [chance.randrange(30) for _ in range(chance.randint(1, 4))]
            builder = BatchBuilder(chance.choice(("none", "gzip")))
            for time in some:
                builder.try_append(time, None, b"v")
            log.append(bytearray(builder.build()), 0)
            times += some
        for start in range(len(times)):
            log.advance_log_start_offset(start)
            found = log.offset_of_max_timestamp()
            latest = max(times[start:])
            assert found is not None
            assert found[:2] == (times.index(latest, start), latest)
        log.advance_log_start_offset(len(times))
        assert log.offset_of_max_timestamp() is None

    def test_hidden_records_are_not_found(self, new_log: Opener) -> None:
        log = new_log()
        log.append(batch(b"a", b"b", b"c", timestamp_ms=100), 0)
        log.advance_log_start_offset(1)
        found = log.offset_for_timestamp(0)
        assert found is not None
        assert found.offset == 1


class TestLargeBatches:
    """A batch of a few KiB may have very many records. They are checked, but never all at once."""

    @staticmethod
    def sent(count: int = 20_000, *, last: bytes | None = b"") -> bytearray:
        builder = BatchBuilder("zstd")
        for index in range(count):
            assert builder.try_append(NOW_MS + index, b"" if index < count - 1 else last, b"") == index
        return bytearray(builder.build())

    def test_they_come_in_pieces(self) -> None:
        sizes = [len(piece) for piece in record_columns(self.sent(25_000), 0, with_keys=True, check_crc=True)]
        assert (sum(sizes), max(sizes)) == (25_000, 10_000)

    def test_they_are_accepted_and_found_by_time(self, new_log: Opener) -> None:
        log = new_log(compact=True, timestamp_before_max_ms=1)
        log.append(self.sent(), 0)
        assert (log.offset_of_max_timestamp() or ())[:2] == (19_999, NOW_MS + 19_999)
        assert (log.offset_for_timestamp(NOW_MS + 15_000) or ())[:2] == (15_000, NOW_MS + 15_000)

    def test_all_of_them_are_checked(self, new_log: Opener) -> None:
        with pytest.raises(InvalidRecordError, match="must have a key"):
            new_log(compact=True).append(self.sent(last=None), 0)
        clock = ManualClock(wall_ms=NOW_MS + 19_999)
        log = new_log(clock, timestamp_before_max_ms=19_998)
        with pytest.raises(InvalidTimestampError, match=str(NOW_MS)):
            log.append(self.sent(), 0)
        new_log(clock, timestamp_before_max_ms=19_999).append(self.sent(), 0)

    def test_records_without_a_timestamp_are_not_too_old(self, new_log: Opener) -> None:
        new_log(timestamp_before_max_ms=1000).append(batch(b"a", timestamp_ms=-1), 0)


def led(log: PartitionLog) -> Partition:
    partition = Partition(0, TP, bytes(16), log)
    partition.lead(0, 0, (0,), (0,))
    return partition


def test_flush_messages_forces_to_disk(tmp_path: Path) -> None:
    log = log_in(tmp_path, flush_messages=3)
    partition = led(log)
    partition.append(batch(b"a", b"b"))
    assert log.recovery_point == 0
    partition.append(batch(b"c"))
    assert log.recovery_point == 3


def test_a_batch_that_cannot_be_flushed_is_still_appended(tmp_path: Path) -> None:
    storage = FailingStorage(tmp_path)
    partition = led(log_in(storage, flush_messages=1))
    storage.refused = (".index",)  # the segment's file is open, that of the index is not
    with pytest.raises(OSError, match="Too many open files"):
        partition.append(batch(b"a", producer_id=4, epoch=0, sequence=0))
    assert (partition.log.log_end_offset, partition.high_watermark) == (1, 1)
    repeated = partition.append(batch(b"a", producer_id=4, epoch=0, sequence=0))
    assert (repeated.duplicate, repeated.last_offset) == (True, 0)


def test_flush_ms_flushes_after_that_time(tmp_path: Path) -> None:
    clock = ManualClock(wall_ms=NOW_MS)
    log = log_in(tmp_path, clock, flush_ms=500)
    log.append(batch(b"a"), 0)
    log.flush_if_due()
    assert log.recovery_point == 0
    clock.advance(0.5)
    log.flush_if_due()
    assert log.recovery_point == 1


def test_closed_segments_are_forced_to_disk_by_calls_for_another_thread(tmp_path: Path) -> None:
    log = log_in(tmp_path, segment_bytes=100)
    for _ in range(3):
        log.append(batch(b"x" * 30), 0)
    point, calls = log.flushers()
    assert (point, len(calls)) == (2, 2)
    log.advance_log_start_offset(2)  # their files are closed and removed before the thread comes to them
    for call in calls:
        call()
    assert log.flushers() == (2, [])


def test_a_failed_append_leaves_the_log_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    log = log_in(tmp_path)
    log.append(batch(b"a"), 0)
    real = os.pwrite

    def full_disk(descriptor: int, data: bytes, position: int) -> int:
        real(descriptor, bytes(data)[:10], position)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full_disk)
    with pytest.raises(OSError, match="No space"):
        log.append(batch(b"b"), 0)
    monkeypatch.undo()
    assert log.append(batch(b"c"), 0).first_offset == 1
    assert [r.value for r in records_of(log)] == [b"a", b"c"]


class TestFilesThatCannotBeWritten:
    """No descriptors are left, or no space. Records in the log must not count as unwritten."""

    def test_an_index_that_is_written_later_does_not_fail_an_append(self, tmp_path: Path) -> None:
        storage = FailingStorage(tmp_path)
        log = log_in(storage, index_interval_bytes=1, segment_index_bytes=1 << 20)
        storage.refused = (".index", ".timeindex")
        for index in range(600):  # written at each 256th entry
            assert log.append(batch(b"%d" % index, timestamp_ms=NOW_MS + index), 0).first_offset == index
        storage.refused = ()
        for index in range(600, 800):
            log.append(batch(b"%d" % index, timestamp_ms=NOW_MS + index), 0)
        log.abandon()
        again = log_in(tmp_path)
        assert [(r.offset, r.value) for r in records_of(again)] == [(i, b"%d" % i) for i in range(800)]

    def test_it_is_not_tried_each_time(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        storage = FailingStorage(tmp_path)
        log = log_in(storage, index_interval_bytes=1, segment_index_bytes=1 << 20)
        storage.refused = (".index", ".timeindex")
        for _ in range(600):
            log.append(batch(b"a"), 0)
        assert len(caplog.records) == 2

    def test_leader_epochs_are_written_later(self, tmp_path: Path) -> None:
        storage = FailingStorage(tmp_path)
        log = log_in(storage)
        storage.refused = ("leader-epoch-checkpoint",)
        assert log.append(batch(b"a"), 3).first_offset == 0
        assert log.append(batch(b"b"), 4).first_offset == 1
        storage.refused = ()
        log.close()
        assert log_in(tmp_path, clean=True).epochs.entries() == [(3, 0), (4, 1)]

    def test_a_truncation_is_complete_although_index_files_follow_later(self, tmp_path: Path) -> None:
        storage = FailingStorage(tmp_path)
        log = log_in(storage, index_interval_bytes=1, segment_index_bytes=1 << 20)
        for index in range(300):
            log.append(batch(b"%d" % index, timestamp_ms=NOW_MS + index), 0)
        log.segments[0].seal()
        storage.refused = (".index", ".timeindex")
        log.truncate_to(7)
        assert log.log_end_offset == 7
        storage.refused = ()
        log.close()
        again = log_in(tmp_path, clean=True)
        assert (again.log_end_offset, len(again.segments[0].offset_index)) == (7, 6)

    def test_a_segment_that_cannot_be_created_leaves_no_file_open(self, tmp_path: Path) -> None:
        storage = FailingStorage(tmp_path)
        log = log_in(storage, segment_bytes=200)
        log.append(batch(b"x" * 60), 0)
        storage.opened.clear()
        storage.refused = ("1.timeindex",)
        with pytest.raises(OSError, match="Too many"):
            log.append(batch(b"y" * 60), 0)
        assert not [name for name in storage.opened if name.endswith(".log")]
        storage.refused = ()
        assert log.append(batch(b"y" * 60), 0).first_offset == 1
