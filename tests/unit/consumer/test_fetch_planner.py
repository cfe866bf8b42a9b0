"""Tests of the fetch plan: which partitions go to which node, and within which memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest

from pyconsumer.consumer.auto_offset_reset import EARLIEST
from pyconsumer.consumer.fetch_planner import FetchPlanner, PlannedFetch
from pyconsumer.consumer.partition_state import MAX_BUFFERED_FETCHES, NO_LEADER, FetchPosition, LeaderAndEpoch
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.structs import TopicPartition

KIB = 1024
MIB = 1024 * KIB
PARTITIONS = [TopicPartition("t", n) for n in range(6)]
T0, T1, T2, T3, T4, T5 = PARTITIONS


class World:
    """A planner with its surroundings: two brokers, partitions led in turn."""

    def __init__(self, *, buffer: int = 100 * KIB, max_bytes: int = 50 * KIB, partition: int = KIB) -> None:
        self.subscriptions = SubscriptionState(EARLIEST)
        self.leaders: dict[TopicPartition, LeaderAndEpoch] = defaultdict(lambda: NO_LEADER)
        self.leaders.update({tp: LeaderAndEpoch(1 + tp.partition % 2, 3) for tp in PARTITIONS})
        self.unavailable: dict[int, float] = {}
        self.planner = FetchPlanner(
            self.subscriptions,
            leaders=self.leaders,
            topic_id=lambda topic: bytes([7] * 16),
            unavailable_until=self._unavailable_until,
            max_partition_bytes=partition,
            max_bytes=max_bytes,
            buffer_bytes=buffer,
        )
        self.now = 100.0
        self.looks = 0
        self.planned: dict[int, PlannedFetch] = {}

    def _unavailable_until(self, node: int) -> float:
        self.looks += 1
        return self.unavailable.get(node, 0.0)

    def assign(self, *partitions: TopicPartition, at: int = 0) -> None:
        self.subscriptions.assign_from_user(partitions)
        for tp in partitions:
            if self.subscriptions.state(tp).fetch_position is None:
                self.subscriptions.seek(tp, FetchPosition(at, -1, self.leaders[tp]))

    def plan(self) -> list[PlannedFetch]:
        changed = self.subscriptions.take_changed()
        if changed:
            self.planner.on_changed(changed, self.now)
        planned = self.planner.plan(self.now)
        self.planned |= {fetch.node_id: fetch for fetch in planned}
        return planned

    def asked(self) -> dict[int, list[TopicPartition]]:
        return {fetch.node_id: list(fetch.session.to_send) for fetch in self.plan()}

    def done(self, node: int) -> None:
        self.planner.end(self.planned[node])


def test_each_node_is_sent_the_partitions_that_it_leads_in_order() -> None:
    world = World()
    world.assign(T0, T3, T1, T2)

    assert world.asked() == {1: [T0, T2], 2: [T3, T1]}


def test_a_partition_is_requested_with_its_fetch_offset_limit_and_leader_epoch() -> None:
    world = World()
    world.assign(T0, at=17)

    (fetch,) = world.plan()

    asked = fetch.session.to_send[T0]
    assert (asked.fetch_offset, asked.max_bytes, asked.leader_epoch) == (17, KIB, 3)
    assert asked.topic_id == bytes([7] * 16)


def test_one_fetch_is_under_way_per_node() -> None:
    world = World()
    world.assign(T0, T1)
    assert set(world.asked()) == {1, 2}

    world.subscriptions.seek(T0, FetchPosition(5))
    assert world.asked() == {}
    assert world.planner.in_flight(1)

    world.done(1)
    assert world.asked() == {1: [T0]}


def test_the_next_fetch_is_planned_from_the_fetch_offset_while_the_position_stays() -> None:
    world = World()
    world.assign(T0)
    world.plan()
    world.done(1)
    state = world.subscriptions.state(T0)
    state.fetch_offset = 500
    state.buffered_fetches = 1
    world.subscriptions.note_changed(T0)

    (fetch,) = world.plan()

    assert fetch.session.to_send[T0].fetch_offset == 500
    assert state.position == 0


def test_a_partition_with_enough_waiting_leaves_the_request_and_comes_back() -> None:
    world = World()
    world.assign(T0, T2)
    world.plan()
    world.done(1)
    assert world.planner.session(1) is not None
    state = world.subscriptions.state(T0)
    state.buffered_fetches = MAX_BUFFERED_FETCHES
    world.subscriptions.note_changed(T0)
    session = world.planner.session(1)
    assert session is not None
    world.plan()
    assert list(session.partitions) == [T2]

    world.done(1)
    state.buffered_fetches = 1
    world.subscriptions.note_changed(T0)
    world.plan()
    assert set(session.partitions) == {T0, T2}


def test_a_paused_partition_leaves_the_request() -> None:
    world = World()
    world.assign(T0, T2)
    world.subscriptions.pause(T0)

    assert world.asked() == {1: [T2]}

    world.done(1)
    world.subscriptions.resume(T0)
    assert T0 in world.asked()[1]


def test_a_node_without_partitions_gets_no_request() -> None:
    world = World()
    world.assign(T0)
    world.plan()
    world.done(1)
    world.subscriptions.pause(T0)

    assert world.plan() == []


def test_a_partition_without_a_leader_waits_for_metadata() -> None:
    world = World()
    world.assign(T0, T1)
    world.leaders[T0] = NO_LEADER

    assert world.asked() == {2: [T1]}
    assert world.planner.wants_metadata


def test_a_node_in_backoff_gets_no_request_until_it_ends() -> None:
    world = World()
    world.assign(T0, T1)
    world.unavailable[1] = 101.5

    assert set(world.asked()) == {2}
    assert world.planner.next_due_at() == 101.5

    world.now = 101.5
    assert set(world.asked()) == {1}


def test_a_partition_pauses_after_an_error() -> None:
    world = World()
    world.assign(T0)
    world.subscriptions.state(T0).fetch_not_before = 100.1
    world.subscriptions.note_changed(T0)

    assert world.asked() == {}
    assert world.planner.next_due_at() == 100.1

    world.now = 100.1
    assert world.asked() == {1: [T0]}


def test_a_partition_with_an_error_waiting_is_not_fetched() -> None:
    world = World()
    world.assign(T0)
    world.subscriptions.state(T0).fetch_blocked = True
    world.subscriptions.note_changed(T0)

    assert world.asked() == {}


def test_a_preferred_replica_is_used_until_its_lease_expires() -> None:
    world = World()
    world.assign(T0)
    state = world.subscriptions.state(T0)
    state.preferred_replica, state.preferred_until = 2, 160.0
    world.subscriptions.note_changed(T0)

    assert world.asked() == {2: [T0]}
    assert world.planner.next_due_at() == 160.0

    world.done(2)
    world.now = 160.0
    assert world.asked() == {1: [T0]}


def test_an_unreachable_preferred_replica_is_given_up() -> None:
    world = World()
    world.assign(T0)
    state = world.subscriptions.state(T0)
    state.preferred_replica, state.preferred_until = 2, 160.0
    world.unavailable[2] = 101.0
    world.subscriptions.note_changed(T0)

    assert world.asked() == {1: [T0]}
    assert state.preferred_replica == -1
    assert world.planner.wants_metadata


def test_a_partition_moves_with_its_leader() -> None:
    world = World()
    world.assign(T0, T2)
    world.plan()
    world.done(1)
    world.leaders[T0] = LeaderAndEpoch(2, 4)
    world.subscriptions.note_changed(T0)

    planned = {fetch.node_id: fetch for fetch in world.plan()}

    assert list(planned[2].session.to_send) == [T0]
    assert world.planner.session(1) is not None
    assert list(world.planner.session(1).partitions) == [T2]  # type: ignore[union-attr]


class _Noted(dict[TopicPartition, LeaderAndEpoch]):
    def __init__(self, look: Callable[[TopicPartition], LeaderAndEpoch]) -> None:
        super().__init__()
        self._look = look

    def __missing__(self, tp: TopicPartition) -> LeaderAndEpoch:
        return self._look(tp)


def test_only_changed_partitions_are_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.assign(*PARTITIONS)
    world.plan()
    world.done(1)
    world.done(2)
    looked_at: list[TopicPartition] = []
    leaders = dict(world.leaders)
    monkeypatch.setattr(
        world.planner,
        "_leaders",
        _Noted(lambda tp: (looked_at.append(tp), leaders[tp])[1]),  # type: ignore[func-returns-value]
    )
    world.subscriptions.note_changed(T3)

    world.plan()

    assert looked_at == [T3]


def test_a_partition_that_brought_records_is_requested_again_without_planning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.assign(*PARTITIONS)
    world.plan()
    world.done(2)
    looked_at: list[TopicPartition] = []
    monkeypatch.setattr(world.planner, "_leaders", _Noted(looked_at.append))  # type: ignore[arg-type]

    world.subscriptions.state(T3).add_buffered(10, False)
    world.planner.on_fetched(2, [T3])

    (fetch,) = world.plan()
    assert (fetch.node_id, looked_at) == (2, [])
    assert fetch.session.to_send[T3].fetch_offset == 10


# -- memory ----------------------------------------------------------------------------------------------------------


def test_a_request_reserves_its_largest_response() -> None:
    world = World()
    world.assign(T0, T2, T4)

    (fetch,) = world.plan()

    assert fetch.max_bytes == 50 * KIB
    assert fetch.reserved == world.planner.budget.reserved == 3 * KIB
    world.done(1)
    assert world.planner.budget.reserved == 0


def test_each_node_has_a_share_of_the_memory_for_one_more_response() -> None:
    world = World(buffer=40 * KIB)
    world.assign(T0, T1)

    assert {fetch.max_bytes for fetch in world.plan()} == {10 * KIB}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, 8 * MIB),
        ({"partition": 10 * KIB}, 8 * MIB),
        ({"partition": 3 * MIB}, 24 * MIB),
        ({"partition": 9 * MIB}, 50 * MIB),
        ({"max_bytes": 2 * MIB}, 2 * MIB),
    ],
    ids=["default", "small partitions", "large partitions", "very large partitions", "small answers"],
)
def test_a_request_asks_for_8_mib_or_the_maximum_of_eight_partitions(limits: dict[str, int], expected: int) -> None:
    world = World(**{"buffer": 100 * MIB, "max_bytes": 50 * MIB, "partition": MIB, **limits})
    world.assign(*PARTITIONS[::2])

    (fetch,) = world.plan()

    assert fetch.max_bytes == expected


@pytest.mark.parametrize(("partition", "small", "large"), [(10 * KIB, 8, 16), (MIB, 8, 16), (3 * MIB, 24, 24)])
def test_a_request_asks_for_more_if_records_are_large(partition: int, small: int, large: int) -> None:
    world = World(buffer=100 * MIB, max_bytes=50 * MIB, partition=partition)
    world.assign(*PARTITIONS[::2])
    for record_bytes, expected in ((None, small), (512, large), (None, large), (511, small)):
        world.plan()
        world.done(1)
        world.planner.on_fetched(1, [T0], record_bytes=record_bytes)
        (fetch,) = world.plan()
        assert fetch.max_bytes == expected * MIB
        world.done(1)


def test_no_fetch_is_sent_beyond_the_bound() -> None:
    world = World(buffer=4 * KIB, max_bytes=2 * KIB, partition=2 * KIB)
    world.assign(T0, T1)
    world.planner.budget.held = 1 * KIB

    planned = world.plan()

    assert [fetch.node_id for fetch in planned] == [1]
    assert world.planner.budget.held + world.planner.budget.reserved <= 4 * KIB
    world.planner.budget.held = 0
    assert [fetch.node_id for fetch in world.plan()] == [2]


def test_a_node_that_found_no_room_comes_first_next_time() -> None:
    world = World(buffer=2 * KIB, max_bytes=2 * KIB, partition=2 * KIB)
    world.assign(T0, T1)
    served = []
    for _ in range(4):
        (fetch,) = world.plan()
        served.append(fetch.node_id)
        world.done(fetch.node_id)

    assert served == [1, 2, 1, 2]


def test_an_oversized_batch_may_exceed_the_bound_alone() -> None:
    world = World(buffer=2 * KIB, max_bytes=2 * KIB, partition=KIB)
    world.assign(T0, T2)
    world.planner.budget.held = 10 * KIB
    assert world.plan() == []

    world.planner.budget.held = 0
    assert len(world.plan()) == 1


def test_a_bound_smaller_than_one_partitions_limit_still_lets_one_fetch_pass() -> None:
    world = World(buffer=100, max_bytes=2 * KIB, partition=KIB)
    world.assign(T0)

    assert len(world.plan()) == 1


def test_records_of_paused_partitions_do_not_block_the_others() -> None:
    world = World(buffer=4 * KIB, max_bytes=4 * KIB)
    world.assign(T0, T1)
    budget = world.planner.budget
    budget.held = budget.paused = 4 * KIB - 100
    (fetch,) = world.plan()
    assert fetch.max_bytes == KIB
    assert world.plan() == [], "one at a time"
    world.done(fetch.node_id)
    budget.held += KIB
    assert world.plan() == [], "buffered records are returned first"
    budget.held -= KIB
    (other,) = world.plan()
    assert other.node_id != fetch.node_id, "the others have their turn"


def test_the_end_of_a_pause_is_found_without_a_notification() -> None:
    world = World()
    world.unavailable[2] = world.now + 5
    world.assign(T0, T1)
    assert world.asked() == {1: [T0]}
    assert world.asked() == {}

    world.unavailable.clear()  # earlier than it was said
    assert world.asked() == {2: [T1]}
    world.looks = 0
    assert world.asked() == {}
    assert world.looks == 0

    world.done(1)
    assert world.planner.next_due_at() == float("inf")
    assert [fetch.node_id for fetch in world.plan()] == [1]
