"""ListGroups: the groups that this broker coordinates."""

from __future__ import annotations

from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.group.coordinator import GroupBroker
from pyconsumer.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

__all__ = ["handle"]


async def handle(broker: GroupBroker, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    """Return the groups, filtered by states (from version 4 on, KIP-518) and types (from version 5 on, KIP-848)."""
    error_code, groups = broker.group_coordinator.list_groups(request.states_filter, request.types_filter)
    return ListGroupsResponse(
        error_code=error_code,
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
            for group in groups
        ],
    )
