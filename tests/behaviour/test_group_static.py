"""Static members (KIP-345): their state at the coordinator, and the causes of a rebalance of their group."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from pyconsumer import errors
from pyconsumer.errors import Errors
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pyconsumer.protocol.messages.describe_groups import DescribeGroupsRequest
from pyconsumer.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.behaviour.group_members import eventually, fill, join_all, running
from tests.behaviour.raw_members import Connect, Member
from tests.support.cluster import Cluster
from tests.support.proxy import KafkaProxy

pytestmark = pytest.mark.faces

MakeTopic = Callable[..., str]


def static_pair(connect: Connect, group: str, **options: Any) -> tuple[Member, Member]:
    """A stable group of the static members ``a``, its leader, and ``b``. Generation 2, assignments ``1`` and ``2``."""
    first = Member(connect, group, instance="a", **options).stable()
    second = Member(connect, group, instance="b", **options)
    second.send_join()
    first.until_told_to_rejoin()
    assert first.join().error_code == 0
    assert second.receive_join().error_code == 0
    second.send_sync()
    assert first.sync({first.member_id: b"1", second.member_id: b"2"}).assignment == b"1"
    assert second.client.receive()[1].assignment == b"2"
    assert (first.generation, second.generation) == (2, 2)
    return first, second


def described(connect: Connect, group: str) -> dict[str | None, tuple[str, bytes]]:
    """Member id and assignment by instance id."""
    (found,) = connect().request(DescribeGroupsRequest([group])).groups
    return {one.group_instance_id: (one.member_id, one.member_assignment) for one in found.members}


def test_a_static_member_gets_its_id_at_once_and_it_starts_with_its_name(connect: Connect, group_id: str) -> None:
    """A dynamic member would have to join again with its new id."""
    member = Member(connect, group_id, instance="rack-7")
    answer = member.join()
    assert (answer.error_code, answer.generation_id) == (0, 1)
    assert re.fullmatch(r"rack-7-[0-9a-zA-Z_-]{22,36}", answer.member_id)
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", answer.member_id.removeprefix("rack-7-"))


def test_the_coordinator_knows_who_stands_for_a_name_and_its_share(connect: Connect, group_id: str) -> None:
    first, second = static_pair(connect, group_id)
    assert described(connect, group_id) == {"a": (first.member_id, b"1"), "b": (second.member_id, b"2")}
    again = Member(connect, group_id, instance="b")
    assert again.join().error_code == 0
    assert again.member_id != second.member_id
    assert described(connect, group_id) == {"a": (first.member_id, b"1"), "b": (again.member_id, b"2")}
    assert again.sync().assignment == b"2"


def test_a_name_belongs_to_one_member_of_a_group_and_other_groups_do_not_care(connect: Connect, group_id: str) -> None:
    first = Member(connect, group_id, instance="same").stable()
    elsewhere = Member(connect, group_id + "-2", instance="same").stable()
    assert first.heartbeat() == elsewhere.heartbeat() == 0
    second = Member(connect, group_id, instance="same")
    assert second.join().error_code == 0
    assert first.heartbeat() == Errors.FENCED_INSTANCE_ID
    assert elsewhere.heartbeat() == 0


@pytest.mark.parametrize("who", ["follower restarts", "leader restarts", "follower sends the same again"])
def test_events_without_a_rebalance_of_a_static_group(connect: Connect, group_id: str, who: str) -> None:
    first, second = static_pair(connect, group_id)
    if who == "follower sends the same again":
        again = second
    else:
        again = Member(connect, group_id, instance="a" if who.startswith("leader") else "b")
    answer = again.join()
    assert (answer.error_code, answer.generation_id) == (0, 2)
    assert again.sync().assignment == (b"1" if who.startswith("leader") else b"2")
    others = [first] if again.instance == "b" else [second]
    assert [one.heartbeat() for one in (*others, again)] == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "what", ["new member", "leader rejoins", "absent", "told to leave", "follower changes its subscription"]
)
def test_events_that_start_a_rebalance_of_a_static_group(connect: Connect, group_id: str, what: str) -> None:
    first, second = static_pair(connect, group_id, session_ms=4000 if what == "absent" else 20_000)
    watching = first
    if what == "new member":
        Member(connect, group_id, instance="c").send_join()
    elif what == "leader rejoins":
        first.send_join()
        watching = second
    elif what == "told to leave":
        answer = connect().request(LeaveGroupRequest(group_id, members=[MemberIdentity("", "b")]))
        assert [one.error_code for one in answer.members] == [0]
    elif what == "follower changes its subscription":
        second.topics = ("another",)
        second.send_join()
    watching.until_told_to_rejoin()
    watching.send_join()
    if what in ("absent", "told to leave"):
        assert [one.group_instance_id for one in watching.receive_join().members] == ["a"]
        assert second.heartbeat() == Errors.UNKNOWN_MEMBER_ID


@pytest.mark.slow
def test_who_does_not_rejoin_in_time_stays_if_static_and_goes_if_dynamic(connect: Connect, group_id: str) -> None:
    options = {"session_ms": 20_000, "rebalance_ms": 6000}
    first, static = static_pair(connect, group_id, **options)
    dynamic = Member(connect, group_id, **options)
    assert dynamic.join().error_code == Errors.MEMBER_ID_REQUIRED
    dynamic.send_join()
    for one in (first, static):
        one.until_told_to_rejoin()
        one.send_join()
    assert {one.receive_join().generation_id for one in (first, static, dynamic)} == {3}
    for one in (static, dynamic, first):
        one.send_sync()
    assert {one.client.receive()[1].error_code for one in (first, static, dynamic)} == {0}
    newcomer = Member(connect, group_id, instance="c", **options)
    newcomer.send_join()
    first.until_told_to_rejoin()
    answer = first.join()
    assert {one.group_instance_id for one in answer.members} == {"a", "b", "c"}
    assert newcomer.receive_join().generation_id == answer.generation_id == 4
    assert dynamic.heartbeat() == Errors.UNKNOWN_MEMBER_ID
    assert static.heartbeat() == Errors.ILLEGAL_GENERATION, "a member still, which has missed a generation"
    assert static.member_id in {one.member_id for one in answer.members}


@pytest.mark.parametrize("version", [7, 8, 9])
def test_a_leader_that_restarted_gets_the_generation_and_one_that_rejoins_a_new_one(
    connect: Connect, group_id: str, version: int
) -> None:
    old, follower = static_pair(connect, group_id)
    new = Member(connect, group_id, instance="a")
    answer = new.join(version)
    assert (answer.error_code, answer.generation_id, answer.member_id) == (0, 2, new.member_id)
    if version >= 9:  # KIP-814: it leads, looks after the topics, and must not assign
        assert (answer.leader, answer.skip_assignment, len(answer.members)) == (new.member_id, True, 2)
    else:
        assert (answer.leader, answer.skip_assignment, answer.members) == (old.member_id, False, [])
    assert follower.heartbeat() == 0
    assert new.sync().assignment == b"1"
    assert follower.heartbeat() == 0
    new.send_join(version)
    follower.until_told_to_rejoin()
    follower.send_join()
    assert new.receive_join().generation_id == 3


def test_a_restart_while_the_leader_assigns_starts_a_new_round(connect: Connect, group_id: str) -> None:
    first, second = static_pair(connect, group_id)
    first.send_join()
    second.until_told_to_rejoin()
    second.send_join()
    assert first.receive_join().generation_id == second.receive_join().generation_id == 3
    again = Member(connect, group_id, instance="b")
    again.send_join()
    first.until_told_to_rejoin()
    assert first.sync({second.member_id: b"late"}).error_code == Errors.REBALANCE_IN_PROGRESS
    answer = first.join()
    assert answer.generation_id == again.receive_join().generation_id == 4
    assert {one.member_id for one in answer.members} == {first.member_id, again.member_id}
    assert second.heartbeat() == Errors.FENCED_INSTANCE_ID


@pytest.mark.parametrize("protocols", [("range",), ("roundrobin", "range"), ("roundrobin",)])
def test_a_restart_that_changes_the_chosen_strategy_starts_a_rebalance(
    connect: Connect, group_id: str, protocols: tuple[str, ...]
) -> None:
    alone = Member(connect, group_id, instance="a", protocols=("range", "roundrobin")).stable()
    again = Member(connect, group_id, instance="a", protocols=protocols)
    answer = again.join()
    assert answer.protocol_name == protocols[0]
    assert answer.generation_id == (1 if protocols[0] == "range" else 2)
    assert alone.heartbeat() == Errors.FENCED_INSTANCE_ID


@pytest.mark.parametrize("parked", ["join", "sync"])
def test_requests_pending_under_a_replaced_id_get_fenced(connect: Connect, group_id: str, parked: str) -> None:
    leader, second = static_pair(connect, group_id)
    newcomer = Member(connect, group_id, instance="c")
    newcomer.send_join()
    second.until_told_to_rejoin()
    second.send_join()
    if parked == "sync":
        leader.until_told_to_rejoin()
        leader.join()
        second.receive_join()
        newcomer.receive_join()
        second.send_sync()
        assert leader.heartbeat() == 0
    assert not second.client.answered()
    again = Member(connect, group_id, instance="b")
    again.send_join()
    assert second.client.receive()[1].error_code == Errors.FENCED_INSTANCE_ID
    assert second.heartbeat() == Errors.FENCED_INSTANCE_ID


# With our own members


@pytest.mark.concurrent
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_leader_that_restarts_does_not_assign_and_still_watches_the_topics(
    cluster: Cluster, proxy: KafkaProxy, make_topic: MakeTopic, group_id: str, assignor: str
) -> None:
    """KIP-814: the assignment and the generation stay. When a topic grows, the leader notices it."""
    topic = make_topic(2)
    settings = {"session_timeout_ms": 45_000, "partition_assignment_strategy": assignor}
    with running() as start:
        a = start(cluster, group_id, [topic], group_instance_id="a", **settings)
        join_all([a], 2)
        b = start(cluster, group_id, [topic], group_instance_id="b", **settings)
        join_all([a, b], 2)
        mine, generation = a.assignment, a.generation
        a.stop()
        again = start(proxy.bootstrap_servers, group_id, [topic], group_instance_id="a", **settings)
        eventually(lambda: again.assignment, "coming back")
        (joined,) = [event.message for event in proxy.events(ApiKey.JOIN_GROUP, "response")]
        assert (joined.leader, joined.skip_assignment) == (joined.member_id, True)
        (synced,) = [event.message for event in proxy.events(ApiKey.SYNC_GROUP, "request")]
        assert synced.assignments == [], "the coordinator's assignment stands"
        assert (again.assignment, again.generation, b.generation) == (mine, generation, generation)
        assert again.consumer._delegate.coordinator._core.is_leader  # type: ignore[union-attr]
        with closing(cluster.raw()) as client:
            more = CreatePartitionsTopic(name=topic, count=4, assignments=None)
            client.request(CreatePartitionsRequest(topics=[more], timeout_ms=5000))
        join_all([again, b], 4)
        assert b.generation > generation


@pytest.mark.concurrent
def test_a_fenced_member_raises_at_every_call_and_its_successor_is_left_alone(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(2)
    fill(cluster, topic, 10, 2)
    settings = {"group_instance_id": "same", "enable_auto_commit": False, "session_timeout_ms": 45_000}
    with running() as start:
        a = start(cluster, group_id, [topic], **settings)
        join_all([a], 2)
        tp = min(a.assignment)
        a.stall()
        b = start(cluster, group_id, [topic], **settings)
        join_all([b], 2)
        generation = b.generation

        def polled() -> BaseException | None:
            try:
                a.consumer.poll(0)
            except errors.KafkaError as error:
                return error
            return None

        raised = eventually(lambda: a.do(lambda consumer: polled()), "being fenced")
        for _ in range(3):
            assert isinstance(a.do(lambda consumer: polled()), errors.FencedInstanceIdError)
        assert isinstance(raised, errors.FencedInstanceIdError)
        refused = a.do(lambda consumer: consumer.commit({tp: 1}))
        assert isinstance(refused, errors.FencedInstanceIdError | errors.CommitFailedError)
        mine = sorted(a.do(lambda consumer: consumer.assignment()))
        a.stop()
        assert a.listener.calls[1:] == [("lost", mine)], "what it had is not its own to give back"
        assert (b.generation, b.error) == (generation, None)
        assert len(b.listener.calls) == 1
        assert b.do(lambda consumer: consumer.committed(tp)) is None
