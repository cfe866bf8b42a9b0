"""The round robin assignor: all partitions of all topics, dealt one by one to the members in turn.

Topics are in order of name, partitions of number. A member without a subscription to a topic is skipped and not
compensated. The turn carries over from topic to topic. So members with equal subscriptions differ by at most one
partition, members with different ones may differ a lot.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyconsumer.assignors.base import PartitionAssignor, Subscription, sorted_members
from pyconsumer.structs import TopicPartition

__all__ = ["RoundRobinAssignor"]


class RoundRobinAssignor(PartitionAssignor):
    """Java's ``RoundRobinAssignor``."""

    @property
    def name(self) -> str:
        return "roundrobin"

    def assign_partitions(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> dict[str, list[TopicPartition]]:
        shares: dict[str, list[TopicPartition]] = {member_id: [] for member_id in subscriptions}
        members = sorted_members(subscriptions)
        topics = {member_id: frozenset(subscriptions[member_id].topics) for member_id in members}
        turn = 0
        for topic in sorted(partitions_per_topic):
            for partition in range(partitions_per_topic[topic]):
                while topic not in topics[members[turn % len(members)]]:
                    turn += 1
                shares[members[turn % len(members)]].append(TopicPartition(topic, partition))
                turn += 1
        return shares
