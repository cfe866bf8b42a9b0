"""Tests of messages between members of a group and its coordinator, field by field: Apache Kafka's own bytes.

Each layout below spells a message out in its pieces. Put together they equal the bytes of Kafka's classes
(``GroupVectors.java``) and our own.
"""

from __future__ import annotations

import copy
import functools
import json
from typing import Any, NamedTuple

import pytest

from pyconsumer.consumer.coordinator.coordinator_discovery import USER
from pyconsumer.consumer.coordinator.heartbeat_thread import leave_request
from pyconsumer.errors import CoordinatorNotAvailableError, UnsupportedVersionError
from pyconsumer.protocol.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    owned_partitions,
)
from pyconsumer.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pyconsumer.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from pyconsumer.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from pyconsumer.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from pyconsumer.protocol.requests.find_coordinator import find_coordinator_request, read_coordinator
from pyconsumer.protocol.schema import Message
from pyconsumer.structs import TopicPartition
from tests.support.java import KafkaTools
from tests.unit.consumer.coordinator.script import NODE, Member
from tests.vectors.make_group import VECTORS, expected


@functools.cache
def _golden() -> dict[tuple[str, str, int], bytes]:
    lines = [json.loads(line) for line in VECTORS.read_text().splitlines()]
    return {(one["message"], one["name"], one["version"]): bytes.fromhex(one["hex"]) for one in lines}


class Piece(NamedTuple):
    """One field: its bytes, its place, another value that it might have, and its requirement ids."""

    encoded: str
    path: tuple[str | int, ...] = ()
    other: Any = None
    spec_ids: tuple[str, ...] = ()


class Layout(NamedTuple):
    """A message as pieces."""

    name: str
    version: int
    message: Message
    pieces: list[Piece]
    spec_ids: tuple[str, ...] = ()


def compact(text: str) -> str:
    """A compact string in hex: its length plus one in a byte, then its bytes."""
    return f"{len(text) + 1:02x}" + text.encode().hex()


TAGS = "00"
PROTOCOLS = [JoinGroupRequestProtocol("range", b"\1\2\3"), JoinGroupRequestProtocol("rr", b"\4")]
FIRST_JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=45_000,
    rebalance_timeout_ms=300_000,
    protocol_type="consumer",
    protocols=PROTOCOLS,
)
MEMBERS = [JoinGroupResponseMember("m1", None, b"\1"), JoinGroupResponseMember("m2", "i", b"\2\3")]
PLAN = [SyncGroupRequestAssignment("m1", b"\1"), SyncGroupRequestAssignment("m2", b"\2\3")]
TWO = [MemberIdentity("m1"), MemberIdentity("", "i")]


def joined(member_id: str, **fields: Any) -> JoinGroupResponse:
    return JoinGroupResponse(
        throttle_time_ms=5,
        generation_id=3,
        protocol_type="consumer",
        protocol_name="range",
        leader="m1",
        member_id=member_id,
        **fields,
    )


def sync(member_id: str, **fields: Any) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id="g",
        generation_id=3,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        **fields,
    )


