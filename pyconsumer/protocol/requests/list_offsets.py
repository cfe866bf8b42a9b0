"""ListOffsets for partitions with the same leader, in every version."""

from __future__ import annotations

from collections.abc import Mapping

from pyconsumer.protocol.messages.list_offsets import (
    FIRST_VERSION_WITH_ISOLATION_LEVEL,
    FIRST_VERSION_WITH_MAX_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from pyconsumer.structs import OffsetAndTimestamp, TopicPartition

__all__ = ["first_version", "list_offsets_request", "read_offsets"]


def first_version(timestamps: Mapping[TopicPartition, int], isolation_level: int = 0) -> int:
    """Return the oldest version with the fields that a request needs."""
    if MAX_TIMESTAMP in timestamps.values():
        return FIRST_VERSION_WITH_MAX_TIMESTAMP
    return FIRST_VERSION_WITH_ISOLATION_LEVEL if isolation_level else ListOffsetsRequest.MIN_VERSION


def list_offsets_request(
    timestamps: Mapping[TopicPartition, int],
    *,
    isolation_level: int = 0,
    leader_epochs: Mapping[TopicPartition, int] | None = None,
) -> ListOffsetsRequest:
    """Return a client's ListOffsets request.

    Args:
        timestamps: ms since the epoch, or -1, -2 or -3 (see :mod:`pyconsumer.protocol.messages.list_offsets`).
        isolation_level: 0 for read_uncommitted, 1 for read_committed.
        leader_epochs: the leader epochs that the client knows. The leader checks them (KIP-320). Without them it does
            not check.
    """
    topics: dict[str, ListOffsetsTopic] = {}
    epochs = leader_epochs or {}
    for tp, timestamp in timestamps.items():
        entry = topics.get(tp.topic)
        if entry is None:
            entry = topics[tp.topic] = ListOffsetsTopic(name=tp.topic, partitions=[])
        entry.partitions.append(ListOffsetsPartition(tp.partition, epochs.get(tp, -1), int(timestamp)))
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=list(topics.values()))


def read_offsets(response: ListOffsetsResponse) -> dict[TopicPartition, tuple[int, OffsetAndTimestamp | None]]:
    """Return the error code and the offset of each partition.

    The offset is None if no record has the timestamp or a later one.
    """
    return {
        TopicPartition(topic.name, item.partition_index): (
            item.error_code,
            None if item.offset < 0 else OffsetAndTimestamp(item.offset, item.timestamp, item.leader_epoch),
        )
        for topic in response.topics
        for item in topic.partitions
    }
