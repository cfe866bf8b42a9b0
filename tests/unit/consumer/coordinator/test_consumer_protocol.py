"""The blobs of subscription and assignment: bytes of Apache Kafka, all versions, newer ones, damaged ones."""

from __future__ import annotations

import pytest

from pyconsumer.errors import ProtocolError
from pyconsumer.protocol.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    owned_partitions,
)
from pyconsumer.structs import TopicPartition

T0P0, T0P1, T1P0 = TopicPartition("t0", 0), TopicPartition("t0", 1), TopicPartition("t1", 0)
VEC_12 = bytes.fromhex("000000000002000274300002743100000000")
VEC_13 = bytes.fromhex("0000000000020002743000000002000000000000000100027431000000010000000000000000")


def test_version_0_has_the_bytes_that_kafka_writes() -> None:
    assert encode_subscription(["t1", "t0"], b"", version=0) == VEC_12
    assert encode_assignment([T0P0, T0P1, T1P0], b"", version=0) == VEC_13
    assert decode_assignment(VEC_13) == ([T0P0, T0P1, T1P0], b"")
    assert decode_subscription(VEC_12).topics == ["t0", "t1"]


@pytest.mark.parametrize("version", range(4))
def test_each_version_carries_its_fields(version: int) -> None:
    data = encode_subscription(["t1", "t0"], None, [T1P0, T0P1, T0P0], 7, "rack", version=version)
    assert int.from_bytes(data[:2], "big") == version
    read = decode_subscription(data)
    assert read.topics == ["t0", "t1"]
    assert read.user_data is None
    assert owned_partitions(read) == ([T0P0, T0P1, T1P0] if version >= 1 else [])
    assert read.generation_id == (7 if version >= 2 else -1)
    assert read.rack_id == ("rack" if version >= 3 else None)
    assert decode_assignment(encode_assignment([T1P0, T0P0], version=version)) == ([T1P0, T0P0], None)


def test_equal_subscriptions_give_equal_bytes() -> None:
    """The coordinator rebalances when a member's metadata changes, so it must not depend on an unstable order."""
    assert encode_subscription({"b", "a"}, None, {T1P0, T0P0}) == encode_subscription(["a", "b"], None, [T0P0, T1P0])


def test_newer_versions_are_read_as_our_newest() -> None:
    newer = (9).to_bytes(2, "big") + encode_subscription(["t"], b"x", [T0P0], 3, "r")[2:] + b"more"
    assert decode_subscription(newer).rack_id == "r"
    newer = (9).to_bytes(2, "big") + encode_assignment([T0P0])[2:] + b"more"
    assert decode_assignment(newer) == ([T0P0], None)


def test_no_bytes_are_no_partitions() -> None:
    assert decode_assignment(b"") == ([], None)


def test_user_data_may_be_null_or_empty() -> None:
    for user_data in (None, b"", b"x"):
        assert decode_subscription(encode_subscription(["t"], user_data)).user_data == user_data
        assert decode_assignment(encode_assignment([], user_data)) == ([], user_data)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff" + VEC_12[2:], VEC_12[:9], b"\x00\x00\x7f\xff\xff\xff"])
def test_damaged_bytes_are_protocol_errors(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_subscription(data)
    if data:
        with pytest.raises(ProtocolError):
            decode_assignment(data)
