"""The scan of a broker's log: both implementations agree, at every kind of damage and for any size of the pieces."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from pyconsumer.errors import CorruptRecordError
from pyconsumer.protocol.records import (
    BatchBuilder,
    ControlRecordType,
    ScanStop,
    build_end_transaction_marker,
)
from pyconsumer.protocol.records.crc import crc32c
from pyconsumer.protocol.records.log_scan import LogScan

TIME = 1_700_000_000_000


@pytest.fixture(params=["pure", "native"])
def make(request: pytest.FixtureRequest) -> Any:
    """One of the twins."""
    return LogScan if request.param == "pure" else pytest.importorskip("pyconsumer.protocol.records._native").LogScan


def data_batch(
    offset: int,
    records: int = 1,
    *,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    leader_epoch: int = 0,
    timestamp: int = TIME,
    codec: str = "none",
) -> bytes:
    builder = BatchBuilder(codec)
    for index in range(records):
        builder.try_append(timestamp + index, None, b"x" * (index % 50))
    return builder.build(
        offset, producer_id, epoch, sequence, is_transactional=transactional, leader_epoch=leader_epoch
    )


def marker(offset: int, producer_id: int, *, commit: bool, epoch: int = 0, timestamp: int = TIME) -> bytes:
    return build_end_transaction_marker(
        ControlRecordType.COMMIT if commit else ControlRecordType.ABORT,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=3,
        timestamp_ms=timestamp,
        base_offset=offset,
        leader_epoch=1,
    )


def history(seed: int, count: int = 120) -> bytes:
    """Batches of some producers, transactions among them, under rising leader epochs."""
    pick = random.Random(seed)
    out, offset, leader_epoch = bytearray(), pick.choice([0, 5]), 0
    epochs, sequences = [0] * 100, [0] * 100
    for _ in range(count):
        leader_epoch += pick.random() < 0.05
        producer = pick.randrange(pick.choice([3, 100]))
        time = TIME + pick.randrange(-500, 5000)
        if pick.random() < 0.2:
            epochs[producer] += pick.random() < 0.3
            out += marker(offset, producer, commit=pick.random() < 0.5, epoch=epochs[producer], timestamp=time)
            offset += 1
            continue
        records = pick.choice([1, 1, 2, 7])
        plain = pick.random() < 0.2
        out += data_batch(
            offset,
            records,
            producer_id=-1 if plain else producer,
            epoch=-1 if plain else epochs[producer],
            sequence=-1 if plain else sequences[producer],
            transactional=not plain and pick.random() < 0.5,
            leader_epoch=leader_epoch,
            timestamp=time if pick.random() < 0.9 else -1 - records,
            codec=pick.choice(["none", "gzip"]),
        )
        sequences[producer] = (sequences[producer] + records) & 0x7FFFFFFF
        offset += records + (pick.random() < 0.1)  # compaction leaves gaps
    return bytes(out)


def results(log_scan: Any) -> dict[str, Any]:
    names = (
        "next_offset position last_batch_position since_index max_timestamp max_timestamp_offset first_timestamp stop"
    )
    found = {name: getattr(log_scan, name) for name in names.split()}
    for name in ("offset_entries", "time_entries", "epochs", "aborted", "ended", "producers"):
        found[name] = getattr(log_scan, name)()
    return found


def run(make: Any, data: bytes, piece: int | None = None, **options: Any) -> dict[str, Any]:
    log_scan = make(400, **options)
    log_scan.begin_segment(0)
    at = 0
    while at < len(data):
        used = log_scan.feed(data[at:] if piece is None else data[at : at + piece])
        at += used
        if not used:
            break
    return results(log_scan)


def native() -> Any:
    return pytest.importorskip("pyconsumer.protocol.records._native").LogScan


@pytest.mark.parametrize("seed", range(30))
def test_the_twins_agree(seed: int) -> None:
    data = history(seed)
    assert run(native(), data) == run(LogScan, data)
    options = {"latest_epoch": 2, "producers_from": 60}
    assert run(native(), data, 3000, **options) == run(LogScan, data, **options)


@pytest.mark.parametrize("seed", range(3))
def test_implementations_agree_at_any_cut_and_any_damage(seed: int) -> None:
    pick = random.Random(seed)
    data = history(seed, 12)
    for size in range(len(data)):
        assert run(native(), data[:size]) == run(LogScan, data[:size])
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << pick.randrange(8)
        found = [outcome(twin, bytes(damaged)) for twin in (native(), LogScan)]
        assert (at, found[0]) == (at, found[1])


def outcome(make: Any, data: bytes) -> Any:
    try:
        return run(make, data)
    except CorruptRecordError as error:
        return str(error)


def test_a_torn_batch_is_incomplete(make: Any) -> None:
    data = data_batch(0) + data_batch(1)
    size = len(data_batch(0))
    for end in range(size + 1, len(data)):
        found = run(make, data[:end])
        assert (found["position"], found["next_offset"], found["stop"]) == (size, 1, ScanStop.INCOMPLETE)


@pytest.mark.parametrize(
    ("second", "stop"),
    [
        (data_batch(0), ScanStop.ORDER),
        (data_batch(2**31), ScanStop.ORDER),
        (data_batch(1)[:-1] + b"\xff", ScanStop.CHECKSUM),
        (data_batch(1)[:16] + b"\x01" + data_batch(1)[17:], ScanStop.FORMAT),
        (data_batch(1)[:16] + b"\x07" + data_batch(1)[17:], ScanStop.HEADER),
        (bytes(100), ScanStop.HEADER),
    ],
    ids=["order", "range", "checksum", "format", "magic", "zeros"],
)
def test_reasons_to_stop(make: Any, second: bytes, stop: ScanStop) -> None:
    found = run(make, data_batch(0) + second)
    assert (found["next_offset"], found["stop"]) == (1, stop)


def test_without_checksums_a_damaged_record_passes(make: Any) -> None:
    log_scan = make(400)
    log_scan.begin_segment(0)
    data = data_batch(0)[:-1] + b"\xff"
    assert log_scan.feed(data, False) == len(data)


def test_a_transaction_that_is_aborted_names_the_last_stable_offset(make: Any) -> None:
    data = data_batch(0, producer_id=1, epoch=0, sequence=0, transactional=True)
    data += data_batch(1, producer_id=2, epoch=0, sequence=0, transactional=True)
    data += marker(2, 2, commit=False) + marker(3, 1, commit=True) + marker(4, 9, commit=False)
    data += data_batch(5, producer_id=2, epoch=0, sequence=1, transactional=True)
    found = run(make, data)
    assert found["aborted"] == [(2, 1, 2, 0)]
    assert found["ended"] == {1: 2, 0: 3}
    open_at = {producer[0]: producer[4] for producer in found["producers"]}
    assert open_at == {1: -1, 2: 5, 9: -1}


def test_the_last_five_batches_of_an_epoch_are_kept(make: Any) -> None:
    data = b"".join(data_batch(n, producer_id=1, epoch=0, sequence=n) for n in range(8))
    (producer,) = run(make, data)["producers"]
    assert producer == (1, 0, -1, TIME, -1, [(n, n, 0, TIME) for n in range(3, 8)])
    data += data_batch(8, producer_id=1, epoch=1, sequence=0)
    (producer,) = run(make, data)["producers"]
    assert producer[5] == [(0, 8, 0, TIME)]


def test_producers_of_a_snapshot_are_continued(make: Any) -> None:
    log_scan = make(400, -1, 10)
    log_scan.add_producer(1, 0, -1, TIME, -1, [(4, 9, 0, TIME)])
    log_scan.add_producer(2, 3, 7, TIME, 6, [])
    log_scan.begin_segment(0)
    data = data_batch(9, producer_id=1, epoch=0, sequence=4) + data_batch(10, producer_id=1, epoch=0, sequence=5)
    log_scan.feed(data + marker(11, 2, commit=False, epoch=3))
    assert log_scan.producers() == [
        (1, 0, -1, TIME, -1, [(4, 9, 0, TIME), (5, 10, 0, TIME)]),
        (2, 3, 3, TIME, -1, []),
    ]
    assert log_scan.aborted() == [(2, 6, 11, 12)]


def unusual_markers() -> Iterator[tuple[bytes, bool]]:
    """Control batches, and whether they end the transaction."""
    plain = marker(1, 1, commit=True)
    yield plain, True
    other = bytearray(plain)
    other[plain.index(b"\0\0\0\1", 61) + 3] = 2  # the type
    yield rebuilt(other), False
    emptied = bytearray(plain[:61])
    emptied[57:61] = bytes(4)
    yield rebuilt(emptied), False
    builder = BatchBuilder("gzip")
    builder.try_append(TIME, b"\0\0\0\1", b"\0\0\0\0\0\3")
    yield builder.build(1, 1, 0, is_transactional=True, is_control=True, leader_epoch=1), True


def rebuilt(batch: bytearray) -> bytes:
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    return bytes(batch)


@pytest.mark.parametrize("case", range(4), ids=["plain", "other", "empty", "compressed"])
def test_markers_of_every_kind(make: Any, case: int) -> None:
    control, ends = list(unusual_markers())[case]
    data = data_batch(0, producer_id=1, epoch=0, sequence=0, transactional=True) + control + data_batch(5)
    found = run(make, data)
    assert found["ended"] == ({0: 1} if ends else {})
    assert (found["next_offset"], found["position"]) == (6, len(data))


def test_a_marker_without_a_sound_key_is_an_error(make: Any) -> None:
    builder = BatchBuilder()
    builder.try_append(TIME, b"\0", b"")
    data = builder.build(0, 1, 0, is_transactional=True, is_control=True)
    with pytest.raises(CorruptRecordError, match="the key of a control record has 1 bytes"):
        run(make, data)


def test_a_scan_can_start_inside_a_segment(make: Any) -> None:
    pieces = [data_batch(n, timestamp=TIME + n) for n in range(100)]
    whole = make(400)
    whole.begin_segment(0)
    whole.feed(b"".join(pieces))
    offsets, positions = whole.offset_entries()
    at = list(offsets).index(offsets[5])
    timestamps, _ = whole.time_entries()
    part = make(400)
    part.resume_segment(0, offsets[5], positions[5], timestamps[5], offsets[5], TIME)
    part.feed(b"".join(pieces)[positions[5] :])
    assert [list(part.offset_entries()[0]), list(part.time_entries()[0])] == [
        list(offsets[at + 1 :]),
        list(timestamps[at + 1 :]),
    ]
    for name in ("next_offset", "position", "since_index", "max_timestamp", "max_timestamp_offset", "first_timestamp"):
        assert getattr(part, name) == getattr(whole, name)


def test_a_hundred_thousand_producers(make: Any) -> None:
    count = 2000 if make is LogScan else 100_000
    log_scan = make(1 << 30)
    for number in range(count):
        log_scan.add_producer(number * 7919, 0, -1, TIME, number, [(1, number, 0, TIME)])
    log_scan.begin_segment(0)
    log_scan.feed(b"".join(marker(count + n, n * 7919, commit=False) for n in range(5)))
    assert len(log_scan.producers()) == count
    assert [entry[3] for entry in log_scan.aborted()] == [1, 2, 3, 4, 5]


def test_a_twin_without_init_is_empty() -> None:
    log_scan = native().__new__(native())
    assert (log_scan.producers(), log_scan.epochs(), log_scan.feed(b"")) == ([], [], 0)
