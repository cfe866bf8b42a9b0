"""Heartbeat: a member of the classic protocol shows that it is alive, or learns that it must rejoin."""

from __future__ import annotations

from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.group.coordinator import GroupBroker
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

__all__ = ["handle"]


async def handle(broker: GroupBroker, request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    """Return an error code. It is REBALANCE_IN_PROGRESS if the member must rejoin."""
    error_code = broker.group_coordinator.heartbeat(
        request.group_id, request.generation_id, request.member_id, request.group_instance_id
    )
    return HeartbeatResponse(error_code=error_code)
