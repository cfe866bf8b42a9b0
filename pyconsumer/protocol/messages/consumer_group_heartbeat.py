"""ConsumerGroupHeartbeat: join, stay in and leave a group of the consumer protocol (KIP-848, KIP-1082)."""

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

JOIN_GROUP_MEMBER_EPOCH = 0
"""Member epoch of a request that joins."""
LEAVE_GROUP_MEMBER_EPOCH = -1
"""Member epoch of a request that leaves."""
LEAVE_GROUP_STATIC_MEMBER_EPOCH = -2
"""Member epoch of a static member that leaves temporarily: it keeps its partitions until the session expires."""
FIRST_VERSION_WITH_REGEX = 1
"""The first version with ``subscribed_topic_regex``, and in which the client chooses its member id (KIP-1082)."""


@structure
class TopicPartitions(Struct):
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    partitions: list[int] = array(INT32, "0+", factory=list)


@message(ApiKey.CONSUMER_GROUP_HEARTBEAT, "request", versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest(Message):
    group_id: str = field(STRING, "0+", default="")
    member_id: str = field(STRING, "0+", default="")
    member_epoch: int = field(INT32, "0+", default=0)
    instance_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    rack_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = field(INT32, "0+", default=-1)
    subscribed_topic_names: list[str] | None = array(STRING, "0+", nullable="0+", default=None)
    subscribed_topic_regex: str | None = field(STRING, "1+", nullable="1+", default=None)
    server_assignor: str | None = field(STRING, "0+", nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, "0+", nullable="0+", default=None)


@structure
class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+", factory=list)


@message(ApiKey.CONSUMER_GROUP_HEARTBEAT, "response", versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    member_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    member_epoch: int = field(INT32, "0+", default=0)
    heartbeat_interval_ms: int = field(INT32, "0+", default=0)
    assignment: Assignment | None = struct(Assignment, "0+", nullable="0+", default=None)
