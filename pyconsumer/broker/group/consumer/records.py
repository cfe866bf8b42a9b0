"""Records of consumer-protocol groups: made for the log, and read when a group is loaded. No state.

A change of a group is a list of :class:`GroupRecord`. The same list is written to ``__consumer_offsets`` and replayed
onto the group in memory, so that the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pyconsumer.broker.group.common.storage import KeyValue
from pyconsumer.broker.group.consumer.member import (
    Assignment,
    ClassicMember,
    ConsumerGroupMember,
    MemberState,
    Target,
)
from pyconsumer.protocol import consumer_group_records as wire
from pyconsumer.protocol.consumer_group_records import RecordType
from pyconsumer.protocol.schema import Message

__all__ = [
    "GroupRecord",
    "ResolvedRegex",
    "current_assignment",
    "decode_target",
    "group_epoch",
    "member_metadata",
    "member_tombstones",
    "regular_expression",
    "target_assignment",
    "target_metadata",
    "tombstone",
    "with_assignment",
    "with_metadata",
]


class GroupRecord(NamedTuple):
    """One record: its type, the member id or regular expression in its key, and its value.

    A tombstone's value is None.
    """

    kind: RecordType
    name: str | None
    value: Message | None

    def encode(self, group_id: str) -> KeyValue:
        """Return the record's key and value in ``__consumer_offsets``."""
        key = wire.encode_key(self.kind, group_id, self.name)
        return key, None if self.value is None else self.value.encode_with_version(0)


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression has matched.

    It has the version of the cluster's topics and the time in ms, both of the evaluation.
    """

    topics: frozenset[str]
    version: int = 0
    timestamp: int = 0


def tombstone(kind: RecordType, name: str | None = None) -> GroupRecord:
    return GroupRecord(kind, name, None)


def group_epoch(epoch: int, metadata_hash: int) -> GroupRecord:
    value = wire.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return GroupRecord(RecordType.GROUP_METADATA, None, value)


def member_metadata(member: ConsumerGroupMember) -> GroupRecord:
    """Return the record of a member's ids, subscription and timeouts."""
    classic = None
    if member.classic is not None:
        classic = wire.ClassicMemberMetadata(
            session_timeout_ms=member.classic.session_timeout_ms,
            supported_protocols=[
                wire.ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.classic.protocols
            ],
        )
    value = wire.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=classic,
    )
    return GroupRecord(RecordType.MEMBER_METADATA, member.member_id, value)


def with_metadata(member: ConsumerGroupMember, value: wire.ConsumerGroupMemberMetadataValue) -> ConsumerGroupMember:
    """Return the member with the ids, subscription and timeouts of its record. See :func:`member_metadata`."""
    classic = value.classic_member_metadata
    return member.replace(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=frozenset(value.subscribed_topic_names),
        topic_regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicMember(
            classic.session_timeout_ms, tuple((one.name, bytes(one.metadata)) for one in classic.supported_protocols)
        ),
    )


def target_metadata(epoch: int, timestamp: int) -> GroupRecord:
    value = wire.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp)
    return GroupRecord(RecordType.TARGET_ASSIGNMENT_METADATA, None, value)


def target_assignment(member_id: str, target: Target) -> GroupRecord:
    partitions = [
        wire.TopicPartition(topic_id=topic_id, partitions=sorted(indexes)) for topic_id, indexes in target.items()
    ]
    value = wire.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=partitions)
    return GroupRecord(RecordType.TARGET_ASSIGNMENT_MEMBER, member_id, value)


def decode_target(value: wire.ConsumerGroupTargetAssignmentMemberValue) -> dict[bytes, frozenset[int]]:
    return {bytes(one.topic_id): frozenset(one.partitions) for one in value.topic_partitions}


def current_assignment(member: ConsumerGroupMember) -> GroupRecord:
    """Return the record of a member's epochs, state and partitions."""
    value = wire.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=int(member.state),
        assigned_partitions=_partitions(member.assigned),
        partitions_pending_revocation=_partitions(member.pending_revocation),
    )
    return GroupRecord(RecordType.CURRENT_MEMBER_ASSIGNMENT, member.member_id, value)


def _partitions(assignment: Assignment) -> list[wire.TopicPartitions]:
    found = []
    for topic_id, partitions in assignment.items():
        ordered = sorted(partitions)
        epochs = [partitions[index] for index in ordered]
        found.append(wire.TopicPartitions(topic_id=topic_id, partitions=ordered, assignment_epochs=epochs))
    return found


def _epochs(partitions: Iterable[wire.TopicPartitions], member_epoch: int) -> Assignment:
    """Return partitions with their epochs. In records from before Kafka 4.2, which have none, the member's epoch."""
    default = max(member_epoch, 0)
    found: dict[bytes, dict[int, int]] = {}
    for one in partitions:
        epochs = one.assignment_epochs
        if epochs is None or len(epochs) != len(one.partitions):
            found[bytes(one.topic_id)] = dict.fromkeys(one.partitions, default)
        else:
            found[bytes(one.topic_id)] = dict(zip(one.partitions, epochs, strict=True))
    return found


def with_assignment(
    member: ConsumerGroupMember, value: wire.ConsumerGroupCurrentMemberAssignmentValue
) -> ConsumerGroupMember:
    """Return the member with the epochs, state and partitions of its record. See :func:`current_assignment`."""
    return member.replace(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState.of(value.state),
        assigned=_epochs(value.assigned_partitions, value.member_epoch),
        pending_revocation=_epochs(value.partitions_pending_revocation, value.member_epoch),
    )


def regular_expression(regex: str, resolved: ResolvedRegex) -> GroupRecord:
    value = wire.ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp
    )
    return GroupRecord(RecordType.REGULAR_EXPRESSION, regex, value)


def member_tombstones(member_id: str) -> list[GroupRecord]:
    """Return the tombstones that remove a member: of its assignment, of its target, and last of its metadata."""
    types = (RecordType.CURRENT_MEMBER_ASSIGNMENT, RecordType.TARGET_ASSIGNMENT_MEMBER, RecordType.MEMBER_METADATA)
    return [tombstone(one, member_id) for one in types]
