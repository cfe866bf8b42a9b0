"""ReadShareGroupState: read the state of share partitions, between brokers (KIP-932)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.protocol.schema import (
    INT8,
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
class PartitionData(Struct):
    partition: int = field(INT32, "0+", default=0)
    leader_epoch: int = field(INT32, "0+", default=0)


@structure
class ReadStateData(Struct):
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    partitions: list[PartitionData] = array(PartitionData, "0+", factory=list)


@message(ApiKey.READ_SHARE_GROUP_STATE, "request", versions="0", flexible="0+")
class ReadShareGroupStateRequest(Message):
    group_id: str = field(STRING, "0+", default="")
    topics: list[ReadStateData] = array(ReadStateData, "0+", factory=list)


@structure
class StateBatch(Struct):
    first_offset: int = field(INT64, "0+", default=0)
    last_offset: int = field(INT64, "0+", default=0)
    delivery_state: int = field(INT8, "0+", default=0)
    delivery_count: int = field(INT16, "0+", default=0)


@structure
class PartitionResult(Struct):
    partition: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    state_epoch: int = field(INT32, "0+", default=0)
    start_offset: int = field(INT64, "0+", default=0)
    state_batches: list[StateBatch] = array(StateBatch, "0+", factory=list)


@structure
class ReadStateResult(Struct):
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    partitions: list[PartitionResult] = array(PartitionResult, "0+", factory=list)


@message(ApiKey.READ_SHARE_GROUP_STATE, "response", versions="0", flexible="0+")
class ReadShareGroupStateResponse(Message):
    results: list[ReadStateResult] = array(ReadStateResult, "0+", factory=list)
