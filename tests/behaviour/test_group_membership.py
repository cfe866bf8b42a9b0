"""Consumer groups from outside: members come, go, crash, stall. Partitions always have one owner."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from pyconsumer import errors
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pyconsumer.structs import TopicPartition
from tests.behaviour.group_members import eventually, fill, is_empty, join_all, make_consumer, running
from tests.support.cluster import Cluster
from tests.support.process import GuardedProcess
from tests.support.proxy import KafkaProxy

pytestmark = [pytest.mark.concurrent, pytest.mark.faces]

MakeTopic = Callable[..., str]


@pytest.mark.smoke
@pytest.mark.protocols
def test_one_member_reads_everything(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    topic = make_topic(3)
    fill(cluster, topic, 30, 3)
    with running() as start:
        member = start(cluster, group_id, [topic])
        join_all([member], 3)
        eventually(lambda: len(member.read) == 30, "reading 30 records")
        assert sorted(member.read) == sorted((TopicPartition(topic, p), o) for p in range(3) for o in range(10))
        assert member.listener.calls == [("assigned", [TopicPartition(topic, p) for p in range(3)])]


@pytest.mark.slow
@pytest.mark.smoke
@pytest.mark.protocols
def test_members_come_and_go(cluster: Cluster, group_protocol: str, make_topic: MakeTopic, group_id: str) -> None:
    topic = make_topic(4)
    with running() as start:
        # A member that leaves says so: no session timeout is waited for, or this test would be late.
        a = start(cluster, group_id, [topic], session_timeout_ms=120_000)
        join_all([a], 4)
        first = a.generation
        b = start(cluster, group_id, [topic])
        owners = join_all([a, b], 4)
        assert sorted(map(list(owners.values()).count, (a, b))) == [2, 2]
        assert a.generation > first
        if group_protocol == "classic":
            assert a.listener.calls[1] == ("revoked", [TopicPartition(topic, p) for p in range(4)])
        else:  # only what moves is given up
            assert [len(partitions) for partitions in a.listener.of("revoked")] == [2]
        c, d = start(cluster, group_id, [topic]), start(cluster, group_id, [topic])
        owners = join_all([a, b, c, d], 4)
        assert len(set(owners.values())) == 4
        a.stop()
        join_all([b, c, d], 4)
        for member in (b, c):
            member.stop()
        join_all([d], 4)
        for member in (a, b, c, d):
            assert member.error is None
            assert not member.listener.of("lost")
            kinds = [kind for kind, _ in member.listener.calls]
            if group_protocol == "classic":
                assert kinds == ["assigned", "revoked"] * (len(kinds) // 2) + ["assigned"] * (len(kinds) % 2)


def test_a_member_that_vanishes_is_replaced_when_its_session_ends(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(2)
    with running() as start:
        a = start(cluster, group_id, [topic])
        b = start(cluster, group_id, [topic], session_timeout_ms=2000)
        join_all([a, b], 2)
        b.vanish()
        gone = time.monotonic()
        join_all([a], 2)
        assert time.monotonic() - gone > 0.5


@pytest.mark.protocols
def test_unsubscribing_gives_the_partitions_to_the_others(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(2)
    with running() as start:
        a = start(cluster, group_id, [topic], session_timeout_ms=120_000)
        b = start(cluster, group_id, [topic])
        join_all([a, b], 2)
        a.stall()
        assert a.do(lambda consumer: consumer.unsubscribe()) is None
        assert a.listener.calls[-1][0] == "revoked"
        assert a.do(lambda consumer: consumer.group_metadata().generation_id) == -1
        join_all([b], 2)
        assert a.do(lambda consumer: consumer.subscribe([topic], listener=a.listener)) is None
        a.go_on()
        join_all([a, b], 2)


@pytest.mark.slow
@pytest.mark.protocols
def test_a_member_that_does_not_poll_leaves_and_comes_back(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(2)
    with running() as start:
        a = start(cluster, group_id, [topic], max_poll_interval_ms=1500, enable_auto_commit=False)
        b = start(cluster, group_id, [topic])
        join_all([a, b], 2)
        mine = sorted(a.assignment)
        a.stall()
        eventually(lambda: len(b.assignment) == 2, "the other one taking over")
        refused = a.do(lambda consumer: consumer.commit({mine[0]: 0}))
        assert isinstance(refused, errors.CommitFailedError)
        assert "max_poll_interval_ms" in str(refused)
        a.go_on()
        join_all([a, b], 2)
        assert ("lost", mine) in a.listener.calls


def test_a_member_that_was_expelled_joins_again(
    cluster: Cluster, proxy: KafkaProxy, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(2)
    with running() as start:
        settings = {"session_timeout_ms": 1000, "enable_auto_commit": False}  # a commit would prolong the session
        a = start(proxy.bootstrap_servers, group_id, [topic], **settings)
        join_all([a], 2)
        first = a.member_id
        lost = proxy.drop(ApiKey.HEARTBEAT, direction="request")
        lost.wait()
        eventually(lambda: len(proxy.events(ApiKey.FIND_COORDINATOR, "request")) > 1, "a session without answers")
        eventually(lambda: is_empty(cluster, group_id), "the coordinator expelling the member")
        lost.remove()
        eventually(lambda: a.member_id not in ("", first), "joining with another id")
        join_all([a], 2)
        everything = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        lost = a.listener.of("lost")  # once, if no heartbeat was late for another reason
        assert lost
        assert all(partitions == everything for partitions in lost)


@pytest.mark.protocols
def test_a_topic_that_grows_is_noticed_by_the_leader(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    topic = make_topic(1)
    with running() as start:
        a, b = start(cluster, group_id, [topic]), start(cluster, group_id, [topic])
        join_all([a, b], 1)
        with closing(cluster.raw()) as client:
            more = CreatePartitionsTopic(name=topic, count=4, assignments=None)
            wanted = CreatePartitionsRequest(topics=[more], timeout_ms=5000)
            assert [result.error_code for result in client.request(wanted).results] == [0]
        owners = join_all([a, b], 4)
        assert set(owners.values()) == {a, b}


@pytest.mark.protocols
def test_a_pattern_takes_topics_that_come_later(cluster: Cluster, group_id: str, topic_name: str) -> None:
    cluster.create_topic(f"{topic_name}-a", 1)
    with running() as start:
        member = start(cluster, group_id, pattern=f"{topic_name}-[ab]")
        join_all([member], 1)
        cluster.create_topic(f"{topic_name}-b", 2)
        cluster.create_topic(f"{topic_name}-c", 1)
        join_all([member], 3)
        assert {tp.topic for tp in member.assignment} == {f"{topic_name}-a", f"{topic_name}-b"}


@pytest.mark.protocols
def test_another_subscription_moves_the_member(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    one, two = make_topic(1), make_topic(2)
    with running() as start:
        member = start(cluster, group_id, [one])
        join_all([member], 1)
        member.do(lambda consumer: consumer.subscribe([two], listener=member.listener))
        join_all([member], 2)
        # The consumer protocol's assignor works a little later: until then there is nothing.
        assert [call for call in member.listener.calls if call != ("assigned", [])] == [
            ("assigned", [TopicPartition(one, 0)]),
            ("revoked", [TopicPartition(one, 0)]),
            ("assigned", [TopicPartition(two, 0), TopicPartition(two, 1)]),
        ]


@pytest.mark.protocols
def test_members_with_different_subscriptions(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    """The leader needs metadata of topics to which only others subscribed."""
    one, two = make_topic(2), make_topic(3)
    with running() as start:
        a = start(cluster, group_id, [one])
        join_all([a], 2)
        b = start(cluster, group_id, [two])
        owners = join_all([a, b], 5)
        assert {tp.topic for tp, owner in owners.items() if owner is a} == {one}
        assert {tp.topic for tp, owner in owners.items() if owner is b} == {two}


@pytest.mark.protocols
def test_a_topic_that_does_not_exist_yet(cluster: Cluster, group_id: str, topic_name: str) -> None:
    with running() as start:
        member = start(cluster, group_id, [topic_name], allow_auto_create_topics=False)
        eventually(lambda: member.listener.of("assigned"), "joining with nothing to assign")
        assert member.listener.calls == [("assigned", [])]
        cluster.create_topic(topic_name, 2)
        join_all([member], 2)


def test_the_assignor_that_all_support_is_used(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    """Range would give the first member 0 1 and the second one 2 3."""
    topic = make_topic(4)
    with running() as start:
        a = start(cluster, group_id, [topic], partition_assignment_strategy=["range", "roundrobin"])
        b = start(cluster, group_id, [topic], partition_assignment_strategy=["roundrobin"])
        join_all([a, b], 4)
        assert sorted(sorted(tp.partition for tp in m.assignment) for m in (a, b)) == [[0, 2], [1, 3]]


def test_a_newcomer_with_other_assignors_is_refused_without_a_rebalance(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(2)
    with running() as start:
        a = start(cluster, group_id, [topic], partition_assignment_strategy="range")
        join_all([a], 2)
        generation = a.generation
        b = start(cluster, group_id, [topic], partition_assignment_strategy="roundrobin")
        eventually(lambda: b.error, "being refused")
        assert isinstance(b.error, errors.InconsistentGroupProtocolError)
        assert len(a.assignment) == 2
        assert a.generation == generation


def test_a_session_timeout_that_the_broker_refuses(cluster: Cluster, topic: str, group_id: str) -> None:
    with running() as start:
        member = start(cluster, group_id, [topic], session_timeout_ms=300, heartbeat_interval_ms=100)
        eventually(lambda: member.error, "being refused")
        assert isinstance(member.error, errors.InvalidSessionTimeoutError)


def test_enforcing_a_rebalance(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    """KIP-568."""
    topic = make_topic(2)
    with running() as start:
        a, b = start(cluster, group_id, [topic]), start(cluster, group_id, [topic])
        join_all([a, b], 2)
        generation, calls = a.generation, len(b.listener.calls)
        leader = a if a.consumer._delegate.coordinator._core.is_leader else b  # type: ignore[union-attr]
        leader.do(lambda consumer: consumer.enforce_rebalance("to see it"))
        eventually(lambda: a.generation > generation and b.generation > generation, "another generation")
        join_all([a, b], 2)
        assert len(b.listener.calls) >= calls + 2


@pytest.mark.protocols
def test_a_static_member_that_restarts_keeps_its_partitions(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(4)
    with running() as start:
        a = start(cluster, group_id, [topic], group_instance_id="a")
        b = start(cluster, group_id, [topic], group_instance_id="b")
        join_all([a, b], 4)
        mine, generation, old_id = b.assignment, a.generation, b.member_id
        b.stop()
        again = start(cluster, group_id, [topic], group_instance_id="b")
        eventually(lambda: again.assignment, "coming back")
        assert again.assignment == mine
        assert again.generation == generation
        assert again.member_id != old_id
        assert a.generation == generation


def test_two_processes_with_one_instance_id(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    topic = make_topic(2)
    with running() as start:
        a = start(cluster, group_id, [topic], group_instance_id="same")
        join_all([a], 2)
        b = start(cluster, group_id, [topic], group_instance_id="same")
        eventually(lambda: a.error, "the older one being fenced")
        assert isinstance(a.error, errors.FencedInstanceIdError)
        join_all([b], 2)


@pytest.mark.protocols
def test_static_members_can_be_asked_to_leave(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    """KIP-1092."""
    topic = make_topic(2)
    with running() as start:
        a = start(cluster, group_id, [topic], group_instance_id="a", session_timeout_ms=60_000)
        b = start(cluster, group_id, [topic], group_instance_id="b", session_timeout_ms=60_000)
        join_all([a, b], 2)
        a.stop(leave_group=True)
        join_all([b], 2)


def test_a_coordinator_that_restarts(
    new_cluster: Callable[..., Cluster], cluster_kind: str, group_id: str, topic_name: str
) -> None:
    """The group is read back from the log: generation, assignment and commits continue."""
    own = new_cluster(cluster_kind)
    own.create_topic(topic_name, 2)
    fill(own, topic_name, 20, 2)
    with running() as start:
        a = start(own, group_id, [topic_name], session_timeout_ms=45_000)
        b = start(own, group_id, [topic_name], session_timeout_ms=45_000)
        join_all([a, b], 2)
        eventually(lambda: len(a.read) + len(b.read) == 20, "reading 20 records")
        generation = a.generation
        own.kill()
        own.restart()
        fill(own, topic_name, 20, 2)
        eventually(lambda: len(a.read) + len(b.read) >= 40, "reading on", within_s=60)
        join_all([a, b], 2)
        assert a.generation in (generation, generation + 1), "no generation is lost"
        assert sorted(a.read + b.read) == [(TopicPartition(topic_name, p), o) for p in range(2) for o in range(20)]


def test_a_cut_coordinator_connection_is_no_rebalance(
    cluster: Cluster, proxy: KafkaProxy, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(2)
    with running() as start:
        a = start(proxy.bootstrap_servers, group_id, [topic])
        join_all([a], 2)
        generation = a.generation
        proxy.cut(ApiKey.HEARTBEAT).wait()
        proxy.cut_all()
        fill(cluster, topic, 10, 2)
        eventually(lambda: len(a.read) == 10, "reading on")
        assert a.generation == generation
        assert len(a.listener.calls) == 1


def test_order_of_the_first_requests(proxy: KafkaProxy, make_topic: MakeTopic, group_id: str) -> None:
    topic = make_topic(1)
    with running() as start:
        join_all([start(proxy.bootstrap_servers, group_id, [topic])], 1)
        wanted = [ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.OFFSET_FETCH]
        wanted.append(ApiKey.FETCH)
        eventually(lambda: proxy.events(ApiKey.FETCH), "fetching")
        seen = [ApiKey(e.api_key) for e in proxy.events(direction="request") if e.api_key in wanted]
        assert seen[: len(wanted)] == wanted
        joins = [e.message for e in proxy.events(ApiKey.JOIN_GROUP, "request")]
        assert joins[0].member_id == ""
        assert joins[1].member_id != ""


def test_a_pending_join_does_not_delay_heartbeats_or_fetches(
    cluster: Cluster, proxy: KafkaProxy, make_topic: MakeTopic, group_id: str
) -> None:
    """Another group's member on the same broker. Our own JoinGroup stays unanswered for longer than requests wait."""
    topic = make_topic(2)
    with running() as start:
        settings = {"request_timeout_ms": 1500, "fetch_max_wait_ms": 200, "metadata_max_age_ms": 700}
        a = start(proxy.bootstrap_servers, group_id, [topic], **settings)
        join_all([a], 2)
        parked = proxy.hold(ApiKey.JOIN_GROUP)
        a.do(lambda consumer: consumer.enforce_rebalance())
        parked.wait()
        seen = len(proxy.events(ApiKey.METADATA, "response"))
        eventually(lambda: len(proxy.events(ApiKey.METADATA, "response")) >= seen + 3, "metadata, three times")
        assert a.error is None
        parked.release()
        join_all([a], 2)
        assert not a.listener.of("lost")