def with_value(message: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """A copy in which the field at ``path`` has another value."""
    changed = copy.deepcopy(message)
    owner = changed
    for step in path[:-1]:
        owner = owner[step] if isinstance(step, int) else getattr(owner, step)
    setattr(owner, str(path[-1]), value)
    return changed


LAYOUTS = [
    Layout(
        "find",
        3,
        FindCoordinatorRequest(key="g"),
        [Piece(compact("g"), ("key",), "h"), Piece("00", ("key_type",), 1), Piece(TAGS)],
        ("client:WF-10",),
    ),
    Layout(
        "find transaction",
        3,
        FindCoordinatorRequest(key="tx", key_type=1),
        [Piece(compact("tx"), ("key",), "h"), Piece("01", ("key_type",), 0), Piece(TAGS)],
        ("client:WF-10",),
    ),
    Layout(
        "found",
        3,
        FindCoordinatorResponse(error_message=None, node_id=2, host="b2", port=9092),
        [
            Piece("00000000", ("throttle_time_ms",), 7, ("client:WF-11",)),
            Piece("0000", ("error_code",), 15, ("client:WF-12",)),
            Piece("00", ("error_message",), "no", ("client:WF-13",)),
            Piece("00000002", ("node_id",), 3, ("client:WF-14",)),
            Piece(compact("b2"), ("host",), "elsewhere", ("client:WF-14",)),
            Piece("00002384", ("port",), 9093, ("client:WF-14",)),
            Piece(TAGS),
        ],
    ),
    Layout(
        "not found",
        3,
        FindCoordinatorResponse(throttle_time_ms=7, error_code=15, error_message="no", node_id=-1, host="", port=-1),
        [
            Piece("00000007", ("throttle_time_ms",), 0, ("client:WF-11",)),
            Piece("000f", ("error_code",), 0, ("client:WF-12",)),
            Piece(compact("no"), ("error_message",), None, ("client:WF-13",)),
            Piece("ffffffff01ffffffff"),
            Piece(TAGS),
        ],
    ),
    Layout(
        "first join",
        7,
        FIRST_JOIN,
        [
            Piece(compact("g"), ("group_id",), "h", ("client:WF-21",)),
            Piece("0000afc8", ("session_timeout_ms",), 6000, ("client:WF-22",)),
            Piece("000493e0", ("rebalance_timeout_ms",), 6000, ("client:WF-23",)),
            Piece("01", ("member_id",), "m", ("client:WF-24",)),
            Piece("00", ("group_instance_id",), "i", ("client:WF-25",)),
            Piece(compact("consumer"), ("protocol_type",), "connect", ("client:WF-26",)),
            Piece("03"),
            Piece(compact("range"), ("protocols", 0, "name"), "x", ("client:WF-27",)),
            Piece("04010203", ("protocols", 0, "metadata"), b"", ("client:WF-27",)),
            Piece(TAGS),
            Piece(compact("rr"), ("protocols", 1, "name"), "x", ("client:WF-27", "client:WF-28")),
            Piece("0204", ("protocols", 1, "metadata"), b"", ("client:WF-27",)),
            Piece(TAGS),
            Piece(TAGS),
        ],
        ("client:WF-20",),
    ),
    Layout(
        "static join",
        7,
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            member_id="i-7-u",
            group_instance_id="i-7",
            protocol_type="consumer",
            protocols=PROTOCOLS,
        ),
        [
            Piece(compact("g") + "0000afc8" + "000493e0"),
            Piece(compact("i-7-u"), ("member_id",), "", ("client:WF-24",)),
            Piece(compact("i-7"), ("group_instance_id",), None, ("client:WF-25",)),
            Piece(compact("consumer") + "03"),
            Piece(compact("range") + "04010203" + TAGS + compact("rr") + "0204" + TAGS),
            Piece(TAGS),
        ],
        ("client:WF-20",),
    ),
    Layout(
        "join with a reason",
        8,
        with_value(with_value(FIRST_JOIN, ("member_id",), "m1"), ("reason",), "bye"),
        [
            Piece(compact("g") + "0000afc8" + "000493e0" + compact("m1") + "00" + compact("consumer") + "03"),
            Piece(compact("range") + "04010203" + TAGS + compact("rr") + "0204" + TAGS),
            Piece(compact("bye"), ("reason",), None),
            Piece(TAGS),
        ],
    ),
    Layout(
        "joined, leader",
        7,
        joined("m1", members=MEMBERS),
        [
            Piece("00000005", ("throttle_time_ms",), 0, ("client:WF-30",)),
            Piece("0000", ("error_code",), 27, ("client:WF-31",)),
            Piece("00000003", ("generation_id",), 4, ("client:WF-32",)),
            Piece(compact("consumer"), ("protocol_type",), None, ("client:WF-33",)),
            Piece(compact("range"), ("protocol_name",), None, ("client:WF-34",)),
            Piece(compact("m1"), ("leader",), "m2", ("client:WF-35",)),
            Piece(compact("m1"), ("member_id",), "m2", ("client:WF-36",)),
            Piece("03"),
            Piece(compact("m1"), ("members", 0, "member_id"), "m0", ("client:WF-37",)),
            Piece("00", ("members", 0, "group_instance_id"), "h", ("client:WF-37",)),
            Piece("0201", ("members", 0, "metadata"), b"", ("client:WF-37",)),
            Piece(TAGS),
            Piece(compact("m2"), ("members", 1, "member_id"), "m0", ("client:WF-37",)),
            Piece(compact("i"), ("members", 1, "group_instance_id"), None, ("client:WF-37",)),
            Piece("030203", ("members", 1, "metadata"), b"", ("client:WF-37",)),
            Piece(TAGS),
            Piece(TAGS),
        ],
    ),
    Layout(
        "joined, follower",
        7,
        joined("m2"),
        [
            Piece("00000005" + "0000" + "00000003" + compact("consumer") + compact("range") + compact("m1")),
            Piece(compact("m2"), ("member_id",), "m3", ("client:WF-36",)),
            Piece("01", ("members",), MEMBERS, ("client:WF-37",)),
            Piece(TAGS),
        ],
    ),
    Layout(
        "joined, static leader that came back",
        9,
        joined("m1", skip_assignment=True),
        [
            Piece("00000005" + "0000" + "00000003" + compact("consumer") + compact("range") + compact("m1")),
            Piece("01", ("skip_assignment",), False),
            Piece(compact("m1") + "01" + TAGS),
        ],
    ),
    Layout(
        "refused",
        7,
        JoinGroupResponse(error_code=79, protocol_name=None, member_id="m3"),
        [
            Piece("00000000"),
            Piece("004f", ("error_code",), 0, ("client:WF-31",)),
            Piece("ffffffff", ("generation_id",), 0, ("client:WF-32",)),
            Piece("00", ("protocol_type",), "consumer", ("client:WF-33",)),
            Piece("00", ("protocol_name",), "range", ("client:WF-34",)),
            Piece("01", ("leader",), "m1", ("client:WF-35",)),
            Piece(compact("m3"), ("member_id",), "", ("client:WF-36",)),
            Piece("01" + TAGS),
        ],
    ),
    Layout(
        "sync, leader",
        5,
        sync("m1", assignments=PLAN),
        [
            Piece(compact("g"), ("group_id",), "h"),
            Piece("00000003", ("generation_id",), 4),
            Piece(compact("m1"), ("member_id",), "m2"),
            Piece("00", ("group_instance_id",), "i"),
            Piece(compact("consumer"), ("protocol_type",), None),
            Piece(compact("range"), ("protocol_name",), None),
            Piece("03"),
            Piece(compact("m1"), ("assignments", 0, "member_id"), "m0", ("client:WF-41",)),
            Piece("0201", ("assignments", 0, "assignment"), b"", ("client:WF-41",)),
            Piece(TAGS),
            Piece(compact("m2"), ("assignments", 1, "member_id"), "m0", ("client:WF-41",)),
            Piece("030203", ("assignments", 1, "assignment"), b"", ("client:WF-41",)),
            Piece(TAGS),
            Piece(TAGS),
        ],
        ("client:WF-40",),
    ),
    Layout(
        "sync, follower",
        5,
        sync("m2", group_instance_id="i"),
        [
            Piece(compact("g") + "00000003" + compact("m2")),
            Piece(compact("i"), ("group_instance_id",), None),
            Piece(compact("consumer") + compact("range")),
            Piece("01", ("assignments",), PLAN, ("client:WF-41",)),
            Piece(TAGS),
        ],
        ("client:WF-40",),
    ),
    Layout(
        "synced",
        5,
        SyncGroupResponse(throttle_time_ms=5, protocol_type="consumer", protocol_name="range", assignment=b"\2\3"),
        [
            Piece("00000005", ("throttle_time_ms",), 0),
            Piece("0000", ("error_code",), 27),
            Piece(compact("consumer"), ("protocol_type",), None),
            Piece(compact("range"), ("protocol_name",), None),
            Piece("030203", ("assignment",), b""),
            Piece(TAGS),
        ],
        ("client:WF-42",),
    ),
    Layout(
        "sync refused",
        5,
        SyncGroupResponse(error_code=27),
        [Piece("00000000"), Piece("001b", ("error_code",), 0), Piece("00" + "00" + "01" + TAGS)],
        ("client:WF-42",),
    ),
    Layout(
        "leave",
        2,
        LeaveGroupRequest(group_id="g", member_id="m1"),
        [Piece("000167", ("group_id",), "h"), Piece("00026d31", ("member_id",), "")],
        ("client:WF-60",),
    ),
    Layout(
        "leave, two",
        3,
        LeaveGroupRequest(group_id="g", members=TWO),
        [
            Piece("000167" + "00000002"),
            Piece("00026d31", ("members", 0, "member_id"), "m0"),
            Piece("ffff", ("members", 0, "group_instance_id"), "h"),
            Piece("0000", ("members", 1, "member_id"), "m0"),
            Piece("000169", ("members", 1, "group_instance_id"), None),
        ],
        ("client:WF-60",),
    ),
    Layout(
        "leave, two",
        4,
        LeaveGroupRequest(group_id="g", members=TWO),
        [
            Piece(compact("g") + "03"),
            Piece(compact("m1"), ("members", 0, "member_id"), "m0"),
            Piece("00", ("members", 0, "group_instance_id"), "h"),
            Piece(TAGS),
            Piece("01", ("members", 1, "member_id"), "m0"),
            Piece(compact("i"), ("members", 1, "group_instance_id"), None),
            Piece(TAGS + TAGS),
        ],
        ("client:WF-60",),
    ),
    Layout(
        "leave with a reason",
        5,
        LeaveGroupRequest(group_id="g", members=[MemberIdentity("m1", reason="bye")]),
        [
            Piece(compact("g") + "02" + compact("m1") + "00"),
            Piece(compact("bye"), ("members", 0, "reason"), None),
            Piece(TAGS + TAGS),
        ],
        ("client:WF-61",),
    ),
    Layout(
        "left, two",
        4,
        LeaveGroupResponse(throttle_time_ms=5, members=[MemberResponse("m1", None, 0), MemberResponse("", "i", 25)]),
        [
            Piece("00000005", ("throttle_time_ms",), 0),
            Piece("0000", ("error_code",), 16),
            Piece("03"),
            Piece(compact("m1"), ("members", 0, "member_id"), ""),
            Piece("00", ("members", 0, "group_instance_id"), "h"),
            Piece("0000", ("members", 0, "error_code"), 25),
            Piece(TAGS + "01"),
            Piece(compact("i"), ("members", 1, "group_instance_id"), None),
            Piece("0019", ("members", 1, "error_code"), 0),
            Piece(TAGS + TAGS),
        ],
        ("client:WF-61",),
    ),
]
PIECES = [
    pytest.param(layout, index, layout.spec_ids + piece.spec_ids, id=f"{layout.name} v{layout.version} {piece.path}")
    for layout in LAYOUTS
    for index, piece in enumerate(layout.pieces)
    if piece.path
]


