"""FindCoordinator: the broker that coordinates a group or a transactional id. Any broker serves it."""

from __future__ import annotations

from typing import Protocol

from pyconsumer.acls import ResourceType
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import OFFSETS_TOPIC, TRANSACTION_TOPIC
from pyconsumer.broker.error_responses import code_and_text
from pyconsumer.broker.group.coordinator import GroupBroker
from pyconsumer.broker.transaction.coordinator import TransactionCoordinator
from pyconsumer.errors import BrokerResponseError, Errors, InvalidRequestError
from pyconsumer.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

__all__ = ["handle"]

_GROUP = 0
_TRANSACTION = 1


class CoordinatingBroker(GroupBroker, Protocol):
    """The part of a broker that this handler needs."""

    @property
    def transaction_coordinator(self) -> TransactionCoordinator: ...


async def handle(
    broker: CoordinatingBroker, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    """Return the coordinator of one key. From version 4 on, a request may have several keys (KIP-699).

    If the internal topic does not exist, the first request creates it.
    """
    keys = request.coordinator_keys if context.api_version >= 4 else [request.key]
    found = [_find(broker, key, request.key_type, context) for key in keys]
    if context.api_version >= 4:
        return FindCoordinatorResponse(coordinators=found)
    only = found[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _find(broker: CoordinatingBroker, key: str, key_type: int, context: RequestContext) -> Coordinator:
    if key_type not in (_GROUP, _TRANSACTION):
        return _error(key, InvalidRequestError.errno, f"there are no coordinators for key type {key_type}")
    if context.access is not None:
        kind = ResourceType.TRANSACTIONAL_ID if key_type == _TRANSACTION else ResourceType.GROUP
        if not context.access.may(kind, key):
            return _error(key, context.access.error(kind), None)
    try:
        if key_type == _TRANSACTION:
            number = broker.transaction_coordinator.partition_for(key)
            topic = TRANSACTION_TOPIC
        else:
            number = broker.group_coordinator.partition_for(key)
            topic = OFFSETS_TOPIC
        node = broker.coordinator_node(topic, number, context)
    except (BrokerResponseError, OSError) as error:  # the internal topic could not be created
        return _error(key, Errors.COORDINATOR_NOT_AVAILABLE, code_and_text(error)[1])
    if node is None:
        return _error(key, Errors.COORDINATOR_NOT_AVAILABLE, f"{topic}-{number} has no leader at the moment")
    return Coordinator(key=key, node_id=node.node_id, host=node.host, port=node.port)


def _error(key: str, error_code: int, message: str | None) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error_code, error_message=message)
