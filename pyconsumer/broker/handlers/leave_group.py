"""LeaveGroup: members leave, or are removed by an administrator."""

from __future__ import annotations

from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.group.common.results import LeavingMember
from pyconsumer.broker.group.coordinator import GroupBroker
from pyconsumer.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

__all__ = ["handle"]


async def handle(broker: GroupBroker, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    """Remove members. Up to version 2 there is one member, and the response has its error code.

    From version 3 on there may be several members (KIP-345).
    """
    batched = context.api_version >= 3
    if batched:
        leaving = [LeavingMember(one.member_id, one.group_instance_id, one.reason) for one in request.members]
    else:
        leaving = [LeavingMember(request.member_id)]
    result = await wait_for(broker.group_coordinator.leave(request.group_id, leaving))
    if not batched:
        return LeaveGroupResponse(error_code=result.error_code or result.members[0].error_code)
    return LeaveGroupResponse(
        error_code=result.error_code,
        members=[
            MemberResponse(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=one.error_code)
            for one in result.members
        ],
    )
