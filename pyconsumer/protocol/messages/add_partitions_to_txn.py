"""AddPartitionsToTxn: add partitions to a transaction (KIP-98, KIP-890)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    BOOL,
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


@structure
class AddPartitionsToTxnTopic(Struct):
    name: str = field(STRING, "0+", default="")
    partitions: list[int] = array(INT32, "0+", factory=list)


@structure
class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = field(STRING, "4+", default="")
    producer_id: int = field(INT64, "4+", default=0)
    producer_epoch: int = field(INT16, "4+", default=0)
    verify_only: bool = field(BOOL, "4+", default=False)
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+", factory=list)


@message(ApiKey.ADD_PARTITIONS_TO_TXN, "request", versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest(Message):
    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+", factory=list)
    v3_and_below_transactional_id: str = field(STRING, "0-3", default="")
    v3_and_below_producer_id: int = field(INT64, "0-3", default=0)
    v3_and_below_producer_epoch: int = field(INT16, "0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3", factory=list)


@structure
class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    partition_error_code: int = field(INT16, "0+", default=0)


@structure
class AddPartitionsToTxnTopicResult(Struct):
    name: str = field(STRING, "0+", default="")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(
        AddPartitionsToTxnPartitionResult, "0+", factory=list
    )


@structure
class AddPartitionsToTxnResult(Struct):
    transactional_id: str = field(STRING, "4+", default="")
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "4+", factory=list)


@message(ApiKey.ADD_PARTITIONS_TO_TXN, "response", versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse(Message):
    throttle_time_ms: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "4+", default=0, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, "4+", factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "0-3", factory=list
    )
