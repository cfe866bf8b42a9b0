"""Bytes of groups and offsets as the classes of Kafka 2.0.0 wrote them: requests without header, records of the log."""

from __future__ import annotations

import pytest

from pyconsumer.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pyconsumer.protocol.consumer_protocol import TopicPartition as AssignedTopic
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pyconsumer.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pyconsumer.protocol.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_key,
    encode_offset_key,
)
from pyconsumer.protocol.schema import Message

SUBSCRIPTION = ConsumerProtocolSubscription(topics=["t0"], user_data=b"").encode_with_version(0)
ASSIGNMENT = ConsumerProtocolAssignment(
    assigned_partitions=[AssignedTopic(topic="t0", partitions=[0])], user_data=b""
).encode_with_version(0)
COMMITTED_AT, EXPIRES_AT = 1538843128354, 1539447928354

REQUESTS: list[tuple[str, Message, int, str]] = [
    (
        "transactions:VEC-16",
        FindCoordinatorRequest(key="transactionalId", key_type=1),
        1,
        "000f7472616e73616374696f6e616c496401",
    ),
    (
        "transactions:VEC-17",
        JoinGroupRequest(
            group_id="groupId",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=300_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        ),
        2,
        (
            "000767726f7570496400002710000493e000000008636f6e73756d65720000000100057261"
            "6e67650000000e0000000000010002743000000000"
        ),
    ),
    (
        "transactions:VEC-18",
        SyncGroupRequest(
            group_id="groupId",
            generation_id=1,
            member_id="C0-1",
            assignments=[SyncGroupRequestAssignment(member_id="C0-1", assignment=ASSIGNMENT)],
        ),
        1,
        (
            "000767726f7570496400000001000443302d3100000001000443302d31000000160000000000010002743000000001000000000000"
            "0000"
        ),
    ),
    (
        "transactions:VEC-19",
        SyncGroupRequest(group_id="groupId", generation_id=1, member_id="C1-1"),
        1,
        "000767726f7570496400000001000443312d3100000000",
    ),
    (
        "transactions:VEC-20",
        HeartbeatRequest(group_id="groupId", generation_id=1, member_id="C0-1"),
        1,
        "000767726f7570496400000001000443302d31",
    ),
]


@pytest.mark.parametrize(("item", "request_", "version", "expected"), REQUESTS, ids=[item[0] for item in REQUESTS])
def test_a_request_is_written_and_read(item: str, request_: Message, version: int, expected: str) -> None:
    data = request_.encode(version)
    assert data.hex() == expected
    assert type(request_).decode(data, version).encode(version) == data


def test_keys_of_the_offsets_topic() -> None:
    offset = encode_offset_key("consumerGroupId", "topic-offsets", 30)
    assert offset.hex() == "0001000f636f6e73756d657247726f75704964000d746f7069632d6f6666736574730000001e"
    assert decode_key(offset) == OffsetCommitKey(group="consumerGroupId", topic="topic-offsets", partition=30)
    group = encode_group_key("consumerGroupId")
    assert group.hex() == "0002000f636f6e73756d657247726f75704964"
    assert decode_key(group) == GroupMetadataKey(group="consumerGroupId")


def test_an_offset_with_an_expiry() -> None:
    value = OffsetCommitValue(
        offset=2130, metadata="", commit_timestamp=COMMITTED_AT, expire_timestamp=EXPIRES_AT, leader_epoch=-1
    )
    data = value.encode_with_version(1)
    assert data.hex() == "000100000000000008520000000001664a32b222000001666e3f3622"
    assert decode_offset_value(data) == value


MEMBER = MemberMetadata(
    member_id="C0-1",
    client_id="C0",
    client_host="/127.0.0.1",
    rebalance_timeout=300_000,
    session_timeout=10_000,
    subscription=SUBSCRIPTION,
    assignment=ASSIGNMENT,
)
GROUPS = [
    (
        "transactions:VEC-07",
        GroupMetadataValue(protocol_type="consumer", generation=1, protocol="range", leader="C0-1", members=[MEMBER]),
        (
            "00010008636f6e73756d657200000001000572616e6765000443302d3100000001000443302d3100024330000a2f3132372e302e302e31"
            "000493e0000027100000000e00000000000100027430000000000000001600000000000100027430000000010000000000000000"
        ),
    ),
    (
        "transactions:VEC-08",
        GroupMetadataValue(protocol_type="consumer", generation=2, protocol=None, leader=None),
        "00010008636f6e73756d657200000002ffffffff00000000",
    ),
]


@pytest.mark.parametrize(("item", "value", "expected"), GROUPS, ids=["of one member", "empty"])
def test_a_registration(item: str, value: GroupMetadataValue, expected: str) -> None:
    data = value.encode_with_version(1)
    assert data.hex() == expected
    read = decode_group_value(data)
    assert read.encode_with_version(1) == data
    assert [member.member_id for member in read.members] == [member.member_id for member in value.members]
