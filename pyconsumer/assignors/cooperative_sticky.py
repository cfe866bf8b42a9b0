"""The cooperative sticky assignor: even shares, few moves, and members keep consuming during a rebalance.

Members keep their partitions while they join (KIP-429) and report them with their generation. The result is as
even as subscriptions allow and, within that, close to the one before. A partition that moves is in no share at
first: its owner gives it up and thereby starts a second rebalance, in which the partition is free.

Racks (KIP-881): where they make a difference, members get and keep partitions with a replica in their rack first, as
long as the counts stay even.

Results are those of Java 4.3.1, with sorted member ids where Java follows the order of a hash map. Three faults of Java
are mended. An owned partition beyond the end of its topic is ignored. A member (a former owner, a member without
topics) gets partitions of its own subscription only. Generations in user data (Kafka 2.4 to 3.1) count for both sides
of a double claim.

One gap in Java is closed. The member that gave up partitions requests the second rebalance, but a static member
(KIP-345) may end before it does so. Its next process receives the same assignment without a rebalance and owns no
partitions to give up, so those partitions would stay without an owner until the next rebalance. Therefore the user data
of a static member's assignment says that it has to give something up. Other clients ignore it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Mapping, Sequence

from pyconsumer.assignors.balance import Balancer
from pyconsumer.assignors.base import (
    Assignment,
    Assignor,
    ClusterView,
    RebalanceProtocol,
    Subscription,
    member_order,
    subscribed_topics,
)
from pyconsumer.assignors.equal_subscriptions import EqualSubscriptions
from pyconsumer.assignors.racks import Racks
from pyconsumer.structs import ConsumerGroupMetadata, PartitionMetadata, TopicPartition

__all__ = ["Claims", "CooperativeStickyAssignor", "changing_hands", "even_shares", "gives_up"]

_GENERATION = struct.Struct(">i")
_NONE = -1  # "no generation"
_REJOIN = b"rejoin"  # in an assignment: whichever process has it by now is to ask for a rebalance


class CooperativeStickyAssignor(Assignor):
    """The ``CooperativeStickyAssignor`` of Kafka 4.x in Java. It can also be used with eager rebalancing.

    An eager group changes to this assignor in two rolling restarts: first with this *and* the old assignor, then with
    this one alone.
    """

    def __init__(self) -> None:
        self._generation = _NONE
        self._rejoins = False

    @property
    def name(self) -> str:
        return "cooperative-sticky"

    def supported_protocols(self) -> tuple[RebalanceProtocol, ...]:
        return (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def subscription_user_data(self, topics: frozenset[str]) -> bytes:
        """Return the generation of the last assignment as an int32. Members before Kafka 3.2 read it here."""
        return _GENERATION.pack(self._generation)

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        self._generation = metadata.generation_id
        self._rejoins = assignment.user_data == _REJOIN

    def on_voted_out(self) -> None:
        self._rejoins = False

    def rebalance_due_in(self) -> float:
        """Return 0 if this static member must give a partition up, which it may have got in an earlier process.

        See the module.
        """
        return 0.0 if self._rejoins else math.inf

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        topics = subscribed_topics(cluster, subscriptions)
        members = {member: subscriptions[member] for member in sorted(subscriptions, key=member_order)}
        if not members:
            return {}
        shares, withheld = even_shares(cluster, topics, members)
        return {
            member: _assignment(subscription, tuple(p for p in shares[member] if p not in withheld))
            for member, subscription in subscriptions.items()
        }


def _assignment(subscription: Subscription, given: tuple[TopicPartition, ...]) -> Assignment:
    rejoins = subscription.group_instance_id is not None and gives_up(subscription, given)
    return Assignment(given, _REJOIN if rejoins else None)


def gives_up(subscription: Subscription, given: Collection[TopicPartition]) -> bool:
    """Return whether a member owns a partition that is not in its new share. It must then join again."""
    return not set(subscription.owned_partitions).issubset(given)


def even_shares(
    cluster: ClusterView, topics: Mapping[str, Sequence[PartitionMetadata]], members: Mapping[str, Subscription]
) -> tuple[dict[str, list[TopicPartition]], Collection[TopicPartition]]:
    """Return the final shares of the members: as even as possible, with few moves.

    Args:
        cluster: the metadata of the cluster, for the racks of brokers.
        topics: all topics to which any member is subscribed.
        members: the members, at least one, in the order of :func:`member_order`.

    Returns:
        The shares, and the partitions in them that another member must give up first.
    """
    claims = Claims(members, topics)
    racks = Racks(cluster, topics, members)
    if len({frozenset(subscription.topics) for subscription in members.values()}) > 1:
        shares = _assign_unequal(topics, members, claims, racks)
        return shares, changing_hands(members, shares)
    everything = [TopicPartition(topic, p) for topic in topics for p in range(len(topics[topic]))]
    equal = EqualSubscriptions(everything, claims.owned, claims.contested, racks)
    return equal.shares, equal.changing_hands.keys()


class Claims:
    """The partitions that members claim to own. Each partition is counted for at most one member.

    Attributes:
        owned: for each member, the partitions of known topics that it still owns.
        contested: partitions that several members claimed in the same generation.
        former: the owners in earlier generations, by partition.
    """

    def __init__(self, members: Mapping[str, Subscription], topics: Mapping[str, Collection[object]]) -> None:
        self.owned: dict[str, list[TopicPartition]] = {member: [] for member in members}
        self.contested: set[TopicPartition] = set()
        self.former: dict[TopicPartition, str] = {}
        generations = {member: _generation(subscription) for member, subscription in members.items()}
        owners: dict[TopicPartition, str] = {}
        for member, subscription in members.items():
            for partition in subscription.owned_partitions:
                if 0 <= partition.partition < len(topics.get(partition.topic, ())):
                    self._claim(member, partition, owners, generations)
        self._note_former(members, generations)

    def _claim(
        self,
        member: str,
        partition: TopicPartition,
        owners: dict[TopicPartition, str],
        generations: Mapping[str, int],
    ) -> None:
        other = owners.get(partition)
        if other is not None:
            if generations[member] < generations[other]:
                return
            if partition in self.owned[other]:
                self.owned[other].remove(partition)
        owners[partition] = member
        if other is not None and generations[member] == generations[other]:
            self.contested.add(partition)
        else:
            self.owned[member].append(partition)

    def _note_former(self, members: Mapping[str, Subscription], generations: Mapping[str, int]) -> None:
        newest = max(generations.values())
        for member, subscription in members.items():
            if generations[member] < newest:
                for partition in subscription.owned_partitions:
                    other = self.former.get(partition)
                    if partition.topic in subscription.topics and (
                        other is None or generations[member] > generations[other]
                    ):
                        self.former[partition] = member


def _generation(subscription: Subscription) -> int:
    if subscription.generation_id >= 0:
        return subscription.generation_id
    data = subscription.user_data
    if data is None or len(data) < _GENERATION.size:
        return _NONE
    generation: int = _GENERATION.unpack_from(data)[0]
    return max(generation, _NONE)


def _assign_unequal(
    topics: Mapping[str, Sequence[PartitionMetadata]],
    members: Mapping[str, Subscription],
    claims: Claims,
    racks: Racks,
) -> dict[str, list[TopicPartition]]:
    """Divide among members with different subscriptions: keep the allowed partitions, deal the rest, then balance."""
    shares: dict[str, list[TopicPartition]] = {}
    lost_some = False
    for member, owned in claims.owned.items():
        wanted = members[member].topics
        shares[member] = [p for p in owned if p.topic in wanted and not racks.mismatch(member, p)]
        lost_some = lost_some or len(shares[member]) < len(owned)
    balancer = Balancer(
        shares,
        {
            member: {topic for topic in subscription.topics if topic in topics}
            for member, subscription in members.items()
        },
        {topic: len(partitions) for topic, partitions in topics.items()},
        tolerance=1,
    )
    in_order = sorted(topics, key=lambda topic: (balancer.subscribers(topic), topic))
    everything = [TopicPartition(topic, p) for topic in in_order for p in range(len(topics[topic]))]
    unassigned = [partition for partition in everything if partition not in balancer.owner]
    initial = balancer.nothing_dealt
    left = unassigned
    if racks.aware:
        left = balancer.deal(left, lambda member, partition: not racks.mismatch(member, partition))
    balancer.deal(left)
    # what a member had to give up makes a gap that only other old partitions may fill
    balancer.balance(everything, first=() if lost_some else unassigned, former=claims.former, initial=initial)
    return shares


def changing_hands(
    members: Mapping[str, Subscription], shares: Mapping[str, Sequence[TopicPartition]]
) -> set[TopicPartition]:
    """Return the partitions that are new to their member and that another member still owns."""
    added: set[TopicPartition] = set()
    revoked: set[TopicPartition] = set()
    for member, share in shares.items():
        added.update(set(share).difference(members[member].owned_partitions))
        revoked.update(set(members[member].owned_partitions).difference(share))
    return added & revoked
