"""After a crash: acknowledged records survive, torn batches are not served, and derived files are rebuilt."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pyconsumer.broker.log.partition_log import PartitionLog
from pyconsumer.clock import ManualClock
from pyconsumer.errors import OutOfOrderSequenceNumberError
from tests.unit.broker.support import NOW_MS, batch, keyed, log_in, records_of


def crash(log: PartitionLog) -> None:
    """End as if the process had been killed."""
    log.abandon()


def last_log(folder: Path) -> Path:
    return sorted(folder.glob("*.log"))[-1]


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A folder with a log of three batches of two records that was not closed."""
    log = log_in(tmp_path / "t-0")
    for first, second in ((b"a", b"b"), (b"c", b"d"), (b"e", b"f" * 40)):
        log.append(batch(first, second), 1)
    crash(log)
    return tmp_path / "t-0"


def test_a_log_that_was_not_torn_is_whole(three: Path) -> None:
    log = log_in(three)
    assert [r.value for r in records_of(log)] == [b"a", b"b", b"c", b"d", b"e", b"f" * 40]
    assert log.append(batch(b"g"), 2).first_offset == 6


@pytest.mark.slow
def test_a_tail_torn_at_any_byte_is_cut_off(three: Path, tmp_path: Path) -> None:
    whole = last_log(three).read_bytes()
    sizes = [int.from_bytes(whole[8:12], "big") + 12]
    sizes.append(sizes[0] + int.from_bytes(whole[sizes[0] + 8 : sizes[0] + 12], "big") + 12)
    for size in range(sizes[1], len(whole)):
        folder = tmp_path / f"torn-{size}"
        shutil.copytree(three, folder)
        last_log(folder).write_bytes(whole[:size])
        log = log_in(folder)
        assert (log.log_end_offset, log.size_bytes) == (4, sizes[1])
        assert log.append(batch(b"new"), 2).first_offset == 4
        assert [r.value for r in records_of(log)] == [b"a", b"b", b"c", b"d", b"new"]
        log.close()


def test_a_corrupt_byte_anywhere_in_the_last_batch_truncates_the_log_before_it(three: Path, tmp_path: Path) -> None:
    whole = last_log(three).read_bytes()
    size = int.from_bytes(whole[8:12], "big") + 12
    start = size + int.from_bytes(whole[size + 8 : size + 12], "big") + 12
    # Base offset and leader epoch lie outside the checksum: what they can be is checked otherwise, if at all.
    for at in [*range(start + 8, start + 12), *range(start + 16, len(whole))]:
        folder = tmp_path / f"damaged-{at}"
        shutil.copytree(three, folder)
        damaged = bytearray(whole)
        damaged[at] ^= 0x55
        last_log(folder).write_bytes(damaged)
        log = log_in(folder)
        assert (at, log.log_end_offset) == (at, 4)
        crash(log)


@pytest.mark.parametrize("garbage", [b"\0" * 100, b"\xff" * 100, b"\0" * 7, b"x" * 61], ids=len)
def test_garbage_after_the_last_batch_is_truncated(three: Path, garbage: bytes) -> None:
    path = last_log(three)
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(garbage)
    log = log_in(three)
    assert (log.log_end_offset, log.size_bytes, path.stat().st_size) == (6, size, size)


def test_a_decreasing_offset_truncates_the_log(three: Path) -> None:
    path = last_log(three)
    whole = path.read_bytes()
    path.write_bytes(whole + whole)
    assert log_in(three).log_end_offset == 6


def test_a_corrupt_batch_above_the_recovery_point_truncates_the_log_there(tmp_path: Path) -> None:
    log = log_in(tmp_path, segment_bytes=100)
    for _ in range(4):
        log.append(batch(b"x" * 30), 0)
    crash(log)
    second = sorted(tmp_path.glob("*.log"))[1]
    damaged = bytearray(second.read_bytes())
    damaged[-1] ^= 1
    second.write_bytes(damaged)
    log = log_in(tmp_path, segment_bytes=100)
    assert log.log_end_offset == 1
    assert log.append(batch(b"y"), 0).first_offset == 1
    assert [r.offset for r in records_of(log)] == [0, 1]


