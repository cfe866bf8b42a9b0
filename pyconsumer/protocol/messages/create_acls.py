"""CreateAcls: add access control lists."""

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
class AclCreation(Struct):
    resource_type: int = field(INT8, "0+", default=0)
    resource_name: str = field(STRING, "0+", default="")
    resource_pattern_type: int = field(INT8, "1+", default=3)
    principal: str = field(STRING, "0+", default="")
    host: str = field(STRING, "0+", default="")
    operation: int = field(INT8, "0+", default=0)
    permission_type: int = field(INT8, "0+", default=0)


@message(ApiKey.CREATE_ACLS, "request", versions="1-3", flexible="2+")
class CreateAclsRequest(Message):
    creations: list[AclCreation] = array(AclCreation, "0+", factory=list)


@structure
class AclCreationResult(Struct):
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default="")


@message(ApiKey.CREATE_ACLS, "response", versions="1-3", flexible="2+")
class CreateAclsResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    results: list[AclCreationResult] = array(AclCreationResult, "0+", factory=list)
