"""ReadShareGroupStateSummary: where share partitions begin, for a group coordinator (KIP-932, KIP-1226)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import Deferred, wait_for
from pyconsumer.broker.group.share.states import for_each
from pyconsumer.broker.share.state import ShareState
from pyconsumer.protocol.messages.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from pyconsumer.protocol.share_state_topic import ShareStateKey

__all__ = ["handle"]


async def handle(
    broker: Broker, request: ReadShareGroupStateSummaryRequest, context: RequestContext
) -> ReadShareGroupStateSummaryResponse:
    """Serve each share partition. The share coordinator of all of them is this broker."""
    wanted: dict[ShareStateKey, PartitionData] = {
        ShareStateKey(request.group_id, bytes(topic.topic_id), one.partition): one
        for topic in request.topics
        for one in topic.partitions
    }
    found = await wait_for(for_each({key: Deferred.of(broker.share_coordinator.read_summary(key)) for key in wanted}))
    results: dict[bytes, ReadStateSummaryResult] = {}
    for key, answer in found.items():
        state = answer.state or ShareState()
        result = results.setdefault(key.topic_id, ReadStateSummaryResult(topic_id=key.topic_id))
        result.partitions.append(
            PartitionResult(
                partition=key.partition,
                error_code=answer.error_code,
                error_message=answer.error_message,
                state_epoch=state.state_epoch,
                leader_epoch=state.leader_epoch,
                start_offset=state.start_offset,
                delivery_complete_count=state.complete_count,
            )
        )
    return ReadShareGroupStateSummaryResponse(results=list(results.values()))
