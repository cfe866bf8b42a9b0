"""Odd requests of groups: both protocols, committed offsets, coordinators, descriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyconsumer.protocol.consumer_protocol import ConsumerProtocolSubscription
from pyconsumer.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pyconsumer.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
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
from tests.support.odd.world import Case, World, asking, unanswered

__all__ = ["CASES"]

SUBSCRIPTION = ConsumerProtocolSubscription(topics=["some-topic"]).encode_with_version(0)
LAST = 2**31 - 1


def changed(message: Any, changes: dict[str, Any]) -> Any:
    for key, value in changes.items():
        assert hasattr(message, key), key
        setattr(message, key, value)
    return message


# --- the classic protocol


def join(world: World, **changes: Any) -> JoinGroupRequest:
    request = JoinGroupRequest(
        group_id=world.fresh("g"),
        session_timeout_ms=20_000,
        rebalance_timeout_ms=20_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", SUBSCRIPTION)],
    )
    return changed(request, changes)  # type: ignore[no-any-return]


def joining(version: int = 9, **changes: Any) -> Case:
    return asking(lambda world: join(world, **changes), version, "generation_id", "protocol_type", "protocol_name")


class Group:
    """A classic group with one member, in its first generation."""

    def __init__(self, world: World, **changes: Any) -> None:
        request = join(world, **changes)
        answer = world.client.request(request, 3)
        assert answer.error_code == 0, answer
        self.group_id, self.member_id, self.generation = request.group_id, answer.member_id, answer.generation_id
        self.request = request

    def assign(self, world: World) -> Group:
        assignments = [SyncGroupRequestAssignment(self.member_id, b"")]
        answer = world.client.request(SyncGroupRequest(self.group_id, 1, self.member_id, assignments=assignments), 3)
        assert answer.error_code == 0
        return self


def member(make: Callable[[Group], Any], version: int | None = None, *show: str, stable: bool = True) -> Case:
    """Return the case of a request that is made of a group with one member."""

    def case(world: World) -> str:
        group = Group(world)
        if stable:
            group.assign(world)
        return world.asked(make(group), version, *show)

    return case


def beat(group: Group, **changes: Any) -> HeartbeatRequest:
    return changed(HeartbeatRequest(group.group_id, group.generation, group.member_id), changes)  # type: ignore[no-any-return]


def sync(group: Group, **changes: Any) -> SyncGroupRequest:
    request = SyncGroupRequest(group.group_id, group.generation, group.member_id, None, "consumer", "range")
    request.assignments = [SyncGroupRequestAssignment(group.member_id, b"a")]
    return changed(request, changes)  # type: ignore[no-any-return]


def again(group: Group, **changes: Any) -> JoinGroupRequest:
    return changed(group.request, {"member_id": group.member_id} | changes)  # type: ignore[no-any-return]


def leave(group: Group, *members: MemberIdentity) -> LeaveGroupRequest:
    return LeaveGroupRequest(group.group_id, members=list(members) or [MemberIdentity(group.member_id)])


PROTOCOL = JoinGroupRequestProtocol("range", SUBSCRIPTION)
CLASSIC: dict[str, Case] = {
    "JoinGroup: good": joining(3),
    "JoinGroup: without a member id": joining(),
    "JoinGroup: an empty group id": joining(group_id=""),
    "JoinGroup: a blank group id": joining(group_id=" "),
    "JoinGroup: an unknown member id": joining(member_id="nobody"),
    "JoinGroup: session timeout 0": joining(session_timeout_ms=0),
    "JoinGroup: session timeout -1": joining(session_timeout_ms=-1),
    "JoinGroup: session timeout 2**31 - 1": joining(session_timeout_ms=LAST),
    "JoinGroup: session timeout 1799999": joining(3, session_timeout_ms=1_799_999),
    "JoinGroup: rebalance timeout -1": joining(3, rebalance_timeout_ms=-1),
    "JoinGroup: rebalance timeout 0": joining(3, rebalance_timeout_ms=0),
    "JoinGroup: no protocols": joining(protocols=[]),
    "JoinGroup: no protocols by version 3": joining(3, protocols=[]),
    "JoinGroup: an empty protocol type": joining(protocol_type=""),
    "JoinGroup: an empty protocol type by version 3": joining(3, protocol_type=""),
    "JoinGroup: neither protocols nor type": joining(protocol_type="", protocols=[]),
    "JoinGroup: another protocol type": joining(3, protocol_type="connect"),
    "JoinGroup: a protocol twice": unanswered(lambda world: join(world, protocols=[PROTOCOL, PROTOCOL]), 3),
    "JoinGroup: an empty protocol name": joining(3, protocols=[JoinGroupRequestProtocol("", SUBSCRIPTION)]),
    "JoinGroup: metadata that is no subscription": joining(3, protocols=[JoinGroupRequestProtocol("range", b"\xff")]),
    "JoinGroup: empty metadata": joining(3, protocols=[JoinGroupRequestProtocol("range", b"")]),
    "JoinGroup: an empty instance id": joining(5, group_instance_id=""),
    "JoinGroup: an instance id with a blank": joining(5, group_instance_id="a b"),
    "JoinGroup: instance id '..'": joining(5, group_instance_id=".."),
    "JoinGroup: an instance id of 250 letters": joining(5, group_instance_id="x" * 250),
    "JoinGroup: an instance id": joining(5, group_instance_id="one"),
    "JoinGroup: an instance id with a member id that nobody has": joining(
        5, group_instance_id="one", member_id="nobody"
    ),
    "JoinGroup: a reason of 300 letters": joining(8, reason="x" * 300),
    "JoinGroup: again": member(again, 3, "generation_id"),
    "JoinGroup: again with other metadata": member(
        lambda g: again(g, protocols=[JoinGroupRequestProtocol("range", b"other")]), 3, "generation_id"
    ),
    "JoinGroup: again with another protocol type": member(lambda g: again(g, protocol_type="other"), 3),
    "JoinGroup: a second member of another protocol": member(
        lambda g: again(g, member_id="", protocols=[JoinGroupRequestProtocol("other", SUBSCRIPTION)]), 4
    ),
    "JoinGroup: a second member of another type": member(lambda g: again(g, member_id="", protocol_type="other"), 4),
    "JoinGroup: a second member without protocols": member(lambda g: again(g, member_id="", protocols=[]), 4),
    "JoinGroup: a member id that nobody has": member(lambda g: again(g, member_id="nobody"), 4),
    "JoinGroup: the member id with an instance id": member(lambda g: again(g, group_instance_id="i"), 5),
    "SyncGroup: good": member(sync, 5, "assignment", stable=False),
    "SyncGroup: again": member(sync, 5, "assignment"),
    "SyncGroup: no assignments": member(lambda g: sync(g, assignments=[]), 5, "assignment", stable=False),
    "SyncGroup: of a member that nobody knows": member(
        lambda g: sync(g, assignments=[SyncGroupRequestAssignment("nobody", b"")]), 5, "assignment", stable=False
    ),
    "SyncGroup: a member twice": member(
        lambda g: sync(g, assignments=[SyncGroupRequestAssignment(g.member_id, b"x")] * 2),
        5,
        "assignment",
        stable=False,
    ),
    "SyncGroup: an old generation": member(lambda g: sync(g, generation_id=0), 5),
    "SyncGroup: generation -1": member(lambda g: sync(g, generation_id=-1), 5),
    "SyncGroup: a generation to come": member(lambda g: sync(g, generation_id=2), 5),
    "SyncGroup: an unknown member": member(lambda g: sync(g, member_id="nobody"), 5),
    "SyncGroup: an empty member id": member(lambda g: sync(g, member_id=""), 5),
    "SyncGroup: an unknown group": asking(lambda w: SyncGroupRequest(w.fresh(), 1, "m", None, "consumer", "range"), 5),
    "SyncGroup: an empty group id": asking(lambda w: SyncGroupRequest("", 1, "m", None, "consumer", "range"), 5),
    "SyncGroup: another protocol type": member(lambda g: sync(g, protocol_type="other"), 5),
    "SyncGroup: another protocol": member(lambda g: sync(g, protocol_name="other"), 5),
    "SyncGroup: no protocol": member(lambda g: sync(g, protocol_name=None, protocol_type=None), 5),
    "SyncGroup: an instance id that nobody has": member(lambda g: sync(g, group_instance_id="i"), 5),
    "Heartbeat: good": member(beat, 4),
    "Heartbeat: before the assignment": member(beat, 4, stable=False),
    "Heartbeat: an old generation": member(lambda g: beat(g, generation_id=0), 4),
    "Heartbeat: generation -1": member(lambda g: beat(g, generation_id=-1), 4),
    "Heartbeat: a generation to come": member(lambda g: beat(g, generation_id=9), 4),
    "Heartbeat: an unknown member": member(lambda g: beat(g, member_id="nobody"), 4),
    "Heartbeat: an empty member id": member(lambda g: beat(g, member_id=""), 4),
    "Heartbeat: an unknown group": asking(lambda w: HeartbeatRequest(w.fresh(), 1, "m"), 4),
    "Heartbeat: an empty group id": asking(lambda w: HeartbeatRequest("", 1, "m"), 4),
    "Heartbeat: an instance id that nobody has": member(lambda g: beat(g, group_instance_id="i"), 4),
    "Heartbeat: an empty instance id": member(lambda g: beat(g, group_instance_id=""), 4),
    "LeaveGroup: good": member(leave, 5),
    "LeaveGroup: an unknown member": member(lambda g: leave(g, MemberIdentity("nobody")), 5),
    "LeaveGroup: an unknown member by version 2": member(lambda g: LeaveGroupRequest(g.group_id, "nobody"), 2),
    "LeaveGroup: an empty member id": member(lambda g: leave(g, MemberIdentity("")), 5),
    "LeaveGroup: a member twice": member(lambda g: leave(g, *[MemberIdentity(g.member_id)] * 2), 5),
    "LeaveGroup: no members": member(lambda g: LeaveGroupRequest(g.group_id, members=[]), 5),
    "LeaveGroup: an instance id that nobody has": member(lambda g: leave(g, MemberIdentity("", "i")), 5),
    "LeaveGroup: an unknown group": asking(lambda w: LeaveGroupRequest(w.fresh(), members=[MemberIdentity("m")]), 5),
    "LeaveGroup: an empty group id": asking(lambda w: LeaveGroupRequest("", members=[MemberIdentity("m")]), 5),
    "LeaveGroup: an unknown group by version 2": asking(lambda w: LeaveGroupRequest(w.fresh(), "m"), 2),
}


# --- offsets


def commit_of(name: str, *partitions: OffsetCommitRequestPartition, **changes: Any) -> OffsetCommitRequest:
    topic = OffsetCommitRequestTopic(name, partitions=list(partitions) or [OffsetCommitRequestPartition(0, 5)])
    return changed(OffsetCommitRequest("", -1, "", topics=[topic]), changes)  # type: ignore[no-any-return]


def committing(version: int = 9, *partitions: OffsetCommitRequestPartition, **changes: Any) -> Case:
    """Return the case of a commit without members, for an existing topic of one partition."""
    return asking(lambda w: commit_of(w.topic(), *partitions, **({"group_id": w.fresh("g")} | changes)), version)


def by_member(version: int = 9, **changes: Any) -> Case:
    def case(world: World) -> str:
        group = Group(world).assign(world)
        known = {"group_id": group.group_id, "generation_id_or_member_epoch": 1, "member_id": group.member_id}
        return world.asked(commit_of(world.topic(), **(known | changes)), version)

    return case


def committed(world: World, group: str, name: str) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics(name, partition_indexes=[0])])]
    )


SHOWN = ("committed_offset", "committed_leader_epoch", "metadata")


def stored_of(part: OffsetCommitRequestPartition) -> Case:
    """Return the case of a commit and the committed offset afterwards."""

    def case(world: World) -> str:
        group, name = world.fresh("g"), world.topic()
        first = world.asked(commit_of(name, part, group_id=group), 9)
        return f"{first}; {world.asked(committed(world, group, name), 9, *SHOWN)}"

    return case


def fetch_of(world: World, *groups: OffsetFetchRequestGroup, **more: Any) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=list(groups), **more)


def asked_of(name: str, *partitions: int, group: str = "odd", **more: Any) -> OffsetFetchRequestGroup:
    return OffsetFetchRequestGroup(
        group, topics=[OffsetFetchRequestTopics(name, partition_indexes=list(partitions))], **more
    )


P = OffsetCommitRequestPartition
OFFSETS: dict[str, Case] = {
    "OffsetCommit: good": stored_of(P(0, 5)),
    "OffsetCommit: offset -1": stored_of(P(0, -1)),
    "OffsetCommit: offset -2": stored_of(P(0, -2)),
    "OffsetCommit: offset 2**63 - 1": stored_of(P(0, 2**63 - 1)),
    "OffsetCommit: leader epoch 7": stored_of(P(0, 5, 7)),
    "OffsetCommit: leader epoch -2": stored_of(P(0, 5, -2)),
    "OffsetCommit: null metadata": stored_of(P(0, 5, -1, None)),
    "OffsetCommit: metadata of 4096 letters": committing(9, P(0, 5, -1, "x" * 4096)),
    "OffsetCommit: metadata of 4097 letters": committing(9, P(0, 5, -1, "x" * 4097)),
    "OffsetCommit: metadata of 2100 letters of two bytes": committing(9, P(0, 5, -1, "ä" * 2100)),
    "OffsetCommit: an unknown partition": committing(9, P(1, 5)),
    "OffsetCommit: partition -1": committing(9, P(-1, 5)),
    "OffsetCommit: a partition twice": committing(9, P(0, 5), P(0, 6)),
    "OffsetCommit: an unknown topic": asking(lambda w: commit_of(w.fresh(), group_id=w.fresh()), 9),
    "OffsetCommit: an empty topic name": asking(lambda w: commit_of("", group_id=w.fresh()), 9),
    "OffsetCommit: no topics": asking(lambda w: OffsetCommitRequest(w.fresh(), -1, ""), 9),
    "OffsetCommit: no partitions": asking(
        lambda w: OffsetCommitRequest(w.fresh(), -1, "", topics=[OffsetCommitRequestTopic(w.topic())]), 9
    ),
    "OffsetCommit: an unknown topic id": asking(
        lambda w: OffsetCommitRequest(
            w.fresh(), -1, "", topics=[OffsetCommitRequestTopic(topic_id=b"?" * 16, partitions=[P(0, 5)])]
        ),
        10,
    ),
    "OffsetCommit: topic id 0": asking(
        lambda w: OffsetCommitRequest(
            w.fresh(), -1, "", topics=[OffsetCommitRequestTopic(topic_id=bytes(16), partitions=[P(0, 5)])]
        ),
        10,
    ),
    "OffsetCommit: the internal topic": asking(lambda w: commit_of("__consumer_offsets", group_id=w.fresh()), 9),
    "OffsetCommit: an empty group id": committing(group_id=""),
    "OffsetCommit: generation 1 of an unknown group": committing(generation_id_or_member_epoch=1),
    "OffsetCommit: generation 0 of an unknown group": committing(generation_id_or_member_epoch=0),
    "OffsetCommit: generation -2 of an unknown group": committing(generation_id_or_member_epoch=-2),
    "OffsetCommit: a member of an unknown group": committing(member_id="nobody"),
    "OffsetCommit: an instance of an unknown group": committing(group_instance_id="i"),
    "OffsetCommit: retention time -1 by version 3": committing(3, retention_time_ms=-1),
    "OffsetCommit: retention time 0 by version 3": committing(3, retention_time_ms=0),
    "OffsetCommit: retention time -2 by version 3": committing(3, retention_time_ms=-2),
    "OffsetCommit: by a member": by_member(),
    "OffsetCommit: by a member of an old generation": by_member(generation_id_or_member_epoch=0),
    "OffsetCommit: by a member of a generation to come": by_member(generation_id_or_member_epoch=2),
    "OffsetCommit: by a member without generation": by_member(generation_id_or_member_epoch=-1),
    "OffsetCommit: by nobody into a living group": by_member(generation_id_or_member_epoch=-1, member_id=""),
    "OffsetCommit: by a stranger": by_member(member_id="nobody"),
    "OffsetCommit: by an instance that nobody has": by_member(group_instance_id="i"),
    "OffsetFetch: an unknown group": asking(lambda w: committed(w, w.fresh(), w.topic()), 9, *SHOWN),
    "OffsetFetch: an unknown topic": asking(lambda w: committed(w, "odd", w.fresh()), 9, *SHOWN),
    "OffsetFetch: an empty topic name": asking(lambda w: committed(w, "odd", ""), 9, *SHOWN),
    "OffsetFetch: an empty group id": asking(lambda w: committed(w, "", w.topic()), 9, *SHOWN),
    "OffsetFetch: no groups": asking(lambda w: fetch_of(w), 9, *SHOWN),
    "OffsetFetch: a group twice": asking(lambda w: fetch_of(w, *[asked_of(w.topic(), 0)] * 2), 9, *SHOWN),
    "OffsetFetch: a partition twice": asking(lambda w: fetch_of(w, asked_of(w.topic(), 0, 0)), 9, *SHOWN),
    "OffsetFetch: partition -1": asking(lambda w: fetch_of(w, asked_of(w.topic(), -1)), 9, *SHOWN),
    "OffsetFetch: partition 99": asking(lambda w: fetch_of(w, asked_of(w.topic(), 99)), 9, *SHOWN),
    "OffsetFetch: a member of an unknown group": asking(
        lambda w: fetch_of(w, asked_of(w.topic(), 0, group=w.fresh(), member_id="nobody", member_epoch=1)), 9, *SHOWN
    ),
    "OffsetFetch: member epoch 1 without a member": asking(
        lambda w: fetch_of(w, asked_of(w.topic(), 0, group=w.fresh(), member_epoch=1)), 9, *SHOWN
    ),
    "OffsetFetch: an unknown topic id": asking(
        lambda w: fetch_of(
            w,
            OffsetFetchRequestGroup(
                "odd", topics=[OffsetFetchRequestTopics(topic_id=b"?" * 16, partition_indexes=[0])]
            ),
        ),
        10,
        *SHOWN,
    ),
    "OffsetFetch: stable offsets": asking(
        lambda w: fetch_of(w, asked_of(w.topic(), 0), require_stable=True), 9, *SHOWN
    ),
    "OffsetFetch: version 1": asking(
        lambda w: OffsetFetchRequest("odd", [OffsetFetchRequestTopic(w.topic(), [0])]), 1, *SHOWN
    ),
    "OffsetDelete: an unknown group": asking(
        lambda w: OffsetDeleteRequest(
            w.fresh(), [OffsetDeleteRequestTopic(w.topic(), [OffsetDeleteRequestPartition(0)])]
        )
    ),
    "OffsetDelete: an empty group id": asking(lambda w: OffsetDeleteRequest("", [])),
    "DeleteGroups: an unknown group": asking(lambda w: DeleteGroupsRequest([w.fresh()]), 2),
    "DeleteGroups: an empty group id": asking(lambda w: DeleteGroupsRequest([""]), 2),
    "DeleteGroups: none": asking(lambda w: DeleteGroupsRequest([]), 2),
    "DeleteGroups: a group twice": asking(lambda w: DeleteGroupsRequest([w.fresh()] * 2), 2),
    "DeleteGroups: a living group": member(lambda g: DeleteGroupsRequest([g.group_id]), 2),
    "DescribeGroups: an unknown group": asking(lambda w: DescribeGroupsRequest([w.fresh()]), 6, "group_state"),
    "DescribeGroups: an unknown group by version 5": asking(
        lambda w: DescribeGroupsRequest([w.fresh()]), 5, "group_state"
    ),
    "DescribeGroups: an empty group id": asking(lambda w: DescribeGroupsRequest([""]), 6, "group_state"),
    "DescribeGroups: a group twice": asking(lambda w: DescribeGroupsRequest([w.fresh()] * 2), 6, "group_state"),
    "ListGroups: an unknown state": asking(lambda w: ListGroupsRequest(["nonsense"]), 5),
    "ListGroups: an unknown type": asking(lambda w: ListGroupsRequest([], ["nonsense"]), 5),
    "FindCoordinator: a group": asking(lambda w: FindCoordinatorRequest(key="odd", key_type=0), 3),
    "FindCoordinator: an empty group id": asking(lambda w: FindCoordinatorRequest(key="", key_type=0), 3),
    "FindCoordinator: an empty transactional id": asking(lambda w: FindCoordinatorRequest(key="", key_type=1), 3),
    "FindCoordinator: key type 2": asking(lambda w: FindCoordinatorRequest(key="odd", key_type=2), 3),
    "FindCoordinator: key type 2 by version 6": asking(
        lambda w: FindCoordinatorRequest(key_type=2, coordinator_keys=["odd"]), 6
    ),
    "FindCoordinator: key type 3": asking(lambda w: FindCoordinatorRequest(key="odd", key_type=3), 3),
    "FindCoordinator: key type -1": asking(lambda w: FindCoordinatorRequest(key="odd", key_type=-1), 3),
    "FindCoordinator: key type 9 by version 4": asking(
        lambda w: FindCoordinatorRequest(key_type=9, coordinator_keys=["odd"]), 4
    ),
    "FindCoordinator: no keys": asking(lambda w: FindCoordinatorRequest(key_type=0), 4),
    "FindCoordinator: a key twice": asking(
        lambda w: FindCoordinatorRequest(key_type=0, coordinator_keys=["odd", "odd"]), 4
    ),
    "FindCoordinator: an empty key": asking(lambda w: FindCoordinatorRequest(key_type=0, coordinator_keys=[""]), 4),
}


# --- the consumer protocol


def first(world: World, **changes: Any) -> ConsumerGroupHeartbeatRequest:
    request = ConsumerGroupHeartbeatRequest(
        group_id=world.fresh("g"),
        member_id="AAAAAAAAAAAAAAAAAAAAAQ",
        member_epoch=0,
        rebalance_timeout_ms=20_000,
        subscribed_topic_names=["odd-some-topic"],
        topic_partitions=[],
    )
    return changed(request, changes)  # type: ignore[no-any-return]


def beginning(version: int = 1, **changes: Any) -> Case:
    return asking(lambda world: first(world, **changes), version, "member_epoch")


def later(version: int = 1, **changes: Any) -> Case:
    """Return the case of the second heartbeat of a member."""

    def case(world: World) -> str:
        request = first(world)
        world.client.request(request, 1)
        request.member_epoch = 1
        request.rebalance_timeout_ms, request.subscribed_topic_names, request.topic_partitions = -1, None, None
        return world.asked(changed(request, changes), version, "member_epoch")

    return case


CONSUMER: dict[str, Case] = {
    "ConsumerGroupHeartbeat: good": beginning(),
    "ConsumerGroupHeartbeat: an empty group id": beginning(group_id=""),
    "ConsumerGroupHeartbeat: a blank group id": beginning(group_id=" "),
    "ConsumerGroupHeartbeat: an empty member id": beginning(member_id=""),
    "ConsumerGroupHeartbeat: an empty member id by version 0": beginning(0, member_id=""),
    "ConsumerGroupHeartbeat: a blank member id": beginning(member_id=" "),
    "ConsumerGroupHeartbeat: epoch 1 at first": beginning(member_epoch=1),
    "ConsumerGroupHeartbeat: epoch -1 at first": beginning(member_epoch=-1),
    "ConsumerGroupHeartbeat: epoch -2 at first": beginning(member_epoch=-2),
    "ConsumerGroupHeartbeat: epoch -3 at first": beginning(member_epoch=-3),
    "ConsumerGroupHeartbeat: rebalance timeout -1": beginning(rebalance_timeout_ms=-1),
    "ConsumerGroupHeartbeat: rebalance timeout 0": beginning(rebalance_timeout_ms=0),
    "ConsumerGroupHeartbeat: rebalance timeout -2": beginning(rebalance_timeout_ms=-2),
    "ConsumerGroupHeartbeat: no partitions given": beginning(topic_partitions=None),
    "ConsumerGroupHeartbeat: partitions at first": beginning(topic_partitions=[TopicPartitions(b"?" * 16, [0])]),
    "ConsumerGroupHeartbeat: no subscription": beginning(subscribed_topic_names=None),
    "ConsumerGroupHeartbeat: an empty subscription": beginning(subscribed_topic_names=[]),
    "ConsumerGroupHeartbeat: an empty topic name": beginning(subscribed_topic_names=[""]),
    "ConsumerGroupHeartbeat: a topic twice": beginning(subscribed_topic_names=["odd-t", "odd-t"]),
    "ConsumerGroupHeartbeat: names and a pattern": beginning(subscribed_topic_regex="odd.*"),
    "ConsumerGroupHeartbeat: a pattern": beginning(subscribed_topic_names=None, subscribed_topic_regex="odd-none.*"),
    "ConsumerGroupHeartbeat: an empty pattern": beginning(subscribed_topic_names=None, subscribed_topic_regex=""),
    "ConsumerGroupHeartbeat: a pattern that is none": beginning(
        subscribed_topic_names=None, subscribed_topic_regex="("
    ),
    "ConsumerGroupHeartbeat: an unknown assignor": beginning(server_assignor="nonsense"),
    "ConsumerGroupHeartbeat: an empty assignor": beginning(server_assignor=""),
    "ConsumerGroupHeartbeat: the assignor range": beginning(server_assignor="range"),
    "ConsumerGroupHeartbeat: an empty instance id": beginning(instance_id=""),
    "ConsumerGroupHeartbeat: an instance id with a blank": beginning(instance_id="a b"),
    "ConsumerGroupHeartbeat: an instance id": beginning(instance_id="i"),
    "ConsumerGroupHeartbeat: epoch -2 of an unknown instance": beginning(instance_id="i", member_epoch=-2),
    "ConsumerGroupHeartbeat: an empty rack": beginning(rack_id=""),
    "ConsumerGroupHeartbeat: the second": later(),
    "ConsumerGroupHeartbeat: the second, epoch 0": later(member_epoch=0),
    "ConsumerGroupHeartbeat: the second, epoch 2": later(member_epoch=2),
    "ConsumerGroupHeartbeat: the second, epoch -1": later(member_epoch=-1),
    "ConsumerGroupHeartbeat: the second, epoch -2": later(member_epoch=-2),
    "ConsumerGroupHeartbeat: the second, another member": later(member_id="BBBBBBBBBBBBBBBBBBBBAQ"),
    "ConsumerGroupHeartbeat: the second, an empty member id": later(member_id=""),
    "ConsumerGroupHeartbeat: the second, an instance id": later(instance_id="i"),
    "ConsumerGroupHeartbeat: the second, an empty subscription": later(subscribed_topic_names=[]),
    "ConsumerGroupHeartbeat: the second, a pattern that is none": later(subscribed_topic_regex="["),
    "ConsumerGroupHeartbeat: the second, partitions it does not have": later(
        topic_partitions=[TopicPartitions(b"?" * 16, [0, 0, -1])]
    ),
    "ConsumerGroupHeartbeat: the second, an unknown assignor": later(server_assignor="nonsense"),
    "ConsumerGroupHeartbeat: a classic group": member(
        lambda g: ConsumerGroupHeartbeatRequest(
            g.group_id,
            "AAAAAAAAAAAAAAAAAAAAAQ",
            0,
            rebalance_timeout_ms=20_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        ),
        1,
        "member_epoch",
    ),
    "ConsumerGroupDescribe: an unknown group": asking(lambda w: ConsumerGroupDescribeRequest([w.fresh()]), 1),
    "ConsumerGroupDescribe: an empty group id": asking(lambda w: ConsumerGroupDescribeRequest([""]), 1),
    "ConsumerGroupDescribe: a classic group": member(lambda g: ConsumerGroupDescribeRequest([g.group_id]), 1),
    "ConsumerGroupDescribe: a group twice": asking(lambda w: ConsumerGroupDescribeRequest([w.fresh()] * 2), 1),
}


def crossed(make: Callable[[str], Any], version: int) -> Case:
    """Return the case of a classic request to a group of the consumer protocol."""

    def case(world: World) -> str:
        request = first(world)
        world.client.request(request, 1)
        return world.asked(make(request.group_id), version)

    return case


CONSUMER |= {
    "classic requests to a consumer group: SyncGroup": crossed(
        lambda g: SyncGroupRequest(g, 1, "AAAAAAAAAAAAAAAAAAAAAQ", None, "consumer", "range"), 5
    ),
    "classic requests to a consumer group: Heartbeat": crossed(
        lambda g: HeartbeatRequest(g, 1, "AAAAAAAAAAAAAAAAAAAAAQ"), 4
    ),
    "classic requests to a consumer group: LeaveGroup": crossed(
        lambda g: LeaveGroupRequest(g, members=[MemberIdentity("AAAAAAAAAAAAAAAAAAAAAQ")]), 5
    ),
    "classic requests to a consumer group: JoinGroup of another type": crossed(
        lambda g: JoinGroupRequest(g, 20_000, 20_000, "", None, "other", [PROTOCOL]), 3
    ),
    "classic requests to a consumer group: JoinGroup of other bytes": crossed(
        lambda g: JoinGroupRequest(
            g, 20_000, 20_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"\xff\xff\xff")]
        ),
        3,
    ),
    "classic requests to a consumer group: DescribeGroups": crossed(lambda g: DescribeGroupsRequest([g]), 6),
    "classic requests to a consumer group: DeleteGroups": crossed(lambda g: DeleteGroupsRequest([g]), 2),
    "classic requests to a consumer group: OffsetCommit of an old epoch": crossed(
        lambda g: OffsetCommitRequest(g, 0, "AAAAAAAAAAAAAAAAAAAAAQ"), 9
    ),
}

CASES: dict[str, Case] = CLASSIC | OFFSETS | CONSUMER
