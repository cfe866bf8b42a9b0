"""ShareGroupDescribe: the state, members and assignments of share groups (KIP-932)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.protocol.schema import (
    BOOL,
    INT16,
    INT32,
    STRING,
    UUID,
    Message,
    Struct,
    array,
    field,
    message,
    struct,
    structure,
)


@message(ApiKey.SHARE_GROUP_DESCRIBE, "request", versions="1", flexible="1+")
class ShareGroupDescribeRequest(Message):
    group_ids: list[str] = array(STRING, "0+", factory=list)
    include_authorized_operations: bool = field(BOOL, "0+", default=False)


@structure
class TopicPartitions(Struct):
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    topic_name: str = field(STRING, "0+", default="")
    partitions: list[int] = array(INT32, "0+", factory=list)


@structure
class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+", factory=list)


@structure
class Member(Struct):
    member_id: str = field(STRING, "0+", default="")
    rack_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    member_epoch: int = field(INT32, "0+", default=0)
    client_id: str = field(STRING, "0+", default="")
    client_host: str = field(STRING, "0+", default="")
    subscribed_topic_names: list[str] = array(STRING, "0+", factory=list)
    assignment: Assignment = struct(Assignment, "0+", factory=Assignment)


@structure
class DescribedGroup(Struct):
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    group_id: str = field(STRING, "0+", default="")
    group_state: str = field(STRING, "0+", default="")
    group_epoch: int = field(INT32, "0+", default=0)
    assignment_epoch: int = field(INT32, "0+", default=0)
    assignor_name: str = field(STRING, "0+", default="")
    members: list[Member] = array(Member, "0+", factory=list)
    authorized_operations: int = field(INT32, "0+", default=-2147483648)


@message(ApiKey.SHARE_GROUP_DESCRIBE, "response", versions="1", flexible="1+")
class ShareGroupDescribeResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    groups: list[DescribedGroup] = array(DescribedGroup, "0+", factory=list)
