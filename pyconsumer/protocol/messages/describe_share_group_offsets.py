"""DescribeShareGroupOffsets: the start offsets of share partitions (KIP-932). The lag since 1 (KIP-1226)."""

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


@structure
class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field(STRING, "0+", default="")
    partitions: list[int] = array(INT32, "0+", factory=list)


@structure
class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: str = field(STRING, "0+", default="")
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = array(
        DescribeShareGroupOffsetsRequestTopic, "0+", nullable="0+", factory=list
    )


@message(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "request", versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest(Message):
    groups: list[DescribeShareGroupOffsetsRequestGroup] = array(
        DescribeShareGroupOffsetsRequestGroup, "0+", factory=list
    )


@structure
class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    start_offset: int = field(INT64, "0+", default=0)
    leader_epoch: int = field(INT32, "0+", default=0)
    lag: int = field(INT64, "1+", default=-1, ignorable=True)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)


@structure
class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field(STRING, "0+", default="")
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = array(
        DescribeShareGroupOffsetsResponsePartition, "0+", factory=list
    )


@structure
class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str = field(STRING, "0+", default="")
    topics: list[DescribeShareGroupOffsetsResponseTopic] = array(
        DescribeShareGroupOffsetsResponseTopic, "0+", factory=list
    )
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)


@message(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "response", versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = array(
        DescribeShareGroupOffsetsResponseGroup, "0+", factory=list
    )
