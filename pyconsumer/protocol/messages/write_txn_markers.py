"""WriteTxnMarkers: the transaction coordinator ends a transaction in the partitions (KIP-98)."""

from __future__ import annotations

from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.schema import (
    BOOL,
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


@structure
class WritableTxnMarkerTopic(Struct):
    name: str = field(STRING, "0+", default="")
    partition_indexes: list[int] = array(INT32, "0+", factory=list)


@structure
class WritableTxnMarker(Struct):
    producer_id: int = field(INT64, "0+", default=0)
    producer_epoch: int = field(INT16, "0+", default=0)
    transaction_result: bool = field(BOOL, "0+", default=False)
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic, "0+", factory=list)
    coordinator_epoch: int = field(INT32, "0+", default=0)
    transaction_version: int = field(INT8, "2+", default=0, ignorable=True)


@message(ApiKey.WRITE_TXN_MARKERS, "request", versions="1-2", flexible="1+")
class WriteTxnMarkersRequest(Message):
    markers: list[WritableTxnMarker] = array(WritableTxnMarker, "0+", factory=list)


@structure
class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = field(INT32, "0+", default=0)
    error_code: int = field(INT16, "0+", default=0)


@structure
class WritableTxnMarkerTopicResult(Struct):
    name: str = field(STRING, "0+", default="")
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult, "0+", factory=list)


@structure
class WritableTxnMarkerResult(Struct):
    producer_id: int = field(INT64, "0+", default=0)
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult, "0+", factory=list)


@message(ApiKey.WRITE_TXN_MARKERS, "response", versions="1-2", flexible="1+")
class WriteTxnMarkersResponse(Message):
    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult, "0+", factory=list)
