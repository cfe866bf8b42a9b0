"""Tests of the place and format of a group's records: the vectors of the list, and Kafka's own bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyconsumer.broker.group.classic.group_metadata import GroupMetadata, GroupState
from pyconsumer.broker.group.classic.records import group_from_value, group_record, group_tombstone
from pyconsumer.broker.group.common.offset_records import (
    committed_offset,
    java_hash,
    offset_record,
    offset_tombstone,
    partition_for,
    utf16_length,
)
from pyconsumer.broker.group.common.offsets import CommittedOffset
from pyconsumer.clock import ManualClock
from pyconsumer.errors import IllegalStateError, ProtocolError
from pyconsumer.protocol import offsets_topic
from pyconsumer.protocol.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
    format_record,
)
from pyconsumer.structs import TopicPartition
from tests.unit.broker.group.support import member

VECTORS = Path(__file__).parents[3] / "vectors" / "offsets_topic.json"


def raw(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


@pytest.mark.parametrize(
    ("group", "hash_code", "partition"),
    [
        ("testgroup", -1172783827, 27),
        ("my-group", -1906497762, 12),
        ("polygenelubricants", -2147483648, 0),
        ("group", 98629247, 47),
        ("g1", 3242, 42),
        ("", 0, 0),
        ("消费", 905393, 43),
        ("😀", 1772899, 49),
    ],
)
def test_routing(group: str, hash_code: int, partition: int) -> None:
    assert java_hash(group) == hash_code
    assert partition_for(group, 50) == partition


@pytest.mark.parametrize(
    ("spec_id", "text", "hash_code", "partition"),
    [
        ("transactions:FCO-EX1", "consumerGroupId", -437965020, 20),
        ("transactions:FCO-EX2", "groupId", 293428218, 18),
        ("transactions:FCO-EX3", "transactionalId", 1263397508, 8),
        ("transactions:FCO-EX4", "transactionId", 448240793, 43),
        ("transactions:FCO-EX5", "polygenelubricants", -2147483648, 0),
        ("transactions:FCO-EX6", "", 0, 0),
        ("broker:RTE-02", "testgroup", -1172783827, 27),
    ],
)
def test_more_routing(spec_id: str, text: str, hash_code: int, partition: int) -> None:
    assert (java_hash(text), partition_for(text, 50)) == (hash_code, partition)


def test_only_the_group_decides_about_the_partition() -> None:
    assert partition_for("consumerGroupId", 50) == 20
    assert partition_for("consumerGroupId", 7) == 437965020 % 7
    assert [java_hash(text) for text in ("", "消费", "😀")] == [0, 905393, 1772899]


KEY_GROUP = raw("0009 7465737467726f7570")


def test_a_registration_key() -> None:
    assert encode_group_key("testgroup") == raw("0002") + KEY_GROUP
    assert decode_key(raw("0002") + KEY_GROUP) == GroupMetadataKey(group="testgroup")
    assert group_tombstone("testgroup") == (raw("0002") + KEY_GROUP, None)


def test_an_offset_key() -> None:
    body = KEY_GROUP + raw("0006 6f7264657273 00000003")
    key = OffsetCommitKey(group="testgroup", topic="orders", partition=3)
    assert encode_offset_key("testgroup", "orders", 3) == raw("0001") + body
    assert decode_key(raw("0001") + body) == key
    assert decode_key(raw("0000") + body) == key
    assert offset_tombstone("testgroup", TopicPartition("orders", 3)) == (raw("0001") + body, None)


def test_unknown_kinds_of_keys_are_recognized() -> None:
    assert decode_key(raw("0003 0001 61")) == UnknownKey(3)
    for wrong in (b"", b"\0", raw("0001 0009 74"), raw("0002 ffff"), raw("0002") + KEY_GROUP + b"x"):
        with pytest.raises(ProtocolError):
            decode_key(wrong)


TIME = 1700000000000


@pytest.mark.parametrize(
    ("version", "value", "encoded"),
    [
        (3, OffsetCommitValue(42, 7, "m", TIME), "0003 000000000000002a 00000007 0001 6d 0000018bcfe56800"),
        (3, OffsetCommitValue(42, -1, "", TIME), "0003 000000000000002a ffffffff 0000 0000018bcfe56800"),
        (2, OffsetCommitValue(42, -1, "m", TIME), "0002 000000000000002a 0001 6d 0000018bcfe56800"),
        (0, OffsetCommitValue(42, -1, "m", TIME), "0000 000000000000002a 0001 6d 0000018bcfe56800"),
        (
            1,
            OffsetCommitValue(42, -1, "m", TIME, TIME + 86_400_000),
            "0001 000000000000002a 0001 6d 0000018bcfe56800 0000018bd50bc400",
        ),
        (1, OffsetCommitValue(42, -1, "m", TIME), "0001 000000000000002a 0001 6d 0000018bcfe56800 ffffffffffffffff"),
    ],
)
def test_offset_values(version: int, value: OffsetCommitValue, encoded: str) -> None:
    assert value.encode_with_version(version) == raw(encoded)
    assert decode_offset_value(raw(encoded)) == value


def test_the_version_that_is_written() -> None:
    tp = TopicPartition("orders", 3)
    plain = CommittedOffset(42, commit_timestamp=TIME)
    key, data = offset_record("testgroup", tp, plain)
    assert key == encode_offset_key("testgroup", "orders", 3)
    assert data is not None
    assert data[:2] == b"\0\4"
    assert committed_offset(decode_offset_value(data)) == plain
    _, expiring = offset_record("testgroup", tp, plain._replace(expire_timestamp=TIME + 5))
    assert expiring is not None
    assert expiring[:2] == b"\0\1"
    assert committed_offset(decode_offset_value(expiring)) == plain._replace(expire_timestamp=TIME + 5)
    assert committed_offset(OffsetCommitValue(1, -5, "", TIME)).leader_epoch == -1


def test_an_unknown_version_of_a_value_is_an_error() -> None:
    for decode in (decode_offset_value, decode_group_value):
        for wrong in (raw("0005 00"), raw("ffff 00"), b"", raw("0003")):
            with pytest.raises(ProtocolError):
                decode(wrong)


MEMBER = "0003 632d31 {instance} 0001 63 0002 2f68 {rebalance} 00002710 00000002 0102 00000001 03"
HEAD = "0008 636f6e73756d6572 00000001 0005 72616e6765 0003 632d31"


def registration(instance: str | None = None, rebalance: int = 300000, timestamp: int = TIME) -> GroupMetadataValue:
    one = offsets_topic.MemberMetadata("c-1", instance, "c", "/h", rebalance, 10000, b"\1\2", b"\3")
    return GroupMetadataValue("consumer", 1, "range", "c-1", timestamp, [one])


@pytest.mark.parametrize(
    ("version", "value", "encoded"),
    [
        (
            3,
            registration(),
            f"0003 {HEAD} 0000018bcfe56800 00000001 {MEMBER.format(instance='ffff', rebalance='000493e0')}",
        ),
        (
            3,
            registration("i1"),
            f"0003 {HEAD} 0000018bcfe56800 00000001 {MEMBER.format(instance='0002 6931', rebalance='000493e0')}",
        ),
        (
            2,
            registration(),
            f"0002 {HEAD} 0000018bcfe56800 00000001 {MEMBER.format(instance='', rebalance='000493e0')}",
        ),
        (
            1,
            registration(timestamp=-1),
            f"0001 {HEAD} 00000001 {MEMBER.format(instance='', rebalance='000493e0')}",
        ),
        (
            0,
            registration(rebalance=-1, timestamp=-1),
            f"0000 {HEAD} 00000001 {MEMBER.format(instance='', rebalance='')}",
        ),
        (
            3,
            GroupMetadataValue("consumer", 2, None, None, TIME, []),
            "0003 0008 636f6e73756d6572 00000002 ffff ffff 0000018bcfe56800 00000000",
        ),
    ],
)
def test_registrations(version: int, value: GroupMetadataValue, encoded: str) -> None:
    assert value.encode_with_version(version) == raw(encoded)
    assert decode_group_value(raw(encoded)) == value


def test_a_group_and_its_registration_are_the_same() -> None:
    clock = ManualClock(wall_ms=TIME)
    group = GroupMetadata("g1", GroupState.EMPTY, clock)
    both = (("range", b"\0\1r"), ("sticky", b"\0\1s"))
    group.add(member("m0", instance="i", protocols=both, rebalance_ms=5, session_ms=6))
    group.add(member("m1", protocols=both))
    group.transition_to(GroupState.PREPARING_REBALANCE)
    group.init_next_generation()
    key, data = group_record(group, {"m0": b"", "m1": b"x"})
    assert key == encode_group_key("g1")
    assert data is not None
    assert data[:2] == b"\0\3"
    again = group_from_value("g1", decode_group_value(data), clock)
    assert (again.state, again.generation_id, again.leader_id, again.protocol_name) == (
        GroupState.STABLE,
        1,
        "m0",
        "range",
    )
    assert again.current_state_timestamp == group.current_state_timestamp
    first, second = again.members.values()
    assert (first.member_id, first.group_instance_id, first.client_id, first.client_host) == ("m0", "i", "c", "/h")
    assert (first.rebalance_timeout_ms, first.session_timeout_ms) == (5, 6)
    assert first.supported_protocols == (("range", b"\0\1r"),)
    assert (first.assignment, second.assignment, second.group_instance_id) == (b"", b"x", None)


def test_a_registration_holds_both_timeouts_of_a_member() -> None:
    group = GroupMetadata("g1", GroupState.EMPTY, ManualClock(wall_ms=TIME))
    group.add(member("m0", rebalance_ms=5, session_ms=6))
    group.transition_to(GroupState.PREPARING_REBALANCE)
    group.init_next_generation()
    _, data = group_record(group, {"m0": b""})
    assert data is not None
    (written,) = decode_group_value(data).members
    assert (written.rebalance_timeout, written.session_timeout) == (5, 6)


def test_optional_and_required_fields_of_a_group_record() -> None:
    clock = ManualClock(wall_ms=TIME)
    group = GroupMetadata("g1", GroupState.EMPTY, clock)
    _, data = group_record(group, {})
    assert data is not None
    assert decode_group_value(data) == GroupMetadataValue("", 0, None, None, TIME, [])
    group.current_state_timestamp = None
    _, data = group_record(group, {})
    assert data is not None
    assert decode_group_value(data).current_state_timestamp == -1
    group.add(member("m0"))
    with pytest.raises(IllegalStateError, match="no protocol"):
        group_record(group, {"m0": b""})
    group.transition_to(GroupState.PREPARING_REBALANCE)
    group.init_next_generation()
    with pytest.raises(IllegalStateError, match="no assignment"):
        group_record(group, {})


def test_reading_old_registrations() -> None:
    clock = ManualClock()
    old = decode_group_value(registration(rebalance=-1, timestamp=-1).encode_with_version(0))
    group = group_from_value("g", old, clock)
    assert group.current_state_timestamp is None
    assert group.get("c-1").rebalance_timeout_ms == 10000
    assert group.get("c-1").supported_protocols == (("range", b"\1\2"),)
    assert group.get("c-1").group_instance_id is None
    nameless = group_from_value("g", GroupMetadataValue("", 3, None, None, -1, []), clock)
    assert (nameless.protocol_type, nameless.state, nameless.current_state_timestamp) == (None, GroupState.EMPTY, None)


def test_java_counts_utf16_units() -> None:
    assert utf16_length("aé消") == 3
    assert utf16_length("😀") == 2
    assert encode_group_value(GroupMetadataValue()) is not None


def test_our_bytes_equal_those_of_kafka() -> None:
    """The file was made by Apache Kafka's own serializer: see OffsetsTopicVectors.java beside it."""
    vectors = json.loads(VECTORS.read_text())
    assert vectors["kafka"] == "4.3.1"
    written = {}
    for name, value in (
        ("offset", CommittedOffset(42, 7, "m", TIME)),
        ("offset without epoch", CommittedOffset(42, -1, "", TIME)),
        ("offset with expiry", CommittedOffset(42, 7, "m", TIME, TIME + 86_400_000)),
        ("offset with topic id", CommittedOffset(42, 7, "m", TIME, None, bytes(range(1, 17)))),
    ):
        written[name] = offset_record("testgroup", TopicPartition("orders", 3), value)
    written["offset tombstone"] = offset_tombstone("testgroup", TopicPartition("orders", 3))
    written["group tombstone"] = group_tombstone("testgroup")
    clock = ManualClock(wall_ms=TIME)
    group = GroupMetadata("testgroup", GroupState.EMPTY, clock)
    group.protocol_type = "consumer"
    group.generation_id = 2
    written["empty group"] = group_record(group, {})
    for name, instance in (("group", None), ("group with a static member", "i1")):
        loaded = group_from_value("testgroup", registration(instance), clock)
        written[name] = group_record(loaded, {"c-1": b"\3"})
    assert {
        name: {"key": key.hex(), "value": value.hex() if value is not None else None}
        for name, (key, value) in written.items()
    } == vectors["records"]


