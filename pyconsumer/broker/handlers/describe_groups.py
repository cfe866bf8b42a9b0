"""DescribeGroups: the state, protocol and members of classic groups."""

from __future__ import annotations

from pyconsumer.acls import ResourceType, operation_bits
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.group.coordinator import GroupBroker
from pyconsumer.broker.handlers.metadata import AUTHORIZED_OPERATIONS_OMITTED
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

__all__ = ["GROUP_OPERATIONS", "handle"]

_NOT_FOUND_ERROR = 6  # the version from which a group that does not exist is an error (KIP-1043)

#: Without access control all operations are allowed.
GROUP_OPERATIONS = operation_bits(ResourceType.GROUP)


async def handle(
    broker: GroupBroker, request: DescribeGroupsRequest, context: RequestContext
) -> DescribeGroupsResponse:
    """Return each group. A missing group has the state Dead.

    From version 6 on it also has the error GROUP_ID_NOT_FOUND.
    """
    operations = GROUP_OPERATIONS if request.include_authorized_operations else AUTHORIZED_OPERATIONS_OMITTED
    return DescribeGroupsResponse(
        groups=[_describe(broker, group_id, operations, context.api_version) for group_id in request.groups]
    )


def _describe(broker: GroupBroker, group_id: str, operations: int, version: int) -> DescribedGroup:
    error_code, summary = broker.group_coordinator.describe_group(group_id)
    message = None
    if error_code == Errors.GROUP_ID_NOT_FOUND:
        if version < _NOT_FOUND_ERROR:
            error_code = Errors.NONE
        else:
            exists = broker.group_coordinator.manager.get_group(group_id) is not None
            message = f"Group {group_id} is not a classic group." if exists else f"Group {group_id} not found."
    return DescribedGroup(
        error_code=error_code,
        error_message=message,
        group_id=group_id,
        group_state=summary.state,
        protocol_type=summary.protocol_type,
        protocol_data=summary.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in summary.members
        ],
        authorized_operations=operations if error_code == Errors.NONE else AUTHORIZED_OPERATIONS_OMITTED,
    )
