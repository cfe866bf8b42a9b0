"""Produce: append record batches to partitions. The current leader in the response since version 10 (KIP-951), topic
ids instead of names since 13 (KIP-516)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.primitives import ZERO_UUID, Buffer
from pyconsumer.protocol.schema import (
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UUID,
    Message,
    Struct,
    array,
    field,
    message,
    struct,
    structure,
)

FIRST_VERSION_WITH_TOPIC_IDS = 13
"""The first version with topic ids instead of names (KIP-516)."""


@structure
class PartitionProduceData(Struct):
    index: int = field(INT32, "0+", default=0)
    records: Buffer | None = field(RECORDS, "0+", nullable="0+", default=None)


@structure
class TopicProduceData(Struct):
    name: str = field(STRING, "0-12", default="", ignorable=True)
    topic_id: bytes = field(UUID, "13+", default=ZERO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData, "0+", factory=list)


@message(ApiKey.PRODUCE, "request", versions="3-13", flexible="9+")
class ProduceRequest(Message):
    transactional_id: str | None = field(STRING, "3+", nullable="3+", default=None)
    acks: int = field(INT16, "0+", default=0)
    timeout_ms: int = field(INT32, "0+", default=0)
    topic_data: list[TopicProduceData] = array(TopicProduceData, "0+", factory=list)


@structure
class BatchIndexAndErrorMessage(Struct):
    batch_index: int = field(INT32, "8+", default=0)
    batch_index_error_message: str | None = field(STRING, "8+", nullable="8+", default=None)


@structure
class LeaderIdAndEpoch(Struct):
    leader_id: int = field(INT32, "10+", default=-1)
    leader_epoch: int = field(INT32, "10+", default=-1)


@structure
class PartitionProduceResponse(Struct):
    index: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    base_offset: int = field(INT64, "0+", default=0)
    log_append_time_ms: int = field(INT64, "2+", default=-1, ignorable=True)
    log_start_offset: int = field(INT64, "5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(
        BatchIndexAndErrorMessage, "8+", factory=list, ignorable=True
    )
    error_message: str | None = field(STRING, "8+", nullable="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "10+", factory=LeaderIdAndEpoch, tag=0)


@structure
class TopicProduceResponse(Struct):
    name: str = field(STRING, "0-12", default="", ignorable=True)
    topic_id: bytes = field(UUID, "13+", default=ZERO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse, "0+", factory=list)


@structure
class NodeEndpoint(Struct):
    node_id: int = field(INT32, "10+", default=0)
    host: str = field(STRING, "10+", default="")
    port: int = field(INT32, "10+", default=0)
    rack: str | None = field(STRING, "10+", nullable="10+", default=None)


@message(ApiKey.PRODUCE, "response", versions="3-13", flexible="9+")
class ProduceResponse(Message):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse, "0+", factory=list)
    throttle_time_ms: int = field(INT32, "1+", default=0, ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", factory=list, tag=0)
