"""Requests, responses and records of groups, field by field: bytes written by hand, in the lists' order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from pyconsumer.protocol.messages.offset_commit import OffsetCommitRequest
from pyconsumer.protocol.messages.sync_group import SyncGroupRequest
from pyconsumer.protocol.offsets_topic import GroupMetadataValue
from pyconsumer.protocol.schema import Message


def string(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else len(text).to_bytes(2, "big") + text.encode()


def data(value: bytes) -> bytes:
    return len(value).to_bytes(4, "big") + value


def int16(value: int) -> bytes:
    return value.to_bytes(2, "big", signed=True)


def int32(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def int64(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


class Field(NamedTuple):
    """One field: its requirement id, its bytes, its place in the decoded value, and the value there."""

    spec_id: str
    encoded: bytes
    where: Callable[[Any], Any]
    value: Any


JOIN = [
    Field("transactions:JGR-01a", string("g"), lambda m: m.group_id, "g"),
    Field("transactions:JGR-01b", int32(10_000), lambda m: m.session_timeout_ms, 10_000),
    Field("transactions:JGR-01c", int32(300_000), lambda m: m.rebalance_timeout_ms, 300_000),
    Field("transactions:JGR-01d", string(""), lambda m: m.member_id, ""),
    Field("transactions:JGR-01e", string("consumer"), lambda m: m.protocol_type, "consumer"),
    Field("transactions:JGR-01f", int32(1), lambda m: len(m.protocols), 1),
    Field("transactions:JGR-01g", string("range"), lambda m: m.protocols[0].name, "range"),
    Field("transactions:JGR-01h", data(b"\0\0blob"), lambda m: m.protocols[0].metadata, b"\0\0blob"),
]
JOINED = [
    Field("transactions:JGR-40a", int32(5), lambda m: m.throttle_time_ms, 5),
    Field("transactions:JGR-40b", int16(0), lambda m: m.error_code, 0),
    Field("transactions:JGR-40c", int32(3), lambda m: m.generation_id, 3),
    Field("transactions:JGR-40d", string("range"), lambda m: m.protocol_name, "range"),
    Field("transactions:JGR-40e", string("m1"), lambda m: m.leader, "m1"),
    Field("transactions:JGR-40f", string("m2"), lambda m: m.member_id, "m2"),
    Field(
        "transactions:JGR-40g",
        int32(1) + string("m1") + data(b"blob"),
        lambda m: [(one.member_id, one.metadata) for one in m.members],
        [("m1", b"blob")],
    ),
]
SYNC = [
    Field("transactions:SGR-03a", string("g"), lambda m: m.group_id, "g"),
    Field("transactions:SGR-03b", int32(3), lambda m: m.generation_id, 3),
    Field("transactions:SGR-03c", string("m1"), lambda m: m.member_id, "m1"),
    Field(
        "transactions:SGR-03d",
        int32(1) + string("m1") + data(b"plan"),
        lambda m: [(one.member_id, one.assignment) for one in m.assignments],
        [("m1", b"plan")],
    ),
]
COMMIT = [
    Field("transactions:OCM-01a", string("g"), lambda m: m.group_id, "g"),
    Field("transactions:OCM-01b", int32(-1), lambda m: m.generation_id_or_member_epoch, -1),
    Field("transactions:OCM-01c", string(""), lambda m: m.member_id, ""),
    Field("transactions:OCM-01d", int64(-1), lambda m: m.retention_time_ms, -1),
    Field("transactions:OCM-01e", int32(1), lambda m: len(m.topics), 1),
    Field("transactions:OCM-01f", string("t"), lambda m: m.topics[0].name, "t"),
    Field("transactions:OCM-01g", int32(1), lambda m: len(m.topics[0].partitions), 1),
    Field("transactions:OCM-01h", int32(7), lambda m: m.topics[0].partitions[0].partition_index, 7),
    Field("transactions:OCM-01i", int64(42), lambda m: m.topics[0].partitions[0].committed_offset, 42),
    Field("transactions:OCM-01j", string(None), lambda m: m.topics[0].partitions[0].committed_metadata, None),
]
REGISTRATION = [
    Field("transactions:GMD-04a", string("consumer"), lambda m: m.protocol_type, "consumer"),
    Field("transactions:GMD-04b", int32(3), lambda m: m.generation, 3),
    Field("transactions:GMD-04c", string(None), lambda m: m.protocol, None),
    Field("transactions:GMD-04d", string(None), lambda m: m.leader, None),
    Field("transactions:GMD-04e", int32(1), lambda m: len(m.members), 1),
    Field("transactions:GMD-04f", string("m1"), lambda m: m.members[0].member_id, "m1"),
    Field("transactions:GMD-04g", string("c"), lambda m: m.members[0].client_id, "c"),
    Field("transactions:GMD-04h", string("/127.0.0.1"), lambda m: m.members[0].client_host, "/127.0.0.1"),
    Field("transactions:GMD-04i", int32(300_000), lambda m: m.members[0].rebalance_timeout, 300_000),
    Field("transactions:GMD-04j", int32(10_000), lambda m: m.members[0].session_timeout, 10_000),
    Field("transactions:GMD-04k", data(b"topics"), lambda m: m.members[0].subscription, b"topics"),
    Field("transactions:GMD-04l", data(b"plan"), lambda m: m.members[0].assignment, b"plan"),
]

MESSAGES: list[tuple[type[Message], int, list[Field]]] = [
    (JoinGroupRequest, 2, JOIN),
    (JoinGroupResponse, 3, JOINED),
    (SyncGroupRequest, 1, SYNC),
    (OffsetCommitRequest, 3, COMMIT),
    (GroupMetadataValue, 1, REGISTRATION),
]
ROWS = [(message, version, fields, field) for message, version, fields in MESSAGES for field in fields]


@pytest.mark.parametrize(("message", "version", "fields", "field"), ROWS, ids=[row[3].spec_id for row in ROWS])
def test_each_field_is_at_its_place(message: type[Message], version: int, fields: list[Field], field: Field) -> None:
    encoded = b"".join(one.encoded for one in fields)
    decoded = message.decode(encoded, version)
    assert field.where(decoded) == field.value
    assert decoded.encode(version) == encoded


def test_the_whole_messages() -> None:
    for message, version, fields in MESSAGES:
        decoded = message.decode(b"".join(one.encoded for one in fields), version)
        assert [one.where(decoded) for one in fields] == [one.value for one in fields]
    two = int32(2) + string("range") + data(b"one") + string("sticky") + data(b"other")
    head = b"".join(one.encoded for one in JOIN[:5])
    protocols = JoinGroupRequest.decode(head + two, 2).protocols
    assert [(one.name, one.metadata) for one in protocols] == [("range", b"one"), ("sticky", b"other")]