def golden(layout: Layout) -> bytes:
    return _golden()[type(layout.message).__name__, layout.name, layout.version]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: f"{layout.name} v{layout.version}")
def test_the_pieces_in_this_order_equal_kafkas_bytes_and_ours(layout: Layout) -> None:
    assert "".join(piece.encoded for piece in layout.pieces) == golden(layout).hex()
    assert layout.message.encode(layout.version) == golden(layout)
    assert type(layout.message).decode(golden(layout), layout.version) == layout.message


@pytest.mark.parametrize(("layout", "index", "spec_ids"), PIECES)
def test_another_value_changes_its_own_piece_alone(layout: Layout, index: int, spec_ids: tuple[str, ...]) -> None:
    before = bytes.fromhex("".join(piece.encoded for piece in layout.pieces[:index]))
    after = bytes.fromhex("".join(piece.encoded for piece in layout.pieces[index + 1 :]))
    piece = layout.pieces[index]
    assert layout.message.encode(layout.version) == before + bytes.fromhex(piece.encoded) + after
    changed = with_value(layout.message, piece.path, piece.other)
    encoded = changed.encode(layout.version)
    assert encoded != golden(layout)
    assert encoded.startswith(before)
    assert encoded.endswith(after)
    assert type(changed).decode(encoded, layout.version) == changed


