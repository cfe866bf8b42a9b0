"""DeleteGroups: delete empty groups (KIP-229)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
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


@message(ApiKey.DELETE_GROUPS, "request", versions="0-3", flexible="2+")
class DeleteGroupsRequest(Message):
    groups_names: list[str] = array(STRING, "0+", factory=list)


@structure
class DeletableGroupResult(Struct):
    group_id: str = field(STRING, "0+", default="")
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "3+", nullable="3+", default=None, ignorable=True)


@message(ApiKey.DELETE_GROUPS, "response", versions="0-3", flexible="2+")
class DeleteGroupsResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    results: list[DeletableGroupResult] = array(DeletableGroupResult, "0+", factory=list)
