"""TxnOffsetCommit: commit offsets of a group in a transaction (KIP-98, KIP-447, KIP-1319)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.protocol.schema import (
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

FIRST_VERSION_WITH_TOPIC_IDS = 6
"""The first version with topic ids instead of names (KIP-1319)."""
FIRST_VERSION_WITH_GROUP_ERRORS = 6
"""The first version whose clients know GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319)."""


@structure
class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    committed_offset: int = field(INT64, "0+", default=0)
    committed_leader_epoch: int = field(INT32, "2+", default=-1, ignorable=True)
    committed_metadata: str | None = field(STRING, "0+", nullable="0+", default="")


@structure
class TxnOffsetCommitRequestTopic(Struct):
    name: str = field(STRING, "0-5", default="", ignorable=True)
    topic_id: bytes = field(UUID, "6+", default=ZERO_UUID, ignorable=True)
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition, "0+", factory=list)


@message(ApiKey.TXN_OFFSET_COMMIT, "request", versions="0-6", flexible="3+")
class TxnOffsetCommitRequest(Message):
    transactional_id: str = field(STRING, "0+", default="")
    group_id: str = field(STRING, "0+", default="")
    producer_id: int = field(INT64, "0+", default=0)
    producer_epoch: int = field(INT16, "0+", default=0)
    generation_id_or_member_epoch: int = field(INT32, "3+", default=-1)
    member_id: str = field(STRING, "3+", default="")
    group_instance_id: str | None = field(STRING, "3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic, "0+", factory=list)


@structure
class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)


@structure
class TxnOffsetCommitResponseTopic(Struct):
    name: str = field(STRING, "0-5", default="", ignorable=True)
    topic_id: bytes = field(UUID, "6+", default=ZERO_UUID, ignorable=True)
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition, "0+", factory=list)


@message(ApiKey.TXN_OFFSET_COMMIT, "response", versions="0-6", flexible="3+")
class TxnOffsetCommitResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic, "0+", factory=list)
