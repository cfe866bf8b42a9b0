"""DeleteShareGroupState: delete the state of share partitions, between brokers (KIP-932)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.protocol.schema import (
    INT16,
    INT32,
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


@structure
class DeleteStateData(Struct):
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    partitions: list[PartitionData] = array(PartitionData, "0+", factory=list)


@message(ApiKey.DELETE_SHARE_GROUP_STATE, "request", versions="0", flexible="0+")
class DeleteShareGroupStateRequest(Message):
    group_id: str = field(STRING, "0+", default="")
    topics: list[DeleteStateData] = array(DeleteStateData, "0+", factory=list)


@structure
class PartitionResult(Struct):
    partition: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)


@structure
class DeleteStateResult(Struct):
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    partitions: list[PartitionResult] = array(PartitionResult, "0+", factory=list)


@message(ApiKey.DELETE_SHARE_GROUP_STATE, "response", versions="0", flexible="0+")
class DeleteShareGroupStateResponse(Message):
    results: list[DeleteStateResult] = array(DeleteStateResult, "0+", factory=list)