SEED_LINE = "[consumerGroupId,topic-offsets,{}]::[OffsetMetadata[{},NO_METADATA],CommitTime {},ExpirationTime {}]"


@pytest.mark.parametrize(
    ("spec_id", "partition", "offset"),
    [
        ("transactions:DMP-04a", 30, 2130),
        ("transactions:DMP-04b", 8, 2310),
        ("transactions:DMP-04c", 21, 1230),
        ("transactions:DMP-04d", 27, 1230),
        ("transactions:DMP-04e", 9, 1233),
        ("transactions:DMP-04f", 35, 1230),
        ("transactions:DMP-04g", 41, 3210),
        ("transactions:DMP-04h", 33, 1310),
        ("transactions:DMP-04i", 23, 2123),
        ("transactions:DMP-05", 23, 2123),
    ],
)
def test_an_offset_as_text(spec_id: str, partition: int, offset: int) -> None:
    committed, expires = 1538843128354, 1539447928354
    value = encode_offset_value(OffsetCommitValue(offset, -1, "", committed, expires))
    line = format_record(encode_offset_key("consumerGroupId", "topic-offsets", partition), value)
    assert line == SEED_LINE.format(partition, offset, committed, expires)


def test_records_as_text() -> None:
    key = encode_offset_key("g", "t", 1)
    assert format_record(key, None) == "[g,t,1]::NULL"
    line = format_record(key, encode_offset_value(OffsetCommitValue(5, 3, "note", 7)))
    assert line == "[g,t,1]::[OffsetMetadata[5,note],CommitTime 7,ExpirationTime -1]"
    key = encode_group_key("g")
    assert format_record(key, None) == "g::NULL"
    line = format_record(key, encode_group_value(registration()))
    assert line == "g::[g,Some(consumer),Stable,Map(c-1 -> [c-1,c,/h,10000])]"
    assert format_record(key, encode_group_value(GroupMetadataValue())) == "g::[g,None,Empty,Map()]"
    assert format_record(raw("0003 0001 61"), b"") is None