@pytest.mark.protocols
def test_close_sends_leave_group_at_once(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    topic = make_topic(1)
    consumer = make_consumer(cluster, group_id, session_timeout_ms=120_000)
    with running() as start:
        consumer.subscribe([topic])
        eventually(lambda: (consumer.poll(50), consumer.assignment())[1], "joining")
        consumer.close()
        join_all([start(cluster, group_id, [topic])], 1)


def test_a_foreign_member_shares_the_partitions(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    """librdkafka's range assignor and ours, whoever leads."""
    peer: Any = pytest.importorskip("confluent_kafka")
    topic = make_topic(4)
    other = peer.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group_id,
            "partition.assignment.strategy": "range",
            "session.timeout.ms": 20_000,
            "heartbeat.interval.ms": 200,
        }
    )
    with running() as start:
        mine = start(cluster, group_id, [topic])
        join_all([mine], 4)
        other.subscribe([topic])

        def shared() -> bool:
            other.poll(0.1)
            theirs = {tp.partition for tp in other.assignment()}
            ours = {tp.partition for tp in mine.assignment}
            return len(theirs) == 2 and theirs | ours == {0, 1, 2, 3} and not theirs & ours

        try:
            eventually(shared, "sharing")
        finally:
            other.close()
        join_all([mine], 4)


