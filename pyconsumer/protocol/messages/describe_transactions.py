"""DescribeTransactions: state, producer and partitions of transactions (KIP-664)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
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


@message(ApiKey.DESCRIBE_TRANSACTIONS, "request", versions="0", flexible="0+")
class DescribeTransactionsRequest(Message):
    transactional_ids: list[str] = array(STRING, "0+", factory=list)


@structure
class TopicData(Struct):
    topic: str = field(STRING, "0+", default="")
    partitions: list[int] = array(INT32, "0+", factory=list)


@structure
class TransactionState(Struct):
    error_code: int = field(INT16, "0+", default=0)
    transactional_id: str = field(STRING, "0+", default="")
    transaction_state: str = field(STRING, "0+", default="")
    transaction_timeout_ms: int = field(INT32, "0+", default=0)
    transaction_start_time_ms: int = field(INT64, "0+", default=0)
    producer_id: int = field(INT64, "0+", default=0)
    producer_epoch: int = field(INT16, "0+", default=0)
    topics: list[TopicData] = array(TopicData, "0+", factory=list)


@message(ApiKey.DESCRIBE_TRANSACTIONS, "response", versions="0", flexible="0+")
class DescribeTransactionsResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    transaction_states: list[TransactionState] = array(TransactionState, "0+", factory=list)
