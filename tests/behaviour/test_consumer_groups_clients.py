"""Consumers of others with the consumer protocol, and Kafka's tools, on the embedded broker (KIP-848)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaProducer, TopicPartition
from pyconsumer.admin import NewTopic
from tests.support.cluster import Cluster
from tests.support.java import KafkaTools
from tests.support.process import wait_until

confluent_kafka = pytest.importorskip("confluent_kafka")

MakeTopic = Callable[..., str]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Rdkafka:
    """A consumer of confluent-kafka in a group of the consumer protocol."""

    def __init__(self, cluster: Cluster, group: str, topic: str, **more: Any) -> None:
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
            | {name.replace("_", "."): value for name, value in more.items()}
        )
        self.consumer.subscribe([topic])
        self.read: list[tuple[int, int]] = []

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None and not message.error():
            self.read.append((message.partition(), message.offset()))
            self.consumer.commit(message, asynchronous=True)

    @property
    def owned(self) -> set[int]:
        return {one.partition for one in self.consumer.assignment()}


def produce(cluster: Cluster, topic: str, count: int) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(count):
            producer.send(topic, b"%d" % n, partition=n % 4)


def test_confluent_kafka_shares_and_hands_over(embedded: Cluster, group_id: str) -> None:
    topic = f"t-{group_id}"
    with KafkaAdminClient(bootstrap_servers=embedded.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 4)])
        produce(embedded, topic, 40)
        first = Rdkafka(embedded, group_id, topic)

        def turn(*members: Rdkafka) -> None:
            for member in members:
                member.poll()

        wait_until(lambda: turn(first) or len(first.read) >= 40, 60, "all was read", 0.0)
        second = Rdkafka(embedded, group_id, topic)
        wait_until(lambda: turn(first, second) or (len(first.owned), len(second.owned)) == (2, 2), 60, "two each", 0.0)
        assert not first.owned & second.owned
        found = admin.describe_groups([group_id])[group_id]
        assert (found.group_type, found.protocol, len(found.members)) == ("consumer", "uniform", 2)
        first.consumer.close()
        wait_until(lambda: turn(second) or len(second.owned) == 4, 60, "the other one has all", 0.0)
        produce(embedded, topic, 8)
        wait_until(lambda: turn(second) or len(second.read) >= 8, 60, "the rest was read", 0.0)
        assert len(second.read) == 8, "nothing that was committed is read again"
        second.consumer.close()
        assert {tp: at.offset for tp, at in admin.list_group_offsets(group_id).items()} == {
            TopicPartition(topic, index): 12 for index in range(4)
        }


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.embedded_only(reason="Apache Kafka with three brokers is tested by its own makers")
def test_confluent_kafka_survives_its_coordinator(nodes: Cluster, group_id: str) -> None:
    topic = f"t-{group_id}"
    with KafkaAdminClient(bootstrap_servers=nodes.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 4)])
        produce(nodes, topic, 20)
        members = [Rdkafka(nodes, group_id, topic) for _ in range(2)]

        def turn() -> None:
            for member in members:
                member.poll()

        def shared() -> bool:
            turn()
            return sorted(index for member in members for index in member.owned) == [0, 1, 2, 3]

        wait_until(lambda: shared() and sum(len(one.read) for one in members) >= 20, 90, "all was read", 0.0)
        before = admin.describe_groups([group_id])[group_id]
        nodes.kill(before.coordinator.node_id)
        produce(nodes, topic, 20)
        wait_until(lambda: shared() and sum(len(one.read) for one in members) >= 40, 90, "the rest was read", 0.0)
        after = admin.describe_groups([group_id])[group_id]
        assert after.coordinator.node_id != before.coordinator.node_id
        assert {one.member_id for one in after.members} == {one.member_id for one in before.members}
        assert after.epoch == before.epoch, "nobody had to join again"
        for member in members:
            member.consumer.close()


@pytest.mark.kafka
def test_kafkas_tools_see_and_change_such_a_group(embedded: Cluster, group_id: str, kafka_tools: KafkaTools) -> None:
    topic = f"t-{group_id}"
    servers = embedded.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, 4)])
    produce(embedded, topic, 8)
    member = Rdkafka(embedded, group_id, topic)
    wait_until(lambda: member.poll() or len(member.read) >= 8, 60, "all was read", 0.0)
    command = "ConsumerGroupCommand"
    common = ("--bootstrap-server", servers, "--group", group_id)
    state = kafka_tools.run(command, *common, "--describe", "--state", "--verbose").stdout
    assert "Stable" in state
    assert "uniform" in state
    shown = kafka_tools.run(command, *common, "--describe", "--members", "--verbose").stdout
    assert f"{topic}:0,1,2,3" in shown
    listed = kafka_tools.run("GroupsCommand", "--bootstrap-server", servers, "--list").stdout
    (line,) = [line.split() for line in listed.splitlines() if line.startswith(group_id)]
    assert line[1:] == ["Consumer", "consumer"]
    member.consumer.close()
    reset = ("--reset-offsets", "--to-earliest", "--topic", topic, "--execute")
    assert group_id in kafka_tools.run(command, *common, *reset).stdout
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        assert {at.offset for at in admin.list_group_offsets(group_id).values()} == {0}
    configs = "ConfigCommand"
    entity = ("--bootstrap-server", servers, "--entity-type", "groups", "--entity-name", group_id)
    kafka_tools.run(configs, *entity, "--alter", "--add-config", "consumer.session.timeout.ms=50000")
    assert "consumer.session.timeout.ms=50000" in kafka_tools.run(configs, *entity, "--describe").stdout
    deleted = kafka_tools.run(command, *common, "--delete").stdout
    assert "was successful" in deleted
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        assert group_id not in {one.group_id for one in admin.list_groups()}


@pytest.mark.kafka
def test_kafkas_own_consumer(embedded: Cluster, group_id: str, kafka_tools: KafkaTools) -> None:
    topic = f"t-{group_id}"
    with KafkaAdminClient(bootstrap_servers=embedded.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 4)])
        produce(embedded, topic, 40)
        output = kafka_tools.run(
            "VerifiableConsumer",
            "--bootstrap-server",
            embedded.bootstrap_servers,
            "--topic",
            topic,
            "--group-id",
            group_id,
            "--group-protocol",
            "consumer",
            "--reset-policy",
            "earliest",
            "--max-messages",
            "40",
        ).stdout
        events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        names = [event["name"] for event in events]
        assert "partitions_assigned" in names
        assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 40
        assert {at.offset for at in admin.list_group_offsets(group_id).values()} == {10}
