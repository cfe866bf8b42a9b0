"""Bytes of transactions as the classes of Kafka 2.0.0 wrote them: requests without header, records of the log."""

from __future__ import annotations

import pytest

from pyconsumer.errors import ProtocolError
from pyconsumer.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pyconsumer.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pyconsumer.protocol.messages.end_txn import EndTxnRequest
from pyconsumer.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pyconsumer.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pyconsumer.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pyconsumer.protocol.schema import Message
from pyconsumer.protocol.transaction_topic import (
    PartitionsSchema,
    TransactionLogValue,
    decode_key,
    decode_value,
    encode_key,
)

_TIME = 1538843128354
_ID = "transactionalId"
_ID_HEX = "000f7472616e73616374696f6e616c4964"
_SINK = "000a746f7069632d73696e6b0000000100000000"


def _commit(version: int) -> TxnOffsetCommitRequest:
    offset = TxnOffsetCommitRequestPartition(0, 43, -1, "")
    members = {"generation_id_or_member_epoch": 4, "member_id": "m", "group_instance_id": "i"} if version >= 3 else {}
    topics = [TxnOffsetCommitRequestTopic("topic-source", partitions=[offset])]
    return TxnOffsetCommitRequest(_ID, "groupId", 1000, 0, topics=topics, **members)


REQUESTS: list[tuple[str, Message, int, str]] = [
    ("transactions:VEC-23", InitProducerIdRequest(_ID, 60_000), 0, _ID_HEX + "0000ea60"),
    ("transactions:VEC-24", InitProducerIdRequest(None, 2**31 - 1), 0, "ffff7fffffff"),
    (
        "transactions:VEC-25",
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=_ID,
            v3_and_below_producer_id=1000,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[AddPartitionsToTxnTopic("topic-sink", [0])],
        ),
        0,
        _ID_HEX + "00000000000003e80000" + "00000001" + _SINK,
    ),
    (
        "transactions:VEC-26",
        AddOffsetsToTxnRequest(_ID, 1000, 0, "groupId"),
        0,
        _ID_HEX + "00000000000003e80000000767726f75704964",
    ),
    (
        "transactions:VEC-27",
        _commit(0),
        0,
        _ID_HEX + "000767726f7570496400000000000003e8000000000001000c746f7069632d736f75726365"
        "0000000100000000000000000000002b0000",
    ),
    ("transactions:VEC-28", EndTxnRequest(_ID, 1000, 0, True), 0, _ID_HEX + "00000000000003e8000001"),
    ("transactions:VEC-29", EndTxnRequest(_ID, 1000, 0, False), 0, _ID_HEX + "00000000000003e8000000"),
    # Version 0 of WriteTxnMarkers is gone from Kafka 4: its first fields are those of version 1, with other lengths.
    (
        "transactions:VEC-30",
        WriteTxnMarkersRequest([WritableTxnMarker(1000, 0, True, [WritableTxnMarkerTopic("topic-sink", [0])], 5)]),
        1,
        "02" + "00000000000003e8" + "0000" + "01" + "02" + "0b746f7069632d73696e6b" + "0200000000" + "00" + "00000005"
        "00" + "00",
    ),
    ("transactions:TXR-08", InitProducerIdResponse(0, 48, -1, 0), 0, "000000000030ffffffffffffffff0000"),
]


@pytest.mark.parametrize(("item", "message", "version", "expected"), REQUESTS, ids=[item[0] for item in REQUESTS])
def test_a_message_is_written_and_read(item: str, message: Message, version: int, expected: str) -> None:
    data = message.encode(version)
    assert data.hex() == expected
    assert type(message).decode(data, version).encode(version) == data


def test_later_versions_name_the_member_and_the_transaction_version() -> None:
    read = TxnOffsetCommitRequest.decode(_commit(3).encode(3), 3)
    assert (read.generation_id_or_member_epoch, read.member_id, read.group_instance_id) == (4, "m", "i")
    marker = WritableTxnMarker(1000, 1, True, [WritableTxnMarkerTopic("topic-sink", [0])], 5, transaction_version=2)
    assert WriteTxnMarkersRequest.decode(WriteTxnMarkersRequest([marker]).encode(2), 2).markers == [marker]


def test_the_key_of_a_transactional_id() -> None:
    assert encode_key(_ID).hex() == "0000000f7472616e73616374696f6e616c4964"
    assert decode_key(encode_key(_ID)) == _ID


_EMPTY = TransactionLogValue(
    producer_id=1000,
    producer_epoch=0,
    transaction_timeout_ms=60_000,
    transaction_status=0,
    transaction_partitions=None,
    transaction_last_update_timestamp_ms=_TIME,
    transaction_start_timestamp_ms=-1,
)
_ONGOING = TransactionLogValue(
    producer_id=1000,
    producer_epoch=0,
    transaction_timeout_ms=60_000,
    transaction_status=1,
    transaction_partitions=[PartitionsSchema("topic-sink", [0]), PartitionsSchema("__consumer_offsets", [18])],
    transaction_last_update_timestamp_ms=_TIME,
    transaction_start_timestamp_ms=_TIME,
)
VALUES = [
    (
        "transactions:VEC-10",
        _EMPTY,
        "000000000000000003e800000000ea6000ffffffff000001664a32b222ffffffffffffffff",
    ),
    (
        "transactions:VEC-11",
        _ONGOING,
        (
            "000000000000000003e800000000ea600100000002000a746f7069632d73696e6b000000010000000000125f5f636f6e73756d65725f6f"
            "6666736574730000000100000012000001664a32b222000001664a32b222"
        ),
    ),
]


@pytest.mark.parametrize(("item", "value", "expected"), VALUES, ids=[item[0] for item in VALUES])
def test_the_value_of_a_state(item: str, value: TransactionLogValue, expected: str) -> None:
    assert value.encode_with_version(0).hex() == expected
    assert decode_value(bytes.fromhex(expected)) == value


def test_a_value_of_an_unknown_version_is_rejected() -> None:
    with pytest.raises(ProtocolError, match="not 2"):
        decode_value(b"\0\2" + bytes(40))
