"""ListOffsets: offsets by timestamp. -1 means the end, -2 the start, -3 the largest timestamp (KIP-734)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    INT8,
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

FIRST_VERSION_WITH_ISOLATION_LEVEL = 2
FIRST_VERSION_WITH_MAX_TIMESTAMP = 7

MAX_TIMESTAMP = -3
"""The timestamp that stands for the record with the largest one."""


@structure
class ListOffsetsPartition(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    current_leader_epoch: int = field(INT32, "4+", default=-1, ignorable=True)
    timestamp: int = field(INT64, "0+", default=0)


@structure
class ListOffsetsTopic(Struct):
    name: str = field(STRING, "0+", default="")
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition, "0+", factory=list)


@message(ApiKey.LIST_OFFSETS, "request", versions="1-11", flexible="6+")
class ListOffsetsRequest(Message):
    replica_id: int = field(INT32, "0+", default=0)
    isolation_level: int = field(INT8, "2+", default=0)
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic, "0+", factory=list)
    timeout_ms: int = field(INT32, "10+", default=0, ignorable=True)


@structure
class ListOffsetsPartitionResponse(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    timestamp: int = field(INT64, "1+", default=-1)
    offset: int = field(INT64, "1+", default=-1)
    leader_epoch: int = field(INT32, "4+", default=-1)


@structure
class ListOffsetsTopicResponse(Struct):
    name: str = field(STRING, "0+", default="")
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse, "0+", factory=list)


@message(ApiKey.LIST_OFFSETS, "response", versions="1-11", flexible="6+")
class ListOffsetsResponse(Message):
    throttle_time_ms: int = field(INT32, "2+", default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse, "0+", factory=list)
