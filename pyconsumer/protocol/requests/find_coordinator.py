"""FindCoordinator of one group, in every version."""

from __future__ import annotations

from pyconsumer.errors import CoordinatorNotAvailableError, for_code
from pyconsumer.protocol.messages.find_coordinator import (
    FIRST_VERSION_WITH_KEYS,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pyconsumer.structs import BrokerMetadata

__all__ = ["find_coordinator_request", "read_coordinator"]


def find_coordinator_request(group_id: str, version: int) -> FindCoordinatorRequest:
    """Return a FindCoordinator for a group."""
    if version >= FIRST_VERSION_WITH_KEYS:
        return FindCoordinatorRequest(coordinator_keys=[group_id])
    return FindCoordinatorRequest(key=group_id)


def read_coordinator(group_id: str, version: int, response: FindCoordinatorResponse) -> BrokerMetadata:
    """Return the coordinator that a response of this version names.

    Raises:
        KafkaError: the response is an error; it is retriable while the coordinator is not available yet.
    """
    if version >= FIRST_VERSION_WITH_KEYS:
        found = next((entry for entry in response.coordinators if entry.key == group_id), None)
        if found is None:
            raise CoordinatorNotAvailableError(f"the response to FindCoordinator does not name group {group_id}")
        code, detail = found.error_code, found.error_message
        node = BrokerMetadata(found.node_id, found.host, found.port)
    else:
        code, detail = response.error_code, response.error_message
        node = BrokerMetadata(response.node_id, response.host, response.port)
    if code:
        raise for_code(code, f"group {group_id}" + (f": {detail}" if detail else ""))
    return node
