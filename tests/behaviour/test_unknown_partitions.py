"""Partitions and topics that do not exist: calls that need one say so at once, not when their time is over."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaProducer, TopicPartition
from pyconsumer.admin import OffsetSpec
from pyconsumer.errors import KafkaTimeoutError, UnknownTopicOrPartitionError
from pyconsumer.protocol.api_keys import ApiKey
from tests.behaviour.consumer_support import consuming, fill, poll_until, read
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.proxy import KafkaProxy

pytestmark = pytest.mark.faces

#: Nobody waits for this: a call that does has failed.
LONG_MS = 600_000

CALLS: dict[str, Callable[[Any, TopicPartition], object]] = {
    "beginning_offsets": lambda consumer, tp: consumer.beginning_offsets([tp]),
    "end_offsets": lambda consumer, tp: consumer.end_offsets([tp]),
    "offsets_for_times": lambda consumer, tp: consumer.offsets_for_times({tp: 0}),
    "position": lambda consumer, tp: (consumer.assign([tp]), consumer.position(tp)),
}


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines of the log without the names of their clients."""
    return [text.rpartition("] ")[2] for text in caplog.messages]


@pytest.mark.parametrize("call", CALLS)
def test_looking_up_an_offset(cluster: Cluster, make_topic: Callable[..., str], topic_name: str, call: str) -> None:
    topic = make_topic(2)
    with consuming(cluster, default_api_timeout_ms=LONG_MS, allow_auto_create_topics=False) as consumer:
        with pytest.raises(UnknownTopicOrPartitionError, match=f"topic '{topic}' has partitions 0 to 1, not 7"):
            CALLS[call](consumer, TopicPartition(topic, 7))
        with pytest.raises(UnknownTopicOrPartitionError, match=f"there is no topic '{topic_name}'"):
            CALLS[call](consumer, TopicPartition(topic_name, 0))


@pytest.mark.blocking_only("no consumer is used")
def test_the_admin_client_and_the_producer(cluster: Cluster, topic: str) -> None:
    tp = TopicPartition(topic, 7)
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers, default_api_timeout_ms=LONG_MS) as admin:
        with pytest.raises(UnknownTopicOrPartitionError, match=f"topic '{topic}' has partition 0 alone, not 7"):
            admin.list_offsets({tp: OffsetSpec.LATEST})
        with pytest.raises(UnknownTopicOrPartitionError, match="not 7"):
            admin.delete_records({tp: 1})
    with (
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, max_block_ms=LONG_MS) as producer,
        pytest.raises(ValueError, match="not 7"),
    ):
        producer.send(topic, b"x", partition=7)


