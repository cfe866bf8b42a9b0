"""DescribeGroups: state, protocol and members of classic groups."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    BOOL,
    BYTES,
    INT16,
    INT32,
    STRING,
    Message,
    Struct,
    array,
    field,
    message,
    structure,
)


@message(ApiKey.DESCRIBE_GROUPS, "request", versions="0-6", flexible="5+")
class DescribeGroupsRequest(Message):
    groups: list[str] = array(STRING, "0+", factory=list)
    include_authorized_operations: bool = field(BOOL, "3+", default=False)


@structure
class DescribedGroupMember(Struct):
    member_id: str = field(STRING, "0+", default="")
    group_instance_id: str | None = field(STRING, "4+", nullable="4+", default=None, ignorable=True)
    client_id: str = field(STRING, "0+", default="")
    client_host: str = field(STRING, "0+", default="")
    member_metadata: bytes = field(BYTES, "0+", default=b"")
    member_assignment: bytes = field(BYTES, "0+", default=b"")


@structure
class DescribedGroup(Struct):
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "6+", nullable="6+", default=None)
    group_id: str = field(STRING, "0+", default="")
    group_state: str = field(STRING, "0+", default="")
    protocol_type: str = field(STRING, "0+", default="")
    protocol_data: str = field(STRING, "0+", default="")
    members: list[DescribedGroupMember] = array(DescribedGroupMember, "0+", factory=list)
    authorized_operations: int = field(INT32, "3+", default=-2147483648)


@message(ApiKey.DESCRIBE_GROUPS, "response", versions="0-6", flexible="5+")
class DescribeGroupsResponse(Message):
    throttle_time_ms: int = field(INT32, "1+", default=0, ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup, "0+", factory=list)
