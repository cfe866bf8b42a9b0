"""ReadShareGroupState: the state of share partitions, for the leader of a partition (KIP-932)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.group.share.states import for_each
from pyconsumer.broker.share.state import ShareState
from pyconsumer.protocol.messages.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)
from pyconsumer.protocol.share_state_topic import ShareStateKey

__all__ = ["handle"]


async def handle(
    broker: Broker, request: ReadShareGroupStateRequest, context: RequestContext
) -> ReadShareGroupStateResponse:
    """Serve each share partition. The share coordinator of all of them is this broker."""
    wanted: dict[ShareStateKey, PartitionData] = {
        ShareStateKey(request.group_id, bytes(topic.topic_id), one.partition): one
        for topic in request.topics
        for one in topic.partitions
    }
    found = await wait_for(
        for_each({key: broker.share_coordinator.read(key, one.leader_epoch) for key, one in wanted.items()})
    )
    results: dict[bytes, ReadStateResult] = {}
    for key, answer in found.items():
        state = answer.state or ShareState()
        result = results.setdefault(key.topic_id, ReadStateResult(topic_id=key.topic_id))
        result.partitions.append(
            PartitionResult(
                partition=key.partition,
                error_code=answer.error_code,
                error_message=answer.error_message,
                state_epoch=state.state_epoch,
                start_offset=state.start_offset,
                state_batches=[
                    StateBatch(first_offset=first, last_offset=last, delivery_state=kind, delivery_count=count)
                    for first, last, kind, count in state.batches
                ],
            )
        )
    return ReadShareGroupStateResponse(results=list(results.values()))