def test_segments_below_the_recovery_point_are_not_scanned(tmp_path: Path) -> None:
    log = log_in(tmp_path, segment_bytes=100)
    for _ in range(4):
        log.append(batch(b"x" * 30), 0)
    crash(log)
    first = sorted(tmp_path.glob("*.log"))[0]
    damaged = bytearray(first.read_bytes())
    damaged[-1] ^= 1
    first.write_bytes(damaged)
    assert log_in(tmp_path, recovery_point=2, segment_bytes=100).log_end_offset == 4


def test_indexes_are_rebuilt(tmp_path: Path) -> None:
    log = log_in(tmp_path, segment_bytes=5000, index_interval_bytes=200)
    for index in range(200):
        log.append(batch(b"x" * 60, timestamp_ms=NOW_MS + index), 0)
    log.close()
    names = [*tmp_path.glob("*.index"), *tmp_path.glob("*.timeindex")]
    before = {path.name: path.read_bytes() for path in names}
    assert any(before.values())
    for path in names:
        path.write_bytes(b"\x01\x02\x03" * 50)
    log = log_in(tmp_path, segment_bytes=5000, index_interval_bytes=200)
    log.close()
    assert {path.name: path.read_bytes() for path in names} == before


def test_a_clean_stop_needs_no_recovery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyconsumer.broker.log import recovery

    log = log_in(tmp_path, segment_bytes=3000, index_interval_bytes=100)
    for index in range(100):
        log.append(batch(str(index).encode(), timestamp_ms=NOW_MS + index), 5)
    log.close()
    monkeypatch.setattr(recovery, "recovering", lambda *_, **__: pytest.fail("recovered"))
    log = log_in(tmp_path, clean=True, segment_bytes=3000)
    assert [r.value for r in records_of(log)] == [str(i).encode() for i in range(100)]
    assert log.epochs.entries() == [(5, 0)]
    assert log.offset_for_timestamp(NOW_MS + 77) == (77, NOW_MS + 77, 5)
    assert log.append(batch(b"more"), 5).first_offset == 100


def test_an_empty_active_segment_keeps_its_offset(tmp_path: Path) -> None:
    clock = ManualClock(wall_ms=NOW_MS)
    log = log_in(tmp_path, clock, retention_ms=10)
    log.append(batch(b"a", b"b"), 0)
    clock.advance(1)
    log.delete_old_segments(2)
    for clean in (False, True):
        if clean:
            log.close()
        else:
            crash(log)
        log = log_in(tmp_path, clean=clean)
        assert (log.log_start_offset, log.log_end_offset) == (2, 2)


def test_the_log_start_offset_comes_from_the_checkpoint(three: Path) -> None:
    log = log_in(three, log_start_offset=3)
    assert (log.log_start_offset, [r.offset for r in records_of(log)]) == (3, [3, 4, 5])


