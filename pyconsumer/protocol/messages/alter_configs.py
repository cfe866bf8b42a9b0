"""AlterConfigs: replace all settings of resources. Since KIP-339 clients send IncrementalAlterConfigs instead."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    BOOL,
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
class AlterableConfig(Struct):
    name: str = field(STRING, "0+", default="")
    value: str | None = field(STRING, "0+", nullable="0+", default="")


@structure
class AlterConfigsResource(Struct):
    resource_type: int = field(INT8, "0+", default=0)
    resource_name: str = field(STRING, "0+", default="")
    configs: list[AlterableConfig] = array(AlterableConfig, "0+", factory=list)


@message(ApiKey.ALTER_CONFIGS, "request", versions="0-2", flexible="2+")
class AlterConfigsRequest(Message):
    resources: list[AlterConfigsResource] = array(AlterConfigsResource, "0+", factory=list)
    validate_only: bool = field(BOOL, "0+", default=False)


@structure
class AlterConfigsResourceResponse(Struct):
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default="")
    resource_type: int = field(INT8, "0+", default=0)
    resource_name: str = field(STRING, "0+", default="")


@message(ApiKey.ALTER_CONFIGS, "response", versions="0-2", flexible="2+")
class AlterConfigsResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse, "0+", factory=list)
