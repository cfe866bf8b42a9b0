"""Tests of how the consumer fetches, seen on the wire: pipelining, sessions, memory, and faults of every kind."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer import OffsetAndMetadata, TopicPartition
from pyconsumer.errors import LogTruncationError, TopicAuthorizationFailedError
from pyconsumer.protocol.api import ApiKey
from tests.behaviour.consumer_support import append, check_damage, consuming, fill, offsets, poll_until, read
from tests.support.cluster import Cluster
from tests.support.proxy import Event, KafkaProxy

pytestmark = [pytest.mark.twins, pytest.mark.faces]


def fetches(proxy: KafkaProxy) -> list[Any]:
    """The fetch requests that came through, decoded."""
    return [event.message for event in proxy.events(ApiKey.FETCH, "request")]


def offsets_asked(request: Any) -> dict[int, int]:
    return {p.partition: p.fetch_offset for topic in request.topics for p in topic.partitions}


@pytest.mark.ahead
def test_the_next_fetch_is_on_the_wire_while_the_application_holds_records(
    cluster: Cluster, topic: str, new_proxy: Callable[..., KafkaProxy]
) -> None:
    fill(cluster, topic, 4000, size=1000, each=500)
    proxy = new_proxy(round_trip_ms=5)
    with consuming(proxy.bootstrap_servers, TopicPartition(topic, 0)) as consumer:
        first = consumer.poll(60_000)
        asked = proxy.wait_for(ApiKey.FETCH, "request", 2)

        (records,) = first.values()
        assert len(records) == 500
        # Everything up to the end of the first answer is asked past, though only 500 records were handed out.
        next_offset = offsets_asked(asked[1].message)[0]
        assert next_offset > records[-1].offset + 1
        # While the records are held, without another call, the answer is made ready.
        proxy.wait_for(ApiKey.FETCH, "response", 2)
        assert consumer.position(TopicPartition(topic, 0)) == 500
        assert offsets(read(consumer, 3500)) == list(range(500, 4000))


@pytest.mark.ahead
def test_every_fetch_begins_where_the_last_answer_ended(cluster: Cluster, topic: str, proxy: KafkaProxy) -> None:
    fill(cluster, topic, 3000, size=1000, each=100)
    with consuming(proxy.bootstrap_servers, TopicPartition(topic, 0), max_partition_fetch_bytes=250_000) as consumer:
        assert offsets(read(consumer, 3000)) == list(range(3000))
    asked = [found[0] for found in map(offsets_asked, fetches(proxy)) if found]
    assert asked == sorted(set(asked))
    assert len(asked) >= 12


def test_fetches_after_the_first_send_only_changes(
    cluster: Cluster, make_topic: Callable[..., str], proxy: KafkaProxy
) -> None:
    topic = make_topic(5)
    partitions = [TopicPartition(topic, n) for n in range(5)]
    for tp in partitions:
        fill(cluster, topic, 1, partition=tp.partition)
    with consuming(proxy.bootstrap_servers, *partitions, fetch_max_wait_ms=50) as consumer:
        read(consumer, 5)
        full = fetches(proxy)[0]
        assert (full.session_id, full.session_epoch, set(offsets_asked(full))) == (0, 0, set(range(5)))
        epoch = fetches(proxy)[-1].session_epoch
        poll_until(consumer, lambda: fetches(proxy)[-1].session_epoch >= epoch + 2)
        quiet = fetches(proxy)[-1]
        assert quiet.session_id > 0
        assert offsets_asked(quiet) == {}

        proxy.forget_events()
        consumer.pause(partitions[2])

        def forgotten() -> list[int]:
            return [p for f in fetches(proxy) for t in f.forgotten_topics_data for p in t.partitions]

        poll_until(consumer, forgotten)
        assert forgotten() == [2]

        proxy.forget_events()
        consumer.resume(partitions[2])
        fill(cluster, topic, 1, partition=2)
        assert [(r.partition, r.offset) for r in read(consumer, 1)] == [(2, 1)]
        asked = [set(offsets_asked(f)) for f in fetches(proxy)]
        assert set().union(*asked) == {2}


def test_sessions_can_be_switched_off(cluster: Cluster, topic: str, proxy: KafkaProxy) -> None:
    fill(cluster, topic, 100)
    tp = TopicPartition(topic, 0)
    with consuming(proxy.bootstrap_servers, tp, enable_incremental_fetch_sessions=False) as consumer:
        read(consumer, 100)
    assert {(f.session_id, f.session_epoch) for f in fetches(proxy)} == {(0, -1)}


@pytest.mark.parametrize("code", [70, 71])
def test_a_lost_session_is_opened_again(cluster: Cluster, topic: str, proxy: KafkaProxy, code: int) -> None:
    fill(cluster, topic, 10)
    with consuming(proxy.bootstrap_servers, TopicPartition(topic, 0), fetch_max_wait_ms=50) as consumer:
        read(consumer, 10)
        proxy.forget_events()
        rule = proxy.fail(ApiKey.FETCH, code, at="")
        consumer.poll(300)
        rule.wait()
        fill(cluster, topic, 5)
        assert offsets(read(consumer, 5)) == [10, 11, 12, 13, 14]
    again = [f for f in fetches(proxy) if f.session_epoch == 0]
    assert [f.session_id > 0 for f in again] == [code == 71]


@pytest.mark.parametrize("code", [3, 6, 9, 56, 74, 75, 78, 100, 103, -1])
def test_transient_errors_lose_no_record(cluster: Cluster, topic: str, proxy: KafkaProxy, code: int) -> None:
    fill(cluster, topic, 300)
    with consuming(proxy.bootstrap_servers, TopicPartition(topic, 0), max_poll_records=100) as consumer:
        rule = proxy.fail(ApiKey.FETCH, code, at="responses.partitions", count=2)
        assert offsets(read(consumer, 300)) == list(range(300))
        rule.wait(1)


def test_a_topic_that_may_not_be_read_raises_and_can_be_tried_again(
    cluster: Cluster, topic: str, proxy: KafkaProxy
) -> None:
    fill(cluster, topic, 10)
    with consuming(proxy.bootstrap_servers, TopicPartition(topic, 0)) as consumer:
        proxy.fail(ApiKey.FETCH, 29, at="responses.partitions")
        with pytest.raises(TopicAuthorizationFailedError, match=topic):
            consumer.poll(60_000)
        assert offsets(read(consumer, 10)) == list(range(10))


@pytest.mark.ahead
@pytest.mark.parametrize("reset", [False, True])
def test_connections_cut_in_the_middle_of_a_response_lose_and_repeat_no_record(
    cluster: Cluster, topic: str, proxy: KafkaProxy, reset: bool
) -> None:
    fill(cluster, topic, 2000, size=500)
    tp = TopicPartition(topic, 0)
    with consuming(proxy.bootstrap_servers, tp, max_partition_fetch_bytes=100_000) as consumer:
        proxy.cut(ApiKey.FETCH, count=3, skip=1, reset=reset)
        assert offsets(read(consumer, 2000)) == list(range(2000))


def test_a_broker_that_drops_an_answer_is_asked_again(cluster: Cluster, topic: str, proxy: KafkaProxy) -> None:
    fill(cluster, topic, 100)
    options = {"request_timeout_ms": 1000, "fetch_max_wait_ms": 100}
    silent: list[int] = []

    def is_silent(event: Event) -> bool:
        """After the first fetch's response the connection is silent: responses keep their order."""
        if event.api_key == ApiKey.FETCH and not silent:
            silent.append(event.connection)
        return event.connection in silent

    with consuming(proxy.bootstrap_servers, TopicPartition(topic, 0), **options) as consumer:
        proxy.drop(None, where=is_silent)
        assert offsets(read(consumer, 100)) == list(range(100))
    assert silent


