"""A share partition whose state cannot be begun, is gone, or was replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.share.coordinator import StateResult
from pyconsumer.broker.share.share_partition import Acknowledgement, PartitionStatus, SharePartition
from pyconsumer.broker.share.state import NO_OFFSET, ShareState, StateChange
from pyconsumer.broker.timer import Timer
from pyconsumer.clock import ManualClock
from pyconsumer.errors import Errors
from pyconsumer.protocol.records import BatchInfo
from pyconsumer.protocol.share_state_topic import ShareStateKey

KEY = ShareStateKey("g", b"T" * 16, 0)


class Store:
    """A share coordinator that answers at once."""

    def __init__(self, start_offset: int) -> None:
        self.state = ShareState(start_offset=start_offset)
        self.code = 0

    def read(self, key: ShareStateKey, leader_epoch: int) -> Deferred[StateResult]:
        return Deferred.of(StateResult(state=self.state))

    def write(self, key: ShareStateKey, change: StateChange) -> Deferred[StateResult]:
        return Deferred.of(StateResult(self.code))


class Rules:
    def lock_ms(self, group_id: str) -> int:
        return 1000

    def delivery_limit(self, group_id: str) -> int:
        return 5

    def max_locks(self, group_id: str) -> int:
        return 200

    def may_renew(self, group_id: str) -> bool:
        return True


class World:
    def __init__(self, start_offset: int = 0, choose: Callable[[], int] = lambda: 0) -> None:
        self.clock = ManualClock(100.0)
        self.timer = Timer()
        self.store = Store(start_offset)
        self.share = SharePartition(KEY, 1, self.store, Rules(), self.timer, self.clock, choose)

    def acquire(self, first: int, last: int) -> None:
        batch = BatchInfo(0, 100, 2, first, last, 0, 0, 0, last - first, 0, 0, -1, -1, -1, last - first + 1)
        assert self.share.acquire("m", [batch], first, max_records=100, batch_size=100, exact=False)

    def advance(self, seconds: float) -> int:
        """Advance the clock. Return how many timers ran."""
        self.clock.advance(seconds)
        return sum(self.timer.run_due(self.clock.now()) for _ in range(10))


@pytest.mark.parametrize(
    ("error", "code"),
    [(OSError(5, "a disk error"), Errors.KAFKA_STORAGE_ERROR), (ValueError("a fault"), Errors.UNKNOWN_SERVER_ERROR)],
)
def test_a_start_offset_that_cannot_be_read_is_an_error_and_not_a_load_for_ever(error: Exception, code: int) -> None:
    def choose() -> int:
        raise error

    world = World(NO_OFFSET, choose)
    told: list[Any] = []
    world.share.watch(lambda: told.append(world.share.status))
    assert world.share.load().value.error_code == code
    assert told == [PartitionStatus.FAILED]
    assert world.share.is_over


@pytest.mark.parametrize("code", [Errors.FENCED_STATE_EPOCH, Errors.INVALID_REQUEST])
def test_a_state_that_was_replaced_or_deleted_fences_at_the_first_write(code: int) -> None:
    world = World()
    world.share.load()
    world.acquire(0, 9)
    world.store.code = code
    outcome = world.share.acknowledge("m", [Acknowledgement(0, 9, [1])]).value
    assert outcome.error_code != 0
    assert world.share.status is PartitionStatus.FENCED


def test_locks_of_a_fenced_partition_are_not_timed() -> None:
    """The first lock ends, which is refused. The second one's timer would be due for ever."""
    world = World()
    world.share.load()
    world.acquire(0, 4)
    world.clock.advance(0.5)
    world.acquire(5, 9)
    world.store.code = Errors.FENCED_STATE_EPOCH
    assert world.advance(0.6) == 1
    assert world.share.status is PartitionStatus.FENCED
    assert world.advance(5) == 0
    assert world.timer.next_deadline() is None
