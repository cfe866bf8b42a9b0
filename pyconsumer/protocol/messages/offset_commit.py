"""OffsetCommit: commit offsets of a group. Topic ids since version 10 (KIP-848)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.protocol.schema import (
    INT16,
    INT32,
    INT64,
    STRING,
    UUID,
    Message,
    Struct,
    array,
    field,
    message,
    structure,
)

FIRST_VERSION_WITH_TOPIC_IDS = 10
"""The first version with topic ids instead of names (KIP-848)."""


@structure
class OffsetCommitRequestPartition(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    committed_offset: int = field(INT64, "0+", default=0)
    committed_leader_epoch: int = field(INT32, "6+", default=-1, ignorable=True)
    committed_metadata: str | None = field(STRING, "0+", nullable="0+", default="")


@structure
class OffsetCommitRequestTopic(Struct):
    name: str = field(STRING, "0-9", default="", ignorable=True)
    topic_id: bytes = field(UUID, "10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition, "0+", factory=list)


@message(ApiKey.OFFSET_COMMIT, "request", versions="2-10", flexible="8+")
class OffsetCommitRequest(Message):
    group_id: str = field(STRING, "0+", default="")
    generation_id_or_member_epoch: int = field(INT32, "1+", default=-1, ignorable=True)
    member_id: str = field(STRING, "1+", default="", ignorable=True)
    group_instance_id: str | None = field(STRING, "7+", nullable="7+", default=None)
    retention_time_ms: int = field(INT64, "2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic, "0+", factory=list)


@structure
class OffsetCommitResponsePartition(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)


@structure
class OffsetCommitResponseTopic(Struct):
    name: str = field(STRING, "0-9", default="", ignorable=True)
    topic_id: bytes = field(UUID, "10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition, "0+", factory=list)


@message(ApiKey.OFFSET_COMMIT, "response", versions="2-10", flexible="8+")
class OffsetCommitResponse(Message):
    throttle_time_ms: int = field(INT32, "3+", default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic, "0+", factory=list)
