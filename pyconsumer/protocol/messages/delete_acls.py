"""DeleteAcls: remove the access control lists that match filters."""

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


@structure
class DeleteAclsFilter(Struct):
    resource_type_filter: int = field(INT8, "0+", default=0)
    resource_name_filter: str | None = field(STRING, "0+", nullable="0+", default="")
    pattern_type_filter: int = field(INT8, "1+", default=3)
    principal_filter: str | None = field(STRING, "0+", nullable="0+", default="")
    host_filter: str | None = field(STRING, "0+", nullable="0+", default="")
    operation: int = field(INT8, "0+", default=0)
    permission_type: int = field(INT8, "0+", default=0)


@message(ApiKey.DELETE_ACLS, "request", versions="1-3", flexible="2+")
class DeleteAclsRequest(Message):
    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter, "0+", factory=list)


@structure
class DeleteAclsMatchingAcl(Struct):
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default="")
    resource_type: int = field(INT8, "0+", default=0)
    resource_name: str = field(STRING, "0+", default="")
    pattern_type: int = field(INT8, "1+", default=3)
    principal: str = field(STRING, "0+", default="")
    host: str = field(STRING, "0+", default="")
    operation: int = field(INT8, "0+", default=0)
    permission_type: int = field(INT8, "0+", default=0)


@structure
class DeleteAclsFilterResult(Struct):
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default="")
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl, "0+", factory=list)


@message(ApiKey.DELETE_ACLS, "response", versions="1-3", flexible="2+")
class DeleteAclsResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult, "0+", factory=list)
