"""AlterClientQuotas: set and remove quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    BOOL,
    FLOAT64,
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
class EntityData(Struct):
    entity_type: str = field(STRING, "0+", default="")
    entity_name: str | None = field(STRING, "0+", nullable="0+", default="")


@structure
class OpData(Struct):
    key: str = field(STRING, "0+", default="")
    value: float = field(FLOAT64, "0+", default=0.0)
    remove: bool = field(BOOL, "0+", default=False)


@structure
class EntryData(Struct):
    entity: list[EntityData] = array(EntityData, "0+", factory=list)
    ops: list[OpData] = array(OpData, "0+", factory=list)


@message(ApiKey.ALTER_CLIENT_QUOTAS, "request", versions="0-1", flexible="1+")
class AlterClientQuotasRequest(Message):
    entries: list[EntryData] = array(EntryData, "0+", factory=list)
    validate_only: bool = field(BOOL, "0+", default=False)


@structure
class EntryResult(Struct):
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default="")
    entity: list[EntityData] = array(EntityData, "0+", factory=list)


@message(ApiKey.ALTER_CLIENT_QUOTAS, "response", versions="0-1", flexible="1+")
class AlterClientQuotasResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    entries: list[EntryResult] = array(EntryResult, "0+", factory=list)