def test_members_in_one_process_and_threads_named(cluster: Cluster, topic: str, group_id: str) -> None:
    import threading

    with running() as start:
        join_all([start(cluster, group_id, [topic])], 1)
        names = [thread.name for thread in threading.enumerate() if thread.daemon]
        assert f"pyconsumer-heartbeat | {group_id}" in names
    eventually(lambda: f"pyconsumer-heartbeat | {group_id}" not in [t.name for t in threading.enumerate()], "its end")


_MEMBER = """
import sys
from pyconsumer.consumer.consumer import KafkaConsumer
servers, group, topic = sys.argv[1:]
consumer = KafkaConsumer(
    topic, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest", session_timeout_ms=2000,
    heartbeat_interval_ms=200, auto_commit_interval_ms=100,
)
while True:
    consumer.poll(100)
    print(len(consumer.assignment()), flush=True)
"""


@pytest.mark.slow
@pytest.mark.blocking_only("its members are other processes")
def test_members_in_processes_one_of_which_is_killed(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    topic = make_topic(4)
    command = [sys.executable, "-c", _MEMBER, cluster.bootstrap_servers, group_id, topic]
    with running() as start, GuardedProcess(command) as first, GuardedProcess(command) as second:
        member = start(cluster, group_id, [topic])
        eventually(lambda: 1 <= len(member.assignment) <= 2, "sharing with two processes")
        first.kill()
        eventually(lambda: len(member.assignment) == 2, "sharing with one")
        second.kill()
        join_all([member], 4)
