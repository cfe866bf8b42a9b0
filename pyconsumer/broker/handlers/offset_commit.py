"""OffsetCommit: commit the offsets of a group."""

from __future__ import annotations

from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.group.common.offsets import CommittedOffset
from pyconsumer.broker.group.coordinator import GroupBroker
from pyconsumer.errors import UnknownTopicIdError, UnknownTopicOrPartitionError
from pyconsumer.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pyconsumer.structs import TopicPartition

__all__ = ["handle"]

_BY_TOPIC_ID = 10  # the version from which topics are given by their ids


async def handle(broker: GroupBroker, request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    """Commit the offsets of existing partitions.

    Return an error code for each partition as soon as they are in the log.
    """
    by_id = context.api_version >= _BY_TOPIC_ID
    names = [broker.topic_name(topic.topic_id) if by_id else topic.name for topic in request.topics]
    offsets: dict[TopicPartition, CommittedOffset] = {}
    for topic, name in zip(request.topics, names, strict=True):
        count = 0 if name is None else broker.partition_count(name) or 0
        for partition in topic.partitions:
            if name is not None and 0 <= partition.partition_index < count:
                offsets[TopicPartition(name, partition.partition_index)] = CommittedOffset(
                    partition.committed_offset,
                    max(partition.committed_leader_epoch, -1),
                    partition.committed_metadata or "",
                    topic_id=topic.topic_id,
                )
    results: dict[TopicPartition, int] = {}
    if offsets:
        results = await wait_for(
            broker.group_coordinator.commit_offsets(
                request.group_id,
                offsets,
                generation_id=request.generation_id_or_member_epoch,
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
                retention_ms=request.retention_time_ms,
                version=context.api_version,
            )
        )
    response = OffsetCommitResponse()
    for topic, name in zip(request.topics, names, strict=True):
        unknown = UnknownTopicIdError.errno if name is None else UnknownTopicOrPartitionError.errno
        partitions = [
            OffsetCommitResponsePartition(
                partition_index=one.partition_index,
                error_code=results.get(TopicPartition(name or "", one.partition_index), unknown),
            )
            for one in topic.partitions
        ]
        response.topics.append(
            OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
        )
    return response
