"""DescribeConfigs: settings of topics and brokers."""

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
class DescribeConfigsResource(Struct):
    resource_type: int = field(INT8, "0+", default=0)
    resource_name: str = field(STRING, "0+", default="")
    configuration_keys: list[str] | None = array(STRING, "0+", nullable="0+", factory=list)


@message(ApiKey.DESCRIBE_CONFIGS, "request", versions="1-4", flexible="4+")
class DescribeConfigsRequest(Message):
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource, "0+", factory=list)
    include_synonyms: bool = field(BOOL, "1+", default=False)
    include_documentation: bool = field(BOOL, "3+", default=False)


@structure
class DescribeConfigsSynonym(Struct):
    name: str = field(STRING, "1+", default="")
    value: str | None = field(STRING, "1+", nullable="0+", default="")
    source: int = field(INT8, "1+", default=0)


@structure
class DescribeConfigsResourceResult(Struct):
    name: str = field(STRING, "0+", default="")
    value: str | None = field(STRING, "0+", nullable="0+", default="")
    read_only: bool = field(BOOL, "0+", default=False)
    config_source: int = field(INT8, "1+", default=-1, ignorable=True)
    is_sensitive: bool = field(BOOL, "0+", default=False)
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+", factory=list, ignorable=True)
    config_type: int = field(INT8, "3+", default=0, ignorable=True)
    documentation: str | None = field(STRING, "3+", nullable="0+", default="", ignorable=True)


@structure
class DescribeConfigsResult(Struct):
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default="")
    resource_type: int = field(INT8, "0+", default=0)
    resource_name: str = field(STRING, "0+", default="")
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult, "0+", factory=list)


@message(ApiKey.DESCRIBE_CONFIGS, "response", versions="1-4", flexible="4+")
class DescribeConfigsResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult, "0+", factory=list)
