"""DescribeClientQuotas: the quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    BOOL,
    FLOAT64,
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
class ComponentData(Struct):
    entity_type: str = field(STRING, "0+", default="")
    match_type: int = field(INT8, "0+", default=0)
    match: str | None = field(STRING, "0+", nullable="0+", default="")


@message(ApiKey.DESCRIBE_CLIENT_QUOTAS, "request", versions="0-1", flexible="1+")
class DescribeClientQuotasRequest(Message):
    components: list[ComponentData] = array(ComponentData, "0+", factory=list)
    strict: bool = field(BOOL, "0+", default=False)


@structure
class EntityData(Struct):
    entity_type: str = field(STRING, "0+", default="")
    entity_name: str | None = field(STRING, "0+", nullable="0+", default="")


@structure
class ValueData(Struct):
    key: str = field(STRING, "0+", default="")
    value: float = field(FLOAT64, "0+", default=0.0)


@structure
class EntryData(Struct):
    entity: list[EntityData] = array(EntityData, "0+", factory=list)
    values: list[ValueData] = array(ValueData, "0+", factory=list)


@message(ApiKey.DESCRIBE_CLIENT_QUOTAS, "response", versions="0-1", flexible="1+")
class DescribeClientQuotasResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default="")
    entries: list[EntryData] | None = array(EntryData, "0+", nullable="0+", factory=list)
