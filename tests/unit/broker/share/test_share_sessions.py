"""Share sessions of real brokers without sockets that end, also with a deleted group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyconsumer.broker.controller import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from pyconsumer.broker.deferred import Deferred
from pyconsumer.errors import Errors
from pyconsumer.structs import TopicPartition
from tests.unit.broker.brokers import Brokers
from tests.unit.broker.share.support import Connection, acknowledging, fetching, heartbeat, produced

GROUP = "g"
ACCEPT = (1,)


class World:
    """One broker with a topic, a share group that begins at the start, and connections."""

    def __init__(self) -> None:
        self.brokers = Brokers(
            None,
            1,
            forgetful=True,
            offsets_topic_num_partitions=1,
            offsets_topic_replication_factor=1,
            share_coordinator_state_topic_num_partitions=1,
            share_coordinator_state_topic_replication_factor=1,
            share_coordinator_state_topic_min_isr=1,
            group_share_max_share_sessions=2,
        )
        controller = self.brokers.controller
        controller.update_features({"share.version": 1})
        controller.create_topic("t", 1, 1, {})
        for name in (OFFSETS_TOPIC, SHARE_STATE_TOPIC):
            controller.ensure_internal(name)
        controller.group_configs[GROUP] = {"share.auto.offset.reset": "earliest"}
        self.brokers.advance(0.5)
        self.at = (controller.topics["t"].topic_id, 0)
        self.broker = self.brokers.alive[0]

    def connect(self) -> Connection:
        return Connection(self.brokers, 0)

    def send(self, *values: bytes) -> None:
        (answer,) = self.connect().ask(produced("t", 0, values, self.brokers.clock.wall_ms()), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        self.brokers.run()

    def begin_group(self) -> None:
        """Let a member join, so that the state is begun, and leave."""
        (joined,) = self.connect().ask(heartbeat(GROUP, "founder", 0, ["t"]), 1)
        assert joined.error_code == 0, joined
        self.brokers.run()
        self.connect().ask(heartbeat(GROUP, "founder", -1), 1)
        self.brokers.run()


def acquired(response: Any) -> list[tuple[int, int, int]]:
    return [
        (one.first_offset, one.last_offset, one.delivery_count)
        for topic in response.responses
        for partition in topic.partitions
        for one in partition.acquired_records
    ]


def open_session(world: World, member: str, **options: Any) -> tuple[Connection, list[Any]]:
    connection = world.connect()
    answers = connection.ask(fetching(GROUP, member, 0, [world.at], **options))
    world.brokers.run()
    return connection, answers


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    world.begin_group()
    yield world
    world.brokers.stop()


@pytest.mark.parametrize("end", ["closed", "opened again"])
def test_a_fetch_that_waits_ends_with_its_session_and_acquires_nothing(world: World, end: str) -> None:
    _, answers = open_session(world, "a", wait_ms=60_000)
    assert answers == []
    other = world.connect()
    if end == "closed":
        other.ask(acknowledging(GROUP, "a", -1, {}))
    else:
        other.ask(fetching(GROUP, "a", 0, [], wait_ms=0))
    world.brokers.run()
    assert [one.error_code for one in answers] == [Errors.SHARE_SESSION_NOT_FOUND]
    world.send(b"1", b"2")
    _, found = open_session(world, "b")
    assert acquired(found[0]) == [(0, 1, 1)]  # nobody holds them


def test_the_end_of_a_session_by_an_older_request_leaves_a_newer_one(world: World) -> None:
    connection, _ = open_session(world, "a")
    world.send(b"1")
    connection.ask(fetching(GROUP, "a", 1))
    storage = world.broker.share_coordinator._storage
    held: list[Any] = []
    append = storage.append

    def late(*args: Any, **options: Any) -> Any:
        result: Deferred[Any] = Deferred()
        held.append(lambda: append(*args, **options).on_done(result.set))
        return result

    storage.append = late  # type: ignore[method-assign]
    last = connection.ask(acknowledging(GROUP, "a", -1, {world.at: [(0, 0, ACCEPT)]}))
    assert last == []
    storage.append = append  # type: ignore[method-assign]
    again, _ = open_session(world, "a")
    held[0]()
    world.brokers.run()
    assert last[0].error_code == 0
    (more,) = again.ask(fetching(GROUP, "a", 1))
    assert more.error_code == 0


def test_a_deleted_group_does_not_go_on_in_an_open_session(world: World) -> None:
    world.send(b"1", b"2", b"3")
    connection, answers = open_session(world, "a")
    assert acquired(answers[0]) == [(0, 2, 1)]
    connection.ask(acknowledging(GROUP, "a", 1, {world.at: [(0, 1, ACCEPT)]}))
    world.brokers.run()
    deleted = world.broker.group_coordinator.delete_groups([GROUP])
    world.brokers.run()
    assert deleted.value == {GROUP: 0}
    (answer,) = connection.ask(acknowledging(GROUP, "a", 2, {world.at: [(2, 2, ACCEPT)]}))
    assert answer.responses[0].partitions[0].error_code != 0
    (answer,) = connection.ask(fetching(GROUP, "a", 3))
    assert acquired(answer) == []
    world.begin_group()
    _, found = open_session(world, "b")
    assert acquired(found[0]) == [(0, 2, 1)]  # as a new group, not where the old one was


def test_offsets_that_are_altered_take_effect_in_an_open_session(world: World) -> None:
    world.send(b"1", b"2", b"3")
    connection, answers = open_session(world, "a")
    connection.ask(acknowledging(GROUP, "a", 1, {world.at: [(0, 2, ACCEPT)]}))
    world.brokers.run()
    assert acquired(answers[0])
    altered = world.broker.group_coordinator.share_offsets.alter(GROUP, {TopicPartition("t", 0): 1})
    world.brokers.run()
    assert altered.value == {TopicPartition("t", 0): 0}
    (answer,) = connection.ask(fetching(GROUP, "a", 2))
    assert acquired(answer) == [(1, 2, 1)]


def test_a_refused_session_leaves_no_timer_behind(world: World) -> None:
    for member in ("a", "b"):
        open_session(world, member)
    refused, answers = open_session(world, "c", wait_ms=2_000_000_000)
    assert answers == []
    before = world.brokers.timer.next_deadline()
    refused.close()
    far = world.brokers.clock.now() + 1_000_000
    late = [when for when, _, handle in world.brokers.timer._heap if handle.active and when > far]
    assert before
    assert late == []
    waits, answers = open_session(world, "d", wait_ms=100)
    world.brokers.advance(0.2)
    assert [one.error_code for one in answers] == [Errors.SHARE_SESSION_LIMIT_REACHED]
    waits.close()


def test_records_are_acquired_when_the_wait_completes(world: World) -> None:
    """Their lock begins then, too, and of two that wait one has the record."""
    waiting, answers = open_session(world, "a", wait_ms=60_000)
    world.brokers.advance(40)  # longer than a lock
    assert answers == []
    world.send(b"1")
    assert acquired(answers[0]) == [(0, 0, 1)]
    world.brokers.advance(20)  # 60 s after the request, 20 s after the records
    (answer,) = waiting.ask(acknowledging(GROUP, "a", 1, {world.at: [(0, 0, ACCEPT)]}))
    assert answer.responses[0].partitions[0].error_code == 0
    again = waiting.ask(fetching(GROUP, "a", 2, wait_ms=60_000))
    _, others = open_session(world, "b", wait_ms=60_000)
    world.send(b"2")
    found = [acquired(one) for one in (*again, *others)]
    assert [one for one in found if one] == [[(1, 1, 1)]]  # one of them has it


@pytest.mark.parametrize("version", [1, 2])
def test_versions_1_and_2_are_served(world: World, version: int) -> None:
    world.send(b"1", b"2")
    connection = world.connect()
    (answer,) = connection.ask(fetching(GROUP, "a", 0, [world.at]), version)
    assert acquired(answer) == [(0, 1, 1)]
    (answer,) = connection.ask(acknowledging(GROUP, "a", 1, {world.at: [(0, 1, ACCEPT)]}), version)
    assert answer.responses[0].partitions[0].error_code == 0
