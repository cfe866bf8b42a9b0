"""TxnOffsetCommit: store positions as part of a transaction (KIP-98, KIP-447)."""

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
class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = field(INT32, "0+")
    committed_offset: int = field(INT64, "0+")
    committed_leader_epoch: int = field(INT32, "2+", default=-1, ignorable=True)
    committed_metadata: str | None = field(STRING, "0+", nullable="0+")


@structure
class TxnOffsetCommitRequestTopic(Struct):
    name: str = field(STRING, "0+")
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition, "0+")


@message(ApiKey.TXN_OFFSET_COMMIT, "request", versions="0-5", flexible="3+")
class TxnOffsetCommitRequest(Message):
    transactional_id: str = field(STRING, "0+")
    group_id: str = field(STRING, "0+")
    producer_id: int = field(INT64, "0+")
    producer_epoch: int = field(INT16, "0+")
    generation_id: int = field(INT32, "3+", default=-1)
    member_id: str = field(STRING, "3+")
    group_instance_id: str | None = field(STRING, "3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic, "0+")


@structure
class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = field(INT32, "0+")
    error_code: int = field(INT16, "0+")


@structure
class TxnOffsetCommitResponseTopic(Struct):
    name: str = field(STRING, "0+")
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition, "0+")


@message(ApiKey.TXN_OFFSET_COMMIT, "response", versions="0-5", flexible="3+")
class TxnOffsetCommitResponse(Message):
    throttle_time_ms: int = field(INT32, "0+")
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic, "0+")
