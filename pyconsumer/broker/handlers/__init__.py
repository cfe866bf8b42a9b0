"""The handlers of requests: one module for each API, named like its message module, with one coroutine function::

    async def handle(broker: Broker, request: SomeRequest, context: RequestContext) -> Message

A module may also have a function ``check(request)``. It raises ``InvalidRequestError`` for a request that Java's broker
cannot parse. The broker then closes the connection, whatever the client's rights are.

Handlers have no state. They check the request, call the log, the controller or a coordinator, and build the response.
They wait for results with :func:`pyconsumer.broker.deferred.wait_for`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any, NamedTuple

from pyconsumer.protocol.api_keys import API, ApiKey
from pyconsumer.protocol.messages import request_type
from pyconsumer.protocol.schema import Message

__all__ = ["SERVED", "Handler", "HandlerFunction", "handler_of"]

#: The APIs that are served. ApiVersions lists only these.
SERVED: tuple[ApiKey, ...] = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DELETE_GROUPS,
    ApiKey.ELECT_LEADERS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.OFFSET_DELETE,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.UPDATE_FEATURES,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
)

HandlerFunction = Callable[..., Coroutine[Any, Any, Message | None]]


class Handler(NamedTuple):
    """The handler of an API: the class of its requests, the supported versions, and the module's functions."""

    request: type[Message]
    min_version: int
    max_version: int
    handle: HandlerFunction
    check: Callable[[Any], None] | None


_handlers: dict[int, Handler] = {}


def handler_of(api_key: int) -> Handler | None:
    """Return the handler of an API, or None if the broker does not serve this API."""
    found = _handlers.get(api_key)
    if found is None and api_key in SERVED:
        info = API[ApiKey(api_key)]
        module = import_module(f"{__name__}.{info.module}")
        check = getattr(module, "check", None)
        found = Handler(request_type(api_key), info.min_version, info.max_version, module.handle, check)
        _handlers[api_key] = found
    return found
