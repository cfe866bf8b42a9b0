"""WriteShareGroupState: store a change of share partitions, for the leader of a partition (KIP-932)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.share.state import Batch, StateChange
from pyconsumer.broker.share.state_requests import serve_states
from pyconsumer.protocol.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

__all__ = ["handle"]


async def handle(
    broker: Broker, request: WriteShareGroupStateRequest, context: RequestContext
) -> WriteShareGroupStateResponse:
    """Serve each share partition."""
    return WriteShareGroupStateResponse(
        results=await serve_states(
            request,
            lambda key, one: broker.share_coordinator.write(key, _change(one)),
            WriteStateResult,
            PartitionResult,
        )
    )


def _change(one: PartitionData) -> StateChange:
    batches = [
        Batch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in one.state_batches
    ]
    return StateChange(one.state_epoch, one.leader_epoch, one.start_offset, one.delivery_complete_count, batches)
