"""ShareAcknowledge: acknowledge acquired records, and close a share session (KIP-932). Renewals since 2 (KIP-1222)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages.share_fetch import AcknowledgementBatch, LeaderIdAndEpoch, NodeEndpoint
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.protocol.schema import (
    BOOL,
    INT16,
    INT32,
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


@structure
class AcknowledgePartition(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch, "0+", factory=list)


@structure
class AcknowledgeTopic(Struct):
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    partitions: list[AcknowledgePartition] = array(AcknowledgePartition, "0+", factory=list)


@message(ApiKey.SHARE_ACKNOWLEDGE, "request", versions="1-2", flexible="1+")
class ShareAcknowledgeRequest(Message):
    group_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    member_id: str | None = field(STRING, "0+", nullable="0+", default="")
    share_session_epoch: int = field(INT32, "0+", default=0)
    is_renew_ack: bool = field(BOOL, "2+", default=False)
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic, "0+", factory=list)


@structure
class PartitionData(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "0+", factory=LeaderIdAndEpoch)


@structure
class ShareAcknowledgeTopicResponse(Struct):
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    partitions: list[PartitionData] = array(PartitionData, "0+", factory=list)


@message(ApiKey.SHARE_ACKNOWLEDGE, "response", versions="1-2", flexible="1+")
class ShareAcknowledgeResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = field(INT32, "2+", default=0, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse, "0+", factory=list)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "0+", factory=list)
