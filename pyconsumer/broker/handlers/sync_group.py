"""SyncGroup: the leader sends the assignment, and every member gets its own."""

from __future__ import annotations

from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.group.coordinator import GroupBroker
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

__all__ = ["handle"]


async def handle(broker: GroupBroker, request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse:
    """Return the member's assignment as soon as the leader has sent it.

    From version 5 on a client must send the protocol type and name (KIP-559).
    """
    if context.api_version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=Errors.INCONSISTENT_GROUP_PROTOCOL)
    result = await wait_for(
        broker.group_coordinator.sync_group(
            request.group_id,
            request.generation_id,
            request.member_id,
            {one.member_id: one.assignment for one in request.assignments},
            group_instance_id=request.group_instance_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
        )
    )
    return SyncGroupResponse(
        error_code=result.error_code,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )
