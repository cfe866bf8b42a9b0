"""WriteShareGroupState: store a change of share partitions, for the leader of a partition (KIP-932)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.group.share.states import for_each
from pyconsumer.broker.share.state import Batch, StateChange
from pyconsumer.protocol.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from pyconsumer.protocol.share_state_topic import ShareStateKey

__all__ = ["handle"]


async def handle(
    broker: Broker, request: WriteShareGroupStateRequest, context: RequestContext
) -> WriteShareGroupStateResponse:
    """Serve each share partition. The share coordinator of all of them is this broker."""
    wanted: dict[ShareStateKey, PartitionData] = {
        ShareStateKey(request.group_id, bytes(topic.topic_id), one.partition): one
        for topic in request.topics
        for one in topic.partitions
    }
    found = await wait_for(
        for_each({key: broker.share_coordinator.write(key, _change(one)) for key, one in wanted.items()})
    )
    results: dict[bytes, WriteStateResult] = {}
    for key, answer in found.items():
        result = results.setdefault(key.topic_id, WriteStateResult(topic_id=key.topic_id))
        result.partitions.append(
            PartitionResult(
                partition=key.partition,
                error_code=answer.error_code,
                error_message=answer.error_message,
            )
        )
    return WriteShareGroupStateResponse(results=list(results.values()))


def _change(one: PartitionData) -> StateChange:
    batches = [
        Batch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in one.state_batches
    ]
    return StateChange(one.state_epoch, one.leader_epoch, one.start_offset, one.delivery_complete_count, batches)
