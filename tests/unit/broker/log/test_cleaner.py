"""Compaction: the last record of each key stays, offsets don't change, and unknown attributes survive."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from pyconsumer.broker.log.cleaner import LogCleaner
from pyconsumer.broker.log.partition_log import PartitionLog
from pyconsumer.broker.log.segment import Segment
from pyconsumer.broker.log.validation import rebuild_batch
from pyconsumer.broker.partition import Partition
from pyconsumer.clock import ManualClock
from pyconsumer.errors import KafkaError
from pyconsumer.protocol.records import (
    BATCH_OVERHEAD,
    BatchBuilder,
    Codec,
    ControlRecordType,
    build_end_transaction_marker,
    patch_batch,
    read_end_transaction_marker,
    scan,
)
from pyconsumer.protocol.records.crc import crc32c
from pyconsumer.structs import TopicPartition
from tests.unit.broker.support import NOW_MS, TP, FailingStorage, batch, clean_log, keyed, log_in, records_of

_DAY_MS = 86_400_000


def compacted(where: Path | None = None, clock: ManualClock | None = None, **config: object) -> PartitionLog:
    settings: dict[str, object] = {"compact": True, "delete": False, "segment_bytes": 150} | config
    return log_in(where, clock, **settings)


def contents(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(r.offset, r.key, r.value) for r in records_of(log)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("on_disk", [True, False])
def test_of_each_key_the_last_record_stays(tmp_path: Path, codec: str, on_disk: bool) -> None:
    log = compacted(tmp_path if on_disk else None)
    for index in range(12):
        log.append(keyed((b"k%d" % (index % 3), b"v%d" % index), (b"once%d" % index, b"x"), codec=codec), 0)
    before = contents(log)
    active = log.segments[-1].base_offset
    end = clean_log(log, NOW_MS)
    assert end == active
    last = {key: offset for offset, key, _ in before if offset < active}
    assert contents(log) == [item for item in before if item[0] >= active or last[item[1]] == item[0]]
    assert (log.log_start_offset, log.log_end_offset) == (0, 24)


def test_every_offset_can_still_be_read_from(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for index in range(40):
        log.append(keyed((b"k%d" % (index % 2), b"v%d" % index)), 0)
    clean_log(log, NOW_MS)
    left = [offset for offset, _, _ in contents(log)]
    for offset in range(log.log_end_offset):
        expected = min((found for found in left if found >= offset), default=None)
        if expected is not None:
            found = [r.offset for r in records_of(log, offset) if r.offset >= offset]
            assert found[0] == expected


def test_small_segments_are_merged(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for index in range(40):
        log.append(keyed((b"k%d" % (index % 2), b"v%d" % index)), 0)
    before = len(log.segments)
    clean_log(log, NOW_MS)
    assert len(log.segments) < before / 2
    assert not [name for name in log.storage.names() if name.endswith((".cleaned", ".swap"))]
    log.close()
    again = compacted(tmp_path)
    assert contents(again) == contents(log_in(tmp_path))


def test_the_last_segment_is_never_touched() -> None:
    log = compacted(segment_bytes=1 << 20)
    log.append(keyed((b"k", b"1")), 0)
    log.append(keyed((b"k", b"2")), 0)
    assert clean_log(log, NOW_MS) == 0
    assert len(contents(log)) == 2


class TestTombstones:
    def test_a_tombstone_removes_the_value_at_once_and_expires_later(self) -> None:
        log = compacted(delete_retention_ms=_DAY_MS)
        for pair in ((b"k", b"old"), (b"empty", b""), (b"k", None), (b"filler", b"x" * 60), (b"end", b"x" * 60)):
            log.append(keyed(pair), 0)
        log.roll()
        clean_log(log, NOW_MS)
        assert [(key, value) for _, key, value in contents(log)][:2] == [(b"empty", b""), (b"k", None)]
        clean_log(log, NOW_MS + _DAY_MS - 1)
        assert (b"k", None) in [(key, value) for _, key, value in contents(log)]
        clean_log(log, NOW_MS + _DAY_MS)
        assert b"k" not in [key for _, key, _ in contents(log)]

    def test_timestamps_do_not_change(self) -> None:
        log = compacted()
        log.append(keyed((b"a", b"1"), (b"k", None), timestamp_ms=NOW_MS - 12345), 0)
        log.roll()
        clean_log(log, NOW_MS)
        assert [r.timestamp for r in records_of(log)] == [NOW_MS - 12345] * 2
        assert scan(log.read(0, 1000, 2, at_least_one=True))[0].delete_horizon_ms == NOW_MS + _DAY_MS


def test_an_emptied_batch_of_a_producers_last_sequence_stays_as_a_header() -> None:
    log = compacted()
    log.append(batch(b"1", key=b"k", producer_id=4, epoch=0, sequence=0), 0)
    log.append(keyed((b"k", b"2")), 0)
    log.roll()
    clean_log(log, NOW_MS)
    headers = scan(log.read(0, 1000, 2, at_least_one=True))
    assert [(h.producer_id, h.base_sequence, h.record_count, h.last_offset) for h in headers] == [
        (4, 0, 0, 0),
        (-1, -1, 1, 1),
    ]


def test_young_segments_wait_for_min_compaction_lag() -> None:
    log = compacted(min_compaction_lag_ms=1000)
    for index in range(10):
        log.append(keyed((b"k", b"v" * 60), timestamp_ms=NOW_MS + 100 * index), 0)
    assert clean_log(log, NOW_MS + 1250) == 3
    assert len(contents(log)) == 8


def test_a_corrupt_batch_stops_the_compaction_of_the_log(tmp_path: Path) -> None:
    log = compacted(tmp_path)
    for _ in range(6):
        log.append(keyed((b"k", b"v" * 30)), 0)
    first = sorted(tmp_path.glob("*.log"))[0]
    size = log.size_bytes
    content = bytearray(first.read_bytes())
    content[61] = 0x7E  # the length of the first record
    first.write_bytes(content)
    with pytest.raises(KafkaError):
        clean_log(log, NOW_MS)
    assert log.size_bytes == size


@pytest.mark.slow
def test_a_disk_error_at_any_point_loses_no_record(tmp_path: Path) -> None:
    before: list[tuple[int, bytes | None, bytes | None]] = []
    for point in range(1, 100):
        storage = FailingStorage(tmp_path / str(point))
        log = log_in(storage, compact=True, delete=False, segment_bytes=150)
        for index in range(12):
            log.append(keyed((b"k%d" % (index % 3), b"v%d" % index)), 0)
        before = contents(log)
        storage.fails_at = point
        try:
            clean_log(log, NOW_MS)
            break
        except OSError:
            pass
        finally:
            storage.fails_at = 0
        last = {b"k0": b"v9", b"k1": b"v10", b"k2": b"v11"}
        assert {key: value for _, key, value in contents(log)} == last
        assert log.append(keyed((b"k0", b"more")), 0).first_offset == 12
        log.abandon()
        again = contents(log_in(tmp_path / str(point)))
        assert {key: value for _, key, value in again} == last | {b"k0": b"more"}
        assert set(again) <= {*before, (12, b"k0", b"more")}
    else:
        raise AssertionError("it never comes to an end")
    assert point > 10
    assert len(contents(log)) < len(before)


class TestTimes:
    @pytest.mark.parametrize("producer_id", [-1, 4], ids=["nothing is left", "a header is left"])
    def test_the_greatest_timestamp_is_that_of_a_record_that_is_there(self, producer_id: int) -> None:
        log = compacted()
        log.append(batch(b"gone", timestamp_ms=2000, key=b"k", producer_id=producer_id, epoch=0, sequence=0), 0)
        log.append(keyed((b"stays", b"1"), timestamp_ms=500), 0)
        log.append(keyed((b"k", b"2"), timestamp_ms=800), 0)
        log.roll()
        log.append(keyed((b"l", b"3"), timestamp_ms=700), 0)
        clean_log(log, NOW_MS)
        assert (log.offset_of_max_timestamp() or ())[:2] == (2, 800)

    def test_also_within_a_batch(self, tmp_path: Path) -> None:
        log = compacted(tmp_path)
        builder = BatchBuilder()
        builder.try_append(1000, b"k", b"gone")
        builder.try_append(500, b"stays", b"1")
        log.append(bytearray(builder.build()), 0)
        log.append(keyed((b"k", b"2"), timestamp_ms=800), 0)
        log.roll()
        clean_log(log, NOW_MS)
        assert (log.offset_of_max_timestamp() or ())[:2] == (2, 800)
        assert [info.max_timestamp for segment in log.segments for info in segment.headers()] == [500, 800]
        log.close()
        assert (compacted(tmp_path).offset_of_max_timestamp() or ())[:2] == (2, 800)

    def test_that_of_the_broker_stays(self) -> None:
        log = compacted(log_append_time=True)
        log.append(keyed((b"k", b"gone"), (b"stays", b"1"), timestamp_ms=5), 0)
        log.append(keyed((b"k", b"2"), timestamp_ms=5), 0)
        log.roll()
        clean_log(log, NOW_MS)
        assert [r.timestamp for r in records_of(log)] == [NOW_MS, NOW_MS]

    def test_max_compaction_lag_closes_the_last_segment(self) -> None:
        log = compacted(segment_bytes=1 << 20, max_compaction_lag_ms=1000)
        for age in (0, 1000, 1001):
            log.append(keyed((b"k", b"v"), timestamp_ms=NOW_MS + age), 0)
        assert [segment.base_offset for segment in log.segments] == [0, 2]
        other = log_in(None, segment_bytes=1 << 20, max_compaction_lag_ms=1000)
        for age in (0, 1000, 1001):
            other.append(keyed((b"k", b"v"), timestamp_ms=NOW_MS + age), 0)
        assert len(other.segments) == 1, "it is not compacted"


# --- transactions


def transactional(producer_id: int, *pairs: tuple[bytes, bytes | None]) -> bytearray:
    builder = BatchBuilder()
    for key, value in pairs:
        builder.try_append(NOW_MS, key, value)
    return bytearray(builder.build(producer_id=producer_id, producer_epoch=0, is_transactional=True))


def marker(producer_id: int, kind: ControlRecordType) -> bytearray:
    built = build_end_transaction_marker(
        kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW_MS
    )
    return bytearray(built)


def add(log: PartitionLog, part: bytearray) -> None:
    """As a follower does, without a check of producers and their sequence numbers."""
    patch_batch(part, base_offset=log.log_end_offset, leader_epoch=0)
    log.append_as_follower(part)


def test_aborted_records_are_removed_and_committed_ones_count_by_their_offset(tmp_path: Path) -> None:
    log = compacted(tmp_path, segment_bytes=1 << 20)
    for part in (
        keyed((b"a", b"old"), (b"b", b"stays"), (b"c", b"old")),  # 0 to 2
        transactional(1, (b"a", b"committed"), (b"d", b"before a plain one")),  # 3, 4
        transactional(2, (b"b", b"aborted"), (b"e", b"aborted")),  # 5, 6
        keyed((b"c", b"new"), (b"d", b"plain")),  # 7, 8
        marker(2, ControlRecordType.ABORT),
        marker(1, ControlRecordType.COMMIT),  # 10
    ):
        add(log, part)
    log.roll()
    log.append(keyed((b"z", b"active")), 0)
    assert clean_log(log, NOW_MS) == 11
    assert [item for item in contents(log) if item[1] and item[1] in b"abcdez"] == [
        (1, b"b", b"stays"),
        (3, b"a", b"committed"),
        (7, b"c", b"new"),
        (8, b"d", b"plain"),
        (11, b"z", b"active"),
    ]
    kinds = [info.is_control for segment in log.segments for info, _ in segment.batches()]
    assert kinds.count(True) == 2


def test_compaction_ends_before_an_open_transaction() -> None:
    log = compacted()
    for index in range(6):
        log.append(keyed((b"k", b"v%d" % index)), 0)
    first = log.log_end_offset
    add(log, transactional(1, (b"k", b"open")))
    for index in range(8):
        log.append(keyed((b"x", b"w%d" % index)), 0)
    end = clean_log(log, NOW_MS)
    assert end == first
    assert [offset for offset, _, _ in contents(log) if offset < end] == [end - 1]
    after = [offset for offset, _, _ in contents(log) if offset >= end]
    assert after == list(range(end, log.log_end_offset)), "from there on nothing has changed"
    assert clean_log(log, NOW_MS, end) == end, "nor does it get further"
    add(log, marker(1, ControlRecordType.ABORT))
    log.roll()
    assert clean_log(log, NOW_MS, end) == log.log_end_offset
    assert [(offset, key) for offset, key, _ in contents(log) if key in (b"k", b"x")] == [(5, b"k"), (14, b"x")]


class TestMarkers:
    """A marker is removed after all batches of its transaction were removed and delete.retention.ms has passed."""

    @staticmethod
    def log(tmp_path: Path, kind: ControlRecordType) -> PartitionLog:
        """A log with a transaction of producer 1 whose records are all removed, and a later one of it."""
        log = compacted(tmp_path, segment_bytes=1 << 20, delete_retention_ms=_DAY_MS)
        for part in (
            transactional(1, (b"a", b"old")),  # 0
            marker(1, kind),  # 1
            transactional(1, (b"a", b"new")),  # 2
            marker(1, ControlRecordType.COMMIT),  # 3
        ):
            add(log, part)
        log.roll()
        log.append(keyed((b"z", b"active")), 0)
        return log

    @staticmethod
    def markers(log: PartitionLog) -> list[int]:
        return [info.base_offset for segment in log.segments for info, _ in segment.batches() if info.is_control]

    @pytest.mark.parametrize("kind", [ControlRecordType.COMMIT, ControlRecordType.ABORT])
    def test_it_goes_after_its_time(self, tmp_path: Path, kind: ControlRecordType) -> None:
        log = self.log(tmp_path, kind)
        aborted = 1 if kind is ControlRecordType.ABORT else 0
        clean_log(log, NOW_MS)
        data = [item for item in contents(log) if item[1] and item[1] in b"az"]
        assert data == [(2, b"a", b"new"), (4, b"z", b"active")]
        assert self.markers(log) == [1, 3], "the compaction that removes the batches leaves it"
        clean_log(log, NOW_MS + 1000)
        assert self.markers(log) == [1, 3], "from here on its time counts"
        assert len(log.aborted_transactions(0, 10)) == aborted
        clean_log(log, NOW_MS + 1000 + _DAY_MS - 1)
        assert self.markers(log) == [1, 3]
        clean_log(log, NOW_MS + 1000 + _DAY_MS)
        assert self.markers(log) == [3]
        assert log.aborted_transactions(0, 10) == []
        assert clean_log(log, NOW_MS + 2 * _DAY_MS) == 4
        assert self.markers(log) == [3], "batches of its transaction are there"

    def test_a_marker_with_its_time_is_still_a_marker(self, tmp_path: Path) -> None:
        log = self.log(tmp_path, ControlRecordType.ABORT)
        for moment in (0, 1000):
            clean_log(log, NOW_MS + moment)
        found = scan(log.read(0, 1 << 20, log.log_end_offset, at_least_one=True))[0]
        assert (found.is_control, found.delete_horizon_ms) == (True, NOW_MS + 1000 + _DAY_MS)
        view = memoryview(log.read(0, 1 << 20, log.log_end_offset, at_least_one=True))
        ended = read_end_transaction_marker(view, found)
        assert ended is not None
        assert ended.type is ControlRecordType.ABORT

    def test_the_last_state_of_a_producer_is_kept(self, tmp_path: Path) -> None:
        log = compacted(tmp_path, segment_bytes=1 << 20, delete_retention_ms=1)
        add(log, marker(7, ControlRecordType.ABORT))
        log.roll()
        log.append(keyed((b"z", b"active")), 0)
        for days in range(4):
            clean_log(log, NOW_MS + days * _DAY_MS)
        assert self.markers(log) == [0]


class TestScheduling:
    def test_a_log_with_an_open_transaction_does_not_block_the_others(self) -> None:
        clock = ManualClock(wall_ms=NOW_MS)
        stuck, other = self.partition(clock), self.partition(clock)
        other.log.topic_partition = TopicPartition("t", 1)
        add(stuck.log, transactional(1, (b"k", b"open")))
        for index in range(10):
            stuck.append(keyed((b"k%d" % index, b"v" * 40)))
        cleaner = LogCleaner(clock)
        assert cleaner.run([stuck, other]) == stuck.log.topic_partition
        for index in range(10):
            other.append(keyed((b"k%d" % index, b"v" * 40)))
        assert cleaner.run([stuck, other]) == TopicPartition("t", 1)
        assert cleaner.run([stuck, other]) == stuck.log.topic_partition, "it is tried again when nothing else is due"

    def partition(self, clock: ManualClock, **config: object) -> Partition:
        partition = Partition(0, TP, bytes(16), compacted(None, clock, **config))
        partition.lead(0, 0, (0,), (0,))
        return partition

    def test_a_log_is_compacted_once_enough_of_it_is_dirty(self) -> None:
        clock = ManualClock(wall_ms=NOW_MS)
        partition, cleaner = self.partition(clock), LogCleaner(clock)
        assert cleaner.run([partition]) is None
        for index in range(10):
            partition.append(keyed((b"k%d" % index, b"v" * 40)))
        assert cleaner.run([partition]) == TP
        assert cleaner.run([partition]) is None
        partition.append(keyed((b"k0", b"v" * 40)))
        partition.append(keyed((b"k0", b"v" * 40)))
        assert cleaner.run([partition]) is None  # a tenth is dirty, and min.cleanable.dirty.ratio is a half
        for _ in range(10):
            partition.append(keyed((b"k0", b"v" * 40)))
        assert cleaner.run([partition]) == TP

    def test_compaction_runs_in_steps_and_yields_in_between(self) -> None:
        clock = ManualClock(wall_ms=NOW_MS)
        partition, cleaner = self.partition(clock), LogCleaner(clock)
        for index in range(10):
            partition.append(keyed((b"k%d" % (index % 2), b"v%d" % index)))
        assert cleaner.begin([partition]) == TP
        steps = 0
        while cleaner.busy:
            cleaner.step(0.0)
            partition.append(keyed((b"k0", b"new")))
            steps += 1
        assert steps > 10
        found = [(offset, key) for offset, key, _ in contents(partition.log)]
        assert [offset for offset, _ in found][-steps:] == list(range(10, 10 + steps))
        assert [key for offset, key in found if offset < 8] == [b"k0", b"k1"]

    def test_deleted_segments_end_a_compaction(self) -> None:
        clock = ManualClock(wall_ms=NOW_MS)
        partition, cleaner = self.partition(clock, delete=True), LogCleaner(clock)
        for index in range(10):
            partition.append(keyed((b"k%d" % index, b"v" * 40)))
        cleaner.begin([partition])
        for _ in range(12):
            cleaner.step(0.0)
        partition.log.advance_log_start_offset(5)
        before = contents(partition.log)
        while cleaner.busy:
            cleaner.step(0.0)
        assert contents(partition.log) == before
        assert not [name for name in partition.log.storage.names() if name.endswith(".cleaned")]

    def test_max_compaction_lag_hurries(self) -> None:
        clock = ManualClock(wall_ms=NOW_MS)
        partition, cleaner = self.partition(clock, max_compaction_lag_ms=5000), LogCleaner(clock)
        for index in range(20):
            partition.append(keyed((b"k%d" % index, b"v" * 40)))
        cleaner.run([partition])
        for _ in range(3):
            partition.append(keyed((b"k0", b"v" * 40)))
        assert cleaner.run([partition]) is None
        clock.advance(6)
        assert cleaner.run([partition]) == TP

    @pytest.mark.parametrize("damage", [b"\xee" * 40, b"\x1f\x8b" + bytes(40)], ids=["no gzip", "damaged"])
    def test_a_batch_that_cannot_be_read_does_not_block_the_others(self, damage: bytes) -> None:
        clock = ManualClock(wall_ms=NOW_MS)
        bad, other = self.partition(clock), self.partition(clock)
        other.log.topic_partition = TopicPartition("t", 1)
        header = bytes(keyed((b"k", b"v")))[:BATCH_OVERHEAD]
        sent = rebuild_batch(header, b"", 0, Codec.NONE) + damage
        sent[8:12] = (len(sent) - 12).to_bytes(4, "big")
        sent[22] = Codec.GZIP
        sent[17:21] = crc32c(memoryview(sent)[21:]).to_bytes(4, "big")
        bad.append(sent, from_client=False)
        for index in range(10):
            bad.append(keyed((b"k%d" % (index % 2), b"v" * 40)))
        cleaner = LogCleaner(clock)
        assert cleaner.run([bad, other]) == TP
        for index in range(10):
            other.append(keyed((b"k%d" % (index % 2), b"v" * 40)))
        assert cleaner.run([bad, other]) == TopicPartition("t", 1)
        assert len(contents(other.log)) < 10
        assert cleaner.run([bad, other]) is None, "it is not tried again"
        assert not cleaner.busy
        bad.truncate_to(0)
        for index in range(10):
            bad.append(keyed((b"k%d" % (index % 2), b"v" * 40)))
        assert cleaner.run([bad, other]) == TP, "until that batch is gone"

    def test_an_unexpected_exception_does_not_stop_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = ManualClock(wall_ms=NOW_MS)
        partition, cleaner = self.partition(clock), LogCleaner(clock)
        for index in range(10):
            partition.append(keyed((b"k%d" % index, b"v" * 40)))
        monkeypatch.setattr(Segment, "batches", lambda *_: 1 / 0)
        assert cleaner.run([partition]) == TP
        assert not cleaner.busy

    def test_a_log_with_a_disk_error_lets_others_go_first(self, tmp_path: Path) -> None:
        clock = ManualClock(wall_ms=NOW_MS)
        storage = FailingStorage(tmp_path)
        log = log_in(storage, clock, compact=True, delete=False, segment_bytes=150)
        refused, other = Partition(0, TP, bytes(16), log), self.partition(clock)
        refused.lead(0, 0, (0,), (0,))
        other.log.topic_partition = TopicPartition("t", 1)
        for partition in (refused, other):
            for index in range(10):
                partition.append(keyed((b"k%d" % index, b"v" * 40)))
        storage.refused = (".cleaned",)
        cleaner = LogCleaner(clock)
        assert [cleaner.run([refused, other]) for _ in range(3)] == [TP, TopicPartition("t", 1), TP]
        storage.refused = ()
        cleaner.run([refused, other])
        assert cleaner.run([refused, other]) is None

    def test_a_recreated_topic_is_compacted_from_its_start(self) -> None:
        clock = ManualClock(wall_ms=NOW_MS)
        cleaner = LogCleaner(clock)
        for _ in range(2):
            partition = self.partition(clock, delete_retention_ms=0)
            partition.append(keyed((b"K", b"secret")))
            partition.append(keyed((b"K", None)))
            for _ in range(8):
                partition.append(keyed((b"x", b"v" * 40)))
            partition.log.roll()
            assert cleaner.run([partition]) == TP
            assert b"secret" not in [value for _, _, value in contents(partition.log)]

    def test_a_truncated_log_is_compacted_again(self) -> None:
        clock = ManualClock(wall_ms=NOW_MS)
        partition, cleaner = self.partition(clock), LogCleaner(clock)
        for _ in range(2):
            partition.truncate_to(0)
            for index in range(10):
                partition.append(keyed((b"k", b"v%d" % index)))
            partition.log.roll()
            assert cleaner.run([partition]) == TP
            assert contents(partition.log) == [(9, b"k", b"v9")]

    @pytest.mark.parametrize("steps", range(0, 30, 3))
    def test_a_segment_appended_to_after_a_truncation_stays(self, steps: int) -> None:
        clock = ManualClock(wall_ms=NOW_MS)
        partition, cleaner = self.partition(clock, segment_bytes=1 << 20), LogCleaner(clock)
        for index in range(12):
            partition.append(keyed((b"k%d" % (index % 2), b"v%d" % index)))
        partition.log.roll()
        partition.append(keyed((b"k0", b"not replicated")))
        cleaner.begin([partition])
        for _ in range(steps):
            cleaner.step(0.0)
        partition.truncate_to(12)
        assert partition.log.log_end_offset == 12
        while cleaner.busy:
            cleaner.step(0.0)
        partition.append(keyed((b"k0", b"next")))
        assert partition.log.log_end_offset == 13
        assert contents(partition.log)[-1] == (12, b"k0", b"next")
        assert {key: value for _, key, value in contents(partition.log)} == {b"k0": b"next", b"k1": b"v11"}

    def test_a_log_truncated_during_its_compaction_ends_it(self) -> None:
        clock = ManualClock(wall_ms=NOW_MS)
        partition, cleaner = self.partition(clock, segment_bytes=500), LogCleaner(clock)
        for index in range(12):
            partition.append(keyed((b"k%d" % (index % 2), b"v%d" % index)))
        cleaner.begin([partition])
        for _ in range(3):
            cleaner.step(0.0)
        partition.truncate_to(1)
        while cleaner.busy:
            cleaner.step(0.0)
        assert contents(partition.log) == [(0, b"k0", b"v0")]

    def test_compacted_segments_are_flushed_elsewhere(self, tmp_path: Path) -> None:
        clock = ManualClock(wall_ms=NOW_MS)
        log = log_in(tmp_path, clock, compact=True, delete=False, segment_bytes=10_000)
        partition = Partition(0, TP, bytes(16), log)
        partition.lead(0, 0, (0,), (0,))
        calls: list[tuple[Callable[[], None], Future[None]]] = []

        def elsewhere(call: Callable[[], None]) -> Future[None]:
            calls.append((call, Future()))
            return calls[-1][1]

        cleaner = LogCleaner(clock, elsewhere)
        for index in range(10):
            partition.append(keyed((b"k", b"v%d" % index)))
        log.roll()
        cleaner.begin([partition])
        for _ in range(50):
            cleaner.step(0.0)
        assert cleaner.busy, "it waits"
        assert len(contents(log)) == 10
        call, done = calls.pop()
        call()
        done.set_result(None)
        cleaner.step(1.0)
        assert not cleaner.busy
        assert contents(log) == [(9, b"k", b"v9")]

    def test_a_large_batch_is_read_in_pieces(self) -> None:
        clock = ManualClock(wall_ms=NOW_MS)
        partition, cleaner = self.partition(clock, segment_bytes=1 << 20), LogCleaner(clock)
        partition.append(keyed(*[(b"%d" % (index % 3000), b"v") for index in range(5000)]))
        partition.log.roll()
        cleaner.begin([partition])
        steps = 0
        while cleaner.busy:
            cleaner.step(0.0)
            steps += 1
        assert steps > 10
        assert [offset for offset, _, _ in contents(partition.log)] == list(range(2000, 5000))

    def test_topics_that_are_not_compacted_are_left_alone(self) -> None:
        clock = ManualClock(wall_ms=NOW_MS)
        partition = self.partition(clock, compact=False, delete=True)
        for _ in range(5):
            partition.append(keyed((b"k", b"v" * 40)))
        assert LogCleaner(clock).run([partition]) is None
