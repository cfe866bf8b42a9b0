"""DeleteShareGroupState: delete the state of share partitions, for a group coordinator (KIP-932)."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.share.state_requests import serve_states
from pyconsumer.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)

__all__ = ["handle"]


async def handle(
    broker: Broker, request: DeleteShareGroupStateRequest, context: RequestContext
) -> DeleteShareGroupStateResponse:
    """Serve each share partition."""
    return DeleteShareGroupStateResponse(
        results=await serve_states(
            request,
            lambda key, one: broker.share_coordinator.delete(key),
            DeleteStateResult,
            PartitionResult,
        )
    )
