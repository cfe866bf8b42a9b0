"""State derived from the batches of a log is the same after a crash, after a clean stop, and as it was before."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.broker.log import partition_log
from pyconsumer.broker.log.manager import LogManager, LogToOpen, Recovery
from pyconsumer.broker.log.partition_log import PartitionLog
from pyconsumer.broker.log.recovery import opening_log
from pyconsumer.broker.log.segment import Segment
from pyconsumer.broker.log.storage import FileStorage
from pyconsumer.clock import ManualClock
from pyconsumer.errors import CorruptRecordError
from pyconsumer.structs import TopicPartition
from tests.unit.broker.support import NOW_MS, TP, batch, log_in, records_of, topic_config

SETTINGS: dict[str, Any] = {"segment_bytes": 3000, "index_interval_bytes": 200}


def state(log: PartitionLog) -> dict[str, Any]:
    """The state that a log derives from its batches, without fields that are missing in a snapshot."""
    log.producers.on_high_watermark(log.log_end_offset)
    return {
        "end": log.log_end_offset,
        "epochs": log.epochs.entries(),
        "producers": {
            entry.producer_id: (
                entry.epoch,
                entry.coordinator_epoch,
                entry.last_timestamp,
                entry.current_txn_first_offset,
                entry.batches[-1][:3] if entry.batches else None,
            )
            for entry in log.producers
        },
        "unstable": log.producers.first_unstable_offset,
        "aborted": log.aborted_transactions(0, log.log_end_offset),
        # Not the time indexes themselves: a clean stop adds an entry.
        "by time": [log.offset_for_timestamp(NOW_MS + ms) for ms in range(0, 1000, 90)],
        "segments": [
            (
                segment.base_offset,
                segment.size_bytes,
                segment.next_offset,
                segment.max_timestamp,
                segment.max_timestamp_offset,
                segment.first_timestamp if segment.size_bytes else -1,
                list(segment.offset_index._offsets),
                list(segment.offset_index._positions),
            )
            for segment in log.segments
        ],
    }


def write(log: PartitionLog, pick: random.Random, count: int, sequences: dict[int, int]) -> None:
    """Append batches of five producers, with and without transactions, and markers."""
    opened: set[int] = {entry.producer_id for entry in log.producers if entry.current_txn_first_offset >= 0}
    for _ in range(count):
        producer, leader_epoch = pick.randrange(5), log.log_end_offset // 60
        if producer in opened and pick.random() < 0.4:
            log.append_marker(
                producer, 0, leader_epoch, commit=pick.random() < 0.5, coordinator_epoch=1, transaction_version=0
            )
            opened.discard(producer)
            continue
        transactional = producer in opened or pick.random() < 0.4
        records = pick.choice([1, 1, 3])
        log.append(
            batch(
                *[b"x" * pick.randrange(40)] * records,
                producer_id=producer,
                epoch=0,
                sequence=sequences.get(producer, 0),
                transactional=transactional,
                timestamp_ms=NOW_MS + pick.randrange(1000),
            ),
            leader_epoch,
        )
        sequences[producer] = sequences.get(producer, 0) + records
        if transactional:
            opened.add(producer)


@pytest.mark.parametrize("snapshot_bytes", [300, 16 << 20], ids=["many snapshots", "few snapshots"])
@pytest.mark.parametrize("seed", range(6))
def test_a_history_of_crashes_and_clean_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, snapshot_bytes: int
) -> None:
    monkeypatch.setattr(partition_log, "_SNAPSHOT_BYTES", snapshot_bytes)
    monkeypatch.setattr(partition_log, "_SNAPSHOT_RATIO", 0)
    pick, sequences = random.Random(seed), dict[int, int]()
    folder = tmp_path / "0"
    log = log_in(folder, **SETTINGS)
    for life in range(1, 8):
        write(log, pick, pick.randrange(40), sequences)
        point = log.recovery_point
        if pick.random() < 0.5:
            log.flush()
            point = log.recovery_point
            write(log, pick, pick.randrange(30), sequences)
        before = state(log)
        fresh = tmp_path / str(life)
        if pick.random() < 0.4:
            marks = log.close()
            log = opened(folder, marks)
        else:
            log.abandon()
            shutil.copytree(folder, fresh)
            assert state(log_in(fresh, **SETTINGS)) == before  # everything is read again
            log = log_in(folder, recovery_point=point, **SETTINGS)
        assert state(log) == before
    log.abandon()


def opened(folder: Path, marks: list[list[int]] | None, **config: Any) -> PartitionLog:
    """Open a log after a clean stop."""
    steps = opening_log(
        FileStorage(folder),
        TP,
        topic_config(**(SETTINGS | config)),
        ManualClock(wall_ms=NOW_MS),
        clean=marks is not None,
        marks=marks,
    )
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            log: PartitionLog = stop.value
            return log


def fed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the bytes of each step of a scan."""
    steps: list[int] = []
    plain = Segment.scanning

    def scanning(segment: Segment, log_scan: Any, **options: Any) -> Any:
        for used in plain(segment, log_scan, **options):
            steps.append(used)
            yield used

    monkeypatch.setattr(Segment, "scanning", scanning)
    return steps


