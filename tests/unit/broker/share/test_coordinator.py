"""The share coordinator: epochs, snapshots and updates, loading, and what is removed from the log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.share.config import ShareConfig
from pyconsumer.broker.share.coordinator import ShareCoordinator, StateResult, state_partition_for
from pyconsumer.broker.share.state import ACKNOWLEDGED, ARCHIVED, AVAILABLE, Batch, ShareState, StateChange, combine
from pyconsumer.broker.timer import Timer
from pyconsumer.clock import ManualClock
from pyconsumer.errors import Errors
from pyconsumer.protocol.records import iter_records
from pyconsumer.protocol.share_state_topic import SNAPSHOT, UPDATE, ShareStateKey, decode_state_key
from tests.unit.broker.group.support import MemoryStorage

KEY = ShareStateKey("g", b"T" * 16, 0)


class Coordinating:
    """A share coordinator of one partition of the topic, in memory."""

    def __init__(self, *, per_snapshot: int = 3, storage: MemoryStorage | None = None) -> None:
        self.clock = ManualClock(100.0)
        self.timer = Timer()
        self.storage = storage or MemoryStorage(self.clock, partitions=1)
        self.topic: str | None = "t"
        self.removed: list[tuple[int, int]] = []
        topics: Any = SimpleNamespace(
            topic_name=lambda topic_id: self.topic,
            partition_count=lambda topic: 2,
            remove_before=lambda *where: self.removed.append(where),
        )
        config = ShareConfig(share_coordinator_snapshot_update_records_per_snapshot=per_snapshot)
        self.coordinator = ShareCoordinator(config, self.storage, self.timer, self.clock, topics)
        self.coordinator.on_become_leader(0, 1)
        self.timer.run_due(self.clock.now())

    def write(self, *batches: Batch, start: int = 0, state_epoch: int = 1, leader_epoch: int = 5) -> StateResult:
        return value(self.coordinator.write(KEY, StateChange(state_epoch, leader_epoch, start, 0, batches)))

    def state(self) -> ShareState:
        found = value(self.coordinator.read(KEY, -1)).state
        assert found is not None
        return found

    def kinds(self) -> list[int]:
        records = [record for batch in self.storage.batches[0] for record in iter_records(batch)]
        return [found[0] for record in records if (found := decode_state_key(record.key or b"")) is not None]


def value(result: Deferred[StateResult]) -> StateResult:
    assert result.done
    return result.value


@pytest.fixture
def world() -> Coordinating:
    world = Coordinating()
    assert value(world.coordinator.initialize(KEY, 1, 0)).error_code == 0
    return world


def test_a_state_that_was_not_begun_is_neither_read_nor_written() -> None:
    world = Coordinating()
    assert value(world.coordinator.read(KEY, 1)).error_code == Errors.INVALID_REQUEST
    assert world.write().error_code == Errors.INVALID_REQUEST
    assert world.coordinator.read_summary(KEY).state == ShareState()
    assert value(world.coordinator.delete(KEY)).error_code == 0


def test_after_so_many_updates_there_is_a_snapshot(world: Coordinating) -> None:
    for offset in range(5):
        assert world.write(Batch(offset, offset, ACKNOWLEDGED, 1)).error_code == 0
    assert world.kinds() == [SNAPSHOT, UPDATE, UPDATE, UPDATE, SNAPSHOT, UPDATE]
    assert world.state().batches == (Batch(0, 4, ACKNOWLEDGED, 1),)
    assert world.state().snapshot_epoch == 1


def test_a_loaded_coordinator_knows_the_same(world: Coordinating) -> None:
    value(world.coordinator.read(KEY, 5))
    world.write(Batch(0, 3, ACKNOWLEDGED, 1), Batch(4, 6, AVAILABLE, 2))
    world.write(Batch(4, 4, ARCHIVED, 2), start=4)
    again = Coordinating(storage=world.storage)
    assert again.state() == world.state()
    assert again.state().batches == (Batch(4, 4, ARCHIVED, 2), Batch(5, 6, AVAILABLE, 2))
    assert again.state().leader_epoch == 5


def test_old_leaders_and_old_states_are_refused(world: Coordinating) -> None:
    assert value(world.coordinator.read(KEY, 5)).error_code == 0
    assert value(world.coordinator.read(KEY, 4)).error_code == Errors.FENCED_LEADER_EPOCH
    assert world.write(leader_epoch=4).error_code == Errors.FENCED_LEADER_EPOCH
    assert value(world.coordinator.initialize(KEY, 2, 7)).error_code == 0
    assert world.write(state_epoch=1).error_code == Errors.FENCED_STATE_EPOCH
    assert value(world.coordinator.initialize(KEY, 1, 0)).error_code == Errors.FENCED_STATE_EPOCH
    assert world.state().start_offset == 7


def test_a_late_write_does_not_move_the_start_back(world: Coordinating) -> None:
    world.write(Batch(0, 9, ACKNOWLEDGED, 1))
    world.write(start=10)
    world.write(Batch(12, 12, ACKNOWLEDGED, 1), start=0)
    assert world.state().start_offset == 10


def test_a_failed_append_changes_nothing(world: Coordinating) -> None:
    before = world.state()
    world.storage.fail_with = Errors.NOT_ENOUGH_REPLICAS
    assert world.write(Batch(0, 0, ACKNOWLEDGED, 1)).error_code == Errors.COORDINATOR_NOT_AVAILABLE
    assert world.state() == before


def test_deleted_topics_lose_their_states(world: Coordinating) -> None:
    world.topic = None
    assert value(world.coordinator.read(KEY, -1)).error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
    world.coordinator.forget_deleted_topics()
    world.topic = "t"
    assert value(world.coordinator.read(KEY, -1)).error_code == Errors.INVALID_REQUEST


def test_what_is_before_the_oldest_snapshot_is_removed(world: Coordinating) -> None:
    other = KEY._replace(partition=1)
    assert value(world.coordinator.initialize(other, 1, 0)).error_code == 0
    for _ in range(4):
        world.write()
    world.coordinator.prune()
    assert world.removed == [(0, 1)]  # the other one's snapshot
    world.clock.advance(301)
    world.coordinator.snapshot_cold()
    world.coordinator.prune()
    assert world.removed[-1][1] > 1


def test_another_coordinator_and_one_that_loads() -> None:
    world = Coordinating()
    world.coordinator.on_resign(0, 2)
    assert value(world.coordinator.read(KEY, 1)).error_code == Errors.NOT_COORDINATOR
    world.coordinator.on_become_leader(0, 3)
    assert value(world.coordinator.read(KEY, 1)).error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS


def test_the_partition_of_the_topic_is_kafkas() -> None:
    """The key is hashed as ``group:topicId:partition``, as Java's String does."""
    text = "g:VFRUVFRUVFRUVFRUVFRUVA:0"
    java = 0
    for character in text:
        java = (31 * java + ord(character)) & 0xFFFFFFFF
    assert state_partition_for(KEY, 50) == (java & 0x7FFFFFFF) % 50


@pytest.mark.parametrize(
    ("before", "after", "start", "expected"),
    [
        ([(0, 9, 0, 1)], [(3, 5, 2, 1)], 0, [(0, 2, 0, 1), (3, 5, 2, 1), (6, 9, 0, 1)]),
        ([(0, 4, 2, 1)], [(5, 9, 2, 1)], 0, [(0, 9, 2, 1)]),
        ([(0, 9, 0, 2)], [(0, 9, 2, 1)], 0, [(0, 9, 0, 2)]),
        ([(0, 9, 2, 1)], [(20, 21, 0, 1)], 5, [(5, 9, 2, 1), (20, 21, 0, 1)]),
        ([(0, 3, 2, 1)], [], 4, []),
    ],
)
def test_batches_are_combined(
    before: list[tuple[int, int, int, int]],
    after: list[tuple[int, int, int, int]],
    start: int,
    expected: list[tuple[int, int, int, int]],
) -> None:
    assert [*combine([Batch(*one) for one in before], [Batch(*one) for one in after], start)] == expected
