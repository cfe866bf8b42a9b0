"""Names with an underscore that other programs read, and assignors of a program's own, on both layers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyconsumer.compat.aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from pyconsumer.compat.kafka import KafkaConsumer, KafkaProducer
from pyconsumer.compat.kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from pyconsumer.compat.kafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)
from tests.behaviour.consumer_support import fill
from tests.support.cluster import Cluster

WITHIN_S = 60


def test_names_of_kafka_python(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 1)
    servers = cluster.bootstrap_servers
    with KafkaProducer(bootstrap_servers=servers) as producer:
        producer.partitions_for(topic)
        controller: Any = producer._metadata.controller
        assert f"{controller[1]}:{controller[2]}" in servers
        with pytest.raises(AttributeError, match="_accumulator was internal to kafka-python"):
            producer._accumulator  # noqa: B018
        with pytest.raises(AttributeError, match="no attribute 'no_such'"):
            producer.no_such  # noqa: B018
    with KafkaConsumer(topic, bootstrap_servers=servers, group_id=group_id, auto_offset_reset="earliest") as consumer:
        assert consumer._subscription.subscription == {topic}
        assert consumer._group_id == group_id
        next(consumer)
        assert consumer._coordinator.member_id
        assert consumer._coordinator.generation >= 1
        broker = consumer._delegate.coordinator.coordinator_id
        assert consumer._coordinator.coordinator() == consumer._coordinator.coordinator_id == f"coordinator-{broker}"
        with pytest.raises(AttributeError, match="_iterator was internal"):
            consumer._iterator  # noqa: B018


@pytest.mark.asyncio
async def test_names_of_aiokafka(cluster: Cluster, topic: str, group_id: str) -> None:
    servers = cluster.bootstrap_servers
    async with AIOKafkaProducer(bootstrap_servers=servers, client_id="p") as producer:
        assert producer.client._bootstrap_servers == servers
        assert producer._client._client_id == "p"
        assert producer._sender.sender_task is not None
        assert not producer._sender.sender_task.done()
        assert producer._closed is False
        assert producer._key_serializer is None
        await producer.partitions_for(topic)
        known = sorted(producer._metadata.partitions_for_topic(topic) or ())
        assert known == sorted(await producer.partitions_for(topic))
        assert producer._partitioner(b"k", known, known) in known
        with pytest.raises(AttributeError, match="_txn_manager was internal to aiokafka"):
            producer._txn_manager  # noqa: B018
    assert producer._closed
    assert producer._sender.sender_task.done()
    async with AIOKafkaConsumer(topic, bootstrap_servers=servers, group_id=group_id) as consumer:
        assert consumer._group_id == group_id
        assert consumer._coordinator.member_id
        assert consumer._coordinator.generation >= 1
        assert consumer._coordinator.coordinator_id is not None
        assert consumer._subscription.topics == {topic}
        assert consumer._max_poll_records is None
        with pytest.raises(AttributeError, match="_fetcher was internal to aiokafka"):
            consumer._fetcher  # noqa: B018


class Last(AbstractPartitionAssignor):
    """Gives all partitions to the member with the last id, and some data to each."""

    name = "last"
    heard: list[bytes]

    @classmethod
    def assign(cls, cluster: Any, members: Any) -> dict[str, ConsumerProtocolMemberAssignment]:
        names = sorted(members if isinstance(members, dict) else (each.member_id for each in members))
        metadata = members if isinstance(members, dict) else {each.member_id: each.metadata for each in members}
        assert all(each.user_data == b"mine" for each in metadata.values())
        topics = {topic for each in metadata.values() for topic in each.topics}
        everything = [(topic, sorted(cluster.partitions_for_topic(topic))) for topic in sorted(topics)]
        return {
            name: ConsumerProtocolMemberAssignment(0, everything if name == names[-1] else [], b"for you")
            for name in names
        }

    @classmethod
    def metadata(cls, topics: Any) -> ConsumerProtocolMemberMetadata:
        return ConsumerProtocolMemberMetadata(0, list(topics), b"mine")

    @classmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment, *generation: int) -> None:
        cls.heard.append(assignment.user_data)


@pytest.mark.asyncio
@pytest.mark.parametrize("as_object", [False, True], ids=["class", "object"])
async def test_an_assignor_of_ones_own_on_aiokafka(
    cluster: Cluster, make_topic: Any, group_id: str, as_object: bool
) -> None:
    topic = make_topic(partitions=3)
    Last.heard = []
    strategy: Any = Last() if as_object else Last
    settings: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": group_id}
    settings["partition_assignment_strategy"] = [strategy]
    async with asyncio.timeout(WITHIN_S):
        async with AIOKafkaConsumer(topic, **settings) as consumer:
            assert {tp.partition for tp in consumer.assignment()} == {0, 1, 2}
    assert Last.heard
    assert set(Last.heard) == {b"for you"}


@pytest.mark.parametrize("as_object", [False, True], ids=["class", "object"])
def test_an_assignor_of_ones_own_on_kafka_python(
    cluster: Cluster, make_topic: Any, group_id: str, as_object: bool
) -> None:
    topic = make_topic(partitions=3)
    fill(cluster, topic, 1)
    Last.heard = []
    strategy: Any = Last() if as_object else Last
    with KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=group_id,
        partition_assignment_strategy=[strategy],
        auto_offset_reset="earliest",
        consumer_timeout_ms=WITHIN_S * 1000,
    ) as consumer:
        next(consumer)
        assert {tp.partition for tp in consumer.assignment()} == {0, 1, 2}
    assert set(Last.heard) == {b"for you"}
