"""FindCoordinator for groups or transactional ids, in every version."""

from __future__ import annotations

from collections.abc import Sequence

from pyconsumer.errors import CoordinatorNotAvailableError, for_code
from pyconsumer.protocol.messages.find_coordinator import (
    FIRST_VERSION_WITH_KEYS,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pyconsumer.structs import BrokerMetadata

__all__ = ["find_coordinator_request", "read_coordinator"]


def find_coordinator_request(
    key: str, version: int, *, of_transactions: bool = False, more: Sequence[str] = ()
) -> FindCoordinatorRequest:
    """Return a FindCoordinator request for a group, or for a transactional id.

    Args:
        key: the group id. With ``of_transactions`` the transactional id.
        more: more keys (KIP-699). Versions before 4 leave them out.
    """
    key_type = 1 if of_transactions else 0
    if version >= FIRST_VERSION_WITH_KEYS:
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key, *more])
    return FindCoordinatorRequest(key=key, key_type=key_type)


def read_coordinator(
    key: str, version: int, response: FindCoordinatorResponse, *, what: str | None = None
) -> BrokerMetadata:
    """Return the coordinator that a response names.

    Args:
        what: a description of ``key`` for messages. By default it says that the key is a group.

    Raises:
        KafkaError: the response has an error, or lacks the key. The error is retriable if there is no coordinator yet.
    """
    what = what or f"group {key}"
    if version >= FIRST_VERSION_WITH_KEYS:
        found = next((entry for entry in response.coordinators if entry.key == key), None)
        if found is None:
            raise CoordinatorNotAvailableError(f"the response to FindCoordinator does not name {what}")
        code, detail = found.error_code, found.error_message
        node = BrokerMetadata(found.node_id, found.host, found.port)
    else:
        code, detail = response.error_code, response.error_message
        node = BrokerMetadata(response.node_id, response.host, response.port)
    if code:
        raise for_code(code, what + (f": {detail}" if detail else ""))
    return node
