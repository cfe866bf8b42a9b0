"""Keys and values of ``__transaction_state``."""

from __future__ import annotations

from pyconsumer.protocol.schema import (
    INT8,
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


@message(0, "data", versions="0", flexible="none")
class TransactionLogKey(Message):
    transactional_id: str = field(STRING, "0", default="")


@structure
class PartitionsSchema(Struct):
    topic: str = field(STRING, "0+", default="")
    partition_ids: list[int] = array(INT32, "0+", factory=list)


@message(-1, "data", versions="0-1", flexible="1+")
class TransactionLogValue(Message):
    producer_id: int = field(INT64, "0+", default=0)
    previous_producer_id: int = field(INT64, "1+", default=-1, tag=0)
    next_producer_id: int = field(INT64, "1+", default=-1, tag=1)
    producer_epoch: int = field(INT16, "0+", default=0)
    next_producer_epoch: int = field(INT16, "1+", default=-1, tag=3)
    transaction_timeout_ms: int = field(INT32, "0+", default=0)
    transaction_status: int = field(INT8, "0+", default=0)
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, "0+", nullable="0+", factory=list)
    transaction_last_update_timestamp_ms: int = field(INT64, "0+", default=0)
    transaction_start_timestamp_ms: int = field(INT64, "0+", default=0)
    client_transaction_version: int = field(INT16, "1+", default=0, tag=2)
