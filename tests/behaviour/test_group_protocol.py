"""The consumer group protocol (KIP-848) from outside: what differs from the classic one.

What both have in common is tested where tests are marked ``protocols``. Groups that move between them:
``test_group_migration``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer import KafkaConsumer, KafkaProducer, SubscriptionPattern, errors
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.structs import OffsetAndMetadata, TopicPartition
from tests.behaviour.group_members import (
    Listener,
    coordinator_of,
    eventually,
    fill,
    join_all,
    make_consumer,
    running,
)
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.proxy import KafkaProxy

pytestmark = [pytest.mark.concurrent, pytest.mark.consumer_protocol, pytest.mark.faces]

MakeTopic = Callable[..., str]


def test_a_member_that_was_fenced_comes_back_under_the_same_id(
    cluster: Cluster, proxy: KafkaProxy, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(2)
    with running() as start:
        member = start(proxy.bootstrap_servers, group_id, [topic])
        join_all([member], 2)
        member_id = member.member_id
        both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        for code in (errors.Errors.FENCED_MEMBER_EPOCH, errors.Errors.UNKNOWN_MEMBER_ID):
            before = len(member.listener.calls)
            proxy.fail(ApiKey.CONSUMER_GROUP_HEARTBEAT, code)
            # Until then its `assignment` may be what its thread saw before the loss.
            after_loss = member.listener.wait_for("lost", both, before)
            member.listener.wait_for("assigned", both, after_loss)
            join_all([member], 2)
            assert member.member_id == member_id
        assert member.error is None


def test_two_processes_with_one_instance_id_the_second_one_is_refused(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(2)
    with running() as start:
        a = start(cluster, group_id, [topic], group_instance_id="same")
        join_all([a], 2)
        b = start(cluster, group_id, [topic], group_instance_id="same")
        eventually(lambda: b.error, "the newer one being refused")
        assert isinstance(b.error, errors.UnreleasedInstanceIdError)
        assert "close that one first" in str(b.error)
        assert len(a.assignment) == 2
        a.stop()
        c = start(cluster, group_id, [topic], group_instance_id="same")
        join_all([c], 2)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_the_brokers_assignor_can_be_chosen(
    cluster: Cluster, make_topic: MakeTopic, group_id: str, assignor: str
) -> None:
    one, two = make_topic(2), make_topic(2)
    with running() as start:
        members = [
            start(cluster, group_id, [one, two], group_remote_assignor=assignor, client_rack="r1") for _ in range(2)
        ]
        join_all(members, 4)
        shares = [sorted((tp.topic == two, tp.partition) for tp in member.assignment) for member in members]
        if assignor == "range":  # the same partition of each topic
            assert sorted(shares) == [[(False, 0), (True, 0)], [(False, 1), (True, 1)]]


def test_an_error_of_the_broker_is_raised_with_advice(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    topic = make_topic(1)
    with make_consumer(cluster, group_id, group_remote_assignor="fair") as consumer:
        consumer.subscribe([topic])
        for _ in range(2):  # and at every call
            with pytest.raises(errors.UnsupportedAssignorError, match="group_remote_assignor names, 'fair'"):
                _poll(consumer)
    with make_consumer(cluster, group_id + "-r") as consumer:
        consumer.subscribe(pattern=SubscriptionPattern("("))
        with pytest.raises(errors.InvalidRegularExpressionError, match="must be in RE2's syntax"):
            _poll(consumer)


def _poll(consumer: KafkaConsumer, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        consumer.poll(100)


@pytest.mark.slow  # expressions are resolved again after 10 s at the earliest, as in Kafka
def test_a_pattern_that_the_broker_evaluates_takes_topics_that_come_later(
    cluster: Cluster, group_id: str, topic_name: str
) -> None:
    cluster.create_topic(f"{topic_name}-a", 1)
    cluster.create_topic(f"{topic_name}-x", 1)
    with running() as start:
        member = start(cluster, group_id, pattern=SubscriptionPattern(f"{topic_name}-[ab]"))
        join_all([member], 1)
        fill(cluster, f"{topic_name}-a", 3)
        eventually(lambda: len(member.read) == 3, "reading")
        assert member.do(lambda consumer: consumer.subscription()) == {f"{topic_name}-a"}
        cluster.create_topic(f"{topic_name}-b", 2)
        fill(cluster, f"{topic_name}-b", 2, 2)
        join_all([member], 3)
        eventually(lambda: len(member.read) == 5, "reading all")


def test_a_topic_that_is_created_again_is_read_from_its_beginning(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(1)
    fill(cluster, topic, 5)
    with running() as start:
        member = start(cluster, group_id, [topic], enable_auto_commit=False, allow_auto_create_topics=False)
        join_all([member], 1)
        eventually(lambda: len(member.read) == 5, "reading")
        cluster.delete_topic(topic)
        eventually(lambda: not member.assignment, "giving it up")
        wait_until(lambda: _created(cluster, topic), 30.0, "the name being free again")
        fill(cluster, topic, 2)
        join_all([member], 1)
        eventually(lambda: len(member.read) == 7, "reading from the beginning")
        assert [offset for _, offset in member.read[5:]] == [0, 1]


def _created(cluster: Cluster, topic: str) -> bool:
    """Create a topic. False if its predecessor still holds the name."""
    try:
        cluster.create_topic(topic, 1)
    except AssertionError:
        return False
    return True


@pytest.mark.slow
def test_a_listener_that_raises_stays_without_acknowledging_and_is_fenced_in_the_end(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(2)

    def refuse(what: str, partitions: list[TopicPartition]) -> None:
        if what == "revoked":
            raise RuntimeError("not these")

    listener = Listener()
    raised: list[Exception] = []
    stop = threading.Event()
    consumer = make_consumer(cluster, group_id, max_poll_interval_ms=3000)
    consumer.subscribe([topic], listener=listener)

    def poll() -> None:
        while not stop.is_set():
            try:
                consumer.poll(50)
            except RuntimeError as error:
                raised.append(error)
        listener.hook = None
        consumer.close()

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        eventually(lambda: any(len(partitions) == 2 for partitions in listener.of("assigned")), "joining")
        listener.hook = refuse
        with running() as start:
            other = start(cluster, group_id, [topic])
            eventually(lambda: raised, "the listener being called")
            eventually(lambda: listener.of("lost"), "the rebalance timeout")
            eventually(lambda: other.assignment, "the other one getting its share")
            assert other.error is None
    finally:
        stop.set()
        thread.join(30)
    assert listener.of("lost") == [[TopicPartition(topic, 0), TopicPartition(topic, 1)]]


def test_commits_name_the_member_and_its_epoch_and_a_stale_one_is_repeated(
    cluster: Cluster, proxy: KafkaProxy, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(1)
    fill(cluster, topic, 3)
    with running() as start:
        member = start(proxy.bootstrap_servers, group_id, [topic], enable_auto_commit=False)
        join_all([member], 1)
        eventually(lambda: len(member.read) == 3, "reading")
        proxy.fail(ApiKey.OFFSET_COMMIT, errors.Errors.STALE_MEMBER_EPOCH, count=2)
        assert member.do(lambda consumer: consumer.commit()) is None
        tp = TopicPartition(topic, 0)
        assert member.do(lambda consumer: consumer.committed([tp])) == {tp: 3}
        commits = [event.message for event in proxy.events(ApiKey.OFFSET_COMMIT, "request")]
        assert {(c.member_id, c.generation_id_or_member_epoch) for c in commits} == {
            (member.member_id, member.generation)
        }
        fetched = proxy.events(ApiKey.OFFSET_FETCH, "request")[-1].message.groups[0]
        assert (fetched.member_id, fetched.member_epoch) == (member.member_id, member.generation)


def test_offsets_of_a_transaction_carry_the_member_epoch(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(1)
    fill(cluster, topic, 3)
    tp = TopicPartition(topic, 0)
    with (
        running() as start,
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=group_id) as producer,
    ):
        member = start(cluster, group_id, [topic], enable_auto_commit=False)
        join_all([member], 1)
        producer.init_transactions()
        metadata = member.do(lambda consumer: consumer.group_metadata())
        with producer.transaction():
            producer.send_offsets_to_transaction({tp: OffsetAndMetadata(2)}, metadata)
        assert member.do(lambda consumer: consumer.committed([tp])) == {tp: 2}
        stale = type(metadata)(group_id, metadata.generation_id - 1, metadata.member_id)
        producer.begin_transaction()
        with pytest.raises(errors.TransactionAbortableError, match=r"ILLEGAL_GENERATION|STALE_MEMBER_EPOCH"):
            producer.send_offsets_to_transaction({tp: OffsetAndMetadata(3)}, stale)
        producer.abort_transaction()
        assert member.do(lambda consumer: consumer.committed([tp])) == {tp: 2}


def test_a_broken_coordinator_connection_costs_no_record(
    cluster: Cluster, proxy: KafkaProxy, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(2)
    with running() as start:
        member = start(proxy.bootstrap_servers, group_id, [topic])
        join_all([member], 2)
        generation = member.generation
        beats = len(proxy.events(ApiKey.CONSUMER_GROUP_HEARTBEAT, "request"))
        proxy.cut(ApiKey.CONSUMER_GROUP_HEARTBEAT, direction="response").wait()
        eventually(
            lambda: len(proxy.events(ApiKey.CONSUMER_GROUP_HEARTBEAT, "request")) > beats + 2, "heartbeats again"
        )
        full = [e.message for e in proxy.events(ApiKey.CONSUMER_GROUP_HEARTBEAT, "request")[beats:]]
        assert any(request.subscribed_topic_names == [topic] for request in full), "a full one after a lost answer"
        assert member.generation == generation
        # The coordinator may not know a new topic yet: then its first assignment is empty.
        calls = [call for call in member.listener.calls if call[1]]
        assert calls == [("assigned", [TopicPartition(topic, p) for p in range(2)])]


def test_heartbeats_are_sparse_and_all_there_is(
    cluster: Cluster, proxy: KafkaProxy, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(2)
    with running() as start:
        member = start(proxy.bootstrap_servers, group_id, [topic])
        join_all([member], 2)
        eventually(lambda: len(proxy.events(ApiKey.CONSUMER_GROUP_HEARTBEAT, "request")) > 5, "heartbeats")
        sent = [event.message for event in proxy.events(ApiKey.CONSUMER_GROUP_HEARTBEAT, "request")]
        first = sent[0]
        assert (first.member_epoch, first.subscribed_topic_names, first.topic_partitions) == (0, [topic], [])
        followed = next(number for number, request in enumerate(sent) if request.topic_partitions)
        assert [sorted(topic.partitions) for topic in sent[followed].topic_partitions] == [[0, 1]]
        assert all(
            (request.subscribed_topic_names, request.topic_partitions, request.rebalance_timeout_ms) == (None, None, -1)
            for request in sent[followed + 1 :]
        )
        assert not proxy.events(ApiKey.JOIN_GROUP, "request")
        assert not proxy.events(ApiKey.HEARTBEAT, "request")
        member.stop()
        last = proxy.events(ApiKey.CONSUMER_GROUP_HEARTBEAT, "request")[-1].message
        assert (last.member_id, last.member_epoch) == (first.member_id, -1)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["assigned", "revoked"])
def test_heartbeats_continue_while_a_listener_takes_its_time(
    cluster: Cluster, proxy: KafkaProxy, make_topic: MakeTopic, group_id: str, what: str
) -> None:
    topic = make_topic(2)
    api = ApiKey.CONSUMER_GROUP_HEARTBEAT

    def hook(kind: str, partitions: list[TopicPartition]) -> None:
        if kind == what and partitions:
            seen = len(proxy.events(api, "response"))
            eventually(lambda: len(proxy.events(api, "response")) >= seen + 8, "heartbeats in the meantime")

    with running() as start:
        a = start(proxy.bootstrap_servers, group_id, [topic], listener=Listener(hook))
        join_all([a], 2)
        b = start(cluster, group_id, [topic])
        join_all([a, b], 2)
        assert not a.listener.of("lost")
        assert a.error is None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_member_of_confluent_kafka_takes_its_share_and_gives_it_back(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    topic = make_topic(4)
    fill(cluster, topic, 40, 4)
    with running() as start:
        ours = start(cluster, group_id, [topic])
        join_all([ours], 4)
        eventually(lambda: len(ours.read) == 40, "reading")
        theirs = confluent_kafka.Consumer(
            {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group_id, "group.protocol": "consumer"}
        )
        try:
            theirs.subscribe([topic])

            def shared() -> bool:
                theirs.poll(0.05)
                owned = {one.partition for one in theirs.assignment()}
                mine = {tp.partition for tp in ours.assignment}
                return len(owned) == len(mine) == 2 and owned | mine == {0, 1, 2, 3}

            eventually(shared, "two partitions each")
        finally:
            theirs.close()
        join_all([ours], 4)
        assert not ours.listener.of("lost")


@pytest.mark.kafka
def test_a_broker_without_the_protocol_names_the_setting(apache_old: Cluster, group_id: str, topic_name: str) -> None:
    apache_old.create_topic(topic_name, 1)
    with make_consumer(apache_old, group_id, group_protocol="consumer") as consumer:
        consumer.subscribe([topic_name])
        with pytest.raises(errors.UnsupportedVersionError, match="set group_protocol='classic'"):
            _poll(consumer)


def test_the_thread_that_sends_heartbeats_is_the_one_of_the_classic_protocol(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(1)
    with running() as start:
        member = start(cluster, group_id, [topic])
        join_all([member], 1)
        names = [thread.name for thread in threading.enumerate() if group_id in thread.name]
        assert sorted(names) == sorted([f"pyconsumer-heartbeat | {group_id}", f"test-member-{group_id}"])
        group: Any = coordinator_of(member.consumer)
        assert group._core.heartbeat_timers.interval == 0.2, "as the broker says"