class TestWhatIsRead:
    def test_each_byte_after_the_recovery_point_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        log = log_in(tmp_path, **SETTINGS)
        write(log, random.Random(1), 100, {})
        size = log.size_bytes
        log.abandon()
        steps = fed(monkeypatch)
        log_in(tmp_path, **SETTINGS).abandon()
        assert sum(steps) == size

    def test_no_batch_is_read_after_a_clean_stop(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        log = log_in(tmp_path, **SETTINGS)
        write(log, random.Random(1), 100, {})
        marks = log.close()
        steps = fed(monkeypatch)
        reads: list[int] = []
        plain = Segment.read
        monkeypatch.setattr(Segment, "read", lambda *args: reads.append(args[2]) or plain(*args))
        log = opened(tmp_path, marks)
        assert (steps, len(reads)) == ([], 1)  # the last batch
        assert log.close() == marks  # not even the indexes were loaded

    def test_the_last_segment_from_the_recovery_point_on(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = {"index_interval_bytes": 200}
        sequences: dict[int, int] = {}
        log = log_in(tmp_path, **settings)
        write(log, random.Random(1), 200, sequences)
        size = log.size_bytes
        marks = log.close()
        log = opened(tmp_path, marks, segment_bytes=1 << 30)
        write(log, random.Random(2), 10, sequences)
        before, appended, point = state(log), log.size_bytes - size, log.recovery_point
        log.abandon()
        steps = fed(monkeypatch)
        log = log_in(tmp_path, recovery_point=point, **settings)
        assert state(log) == before
        assert appended <= sum(steps) < appended + 800  # from the last index entry on

    def test_an_index_of_another_file_is_not_believed(self, tmp_path: Path) -> None:
        log = log_in(tmp_path, index_interval_bytes=200)
        write(log, random.Random(1), 100, {})
        log.flush()
        before, point = state(log), log.recovery_point
        log.abandon()
        (index,) = tmp_path.glob("*.index")
        content = bytearray(index.read_bytes())
        content[-1] ^= 1  # a position
        index.write_bytes(content)
        assert state(log_in(tmp_path, recovery_point=point, index_interval_bytes=200)) == before


class TestSnapshots:
    def test_they_are_written_by_bytes_and_old_ones_are_removed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(partition_log, "_SNAPSHOT_BYTES", 500)
        monkeypatch.setattr(partition_log, "_SNAPSHOT_RATIO", 1)
        log = log_in(tmp_path)
        for number in range(50):
            log.append(batch(b"x" * 40, producer_id=1, epoch=0, sequence=number), 0)
        found = sorted(int(path.stem) for path in tmp_path.glob("*.snapshot"))
        assert len(found) == 2
        assert found[-1] >= 44

    def test_not_for_many_producers_that_write_little(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(partition_log, "_SNAPSHOT_BYTES", 500)
        log = log_in(tmp_path)
        for number in range(50):
            log.append(batch(b"x", producer_id=number, epoch=0, sequence=0), 0)
        assert not list(tmp_path.glob("*.snapshot"))

    def test_a_full_disk_does_not_reject_the_append(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(partition_log, "_SNAPSHOT_BYTES", 100)
        monkeypatch.setattr(partition_log, "_SNAPSHOT_RATIO", 0)
        log = log_in(tmp_path)

        def refuse(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(log.storage, "write_small", refuse)
        for number in range(5):
            assert log.append(batch(b"x" * 60, producer_id=1, epoch=0, sequence=number), 1).first_offset == number

    def test_a_truncation_reads_from_the_last_one_on(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(partition_log, "_SNAPSHOT_BYTES", 2000)
        monkeypatch.setattr(partition_log, "_SNAPSHOT_RATIO", 0)
        log = log_in(tmp_path, index_interval_bytes=200)
        for number in range(200):
            log.append(batch(b"x" * 40, producer_id=1, epoch=0, sequence=number), 0)
        steps = fed(monkeypatch)
        log.truncate_to(195)
        assert sum(steps) < 6000
        entry = log.producers.get(1)
        assert entry is not None
        assert entry.batches[-1].last_offset == 194
        assert log.append(batch(b"x", producer_id=1, epoch=0, sequence=192), 0).duplicate


def test_a_corrupt_base_offset_truncates_the_log_before_it(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    for number in range(3):
        log.append(batch(b"%d" % number), 0)
    log.abandon()
    (path,) = tmp_path.glob("*.log")
    content = bytearray(path.read_bytes())
    content[len(content) * 2 // 3] ^= 0x40  # the checksum does not cover it
    path.write_bytes(content)
    assert [r.value for r in records_of(log_in(tmp_path))] == [b"0", b"1"]


def test_a_start_reports_its_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(wall_ms=NOW_MS)
    logs = LogManager(tmp_path, clock)
    for number in range(2):
        log = logs.open(TopicPartition("t", number), b"i" * 16, topic_config())
        for _ in range(30):
            log.append(batch(b"x" * 100_000), 0)
    logs.abandon()
    logs = LogManager(tmp_path, clock)
    wanted = [LogToOpen(TopicPartition("t", number), b"i" * 16, topic_config()) for number in range(2)]
    recovery = Recovery(2)
    texts = [str(recovery) for _ in logs.opening_all(wanted, recovery)]
    assert texts[0] == "recovering t-0, 1.0 of 3.0 MB; 0 of 2 logs are open"
    assert texts[3] == "recovering t-0, 3.0 of 3.0 MB; 1 of 2 logs are open"
    assert texts[-1] == "2 of 2 logs are open"
    logs.abandon()


def open_files(folder: Path) -> list[str]:
    """Return the files of a folder that this process has open. Others may come and go in other threads meanwhile."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(os.readlink(descriptor))
    return [path for path in found if path.startswith(f"{folder}{os.sep}")]


def test_a_log_that_is_not_opened_to_the_end_keeps_no_file_open(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    for _ in range(30):
        log.append(batch(b"x" * 100_000), 0)
    log.abandon()
    steps = opening_log(FileStorage(tmp_path), TP, topic_config(), ManualClock(wall_ms=NOW_MS))
    next(steps)
    assert len(open_files(tmp_path)) == 1
    steps.close()
    assert open_files(tmp_path) == []


def test_a_corrupt_batch_in_a_flushed_segment_is_an_error_if_it_must_be_read(tmp_path: Path) -> None:
    log = log_in(tmp_path, segment_bytes=100)
    for _ in range(4):
        log.append(batch(b"x" * 30, producer_id=1, epoch=0, sequence=-1), 0, from_client=False)
    log.abandon()
    for path in tmp_path.glob("*.snapshot"):
        path.unlink()
    first = sorted(tmp_path.glob("*.log"))[0]
    content = bytearray(first.read_bytes())
    content[16] = 9
    first.write_bytes(content)
    with pytest.raises(CorruptRecordError, match="magic 9 is not known"):
        log_in(tmp_path, recovery_point=3, segment_bytes=100)
