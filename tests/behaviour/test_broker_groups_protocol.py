"""Group requests as raw messages, on the embedded broker and on Apache Kafka: every code that we answer is Kafka's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.delete_groups import DeleteGroupsRequest
from pyconsumer.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pyconsumer.protocol.messages.describe_groups import DescribeGroupsRequest
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest
from pyconsumer.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pyconsumer.protocol.messages.list_groups import ListGroupsRequest
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
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
from tests.behaviour.raw_members import Connect, Member, fetch_offset, pair, subscription, topic_id_of
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.raw_client import RawClient

UNKNOWN_TOPIC_OR_PARTITION = 3
UNKNOWN_TOPIC_ID = 100


# Joining


@pytest.mark.smoke
def test_the_life_of_one_member(connect: Connect, group_id: str) -> None:
    member = Member(connect, group_id)
    refused = member.join()
    assert (refused.error_code, refused.generation_id) == (Errors.MEMBER_ID_REQUIRED, -1)
    assert refused.member_id.startswith("raw-")
    joined = member.join()
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, member.member_id)
    assert (joined.protocol_name, [one.metadata for one in joined.members]) == ("range", [subscription("some-topic")])
    assert member.heartbeat() == 0
    synced = member.sync({member.member_id: b"plan"})
    assert (synced.error_code, synced.assignment) == (0, b"plan")
    assert member.heartbeat() == 0
    assert member.sync().assignment == b"plan"
    assert [one.error_code for one in member.leave().members] == [0]
    assert member.heartbeat() == Errors.UNKNOWN_MEMBER_ID


def test_a_second_member_and_the_rebalance_that_follows(connect: Connect, group_id: str) -> None:
    first = Member(connect, group_id).stable()
    second = Member(connect, group_id)
    assert second.join().error_code == Errors.MEMBER_ID_REQUIRED
    second.send_join()
    while first.heartbeat() == 0:
        pass
    assert first.heartbeat() == Errors.REBALANCE_IN_PROGRESS
    assert first.sync().error_code == Errors.REBALANCE_IN_PROGRESS
    leader = first.join()
    follower = second.receive_join()
    assert (leader.generation_id, follower.generation_id, follower.leader) == (2, 2, first.member_id)
    assert ({one.member_id for one in leader.members}, follower.members) == ({first.member_id, second.member_id}, [])
    second.send_sync()
    assert first.sync({second.member_id: b"all"}).assignment == b""
    assert second.client.receive()[1].assignment == b"all"
    again = second.join()
    assert (again.error_code, again.generation_id, again.members) == (0, 2, [])
    assert first.heartbeat() == 0


def test_joins_that_are_refused(connect: Connect, group_id: str) -> None:
    member = Member(connect, group_id, session_ms=1)
    answer = member.join()
    assert (answer.error_code, answer.member_id) == (Errors.INVALID_SESSION_TIMEOUT, "")
    member.session_ms = 1_800_001
    assert member.join().error_code == Errors.INVALID_SESSION_TIMEOUT
    member.session_ms, member.member_id = 20_000, "ghost"
    answer = member.join()
    assert (answer.error_code, answer.member_id) == (Errors.UNKNOWN_MEMBER_ID, "ghost")
    assert (answer.generation_id, answer.protocol_name, answer.leader) == (-1, None, "")
    member.member_id, member.group = "", ""
    assert member.join().error_code == Errors.INVALID_GROUP_ID
    member.group = group_id
    member.stable()
    other = Member(connect, group_id, protocols=("roundrobin",))
    answer = other.join()
    assert (answer.error_code, answer.member_id) == (Errors.INCONSISTENT_GROUP_PROTOCOL, "")
    other.protocols, other.protocol_type = ("range",), "connect"
    assert other.join().error_code == Errors.INCONSISTENT_GROUP_PROTOCOL
    fresh = Member(connect, group_id + "-fresh", protocols=())
    assert fresh.join().error_code == Errors.INCONSISTENT_GROUP_PROTOCOL
    assert member.heartbeat() == 0


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6, 7, 8, 9])
def test_joining_at_each_version(connect: Connect, group_id: str, version: int) -> None:
    member = Member(connect, group_id)
    if version >= 4:
        assert member.join(version).error_code == Errors.MEMBER_ID_REQUIRED
    answer = member.join(version)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    member.member_id = "ghost"
    answer = member.join(version)
    assert answer.error_code == Errors.UNKNOWN_MEMBER_ID
    assert answer.protocol_name == (None if version >= 7 else "")


def test_the_strategy_that_all_support_is_chosen(connect: Connect, group_id: str) -> None:
    first = Member(connect, group_id, protocols=("a", "b"))
    assert first.join_with_id().protocol_name == "a"
    first.sync({})
    second = Member(connect, group_id, protocols=("c", "b"))
    assert second.join().error_code == Errors.MEMBER_ID_REQUIRED
    second.send_join()
    assert first.join().protocol_name == "b"
    assert second.receive_join().protocol_name == "b"


# Who may do what


def test_error_codes_of_sync_group(connect: Connect, group_id: str) -> None:
    member = Member(connect, group_id, instance="i").stable()

    def told(**wrong: Any) -> int:
        return int(member.sync(**wrong).error_code)

    assert told() == 0
    assert told(group_id="never") == Errors.UNKNOWN_MEMBER_ID
    assert told(group_id="") == Errors.INVALID_GROUP_ID
    assert told(member_id="x", generation_id=9) == Errors.FENCED_INSTANCE_ID
    assert told(group_instance_id="never", generation_id=9) == Errors.UNKNOWN_MEMBER_ID
    assert told(group_instance_id=None, member_id="x", generation_id=9) == Errors.UNKNOWN_MEMBER_ID
    assert told(generation_id=9, protocol_type="connect") == Errors.ILLEGAL_GENERATION
    assert told(protocol_type="connect") == Errors.INCONSISTENT_GROUP_PROTOCOL
    assert told(protocol_name="other") == Errors.INCONSISTENT_GROUP_PROTOCOL
    assert told(protocol_name=None) == Errors.INCONSISTENT_GROUP_PROTOCOL


def test_error_codes_of_a_heartbeat(connect: Connect, group_id: str) -> None:
    member = Member(connect, group_id, instance="i").stable()
    assert member.heartbeat() == 0
    assert member.heartbeat(group_id="never") == Errors.UNKNOWN_MEMBER_ID
    assert member.heartbeat(group_id="") == Errors.INVALID_GROUP_ID
    assert member.heartbeat(member_id="x", generation_id=9) == Errors.FENCED_INSTANCE_ID
    assert member.heartbeat(group_instance_id="never") == Errors.UNKNOWN_MEMBER_ID
    assert member.heartbeat(group_instance_id=None, member_id="x") == Errors.UNKNOWN_MEMBER_ID
    assert member.heartbeat(generation_id=9) == Errors.ILLEGAL_GENERATION


def test_error_codes_of_a_commit(connect: Connect, group_id: str, topic: str) -> None:
    member = Member(connect, group_id, instance="i").stable()

    def told(**wrong: Any) -> int:
        return member.commit(topic, 1, **wrong)

    assert told() == 0
    assert told(member_id="x", generation_id_or_member_epoch=9) == Errors.FENCED_INSTANCE_ID
    assert told(group_instance_id="never") == Errors.UNKNOWN_MEMBER_ID
    assert told(group_instance_id=None, member_id="x") == Errors.UNKNOWN_MEMBER_ID
    assert told(generation_id_or_member_epoch=9) == Errors.ILLEGAL_GENERATION
    assert told(generation_id_or_member_epoch=-1) == Errors.ILLEGAL_GENERATION
    simple = {"group_instance_id": None, "member_id": "", "generation_id_or_member_epoch": -1}
    assert told(**simple) == Errors.UNKNOWN_MEMBER_ID
    member.topics = ("another",)
    assert member.join().generation_id == 2
    assert told() == Errors.REBALANCE_IN_PROGRESS
    member.leave()
    assert told(**simple) == 0


def test_error_codes_of_leave_group(connect: Connect, group_id: str) -> None:
    first, second = pair(connect, group_id)
    static = Member(connect, group_id, instance="i")
    static.send_join()
    pending = Member(connect, group_id)
    assert pending.join().error_code == Errors.MEMBER_ID_REQUIRED
    admin = connect()
    identities = [
        MemberIdentity("x"),
        MemberIdentity("", "never"),
        MemberIdentity("x", "i"),
        MemberIdentity(pending.member_id),
        MemberIdentity("", "i"),
        MemberIdentity(second.member_id),
    ]
    answer = admin.request(LeaveGroupRequest(group_id, members=identities))
    assert answer.error_code == 0
    unknown = Errors.UNKNOWN_MEMBER_ID
    told = [one.error_code for one in answer.members]
    assert told == [unknown, unknown, Errors.FENCED_INSTANCE_ID, 0, 0, 0]
    assert static.receive_join().error_code == Errors.UNKNOWN_MEMBER_ID
    assert first.join().generation_id == 3
    alone = admin.request(LeaveGroupRequest(group_id, member_id=first.member_id), 2)
    assert alone.error_code == 0
    assert admin.request(LeaveGroupRequest(group_id, member_id="x"), 2).error_code == unknown
    none = admin.request(LeaveGroupRequest("never", members=[MemberIdentity("x")]))
    assert (none.error_code, none.members[0].error_code) == (0, unknown)
    assert admin.request(LeaveGroupRequest("", members=[])).error_code == Errors.INVALID_GROUP_ID


# Static members


@pytest.mark.parametrize("version", [8, 9])
def test_a_static_leader_comes_back(connect: Connect, group_id: str, version: int) -> None:
    old = Member(connect, group_id, instance="i").stable()
    new = Member(connect, group_id, instance="i")
    answer = new.join(version)
    assert (answer.error_code, answer.generation_id) == (0, 1)
    assert new.member_id not in ("", old.member_id)
    if version >= 9:
        assert (answer.skip_assignment, answer.leader, len(answer.members)) == (True, new.member_id, 1)
    else:
        assert (answer.skip_assignment, answer.leader, answer.members) == (False, old.member_id, [])
    assert new.sync().assignment == b"own"
    assert old.heartbeat() == Errors.FENCED_INSTANCE_ID
    answer = old.join()
    assert (answer.error_code, answer.member_id) == (Errors.FENCED_INSTANCE_ID, old.member_id)


def test_a_silent_member_is_removed_after_its_session(connect: Connect, group_id: str) -> None:
    first, second = pair(connect, group_id, session_ms=700)
    while first.heartbeat() == 0:
        pass
    answer = first.join()
    assert [one.member_id for one in answer.members] == [first.member_id]
    assert second.heartbeat() == Errors.UNKNOWN_MEMBER_ID


# Offsets


def test_commits_of_a_group_without_members(connect: Connect, group_id: str, topic: str) -> None:
    client = connect()

    def commit(version: int, **more: Any) -> list[int]:
        named = {"topic_id": topic_id_of(client, topic)} if version >= 10 else {"name": topic}
        partitions = [
            OffsetCommitRequestPartition(0, 5, committed_metadata="m" * 4096),
            OffsetCommitRequestPartition(1, 5),
            OffsetCommitRequestPartition(-1, 5),
        ]
        request = OffsetCommitRequest(group_id, topics=[OffsetCommitRequestTopic(partitions=partitions, **named)])
        for name, value in more.items():
            setattr(request, name, value)
        parts = client.request(request, version).topics[0].partitions
        return [part.error_code for part in sorted(parts, key=lambda part: abs(part.partition_index - 0.1))]

    none = UNKNOWN_TOPIC_OR_PARTITION
    newest = client.versions.choose(OffsetCommitRequest.API_KEY)
    for version in range(2, newest + 1):
        assert commit(version) == [0, none, none]
    for version in range(2, newest + 1):
        refused = Errors.GROUP_ID_NOT_FOUND if version >= 9 else Errors.ILLEGAL_GENERATION
        assert commit(version, group_id="never", generation_id_or_member_epoch=1, member_id="x") == [
            refused,
            none,
            none,
        ]
    long = OffsetCommitRequestTopic(
        topic, partitions=[OffsetCommitRequestPartition(0, 6, committed_metadata="m" * 4097)]
    )
    answer = client.request(OffsetCommitRequest(group_id, topics=[long]), 8)
    assert answer.topics[0].partitions[0].error_code == Errors.OFFSET_METADATA_TOO_LARGE
    unknown = OffsetCommitRequestTopic("no-such-topic", partitions=[OffsetCommitRequestPartition(0, 6)])
    answer = client.request(OffsetCommitRequest(group_id, topics=[unknown]), 8)
    assert answer.topics[0].partitions[0].error_code == none
    assert fetch_offset(client, group_id, topic) == (5, 0)


@pytest.mark.parametrize("version", range(1, 11))
def test_fetching_at_each_version(connect: Connect, group_id: str, topic: str, version: int) -> None:
    client = connect()
    assert client.versions.choose(OffsetFetchRequest.API_KEY) == 10
    partitions = [OffsetCommitRequestPartition(0, 5, 3, "m")]
    client.request(OffsetCommitRequest(group_id, topics=[OffsetCommitRequestTopic(topic, partitions=partitions)]), 9)

    def fetch(group: str, topics: list[tuple[str, list[int]]] | None) -> Any:
        if version <= 7:
            named = None if topics is None else [OffsetFetchRequestTopic(name, parts) for name, parts in topics]
            return client.request(OffsetFetchRequest(group, topics=named), version)
        many: list[OffsetFetchRequestTopics] | None = None
        if topics is not None:
            many = [OffsetFetchRequestTopics(partition_indexes=parts) for _, parts in topics]
            for one, (name, _) in zip(many, topics, strict=True):
                if version >= 10:
                    one.topic_id = topic_id_of(client, topic) if name == topic else bytes([7] * 16)
                else:
                    one.name = name
        (answer,) = client.request(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=many)]), version
        ).groups
        return answer

    answer = fetch(group_id, [(topic, [0, 1]), ("unknown", [0])])
    assert answer.error_code == 0
    found = {
        (
            "known"
            if (one.topic_id == topic_id_of(client, topic) if version >= 10 else one.name == topic)
            else "unknown"
        ): [(part.partition_index, part.committed_offset, part.metadata, part.error_code) for part in one.partitions]
        for one in answer.topics
    }
    code = UNKNOWN_TOPIC_ID if version >= 10 else 0
    assert found == {"known": [(0, 5, "m", 0), (1, -1, "", 0)], "unknown": [(0, -1, "", code)]}
    if version >= 5:
        assert answer.topics[0].partitions[0].committed_leader_epoch in (3, -1)
    never = fetch("never-" + group_id, [(topic, [0])])
    assert (never.error_code, never.topics[0].partitions[0].committed_offset) == (0, -1)
    if version >= 2:
        assert [len(one.partitions) for one in fetch(group_id, None).topics] == [1]
        assert fetch("never-" + group_id, None).topics == []
    assert fetch(group_id, []).topics == []


def test_the_empty_group_id(connect: Connect, topic: str) -> None:
    client = connect()
    topics = [OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(0, 8)])]
    assert client.request(OffsetCommitRequest("", topics=topics), 9).topics[0].partitions[0].error_code == 0
    assert fetch_offset(client, "", topic) == (8, 0)


def _delete(client: RawClient, group: str, topic: str, *partitions: int) -> Any:
    parts = [OffsetDeleteRequestPartition(partition) for partition in partitions]
    return client.request(OffsetDeleteRequest(group, topics=[OffsetDeleteRequestTopic(topic, parts)]))


def test_deleting_offsets(connect: Connect, group_id: str, make_topic: Callable[..., str]) -> None:
    read, other = make_topic(), make_topic()
    member = Member(connect, group_id, topics=(read,)).stable()
    assert member.commit(read, 1) == member.commit(other, 2) == 0
    admin = connect()
    assert _delete(admin, group_id, read, 0).topics[0].partitions[0].error_code == Errors.GROUP_SUBSCRIBED_TO_TOPIC
    parts = _delete(admin, group_id, other, 0, 9).topics[0].partitions
    assert {part.partition_index: part.error_code for part in parts} == {0: 0, 9: 3}
    assert fetch_offset(admin, group_id, other) == (-1, 0)
    assert fetch_offset(admin, group_id, read) == (1, 0)
    assert _delete(admin, "never", read, 0).error_code == Errors.GROUP_ID_NOT_FOUND
    member.leave()
    assert _delete(admin, group_id, read, 0).topics[0].partitions[0].error_code == 0
    connect_group = Member(connect, group_id + "-c", protocol_type="connect").stable()
    assert _delete(admin, connect_group.group, read, 0).error_code == Errors.NON_EMPTY_GROUP


def test_a_deleted_topic_takes_its_offsets_along(cluster: Cluster, connect: Connect, group_id: str, topic: str) -> None:
    client = connect()
    topics = [OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(0, 8)])]
    client.request(OffsetCommitRequest(group_id, topics=topics), 9)
    assert fetch_offset(client, group_id, topic) == (8, 0)
    cluster.delete_topic(topic)
    wait_until(lambda: fetch_offset(client, group_id, topic) == (-1, 0), 60, "the offset is gone")


# Administration


def test_listing_groups(connect: Connect, group_id: str, topic: str) -> None:
    member = Member(connect, group_id).stable()
    admin = connect()
    topics = [OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(0, 8)])]
    admin.request(OffsetCommitRequest(group_id + "-simple", topics=topics), 9)

    def listed(version: int, **filters: Any) -> dict[str, tuple[str, ...]]:
        answer = admin.request(ListGroupsRequest(**filters), version)
        assert answer.error_code == 0
        return {
            one.group_id: (one.protocol_type, one.group_state, one.group_type)
            for one in answer.groups
            if one.group_id.startswith(group_id)
        }

    simple = group_id + "-simple"
    for version in (0, 1, 2, 3):
        assert listed(version) == {group_id: ("consumer", "", ""), simple: ("", "", "")}
    assert listed(4) == {group_id: ("consumer", "Stable", ""), simple: ("", "Empty", "")}
    assert listed(4, states_filter=["STABLE"]).keys() == {group_id}
    assert listed(4, states_filter=["nothing"]) == {}
    assert listed(5)[group_id] == ("consumer", "Stable", "classic")
    assert listed(5, types_filter=["CLASSIC"]).keys() == {group_id, simple}
    assert listed(5, types_filter=["consumer"]) == {}
    assert listed(5, types_filter=["classic"], states_filter=["Empty"]).keys() == {simple}
    member.leave()
    assert listed(5)[group_id] == ("consumer", "Empty", "classic")


@pytest.mark.parametrize("version", range(7))
def test_describing_groups(connect: Connect, group_id: str, version: int) -> None:
    member = Member(connect, group_id, instance="i" if version >= 4 else None).stable()
    admin = connect()
    request = DescribeGroupsRequest([group_id, "never"], include_authorized_operations=version >= 3)
    one, never = sorted(admin.request(request, version).groups, key=lambda group: group.group_id == "never")
    assert (one.error_code, one.group_state, one.protocol_type, one.protocol_data) == (0, "Stable", "consumer", "range")
    (found,) = one.members
    assert (found.member_id, found.client_id, found.client_host) == (member.member_id, "raw", "/127.0.0.1")
    assert (found.member_metadata, found.member_assignment) == (subscription("some-topic"), b"own")
    assert found.group_instance_id == ("i" if version >= 4 else None)
    if version >= 3:
        assert one.authorized_operations == 3400
    assert (never.group_state, never.protocol_type, never.members) == ("Dead", "", [])
    assert never.error_code == (Errors.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    assert never.error_message == ("Group never not found." if version >= 6 else None)
    assert member.join().generation_id == 2
    (one,) = admin.request(DescribeGroupsRequest([group_id]), version).groups
    assert (one.group_state, one.protocol_data) == ("CompletingRebalance", "")
    assert (one.members[0].member_metadata, one.members[0].member_assignment) == (b"", b"own")


def test_deleting_groups(connect: Connect, group_id: str, topic: str) -> None:
    member = Member(connect, group_id).stable()
    assert member.commit(topic, 3) == 0
    admin = connect()

    def delete(*groups: str) -> dict[str, int]:
        return {one.group_id: one.error_code for one in admin.request(DeleteGroupsRequest(list(groups))).results}

    expected = {group_id: Errors.NON_EMPTY_GROUP, "never": Errors.GROUP_ID_NOT_FOUND}
    assert delete(group_id, "never") == expected
    member.leave()
    assert delete(group_id) == {group_id: 0}
    assert delete(group_id) == {group_id: Errors.GROUP_ID_NOT_FOUND}
    assert fetch_offset(admin, group_id, topic) == (-1, 0)
    assert member.heartbeat() == Errors.UNKNOWN_MEMBER_ID


def test_finding_coordinators(connect: Connect, group_id: str) -> None:
    client = connect()
    brokers = client.brokers()
    for version in range(4):
        answer = client.request(FindCoordinatorRequest(key=group_id), version)
        assert (answer.error_code, brokers[answer.node_id]) == (0, f"{answer.host}:{answer.port}")
    for version in range(4, client.versions.choose(FindCoordinatorRequest.API_KEY) + 1):
        keys = [group_id, "other", ""]
        found = client.request(FindCoordinatorRequest(coordinator_keys=keys), version).coordinators
        assert sorted(one.key for one in found) == sorted(keys)
        assert all(brokers[one.node_id] == f"{one.host}:{one.port}" for one in found)
        (wrong,) = client.request(FindCoordinatorRequest(key_type=9, coordinator_keys=["x"]), version).coordinators
        assert (wrong.error_code, wrong.node_id, wrong.host, wrong.port) == (42, -1, "", -1)


def test_the_internal_topic_is_compacted(connect: Connect) -> None:
    client = connect()
    resource = DescribeConfigsResource(resource_type=2, resource_name="__consumer_offsets", configuration_keys=None)
    (result,) = client.request(DescribeConfigsRequest(resources=[resource])).results
    assert result.error_code == 0
    values = {one.name: one.value for one in result.configs}
    assert values["cleanup.policy"] == "compact"
    assert values["segment.bytes"] == "104857600"
    assert values["compression.type"] == "producer"
    answer = client.request(MetadataRequest(topics=[MetadataRequestTopic(name="__consumer_offsets")]))
    (topic,) = answer.topics
    assert (topic.is_internal, len(topic.partitions)) == (True, 5)
