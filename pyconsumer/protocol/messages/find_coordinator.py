"""FindCoordinator: the coordinator of a group or transactional id, of several since version 4 (KIP-699)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    INT8,
    INT16,
    INT32,
    STRING,
    Message,
    Struct,
    array,
    field,
    message,
    structure,
)

FIRST_VERSION_WITH_KEYS = 4
"""The first version with several keys in a request, and several coordinators in a response."""


@message(ApiKey.FIND_COORDINATOR, "request", versions="0-6", flexible="3+")
class FindCoordinatorRequest(Message):
    key: str = field(STRING, "0-3", default="")
    key_type: int = field(INT8, "1+", default=0)
    coordinator_keys: list[str] = array(STRING, "4+", factory=list)


@structure
class Coordinator(Struct):
    key: str = field(STRING, "4+", default="")
    node_id: int = field(INT32, "4+", default=0)
    host: str = field(STRING, "4+", default="")
    port: int = field(INT32, "4+", default=0)
    error_code: int = field(INT16, "4+", default=0)
    error_message: str | None = field(STRING, "4+", nullable="4+", default="", ignorable=True)


@message(ApiKey.FIND_COORDINATOR, "response", versions="0-6", flexible="3+")
class FindCoordinatorResponse(Message):
    throttle_time_ms: int = field(INT32, "1+", default=0, ignorable=True)
    error_code: int = field(INT16, "0-3", default=0)
    error_message: str | None = field(STRING, "1-3", nullable="1-3", default="", ignorable=True)
    node_id: int = field(INT32, "0-3", default=0)
    host: str = field(STRING, "0-3", default="")
    port: int = field(INT32, "0-3", default=0)
    coordinators: list[Coordinator] = array(Coordinator, "4+", factory=list)
