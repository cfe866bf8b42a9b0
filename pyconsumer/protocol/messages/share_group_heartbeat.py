"""ShareGroupHeartbeat: join, stay in and leave a share group (KIP-932). Version 0 was of early access only."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.protocol.schema import (
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


@message(ApiKey.SHARE_GROUP_HEARTBEAT, "request", versions="1", flexible="1+")
class ShareGroupHeartbeatRequest(Message):
    group_id: str = field(STRING, "0+", default="")
    member_id: str = field(STRING, "0+", default="")
    member_epoch: int = field(INT32, "0+", default=0)
    rack_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array(STRING, "0+", nullable="0+", default=None)


@structure
class TopicPartitions(Struct):
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    partitions: list[int] = array(INT32, "0+", factory=list)


@structure
class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+", factory=list)


@message(ApiKey.SHARE_GROUP_HEARTBEAT, "response", versions="1", flexible="1+")
class ShareGroupHeartbeatResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    member_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    member_epoch: int = field(INT32, "0+", default=0)
    heartbeat_interval_ms: int = field(INT32, "0+", default=0)
    assignment: Assignment | None = struct(Assignment, "0+", nullable="0+", default=None)
