"""OffsetDelete: delete committed offsets of a group (KIP-496)."""

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
class OffsetDeleteRequestPartition(Struct):
    partition_index: int = field(INT32, "0+", default=0)


@structure
class OffsetDeleteRequestTopic(Struct):
    name: str = field(STRING, "0+", default="")
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition, "0+", factory=list)


@message(ApiKey.OFFSET_DELETE, "request", versions="0", flexible="none")
class OffsetDeleteRequest(Message):
    group_id: str = field(STRING, "0+", default="")
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic, "0+", factory=list)


@structure
class OffsetDeleteResponsePartition(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)


@structure
class OffsetDeleteResponseTopic(Struct):
    name: str = field(STRING, "0+", default="")
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition, "0+", factory=list)


@message(ApiKey.OFFSET_DELETE, "response", versions="0", flexible="none")
class OffsetDeleteResponse(Message):
    error_code: int = field(INT16, "0+", default=0)
    throttle_time_ms: int = field(INT32, "0+", default=0, ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic, "0+", factory=list)
