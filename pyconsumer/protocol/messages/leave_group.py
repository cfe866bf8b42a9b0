"""LeaveGroup: leave a group. Several members at once since version 3 (KIP-345), with a reason since 5 (KIP-800)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
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


@structure
class MemberIdentity(Struct):
    member_id: str = field(STRING, "3+", default="")
    group_instance_id: str | None = field(STRING, "3+", nullable="3+", default=None)
    reason: str | None = field(STRING, "5+", nullable="5+", default=None, ignorable=True)


@message(ApiKey.LEAVE_GROUP, "request", versions="0-5", flexible="4+")
class LeaveGroupRequest(Message):
    group_id: str = field(STRING, "0+", default="")
    member_id: str = field(STRING, "0-2", default="")
    members: list[MemberIdentity] = array(MemberIdentity, "3+", factory=list)


@structure
class MemberResponse(Struct):
    member_id: str = field(STRING, "3+", default="")
    group_instance_id: str | None = field(STRING, "3+", nullable="3+", default="")
    error_code: int = field(INT16, "3+", default=0)


@message(ApiKey.LEAVE_GROUP, "response", versions="0-5", flexible="4+")
class LeaveGroupResponse(Message):
    throttle_time_ms: int = field(INT32, "1+", default=0, ignorable=True)
    error_code: int = field(INT16, "0+", default=0)
    members: list[MemberResponse] = array(MemberResponse, "3+", factory=list)
