"""Coordinators that move, die and come back, on the real log of brokers without sockets: commits stay."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyconsumer.broker.controller import OFFSETS_TOPIC
from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.elections import NO_LEADER
from pyconsumer.broker.group.common.offsets import CommittedOffset
from pyconsumer.broker.group.coordinator import PartitionErrors
from pyconsumer.broker.internal_topic import InternalTopicLog
from pyconsumer.errors import Errors, NotLeaderOrFollowerError
from pyconsumer.structs import TopicPartition
from tests.unit.broker.brokers import Brokers

TP = TopicPartition("t", 0)
ONE_PARTITION = {"offsets.topic.num.partitions": 1, "offsets.load.buffer.size": 200}


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    """Three brokers. The one partition of ``__consumer_offsets`` is read in pieces of a few records."""
    made = Brokers(tmp_path, forgetful=True, **ONE_PARTITION)
    made.controller.ensure_internal(OFFSETS_TOPIC)
    made.advance(0.1)
    yield made
    made.stop()


def commit(brokers: Brokers, node: int, offset: int, group_id: str = "g") -> Deferred[PartitionErrors]:
    return brokers.alive[node].group_coordinator.commit_offsets(group_id, {TP: CommittedOffset(offset)})


def committed(brokers: Brokers, node: int, group_id: str = "g") -> tuple[int, int]:
    """Error code and offset."""
    error_code, found = brokers.alive[node].group_coordinator.fetch_offsets(group_id, [TP]).value
    return error_code, found[TP].offset if found else -1


def coordinator(brokers: Brokers) -> int:
    return brokers.state(OFFSETS_TOPIC)[0]


def test_the_old_one_sends_away_and_the_new_one_loads_first(brokers: Brokers) -> None:
    answer = commit(brokers, 0, 42)
    brokers.run()
    assert answer.value == {TP: 0}
    assert committed(brokers, 1) == (Errors.NOT_COORDINATOR, -1)
    brokers.controller.move_leader(OFFSETS_TOPIC, 0, 1)
    assert committed(brokers, 0) == (Errors.NOT_COORDINATOR, -1)
    assert committed(brokers, 1) == (Errors.COORDINATOR_LOAD_IN_PROGRESS, -1)
    brokers.advance(0.1)
    assert committed(brokers, 1) == (0, 42)
    assert not brokers.alive[0].group_coordinator.manager.groups


def test_a_commit_under_way_when_the_coordinator_moves_is_not_acknowledged(brokers: Brokers) -> None:
    for node in (1, 2):
        brokers.alive[node].fetcher.pause()
    answer = commit(brokers, 0, 42)
    brokers.run()
    assert not answer.done
    brokers.controller.move_leader(OFFSETS_TOPIC, 0, 1)
    brokers.advance(0.1)
    assert answer.value == {TP: Errors.NOT_COORDINATOR}
    assert committed(brokers, 1) == (0, -1)


def test_a_coordinator_that_moves_there_and_back_during_its_first_load(brokers: Brokers) -> None:
    """A partition with half of its log never counts as loaded."""
    for offset in range(50):
        commit(brokers, 0, offset)
        brokers.run()
    for _ in range(3):
        brokers.controller.move_leader(OFFSETS_TOPIC, 0, 1)
        brokers.advance(0.002)  # some pieces are read, not all
        assert committed(brokers, 1)[0] == Errors.COORDINATOR_LOAD_IN_PROGRESS
        brokers.controller.move_leader(OFFSETS_TOPIC, 0, 0)
        assert committed(brokers, 0)[0] == Errors.COORDINATOR_LOAD_IN_PROGRESS
        brokers.controller.move_leader(OFFSETS_TOPIC, 0, 1)
        brokers.controller.move_leader(OFFSETS_TOPIC, 0, 0)
    brokers.advance(1.0)
    assert committed(brokers, 0) == (0, 49)
    assert committed(brokers, 1) == (Errors.NOT_COORDINATOR, -1)


def test_a_read_that_another_epoch_overtakes_is_no_whole_read(brokers: Brokers) -> None:
    for offset in range(9):
        commit(brokers, 0, offset)
        brokers.run()
    storage = InternalTopicLog.of_offsets(brokers.alive[0])
    pieces = storage.read(0)
    assert next(pieces)
    brokers.controller.move_leader(OFFSETS_TOPIC, 0, 1)
    brokers.controller.move_leader(OFFSETS_TOPIC, 0, 0)
    with pytest.raises(NotLeaderOrFollowerError):
        list(pieces)
    with pytest.raises(NotLeaderOrFollowerError):
        next(InternalTopicLog.of_offsets(brokers.alive[1]).read(0))


def test_groups_far_from_a_deleted_topics_replicas_forget_its_offsets_too(brokers: Brokers) -> None:
    brokers.controller.create_topics([brokers.controller.plan_topic("t", assignments={0: [2]})])
    commit(brokers, 0, 7)
    brokers.run()
    brokers.controller.delete_topic("t")
    brokers.run()
    assert committed(brokers, 0) == (0, -1)


@pytest.mark.parametrize("seed", range(12))
def test_no_acknowledged_commit_is_lost_or_moved_back(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    brokers = Brokers(tmp_path, forgetful=True, **ONE_PARTITION)
    brokers.controller.ensure_internal(OFFSETS_TOPIC)
    acknowledged, tried = -1, -1
    waiting: list[tuple[int, Deferred[PartitionErrors]]] = []
    for _ in range(300):
        event = chance.choices(
            ["commit", "step", "time", "move", "kill", "restart", "pause"], [30, 30, 10, 8, 3, 8, 3]
        )[0]
        leader = coordinator(brokers)
        node = chance.randrange(3)
        if event == "commit" and leader != NO_LEADER and not waiting:
            tried += 1
            waiting.append((tried, commit(brokers, leader, tried)))
        elif event == "step":
            for _ in range(chance.randint(1, 5)):
                brokers.step()
        elif event == "time":
            brokers.advance(chance.choice([0.001, 0.01, 6.0]))
        elif event == "move" and leader not in (NO_LEADER, node):
            if node in brokers.alive and node in brokers.state(OFFSETS_TOPIC)[2]:
                brokers.controller.move_leader(OFFSETS_TOPIC, 0, node)
        elif event == "kill" and node in brokers.alive:
            brokers.kill(node)
            if node == leader:
                waiting.clear()  # nobody gets an answer
        elif event == "restart" and node not in brokers.alive:
            brokers.restart(node)
        elif event == "pause" and node in brokers.alive:
            fetcher = brokers.alive[node].fetcher
            (fetcher.resume if fetcher.paused else fetcher.pause)()
        for offset, answer in list(waiting):
            if answer.done:
                waiting.remove((offset, answer))
                if answer.value[TP] == 0:
                    acknowledged = max(acknowledged, offset)
        leader = coordinator(brokers)
        if leader != NO_LEADER:
            error_code, found = committed(brokers, leader)
            if not error_code:
                assert acknowledged <= found <= tried, f"{found} is committed, {acknowledged} was acknowledged"
    for node in range(3):
        if node not in brokers.alive:
            brokers.restart(node)
        brokers.alive[node].fetcher.resume()
    brokers.advance(10.0)
    error_code, found = committed(brokers, coordinator(brokers))
    assert error_code == 0
    assert acknowledged <= found <= tried
    assert tried > 20
    brokers.stop()
