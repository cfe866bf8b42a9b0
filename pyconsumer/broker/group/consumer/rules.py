"""Checks of requests to a consumer-protocol group: fencing, member epochs, commits. No state.

Errors have Apache Kafka's codes and messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyconsumer.broker.group.consumer.current_assignment import OwnedPartitions
from pyconsumer.broker.group.consumer.group import ConsumerGroup
from pyconsumer.broker.group.consumer.member import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupMember,
)
from pyconsumer.errors import (
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    InvalidRequestError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)
from pyconsumer.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pyconsumer.protocol.messages.txn_offset_commit import FIRST_VERSION_WITH_GROUP_ERRORS

__all__ = [
    "check_commit",
    "check_epoch",
    "check_fetch",
    "check_instance_fenced",
    "check_not_full",
    "check_released",
    "check_request",
    "known_member",
    "known_static_member",
]

#: The first version of OffsetCommit for members of the consumer protocol.
_FIRST_COMMIT_VERSION = 9


def _reject_empty(value: str | None, name: str) -> None:
    if value is not None and not value.strip():
        raise InvalidRequestError(f"{name} can't be empty.")


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]) -> None:
    """Check the fields of a heartbeat that can be checked without its group.

    Args:
        version: version of the request.
        assignors: names of the assignors that the broker has.

    Raises:
        InvalidRequestError: a field is missing or has a value that is not allowed.
        UnsupportedAssignorError: the broker does not offer the assignor.
    """
    epoch = request.member_epoch
    if version >= 1 or epoch > 0 or epoch == LEAVE_EPOCH:
        _reject_empty(request.member_id, "MemberId")
    _reject_empty(request.group_id, "GroupId")
    _reject_empty(request.instance_id, "InstanceId")
    _reject_empty(request.rack_id, "RackId")
    if epoch == 0:
        if request.rebalance_timeout_ms == -1:
            raise InvalidRequestError("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise InvalidRequestError("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise InvalidRequestError(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            )
    elif epoch == STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise InvalidRequestError("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise InvalidRequestError("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise UnsupportedAssignorError(
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        )


def check_not_full(group: ConsumerGroup, member_id: str, limit: int) -> None:
    """Raise ``GroupMaxSizeReachedError`` if the member is new and the group is full."""
    if len(group.members) >= limit and member_id not in group.members:
        raise GroupMaxSizeReachedError(f"The consumer group has reached its maximum capacity of {limit} members.")


def check_epoch(member: ConsumerGroupMember, epoch: int, owned: OwnedPartitions) -> None:
    """Check the epoch of a heartbeat: it must be 0 (the member joins) or the member's.

    Otherwise raises ``FencedMemberEpochError``.

    The previous epoch is also accepted if all partitions that the member reports as its own are still assigned to it.
    """
    if epoch == 0:
        return
    if epoch > member.member_epoch:
        word = "greater"
    elif epoch < member.member_epoch and not (
        epoch == member.previous_member_epoch and owned is not None and member.owns_all(owned)
    ):
        word = "smaller"
    else:
        return
    raise FencedMemberEpochError(
        f"The consumer group member has a {word} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.member_epoch}). The member must abandon all its partitions and rejoin."
    )


def check_released(member: ConsumerGroupMember, member_id: str, instance_id: str) -> None:
    """Raise ``UnreleasedInstanceIdError`` unless the member with this instance id has left temporarily."""
    if member.member_epoch != STATIC_LEAVE_EPOCH:
        raise UnreleasedInstanceIdError(
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {member.member_id} member."
        )


def check_instance_fenced(member: ConsumerGroupMember, member_id: str, instance_id: str) -> None:
    """Raise ``FencedInstanceIdError`` if another member has the instance id."""
    if member.member_id != member_id:
        raise FencedInstanceIdError(
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
        )


def known_member(group: ConsumerGroup, member_id: str) -> ConsumerGroupMember:
    """Return the member with this id. Raises ``UnknownMemberIdError`` if there is none."""
    member = group.members.get(member_id)
    if member is None:
        raise UnknownMemberIdError(f"Member {member_id} is not a member of group {group.group_id}.")
    return member


def known_static_member(group: ConsumerGroup, instance_id: str) -> ConsumerGroupMember:
    """Return the member with this instance id. Raises ``UnknownMemberIdError`` if there is none."""
    member = group.static_member(instance_id)
    if member is None:
        raise UnknownMemberIdError(f"Instance id {instance_id} is unknown.")
    return member


def check_commit(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    partitions: Mapping[tuple[bytes, int], str],
    *,
    transactional: bool,
    version: int,
) -> None:
    """Check that a member may commit offsets.

    A member may commit with an older epoch for partitions that it already had in that epoch (KIP-1251).

    Args:
        epoch: the member epoch. For a member of the classic protocol it is the generation.
        partitions: the topic id and partition of each offset. The topic's name is for messages.
        version: version of OffsetCommit. If ``transactional``, version of TxnOffsetCommit.

    Raises:
        UnknownMemberIdError: the group has no such member.
        StaleMemberEpochError, IllegalGenerationError: the epoch is neither the member's, nor an older one in which the
            member had all these partitions.
        UnsupportedVersionError: a member of the consumer protocol used OffsetCommit below version 9.
    """
    if epoch < 0 and not group.members:
        return
    if transactional and epoch == -1 and not member_id and instance_id is None:
        return
    member = known_member(group, member_id)
    classic = member.uses_classic_protocol
    if not transactional and not classic and version < _FIRST_COMMIT_VERSION:
        raise UnsupportedVersionError(
            "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
        )
    if epoch == member.member_epoch:
        return
    knows_stale = not transactional or version >= FIRST_VERSION_WITH_GROUP_ERRORS
    error = StaleMemberEpochError if knows_stale and not classic else IllegalGenerationError
    word = "generation id" if classic else "member epoch"
    if epoch > member.member_epoch:
        raise error(f"Received {word} {epoch} is newer than current member epoch {member.member_epoch}.")
    for (topic_id, partition), name in partitions.items():
        since = member.assignment_epoch(topic_id, partition)
        if since is None:
            raise error(f"Partition {name}-{partition} is not assigned or pending revocation for member.")
        if epoch < since:
            raise error(
                f"Received {word} {epoch} is older than assignment epoch {since} for partition {name}-{partition}."
            )


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
    """Check that a client may fetch the group's offsets. A client without member id and epoch always may.

    Raises:
        UnknownMemberIdError: the group has no such member.
        StaleMemberEpochError, IllegalGenerationError: the epoch is not the member's.
    """
    if member_id is None and epoch < 0:
        return
    member = known_member(group, member_id or "")
    if epoch == member.member_epoch:
        return
    if member.uses_classic_protocol:
        raise IllegalGenerationError(
            f"The received generation id {epoch} does not match the expected member epoch {member.member_epoch}."
        )
    raise StaleMemberEpochError(
        f"The received member epoch {epoch} does not match the expected member epoch {member.member_epoch}."
    )
