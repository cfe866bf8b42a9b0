"""The base of all assignors: the rules by which a group's leader divides partitions among the members.

Here: their arguments and results, their base classes, and the order of members and topics that all of them share. Not
here: bytes on the wire (``protocol.consumer_protocol``), and the calls of an assignor (``consumer.coordinator``).

Rules for every assignor:

1. The result has an entry for each member of the input, an empty one included.
2. A topic without known partitions is left out. That is no error.
3. The same input gives the same result: iterate in the order that :func:`sorted_members` and sorted topics give.
4. ``assign`` runs on the leader only, ``on_assignment`` on every member, both in the thread that calls ``poll``.
"""

from __future__ import annotations

import enum
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyconsumer.clock import Clock
from pyconsumer.settings.config import Config
from pyconsumer.structs import BrokerMetadata, ConsumerGroupMetadata, PartitionMetadata, TopicPartition

__all__ = [
    "Assignment",
    "Assignor",
    "ClusterView",
    "PartitionAssignor",
    "RebalanceProtocol",
    "Subscription",
    "member_order",
    "sorted_members",
    "subscribed_topics",
]


class RebalanceProtocol(enum.IntEnum):
    """The treatment of a member's partitions when a rebalance begins (KIP-429).

    ``EAGER``: it gives up all of them before it joins. ``COOPERATIVE``: it keeps them, and gives up only the partitions
    that the new assignment took away. A partition then needs two rebalances to move.
    """

    EAGER = 0
    COOPERATIVE = 1


@dataclass(frozen=True, slots=True)
class Subscription:
    """Subscription that a member sent when it joined.

    Attributes:
        topics: names that it subscribed to.
        user_data: bytes of the assignor's own, None if it sent none.
        owned_partitions: its partitions before this rebalance. Empty under ``EAGER`` and from members before Kafka 2.4.
        generation_id: the generation in which it owned them, -1 if unknown (KIP-792).
        rack_id: its ``client_rack`` (KIP-881).
        group_instance_id: its static identity (KIP-345).
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    rack_id: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """Partitions of one member, and user data that the assignor sends to it."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


class ClusterView(Protocol):
    """The part of the cluster's metadata that an assignor may use."""

    def partitions_for(self, topic: str) -> Sequence[PartitionMetadata] | None:
        """Return the partitions of a topic, or None if the topic is unknown.

        Example::

            leaders = [partition.leader for partition in cluster.partitions_for("orders") or ()]
        """

    def broker(self, node_id: int) -> BrokerMetadata | None:
        """Return a broker's address and rack, or None if the broker is unknown.

        Example::

            broker = cluster.broker(1)
            rack = broker.rack if broker is not None else None
        """


class Assignor(ABC):
    """Rule that divides partitions among members. Java's ``ConsumerPartitionAssignor``.

    Subclass this to use the members' user data, the racks or the cluster's layout. If the number of partitions is
    enough, subclass :class:`PartitionAssignor`, which is simpler. An object belongs to one consumer.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Name on the wire, by which members vote. It must differ from Kafka's own (range, roundrobin, sticky, ...).

        Example::

            @property
            def name(self) -> str:
                return "by-rack"
        """

    @abstractmethod
    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> Mapping[str, Assignment]:
        """Divide the partitions of all subscribed topics.

        Args:
            cluster: partitions, leaders and racks.
            subscriptions: by member id.

        Returns:
            A share for every member id of ``subscriptions``.

        Example::

            def assign(self, cluster, subscriptions):
                shares = {member_id: [] for member_id in subscriptions}
                for topic, partitions in subscribed_topics(cluster, subscriptions).items():
                    subscribed = sorted_members(subscriptions, topic)
                    smallest = min(subscribed, key=lambda member_id: len(shares[member_id]))
                    shares[smallest] += [TopicPartition(topic, number) for number in range(len(partitions))]
                return {member_id: Assignment(tuple(share)) for member_id, share in shares.items()}
        """

    def supported_protocols(self) -> tuple[RebalanceProtocol, ...]:
        """Return the rebalance protocols that it supports. All configured assignors must have one in common.

        Example::

            def supported_protocols(self):
                return (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)
        """
        return (RebalanceProtocol.EAGER,)

    def subscription_user_data(self, topics: frozenset[str]) -> bytes | None:
        """Return user data to send when the member joins, or None. Called once for each join.

        Example::

            def subscription_user_data(self, topics):
                return b"weight=2"
        """
        return None

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:  # noqa: B027
        """Receive the new assignment. Called on every member, before the rebalance listener.

        Example::

            def on_assignment(self, assignment, metadata):
                self.generation_id = metadata.generation_id
        """

    # -- what few assignors need -------------------------------------------------------------------------------------

    def configure(self, config: Config, clock: Clock) -> None:  # noqa: B027
        """Receive the consumer's settings and clock. Called once, before any other method. Java's ``Configurable``.

        Example::

            def configure(self, config, clock):
                self.rack = config.client_rack
        """

    def rebalance_due_in(self) -> float:
        """Return the seconds from now until the member requests a rebalance by itself. Infinity for never.

        Called after each :meth:`on_assignment`. The latest result counts, unless a rebalance happens before.

        Example::

            def rebalance_due_in(self):
                return 60.0  # balance again in a minute
        """
        return math.inf

    def on_voted_out(self) -> None:  # noqa: B027
        """Learn that the members chose another assignor. Called instead of :meth:`on_assignment`.

        Example::

            def on_voted_out(self):
                self.generation_id = None
        """

    def announce_leaving(self, leaves: bool) -> bool:
        """Learn that the member is about to leave permanently (True), or that it no longer is (False).

        Returns:
            True if the leader must be informed. The member, which has revoked its partitions, then joins once more
            before it leaves, and :meth:`subscription_user_data` returns the message to the leader.

        Example::

            def announce_leaving(self, leaves):
                self.leaves = leaves  # for subscription_user_data
                return leaves
        """
        return False


