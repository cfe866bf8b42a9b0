"""DeleteGroups: remove groups that have no members (KIP-229)."""

from __future__ import annotations

from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import wait_for
from pyconsumer.broker.group.coordinator import GroupBroker
from pyconsumer.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

__all__ = ["handle"]


async def handle(broker: GroupBroker, request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    """Return an error code for each group, as soon as its tombstones are in the log."""
    results = await wait_for(broker.group_coordinator.delete_groups(request.groups_names))
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=error_code) for group_id, error_code in results.items()
        ]
    )
