"""OffsetDelete: remove committed offsets of topics that a group does not subscribe to (KIP-496)."""

from __future__ import annotations

from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.group.coordinator import GroupBroker
from pyconsumer.errors import Errors, UnknownTopicOrPartitionError
from pyconsumer.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from pyconsumer.structs import TopicPartition

__all__ = ["handle"]


async def handle(broker: GroupBroker, request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
    """Return an error code for each partition as soon as the tombstones are in the log.

    Or return one error code for the group.
    """
    known = [
        TopicPartition(topic.name, one.partition_index)
        for topic in request.topics
        for one in topic.partitions
        if 0 <= one.partition_index < (broker.partition_count(topic.name) or 0)
    ]
    error_code: int = Errors.NONE
    results: dict[TopicPartition, int] = {}
    if known or not request.topics:
        error_code, results = await wait_for(broker.group_coordinator.delete_offsets(request.group_id, known))
    if error_code != Errors.NONE:
        return OffsetDeleteResponse(error_code=error_code)
    response = OffsetDeleteResponse()
    for topic in request.topics:
        partitions = [
            OffsetDeleteResponsePartition(
                partition_index=one.partition_index,
                error_code=results.get(
                    TopicPartition(topic.name, one.partition_index), UnknownTopicOrPartitionError.errno
                ),
            )
            for one in topic.partitions
        ]
        response.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    return response
