"""ReadShareGroupState: the state of share partitions, for the leader of a partition (KIP-932)."""

from __future__ import annotations

from typing import Any

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.share.coordinator import StateResult
from pyconsumer.broker.share.state import ShareState
from pyconsumer.broker.share.state_requests import serve_states
from pyconsumer.protocol.messages.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)

__all__ = ["handle"]


async def handle(
    broker: Broker, request: ReadShareGroupStateRequest, context: RequestContext
) -> ReadShareGroupStateResponse:
    """Serve each share partition."""
    return ReadShareGroupStateResponse(
        results=await serve_states(
            request,
            lambda key, one: broker.share_coordinator.read(key, one.leader_epoch),
            ReadStateResult,
            PartitionResult,
            _state,
        )
    )


def _state(answer: StateResult) -> dict[str, Any]:
    state = answer.state or ShareState()
    return {
        "state_epoch": state.state_epoch,
        "start_offset": state.start_offset,
        "state_batches": [
            StateBatch(first_offset=first, last_offset=last, delivery_state=kind, delivery_count=count)
            for first, last, kind, count in state.batches
        ],
    }
