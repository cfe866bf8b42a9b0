"""A topic that is deleted and created again under its name is another topic: positions in the old one are void."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest

from pyconsumer import KafkaAdminClient, KafkaConsumer, TopicPartition
from pyconsumer.errors import KafkaError, NoOffsetForPartitionError, TopicAlreadyExistsError
from tests.behaviour.consumer_support import consuming, fill, poll_until, read
from tests.support.cluster import Cluster
from tests.support.process import wait_until

pytestmark = pytest.mark.faces

OLD = 10


def recreate(admin: KafkaAdminClient, cluster: Cluster, topic: str, count: int) -> None:
    """Delete a topic, create it again under its name, and put records into it."""
    admin.delete_topics([topic])

    def created() -> bool:
        try:
            admin.create_topics([topic])
        except TopicAlreadyExistsError:
            return False  # the deletion is on its way
        return True

    wait_until(created, 60, "the topic can be created again")
    fill(cluster, topic, count)


def read_new(consumer: Any, count: int) -> list[int]:
    """Poll until the last of the new records came and return the offsets. A poll may raise while the topic is away."""
    found: list[int] = []
    deadline = time.monotonic() + 60
    while not found or found[-1] != count - 1:
        assert time.monotonic() < deadline, found
        found += [record.offset for record in consumer.poll(200).records()]
    return found


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "created again" in record.getMessage()]


@pytest.mark.parametrize("count", [5, 20])
def test_partitions_assigned_by_hand(
    count: int, cluster: Cluster, admin: KafkaAdminClient, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With fewer records than before all of them would be skipped, with more the first ones."""
    fill(cluster, topic, OLD)
    with consuming(cluster, TopicPartition(topic, 0)) as consumer:
        read(consumer, OLD)
        recreate(admin, cluster, topic, count)
        assert read_new(consumer, count) == list(range(count))
    (line,) = lines(caplog)
    assert line.partition("] ")[2].startswith(f"topic {topic} was deleted and created again (id ")
    assert "10 in partition 0" in line
    assert line.endswith("It begins by auto_offset_reset=earliest")


@pytest.mark.protocols
@pytest.mark.parametrize("count", [5, 20])
def test_in_a_group_that_commits_automatically(
    count: int,
    cluster: Cluster,
    group_protocol: str,
    admin: KafkaAdminClient,
    topic: str,
    group_id: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No position of the old topic is committed for the new one, by which its records would be skipped later."""
    caplog.set_level(logging.INFO, "pyconsumer.consumer")
    fill(cluster, topic, OLD)
    tp = TopicPartition(topic, 0)
    settings = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": group_id,
        "group_protocol": group_protocol,
        "auto_offset_reset": "earliest",
        "auto_commit_interval_ms": 50,
    }
    with KafkaConsumer(topic, **settings) as consumer:
        read(consumer, OLD)
        poll_until(consumer, lambda: consumer.committed(tp) == OLD)
        recreate(admin, cluster, topic, count)
        found = read_new(consumer, count)
        assert sorted(set(found)) == list(range(count)), "no new record is skipped"
        poll_until(consumer, lambda: consumer.committed(tp) == count)
    assert len(lines(caplog)) <= 1, "at most one line: the group may have assigned the new topic before"


@pytest.mark.protocols
def test_a_commit_for_the_old_topic_is_refused(
    cluster: Cluster, group_protocol: str, admin: KafkaAdminClient, topic: str, group_id: str
) -> None:
    fill(cluster, topic, OLD)
    tp = TopicPartition(topic, 0)
    settings = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": group_id, "group_protocol": group_protocol}
    with KafkaConsumer(topic, auto_offset_reset="earliest", enable_auto_commit=False, **settings) as consumer:
        read(consumer, OLD)
        recreate(admin, cluster, topic, 20)
        with pytest.raises(KafkaError):
            consumer.commit(timeout_ms=3000)
        assert consumer.committed(tp) is None
        assert set(read_new(consumer, 20)) == set(range(20))
        consumer.commit()
        assert consumer.committed(tp) == 20


def test_without_a_policy_each_poll_raises_until_a_seek(cluster: Cluster, admin: KafkaAdminClient, topic: str) -> None:
    fill(cluster, topic, OLD)
    tp = TopicPartition(topic, 0)
    with consuming(cluster, tp, auto_offset_reset="none") as consumer:
        consumer.seek(tp, 0)
        read(consumer, OLD)
        recreate(admin, cluster, topic, 20)
        for _ in range(2):
            with pytest.raises(NoOffsetForPartitionError, match="created again") as raised:
                read(consumer, 1)
            assert set(raised.value.partitions) == {tp}
        consumer.seek(tp, 3)
        assert read_new(consumer, 20) == list(range(3, 20))


def test_with_latest_it_begins_at_the_end(
    cluster: Cluster, admin: KafkaAdminClient, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(cluster, topic, OLD)
    tp = TopicPartition(topic, 0)
    with consuming(cluster, tp, auto_offset_reset="latest") as consumer:
        consumer.seek(tp, 0)
        read(consumer, OLD)
        recreate(admin, cluster, topic, 5)
        poll_until(consumer, lambda: lines(caplog))
        poll_until(consumer, lambda: consumer.position(tp) == 5)
        fill(cluster, topic, 1)
        assert [record.offset for record in read(consumer, 1)] == [5]
