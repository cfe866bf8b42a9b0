"""FindCoordinator: the broker that coordinates a group, a transaction or a share partition. Any broker serves it."""

from __future__ import annotations

from typing import Protocol

from pyconsumer.acls import ResourceType
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.controller import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from pyconsumer.broker.error_responses import code_and_text
from pyconsumer.broker.group.coordinator import GroupBroker
from pyconsumer.broker.share.coordinator import ShareCoordinator
from pyconsumer.broker.transaction.coordinator import TransactionCoordinator
from pyconsumer.errors import BrokerResponseError, Errors, InvalidRequestError
from pyconsumer.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from pyconsumer.protocol.primitives import uuid_from_str
from pyconsumer.protocol.share_state_topic import ShareStateKey

__all__ = ["handle"]

_GROUP = 0
_TRANSACTION = 1
_SHARE = 2
_FIRST_WITH_SHARE = 6


class CoordinatingBroker(GroupBroker, Protocol):
    """The part of a broker that this handler needs."""

    @property
    def transaction_coordinator(self) -> TransactionCoordinator: ...
    @property
    def share_coordinator(self) -> ShareCoordinator: ...


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
    share_key = None
    if key_type == _SHARE and context.api_version >= _FIRST_WITH_SHARE:
        share_key = _share_key(key)
        if share_key is None:
            return _error(key, InvalidRequestError.errno, f"{key} is not group:topicId:partition")
    elif key_type not in (_GROUP, _TRANSACTION):
        return _error(key, InvalidRequestError.errno, f"there are no coordinators for key type {key_type}")
    if context.access is not None:
        kind = ResourceType.TRANSACTIONAL_ID if key_type == _TRANSACTION else ResourceType.GROUP
        if share_key is not None:
            kind = ResourceType.CLUSTER
        if not context.access.may(kind, *(() if share_key is not None else (key,))):
            return _error(key, context.access.error(kind), None)
    try:
        if share_key is not None:
            number = broker.share_coordinator.partition_for(share_key)
            topic = SHARE_STATE_TOPIC
        elif key_type == _TRANSACTION:
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


def _share_key(key: str) -> ShareStateKey | None:
    """Read a key of a share partition. Return None if it is none."""
    group_id, _, rest = key.partition(":")
    topic_id, _, partition = rest.partition(":")
    try:
        return ShareStateKey(group_id, uuid_from_str(topic_id), int(partition)) if group_id.strip() else None
    except ValueError:
        return None


def _error(key: str, error_code: int, message: str | None) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error_code, error_message=message)
