"""Commits from outside: which offsets are committed when, the start of the next owner, failures."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pyconsumer import errors
from pyconsumer.consumer.consumer import KafkaConsumer
from pyconsumer.protocol.api_keys import ApiKey
from pyconsumer.structs import OffsetAndMetadata, TopicPartition
from pyconsumer.testing import RunningClock
from tests.behaviour.group_members import Listener, eventually, fill, join_all, make_consumer, running
from tests.support.asyncio_face import AsyncioConsumer
from tests.support.cluster import Cluster
from tests.support.proxy import KafkaProxy

pytestmark = [pytest.mark.concurrent, pytest.mark.faces]

MakeTopic = Callable[..., str]


def committed(cluster: Cluster, group_id: str, topic: str, partition: int = 0) -> int | None:
    """Return the committed offsets of the group, as seen by another consumer."""
    consumer = make_consumer(cluster, group_id)
    try:
        found = consumer.committed(TopicPartition(topic, partition))
        assert found is None or isinstance(found, int)
        return found
    finally:
        consumer.close()


def by_hand(cluster: Cluster | str, group_id: str, topic: str, **settings: Any) -> KafkaConsumer:
    """A consumer with partition 0 assigned by hand."""
    consumer = make_consumer(cluster, group_id, **({"enable_auto_commit": False} | settings))
    consumer.assign([TopicPartition(topic, 0)])
    return consumer


def read(consumer: KafkaConsumer, count: int) -> list[Any]:
    """Poll until this number of records has come."""
    found: list[Any] = []
    eventually(lambda: found.extend(consumer.poll(100).records()) or len(found) >= count, f"reading {count} records")
    return found


@pytest.mark.smoke
@pytest.mark.protocols
def test_committed_offsets_are_read_back(cluster: Cluster, topic: str, group_id: str) -> None:
    tp = TopicPartition(topic, 0)
    fill(cluster, topic, 10)
    consumer = by_hand(cluster, group_id, topic)
    assert consumer.committed(tp) is None
    read(consumer, 10)
    consumer.commit()
    assert consumer.committed(tp) == 10
    consumer.commit({tp: OffsetAndMetadata(4, "note", 0)})
    assert consumer.committed(tp, metadata=True) == OffsetAndMetadata(4, "note", 0)
    assert consumer.committed([tp, TopicPartition(topic, 7)]) == {tp: 4, TopicPartition(topic, 7): None}
    consumer.close()
    again = by_hand(cluster, group_id, topic)
    assert [record.offset for record in read(again, 6)] == [4, 5, 6, 7, 8, 9]
    again.close()


@pytest.mark.protocols
def test_asynchronous_commits_call_back_in_order(cluster: Cluster, topic: str, group_id: str) -> None:
    tp = TopicPartition(topic, 0)
    consumer = by_hand(cluster, group_id, topic)
    log: list[tuple[int, object]] = []
    for offset in range(5):
        consumer.commit_async({tp: offset}, lambda offsets, error: log.append((offsets[tp].offset, error)))
    if not isinstance(consumer, AsyncioConsumer):  # on a loop, the first ones may have been answered by now
        assert log == []
    consumer.commit({tp: 9})
    assert log == [(offset, None) for offset in range(5)], "all of them before the later commit returns"
    assert consumer.committed(tp) == 9
    consumer.close()


@pytest.mark.protocols
def test_callbacks_run_in_polls_too(cluster: Cluster, topic: str, group_id: str) -> None:
    consumer = by_hand(cluster, group_id, topic)
    log: list[object] = []
    consumer.commit_async({TopicPartition(topic, 0): 1}, lambda offsets, error: log.append(error))
    eventually(lambda: (consumer.poll(50), log)[1], "the callback")
    assert log == [None]
    consumer.close()


@pytest.mark.protocols
def test_close_waits_for_asynchronous_commits(cluster: Cluster, topic: str, group_id: str) -> None:
    consumer = by_hand(cluster, group_id, topic)
    log: list[object] = []
    consumer.commit_async({TopicPartition(topic, 0): 3}, lambda offsets, error: log.append(error))
    consumer.close()
    assert log == [None]
    assert committed(cluster, group_id, topic) == 3


@pytest.mark.protocols
def test_positions_are_committed_by_themselves(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 10)
    with running() as start:
        member = start(cluster, group_id, [topic], auto_commit_interval_ms=200)
        eventually(lambda: len(member.read) == 10, "reading")
        eventually(lambda: committed(cluster, group_id, topic) == 10, "committing")


@pytest.mark.protocols
def test_only_offsets_of_returned_records_are_committed(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 10)
    consumer = make_consumer(cluster, group_id, max_poll_records=3)
    consumer.subscribe([topic])
    assert [record.offset for record in read(consumer, 3)] == [0, 1, 2]
    consumer.close()
    assert committed(cluster, group_id, topic) == 3


@pytest.mark.protocols
def test_close_can_leave_the_commit_out(cluster: Cluster, topic: str, group_id: str) -> None:
    fill(cluster, topic, 10)
    consumer = make_consumer(cluster, group_id, enable_auto_commit=False)
    consumer.subscribe([topic])
    read(consumer, 10)
    consumer.close()
    assert committed(cluster, group_id, topic) is None


@pytest.mark.protocols
def test_no_record_is_read_twice_or_lost_in_an_orderly_rebalance(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(4)
    fill(cluster, topic, 400, 4)
    with running() as start:
        members = [start(cluster, group_id, [topic], max_poll_records=10, auto_commit_interval_ms=60_000)]
        for _ in range(3):
            eventually(lambda: sum(len(m.read) for m in members) >= 20 * len(members), "progress")
            members.append(start(cluster, group_id, [topic], max_poll_records=10, auto_commit_interval_ms=60_000))
            fill(cluster, topic, 100, 4)
        members[0].stop()
        fill(cluster, topic, 100, 4)
        eventually(lambda: sum(len(m.read) for m in members) >= 800, "reading it all")
        join_all(members[1:], 4)
        everything = sorted(record for member in members for record in member.read)
        assert everything == sorted((TopicPartition(topic, p), o) for p in range(4) for o in range(200))


@pytest.mark.protocols
def test_a_commit_in_the_revoked_callback_is_in_time(cluster: Cluster, make_topic: MakeTopic, group_id: str) -> None:
    topic = make_topic(2)
    fill(cluster, topic, 20, 2)
    listener = Listener()
    with running() as start:
        a = start(cluster, group_id, [topic], enable_auto_commit=False, listener=listener)
        listener.hook = lambda what, partitions: a.consumer.commit() if what == "revoked" else None
        eventually(lambda: len(a.read) == 20, "reading")
        b = start(cluster, group_id, [topic], enable_auto_commit=False)
        join_all([a, b], 2)
        assert committed(cluster, group_id, topic, 0) == 10
        assert committed(cluster, group_id, topic, 1) == 10
        fill(cluster, topic, 2, 2)
        eventually(lambda: len(a.read) + len(b.read) == 22, "reading on")
        assert len(b.read) == 1


@pytest.mark.protocols
def test_metadata_that_is_too_long(cluster: Cluster, topic: str, group_id: str) -> None:
    tp = TopicPartition(topic, 0)
    consumer = by_hand(cluster, group_id, topic)
    consumer.commit({tp: OffsetAndMetadata(1, "x" * 4096)})
    with pytest.raises(errors.OffsetMetadataTooLargeError):
        consumer.commit({tp: OffsetAndMetadata(2, "x" * 4097)})
    assert consumer.committed(tp) == 1
    consumer.close()


@pytest.mark.protocols
def test_a_commit_without_a_membership_names_the_reason(cluster: Cluster, topic: str, group_id: str) -> None:
    clock = RunningClock()
    consumer = make_consumer(cluster, group_id, enable_auto_commit=False, max_poll_interval_ms=300_000, clock=clock)
    offsets = {TopicPartition(topic, 0): 1}
    try:
        consumer.subscribe([topic])
        with pytest.raises(errors.CommitFailedError) as raised:
            consumer.commit(offsets)
        assert str(raised.value) == (
            f"offsets were not committed: this consumer is not a member of group {group_id} now. It joins in poll():"
            " call that, then commit."
        )
        eventually(lambda: (consumer.poll(50), consumer.assignment())[1], "joining")
        clock.advance(301)
        eventually(lambda: consumer.group_metadata().generation_id < 0, "the heartbeat thread leaves the group")
        with pytest.raises(errors.CommitFailedError) as raised:
            consumer.commit(offsets)
        text = str(raised.value)
        assert text.startswith(
            f"offsets were not committed: this consumer is not a member of group {group_id} now: the group has"
            " continued without this member, and its partitions may have another owner. The last poll() was 30"
        )
        assert text.endswith(
            " s ago; max_poll_interval_ms allows 300 s. Call poll() more often: raise max_poll_interval_ms, or lower"
            " max_poll_records."
        )
    finally:
        consumer.close()


@pytest.mark.protocols
def test_a_stranger_cannot_commit_for_a_group_with_members(
    cluster: Cluster, make_topic: MakeTopic, group_id: str
) -> None:
    topic = make_topic(1)
    with running() as start:
        join_all([start(cluster, group_id, [topic])], 1)
        stranger = by_hand(cluster, group_id, topic)
        with pytest.raises(errors.CommitFailedError, match="group_id of its own"):
            stranger.commit({TopicPartition(topic, 0): 1})
        stranger.close()


@pytest.mark.parametrize("code", [14, 15, 16, 7])
@pytest.mark.protocols
def test_a_commit_outlasts_errors_that_pass(
    cluster: Cluster, proxy: KafkaProxy, topic: str, group_id: str, code: int
) -> None:
    rule = proxy.fail(ApiKey.OFFSET_COMMIT, code, count=2)
    consumer = by_hand(proxy.bootstrap_servers, group_id, topic)
    consumer.commit({TopicPartition(topic, 0): 5})
    assert rule.hits == 2
    assert committed(cluster, group_id, topic) == 5
    consumer.close()


@pytest.mark.protocols
def test_a_commit_outlasts_a_broken_connection(cluster: Cluster, proxy: KafkaProxy, topic: str, group_id: str) -> None:
    proxy.cut(ApiKey.OFFSET_COMMIT, count=1)
    consumer = by_hand(proxy.bootstrap_servers, group_id, topic)
    consumer.commit({TopicPartition(topic, 0): 5})
    assert committed(cluster, group_id, topic) == 5
    consumer.close()


@pytest.mark.parametrize("code", [14, 88])
@pytest.mark.protocols
def test_reading_offsets_outlasts_errors_that_pass(
    cluster: Cluster, proxy: KafkaProxy, topic: str, group_id: str, code: int
) -> None:
    consumer = by_hand(proxy.bootstrap_servers, group_id, topic)
    consumer.commit({TopicPartition(topic, 0): 5})
    rule = proxy.fail(ApiKey.OFFSET_FETCH, code, count=2)
    assert consumer.committed(TopicPartition(topic, 0)) == 5
    assert rule.hits == 2
    consumer.close()


@pytest.mark.parametrize("newest", [(2, 1, 0), (6, 5, 2), (8, 7, 3), (9, 8, 4), (9, 9, 6)])
def test_brokers_of_any_age(
    cluster: Cluster, proxy: KafkaProxy, topic: str, group_id: str, newest: tuple[int, int, int]
) -> None:
    """OffsetCommit, OffsetFetch, FindCoordinator at older versions."""
    commit, fetch, find = newest
    proxy.limit_versions({ApiKey.OFFSET_COMMIT: commit, ApiKey.OFFSET_FETCH: fetch, ApiKey.FIND_COORDINATOR: find})
    consumer = by_hand(proxy.bootstrap_servers, group_id, topic)
    tp = TopicPartition(topic, 0)
    consumer.commit({tp: OffsetAndMetadata(5, "m")})
    found = consumer.committed(tp, metadata=True)
    assert (found.offset, found.metadata) == (5, "m")
    assert {e.api_version for e in proxy.events(ApiKey.OFFSET_COMMIT, "request")} == {commit}
    assert {e.api_version for e in proxy.events(ApiKey.OFFSET_FETCH, "request")} == {fetch}
    assert {e.api_version for e in proxy.events(ApiKey.FIND_COORDINATOR, "request")} == {find}
    consumer.close()


def test_membership_at_brokers_of_any_age(cluster: Cluster, proxy: KafkaProxy, topic: str, group_id: str) -> None:
    proxy.limit_versions(
        {
            ApiKey.JOIN_GROUP: 2,
            ApiKey.SYNC_GROUP: 1,
            ApiKey.HEARTBEAT: 1,
            ApiKey.LEAVE_GROUP: 1,
            ApiKey.OFFSET_COMMIT: 5,
        }
    )
    fill(cluster, topic, 5)
    with running() as start:
        member = start(proxy.bootstrap_servers, group_id, [topic])
        eventually(lambda: len(member.read) == 5, "reading")
        eventually(lambda: proxy.events(ApiKey.HEARTBEAT, "response"), "heartbeats")
        member.stop()
    assert {e.api_version for e in proxy.events(ApiKey.LEAVE_GROUP, "request")} == {1}
    assert committed(cluster, group_id, topic) == 5


@pytest.mark.protocols
def test_topic_ids_are_used(proxy: KafkaProxy, topic: str, group_id: str) -> None:
    consumer = by_hand(proxy.bootstrap_servers, group_id, topic)
    consumer.position(TopicPartition(topic, 0))  # so metadata has come
    consumer.commit({TopicPartition(topic, 0): 5})
    assert consumer.committed(TopicPartition(topic, 0)) == 5
    assert {e.api_version for e in proxy.events(ApiKey.OFFSET_COMMIT, "request")} == {10}
    consumer.close()


@pytest.mark.parametrize("call", ["commit", "committed", "close"])
def test_deadlines_hold_without_any_broker(
    cluster: Cluster, proxy: KafkaProxy, topic: str, group_id: str, call: str
) -> None:
    tp = TopicPartition(topic, 0)
    consumer = by_hand(proxy.bootstrap_servers, group_id, topic, enable_auto_commit=True)
    consumer.seek(tp, 0)
    consumer.poll(300)
    proxy.refuse()
    proxy.cut_all()
    before = time.monotonic()
    if call == "close":
        consumer.close(timeout_ms=500)
    else:
        with pytest.raises(errors.KafkaTimeoutError, match=r"coordinator|OffsetCommit|OffsetFetch|attempt"):
            consumer.commit({tp: 1}, timeout_ms=500) if call == "commit" else consumer.committed(tp, timeout_ms=500)
    assert time.monotonic() - before < 20.0, "neither the 30 s of a request nor the 60 s of a call"
    consumer.close(timeout_ms=100)


@pytest.mark.protocols
def test_a_member_closes_in_time_without_any_broker(proxy: KafkaProxy, topic: str, group_id: str) -> None:
    consumer = make_consumer(proxy.bootstrap_servers, group_id)
    consumer.subscribe([topic])
    eventually(lambda: (consumer.poll(50), consumer.assignment())[1], "joining")
    proxy.refuse()
    proxy.cut_all()
    before = time.monotonic()
    consumer.close(timeout_ms=700)
    assert time.monotonic() - before < 20.0, "neither the 30 s of a request nor the 60 s of a call"


def test_without_a_coordinator_an_asynchronous_commit_fails(proxy: KafkaProxy, topic: str, group_id: str) -> None:
    proxy.fail(ApiKey.FIND_COORDINATOR, 15, count=1)
    consumer = by_hand(proxy.bootstrap_servers, group_id, topic)
    log: list[object] = []
    consumer.commit_async({TopicPartition(topic, 0): 1}, lambda offsets, error: log.append(error))
    eventually(lambda: (consumer.poll(50), log)[1], "the callback")
    assert isinstance(log[0], errors.RetriableCommitFailedError)
    consumer.commit_async({TopicPartition(topic, 0): 2}, lambda offsets, error: log.append(error))
    eventually(lambda: (consumer.poll(50), len(log) == 2)[1], "the second callback")
    assert log[1] is None
    consumer.close()


def test_group_methods_need_a_group(cluster: Cluster, topic: str) -> None:
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)
    with pytest.raises(errors.InvalidGroupIdError):
        consumer.commit({TopicPartition(topic, 0): 1})
    consumer.close()


@pytest.mark.protocols
def test_a_restarted_member_does_not_fetch_before_its_positions_are_validated(
    cluster: Cluster, proxy: KafkaProxy, make_topic: MakeTopic, group_id: str
) -> None:
    """A fetch of the idle partition alone would hold up the validation of the other, and then its records."""
    topic = make_topic(2)
    fill(cluster, topic, 5)
    with running() as start:
        first = start(cluster, group_id, [topic], enable_auto_commit=False)
        join_all([first], 2)
        eventually(lambda: len(first.read) == 5, "reading")
        first.do(lambda consumer: consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(3, "", 0)}))
        first.do(lambda consumer: consumer.commit({TopicPartition(topic, 1): OffsetAndMetadata(0)}))
        first.stop()
        again = start(proxy.bootstrap_servers, group_id, [topic], enable_auto_commit=False)
        eventually(lambda: len(again.read) == 2, "reading on")
        assert [offset for _, offset in again.read] == [3, 4]
    (validated,) = proxy.events(ApiKey.OFFSET_FOR_LEADER_EPOCH, "response")
    fetch = proxy.events(ApiKey.FETCH, "request")[0]
    assert validated.time < fetch.time
    assert sorted(p.partition for one in fetch.message.topics for p in one.partitions) == [0, 1]
