"""The assignment of a consumer that subscribes without a group."""

from __future__ import annotations

import re
from typing import Any

from pyconsumer.consumer.all_partitions import AllPartitions
from pyconsumer.consumer.context import ConsumerContext
from pyconsumer.consumer.subscription_state import SubscriptionState
from pyconsumer.network.metadata import Metadata
from pyconsumer.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pyconsumer.structs import TopicPartition


def _answer(metadata: Metadata, now: float, *topics: str) -> None:
    found = [
        MetadataResponseTopic(name=name, partitions=[MetadataResponsePartition(partition_index=0, leader_id=1)])
        for name in topics
    ]
    brokers = [MetadataResponseBroker(node_id=1, host="h", port=1)]
    metadata.update(MetadataResponse(brokers=brokers, topics=found), 12, now)


def test_a_pattern_has_no_work_until_metadata_of_all_topics_has_come() -> None:
    metadata, subscriptions = Metadata(), SubscriptionState()
    client: Any = None
    config: Any = None
    clock: Any = None
    everything = AllPartitions(ConsumerContext(config, client, metadata, subscriptions, clock))
    _answer(metadata, 1.0)
    subscriptions.subscribe_pattern(re.compile("a.*"))
    metadata.set_all_topics()
    everything.on_subscription_change()
    assert not everything.is_due
    assert not everything.is_complete
    _answer(metadata, 2.0, "b")
    assert everything.is_due
    list(everything.poll())
    assert not everything.is_due
    assert everything.is_complete
    assert subscriptions.assignment() == set()
    _answer(metadata, 3.0, "a1", "b")
    assert everything.is_due
    list(everything.poll())
    assert subscriptions.assignment() == {TopicPartition("a1", 0)}
