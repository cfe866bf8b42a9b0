"""CreateDelegationToken: a token by which programs log in for a user (KIP-48)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    BYTES,
    INT16,
    INT32,
    INT64,
    STRING,
    Message,
    Struct,
    array,
    field,
    message,
    structure,
)


@structure
class CreatableRenewers(Struct):
    principal_type: str = field(STRING, "0+", default="")
    principal_name: str = field(STRING, "0+", default="")


@message(ApiKey.CREATE_DELEGATION_TOKEN, "request", versions="1-3", flexible="2+")
class CreateDelegationTokenRequest(Message):
    owner_principal_type: str | None = field(STRING, "3+", nullable="3+", default="")
    owner_principal_name: str | None = field(STRING, "3+", nullable="3+", default="")
    renewers: list[CreatableRenewers] = array(CreatableRenewers, "0+", factory=list)
    max_lifetime_ms: int = field(INT64, "0+", default=0)


@message(ApiKey.CREATE_DELEGATION_TOKEN, "response", versions="1-3", flexible="2+")
class CreateDelegationTokenResponse(Message):
    error_code: int = field(INT16, "0+", default=0)
    principal_type: str = field(STRING, "0+", default="")
    principal_name: str = field(STRING, "0+", default="")
    token_requester_principal_type: str = field(STRING, "3+", default="")
    token_requester_principal_name: str = field(STRING, "3+", default="")
    issue_timestamp_ms: int = field(INT64, "0+", default=0)
    expiry_timestamp_ms: int = field(INT64, "0+", default=0)
    max_timestamp_ms: int = field(INT64, "0+", default=0)
    token_id: str = field(STRING, "0+", default="")
    hmac: bytes = field(BYTES, "0+", default=b"")
    throttle_time_ms: int = field(INT32, "0+", default=0)
