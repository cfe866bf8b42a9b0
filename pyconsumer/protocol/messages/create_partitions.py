"""CreatePartitions: increase the number of partitions of topics."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    BOOL,
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
class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = array(INT32, "0+", factory=list)


@structure
class CreatePartitionsTopic(Struct):
    name: str = field(STRING, "0+", default="")
    count: int = field(INT32, "0+", default=0)
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, "0+", nullable="0+", factory=list
    )


@message(ApiKey.CREATE_PARTITIONS, "request", versions="0-3", flexible="2+")
class CreatePartitionsRequest(Message):
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic, "0+", factory=list)
    timeout_ms: int = field(INT32, "0+", default=0)
    validate_only: bool = field(BOOL, "0+", default=False)


@structure
class CreatePartitionsTopicResult(Struct):
    name: str = field(STRING, "0+", default="")
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)


@message(ApiKey.CREATE_PARTITIONS, "response", versions="0-3", flexible="2+")
class CreatePartitionsResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult, "0+", factory=list)
