"""AlterShareGroupOffsets: set the start offsets of share partitions of an empty group (KIP-932)."""

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
class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    start_offset: int = field(INT64, "0+", default=0)


@structure
class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field(STRING, "0+", default="")
    partitions: list[AlterShareGroupOffsetsRequestPartition] = array(
        AlterShareGroupOffsetsRequestPartition, "0+", factory=list
    )


@message(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "request", versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest(Message):
    group_id: str = field(STRING, "0+", default="")
    topics: list[AlterShareGroupOffsetsRequestTopic] = array(AlterShareGroupOffsetsRequestTopic, "0+", factory=list)


@structure
class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)


@structure
class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field(STRING, "0+", default="")
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    partitions: list[AlterShareGroupOffsetsResponsePartition] = array(
        AlterShareGroupOffsetsResponsePartition, "0+", factory=list
    )


@message(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "response", versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = array(
        AlterShareGroupOffsetsResponseTopic, "0+", factory=list
    )
