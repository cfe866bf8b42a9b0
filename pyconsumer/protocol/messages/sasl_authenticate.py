"""SaslAuthenticate: one step of a SASL exchange (KIP-152), with the session's lifetime (KIP-368)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    BYTES,
    INT16,
    INT64,
    STRING,
    Message,
    field,
    message,
)


@message(ApiKey.SASL_AUTHENTICATE, "request", versions="0-2", flexible="2+")
class SaslAuthenticateRequest(Message):
    auth_bytes: bytes = field(BYTES, "0+", default=b"")


@message(ApiKey.SASL_AUTHENTICATE, "response", versions="0-2", flexible="2+")
class SaslAuthenticateResponse(Message):
    error_code: int = field(INT16, "0+", default=0)
    error_message: str | None = field(STRING, "0+", nullable="0+", default="")
    auth_bytes: bytes = field(BYTES, "0+", default=b"")
    session_lifetime_ms: int = field(INT64, "1+", default=0, ignorable=True)
