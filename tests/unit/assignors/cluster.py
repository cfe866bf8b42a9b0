"""A cluster that a test describes in one line, and partitions written as in the lists: ``t0p1``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyconsumer.assignors import Assignment, Assignor, Subscription
from pyconsumer.structs import BrokerMetadata, PartitionMetadata, TopicPartition


class FakeCluster:
    """Topics with their partition counts, or with the racks of each partition's replicas, the leader first."""

    def __init__(self, topics: Mapping[str, int | Sequence[Sequence[str | None]]]) -> None:
        self._topics: dict[str, list[PartitionMetadata]] = {}
        self._brokers: dict[int, BrokerMetadata] = {}
        nodes: dict[str | None, int] = {}
        for topic, partitions in topics.items():
            racks = [()] * partitions if isinstance(partitions, int) else partitions
            self._topics[topic] = []
            for number, replica_racks in enumerate(racks):
                replicas = tuple(nodes.setdefault(rack, len(nodes)) for rack in replica_racks)
                leader = replicas[0] if replicas else 0
                self._topics[topic].append(PartitionMetadata(topic, number, leader, 0, replicas))
        for rack, node in nodes.items():
            self._brokers[node] = BrokerMetadata(node, "h", 9092, rack)

    def partitions_for(self, topic: str) -> list[PartitionMetadata] | None:
        return self._topics.get(topic)

    def broker(self, node_id: int) -> BrokerMetadata | None:
        return self._brokers.get(node_id)


def parse(text: str) -> list[TopicPartition]:
    """``"t0p0 t1p2"`` as partitions."""
    return [TopicPartition(word.rpartition("p")[0], int(word.rpartition("p")[2])) for word in text.split()]


def show(assignments: Mapping[str, Assignment]) -> dict[str, str]:
    """Assignments as the lists write them."""
    return {m: " ".join(f"{tp.topic}p{tp.partition}" for tp in a.partitions) for m, a in assignments.items()}


def run(assignor: Assignor, members: Mapping[str, str], counts: Mapping[str, int]) -> dict[str, str]:
    """Assign: members are ``{"C0": "t0 t1"}``, topics ``{"t0": 3}``."""
    subscriptions = {m: Subscription(tuple(topics.split())) for m, topics in members.items()}
    return show(assignor.assign(FakeCluster(counts), subscriptions))
