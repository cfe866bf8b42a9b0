"""ListGroups: the groups that a broker coordinates, filtered by state (KIP-518) and type (KIP-848)."""

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


@message(ApiKey.LIST_GROUPS, "request", versions="0-5", flexible="3+")
class ListGroupsRequest(Message):
    states_filter: list[str] = array(STRING, "4+", factory=list)
    types_filter: list[str] = array(STRING, "5+", factory=list)


@structure
class ListedGroup(Struct):
    group_id: str = field(STRING, "0+", default="")
    protocol_type: str = field(STRING, "0+", default="")
    group_state: str = field(STRING, "4+", default="", ignorable=True)
    group_type: str = field(STRING, "5+", default="", ignorable=True)


@message(ApiKey.LIST_GROUPS, "response", versions="0-5", flexible="3+")
class ListGroupsResponse(Message):
    throttle_time_ms: int = field(INT32, "1+", default=0, ignorable=True)
    error_code: int = field(INT16, "0+", default=0)
    groups: list[ListedGroup] = array(ListedGroup, "0+", factory=list)
