"""AddOffsetsToTxn: add the offsets of a group to a transaction (KIP-98)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    INT16,
    INT32,
    INT64,
    STRING,
    Message,
    field,
    message,
)


@message(ApiKey.ADD_OFFSETS_TO_TXN, "request", versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest(Message):
    transactional_id: str = field(STRING, "0+", default="")
    producer_id: int = field(INT64, "0+", default=0)
    producer_epoch: int = field(INT16, "0+", default=0)
    group_id: str = field(STRING, "0+", default="")


@message(ApiKey.ADD_OFFSETS_TO_TXN, "response", versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
