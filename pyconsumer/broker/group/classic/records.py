"""Conversion of classic groups to records of ``__consumer_offsets`` and back. Functions without state."""

from __future__ import annotations

from collections.abc import Mapping

from pyconsumer.broker.group.classic.group_metadata import GroupMetadata, MemberMetadata
from pyconsumer.broker.group.common.storage import KeyValue
from pyconsumer.clock import Clock
from pyconsumer.errors import IllegalStateError
from pyconsumer.protocol import offsets_topic
from pyconsumer.protocol.offsets_topic import GroupMetadataValue

__all__ = ["group_from_value", "group_record", "group_tombstone"]

_NO_TIMESTAMP = -1


def group_record(group: GroupMetadata, assignments: Mapping[str, bytes], *, rebalance_is_due: bool = False) -> KeyValue:
    """Return the GroupMetadata record of a classic group in its present state, with these assignments.

    Args:
        rebalance_is_due: True if the group must rebalance. The record then has no leader.

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
    """Return the group that a GroupMetadata record describes. Each member has only the chosen protocol."""
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
