"""DescribeProducers: the producers that a partition's leader knows, and their open transactions (KIP-664)."""

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
class TopicRequest(Struct):
    name: str = field(STRING, "0+", default="")
    partition_indexes: list[int] = array(INT32, "0+", factory=list)


@message(ApiKey.DESCRIBE_PRODUCERS, "request", versions="0", flexible="0+")
class DescribeProducersRequest(Message):
    topics: list[TopicRequest] = array(TopicRequest, "0+", factory=list)


@structure
class ProducerState(Struct):
    producer_id: int = field(INT64, "0+", default=0)
    producer_epoch: int = field(INT32, "0+", default=0)
    last_sequence: int = field(INT32, "0+", default=-1)
    last_timestamp: int = field(INT64, "0+", default=-1)
    coordinator_epoch: int = field(INT32, "0+", default=0)
    current_txn_start_offset: int = field(INT64, "0+", default=-1)


@structure
class PartitionResponse(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    active_producers: list[ProducerState] = array(ProducerState, "0+", factory=list)


@structure
class TopicResponse(Struct):
    name: str = field(STRING, "0+", default="")
    partitions: list[PartitionResponse] = array(PartitionResponse, "0+", factory=list)


@message(ApiKey.DESCRIBE_PRODUCERS, "response", versions="0", flexible="0+")
class DescribeProducersResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    topics: list[TopicResponse] = array(TopicResponse, "0+", factory=list)