@pytest.mark.ahead
def test_a_batch_larger_than_every_limit_is_read_all_the_same(cluster: Cluster, topic: str) -> None:
    with cluster.raw() as client:
        append(client, topic, [b"x" * 300_000])
        append(client, topic, [b"y" * 10])
    options = {"max_partition_fetch_bytes": 1000, "fetch_max_bytes": 1000, "fetch_buffer_bytes": 2000}
    with consuming(cluster, TopicPartition(topic, 0), **options) as consumer:
        assert [len(r.value) for r in read(consumer, 2)] == [300_000, 10]


@pytest.mark.ahead
def test_memory_is_bounded_by_fetch_buffer_bytes(
    cluster: Cluster, make_topic: Callable[..., str], proxy: KafkaProxy
) -> None:
    topic = make_topic(8)
    partitions = [TopicPartition(topic, n) for n in range(8)]
    for tp in partitions:
        fill(cluster, topic, 400, partition=tp.partition, size=1000, each=50)
    limit = 500_000
    options = {"fetch_buffer_bytes": limit, "max_partition_fetch_bytes": 60_000, "max_poll_records": 20}
    with consuming(proxy.bootstrap_servers, *partitions, **options) as consumer:
        highest = 0

        def look() -> None:
            nonlocal highest
            found = consumer.metrics()["consumer-fetch-manager-metrics"]
            highest = max(highest, found["buffered-bytes"] + found["reserved-bytes"])

        records = read(consumer, 3200, each=look)
    batch = 60_000  # the one batch that is being decoded is there twice
    assert 0 < highest <= limit + batch
    for tp in partitions:
        assert offsets(r for r in records if r.partition == tp.partition) == list(range(400))
    assert max(f.max_bytes for f in fetches(proxy)) <= limit


