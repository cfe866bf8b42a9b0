"""Assignors that do not balance by count: at random, by the leaders' racks, and every partition to every member."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Any

from pyconsumer.assignors.base import (
    Assignment,
    Assignor,
    ClusterView,
    PartitionAssignor,
    Subscription,
    sorted_members,
    subscribed_topics,
)
from pyconsumer.structs import TopicPartition

__all__ = ["BroadcastAssignor", "RackAwareAssignor", "RandomAssignor"]

Shares = dict[str, list[TopicPartition]]


class RandomAssignor(PartitionAssignor):
    """Gives each partition to a random subscriber of its topic. The shares may be uneven.

    Args:
        generator: source of random numbers. With a seed, as in ``random.Random(7)``, the result is the same in every
            run.
    """

    def __init__(self, generator: random.Random | None = None) -> None:
        self._generator = generator or random.Random()

    @property
    def name(self) -> str:
        return "random"

    def assign_partitions(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> Shares:
        shares: Shares = {member_id: [] for member_id in subscriptions}
        for topic, count in partitions_per_topic.items():
            members = sorted_members(subscriptions, topic)  # in an order that does not depend on who joined first
            for partition in self.partitions(topic, count):
                shares[self._generator.choice(members)].append(partition)
        return shares


class RackAwareAssignor(Assignor):
    """Gives each partition to a member in the rack of the partition's leader, if there is such a member.

    Members send their rack as user data. A :class:`PartitionAssignor` would ignore user data, so this class is not one.

    Args:
        rack: rack of this member, with the same names as the brokers' ``broker.rack``. By default the consumer's
            ``client_rack``.
    """

    def __init__(self, rack: str | None = None) -> None:
        self._rack = rack

    @property
    def name(self) -> str:
        return "rack-aware"

    def configure(self, config: Any, clock: object) -> None:
        self._rack = self._rack or config.client_rack

    def subscription_user_data(self, topics: frozenset[str]) -> bytes | None:
        return self._rack.encode() if self._rack else None

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        racks = {
            member_id: (each.user_data or b"").decode(errors="replace") for member_id, each in subscriptions.items()
        }
        shares: Shares = {member_id: [] for member_id in subscriptions}
        elsewhere = []
        for topic, partitions in subscribed_topics(cluster, subscriptions).items():
            members = sorted_members(subscriptions, topic)
            for metadata in partitions:
                leader = cluster.broker(metadata.leader)
                rack = leader.rack if leader is not None else None
                near = [member_id for member_id in members if rack and racks[member_id] == rack]
                partition = TopicPartition(topic, metadata.partition)
                if near:
                    self._give(partition, near, shares)
                else:
                    elsewhere.append((partition, members))
        for partition, members in elsewhere:  # last, so that they even out what the racks left uneven
            self._give(partition, members, shares)
        return {member_id: Assignment(tuple(share)) for member_id, share in shares.items()}

    @staticmethod
    def _give(partition: TopicPartition, members: Collection[str], shares: Shares) -> None:
        shares[min(members, key=lambda member_id: len(shares[member_id]))].append(partition)


class BroadcastAssignor(PartitionAssignor):
    """Gives every member all partitions of the topics to which it is subscribed.

    Commits of such a group are useless, because its members overwrite each other's offsets. Each member must store its
    own positions, and seek to them when it is assigned partitions. See ``examples/custom_assignors.py``.
    """

    @property
    def name(self) -> str:
        return "broadcast"

    def assign_partitions(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> Shares:
        shares: Shares = {}
        for member_id, subscription in subscriptions.items():
            for topic in subscription.topics:
                for partition in self.partitions(topic, partitions_per_topic.get(topic, 0)):
                    self.put(shares, member_id, partition)
        return shares
