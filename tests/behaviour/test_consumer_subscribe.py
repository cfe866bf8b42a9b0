"""Records and commits of a member of a group, as its application sees them. Rebalances: ``test_group_*``."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

import pytest

from pyconsumer import ConsumerRebalanceListener, TopicPartition
from pyconsumer.errors import IllegalStateError
from tests.behaviour.consumer_support import consuming, fill, offsets, read
from tests.support.cluster import Cluster

pytestmark = pytest.mark.faces


def test_empty_polls_are_normal_until_the_group_has_settled(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 10)
    with consuming(cluster, group_id=group_id) as consumer:
        consumer.subscribe([topic])
        assert not consumer.poll(0)
        assert offsets(read(consumer, 10)) == list(range(10))
        assert consumer.assignment() == {TopicPartition(topic, 0)}
        assert consumer.subscription() == {topic}


def test_automatic_commits_cover_only_records_of_earlier_polls(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 100)
    tp = TopicPartition(topic, 0)
    with consuming(cluster, group_id=group_id, max_poll_records=10, auto_commit_interval_ms=1) as consumer:
        consumer.subscribe([topic])
        with consuming(cluster, tp, group_id=group_id, enable_auto_commit=False) as other:
            handed_out = 0
            while handed_out < 100:
                handed_out += len(read(consumer, 1))
                assert (other.committed(tp) or 0) < handed_out
            deadline = time.monotonic() + 60
            while other.committed(tp) != 100:
                assert time.monotonic() < deadline
                consumer.poll(20)


def test_closing_after_iteration_commits_the_last_record_yielded(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 100)
    with consuming(cluster, group_id=group_id) as consumer:
        consumer.subscribe([topic])
        for record in consumer:
            if record.offset == 41:
                break
    with consuming(cluster, group_id=group_id) as again:
        again.subscribe([topic])
        assert next(again).offset == 42


def test_revocation_inside_a_loop_commits_the_last_record_yielded_and_drops_the_rest(
    cluster: Cluster, make_topic: Callable[..., str], group_id: str
) -> None:
    topic = make_topic(2)
    for partition in range(2):
        fill(cluster, topic, 400, partition=partition)
    options = {"group_id": group_id, "heartbeat_interval_ms": 100, "auto_commit_interval_ms": 600_000}
    found: dict[int, list[int]] = {0: [], 1: []}
    with (
        consuming(cluster, consumer_timeout_ms=20, **options) as first,
        consuming(cluster, consumer_timeout_ms=20, max_poll_records=5, **options) as second,
    ):
        first.subscribe([topic])
        deadline = time.monotonic() + 100
        while (count := sum(map(len, found.values()))) < 800:
            assert time.monotonic() < deadline, f"{count} of 800"
            if count == 100:
                second.subscribe([topic])
            members = (first, second) if second.subscription() else (first,)
            for member in members:
                for record in member:  # ends after 20 ms without a record
                    found[record.partition].append(record.offset)
                    break
        assert first.assignment()
        assert second.assignment()
    # Nothing is read twice and nothing is left out, though half of a buffer changed hands.
    assert {n: sorted(o) for n, o in found.items()} == {0: list(range(400)), 1: list(range(400))}


@pytest.mark.blocking_only("its listener waits, for which asyncio has coroutines: see test_aio_consumer")
def test_a_listener_may_seek_and_pause_new_partitions_and_may_not_poll(
    cluster: Cluster, make_topic: Callable[..., str], group_id: str
) -> None:
    topic = make_topic(2)
    for partition in range(2):
        fill(cluster, topic, 50, partition=partition)
    refused: list[str] = []

    with consuming(cluster, group_id=group_id) as consumer:

        class Placing(ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
                for call in (consumer.poll, consumer.unsubscribe, consumer.close, lambda: next(consumer)):
                    try:
                        call()
                    except IllegalStateError as error:
                        refused.append(str(error))
                for tp in assigned:
                    consumer.seek(tp, 40)
                    assert consumer.position(tp) == 40
                    if tp.partition == 1:
                        consumer.pause(tp)

        consumer.subscribe([topic], listener=Placing())
        records = read(consumer, 10)
        assert [(r.partition, r.offset) for r in records] == [(0, n) for n in range(40, 50)]
        assert not consumer.poll(200)
        consumer.resume(TopicPartition(topic, 1))
        assert offsets(read(consumer, 10)) == list(range(40, 50))
    assert len(refused) == 4
