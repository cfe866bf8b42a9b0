"""The cluster's state: topics by Kafka's rules, leaders, producer ids, and the file that holds it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from pyconsumer.broker.config import BrokerConfig
from pyconsumer.broker.controller import OFFSETS_TOPIC, Controller, IsrChange
from pyconsumer.errors import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    PolicyViolationError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from tests.unit.broker.support import fill_disk, no_space


def controller(folder: Path | None = None, brokers: int = 1, **config: object) -> Controller:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    made = Controller(folder, BrokerConfig(settings))
    made.register(range(brokers))
    return made


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "x" * 249, "..."])
def test_legal_names(name: str) -> None:
    assert controller().create_topic(name).name == name


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n"])
def test_illegal_names(name: str) -> None:
    with pytest.raises(InvalidTopicError):
        controller().create_topic(name)


def test_names_that_differ_in_dot_and_underscore_collide() -> None:
    made = controller()
    made.create_topic("a.b")
    with pytest.raises(InvalidTopicError, match="collides"):
        made.create_topic("a_b")
    with pytest.raises(TopicAlreadyExistsError):
        made.create_topic("a.b")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"partitions": 0}, InvalidPartitionsError),
        ({"partitions": -2}, InvalidPartitionsError),
        ({"partitions": 10_001}, PolicyViolationError),
        ({"replication_factor": 0}, InvalidReplicationFactorError),
        ({"replication_factor": 3}, InvalidReplicationFactorError),
        ({"config": {"retention.ms": "soon"}}, InvalidConfigError),
        ({"config": {"nonsense": "1"}}, InvalidConfigError),
        ({"assignments": {0: [0]}, "partitions": 1}, InvalidRequestError),
        ({"assignments": {1: [0]}}, InvalidReplicaAssignmentError),
        ({"assignments": {0: []}}, InvalidReplicaAssignmentError),
        ({"assignments": {0: [0, 0]}}, InvalidReplicaAssignmentError),
        ({"assignments": {0: [7]}}, InvalidReplicaAssignmentError),
        ({"assignments": {0: [0], 1: [0, 1]}}, InvalidReplicaAssignmentError),
    ],
)
def test_topics_that_kafka_rejects_are_rejected(arguments: dict[str, object], error: type[KafkaError]) -> None:
    made = controller(brokers=2)
    with pytest.raises(error):
        made.plan_topic("t", **arguments)  # type: ignore[arg-type]
    assert not made.topics


def test_replicas_go_round_the_brokers() -> None:
    topic = controller(brokers=3).create_topic("t", 4, 2)
    assert [part.replicas for part in topic.partitions] == [(0, 1), (1, 2), (2, 0), (0, 1)]
    assert [part.leader for part in topic.partitions] == [0, 1, 2, 0]


def test_defaults_come_from_the_settings() -> None:
    topic = controller(brokers=2, num_partitions=3, default_replication_factor=2).create_topic("t")
    assert [len(part.replicas) for part in topic.partitions] == [2, 2, 2]


def test_the_offsets_topic_is_compacted_and_has_its_own_settings() -> None:
    made = controller()
    topic = made.ensure_internal(OFFSETS_TOPIC)
    assert topic.name == "__consumer_offsets"
    assert len(topic.partitions) == 50
    assert topic.config == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
        "min.insync.replicas": str(min(2, len(made.registered))),
    }
    assert made.ensure_internal(OFFSETS_TOPIC) is topic


@pytest.mark.parametrize(("brokers", "replicas", "min_isr"), [(1, 1, "1"), (2, 2, "2"), (5, 3, "2")])
@pytest.mark.parametrize("name", [OFFSETS_TOPIC, "__transaction_state"])
def test_internal_topics_follow_the_size_of_the_cluster_unless_set(
    name: str, brokers: int, replicas: int, min_isr: str
) -> None:
    topic = controller(brokers=brokers).ensure_internal(name)
    assert len(topic.partitions[0].replicas) == replicas
    assert topic.config["min.insync.replicas"] == min_isr


@pytest.mark.parametrize(
    ("name", "prefix"), [(OFFSETS_TOPIC, "offsets_topic"), ("__transaction_state", "transaction_state_log")]
)
def test_a_factor_that_is_set_is_not_shrunk(name: str, prefix: str) -> None:
    made = controller(brokers=2, **{f"{prefix}_replication_factor": 3})
    with pytest.raises(InvalidReplicationFactorError, match="Start more brokers"):
        made.ensure_internal(name)
    assert name not in made.topics
    made.register([2])
    assert len(made.ensure_internal(name).partitions[0].replicas) == 3


class TestPartitions:
    def test_more_can_be_added(self) -> None:
        made = controller()
        made.create_topic("t", 2)
        made.create_partitions("t", made.plan_partitions("t", 5))
        assert len(made.topic("t").partitions) == 5

    @pytest.mark.parametrize("count", [0, 1, 2])
    def test_but_none_taken_away(self, count: int) -> None:
        made = controller()
        made.create_topic("t", 2)
        with pytest.raises(InvalidPartitionsError):
            made.plan_partitions("t", count)

    def test_with_assignments(self) -> None:
        made = controller(brokers=2)
        made.create_topic("t", 1)
        assert [p.replicas for p in made.plan_partitions("t", 3, [[1], [0]])] == [(1,), (0,)]
        with pytest.raises(InvalidReplicaAssignmentError):
            made.plan_partitions("t", 3, [[1]])
        with pytest.raises(InvalidReplicaAssignmentError):
            made.plan_partitions("t", 2, [[0, 1]])

    def test_of_a_topic_that_is_not_there(self) -> None:
        with pytest.raises(UnknownTopicOrPartitionError):
            controller().plan_partitions("t", 3)


class TestFile:
    def test_all_state_is_there_after_a_restart(self, tmp_path: Path) -> None:
        before = controller(tmp_path)
        topic = before.create_topic("t", 2, config={"retention.ms": "5"})
        before.create_topic("gone")
        before.delete_topic("gone")
        before.set_broker_config("0", {"message.max.bytes": "77"})
        after = Controller(tmp_path, BrokerConfig())
        assert after.cluster_id == before.cluster_id
        assert after.topics == {"t": topic}
        assert after.name_of(topic.topic_id) == "t"
        assert after.broker_configs == {"0": {"message.max.bytes": "77"}}

    def test_a_restart_raises_leader_epochs(self, tmp_path: Path) -> None:
        controller(tmp_path).create_topic("t", 2)
        assert [part.leader_epoch for part in controller(tmp_path).topic("t").partitions] == [1, 1]
        assert [part.leader_epoch for part in controller(tmp_path).topic("t").partitions] == [2, 2]

    def test_a_change_is_in_the_file_before_brokers_are_notified(self, tmp_path: Path) -> None:
        made = controller(tmp_path)
        seen: list[bool] = []
        made.on_change.append(lambda name: seen.append(name in Controller(tmp_path, BrokerConfig()).topics))
        made.create_topic("t")
        made.delete_topic("t")
        assert seen == [True, False]

    def test_producer_ids_are_never_given_twice(self, tmp_path: Path) -> None:
        first = controller(tmp_path).allocate_producer_ids()
        second = controller(tmp_path).allocate_producer_ids()
        assert not set(first) & set(second)
        assert len(first) == 1000


def test_deleting_an_absent_topic() -> None:
    with pytest.raises(UnknownTopicOrPartitionError):
        controller().delete_topic("t")


def test_a_lost_leader_is_replaced_from_the_isr(tmp_path: Path) -> None:
    controller(tmp_path, brokers=2).create_topic("t", 2, 2)
    made = Controller(tmp_path, BrokerConfig())
    made.register([1])
    assert [(p.leader, p.leader_epoch) for p in made.topic("t").partitions] == [(1, 1), (1, 1)]


class TestAFileThatCannotBeWritten:
    """The change has no effect then, for the controller or the brokers, and may be repeated."""

    CHANGES: ClassVar[dict[str, Callable[[Controller], object]]] = {
        "create": lambda made: made.create_topic("u", 2, 2),
        "delete": lambda made: made.delete_topic("t"),
        "partitions": lambda made: made.create_partitions("t", made.plan_partitions("t", 4)),
        "topic config": lambda made: made.set_topic_config("t", {"retention.ms": "1"}),
        "broker config": lambda made: made.set_broker_config("0", {"log.retention.ms": "1"}),
        "leader": lambda made: made.move_leader("t", 0),
        "isr": lambda made: made.alter_isrs(0, [IsrChange("t", 0, 0, (0,)), IsrChange("t", 1, 0, (0,))]),
        "return": lambda made: made.register([5]),
    }

    @pytest.mark.parametrize("name", CHANGES)
    def test_a_change_that_cannot_be_written_has_no_effect(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = controller(tmp_path, 2)
        made.create_topics([made.plan_topic("t", assignments={0: [0, 1], 1: [0, 1]})])
        notified: list[str] = []
        made.on_change.append(notified.append)
        made.on_broker_config.append(lambda: notified.append(""))
        if name == "return":
            made.topics["t"].partitions[0] = replace(made.topics["t"].partitions[0], leader=-1, replicas=(5,), isr=(5,))

        def state() -> object:
            return copy.deepcopy([made.topics, made.names, made.broker_configs, made.brokers, made.registered])

        before = state()
        fill_disk(monkeypatch)
        with pytest.raises(OSError, match="No space"):
            self.CHANGES[name](made)
        assert state() == before
        assert not notified
        monkeypatch.undo()
        self.CHANGES[name](made)
        assert state() != before
        assert len(notified) == 1

    def test_a_broker_that_died_in_between_is_replaced_when_it_can_be(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = controller(tmp_path, 3)
        made.create_topics([made.plan_topic("t", assignments={0: [0, 1, 2]})])
        fill_disk(monkeypatch)
        with pytest.raises(OSError, match="No space"):
            made.unregister([0])
        assert made.brokers == [1, 2]
        monkeypatch.undo()
        made.unregister([1])
        assert (made.topics["t"].partitions[0].leader, made.topics["t"].partitions[0].isr) == (2, (2,))


def test_a_broker_that_fails_on_a_change_does_not_block_it_for_others(caplog: pytest.LogCaptureFixture) -> None:
    made = controller()
    notified: list[str] = []
    made.on_change += [lambda name: no_space(), notified.append]
    made.on_broker_config += [no_space, lambda: notified.append("config")]
    made.create_topic("t")
    made.set_broker_config("", {"log.retention.ms": "1"})
    assert notified == ["t", "config"]
    assert len(caplog.records) == 2
