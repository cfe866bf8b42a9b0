"""RenewDelegationToken: a later end of a delegation token (KIP-48)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import BYTES, INT16, INT32, INT64, Message, field, message


@message(ApiKey.RENEW_DELEGATION_TOKEN, "request", versions="1-2", flexible="2+")
class RenewDelegationTokenRequest(Message):
    hmac: bytes = field(BYTES, "0+", default=b"")
    renew_period_ms: int = field(INT64, "0+", default=0)


@message(ApiKey.RENEW_DELEGATION_TOKEN, "response", versions="1-2", flexible="2+")
class RenewDelegationTokenResponse(Message):
    error_code: int = field(INT16, "0+", default=0)
    expiry_timestamp_ms: int = field(INT64, "0+", default=0)
    throttle_time_ms: int = field(INT32, "0+", default=0)
