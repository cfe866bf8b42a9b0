"""InitProducerId: get a producer id and epoch (KIP-98, KIP-360)."""

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


@message(ApiKey.INIT_PRODUCER_ID, "request", versions="0-5", flexible="2+")
class InitProducerIdRequest(Message):
    transactional_id: str | None = field(STRING, "0+", nullable="0+", default="")
    transaction_timeout_ms: int = field(INT32, "0+", default=0)
    producer_id: int = field(INT64, "3+", default=-1)
    producer_epoch: int = field(INT16, "3+", default=-1)
    enable2_pc: bool = field(BOOL, "6+", default=False)
    keep_prepared_txn: bool = field(BOOL, "6+", default=False)


@message(ApiKey.INIT_PRODUCER_ID, "response", versions="0-5", flexible="2+")
class InitProducerIdResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0, ignorable=True)
    error_code: int = field(INT16, "0+", default=0)
    producer_id: int = field(INT64, "0+", default=-1)
    producer_epoch: int = field(INT16, "0+", default=0)
    ongoing_txn_producer_id: int = field(INT64, "6+", default=-1)
    ongoing_txn_producer_epoch: int = field(INT16, "6+", default=-1)
