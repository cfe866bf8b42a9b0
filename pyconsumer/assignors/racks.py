"""Which members are in the same rack as a partition's replicas (KIP-881), over all topics of a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pyconsumer.assignors.base import ClusterView, Subscription
from pyconsumer.structs import PartitionMetadata, TopicPartition

__all__ = ["Racks"]


class Racks:
    """Racks of members and replicas; ``aware`` says whether they make a difference at all.

    They do where some member is in a rack with replicas, and not every partition has replicas in the same racks.
    """

    def __init__(
        self,
        cluster: ClusterView,
        topics: Mapping[str, Sequence[PartitionMetadata]],
        subscriptions: Mapping[str, Subscription],
    ) -> None:
        members = {member_id: s.rack_id for member_id, s in subscriptions.items() if s.rack_id}
        replicas: dict[TopicPartition, frozenset[str]] = {}
        if members:
            for topic, partitions in topics.items():
                for metadata in partitions:
                    brokers = (cluster.broker(node_id) for node_id in metadata.replicas)
                    racks = frozenset(b.rack for b in brokers if b is not None and b.rack is not None)
                    replicas[TopicPartition(topic, metadata.partition)] = racks
        everywhere = frozenset().union(*replicas.values())
        self.aware = not everywhere.isdisjoint(members.values()) and any(r != everywhere for r in replicas.values())
        self._members: Mapping[str, str] = members if self.aware else {}
        self._replicas = replicas
        self._in_rack = Counter(members.values())

    def mismatch(self, member_id: str, partition: TopicPartition) -> bool:
        """Return whether the member named a rack without a replica of the partition."""
        rack = self._members.get(member_id)
        return rack is not None and rack not in self._replicas.get(partition, ())

    def match(self, member_id: str, partition: TopicPartition) -> bool:
        """Return whether the member named a rack that has a replica of the partition."""
        return self._members.get(member_id) in self._replicas.get(partition, ())

    def members_nearby(self, partition: TopicPartition) -> int:
        """Return how many members are in a rack with a replica."""
        return sum(self._in_rack[rack] for rack in self._replicas.get(partition, ()))