def test_a_log_start_offset_beyond_the_remaining_log_starts_an_empty_log(three: Path) -> None:
    log = log_in(three, log_start_offset=50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    assert log.append(batch(b"a"), 0).first_offset == 50


class TestLeaderEpochs:
    def test_they_are_found_in_the_batches(self, tmp_path: Path) -> None:
        log = log_in(tmp_path)
        for epoch in (0, 0, 2, 5):
            log.append(batch(b"a"), epoch)
        crash(log)
        (tmp_path / "leader-epoch-checkpoint").unlink()
        assert log_in(tmp_path).epochs.entries() == [(0, 0), (2, 2), (5, 3)]

    def test_those_of_lost_batches_are_forgotten(self, three: Path) -> None:
        log = log_in(three)
        log.append(batch(b"z"), 9)
        crash(log)
        path = last_log(three)
        path.write_bytes(path.read_bytes()[:-1])
        assert log_in(three).epochs.entries() == [(1, 0)]

    def test_a_damaged_file_is_replaced(self, three: Path) -> None:
        (three / "leader-epoch-checkpoint").write_text("nonsense\n")
        assert log_in(three).epochs.entries() == [(1, 0)]


class TestProducers:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        log = log_in(tmp_path, segment_bytes=400)
        for sequence in range(8):
            log.append(batch(b"x" * 20, producer_id=7, epoch=1, sequence=sequence), 0)
        crash(log)
        return tmp_path

    def test_after_a_crash_the_last_five_batches_are_known(self, folder: Path) -> None:
        log = log_in(folder, segment_bytes=400)
        for sequence in range(3, 8):
            result = log.append(batch(b"x" * 20, producer_id=7, epoch=1, sequence=sequence), 0)
            assert (result.duplicate, result.first_offset) == (True, sequence)
        with pytest.raises(OutOfOrderSequenceNumberError):
            log.append(batch(b"x" * 20, producer_id=7, epoch=1, sequence=2), 0)
        assert log.append(batch(b"x" * 20, producer_id=7, epoch=1, sequence=8), 0).first_offset == 8

    @pytest.mark.parametrize("snapshots", ["kept", "lost", "damaged"])
    def test_with_any_snapshot_or_none(self, folder: Path, snapshots: str) -> None:
        for path in folder.glob("*.snapshot"):
            if snapshots == "lost":
                path.unlink()
            elif snapshots == "damaged":
                path.write_bytes(path.read_bytes()[:-1])
        log = log_in(folder, segment_bytes=400)
        entry = log.producers.get(7)
        assert entry is not None
        assert [found.last_offset for found in entry.batches] == [3, 4, 5, 6, 7]

    def test_after_a_clean_stop_they_are_known_too(self, folder: Path) -> None:
        log_in(folder, segment_bytes=400).close()
        log = log_in(folder, clean=True, segment_bytes=400)
        entry = log.producers.get(7)
        assert entry is not None
        assert [found.last_offset for found in entry.batches] == [7]  # of the snapshot; the rest is read when needed
        assert log.append(batch(b"x" * 20, producer_id=7, epoch=1, sequence=8), 0).first_offset == 8
        for sequence in range(4, 8):
            result = log.append(batch(b"x" * 20, producer_id=7, epoch=1, sequence=sequence), 0)
            assert (result.duplicate, result.first_offset) == (True, sequence)
        assert [found.last_offset for found in entry.batches] == [4, 5, 6, 7, 8]
        with pytest.raises(OutOfOrderSequenceNumberError):
            log.append(batch(b"x" * 20, producer_id=7, epoch=1, sequence=3), 0)

    def test_batches_in_a_torn_tail_may_be_sent_again(self, folder: Path) -> None:
        path = last_log(folder)
        path.write_bytes(path.read_bytes()[:-1])
        log = log_in(folder, segment_bytes=400)
        result = log.append(batch(b"x" * 20, producer_id=7, epoch=1, sequence=7), 0)
        assert (result.duplicate, result.first_offset) == (False, 7)

    def test_snapshots_above_the_end_of_the_log_are_removed(self, folder: Path) -> None:
        for path in sorted(folder.glob("*.log"))[1:]:
            path.unlink()
        log = log_in(folder, segment_bytes=400)
        offsets = [int(path.stem) for path in folder.glob("*.snapshot")]
        assert all(offset <= log.log_end_offset for offset in offsets)


class TestInterruptedCompaction:
    def test_an_unfinished_segment_is_removed(self, three: Path) -> None:
        base = last_log(three)
        (three / (base.name + ".cleaned")).write_bytes(base.read_bytes()[:50])
        log = log_in(three)
        assert log.log_end_offset == 6
        assert not list(three.glob("*.cleaned"))

    def test_a_finished_one_takes_the_place_of_the_old_ones(self, tmp_path: Path) -> None:
        log = log_in(tmp_path, segment_bytes=120, compact=True, delete=False)
        for index in range(4):
            log.append(keyed((b"k", str(index).encode() * 10)), 0)
        crash(log)
        names = sorted(tmp_path.glob("*.log"))
        assert len(names) == 4
        # As if the first two had been merged into what the second holds, and the crash had come before the renames.
        (tmp_path / (names[0].name + ".swap")).write_bytes(names[1].read_bytes())
        log = log_in(tmp_path, segment_bytes=120)
        assert [r.offset for r in records_of(log)] == [1, 2, 3]
        assert not list(tmp_path.glob("*.swap"))
