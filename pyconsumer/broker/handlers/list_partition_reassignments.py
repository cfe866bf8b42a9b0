"""ListPartitionReassignments: no partition is ever on its way, because replicas stay where they were created."""

from __future__ import annotations

from pyconsumer.broker.broker import Broker
from pyconsumer.broker.context import RequestContext
from pyconsumer.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

__all__ = ["handle"]


async def handle(
    broker: Broker, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    """Return an empty list, because this broker never moves replicas."""
    return ListPartitionReassignmentsResponse(error_message=None)
