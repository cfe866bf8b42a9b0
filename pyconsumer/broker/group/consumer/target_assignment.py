"""The target assignment: when it is computed, and which member gets which partitions (KIP-848).

Functions without state.

The assignor gets every member with its subscribed topics that exist and its last target. A static member that has
rejoined under a new member id starts with the target of its old one.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyconsumer.broker.group.consumer import records
from pyconsumer.broker.group.consumer.assignors import ASSIGNORS, AssignorMember
from pyconsumer.broker.group.consumer.group import ConsumerGroup
from pyconsumer.broker.group.consumer.member import ConsumerGroupMember, Target
from pyconsumer.broker.group.consumer.records import GroupRecord
from pyconsumer.broker.group.consumer.topics import TopicImage

__all__ = ["compute_target", "may_compute"]


def may_compute(timestamp: int, interval_ms: int, now_ms: int) -> bool:
    """Return whether at least ``interval_ms`` have passed since the last computation, at ``timestamp`` (KIP-1263)."""
    return timestamp == 0 or interval_ms == 0 or now_ms >= timestamp + interval_ms


def compute_target(
    group: ConsumerGroup,
    members: Mapping[str, ConsumerGroupMember],
    image: TopicImage,
    *,
    assignor: str,
    epoch: int,
    homogeneous: bool,
    now_ms: int,
) -> tuple[dict[str, Target], list[GroupRecord]]:
    """Compute the targets of all members.

    Args:
        members: the members of the group, after the present change.
        assignor: name of an assignor in :data:`~.assignors.ASSIGNORS`.
        epoch: the group epoch for which the assignment is computed.
        homogeneous: True if all members subscribe to the same topics.
        now_ms: the present time, in ms since the epoch.

    Returns:
        The target of each member, and the records that change the group's targets.
    """
    ids: dict[str, bytes | None] = {}
    counts: dict[bytes, int] = {}
    topics_by_names: dict[frozenset[str], list[bytes]] = {}  # most members have the same subscription
    specs = []
    for member_id, member in members.items():
        names = group.subscribed_topics_of(member)
        topics = topics_by_names.get(names)
        if topics is None:
            topics = topics_by_names[names] = []
            for name in sorted(names):
                if name not in ids:
                    topic_id = ids[name] = image.topic_id(name)
                    if topic_id is not None:
                        counts[topic_id] = image.partition_count(name) or 0
                known = ids[name]
                if known is not None:
                    topics.append(known)
        target = group.targets.get(member_id)
        if target is None or member_id not in group.members:
            target = group.target_of(member_id, member.instance_id)
        specs.append(AssignorMember(member_id, member.instance_id, topics, target))
    assignment = ASSIGNORS[assignor](specs, counts, homogeneous=homogeneous)
    targets: dict[str, Target] = {}
    changes = []
    for member_id in members:
        assigned = assignment.get(member_id, {})
        target = targets[member_id] = {topic_id: frozenset(partitions) for topic_id, partitions in assigned.items()}
        if target != group.targets.get(member_id):
            changes.append(records.target_assignment(member_id, target))
    changes.append(records.target_metadata(epoch, now_ms))
    return targets, changes
