"""SaslHandshake: choose the SASL mechanism."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    INT16,
    STRING,
    Message,
    array,
    field,
    message,
)


@message(ApiKey.SASL_HANDSHAKE, "request", versions="0-1", flexible="none")
class SaslHandshakeRequest(Message):
    mechanism: str = field(STRING, "0+", default="")


@message(ApiKey.SASL_HANDSHAKE, "response", versions="0-1", flexible="none")
class SaslHandshakeResponse(Message):
    error_code: int = field(INT16, "0+", default=0)
    mechanisms: list[str] = array(STRING, "0+", factory=list)
