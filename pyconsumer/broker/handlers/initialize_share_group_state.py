"""InitializeShareGroupState: begin the state of share partitions, for a group coordinator (KIP-932)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.group.share.states import for_each
from pyconsumer.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)
from pyconsumer.protocol.share_state_topic import ShareStateKey

__all__ = ["handle"]


async def handle(
    broker: Broker, request: InitializeShareGroupStateRequest, context: RequestContext
) -> InitializeShareGroupStateResponse:
    """Serve each share partition. The share coordinator of all of them is this broker."""
    wanted: dict[ShareStateKey, PartitionData] = {
        ShareStateKey(request.group_id, bytes(topic.topic_id), one.partition): one
        for topic in request.topics
        for one in topic.partitions
    }
    found = await wait_for(
        for_each(
            {
                key: broker.share_coordinator.initialize(key, one.state_epoch, one.start_offset)
                for key, one in wanted.items()
            }
        )
    )
    results: dict[bytes, InitializeStateResult] = {}
    for key, answer in found.items():
        result = results.setdefault(key.topic_id, InitializeStateResult(topic_id=key.topic_id))
        result.partitions.append(
            PartitionResult(
                partition=key.partition,
                error_code=answer.error_code,
                error_message=answer.error_message,
            )
        )
    return InitializeShareGroupStateResponse(results=list(results.values()))
