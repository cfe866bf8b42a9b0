"""Conversion of classic groups and commits to records of ``__consumer_offsets`` and back; functions without state.

:func:`partition_for` is here too: it decides which partition has a group's records, and so which broker coordinates it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from pyconsumer.broker.group.classic.group_metadata import GroupMetadata, MemberMetadata
from pyconsumer.broker.group.offsets import CommittedOffset
from pyconsumer.broker.group.storage import KeyValue
from pyconsumer.clock import Clock
from pyconsumer.errors import IllegalStateError
from pyconsumer.protocol import offsets_topic
from pyconsumer.protocol.offsets_topic import GroupMetadataValue, OffsetCommitValue
from pyconsumer.structs import TopicPartition

__all__ = [
    "committed_offset",
    "group_from_value",
    "group_record",
    "group_tombstone",
    "java_hash",
    "offset_record",
    "offset_tombstone",
    "partition_for",
]

_NO_TIMESTAMP = -1


@lru_cache(maxsize=4096)
def java_hash(text: str) -> int:
    """Return Java's ``String.hashCode``: computed over UTF-16 units, a signed 32-bit number."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(data), 2):
        value = (31 * value + (data[index] << 8 | data[index + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def utf16_length(text: str) -> int:
    """Return Java's ``String.length``: the number of UTF-16 units."""
    return len(text) + sum(1 for character in text if character > "\uffff")


def partition_for(group_id: str, partition_count: int) -> int:
    """Return the partition that has all records of a group (or of a transactional id).

    It is the absolute value of the hash modulo the partition count. As in Kafka, the absolute value of the most
    negative number is 0.
    """
    value = java_hash(group_id)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count


def group_record(group: GroupMetadata, assignments: Mapping[str, bytes], *, rebalance_is_due: bool = False) -> KeyValue:
    """Return the GroupMetadata record of a classic group as it is now, with these assignments.

    Args:
        rebalance_is_due: the group has to rebalance, which the record expresses by having no leader.

    Raises:
        IllegalStateError: the group has members but no chosen protocol, or a member has no assignment.
    """
    members = []
    for member in group.members.values():
        if group.protocol_name is None:
            raise IllegalStateError(f"group {group.group_id} has members but no protocol")
        if member.member_id not in assignments:
            raise IllegalStateError(f"member {member.member_id} of {group.group_id} has no assignment")
        members.append(
            offsets_topic.MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=assignments[member.member_id],
            )
        )
    timestamp = group.current_state_timestamp
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=None if rebalance_is_due else group.leader_id,
        current_state_timestamp=_NO_TIMESTAMP if timestamp is None else timestamp,
        members=members,
    )
    return offsets_topic.encode_group_key(group.group_id), offsets_topic.encode_group_value(value)


def group_tombstone(group_id: str) -> KeyValue:
    return offsets_topic.encode_group_key(group_id), None


def group_from_value(group_id: str, value: GroupMetadataValue, clock: Clock) -> GroupMetadata:
    """Return the group that a GroupMetadata record describes. Of a member's protocols, it has only the chosen one."""
    members = [
        MemberMetadata(
            member.member_id,
            group_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            # A record of version 0 has no rebalance timeout.
            rebalance_timeout_ms=member.session_timeout if member.rebalance_timeout < 0 else member.rebalance_timeout,
            session_timeout_ms=member.session_timeout,
            protocol_type=value.protocol_type,
            supported_protocols=((value.protocol or "", bytes(member.subscription)),),
            assignment=bytes(member.assignment),
        )
        for member in value.members
    ]
    timestamp = value.current_state_timestamp
    return GroupMetadata.loaded(
        group_id,
        clock,
        generation_id=value.generation,
        protocol_type=value.protocol_type,
        protocol_name=value.protocol,
        leader_id=value.leader,
        state_timestamp=None if timestamp == _NO_TIMESTAMP else timestamp,
        members=members,
    )


def offset_record(group_id: str, partition: TopicPartition, offset: CommittedOffset) -> KeyValue:
    """Return the record of one committed offset."""
    value = OffsetCommitValue(
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        commit_timestamp=offset.commit_timestamp,
        expire_timestamp=_NO_TIMESTAMP if offset.expire_timestamp is None else offset.expire_timestamp,
        topic_id=offset.topic_id,
    )
    key = offsets_topic.encode_offset_key(group_id, partition.topic, partition.partition)
    return key, offsets_topic.encode_offset_value(value)


def offset_tombstone(group_id: str, partition: TopicPartition) -> KeyValue:
    return offsets_topic.encode_offset_key(group_id, partition.topic, partition.partition), None


def committed_offset(value: OffsetCommitValue) -> CommittedOffset:
    """Return the committed offset in a record's value."""
    return CommittedOffset(
        offset=value.offset,
        leader_epoch=max(value.leader_epoch, -1),
        metadata=value.metadata,
        commit_timestamp=value.commit_timestamp,
        expire_timestamp=None if value.expire_timestamp == _NO_TIMESTAMP else value.expire_timestamp,
        topic_id=bytes(value.topic_id),
    )
