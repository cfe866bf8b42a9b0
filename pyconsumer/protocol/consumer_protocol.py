"""The blobs that consumers put into JoinGroup and SyncGroup: Subscription and Assignment, versions 0 to 3."""

from __future__ import annotations

from pyconsumer.protocol.schema import (
    BYTES,
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
class TopicPartition(Struct):
    topic: str = field(STRING, "1+", default="")
    partitions: list[int] = array(INT32, "1+", factory=list)


@message(-1, "data", versions="0-3", flexible="none")
class ConsumerProtocolSubscription(Message):
    topics: list[str] = array(STRING, "0+", factory=list)
    user_data: bytes | None = field(BYTES, "0+", nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", factory=list, ignorable=True)
    generation_id: int = field(INT32, "2+", default=-1, ignorable=True)
    rack_id: str | None = field(STRING, "3+", nullable="3+", default=None, ignorable=True)


@structure
class ConsumerProtocolAssignmentTopicPartition(Struct):
    topic: str = field(STRING, "0+", default="")
    partitions: list[int] = array(INT32, "0+", factory=list)


@message(-1, "data", versions="0-3", flexible="none")
class ConsumerProtocolAssignment(Message):
    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = array(
        ConsumerProtocolAssignmentTopicPartition, "0+", factory=list
    )
    user_data: bytes | None = field(BYTES, "0+", nullable="0+", default=None)