@pytest.mark.kafka
def test_kafka_writes_the_same_bytes_today(kafka_tools: KafkaTools) -> None:
    assert expected(kafka_tools) == VECTORS.read_text()


# What versions add


def test_finding_coordinators_is_batched_since_version_4() -> None:
    many = FindCoordinatorRequest(coordinator_keys=["g", "h"])
    assert many.encode(4) == _golden()["FindCoordinatorRequest", "find many", 4]
    assert find_coordinator_request("g", 3).encode(3) == _golden()["FindCoordinatorRequest", "find", 3]
    assert find_coordinator_request("g", 4).coordinator_keys == ["g"]
    found = FindCoordinatorResponse.decode(_golden()["FindCoordinatorResponse", "found many", 4], 4)
    assert found.coordinators == [Coordinator("g", 2, "b2", 9092, 0, None), Coordinator("h", -1, "", -1, 15, "no")]
    node = read_coordinator("g", 4, found)
    assert (node.node_id, node.host, node.port) == (2, "b2", 9092)
    with pytest.raises(CoordinatorNotAvailableError, match="no"):
        read_coordinator("h", 4, found)
    one = FindCoordinatorResponse.decode(_golden()["FindCoordinatorResponse", "found", 3], 3)
    assert read_coordinator("g", 3, one) == node


