"""ListConfigResources: the resources that have settings (KIP-1142). Version 0 lists client metrics only."""

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


@message(ApiKey.LIST_CONFIG_RESOURCES, "request", versions="0-1", flexible="0+")
class ListConfigResourcesRequest(Message):
    resource_types: list[int] = array(INT8, "1+", factory=list)


@structure
class ConfigResource(Struct):
    resource_name: str = field(STRING, "0+", default="")
    resource_type: int = field(INT8, "1+", default=16, ignorable=True)


@message(ApiKey.LIST_CONFIG_RESOURCES, "response", versions="0-1", flexible="0+")
class ListConfigResourcesResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    config_resources: list[ConfigResource] = array(ConfigResource, "0+", factory=list)
