"""The handlers of group requests: every version, through the wire format and back."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.delete_groups import DeleteGroupsRequest
from pyconsumer.protocol.messages.describe_groups import DescribeGroupsRequest
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest
from pyconsumer.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pyconsumer.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pyconsumer.protocol.messages.list_groups import ListGroupsRequest
from pyconsumer.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pyconsumer.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pyconsumer.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from pyconsumer.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.broker.group.support import (
    GROUP,
    TOPIC_ID,
    TP0,
    Client,
    FakeBroker,
    World,
    ask,
    send,
    subscription,
    value_of,
    versions,
)

OTHER_ID = bytes([9] * 16)


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker(World(group_initial_rebalance_delay_ms=0))


# FindCoordinator


@pytest.mark.parametrize("version", versions(FindCoordinatorRequest, last=3))
def test_find_one_coordinator(broker: FakeBroker, version: int) -> None:
    answer = ask(broker, FindCoordinatorRequest(key=GROUP), version)
    expected = 10 + broker.world.partition()
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, expected, "here", 9092)
    broker.has_leader = False
    answer = ask(broker, FindCoordinatorRequest(key=GROUP), version)
    assert (answer.error_code, answer.node_id, answer.port) == (Errors.COORDINATOR_NOT_AVAILABLE, -1, -1)


@pytest.mark.parametrize("version", versions(FindCoordinatorRequest, 4))
def test_find_many_coordinators(broker: FakeBroker, version: int) -> None:
    answer = ask(broker, FindCoordinatorRequest(coordinator_keys=["a", "b", ""]), version)
    assert [(one.key, one.node_id) for one in answer.coordinators] == [
        (key, 10 + broker.world.partition(key)) for key in ("a", "b", "")
    ]
    answer = ask(broker, FindCoordinatorRequest(key_type=1, coordinator_keys=["id", "an id"]), version)
    assert [(one.key, one.node_id) for one in answer.coordinators] == [("id", 22), ("an id", 25)]
    for key_type in (2, 9):
        answer = ask(broker, FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a"]), version)
        assert answer.coordinators[0].error_code == 42
        assert answer.coordinators[0].error_message


# Membership


def join_request(member_id: str = "", instance: str | None = None, **more: Any) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=subscription("t"))]
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=protocols,
        **more,
    )


def join(broker: FakeBroker, version: int, **more: Any) -> Any:
    if version >= 1:
        more.setdefault("rebalance_timeout_ms", 60_000)
    answer = send(broker, join_request(**more), version)
    if version >= 4 and "instance" not in more:
        refused = value_of(answer)
        assert refused.error_code == Errors.MEMBER_ID_REQUIRED
        assert refused.member_id.startswith("me-")
        answer = send(broker, join_request(refused.member_id, **more), version)
    broker.world.advance(0)
    return value_of(answer)


@pytest.mark.parametrize("version", versions(JoinGroupRequest))
def test_joining(broker: FakeBroker, version: int) -> None:
    answer = join(broker, version)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    assert (answer.leader, len(answer.members), answer.skip_assignment) == (answer.member_id, 1, False)
    assert answer.members[0].metadata == subscription("t")
    member = broker.world.group().get(answer.member_id)
    assert (member.client_id, member.client_host) == ("me", "/127.0.0.1")
    assert member.rebalance_timeout_ms == (60_000 if version else 10_000)
    refused = ask(broker, join_request("stranger"), version)
    assert (refused.error_code, refused.generation_id, refused.member_id) == (Errors.UNKNOWN_MEMBER_ID, -1, "stranger")
    assert refused.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", versions(JoinGroupRequest))
def test_a_member_may_not_vote_twice(broker: FakeBroker, version: int) -> None:
    request = join_request("me")
    request.protocols.append(JoinGroupRequestProtocol(name="range", metadata=b"twice"))
    refused = value_of(send(broker, request, version))
    assert (refused.error_code, refused.member_id) == (Errors.INCONSISTENT_GROUP_PROTOCOL, "me")


@pytest.mark.parametrize("version", versions(JoinGroupRequest, 5))
def test_joining_as_a_static_member(broker: FakeBroker, version: int) -> None:
    answer = join(broker, version, instance="i")
    assert (answer.error_code, answer.members[0].group_instance_id) == (0, "i")
    plan = {answer.member_id: b"mine"}
    assert value_of(broker.world.sync(Client(answer.member_id, 1, "i"), plan)).assignment == b"mine"
    again = join(broker, version, instance="i")
    assert again.member_id != answer.member_id
    if version >= 9:
        assert (again.skip_assignment, again.leader, len(again.members)) == (True, again.member_id, 1)
    else:
        assert (again.skip_assignment, again.leader, len(again.members)) == (False, answer.member_id, 0)


@pytest.mark.parametrize("version", versions(JoinGroupRequest, 4))
def test_the_reason_of_a_join_is_logged(broker: FakeBroker, version: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pyconsumer.broker.group")
    join(broker, version, reason="a new deployment" if version >= 8 else None)
    (line,) = [text for text in caplog.messages if text.startswith("Preparing")]
    assert line.endswith("client reason: " + ("a new deployment" if version >= 8 else "not provided"))


def test_a_rebalance_timeout_below_none_is_none(broker: FakeBroker) -> None:
    send(broker, join_request(instance="i", rebalance_timeout_ms=-(2**31)), 5)
    (member,) = broker.world.group().members.values()
    assert member.rebalance_timeout_ms == 0


@pytest.mark.parametrize("version", versions(SyncGroupRequest))
def test_syncing(broker: FakeBroker, version: int) -> None:
    member_id = join(broker, 3).member_id
    names = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    request = SyncGroupRequest(
        group_id=GROUP,
        generation_id=1,
        member_id=member_id,
        assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"mine")],
        **names,
    )
    answer = ask(broker, request, version)
    assert (answer.error_code, answer.assignment) == (0, b"mine")
    assert (answer.protocol_type, answer.protocol_name) == (("consumer", "range") if version >= 5 else (None, None))
    request.generation_id = 9
    answer = ask(broker, request, version)
    assert (answer.error_code, answer.assignment, answer.protocol_name) == (Errors.ILLEGAL_GENERATION, b"", None)
    if version >= 5:
        request.protocol_name = None
        assert ask(broker, request, version).error_code == Errors.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", versions(HeartbeatRequest))
def test_heartbeats(broker: FakeBroker, version: int) -> None:
    member_id = join(broker, 3).member_id
    request = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member_id)
    assert ask(broker, request, version).error_code == 0
    request.generation_id = 2
    assert ask(broker, request, version).error_code == Errors.ILLEGAL_GENERATION


@pytest.mark.parametrize("version", versions(LeaveGroupRequest, last=2))
def test_leaving_alone(broker: FakeBroker, version: int) -> None:
    member_id = join(broker, 3).member_id
    assert ask(broker, LeaveGroupRequest(group_id="", member_id="x"), version).error_code == Errors.INVALID_GROUP_ID
    unknown = LeaveGroupRequest(group_id=GROUP, member_id="x")
    assert ask(broker, unknown, version).error_code == Errors.UNKNOWN_MEMBER_ID
    assert ask(broker, LeaveGroupRequest(group_id=GROUP, member_id=member_id), version).error_code == 0
    assert broker.world.group().size == 0


@pytest.mark.parametrize("version", versions(LeaveGroupRequest, 3))
def test_leaving_together(broker: FakeBroker, version: int) -> None:
    member_id = join(broker, 3).member_id
    reason = "closed" if version >= 5 else None
    request = LeaveGroupRequest(
        group_id=GROUP,
        members=[
            MemberIdentity(member_id=member_id, reason=reason),
            MemberIdentity(member_id="", group_instance_id="i"),
        ],
    )
    answer = ask(broker, request, version)
    assert answer.error_code == 0
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in answer.members] == [
        (member_id, None, 0),
        ("", "i", Errors.UNKNOWN_MEMBER_ID),
    ]


# Offsets


def commit_request(version: int, *, topic: str = "t", topic_id: bytes = TOPIC_ID, **more: Any) -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="m"),
        OffsetCommitRequestPartition(partition_index=1, committed_offset=6, committed_metadata=None),
        OffsetCommitRequestPartition(partition_index=2, committed_offset=7, committed_metadata=""),
    ]
    if version >= 6:
        partitions[0].committed_leader_epoch = 3
    named = {"topic_id": topic_id} if version >= 10 else {"name": topic}
    return OffsetCommitRequest(
        group_id=GROUP, topics=[OffsetCommitRequestTopic(partitions=partitions, **named)], **more
    )


@pytest.mark.parametrize("version", versions(OffsetCommitRequest))
def test_committing(broker: FakeBroker, version: int) -> None:
    answer = ask(broker, commit_request(version), version)
    (topic,) = answer.topics
    assert (topic.topic_id if version >= 10 else topic.name) == (TOPIC_ID if version >= 10 else "t")
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [(0, 0), (1, 0), (2, 3)]
    found = broker.world.fetch()
    epoch = 3 if version >= 6 else -1
    assert {tp.partition: value for tp, value in found.items()} == {0: (5, epoch, "m", 0), 1: (6, -1, "", 0)}
    unknown = ask(broker, commit_request(version, topic="never", topic_id=OTHER_ID), version)
    expected = 100 if version >= 10 else 3
    assert {one.error_code for one in unknown.topics[0].partitions} == {expected}
    ghost = commit_request(version, generation_id_or_member_epoch=4, member_id="x")
    ghost.group_id = "never"
    refused = ask(broker, ghost, version).topics[0].partitions[0].error_code
    assert refused == (Errors.GROUP_ID_NOT_FOUND if version >= 9 else Errors.ILLEGAL_GENERATION)
    if version <= 4:
        ask(broker, commit_request(version, retention_time_ms=1000), version)
        value = broker.world.group().offsets.committed[TP0].value
        assert value.expire_timestamp == broker.world.clock.wall_ms() + 1000


@pytest.mark.parametrize("version", versions(OffsetFetchRequest, last=7))
def test_fetching_of_one_group(broker: FakeBroker, version: int) -> None:
    ask(broker, commit_request(9), 9)
    stable = {"require_stable": True} if version >= 7 else {}
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[1, 0]), OffsetFetchRequestTopic("u", [0])]
    answer = ask(broker, OffsetFetchRequest(group_id=GROUP, topics=topics, **stable), version)
    assert answer.error_code == 0
    found = [(topic.name, one) for topic in answer.topics for one in topic.partitions]
    assert [(name, one.partition_index, one.committed_offset, one.metadata, one.error_code) for name, one in found] == [
        ("t", 1, 6, "", 0),
        ("t", 0, 5, "m", 0),
        ("u", 0, -1, "", 0),
    ]
    if version >= 5:
        assert found[1][1].committed_leader_epoch == 3
    if version >= 2:
        everything = ask(broker, OffsetFetchRequest(group_id=GROUP, topics=None), version)
        assert [len(topic.partitions) for topic in everything.topics] == [2]
    assert ask(broker, OffsetFetchRequest(group_id=GROUP, topics=[]), version).topics == []
    broker.world.coordinator.shutdown()
    refused = ask(broker, OffsetFetchRequest(group_id=GROUP, topics=topics), version)
    if version >= 2:
        assert (refused.error_code, refused.topics) == (Errors.COORDINATOR_NOT_AVAILABLE, [])
    else:
        codes = {one.error_code for topic in refused.topics for one in topic.partitions}
        assert codes == {Errors.COORDINATOR_NOT_AVAILABLE}


@pytest.mark.parametrize("version", versions(OffsetFetchRequest, 8))
def test_fetching_of_many_groups(broker: FakeBroker, version: int) -> None:
    by_id = version >= 10
    ask(broker, commit_request(version), version)

    def topic(name: str, topic_id: bytes, *indexes: int) -> OffsetFetchRequestTopics:
        named = {"topic_id": topic_id} if by_id else {"name": name}
        return OffsetFetchRequestTopics(partition_indexes=list(indexes), **named)

    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(GROUP, topics=[topic("u", OTHER_ID, 7), topic("t", TOPIC_ID, 0, 3)]),
            OffsetFetchRequestGroup("never", topics=[topic("t", TOPIC_ID, 0)]),
            OffsetFetchRequestGroup(GROUP, topics=None),
        ],
        require_stable=True,
    )
    one, never, everything = ask(broker, request, version).groups
    found = {
        (topic.topic_id if by_id else topic.name, part.partition_index): (part.committed_offset, part.error_code)
        for topic in one.topics
        for part in topic.partitions
    }
    known, unknown = (TOPIC_ID, OTHER_ID) if by_id else ("t", "u")
    assert found == {(known, 0): (5, 0), (known, 3): (-1, 0), (unknown, 7): (-1, 100 if by_id else 0)}
    assert (never.error_code, never.topics[0].partitions[0].committed_offset) == (0, -1)
    assert [part.committed_offset for part in everything.topics[0].partitions] == [5, 6]
    broker.topics.clear()
    everything = ask(broker, request, version).groups[2]
    assert len(everything.topics) == (0 if by_id else 1)
    broker.world.coordinator.shutdown()
    refused = ask(broker, request, version).groups[0]
    assert (refused.error_code, refused.topics) == (Errors.COORDINATOR_NOT_AVAILABLE, [])


def test_fetching_by_id_an_offset_of_an_earlier_topic(broker: FakeBroker) -> None:
    ask(broker, commit_request(10), 10)
    broker.topics["t"] = (OTHER_ID, 2)
    topics = [OffsetFetchRequestTopics(topic_id=OTHER_ID, partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=topics)])
    assert ask(broker, request, 10).groups[0].topics[0].partitions[0].committed_offset == -1


def test_deleting_offsets(broker: FakeBroker) -> None:
    ask(broker, commit_request(9), 9)

    def delete(topic: str, *indexes: int, group: str = GROUP) -> Any:
        partitions = [OffsetDeleteRequestPartition(index) for index in indexes]
        topics = [OffsetDeleteRequestTopic(topic, partitions)]
        return ask(broker, OffsetDeleteRequest(group_id=group, topics=topics), 0)

    answer = delete("t", 0, 5)
    assert [(one.partition_index, one.error_code) for one in answer.topics[0].partitions] == [(0, 0), (5, 3)]
    assert broker.world.offset() == -1
    assert delete("t", 0, group="never").error_code == Errors.GROUP_ID_NOT_FOUND
    nothing = delete("never", 0, group="never")
    assert (nothing.error_code, nothing.topics[0].partitions[0].error_code) == (0, 3)


# Administration


@pytest.mark.parametrize("version", versions(ListGroupsRequest))
def test_listing(broker: FakeBroker, version: int) -> None:
    broker.world.stable(group="a")
    ask(broker, commit_request(9), 9)
    answer = ask(broker, ListGroupsRequest(), version)
    assert [(one.group_id, one.protocol_type) for one in answer.groups] == [("a", "consumer"), (GROUP, "")]
    assert [one.group_state for one in answer.groups] == (["Stable", "Empty"] if version >= 4 else ["", ""])
    assert [one.group_type for one in answer.groups] == (["classic"] * 2 if version >= 5 else ["", ""])
    if version >= 4:
        assert [one.group_id for one in ask(broker, ListGroupsRequest(["empty"]), version).groups] == [GROUP]
    if version >= 5:
        assert ask(broker, ListGroupsRequest([], ["consumer"]), version).groups == []


@pytest.mark.parametrize("version", versions(DescribeGroupsRequest))
def test_describing(broker: FakeBroker, version: int) -> None:
    broker.world.stable(instances=["i"])
    asked = {"include_authorized_operations": True} if version >= 3 else {}
    one, never = ask(broker, DescribeGroupsRequest([GROUP, "never"], **asked), version).groups
    assert (one.group_state, one.protocol_type, one.protocol_data, one.error_code) == ("Stable", "consumer", "range", 0)
    (member,) = one.members
    assert (member.client_id, member.client_host) == ("c", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (subscription("t"), b"a0")
    assert member.group_instance_id == ("i" if version >= 4 else None)
    assert one.authorized_operations == (3400 if version >= 3 else -(2**31))
    assert never.group_state == "Dead"
    assert never.error_code == (Errors.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    assert never.error_message == ("Group never not found." if version >= 6 else None)


@pytest.mark.parametrize("version", versions(DeleteGroupsRequest))
def test_deleting(broker: FakeBroker, version: int) -> None:
    ask(broker, commit_request(9), 9)
    answer = ask(broker, DeleteGroupsRequest([GROUP, "never"]), version)
    assert {one.group_id: one.error_code for one in answer.results} == {GROUP: 0, "never": Errors.GROUP_ID_NOT_FOUND}