@pytest.mark.parametrize(("size", "most"), [(1000, 16 << 20), (10, 8 << 20)])
def test_requests_ask_for_more_where_records_are_large(
    cluster: Cluster, topic: str, proxy: KafkaProxy, size: int, most: int
) -> None:
    fill(cluster, topic, 40, size=size, each=10)
    with consuming(proxy.bootstrap_servers, TopicPartition(topic, 0)) as consumer:
        read(consumer, 40)
        asked = proxy.wait_for(ApiKey.FETCH, "request", 2)
    assert [event.message.max_bytes for event in asked[:2]] == [8 << 20, most]


@pytest.mark.ahead
def test_a_closed_consumer_holds_no_records(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic, 400, size=1000, each=50)
    with consuming(cluster, TopicPartition(topic, 0), max_poll_records=10) as consumer:
        read(consumer, 10)
        budget = consumer._delegate.fetcher.planner.budget
        assert budget.held > 100_000
        consumer.close()  # whoever made it may keep it
        assert budget.held == 0


@pytest.mark.ahead
def test_partitions_take_fair_turns(cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic(4)
    partitions = [TopicPartition(topic, n) for n in range(4)]
    for tp in partitions:
        fill(cluster, topic, 1000, partition=tp.partition, size=1000)
    with consuming(cluster, *partitions, max_partition_fetch_bytes=100_000, max_poll_records=100) as consumer:
        records = read(consumer, 2000)
    counts = [sum(1 for r in records if r.partition == n) for n in range(4)]
    assert min(counts) >= 250, counts


def test_a_damaged_batch_is_raised_and_skipped(cluster: Cluster, topic: str, proxy: KafkaProxy) -> None:
    fill(cluster, topic, 30, each=10)
    tp = TopicPartition(topic, 0)

    def damage(message: Any) -> None:
        for found in message.responses:
            for partition in found.partitions:
                data = bytearray(partition.records or b"")
                at = data.find(b"15")
                if at >= 0:
                    data[at] ^= 0xFF
                    partition.records = bytes(data)

    with consuming(proxy.bootstrap_servers, tp) as consumer:
        rule = proxy.edit(ApiKey.FETCH, damage)
        assert offsets(read(consumer, 10)) == list(range(10))
        check_damage(consumer, tp, rule, damaged=10, after=20, end=30)


@pytest.mark.ahead
@pytest.mark.parametrize("policy", ["earliest", "none"])
def test_a_truncated_log_is_noticed(cluster: Cluster, topic: str, proxy: KafkaProxy, policy: str) -> None:
    fill(cluster, topic, 100, each=10)
    tp = TopicPartition(topic, 0)

    def truncate(message: Any) -> None:
        for found in message.topics:
            for partition in found.partitions:
                partition.leader_epoch, partition.end_offset = 0, 40

    with consuming(proxy.bootstrap_servers, tp, auto_offset_reset=policy) as consumer:
        consumer.seek(tp, 0)
        epoch = read(consumer, 1)[0].leader_epoch
        rule = proxy.edit(ApiKey.OFFSET_FOR_LEADER_EPOCH, truncate, count=1)
        consumer.seek(tp, OffsetAndMetadata(60, "", epoch))
        if policy == "none":
            with pytest.raises(LogTruncationError) as caught:
                consumer.poll(60_000)
            assert caught.value.partitions == {tp: 60}
        else:
            assert offsets(read(consumer, 1))[0] == 40
        rule.wait()


@pytest.mark.ahead
def test_a_new_leader_epoch_is_validated_before_more_records_are_returned(
    cluster: Cluster, topic: str, proxy: KafkaProxy
) -> None:
    fill(cluster, topic, 100, each=10)
    tp = TopicPartition(topic, 0)

    def next_epoch(message: Any) -> None:
        for found in message.topics:
            for partition in found.partitions:
                partition.leader_epoch += 1

    def any_epoch(message: Any) -> None:
        for found in message.topics:
            for partition in found.partitions:
                partition.current_leader_epoch = -1

    with consuming(proxy.bootstrap_servers, tp, metadata_max_age_ms=300, max_poll_records=5) as consumer:
        assert offsets(read(consumer, 5)) == [0, 1, 2, 3, 4]
        proxy.edit(ApiKey.METADATA, next_epoch)
        proxy.edit((ApiKey.FETCH, ApiKey.OFFSET_FOR_LEADER_EPOCH), any_epoch, direction="request")
        assert offsets(read(consumer, 95)) == list(range(5, 100))
        poll_until(consumer, lambda: proxy.events(ApiKey.OFFSET_FOR_LEADER_EPOCH, "response"))
        fill(cluster, topic, 3)
        assert offsets(read(consumer, 3)) == [100, 101, 102]


@pytest.mark.parametrize(
    "newest",
    [
        {ApiKey.FETCH: 12},
        {ApiKey.FETCH: 10, ApiKey.LIST_OFFSETS: 4, ApiKey.METADATA: 7, ApiKey.OFFSET_FOR_LEADER_EPOCH: 2},
    ],
    ids=["without topic ids", "as Kafka 2.1"],
)
def test_older_brokers_are_read_too(cluster: Cluster, topic: str, proxy: KafkaProxy, newest: dict[ApiKey, int]) -> None:
    fill(cluster, topic, 200)
    tp = TopicPartition(topic, 0)
    proxy.limit_versions(newest)
    with consuming(proxy.bootstrap_servers, tp) as consumer:
        assert offsets(read(consumer, 200)) == list(range(200))
        consumer.seek(tp, OffsetAndMetadata(150, "", 0))
        assert offsets(read(consumer, 50)) == list(range(150, 200))
    assert {e.api_version for e in proxy.events(ApiKey.FETCH)} == {newest[ApiKey.FETCH]}


def test_a_follower_named_by_the_leader_is_asked(cluster: Cluster, topic: str, proxy: KafkaProxy) -> None:
    fill(cluster, topic, 10)
    tp = TopicPartition(topic, 0)

    def prefer_nobody(message: Any) -> None:
        for found in message.responses:
            for partition in found.partitions:
                partition.preferred_read_replica, partition.records = 9, b""

    with consuming(proxy.bootstrap_servers, tp, client_rack="r") as consumer:
        rule = proxy.edit(ApiKey.FETCH, prefer_nobody, count=1)
        # Node 9 does not exist: the leader is asked again, and nothing is lost.
        assert offsets(read(consumer, 10)) == list(range(10))
        rule.wait()


@pytest.mark.ahead
def test_records_fetched_before_a_seek_are_not_returned(cluster: Cluster, topic: str, proxy: KafkaProxy) -> None:
    fill(cluster, topic, 1000)
    tp = TopicPartition(topic, 0)
    with consuming(proxy.bootstrap_servers, tp) as consumer:
        held = proxy.hold(ApiKey.FETCH, count=1)
        poll_until(consumer, lambda: held.hits)
        consumer.seek(tp, 700)
        held.release()
        assert offsets(read(consumer, 300)) == list(range(700, 1000))


def test_an_idle_consumer_makes_few_requests(cluster: Cluster, topic: str, proxy: KafkaProxy) -> None:
    tp = TopicPartition(topic, 0)
    with consuming(proxy.bootstrap_servers, tp) as consumer:
        consumer.position(tp)
        proxy.forget_events()
        started = time.monotonic()
        for _ in range(100):
            consumer.poll(20)
        waits = (time.monotonic() - started) / 0.5  # fetches are answered after 500 ms
    assert len(proxy.events(direction="request")) <= 4 + waits


@pytest.mark.blocking_only("it looks inside; unit/aio/test_driver.py shows the same of the driver for event loops")
def test_polling_buffered_records_makes_no_system_call(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cluster, topic, 1000, each=1000)
    with consuming(cluster, TopicPartition(topic, 0), max_poll_records=100) as consumer:
        read(consumer, 100)
        client = consumer._network
        for name in ("poll", "flush", "_turn"):
            monkeypatch.setattr(client, name, lambda *a, name=name: pytest.fail(f"{name} was called"))
        for _ in range(8):
            assert consumer.poll(60_000).count() == 100
        monkeypatch.undo()


@pytest.mark.ahead
@pytest.mark.concurrent
def test_records_of_paused_partitions_do_not_starve_the_others(
    cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    """The usual way to give some partitions precedence: the others are paused until those are read."""
    topic = make_topic(2)
    low, high = (TopicPartition(topic, number) for number in range(2))
    fill(cluster, topic, 6000, size=1000, each=500)
    bounds = {"fetch_buffer_bytes": 2 << 20, "max_partition_fetch_bytes": 1 << 20, "max_poll_records": 1}
    with consuming(cluster, low, high, **bounds) as consumer:
        read(consumer, 1)
        time.sleep(0.5)  # the answers that fill the buffer arrive
        consumer.poll(0)
        consumer.pause(low)
        fill(cluster, topic, 5, partition=1)
        assert {record.partition for record in read(consumer, 5)} == {1}
        consumer.resume(low)
        assert {record.partition for record in read(consumer, 5)} == {0}
