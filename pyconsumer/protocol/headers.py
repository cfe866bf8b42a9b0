"""Request and response headers, which stand in front of every message; ``api.py`` says which version applies."""

from __future__ import annotations

from pyconsumer.protocol.schema import (
    INT16,
    INT32,
    STRING,
    Message,
    field,
    message,
)


@message(-1, "header", versions="1-2", flexible="2+")
class RequestHeader(Message):
    request_api_key: int = field(INT16, "0+", default=0)
    request_api_version: int = field(INT16, "0+", default=0)
    correlation_id: int = field(INT32, "0+", default=0)
    client_id: str | None = field(STRING, "1+", nullable="1+", default="", compact=False)


@message(-1, "header", versions="0-1", flexible="1+")
class ResponseHeader(Message):
    correlation_id: int = field(INT32, "0+", default=0)
