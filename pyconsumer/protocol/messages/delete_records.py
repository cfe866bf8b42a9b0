"""DeleteRecords: delete the records before an offset (KIP-107)."""

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
class DeleteRecordsPartition(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    offset: int = field(INT64, "0+", default=0)


@structure
class DeleteRecordsTopic(Struct):
    name: str = field(STRING, "0+", default="")
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition, "0+", factory=list)


@message(ApiKey.DELETE_RECORDS, "request", versions="0-2", flexible="2+")
class DeleteRecordsRequest(Message):
    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic, "0+", factory=list)
    timeout_ms: int = field(INT32, "0+", default=0)


@structure
class DeleteRecordsPartitionResult(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    low_watermark: int = field(INT64, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)


@structure
class DeleteRecordsTopicResult(Struct):
    name: str = field(STRING, "0+", default="")
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult, "0+", factory=list)


@message(ApiKey.DELETE_RECORDS, "response", versions="0-2", flexible="2+")
class DeleteRecordsResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult, "0+", factory=list)
