"""Results of the group coordinator: one value type for each kind of request. Error codes are Kafka's, 0 for none."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "CLASSIC_TYPE",
    "CONSUMER_TYPE",
    "NO_OFFSET",
    "SHARE_TYPE",
    "FetchedOffset",
    "GroupOverview",
    "GroupSummary",
    "JoinMember",
    "JoinResult",
    "LeaveResult",
    "LeavingMember",
    "MemberSummary",
    "SyncResult",
]

#: Group types, as ListGroups names them from version 5 on.
CLASSIC_TYPE = "classic"
CONSUMER_TYPE = "consumer"
SHARE_TYPE = "share"


class MemberSummary(NamedTuple):
    """A member, as DescribeGroups returns it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class JoinMember(NamedTuple):
    """A member in the form for the leader. It has its metadata (the subscription) for the chosen protocol."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """Response to JoinGroup. With an error, only the error code and the member id are set.

    ``members`` is set only for the leader. ``skip_assignment`` tells a static leader, which came back under a new
    member id, not to compute an assignment (KIP-814).
    """

    error_code: int
    member_id: str
    members: tuple[JoinMember, ...] = ()
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False


class SyncResult(NamedTuple):
    """Response to SyncGroup. If there is an error, type, name and assignment are empty."""

    error_code: int
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None


class LeavingMember(NamedTuple):
    """One member of a LeaveGroup request. In the response it also has its error code."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None
    error_code: int = 0


class LeaveResult(NamedTuple):
    """Response to LeaveGroup. It has one error code for all members, or one for each member."""

    error_code: int
    members: tuple[LeavingMember, ...] = ()


class FetchedOffset(NamedTuple):
    """Response to OffsetFetch for one partition. Offset -1 with error code 0 means that no offset is committed."""

    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error_code: int = 0


NO_OFFSET = FetchedOffset()


class GroupOverview(NamedTuple):
    """A group, as ListGroups returns it."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = CLASSIC_TYPE


class GroupSummary(NamedTuple):
    """A group, as DescribeGroups returns it. Its protocol and the members' metadata are set only in state Stable."""

    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberSummary, ...]
