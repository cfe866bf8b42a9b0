"""Rebalance listeners from outside: when they run, their calls, their faults."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pyconsumer import errors
from pyconsumer.assignors import Assignment, RangeAssignor, Subscription
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.structs import ConsumerGroupMetadata, TopicPartition
from tests.behaviour.group_members import (
    Listener,
    Member,
    eventually,
    fill,
    is_empty,
    join_all,
    make_consumer,
    running,
)
from tests.support.cluster import Cluster
from tests.support.proxy import KafkaProxy
from tests.unit.assignors.cooperative import Sticky

pytestmark = [pytest.mark.concurrent, pytest.mark.faces]

MakeTopic = Callable[..., str]


def test_the_assignor_hears_first_then_the_listener(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    log: list[tuple[Any, ...]] = []

    class Noting(RangeAssignor):
        def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
            log.append(("assignor", len(assignment.partitions), metadata.generation_id))

    topic = make_topic(2)
    listener = Listener(lambda what, partitions: log.append((what, len(partitions))))
    with running() as start:
        member = start(cluster, group_id, [topic], listener=listener, partition_assignment_strategy=[Noting()])
        join_all([member], 2)
        assert log == [("assignor", 2, member.generation), ("assigned", 2)]


@pytest.mark.protocols
def test_callbacks_run_in_the_thread_that_polls(cluster: Cluster, topic: str, group_id: str) -> None:
    names: set[str] = set()
    listener = Listener(lambda what, partitions: names.add(threading.current_thread().name))
    with running() as start:
        join_all([start(cluster, group_id, [topic], listener=listener)], 1)
    assert names == {f"test-member-{group_id}"}


@pytest.mark.protocols
def test_between_revoked_and_assigned_there_is_no_assignment(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(2)
    seen: list[tuple[str, int]] = []
    listener = Listener()
    with running() as start:
        a = start(cluster, group_id, [topic], listener=listener)
        listener.hook = lambda what, partitions: seen.append((what, len(a.consumer.assignment())))
        join_all([a], 2)
        b = start(cluster, group_id, [topic])
        join_all([a, b], 2)
        assert ("revoked", 2) in seen, "what goes is still there while the listener is told"
        assert seen[-1] == ("assigned", 1)


@pytest.mark.protocols
def test_calls_allowed_in_a_callback(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 5)
    tp = TopicPartition(topic, 0)
    outcome: dict[str, Any] = {}

    def hook(what: str, partitions: list[TopicPartition]) -> None:
        if what != "assigned" or not partitions:
            return
        calls: Mapping[str, Callable[[], Any]] = {
            "commit": lambda: consumer.commit({tp: 2}),
            "committed": lambda: consumer.committed(tp),
            "seek": lambda: consumer.seek(tp, 3),
            "position": lambda: consumer.position(tp),
            "pause": lambda: consumer.pause(tp),
            "resume": lambda: consumer.resume(tp),
            "assignment": consumer.assignment,
            "wakeup": consumer.wakeup,
            "poll": consumer.poll,
            "subscribe": lambda: consumer.subscribe(["x"]),
            "unsubscribe": consumer.unsubscribe,
            "assign": lambda: consumer.assign([tp]),
            "close": consumer.close,
        }
        for name, call in calls.items():
            try:
                outcome[name] = call()
            except Exception as error:
                outcome[name] = error

    listener = Listener(hook)
    consumer = make_consumer(cluster, group_id, enable_auto_commit=False)
    consumer.subscribe([topic], listener=listener)
    found: list[Any] = []

    def look() -> bool:
        try:
            found.extend(consumer.poll(100).records())
        except errors.WakeupError:
            found.append("wakeup")
        return len(found) >= 3

    eventually(look, "reading")
    for name in ("poll", "subscribe", "unsubscribe", "assign", "close"):
        assert isinstance(outcome[name], errors.IllegalStateError), name
    assert (outcome["committed"], outcome["position"], outcome["assignment"]) == (2, 3, {tp})
    assert found[0] == "wakeup", "a wakeup waits until the callback is over"
    assert [record.offset for record in found[1:]] == [3, 4]
    consumer.close()


@pytest.mark.parametrize("what", ["assigned", "revoked"])
def test_an_error_of_a_callback_is_raised_by_poll_and_the_member_continues(
    cluster: Cluster, make_topic: MakeTopic, group_id: str, what: str
) -> None:
    topic = make_topic(2)
    raised: list[int] = []

    def hook(kind: str, partitions: list[TopicPartition]) -> None:
        if kind == what and not raised:
            raised.append(1)
            raise RuntimeError("mine")

    consumer = make_consumer(cluster, group_id)
    consumer.subscribe([topic], listener=Listener(hook))
    if what == "assigned":
        with pytest.raises(RuntimeError, match="mine"):
            eventually(lambda: (consumer.poll(50), consumer.assignment())[1], "joining")
        assert len(consumer.assignment()) == 2, "the assignment is in force"
    else:
        eventually(lambda: (consumer.poll(50), consumer.assignment())[1], "joining")
        consumer.enforce_rebalance()
        with pytest.raises(RuntimeError, match="mine"):
            eventually(lambda: (consumer.poll(50), False)[1], "the callback")
        assert consumer.assignment() == set(), "they are given up all the same"
        eventually(lambda: (consumer.poll(50), len(consumer.assignment()) == 2)[1], "rejoining")
    fill(cluster, topic, 4, 2)
    found: list[Any] = []
    eventually(lambda: found.extend(consumer.poll(100).records()) or len(found) == 4, "reading")
    consumer.close()


@pytest.mark.protocols
def test_an_error_of_a_callback_comes_out_of_close_and_the_group_knows(
    cluster: Cluster, topic: str, group_id: str
) -> None:
    def hook(kind: str, partitions: list[TopicPartition]) -> None:
        if kind == "revoked":
            raise RuntimeError("mine")

    consumer = make_consumer(cluster, group_id, session_timeout_ms=60_000)
    consumer.subscribe([topic], listener=Listener(hook))
    eventually(lambda: (consumer.poll(50), consumer.assignment())[1], "joining")
    with pytest.raises(RuntimeError, match="mine"):
        consumer.close()
    with running() as start:
        join_all([start(cluster, group_id, [topic])], 1)


@pytest.mark.parametrize("slow", ["assigned", "revoked"])
@pytest.mark.slow
def test_a_slow_callback_does_not_end_the_session(
    cluster: Cluster, proxy: KafkaProxy, make_topic: MakeTopic, group_id: str, slow: str
) -> None:
    topic = make_topic(2)

    def hook(what: str, partitions: list[TopicPartition]) -> None:
        if what == slow and partitions:  # the application works for longer than the session lasts
            seen = len(proxy.events(ApiKey.HEARTBEAT, "response"))
            eventually(lambda: len(proxy.events(ApiKey.HEARTBEAT, "response")) >= seen + 27, "heartbeats meanwhile")

    with running() as start:
        settings = {"session_timeout_ms": 2500, "heartbeat_interval_ms": 100}
        a = start(proxy.bootstrap_servers, group_id, [topic], listener=Listener(hook), **settings)
        join_all([a], 2)
        b = start(cluster, group_id, [topic])
        join_all([a, b], 2)
        assert not a.listener.of("lost")
        assert a.error is None


def test_a_generation_lost_during_a_callback_is_reported_as_lost(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    """The application stays in ``assigned`` for longer than it may: the member leaves, and rejoins afterwards."""
    topic = make_topic(1)
    stays: list[int] = []

    def hook(what: str, partitions: list[TopicPartition]) -> None:
        if what == "assigned" and not stays:
            stays.append(1)
            eventually(lambda: is_empty(cluster, group_id), "leaving")

    with running() as start:
        a = start(cluster, group_id, [topic], listener=Listener(hook), max_poll_interval_ms=700)
        # It may be late again, and lose them again, on a machine that is busy.
        eventually(lambda: [kind for kind, _ in a.listener.calls][:3] == ["assigned", "lost", "assigned"], "rejoining")
        join_all([a], 1)


def cooperative(
    start: Callable[..., Member], cluster: Cluster | KafkaProxy, group_id: str, topic: str, **settings: Any
) -> Member:
    servers = cluster.bootstrap_servers
    return start(servers, group_id, [topic], partition_assignment_strategy=["cooperative-sticky"], **settings)


@pytest.mark.protocols
def test_cooperative_members_revoke_only_moved_partitions(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(6)
    with running() as start:
        a = cooperative(start, cluster, group_id, topic)
        join_all([a], 6)
        b = cooperative(start, cluster, group_id, topic)
        join_all([a, b], 6)
        kept = a.assignment
        assert [len(p) for p in a.listener.of("revoked")] == [3]
        assert set(a.listener.of("revoked")[0]).isdisjoint(kept)
        c = cooperative(start, cluster, group_id, topic)
        join_all([a, b, c], 6)
        assert [len(p) for p in a.listener.of("revoked")] == [3, 1]
        assert [len(p) for p in b.listener.of("revoked")] == [1]
        assert a.assignment < kept


@pytest.mark.protocols
def test_a_cooperative_member_never_stops_reading_its_kept_partitions(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(4)
    stop = threading.Event()

    def produce() -> None:
        while not stop.is_set():
            fill(cluster, topic, 40, 4)

    writer = threading.Thread(target=produce, name="test-writer", daemon=True)
    writer.start()
    try:
        with running() as start:
            a = cooperative(start, cluster, group_id, topic, max_poll_records=10)
            join_all([a], 4)
            eventually(lambda: len(a.read) > 50, "reading")
            b = cooperative(start, cluster, group_id, topic, max_poll_records=10)
            join_all([a, b], 4)
            stop.set()
            writer.join(30)
            for tp in a.assignment:
                read = [offset for partition, offset in a.read if partition == tp]
                assert read == list(range(len(read))), "in one piece, from the first to the last"
            assert not a.listener.of("lost")
    finally:
        stop.set()
        writer.join(30)


@pytest.mark.protocols
def test_a_cooperative_member_can_commit_revoked_partitions(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    """Also records read since the rebalance began, when a commit is impossible."""
    topic = make_topic(4)
    fill(cluster, topic, 40, 4)
    refused: list[Exception] = []

    def commit(partitions: list[TopicPartition]) -> None:
        positions = {tp: a.consumer.position(tp) for tp in partitions}
        try:
            a.consumer.commit({tp: offset for tp, offset in positions.items() if offset is not None})
        except errors.KafkaError as error:
            refused.append(error)

    listener = Listener(lambda what, partitions: commit(partitions) if what == "revoked" else None)
    with running() as start:
        a = cooperative(start, cluster, group_id, topic, listener=listener, enable_auto_commit=False)
        eventually(lambda: len(a.read) == 40, "reading")
        b = cooperative(start, cluster, group_id, topic, enable_auto_commit=False)
        join_all([a, b], 4)
        fill(cluster, topic, 4, 4)
        eventually(lambda: len(a.read) + len(b.read) >= 44, "reading on")
        assert refused == []
        assert sorted(offset for _, offset in b.read) == [10, 10]


def test_an_orderly_cooperative_rebalance_reads_no_record_twice(
    cluster: Cluster, proxy: KafkaProxy, make_topic: MakeTopic, group_id: str
) -> None:
    """Not even records returned during the join, when a commit is impossible."""
    topic = make_topic(4)
    fill(cluster, topic, 40, 4)
    with running() as start:
        a = cooperative(start, proxy, group_id, topic, auto_commit_interval_ms=60_000)
        eventually(lambda: len(a.read) == 40, "reading")
        parked = proxy.hold(ApiKey.JOIN_GROUP)
        b = cooperative(start, cluster, group_id, topic, auto_commit_interval_ms=60_000)
        parked.wait()
        fill(cluster, topic, 40, 4)
        eventually(lambda: len(a.read) == 80, "reading while the answer is held back")
        parked.release()
        join_all([a, b], 4)
        fill(cluster, topic, 4, 4)
        eventually(lambda: len(a.read) + len(b.read) >= 84, "reading on")
        assert sorted(offset for _, offset in b.read) == [20, 20]


def test_a_cooperative_assignor_that_moves_at_once_is_refused(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    class Hasty(Sticky):
        def assign_partitions(
            self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
        ) -> dict[str, list[TopicPartition]]:
            everything = [TopicPartition(t, p) for t, count in partitions_per_topic.items() for p in range(count)]
            newest = min(subscriptions, key=lambda m: len(subscriptions[m].owned_partitions))
            return {newest: everything}

    topic = make_topic(2)
    with running() as start:
        a = start(cluster, group_id, [topic], partition_assignment_strategy=[Hasty()])
        join_all([a], 2)
        b = start(cluster, group_id, [topic], partition_assignment_strategy=[Hasty()])
        eventually(lambda: a.error or b.error, "the leader refusing it")
        assert isinstance(a.error or b.error, errors.IllegalStateError)
        assert "KIP-429" in str(a.error or b.error)


def test_an_assignor_that_raises_comes_out_of_poll(cluster: Cluster, topic: str, group_id: str) -> None:
    class Wrong(RangeAssignor):
        def assign(self, *args: Any) -> Any:
            raise RuntimeError("my assignor")

    with running() as start:
        member = start(cluster, group_id, [topic], partition_assignment_strategy=[Wrong()])
        eventually(lambda: member.error, "the error")
        assert "my assignor" in str(member.error)


def test_user_data_reaches_the_leader_and_comes_back(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    seen: list[bytes | None] = []

    class Weighted(RangeAssignor):
        def __init__(self, weight: bytes) -> None:
            self.weight = weight

        def subscription_user_data(self, topics: frozenset[str]) -> bytes:
            return self.weight

        def assign(self, cluster: Any, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
            heaviest = max(subscriptions, key=lambda m: subscriptions[m].user_data or b"")
            everything = tuple(TopicPartition(topic, p.partition) for p in cluster.partitions_for(topic))
            return {m: Assignment(everything if m == heaviest else (), b"to " + m.encode()) for m in subscriptions}

        def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
            seen.append(assignment.user_data)
            assert assignment.user_data == b"to " + metadata.member_id.encode()

    topic = make_topic(2)
    with running() as start:
        a = start(cluster, group_id, [topic], partition_assignment_strategy=[Weighted(b"1")])
        join_all([a], 2)
        b = start(cluster, group_id, [topic], partition_assignment_strategy=[Weighted(b"2")])
        join_all([a, b], 2, all_have_some=False)
        assert len(b.assignment) == 2
        assert len(seen) >= 3
