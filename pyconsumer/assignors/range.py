"""The range assignor, the default: topic by topic, each member gets consecutive partitions.

Members are in order. With P partitions and M members of a topic, the first ``P % M`` get one more than ``P // M``.
So topics with equal partition counts and subscribers are *co-partitioned*: one member has the same numbers of each.
The surplus of every topic goes to the same first members.

Racks (KIP-881). If members have racks and not every partition has a replica in every rack, members first get partitions
with a replica in their own rack, up to their fair number. The rest is dealt as runs. Topics with equal partition counts
and subscribers are matched together, so that they stay co-partitioned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyconsumer.assignors.base import Assignment, Assignor, ClusterView, Subscription, sorted_members, subscribed_topics
from pyconsumer.structs import PartitionMetadata, TopicPartition

__all__ = ["RangeAssignor"]


class RangeAssignor(Assignor):
    """The ``RangeAssignor`` of Kafka 4.x in Java. It is the default."""

    @property
    def name(self) -> str:
        return "range"

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        shares: dict[str, list[TopicPartition]] = {member_id: [] for member_id in subscriptions}
        topics = [
            _Topic(topic, sorted_members(subscriptions, topic), partitions, subscriptions, cluster)
            for topic, partitions in subscribed_topics(cluster, subscriptions).items()
        ]
        rack_aware = any(topic.rack_aware for topic in topics)
        if rack_aware:
            _match_racks(topics, shares)
        for topic_ in topics:
            topic_.deal(shares, lambda member_id, partition: True)
        return {
            member_id: Assignment(tuple(sorted(share) if rack_aware else share)) for member_id, share in shares.items()
        }


class _Topic:
    """Topic while its partitions are being assigned."""

    def __init__(
        self,
        name: str,
        members: Sequence[str],
        partitions: Sequence[PartitionMetadata],
        subscriptions: Mapping[str, Subscription],
        cluster: ClusterView,
    ) -> None:
        self.name = name
        self.members = tuple(members)
        self.count = len(partitions)
        self._member_racks = {member_id: subscriptions[member_id].rack_id for member_id in members}
        self._share, self._extras_left = divmod(self.count, len(members))
        self._given = dict.fromkeys(members, 0)
        self._unassigned = dict.fromkeys(range(self.count))
        self._replica_racks: dict[int, set[str]] = {}
        racks = {rack for rack in self._member_racks.values() if rack}
        if racks:
            for metadata in partitions:
                brokers = (cluster.broker(node_id) for node_id in metadata.replicas)
                self._replica_racks[metadata.partition] = {b.rack for b in brokers if b is not None and b.rack}
        all_racks = set().union(*self._replica_racks.values()) if self._replica_racks else set()
        self.rack_aware = not racks.isdisjoint(all_racks) and any(
            replica_racks != all_racks for replica_racks in self._replica_racks.values()
        )

    @property
    def group(self) -> tuple[tuple[str, ...], tuple[str | None, ...], int]:
        """Key of co-partitioned topics: they have the same value."""
        return self.members, tuple(self._member_racks.values()), self.count

    def racks_match(self, member_id: str, partition: int) -> bool:
        rack = self._member_racks[member_id]
        return not rack or rack in self._replica_racks.get(partition, ())

    def room(self, member_id: str) -> int:
        """Return the number of partitions that the member may still get."""
        return max(0, self._share + (1 if self._extras_left > 0 else 0) - self._given[member_id])

    def give(self, member_id: str, partitions: Sequence[int], shares: dict[str, list[TopicPartition]]) -> None:
        if not partitions:
            return
        before = self._given[member_id]
        self._given[member_id] = before + len(partitions)
        if self._given[member_id] > self._share:
            self._extras_left -= 1
        for partition in partitions:
            del self._unassigned[partition]
        shares[member_id].extend(TopicPartition(self.name, partition) for partition in partitions)

    def deal(self, shares: dict[str, list[TopicPartition]], may_have: Callable[[str, int], bool]) -> None:
        for member_id in self.members:
            if not self._unassigned:
                return
            room = self.room(member_id)
            if room:
                self.give(member_id, [p for p in self._unassigned if may_have(member_id, p)][:room], shares)


def _match_racks(topics: Sequence[_Topic], shares: dict[str, list[TopicPartition]]) -> None:
    groups: dict[object, list[_Topic]] = {}
    for topic in topics:
        groups.setdefault(topic.group, []).append(topic)
    for group in groups.values():
        if len(group) > 1:
            _match_co_partitioned(group, shares)
        elif group[0].rack_aware:
            group[0].deal(shares, group[0].racks_match)


def _match_co_partitioned(topics: Sequence[_Topic], shares: dict[str, list[TopicPartition]]) -> None:
    """Give equal partition numbers of all the topics to the first member with room and with replicas in its rack."""
    remaining = list(topics[0].members)
    for partition in range(topics[0].count):
        for member_id in remaining:
            if all(topic.racks_match(member_id, partition) and topic.room(member_id) for topic in topics):
                for topic in topics:
                    topic.give(member_id, (partition,), shares)
                if not any(topic.room(member_id) for topic in topics):
                    remaining.remove(member_id)
                break
