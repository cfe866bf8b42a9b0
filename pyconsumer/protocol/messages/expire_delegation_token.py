"""ExpireDelegationToken: an earlier end of a delegation token (KIP-48)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import BYTES, INT16, INT32, INT64, Message, field, message


@message(ApiKey.EXPIRE_DELEGATION_TOKEN, "request", versions="1-2", flexible="2+")
class ExpireDelegationTokenRequest(Message):
    hmac: bytes = field(BYTES, "0+", default=b"")
    expiry_time_period_ms: int = field(INT64, "0+", default=0)


@message(ApiKey.EXPIRE_DELEGATION_TOKEN, "response", versions="1-2", flexible="2+")
class ExpireDelegationTokenResponse(Message):
    error_code: int = field(INT16, "0+", default=0)
    expiry_timestamp_ms: int = field(INT64, "0+", default=0)
    throttle_time_ms: int = field(INT32, "0+", default=0)
