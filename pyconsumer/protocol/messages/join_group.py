"""JoinGroup: join a group's next generation. Static members since version 5 (KIP-345), reasons since 8 (KIP-800)."""

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


@structure
class JoinGroupRequestProtocol(Struct):
    name: str = field(STRING, "0+", default="")
    metadata: bytes = field(BYTES, "0+", default=b"")


@message(ApiKey.JOIN_GROUP, "request", versions="0-9", flexible="6+")
class JoinGroupRequest(Message):
    group_id: str = field(STRING, "0+", default="")
    session_timeout_ms: int = field(INT32, "0+", default=0)
    rebalance_timeout_ms: int = field(INT32, "1+", default=-1, ignorable=True)
    member_id: str = field(STRING, "0+", default="")
    group_instance_id: str | None = field(STRING, "5+", nullable="5+", default=None)
    protocol_type: str = field(STRING, "0+", default="")
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol, "0+", factory=list)
    reason: str | None = field(STRING, "8+", nullable="8+", default=None, ignorable=True)


@structure
class JoinGroupResponseMember(Struct):
    member_id: str = field(STRING, "0+", default="")
    group_instance_id: str | None = field(STRING, "5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = field(BYTES, "0+", default=b"")


@message(ApiKey.JOIN_GROUP, "response", versions="0-9", flexible="6+")
class JoinGroupResponse(Message):
    throttle_time_ms: int = field(INT32, "2+", default=0, ignorable=True)
    error_code: int = field(INT16, "0+", default=0)
    generation_id: int = field(INT32, "0+", default=-1)
    protocol_type: str | None = field(STRING, "7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = field(STRING, "0+", nullable="7+", default="")
    leader: str = field(STRING, "0+", default="")
    skip_assignment: bool = field(BOOL, "9+", default=False)
    member_id: str = field(STRING, "0+", default="")
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember, "0+", factory=list)
