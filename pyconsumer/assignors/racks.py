"""Racks of members and of replicas (KIP-881): which member is near which partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pyconsumer.assignors.base import ClusterView, Subscription
from pyconsumer.structs import PartitionMetadata, TopicPartition

__all__ = ["Racks"]


class Racks:
    """The racks of members and of replicas. ``aware`` is True if they affect the result.

    They affect it if a member is in a rack that has replicas, and the partitions differ in the racks of their replicas.
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
        """Return whether the member has a rack, and the partition has no replica in that rack."""
        rack = self._members.get(member_id)
        return rack is not None and rack not in self._replicas.get(partition, ())

    def match(self, member_id: str, partition: TopicPartition) -> bool:
        """Return whether the member has a rack, and the partition has a replica in that rack."""
        return self._members.get(member_id) in self._replicas.get(partition, ())

    def members_nearby(self, partition: TopicPartition) -> int:
        """Return how many members are in a rack that has a replica of the partition."""
        return sum(self._in_rack[rack] for rack in self._replicas.get(partition, ()))
