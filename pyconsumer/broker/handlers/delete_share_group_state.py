"""DeleteShareGroupState: delete the state of share partitions, for a group coordinator (KIP-932)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.group.share.states import for_each
from pyconsumer.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionData,
    PartitionResult,
)
from pyconsumer.protocol.share_state_topic import ShareStateKey

__all__ = ["handle"]


async def handle(
    broker: Broker, request: DeleteShareGroupStateRequest, context: RequestContext
) -> DeleteShareGroupStateResponse:
    """Serve each share partition. The share coordinator of all of them is this broker."""
    wanted: dict[ShareStateKey, PartitionData] = {
        ShareStateKey(request.group_id, bytes(topic.topic_id), one.partition): one
        for topic in request.topics
        for one in topic.partitions
    }
    found = await wait_for(for_each({key: broker.share_coordinator.delete(key) for key in wanted}))
    results: dict[bytes, DeleteStateResult] = {}
    for key, answer in found.items():
        result = results.setdefault(key.topic_id, DeleteStateResult(topic_id=key.topic_id))
        result.partitions.append(
            PartitionResult(
                partition=key.partition,
                error_code=answer.error_code,
                error_message=answer.error_message,
            )
        )
    return DeleteShareGroupStateResponse(results=list(results.values()))
