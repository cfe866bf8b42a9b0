"""A disk that is full at each step of a transaction: the client retries, and each record is there once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pyconsumer.broker.controller import OFFSETS_TOPIC, TRANSACTION_TOPIC
from pyconsumer.broker.log import storage
from pyconsumer.errors import Errors, for_code
from pyconsumer.structs import TopicPartition
from tests.unit.broker.brokers import Brokers
from tests.unit.broker.transactions import SINK, Producer, end_offset, markers_of, read

OTHER = TopicPartition("sink", 1)
_LONGEST_S = 30.0


class FullDisk:
    """Every write from the ``first`` on fails, until there is ``room`` again.

    Attributes:
        writes: the number of writes.
        refused: the number of failed ones.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.writes = 0
        self.refused = 0
        self.first = 1 << 30
        self.room = False
        append = storage._DiskFile.append
        write_small = storage.FileStorage.write_small

        def checked_append(file: Any, buffers: Sequence[Any]) -> None:
            self.check()
            append(file, buffers)

        def checked_write_small(folder: Any, name: str, content: bytes, *, sync: bool = True) -> None:
            self.check()
            write_small(folder, name, content, sync=sync)

        monkeypatch.setattr(storage._DiskFile, "append", checked_append)
        monkeypatch.setattr(storage.FileStorage, "write_small", checked_write_small)

    def check(self) -> None:
        self.writes += 1
        if self.writes >= self.first and not self.room:
            self.refused += 1
            raise OSError(28, "No space left on device")


def repeated(brokers: Brokers, call: Callable[[], int], codes: list[int]) -> None:
    """Call until it succeeds, as clients do. Every failure must be retriable."""
    until = brokers.clock.now() + _LONGEST_S
    while (code := call()) != Errors.NONE:
        codes.append(code)
        assert for_code(code).retriable, f"{Errors(code).name} is no error that a client repeats"
        assert brokers.clock.now() < until, f"it never succeeds: {[Errors(each).name for each in codes]}"
        brokers.advance(0.5)


@pytest.fixture
def stop() -> Iterator[list[Brokers]]:
    made: list[Brokers] = []
    yield made
    for brokers in made:
        brokers.stop()


def play(brokers: Brokers, disk: FullDisk, version: int, first: int, room_after_s: float) -> list[int]:
    """Commit a transaction and abort one, with a disk that is full from a write on. Return the error codes."""
    codes: list[int] = []
    disk.writes = 0
    disk.first = first

    def make_room() -> None:
        disk.room = True

    brokers.timer.schedule(brokers.clock.now() + room_after_s, make_room)
    producer = Producer(brokers)
    repeated(brokers, lambda: producer.init()[0], codes)
    for commit in (True, False):
        word = b"kept" if commit else b"lost"
        if version < 2:
            repeated(brokers, lambda: max(producer.add(SINK, OTHER)), codes)
            repeated(brokers, producer.add_offsets, codes)
        newest = {"version": 12} if version == 2 else {}
        repeated(brokers, lambda: producer.send(word, **newest), codes)  # noqa: B023
        repeated(brokers, lambda: producer.send(word, to=OTHER, **newest), codes)  # noqa: B023
        offset = 5 if commit else 9
        repeated(brokers, lambda: producer.commit_offset(offset, version=5 if version == 2 else 4), codes)  # noqa: B023
        repeated(brokers, lambda: producer.end(commit=commit, version=5 if version == 2 else 4), codes)  # noqa: B023
    make_room()
    brokers.advance(10.0)
    return codes


def check(brokers: Brokers) -> None:
    """Every record of the first transaction is there once, and none of the second."""
    for tp in (SINK, OTHER):
        found = read(brokers, tp)
        assert found.values == [b"kept"], tp
        assert found.last_stable_offset == found.high_watermark == end_offset(brokers, tp, committed=True)
        assert read(brokers, tp, committed=False).values.count(b"lost") == 1
        assert {kind for _, _, kind, _ in markers_of(brokers, tp)} == {"COMMIT", "ABORT"}
    assert Producer(brokers).committed() == (Errors.NONE, 5)


@pytest.mark.slow
@pytest.mark.parametrize("room_after_s", [0.4, 3.0])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_disk_that_is_full_at_each_step(
    version: int, room_after_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: list[Brokers]
) -> None:
    def start(folder: Path) -> Brokers:
        settings = {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1}
        brokers = Brokers(folder, 1, forgetful=True, **settings)
        stop.append(brokers)
        brokers.controller.update_features({"transaction.version": version})
        brokers.controller.create_topic("sink", 2, 1, {})
        for name in (OFFSETS_TOPIC, TRANSACTION_TOPIC):
            brokers.controller.ensure_internal(name)
        brokers.advance(0.1)
        return brokers

    first, seen = 1, set()
    while True:
        brokers = start(tmp_path / str(first))
        with monkeypatch.context() as patch:
            disk = FullDisk(patch)
            seen.update(play(brokers, disk, version, first, room_after_s))
        if not disk.refused:
            break
        check(brokers)
        brokers.kill(0)
        brokers.restart(0)
        brokers.advance(1.0)
        check(brokers)
        first += 1
    assert first > 12
    assert seen
