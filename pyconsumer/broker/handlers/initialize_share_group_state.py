"""InitializeShareGroupState: begin the state of share partitions, for a group coordinator (KIP-932)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.share.state_requests import serve_states
from pyconsumer.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)

__all__ = ["handle"]


async def handle(
    broker: Broker, request: InitializeShareGroupStateRequest, context: RequestContext
) -> InitializeShareGroupStateResponse:
    """Serve each share partition."""
    return InitializeShareGroupStateResponse(
        results=await serve_states(
            request,
            lambda key, one: broker.share_coordinator.initialize(key, one.state_epoch, one.start_offset),
            InitializeStateResult,
            PartitionResult,
        )
    )
