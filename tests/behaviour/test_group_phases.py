"""The two phases of a rebalance as the coordinator plays them: waits and responses."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from pyconsumer.assignors import Assignment, RangeAssignor, Subscription
from pyconsumer.errors import Errors
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest
from pyconsumer.protocol.messages.heartbeat import HeartbeatRequest
from pyconsumer.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyconsumer.structs import TopicPartition
from tests.behaviour.group_members import join_all, running
from tests.behaviour.raw_members import Connect, Member, pair, subscription
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.raw_client import RawClient

MakeTopic = Callable[..., str]


def test_joins_wait_for_every_known_member_and_are_answered_together(connect: Connect, group_id: str) -> None:
    first, second = pair(connect, group_id, protocols=("range", "roundrobin"))
    third = Member(connect, group_id, protocols=("roundrobin",), topics=("another",))
    assert third.join().error_code == Errors.MEMBER_ID_REQUIRED
    third.send_join()
    second.until_told_to_rejoin()
    second.send_join()
    first.until_told_to_rejoin()
    assert not third.client.answered(), "one known member is still missing"
    assert not second.client.answered()
    leader = first.join()
    others = [second.receive_join(), third.receive_join()]
    assert {one.error_code for one in (leader, *others)} == {0}
    assert {one.generation_id for one in (leader, *others)} == {3}
    assert {one.protocol_name for one in (leader, *others)} == {"roundrobin"}, "what all of them can do"
    assert {one.leader for one in (leader, *others)} == {first.member_id}
    assert [one.member_id for one in others] == [second.member_id, third.member_id]
    assert {one.member_id: one.metadata for one in leader.members} == {
        first.member_id: subscription("some-topic"),
        second.member_id: subscription("some-topic"),
        third.member_id: subscription("another"),
    }
    assert [one.members for one in others] == [[], []]


def test_followers_wait_for_the_leaders_plan_and_each_gets_its_own_share(connect: Connect, group_id: str) -> None:
    first, second = pair(connect, group_id)
    third = Member(connect, group_id)
    assert third.join().error_code == Errors.MEMBER_ID_REQUIRED
    third.send_join()
    second.until_told_to_rejoin()
    second.send_join()
    assert first.join().leader == first.member_id
    second.receive_join()
    third.receive_join()
    second.send_sync()
    third.send_sync()
    assert first.heartbeat() == 0
    assert not second.client.answered(), "the leader has not assigned yet"
    assert not third.client.answered()
    plan = {first.member_id: b"one", second.member_id: b"two", third.member_id: b"\0\xff anything"}
    mine = first.sync(plan)
    assert (mine.error_code, mine.protocol_type, mine.protocol_name, mine.assignment) == (
        0,
        "consumer",
        "range",
        b"one",
    )
    assert second.client.receive()[1].assignment == b"two"
    assert third.client.receive()[1].assignment == b"\0\xff anything"


def test_the_coordinator_carries_opaque_user_data_of_members(connect: Connect, group_id: str) -> None:
    """A kind of group that no broker has heard of: members' words go to the leader, the leader's words to them."""
    first, second = pair(connect, group_id, protocol_type="players", protocols=("chess",), topics=("\u265e",))
    first.send_join()
    second.until_told_to_rejoin()
    second.topics = ("\u265c", "\u265d")
    second.send_join()
    answer = first.receive_join()
    assert answer.leader == first.member_id
    assert {one.member_id: one.metadata for one in answer.members} == {
        first.member_id: subscription("\u265e"),
        second.member_id: subscription("\u265c", "\u265d"),
    }
    assert second.receive_join().members == []


def test_one_member_assigns_for_all(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    """An assignor that no broker knows: everything to the member whose id sorts last. Only the leader's is asked."""
    asked: list[str] = []

    class Greedy(RangeAssignor):
        name = "greedy"  # type: ignore[assignment]

        def __init__(self, owner: str) -> None:
            self.owner = owner

        def assign(self, cluster: Any, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
            asked.append(self.owner)
            everything = tuple(TopicPartition(topic, p.partition) for p in cluster.partitions_for(topic))
            return {m: Assignment(everything if m == max(subscriptions) else ()) for m in subscriptions}

    topic = make_topic(3)
    with running() as start:
        members = {
            name: start(cluster, group_id, [topic], partition_assignment_strategy=[Greedy(name)]) for name in "abc"
        }
        join_all(list(members.values()), 3, all_have_some=False)
        winner = max(members.values(), key=lambda member: member.member_id)
        assert len(winner.assignment) == 3
        leads = [name for name, member in members.items() if member.consumer._delegate.coordinator._core.is_leader]  # type: ignore[union-attr]
        assert asked[-1:] == leads, "one leader, and nobody else assigned in the last generation"


@pytest.mark.cluster
@pytest.mark.slow
def test_every_broker_can_coordinate_and_each_group_has_one_coordinator(nodes: Cluster, group_id: str) -> None:
    with ExitStack() as connections:
        first = connections.enter_context(nodes.raw())
        first.coordinator(group_id)
        clients = {node: connections.enter_context(RawClient(where)) for node, where in first.brokers().items()}
        answer = first.request(MetadataRequest(topics=[MetadataRequestTopic(name="__consumer_offsets")]))
        partitions = answer.topics[0].partitions
        assert {node for one in partitions for node in one.replica_nodes} == set(clients)
        assert all(len(one.replica_nodes) == len(clients) for one in partitions), "any broker can take over any group"

        def named(group: str) -> set[int]:
            return {client.request(FindCoordinatorRequest(key=group), 3).node_id for client in clients.values()}

        def agreed(group: str) -> bool:
            return len(named(group)) == 1 and -1 not in named(group)

        def told(node: int, group: str) -> int:
            return int(clients[node].request(HeartbeatRequest(group, 1, "nobody")).error_code)

        def serves(node: int, group: str) -> bool:
            return told(node, group) == Errors.UNKNOWN_MEMBER_ID

        for group in (f"{group_id}-{number}" for number in range(20)):
            wait_until(partial(agreed, group), 60, "every broker names the same one")
            (coordinator,) = named(group)
            wait_until(partial(serves, coordinator, group), 60, "the group's partition is read")
            others = set(clients) - {coordinator}
            assert {told(node, group) for node in others} == {Errors.NOT_COORDINATOR}


@pytest.mark.parametrize("order", [("range", "roundrobin"), ("roundrobin", "range")])
def test_members_prefer_the_first_assignor_of_their_list(
    connect: Connect, group_id: str, order: tuple[str, ...]
) -> None:
    first = Member(connect, group_id, protocols=order)
    assert first.join_with_id().protocol_name == order[0]
    first.sync({})
    second = Member(connect, group_id, protocols=order)
    assert second.join().error_code == Errors.MEMBER_ID_REQUIRED
    second.send_join()
    assert first.join().protocol_name == second.receive_join().protocol_name == order[0]


@pytest.mark.slow
def test_the_session_timeout_of_a_join_counts(connect: Connect, group_id: str) -> None:
    """Two members of one group: the one that asked for a short session is given up, the other one is not."""
    first = Member(connect, group_id, session_ms=20_000).stable()
    second = Member(connect, group_id, session_ms=2000)
    assert second.join().error_code == Errors.MEMBER_ID_REQUIRED
    second.send_join()
    assert first.join().error_code == 0
    second.receive_join()
    second.send_sync()
    first.sync({})
    second.client.receive()
    generation = first.generation
    first.until_told_to_rejoin()
    assert [one.member_id for one in first.join().members] == [first.member_id]
    assert first.generation == generation + 1
    assert second.heartbeat() == Errors.UNKNOWN_MEMBER_ID


@pytest.mark.slow
@pytest.mark.parametrize(("version", "session_ms", "rebalance_ms"), [(0, 2000, 60_000), (5, 60_000, 2000)])
def test_the_rebalance_timeout_of_a_join_counts(
    connect: Connect, group_id: str, version: int, session_ms: int, rebalance_ms: int
) -> None:
    """A member that lives but does not rejoin is waited for that long. Before version 1, for a session."""
    slow = Member(connect, group_id, session_ms=session_ms, rebalance_ms=rebalance_ms)
    slow.join(version)
    if version >= 4:
        slow.join(version)
    slow.sync({slow.member_id: b"own"})
    second = Member(connect, group_id, session_ms=session_ms, rebalance_ms=rebalance_ms)
    if version >= 4:
        second.join(version)
    second.send_join(version)
    began = time.monotonic()
    while not second.client.answered(0.05) and (code := slow.heartbeat()) != Errors.UNKNOWN_MEMBER_ID:
        assert code in (0, Errors.REBALANCE_IN_PROGRESS)
    answer = second.receive_join()
    assert 1.6 < time.monotonic() - began < 50, "the two seconds that were asked for, not the 60"
    assert (answer.error_code, [one.member_id for one in answer.members]) == (0, [second.member_id])
    assert slow.heartbeat() == Errors.UNKNOWN_MEMBER_ID
