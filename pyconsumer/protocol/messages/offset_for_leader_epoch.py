"""OffsetForLeaderEpoch: the end offset of a leader epoch, by which truncation is detected (KIP-320)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    INT16,
    INT32,
    INT64,
    STRING,
    Message,
    Struct,
    array,
    field,
    message,
    structure,
)


@structure
class OffsetForLeaderPartition(Struct):
    partition: int = field(INT32, "0+", default=0)
    current_leader_epoch: int = field(INT32, "2+", default=-1, ignorable=True)
    leader_epoch: int = field(INT32, "0+", default=0)


@structure
class OffsetForLeaderTopic(Struct):
    topic: str = field(STRING, "0+", default="")
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition, "0+", factory=list)


@message(ApiKey.OFFSET_FOR_LEADER_EPOCH, "request", versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest(Message):
    replica_id: int = field(INT32, "3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic, "0+", factory=list)


@structure
class EpochEndOffset(Struct):
    error_code: int = field(INT16, "0+", default=0)
    partition: int = field(INT32, "0+", default=0)
    leader_epoch: int = field(INT32, "1+", default=-1, ignorable=True)
    end_offset: int = field(INT64, "0+", default=-1)


@structure
class OffsetForLeaderTopicResult(Struct):
    topic: str = field(STRING, "0+", default="")
    partitions: list[EpochEndOffset] = array(EpochEndOffset, "0+", factory=list)


@message(ApiKey.OFFSET_FOR_LEADER_EPOCH, "response", versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse(Message):
    throttle_time_ms: int = field(INT32, "2+", default=0, ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult, "0+", factory=list)
