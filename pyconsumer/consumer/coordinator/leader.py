"""What a group's leader does between JoinGroup and SyncGroup: read the members' subscriptions, run the assignor, check.

Pure functions; the assignor may be the application's code, so they run in the user's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from pyconsumer.assignors import Assignment, Assignor, ClusterView, RebalanceProtocol, Subscription
from pyconsumer.errors import IllegalStateError
from pyconsumer.protocol.consumer_protocol import decode_subscription, encode_assignment, owned_partitions
from pyconsumer.protocol.messages.join_group import JoinGroupResponseMember
from pyconsumer.structs import TopicPartition

__all__ = ["divide", "read_members", "snapshot"]

log = logging.getLogger("pyconsumer.consumer.coordinator")


def read_members(members: Iterable[JoinGroupResponseMember]) -> dict[str, Subscription]:
    """The members' subscriptions by member id.

    Raises:
        ProtocolError: a member's metadata is no subscription.
    """
    found = {}
    for member in members:
        message = decode_subscription(member.metadata)
        found[member.member_id] = Subscription(
            topics=tuple(message.topics),
            user_data=None if message.user_data is None else bytes(message.user_data),
            owned_partitions=tuple(owned_partitions(message)),
            generation_id=message.generation_id,
            rack_id=message.rack_id,
            group_instance_id=member.group_instance_id,
        )
    return found


def divide(
    label: str,
    assignor: Assignor,
    protocol: RebalanceProtocol,
    cluster: ClusterView,
    subscriptions: Mapping[str, Subscription],
) -> dict[str, bytes]:
    """Run the assignor; each member's share as a blob.

    Args:
        label: begins each line of the log.
        assignor, protocol: the one chosen, and the members' rebalance protocol.
        cluster: the metadata.
        subscriptions: by member id.

    Raises:
        IllegalStateError: under the cooperative protocol, a partition goes straight from one member to another.
    """
    assignments = assignor.assign(cluster, subscriptions)
    if protocol is RebalanceProtocol.COOPERATIVE:
        _check_cooperative(assignor, subscriptions, assignments)
    wanted = {topic for subscription in subscriptions.values() for topic in subscription.topics}
    given = {tp.topic for assignment in assignments.values() for tp in assignment.partitions}
    if wanted - given:
        log.warning(
            "[%s] no partition of these subscribed topics was assigned: %s", label, ", ".join(sorted(wanted - given))
        )
    if given - wanted:
        log.warning(
            "[%s] the assignor gave out topics to which nobody subscribed: %s",
            label,
            ", ".join(sorted(given - wanted)),
        )
    return {
        member_id: encode_assignment(assignment.partitions, assignment.user_data)
        for member_id, assignment in assignments.items()
    }


def _check_cooperative(
    assignor: Assignor, subscriptions: Mapping[str, Subscription], assignments: Mapping[str, Assignment]
) -> None:
    added: set[TopicPartition] = set()
    revoked: set[TopicPartition] = set()
    for member_id, assignment in assignments.items():
        owned = set(subscriptions[member_id].owned_partitions) if member_id in subscriptions else set()
        share = set(assignment.partitions)
        added |= share - owned
        revoked |= owned - share
    both = added & revoked
    if both:
        raise IllegalStateError(
            f"assignor {assignor.name} is cooperative, yet it gives {', '.join(map(str, sorted(both)))} to a member"
            " while another one still owns it; it must be withheld until the next rebalance (KIP-429)"
        )


def snapshot(cluster: ClusterView, topics: Iterable[str], *, racks: bool) -> dict[str, object]:
    """What of the metadata an assignment depends on, by topic: partition counts, with ``racks`` the replicas' places.

    Topics that are not known are left out.
    """
    found: dict[str, object] = {}
    for topic in topics:
        partitions = cluster.partitions_for(topic)
        if not partitions:
            continue
        if racks:
            found[topic] = tuple(
                frozenset(b.rack for b in map(cluster.broker, p.replicas) if b is not None and b.rack)
                for p in partitions
            )
        else:
            found[topic] = len(partitions)
    return found
