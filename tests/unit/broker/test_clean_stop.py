"""Files that were damaged between a clean stop and the next start are checked as after a kill."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pyconsumer.broker.config import TopicConfig
from pyconsumer.broker.log.manager import LogManager
from pyconsumer.broker.log.partition_log import PartitionLog
from pyconsumer.broker.log.segment import Segment
from pyconsumer.clock import ManualClock
from pyconsumer.errors import KafkaStorageError
from pyconsumer.structs import TopicPartition
from tests.unit.broker.brokers import Brokers
from tests.unit.broker.support import NOW_MS, TP, batch, no_space, records_of, topic_config

ID = b"i" * 16


def opened(folder: Path, tp: TopicPartition = TP, config: TopicConfig | None = None) -> tuple[LogManager, PartitionLog]:
    logs = LogManager(folder, ManualClock(wall_ms=NOW_MS))
    return logs, logs.open(tp, ID, config or topic_config(index_interval_bytes=200))


def stopped(folder: Path, tp: TopicPartition = TP, config: TopicConfig | None = None) -> None:
    """Leave a log of 30 batches, the last of which is large, after a clean stop."""
    logs, log = opened(folder, tp, config)
    for number in range(29):
        log.append(batch(b"%d" % number), 0)
    log.append(batch(b"29" * 300), 0)
    logs.close({tp: 30})


def values(log: PartitionLog) -> list[bytes | None]:
    return [record.value for record in records_of(log)]


def continues(folder: Path, kept: int, tp: TopicPartition = TP, config: TopicConfig | None = None) -> None:
    """Check that earlier records are there and that new records are readable, also after the next clean stop."""
    logs, log = opened(folder, tp, config)
    assert log.log_end_offset == kept
    for number in range(5):
        assert log.append(batch(b"new %d" % number), 0).first_offset == kept + number
    logs.close({tp: kept + 5})
    logs, log = opened(folder, tp, config)
    found = values(log)
    assert len(found) == kept + 5
    assert found[kept:] == [b"new %d" % number for number in range(5)]
    logs.abandon()


def newest(folder: Path, suffix: str) -> Path:
    return sorted(folder.glob(f"t-0/*.{suffix}"))[-1]


def test_a_torn_last_batch(tmp_path: Path) -> None:
    stopped(tmp_path)
    path = newest(tmp_path, "log")
    path.write_bytes(path.read_bytes()[:-500])
    continues(tmp_path, 29)


def test_a_last_batch_of_the_right_size_with_another_content(tmp_path: Path) -> None:
    stopped(tmp_path)
    path = newest(tmp_path, "log")
    content = bytearray(path.read_bytes())
    content[-10] ^= 0xFF
    path.write_bytes(content)
    continues(tmp_path, 29)


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("seed", range(5))
def test_random_index_files(tmp_path: Path, suffix: str, seed: int) -> None:
    stopped(tmp_path)
    path = newest(tmp_path, suffix)
    path.write_bytes(random.Random(seed).randbytes(path.stat().st_size))
    continues(tmp_path, 30)


def test_random_indexes_of_an_older_segment(tmp_path: Path) -> None:
    config = topic_config(index_interval_bytes=200, segment_bytes=1000)
    stopped(tmp_path, config=config)
    path = sorted(tmp_path.glob("t-0/*.index"))[0]
    path.write_bytes(random.Random(1).randbytes(path.stat().st_size))
    continues(tmp_path, 30, config=config)


@pytest.mark.parametrize("content", [b'{"version":0}', b"garbage", b""])
def test_an_invalid_clean_shutdown_marker(tmp_path: Path, content: bytes) -> None:
    stopped(tmp_path)
    (tmp_path / ".kafka_cleanshutdown").write_bytes(content)
    path = newest(tmp_path, "log")
    path.write_bytes(path.read_bytes()[:-500])
    continues(tmp_path, 29)


def test_a_clean_start_scans_no_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped(tmp_path)
    monkeypatch.setattr(Segment, "scanning", no_space)
    logs, log = opened(tmp_path)
    assert len(values(log)) == 30
    logs.abandon()


def test_damage_in_the_middle_of_the_offsets_topic_is_cut_off(tmp_path: Path) -> None:
    tp = TopicPartition("__consumer_offsets", 0)
    stopped(tmp_path, tp)
    (path,) = tmp_path.glob("__consumer_offsets-0/*.log")
    content = bytearray(path.read_bytes())
    content[content.index(b"\x0415\x00") + 1] ^= 0xFF
    path.write_bytes(content)
    continues(tmp_path, 15, tp)


def test_a_log_that_cannot_be_opened_is_offline_and_the_others_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    brokers = Brokers(tmp_path, 1)
    brokers.controller.create_topic("t", 2)
    brokers.kill(0)
    (tmp_path / "broker-0" / "t-0").rename(tmp_path / "saved")
    (tmp_path / "broker-0" / "t-0").write_bytes(b"")
    broker = brokers.restart(0)
    brokers.leader("t", 1).append(batch(b"a"))
    with pytest.raises(KafkaStorageError, match="t-0 is offline"):
        broker.partition("t", 0)
    assert any(f"t-0 is offline: its log in {tmp_path}/broker-0" in r.getMessage() for r in caplog.records)
    (tmp_path / "broker-0" / "t-0").unlink()
    (tmp_path / "saved").rename(tmp_path / "broker-0" / "t-0")
    brokers.advance(2.0)
    broker.partition("t", 0).append(batch(b"b"))
    brokers.stop()


def test_a_log_that_cannot_be_opened_is_tried_after_pauses_that_grow(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    brokers = Brokers(tmp_path, 1)
    brokers.controller.create_topic("t", 1)
    brokers.kill(0)
    folder = tmp_path / "broker-0" / "t-0"
    folder.rename(tmp_path / "saved")
    folder.write_bytes(b"")
    broker = brokers.restart(0)
    tried_at = []
    for second in range(1, 250):
        caplog.clear()
        brokers.advance(1.0)
        if any("t-0 is offline" in record.getMessage() for record in caplog.records):
            tried_at.append(second)
    assert tried_at == [1, 3, 7, 15, 31, 63, 123, 183, 243]
    folder.unlink()
    (tmp_path / "saved").rename(folder)
    brokers.advance(60.0)
    broker.partition("t", 0).append(batch(b"a"))
    caplog.clear()
    brokers.advance(200.0)  # nothing is left to be tried
    assert not caplog.records
    brokers.stop()
