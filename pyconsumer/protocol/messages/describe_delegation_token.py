"""DescribeDelegationToken: the delegation tokens of owners (KIP-48)."""

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
class DescribeDelegationTokenOwner(Struct):
    principal_type: str = field(STRING, "0+", default="")
    principal_name: str = field(STRING, "0+", default="")


@message(ApiKey.DESCRIBE_DELEGATION_TOKEN, "request", versions="1-3", flexible="2+")
class DescribeDelegationTokenRequest(Message):
    owners: list[DescribeDelegationTokenOwner] | None = array(
        DescribeDelegationTokenOwner, "0+", nullable="0+", factory=list
    )


@structure
class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = field(STRING, "0+", default="")
    principal_name: str = field(STRING, "0+", default="")


@structure
class DescribedDelegationToken(Struct):
    principal_type: str = field(STRING, "0+", default="")
    principal_name: str = field(STRING, "0+", default="")
    token_requester_principal_type: str = field(STRING, "3+", default="")
    token_requester_principal_name: str = field(STRING, "3+", default="")
    issue_timestamp: int = field(INT64, "0+", default=0)
    expiry_timestamp: int = field(INT64, "0+", default=0)
    max_timestamp: int = field(INT64, "0+", default=0)
    token_id: str = field(STRING, "0+", default="")
    hmac: bytes = field(BYTES, "0+", default=b"")
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer, "0+", factory=list)


@message(ApiKey.DESCRIBE_DELEGATION_TOKEN, "response", versions="1-3", flexible="2+")
class DescribeDelegationTokenResponse(Message):
    error_code: int = field(INT16, "0+", default=0)
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken, "0+", factory=list)
    throttle_time_ms: int = field(INT32, "0+", default=0)
