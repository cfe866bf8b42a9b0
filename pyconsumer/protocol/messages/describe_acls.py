"""DescribeAcls: the access control lists that match a filter."""

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


@message(ApiKey.DESCRIBE_ACLS, "request", versions="1-3", flexible="2+")
class DescribeAclsRequest(Message):
    resource_type_filter: int = field(INT8, "0+", default=0)
    resource_name_filter: str | None = field(STRING, "0+", nullable="0+", default="")
    pattern_type_filter: int = field(INT8, "1+", default=3)
    principal_filter: str | None = field(STRING, "0+", nullable="0+", default="")
    host_filter: str | None = field(STRING, "0+", nullable="0+", default="")
    operation: int = field(INT8, "0+", default=0)
    permission_type: int = field(INT8, "0+", default=0)


@structure
class AclDescription(Struct):
    principal: str = field(STRING, "0+", default="")
    host: str = field(STRING, "0+", default="")
    operation: int = field(INT8, "0+", default=0)
    permission_type: int = field(INT8, "0+", default=0)


@structure
class DescribeAclsResource(Struct):
    resource_type: int = field(INT8, "0+", default=0)
    resource_name: str = field(STRING, "0+", default="")
    pattern_type: int = field(INT8, "1+", default=3)
    acls: list[AclDescription] = array(AclDescription, "0+", factory=list)


@message(ApiKey.DESCRIBE_ACLS, "response", versions="1-3", flexible="2+")
class DescribeAclsResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default="")
    resources: list[DescribeAclsResource] = array(DescribeAclsResource, "0+", factory=list)
