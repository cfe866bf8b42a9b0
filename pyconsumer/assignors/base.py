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
    """The treatment of members' partitions when a rebalance begins (KIP-429).

    ``EAGER``: a member gives up all its partitions before it joins. ``COOPERATIVE``: a member keeps its partitions, and
        gives up only those that the new assignment took away. A partition then needs two rebalances to move.
    """

    EAGER = 0
    COOPERATIVE = 1


@dataclass(frozen=True, slots=True)
class Subscription:
    """The subscription that a member sent when it joined.

    Attributes:
        topics: names of the topics to which the member is subscribed.
        user_data: bytes of the assignor itself. None if the member sent no such data.
        owned_partitions: the member's partitions before this rebalance. Empty with ``EAGER``, and for members older
            than Kafka 2.4.
        generation_id: the generation in which the member owned these partitions, -1 if unknown (KIP-792).
        rack_id: the member's ``client_rack`` (KIP-881).
        group_instance_id: the id of a static member (KIP-345).
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    rack_id: str | None = None
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions of one member, and user data that the assignor sends to the member."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


class ClusterView(Protocol):
    """The part of the cluster's metadata that assignors may use."""

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
    """A rule that divides partitions among the members of a group. Java: ``ConsumerPartitionAssignor``.

    Subclass this if your rule uses the members' user data, their racks, or the cluster's layout. If the number of
    partitions is enough, subclass :class:`PartitionAssignor`, which is simpler. An assignor object belongs to one
    consumer.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which members vote for this assignor.

        It must differ from Kafka's own names (range, roundrobin, sticky, ...).

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
            subscriptions: the members' subscriptions, by member id.

        Returns:
            An assignment for every member id in ``subscriptions``.

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
        """Return the rebalance protocols that the assignor supports. All configured assignors must have one in common.

        Example::

            def supported_protocols(self):
                return (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)
        """
        return (RebalanceProtocol.EAGER,)

    def subscription_user_data(self, topics: frozenset[str]) -> bytes | None:
        """Return the user data to send when the member joins, or None. Called once for each join.

        Example::

            def subscription_user_data(self, topics):
                return b"weight=2"
        """
        return None

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:  # noqa: B027
        """Receive the new assignment. Called for every member, before its rebalance listener.

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
        """Return the seconds from now until this member requests a rebalance by itself. Infinity for never.

        Called after each :meth:`on_assignment`. The latest result is used. If a rebalance happens before that time, the
        result is dropped.

        Example::

            def rebalance_due_in(self):
                return 60.0  # balance again in a minute
        """
        return math.inf

    def on_voted_out(self) -> None:  # noqa: B027
        """Note that the members have chosen another assignor. Called instead of :meth:`on_assignment`.

        Example::

            def on_voted_out(self):
                self.generation_id = None
        """

    def announce_leaving(self, leaves: bool) -> bool:
        """Note that the member is about to leave permanently (True), or that it will stay after all (False).

        Returns:
            True if the leader must be informed. By then the member has revoked its partitions. It joins once more
            before it leaves, and :meth:`subscription_user_data` returns the message for the leader.

        Example::

            def announce_leaving(self, leaves):
                self.leaves = leaves  # for subscription_user_data
                return leaves
        """
        return False


class PartitionAssignor(Assignor):
    """Base class of assignors that need only the number of partitions. Java: ``AbstractPartitionAssignor``."""

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        topics = subscribed_topics(cluster, subscriptions)
        counts = {topic: len(partitions) for topic, partitions in topics.items()}
        shares = self.assign_partitions(counts, subscriptions)
        return {member_id: Assignment(tuple(shares.get(member_id, ()))) for member_id in subscriptions}

    @abstractmethod
    def assign_partitions(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> Mapping[str, Sequence[TopicPartition]]:
        """Divide partitions. ``partitions_per_topic`` has the number of partitions of each topic.

        Its topics are in order, and unknown or empty topics are left out.

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
        """Return all partitions of a topic that has ``count`` partitions, in order.

        Example::

            PartitionAssignor.partitions("orders", 2)  # those with the numbers 0 and 1
        """
        return [TopicPartition(topic, number) for number in range(count)]

    @staticmethod
    def put(shares: MutableMapping[str, list[TopicPartition]], member_id: str, partition: TopicPartition) -> None:
        """Append a partition to a member's share. If the member has no share yet, create it.

        Example::

            shares = {}
            PartitionAssignor.put(shares, "member-1", TopicPartition("orders", 0))
        """
        shares.setdefault(member_id, []).append(partition)


def subscribed_topics(
    cluster: ClusterView, subscriptions: Mapping[str, Subscription]
) -> dict[str, Sequence[PartitionMetadata]]:
    """Return the partitions of all subscribed topics.

    The topics are in order, and unknown or empty topics are left out.

    Example::

        for topic, partitions in subscribed_topics(cluster, subscriptions).items():
            print(topic, len(partitions))
    """
    names = {topic for subscription in subscriptions.values() for topic in subscription.topics}
    known = ((topic, cluster.partitions_for(topic)) for topic in sorted(names))
    return {topic: partitions for topic, partitions in known if partitions}


def member_order(text: str) -> bytes:
    """Return a key for sorting strings as Java does: by UTF-16 units, and not by code points."""
    return text.encode("utf-16-be", "surrogatepass")


def sorted_members(subscriptions: Mapping[str, Subscription], topic: str | None = None) -> list[str]:
    """Return the member ids in the order of assignment.

    Static members come first, by instance id, then the others by member id.

    Args:
        topic: return only members that are subscribed to this topic.

    Example::

        sorted_members({"b": Subscription(("orders",)), "a": Subscription(("orders",))})  # ["a", "b"]
    """

    def key(member_id: str) -> tuple[bool, bytes]:
        instance_id = subscriptions[member_id].group_instance_id
        return instance_id is None, member_order(member_id if instance_id is None else instance_id)

    return sorted((m for m, s in subscriptions.items() if topic is None or topic in s.topics), key=key)