def test_fields_that_earlier_joins_lack() -> None:
    assert FIRST_JOIN.encode(5) == _golden()["JoinGroupRequest", "first join", 5]
    assert len(FIRST_JOIN.encode(5)) - len(FIRST_JOIN.encode(4)) == len(b"\xff\xff"), "the null instance id"
    assert len(FIRST_JOIN.encode(1)) - len(FIRST_JOIN.encode(0)) == 4, "the rebalance timeout"
    static = with_value(FIRST_JOIN, ("group_instance_id",), "i")
    with pytest.raises(UnsupportedVersionError, match="group_instance_id"):
        static.encode(4)


def test_protocol_type_and_a_null_name_since_version_7() -> None:
    older = JoinGroupResponse.decode(_golden()["JoinGroupResponse", "joined, follower", 6], 6)
    assert (older.protocol_type, older.protocol_name) == (None, "range")
    refused = {version: _golden()["JoinGroupResponse", "refused", version] for version in (6, 7)}
    names = {version: JoinGroupResponse.decode(data, version).protocol_name for version, data in refused.items()}
    assert names == {6: "", 7: None}
    with pytest.raises(Exception, match="protocol_name is null"):
        JoinGroupResponse(error_code=79, protocol_name=None).encode(6)


def test_sync_names_the_protocol_since_version_5() -> None:
    older = _golden()["SyncGroupRequest", "sync, follower", 4]
    message = SyncGroupRequest.decode(older, 4)
    assert (message.protocol_type, message.protocol_name) == (None, None)
    assert sync("m2", group_instance_id="i").encode(4) == older


