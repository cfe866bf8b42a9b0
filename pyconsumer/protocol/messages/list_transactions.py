"""ListTransactions: the transactions that a coordinator knows (KIP-664, KIP-994, KIP-1152)."""

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


@message(ApiKey.LIST_TRANSACTIONS, "request", versions="0-2", flexible="0+")
class ListTransactionsRequest(Message):
    state_filters: list[str] = array(STRING, "0+", factory=list)
    producer_id_filters: list[int] = array(INT64, "0+", factory=list)
    duration_filter: int = field(INT64, "1+", default=-1)
    transactional_id_pattern: str | None = field(STRING, "2+", nullable="2+", default=None)


@structure
class TransactionState(Struct):
    transactional_id: str = field(STRING, "0+", default="")
    producer_id: int = field(INT64, "0+", default=0)
    transaction_state: str = field(STRING, "0+", default="")


@message(ApiKey.LIST_TRANSACTIONS, "response", versions="0-2", flexible="0+")
class ListTransactionsResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)
    unknown_state_filters: list[str] = array(STRING, "0+", factory=list)
    transaction_states: list[TransactionState] = array(TransactionState, "0+", factory=list)
