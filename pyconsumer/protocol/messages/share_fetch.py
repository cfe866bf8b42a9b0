"""ShareFetch: acquire records, and acknowledge earlier ones in the same request (KIP-932).

Version 2 has ``share_acquire_mode`` (KIP-1206) and renewals (KIP-1222).
"""

from __future__ import annotations

from typing import Final

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.primitives import ZERO_UUID, Buffer
from pyconsumer.protocol.schema import (
    BOOL,
    INT8,
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

OPEN_SESSION_EPOCH: Final = 0
"""Session epoch of a request that opens a share session."""
CLOSE_SESSION_EPOCH: Final = -1
"""Session epoch of a request that closes a share session."""
FIRST_VERSION_WITH_RENEW: Final = 2
"""The first version of ShareFetch and ShareAcknowledge with renewals and ``share_acquire_mode``."""


@structure
class AcknowledgementBatch(Struct):
    first_offset: int = field(INT64, "0+", default=0)
    last_offset: int = field(INT64, "0+", default=0)
    acknowledge_types: list[int] = array(INT8, "0+", factory=list)


@structure
class FetchPartition(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    partition_max_bytes: int = field(INT32, "0", default=0)
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch, "0+", factory=list)


@structure
class FetchTopic(Struct):
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    partitions: list[FetchPartition] = array(FetchPartition, "0+", factory=list)


@structure
class ForgottenTopic(Struct):
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    partitions: list[int] = array(INT32, "0+", factory=list)


@message(ApiKey.SHARE_FETCH, "request", versions="1-2", flexible="1+")
class ShareFetchRequest(Message):
    group_id: str | None = field(STRING, "0+", nullable="0+", default=None)
    member_id: str | None = field(STRING, "0+", nullable="0+", default="")
    share_session_epoch: int = field(INT32, "0+", default=0)
    max_wait_ms: int = field(INT32, "0+", default=0)
    min_bytes: int = field(INT32, "0+", default=0)
    max_bytes: int = field(INT32, "0+", default=0x7FFFFFFF)
    max_records: int = field(INT32, "1+", default=0)
    batch_size: int = field(INT32, "1+", default=0)
    share_acquire_mode: int = field(INT8, "2+", default=0, ignorable=True)
    is_renew_ack: bool = field(BOOL, "2+", default=False)
    topics: list[FetchTopic] = array(FetchTopic, "0+", factory=list)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "0+", factory=list)


@structure
class LeaderIdAndEpoch(Struct):
    leader_id: int = field(INT32, "0+", default=0)
    leader_epoch: int = field(INT32, "0+", default=0)


@structure
class AcquiredRecords(Struct):
    first_offset: int = field(INT64, "0+", default=0)
    last_offset: int = field(INT64, "0+", default=0)
    delivery_count: int = field(INT16, "0+", default=0)


@structure
class PartitionData(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    acknowledge_error_code: int = field(INT16, "0+", default=0)
    acknowledge_error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "0+", factory=LeaderIdAndEpoch)
    records: Buffer | None = field(RECORDS, "0+", nullable="0", default=None)
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords, "0+", factory=list)


@structure
class ShareFetchableTopicResponse(Struct):
    topic_id: bytes = field(UUID, "0+", default=ZERO_UUID)
    partitions: list[PartitionData] = array(PartitionData, "0+", factory=list)


@structure
class NodeEndpoint(Struct):
    node_id: int = field(INT32, "0+", default=0)
    host: str = field(STRING, "0+", default="")
    port: int = field(INT32, "0+", default=0)
    rack: str | None = field(STRING, "0+", nullable="0+", default=None)


@message(ApiKey.SHARE_FETCH, "response", versions="1-2", flexible="1+")
class ShareFetchResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = field(INT32, "1+", default=0)
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse, "0+", factory=list)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "0+", factory=list)