def test_our_leave_at_each_version() -> None:
    leaving = Member()
    leaving.stable()
    assert leaving.core.leave("bye", 0.0)
    request = leaving.core.next_background(0.0).request  # type: ignore[union-attr]
    request.group_id, request.member_id, request.members[0].member_id = "g", "m1", "m1"
    assert leave_request(request, 2).encode(2) == _golden()["LeaveGroupRequest", "leave", 2]
    assert leave_request(request, 5).encode(5) == _golden()["LeaveGroupRequest", "leave with a reason", 5]
    four = LeaveGroupRequest.decode(leave_request(request, 4).encode(4), 4)
    assert four.members == [MemberIdentity("m1")], "the reason is left out before version 5"


# What a member sends


def test_a_members_own_requests_are_kafkas_bytes() -> None:
    """Two members of a group: a new one that becomes the leader, and a follower."""
    first = Member(session_timeout=45.0)
    first.find()
    first.prepare()
    join = first.core.begin_join(PROTOCOLS, {"t"}, 0.0)
    assert join is not None
    assert join.request.encode(7) == _golden()["JoinGroupRequest", "first join", 7]
    answer = JoinGroupResponse.decode(_golden()["JoinGroupResponse", "joined, leader", 7], 7)
    assert first.core.on_join_response(join.attempt, answer, 0.0) is None
    assert first.core.is_leader
    led = first.core.on_assigned(join.attempt, {"m1": b"\1", "m2": b"\2\3"}, {}, 0.0)
    assert led is not None
    assert led.request.encode(5) == _golden()["SyncGroupRequest", "sync, leader", 5]

    second = Member(group_instance_id="i")
    join = second.send_join()
    answer = JoinGroupResponse.decode(_golden()["JoinGroupResponse", "joined, follower", 7], 7)
    followed = second.core.on_join_response(join.attempt, answer, 0.0)
    assert not second.core.is_leader
    assert followed is not None
    assert followed.request.encode(5) == _golden()["SyncGroupRequest", "sync, follower", 5]
    second.core.on_sync_response(
        join.attempt, SyncGroupResponse.decode(_golden()["SyncGroupResponse", "synced", 5], 5), 0.0
    )
    completed = second.core.next_action(0.0)
    assert completed.assignment == b"\2\3"  # type: ignore[union-attr]


def test_a_member_id_that_was_given_is_named_in_the_next_join() -> None:
    member = Member(group_instance_id="i-7", session_timeout=45.0)
    member.core.on_coordinator_found(USER, NODE, 0.0)
    member.prepare()
    first = member.core.begin_join(PROTOCOLS, {"t"}, 0.0)
    assert first is not None
    member.answer_join(first, 79, member_id="i-7-u")
    second = member.core.begin_join(PROTOCOLS, {"t"}, 0.0)
    assert second is not None
    assert second.request.encode(7) == _golden()["JoinGroupRequest", "static join", 7]


# What the members' bytes carry


@pytest.mark.parametrize("version", range(4))
def test_subscriptions_are_kafkas_bytes(version: int) -> None:
    owned = [TopicPartition("t", 0), TopicPartition("t", 2)]
    theirs = _golden()["Subscription", "subscription", version]
    assert encode_subscription(["u", "t"], None, owned, 3, "r", version=version) == theirs
    message = decode_subscription(theirs)
    assert message.topics == ["t", "u"]
    assert owned_partitions(message) == (owned if version >= 1 else [])
    assert message.generation_id == (3 if version >= 2 else -1)
    assert message.rack_id == ("r" if version >= 3 else None)


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_has_only_partitions_and_user_data(version: int) -> None:
    partitions = [TopicPartition("t", 0), TopicPartition("t", 2)]
    theirs = _golden()["Assignment", "assignment", version]
    pieces = [f"{version:04x}", "00000001", "000174", "00000002", "00000000", "00000002", "00000001", "09"]
    assert theirs.hex() == "".join(pieces)
    assert encode_assignment(partitions, b"\x09", version=version) == theirs
    assert decode_assignment(theirs) == (partitions, b"\x09")
