"""Fetch: read record batches. Sessions since version 7 (KIP-227), follower fetching since 11 (KIP-392), topic ids
since 13 (KIP-516)."""

from __future__ import annotations

import struct as _struct
from typing import TYPE_CHECKING, Any, Final

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.primitives import ZERO_UUID, Buffer
from pyconsumer.protocol.schema import (
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

if TYPE_CHECKING:
    from pyconsumer.protocol.primitives import Decoder

#: Of a response with one partition, all up to the length of its records: throttle time, error code, session id; number
#: of topics and id; number of partitions, index, error code, high watermark, last stable offset, log start offset,
#: number of aborted transactions, preferred replica. Compact numbers, greater by one, take a byte each.
_ONE_PARTITION: Final = _struct.Struct(">ihiB16sBihqqqBi")
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13


@structure
class ReplicaState(Struct):
    replica_id: int = field(INT32, "15+", default=-1)
    replica_epoch: int = field(INT64, "15+", default=-1)


@structure
class FetchPartition(Struct):
    partition: int = field(INT32, "0+", default=0)
    current_leader_epoch: int = field(INT32, "9+", default=-1, ignorable=True)
    fetch_offset: int = field(INT64, "0+", default=0)
    last_fetched_epoch: int = field(INT32, "12+", default=-1)
    log_start_offset: int = field(INT64, "5+", default=-1, ignorable=True)
    partition_max_bytes: int = field(INT32, "0+", default=0)
    replica_directory_id: bytes = field(UUID, "17+", default=ZERO_UUID, tag=0, ignorable=True)
    high_watermark: int = field(INT64, "18+", default=0x7FFFFFFFFFFFFFFF, tag=1, ignorable=True)


@structure
class FetchTopic(Struct):
    topic: str = field(STRING, "0-12", default="", ignorable=True)
    topic_id: bytes = field(UUID, "13+", default=ZERO_UUID, ignorable=True)
    partitions: list[FetchPartition] = array(FetchPartition, "0+", factory=list)


@structure
class ForgottenTopic(Struct):
    topic: str = field(STRING, "7-12", default="", ignorable=True)
    topic_id: bytes = field(UUID, "13+", default=ZERO_UUID, ignorable=True)
    partitions: list[int] = array(INT32, "7+", factory=list)


@message(ApiKey.FETCH, "request", versions="4-18", flexible="12+")
class FetchRequest(Message):
    cluster_id: str | None = field(STRING, "12+", nullable="12+", default=None, tag=0, ignorable=True)
    replica_id: int = field(INT32, "0-14", default=-1)
    replica_state: ReplicaState = struct(ReplicaState, "15+", factory=ReplicaState, tag=1)
    max_wait_ms: int = field(INT32, "0+", default=0)
    min_bytes: int = field(INT32, "0+", default=0)
    max_bytes: int = field(INT32, "3+", default=0x7FFFFFFF, ignorable=True)
    isolation_level: int = field(INT8, "4+", default=0, ignorable=True)
    session_id: int = field(INT32, "7+", default=0, ignorable=True)
    session_epoch: int = field(INT32, "7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = array(FetchTopic, "0+", factory=list)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+", factory=list)
    rack_id: str = field(STRING, "11+", default="", ignorable=True)


@structure
class EpochEndOffset(Struct):
    epoch: int = field(INT32, "12+", default=-1)
    end_offset: int = field(INT64, "12+", default=-1)


@structure
class LeaderIdAndEpoch(Struct):
    leader_id: int = field(INT32, "12+", default=-1)
    leader_epoch: int = field(INT32, "12+", default=-1)


@structure
class SnapshotId(Struct):
    end_offset: int = field(INT64, "0+", default=-1)
    epoch: int = field(INT32, "0+", default=-1)


@structure
class AbortedTransaction(Struct):
    producer_id: int = field(INT64, "4+", default=0)
    first_offset: int = field(INT64, "4+", default=0)


@structure
class PartitionData(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    high_watermark: int = field(INT64, "0+", default=0)
    last_stable_offset: int = field(INT64, "4+", default=-1, ignorable=True)
    log_start_offset: int = field(INT64, "5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = struct(EpochEndOffset, "12+", factory=EpochEndOffset, tag=0)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "12+", factory=LeaderIdAndEpoch, tag=1)
    snapshot_id: SnapshotId = struct(SnapshotId, "12+", factory=SnapshotId, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, "4+", nullable="4+", factory=list, ignorable=True
    )
    preferred_read_replica: int = field(INT32, "11+", default=-1)
    records: Buffer | None = field(RECORDS, "0+", nullable="0+", default=None)


@structure
class FetchableTopicResponse(Struct):
    topic: str = field(STRING, "0-12", default="", ignorable=True)
    topic_id: bytes = field(UUID, "13+", default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionData] = array(PartitionData, "0+", factory=list)


@structure
class NodeEndpoint(Struct):
    node_id: int = field(INT32, "16+", default=0)
    host: str = field(STRING, "16+", default="")
    port: int = field(INT32, "16+", default=0)
    rack: str | None = field(STRING, "16+", nullable="16+", default=None)


@message(ApiKey.FETCH, "response", versions="4-18", flexible="12+")
class FetchResponse(Message):
    throttle_time_ms: int = field(INT32, "1+", default=0, ignorable=True)
    error_code: int = field(INT16, "7+", default=0, ignorable=True)
    session_id: int = field(INT32, "7+", default=0)
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse, "0+", factory=list)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", factory=list, tag=0)

    @classmethod
    def shorten(cls, version: int, decode: Decoder) -> Decoder:
        return _decoder_for_one(decode) if version >= FIRST_VERSION_WITH_TOPIC_IDS else decode


def _decoder_for_one(decode: Decoder) -> Decoder:
    """Return a decoder that reads a response with one partition by one call of ``struct``.

    So comes a record that arrives alone. Everything else is left to ``decode``: more than one partition,
    aborted transactions, tagged fields, record sets that are null or not whole, or have 16 KiB or more.
    """
    unpack, size = _ONE_PARTITION.unpack_from, _ONE_PARTITION.size
    epoch, leader, snapshot = EpochEndOffset(), LeaderIdAndEpoch(), SnapshotId()

    def decode_one(data: Any, start: int) -> tuple[Any, int]:
        end = start + size + 2
        if end < len(data):
            throttle, error, session, topics, topic_id, partitions, *rest = unpack(data, start)
            index, code, high_watermark, last_stable, log_start, aborted, replica = rest
            length = data[end - 2]
            if length < 128:
                end -= 1
            else:
                length += (data[end - 1] - 1) << 7
            records = data[end : (end := end + length - 1)]
            if (
                topics == partitions == 2
                and aborted < 2
                and 0 < length <= 0x3FFF
                and data[end : end + 3] == b"\0\0\0"  # no tagged fields of partition, topic, response
            ):
                found = PartitionData(
                    index,
                    code,
                    high_watermark,
                    last_stable,
                    log_start,
                    epoch,
                    leader,
                    snapshot,
                    [] if aborted else None,
                    replica,
                    records,
                )
                topic = FetchableTopicResponse("", topic_id, [found])
                return FetchResponse(throttle, error, session, [topic], []), end + 3
        return decode(data, start)

    return decode_one
