"""``aiokafka.cluster``, a view of a client's metadata, and the names of the network clients."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import pyconsumer.compat.aiokafka as ours
from pyconsumer.compat.aiokafka.cluster import ClusterMetadata
from pyconsumer.compat.aiokafka.structs import TopicPartition
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pyconsumer.structs import Address

_BROKERS = [(1, "one", 9092, None), (2, "two", 9093, "rack")]
#: Topic, whether it is Kafka's own, and partitions with their leaders.
_TOPICS = [("orders", False, {0: 1, 1: 2, 2: -1}), ("__consumer_offsets", True, {0: 1})]


def _our_view() -> ClusterMetadata:
    metadata = Metadata(bootstrap=[Address("one", 9092)], exclude_internal_topics=False)
    metadata.set_all_topics()
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(*each) for each in _BROKERS],
        controller_id=2,
        topics=[
            MetadataResponseTopic(
                name=name,
                is_internal=internal,
                partitions=[
                    MetadataResponsePartition(partition_index=number, leader_id=leader)
                    for number, leader in leaders.items()
                ],
            )
            for name, internal, leaders in _TOPICS
        ],
    )
    metadata.update(response, 5, 0.0)
    return ClusterMetadata(metadata)


def _their_view() -> Any:
    pytest.importorskip("aiokafka", reason="needs aiokafka, which pyconsumer[peers] installs")
    response = importlib.import_module("aiokafka.protocol.metadata").MetadataResponse_v5(
        0,
        _BROKERS,
        "cluster",
        2,
        [
            (0, name, internal, [(0, number, leader, [], [], []) for number, leader in leaders.items()])
            for name, internal, leaders in _TOPICS
        ],
    )
    made = importlib.import_module("aiokafka.cluster").ClusterMetadata()
    made.update_metadata(response)
    return made


def _seen(view: Any) -> dict[str, Any]:
    return {
        "brokers": {tuple(each)[:4] for each in view.brokers()},
        "ids": {each.nodeId for each in view.brokers()},
        "broker": tuple(view.broker_metadata(2))[:4],
        "no broker": view.broker_metadata(9),
        "bootstrap": view.is_bootstrap(1),
        "controller": tuple(view.controller)[:4],
        "topics": [view.topics(), view.topics(exclude_internal_topics=False), view.internal_topics],
        "partitions": [view.partitions_for_topic("orders"), view.partitions_for_topic("absent")],
        "available": [view.available_partitions_for_topic("orders"), view.available_partitions_for_topic("absent")],
        "leaders": [view.leader_for_partition(TopicPartition("orders", number)) for number in range(4)],
        "no leader": view.leader_for_partition(TopicPartition("absent", 0)),
        "led": {tuple(each) for each in view.partitions_for_broker(1)},
        "leads nothing": view.partitions_for_broker(9),
        "text": str(view),
    }


def test_the_view_equals_aiokafkas_metadata() -> None:
    assert _seen(_our_view()) == _seen(_their_view())


def test_before_the_first_response_there_are_the_bootstrap_addresses() -> None:
    view = ClusterMetadata(Metadata(bootstrap=[Address("one", 9092)]))
    [only] = view.brokers()
    assert (only.host, only.port, only.nodeId < 0, view.is_bootstrap(only.nodeId)) == ("one", 9092, True, True)
    assert view.controller is None
    assert view.partitions_for_topic("orders") is None


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("aiokafka", "AIOKafkaClient"),
        ("aiokafka.client", "AIOKafkaClient"),
        ("aiokafka.conn", "AIOKafkaConnection"),
        ("kafka", "KafkaClient"),
        ("kafka.client_async", "KafkaClient"),
        ("kafka.conn", "BrokerConnection"),
    ],
)
def test_names_for_annotations_cannot_be_called(module: str, name: str) -> None:
    kind = getattr(importlib.import_module(f"pyconsumer.compat.{module}"), name)
    assert not isinstance(ours, kind)
    with pytest.raises(TypeError, match="here"):
        kind(bootstrap_servers="localhost")