def test_a_partition_that_is_assigned_before_it_exists_is_one_warning_and_read_when_it_does(
    cluster: Cluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    tp = TopicPartition(topic, 1)
    with consuming(cluster, tp, metadata_max_age_ms=500) as consumer, caplog.at_level(logging.WARNING, "pyconsumer"):
        while not caplog.records:
            assert not consumer.poll(200)
        assert not consumer.poll(1000)
        (record,) = caplog.records
        assert record.getMessage().partition("] ")[2] == (
            f"{tp} is assigned and does not exist, waiting for it: UNKNOWN_TOPIC_OR_PARTITION (error code 3): "
            f"topic '{topic}' has partition 0 alone, not 1"
        )
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_partitions({topic: 2})
        fill(cluster, topic, 3, partition=1)
        assert len(read(consumer, 3)) == 3


@pytest.mark.blocking_only("no consumer is used")
def test_a_partition_made_a_moment_ago_counts(cluster: Cluster, topic: str) -> None:
    """The producer and the admin client ask again before they believe that a partition does not exist."""
    with (
        KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):
        producer.send(topic, b"x", partition=0).get()
        admin.create_partitions({topic: 3})
        assert admin.list_offsets({TopicPartition(topic, 2): OffsetSpec.LATEST})[TopicPartition(topic, 2)]
        producer.send(topic, b"x", partition=2).get()


@pytest.mark.blocking_only("no consumer is used")
def test_a_partition_made_while_older_metadata_is_on_its_way_counts(
    cluster: Cluster, topic: str, make_topic: Callable[..., str]
) -> None:
    """The response to a request from before the partition existed comes after ``send`` has asked for it."""
    with (
        KafkaProxy(cluster.bootstrap_servers) as proxy,
        KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
        KafkaProducer(bootstrap_servers=proxy.bootstrap_servers, linger_ms=0) as producer,
        ThreadPoolExecutor(2) as threads,
    ):
        other, metadata = make_topic(1), producer._delegate.metadata
        producer.send(topic, b"x", partition=0).get()
        held = proxy.hold(ApiKey.METADATA, count=1)
        asked = threads.submit(producer.partitions_for, other)
        held.wait()
        admin.create_partitions({topic: 2})
        sent = threads.submit(producer.send, topic, b"x", partition=1)
        wait_until(lambda: metadata._full_asked > metadata._full_settled, 60, "send has asked")
        held.release()
        sent.result(60).get()
        assert asked.result(60) == {0}


@pytest.mark.parametrize("group", ["classic", "consumer", None])
def test_a_topic_that_is_subscribed_before_it_exists_is_one_warning_and_stands_in_repr(
    group: str | None, cluster: Cluster, topic_name: str, group_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A program that polls would not learn it: it would get no record, for ever."""
    settings = {"group_id": group_id, "group_protocol": group} if group else {}
    with (
        consuming(cluster, metadata_max_age_ms=500, allow_auto_create_topics=False, **settings) as consumer,
        caplog.at_level(logging.WARNING, "pyconsumer.consumer"),
    ):
        consumer.subscribe([topic_name])
        assert "missing_topics" not in repr(consumer)
        text = f"topic {topic_name} is subscribed and does not exist, waiting for it"
        poll_until(consumer, lambda: text in messages(caplog))
        assert repr(consumer).endswith(f" AUTO_TOPICS missing_topics=['{topic_name}']>")
        consumer.poll(500)
        assert messages(caplog).count(text) == 1
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([topic_name])
        fill(cluster, topic_name, 3)
        assert len(read(consumer, 3)) == 3
        assert repr(consumer).endswith(" AUTO_TOPICS>")


LATE: dict[str, Callable[[Any], object]] = {
    "position": lambda consumer: consumer.position(TopicPartition("t", 0), timeout_ms=100),
    "end_offsets": lambda consumer: consumer.end_offsets([TopicPartition("t", 0)], timeout_ms=100),
    "offsets_for_times": lambda consumer: consumer.offsets_for_times({TopicPartition("t", 0): 0}, timeout_ms=100),
    "partitions_for_topic": lambda consumer: consumer.partitions_for_topic("t", timeout_ms=100),
    "topics": lambda consumer: consumer.topics(timeout_ms=100),
    "committed": lambda consumer: consumer.committed(TopicPartition("t", 0), timeout_ms=100),
    "commit": lambda consumer: consumer.commit({TopicPartition("t", 0): 1}, timeout_ms=100),
}


@pytest.mark.parametrize("call", LATE)
def test_a_time_that_is_over_is_said_once(call: str, dead_address: str) -> None:
    """The error has the reason. A second one behind it ("the call did not finish in time") would not help."""
    with consuming(dead_address, TopicPartition("t", 0), group_id="g") as consumer:
        with pytest.raises(KafkaTimeoutError) as raised:
            LATE[call](consumer)
        assert not isinstance(raised.value.__cause__, KafkaTimeoutError)
        assert raised.value.__cause__ is not None or raised.value.__suppress_context__ or not raised.value.__context__
        assert str(raised.value) != "the call did not finish in time"


@pytest.mark.blocking_only("no consumer is used")
def test_a_time_that_is_over_is_said_once_by_the_admin_client(dead_address: str) -> None:
    with KafkaAdminClient(bootstrap_servers=dead_address) as admin:
        for call in (
            lambda: admin.list_topics(timeout_ms=100),
            lambda: admin.list_offsets({TopicPartition("t", 0): OffsetSpec.LATEST}, timeout_ms=100),
            lambda: admin.describe_groups(["g"], timeout_ms=100),
        ):
            with pytest.raises(KafkaTimeoutError) as raised:
                call()
            assert not isinstance(raised.value.__cause__, KafkaTimeoutError)
            assert raised.value.__cause__ or raised.value.__suppress_context__ or not raised.value.__context__
            assert str(raised.value) != "the call did not finish in time"
