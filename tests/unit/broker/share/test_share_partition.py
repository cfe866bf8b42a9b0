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


def batch_of(first: int, last: int) -> BatchInfo:
    return BatchInfo(0, 100, 2, first, last, 0, 0, 0, last - first, 0, 0, -1, -1, -1, last - first + 1)


def deliver(world: World, first: int, last: int, *, member: str = "m", most: int = 1000, exact: bool = False) -> Any:
    """Let a member acquire from a batch. Return the ranges with their delivery counts."""
    found = world.share.acquire(member, [batch_of(first, last)], first, max_records=most, batch_size=most, exact=exact)
    return [tuple(one) for one in found]


def test_no_more_records_are_in_flight_than_the_limit() -> None:
    world = World()
    world.share.load()
    assert deliver(world, 0, 149) == [(0, 149, 1)]
    assert deliver(world, 150, 299, exact=True) == [(150, 199, 1)]
    assert world.share.next_offset() is None
    assert deliver(world, 200, 299) == []
    assert world.share.acknowledge("m", [Acknowledgement(0, 9, [1])]).value.error_code == 0
    assert world.share.next_offset() == 200
    assert deliver(world, 200, 299, exact=True) == [(200, 209, 1)]


def test_a_batch_is_delivered_whole_or_up_to_the_number_of_records_that_are_wanted() -> None:
    world = World()
    world.share.load()
    assert deliver(world, 0, 9, most=4) == [(0, 9, 1)]
    assert deliver(world, 10, 19, most=4, exact=True) == [(10, 13, 1)]


def test_single_records_of_a_batch_have_their_own_counts_and_are_archived_at_the_limit() -> None:
    world = World()
    world.share.load()
    deliver(world, 0, 9)
    for count in range(2, 6):  # 5 deliveries are allowed
        types = [1] * 10 if count == 2 else [1]
        types[3 if count == 2 else 0] = 2
        first, last = (0, 9) if count == 2 else (3, 3)
        assert world.share.acknowledge("m", [Acknowledgement(first, last, types)]).value.error_code == 0
        assert world.share.start_offset == 3
        assert deliver(world, 0, 9) == [(3, 3, count)]
    assert world.share.acknowledge("m", [Acknowledgement(3, 3, [2])]).value.error_code == 0
    assert deliver(world, 0, 9) == []
    assert (world.share.start_offset, world.share.end_offset) == (10, 10)


def test_a_lock_belongs_to_one_member_until_it_ends_by_the_clock_and_a_renewal_begins_it_again() -> None:
    world = World()
    world.share.load()
    deliver(world, 0, 9, member="a")
    assert deliver(world, 0, 9, member="b") == []
    refused = world.share.acknowledge("b", [Acknowledgement(0, 9, [1])]).value
    assert refused.error_code == Errors.INVALID_RECORD_STATE
    world.advance(0.9)
    assert world.share.acknowledge("a", [Acknowledgement(0, 4, [4])]).value.error_code == 0
    world.advance(0.2)  # the lock of 5 to 9 has ended
    assert deliver(world, 0, 9, member="b") == [(5, 9, 2)]
    late = world.share.acknowledge("a", [Acknowledgement(5, 9, [1])]).value
    assert late.error_code == Errors.INVALID_RECORD_STATE
    world.advance(0.8)
    assert deliver(world, 0, 4, member="b") == [(0, 4, 2)]


def test_offsets_that_the_log_has_no_more_are_archived() -> None:
    world = World()
    world.share.load()
    assert deliver(world, 0, 2) == [(0, 2, 1)]
    found = world.share.acquire("m", [batch_of(7, 9)], 3, max_records=100, batch_size=100, exact=False)
    assert [tuple(one) for one in found] == [(7, 9, 1)]  # compaction has removed 3 to 6
    types = [Acknowledgement(0, 2, [1]), Acknowledgement(7, 9, [1])]
    assert world.share.acknowledge("m", types).value.error_code == 0
    assert world.share.start_offset == 10
