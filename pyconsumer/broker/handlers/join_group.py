"""JoinGroup: a member joins a group, or its next generation."""

from __future__ import annotations

from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.group.classic.admission import JoinRequest
from pyconsumer.broker.group.coordinator import GroupBroker
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

__all__ = ["handle"]


async def handle(broker: GroupBroker, request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
    """Return the new generation when the join phase ends.

    After an error, or if nothing changes, return at once.
    """
    version = context.api_version
    protocols = {protocol.name: protocol.metadata for protocol in request.protocols}
    if len(protocols) < len(request.protocols):  # the member would vote twice. Kafka then fails without a response.
        return JoinGroupResponse(
            error_code=Errors.INCONSISTENT_GROUP_PROTOCOL,
            protocol_name=None if version >= 7 else "",
            member_id=request.member_id,
        )
    # Version 0 has no rebalance timeout. A negative one counts as 0.
    rebalance_timeout_ms = request.session_timeout_ms if version == 0 else max(request.rebalance_timeout_ms, 0)
    result = await wait_for(
        broker.group_coordinator.join_group(
            JoinRequest(
                group_id=request.group_id,
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
                require_known_member_id=version >= 4 and request.group_instance_id is None,
                can_skip_assignment=version >= 9,
                client_id=context.client_id,
                client_host=context.client_host,
                rebalance_timeout_ms=rebalance_timeout_ms,
                session_timeout_ms=request.session_timeout_ms,
                protocol_type=request.protocol_type,
                protocols=tuple(protocols.items()),
                reason=request.reason,
            )
        )
    )
    protocol_name = result.protocol_name
    if protocol_name is None and version < 7:
        protocol_name = ""
    return JoinGroupResponse(
        error_code=result.error_code,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=protocol_name,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.group_instance_id, metadata=member.metadata
            )
            for member in result.members
        ],
    )
