"""EndTxn: commit or abort a transaction (KIP-98, KIP-890)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    STRING,
    Message,
    field,
    message,
)


@message(ApiKey.END_TXN, "request", versions="0-5", flexible="3+")
class EndTxnRequest(Message):
    transactional_id: str = field(STRING, "0+", default="")
    producer_id: int = field(INT64, "0+", default=0)
    producer_epoch: int = field(INT16, "0+", default=0)
    committed: bool = field(BOOL, "0+", default=False)


@message(ApiKey.END_TXN, "response", versions="0-5", flexible="3+")
class EndTxnResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    producer_id: int = field(INT64, "5+", default=-1, ignorable=True)
    producer_epoch: int = field(INT16, "5+", default=-1, ignorable=True)