class PartitionAssignor(Assignor):
    """Base class of assignors that need only the number of partitions. Java's ``AbstractPartitionAssignor``."""

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        topics = subscribed_topics(cluster, subscriptions)
        counts = {topic: len(partitions) for topic, partitions in topics.items()}
        shares = self.assign_partitions(counts, subscriptions)
        return {member_id: Assignment(tuple(shares.get(member_id, ()))) for member_id in subscriptions}

    @abstractmethod
    def assign_partitions(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> Mapping[str, Sequence[TopicPartition]]:
        """Divide partitions, given their number in each topic (topics in order, without unknown and empty ones).

        Example::

            def assign_partitions(self, counts, subscriptions):
                shares = {}
                for topic, count in counts.items():
                    members = sorted_members(subscriptions, topic)
                    for number, partition in enumerate(self.partitions(topic, count)):
                        self.put(shares, members[number % len(members)], partition)
                return shares
        """

    @staticmethod
    def partitions(topic: str, count: int) -> list[TopicPartition]:
        """Return the partitions of a topic with ``count`` of them, in order.

        Example::

            PartitionAssignor.partitions("orders", 2)  # those with the numbers 0 and 1
        """
        return [TopicPartition(topic, number) for number in range(count)]

    @staticmethod
    def put(shares: MutableMapping[str, list[TopicPartition]], member_id: str, partition: TopicPartition) -> None:
        """Append a partition to a member's share. Create the share if it is missing.

        Example::

            shares = {}
            PartitionAssignor.put(shares, "member-1", TopicPartition("orders", 0))
        """
        shares.setdefault(member_id, []).append(partition)


def subscribed_topics(
    cluster: ClusterView, subscriptions: Mapping[str, Subscription]
) -> dict[str, Sequence[PartitionMetadata]]:
    """Return the partitions of all subscribed topics. Topics are in order, without unknown and empty ones.

    Example::

        for topic, partitions in subscribed_topics(cluster, subscriptions).items():
            print(topic, len(partitions))
    """
    names = {topic for subscription in subscriptions.values() for topic in subscription.topics}
    known = ((topic, cluster.partitions_for(topic)) for topic in sorted(names))
    return {topic: partitions for topic, partitions in known if partitions}


def member_order(text: str) -> bytes:
    """Return a sort key that orders strings as Java does: by UTF-16 units, not by code points."""
    return text.encode("utf-16-be", "surrogatepass")


def sorted_members(subscriptions: Mapping[str, Subscription], topic: str | None = None) -> list[str]:
    """Return member ids in the order of assignment: static members by instance id, then others by member id.

    Args:
        topic: return only members that are subscribed to it.

    Example::

        sorted_members({"b": Subscription(("orders",)), "a": Subscription(("orders",))})  # ["a", "b"]
    """

    def key(member_id: str) -> tuple[bool, bytes]:
        instance_id = subscriptions[member_id].group_instance_id
        return instance_id is None, member_order(member_id if instance_id is None else instance_id)

    return sorted((m for m, s in subscriptions.items() if topic is None or topic in s.topics), key=key)
