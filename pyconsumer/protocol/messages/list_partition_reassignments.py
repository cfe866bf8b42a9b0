"""ListPartitionReassignments: the partitions whose replicas are being moved to other brokers (KIP-455)."""

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
class ListPartitionReassignmentsTopics(Struct):
    name: str = field(STRING, "0+", default="")
    partition_indexes: list[int] = array(INT32, "0+", factory=list)


@message(ApiKey.LIST_PARTITION_REASSIGNMENTS, "request", versions="0", flexible="0+")
class ListPartitionReassignmentsRequest(Message):
    timeout_ms: int = field(INT32, "0+", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, "0+", nullable="0+", default=None
    )


@structure
class OngoingPartitionReassignment(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    replicas: list[int] = array(INT32, "0+", factory=list)
    adding_replicas: list[int] = array(INT32, "0+", factory=list)
    removing_replicas: list[int] = array(INT32, "0+", factory=list)


@structure
class OngoingTopicReassignment(Struct):
    name: str = field(STRING, "0+", default="")
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment, "0+", factory=list)


@message(ApiKey.LIST_PARTITION_REASSIGNMENTS, "response", versions="0", flexible="0+")
class ListPartitionReassignmentsResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default="")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment, "0+", factory=list)
