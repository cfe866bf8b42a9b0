"""Writing to ``__consumer_offsets`` over replicated logs: the replicas and the timeout of a commit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyconsumer.broker.controller import OFFSETS_TOPIC
from pyconsumer.broker.group.common.storage import StoreResult
from pyconsumer.broker.internal_topic import InternalTopicLog
from pyconsumer.errors import CoordinatorNotAvailableError
from pyconsumer.protocol.messages.find_coordinator import FindCoordinatorRequest
from pyconsumer.protocol.records import iter_records, scan
from tests.unit.broker.brokers import Brokers

NOT_LEADER, REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS = 6, 7, 19
RECORDS = [(b"k1", b"v1"), (b"k2", None)]


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    made = Brokers(None, 3)
    yield made
    made.stop()


def storages(brokers: Brokers) -> tuple[InternalTopicLog, InternalTopicLog, list[int]]:
    """Of the leader of partition 0, of another broker, and the followers' ids."""
    topic = brokers.controller.ensure_internal(OFFSETS_TOPIC)
    brokers.run()
    leader = topic.partitions[0].leader
    others = [node for node in brokers.alive if node != leader]
    return (
        InternalTopicLog.of_offsets(brokers.alive[leader]),
        InternalTopicLog.of_offsets(brokers.alive[others[0]]),
        others,
    )


def test_a_batch_is_complete_when_all_in_sync_replicas_have_it(brokers: Brokers) -> None:
    storage, other, followers = storages(brokers)
    for node in followers:
        brokers.alive[node].fetcher.pause()
    written = storage.append(0, RECORDS, 1_000)
    brokers.run()
    brokers.alive[followers[0]].fetcher.resume()
    brokers.run()
    assert not written.done, "one of three is missing"
    brokers.alive[followers[1]].fetcher.resume()
    brokers.run()
    assert written.value == StoreResult(0, 0)
    log = brokers.replica(followers[0], OFFSETS_TOPIC).log
    (batch,) = log.raw(1 << 20)
    assert [(r.key, r.value, r.timestamp) for r in iter_records(batch)] == [(b"k1", b"v1", 1_000), (b"k2", None, 1_000)]
    assert other.append(0, RECORDS, 1_000).value.error_code == NOT_LEADER


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, -1), (77, 3)])
def test_the_header_of_a_batch(brokers: Brokers, producer_id: int, epoch: int) -> None:
    storage, _, _ = storages(brokers)
    storage.append(0, RECORDS, 1_000, producer_id=producer_id, producer_epoch=epoch)
    brokers.run()
    (data,) = storage.read(0)
    (batch,) = scan(data)
    assert (batch.base_offset, batch.record_count, batch.base_sequence) == (0, 2, 0)
    assert (batch.producer_id, batch.producer_epoch) == (producer_id, epoch)
    assert batch.is_transactional is (producer_id >= 0)


def test_a_commit_waits_for_the_replicas_within_its_timeout(brokers: Brokers) -> None:
    storage, _, followers = storages(brokers)
    brokers.alive[followers[0]].fetcher.pause()
    written = storage.append(0, RECORDS, 1_000)
    brokers.advance(4.9)
    assert not written.done
    brokers.advance(0.2)
    assert written.value.error_code == REQUEST_TIMED_OUT


def test_too_few_in_sync_replicas_reject_the_append() -> None:
    brokers = Brokers(None, 2, min_insync_replicas=2)
    storage, _, followers = storages(brokers)
    brokers.kill(followers[0])
    brokers.run()
    assert storage.append(0, RECORDS, 1_000).value.error_code == NOT_ENOUGH_REPLICAS
    brokers.stop()


@pytest.mark.parametrize(("alive", "replicas"), [(1, 1), (2, 2), (3, 3), (4, 3)])
def test_it_has_three_replicas_or_as_many_as_there_are_brokers(alive: int, replicas: int) -> None:
    brokers = Brokers(None, alive)
    topic = brokers.controller.ensure_internal(OFFSETS_TOPIC)
    assert {len(partition.replicas) for partition in topic.partitions} == {replicas}
    brokers.stop()


def test_it_is_not_created_while_fewer_brokers_are_alive_than_its_factor_demands() -> None:
    brokers = Brokers(None, 3, offsets_topic_replication_factor=3)
    brokers.kill(2)
    brokers.run()
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    answers = brokers.request(0, request, 4)
    brokers.run()
    found = answers[0].coordinators[0]
    assert found.error_code == CoordinatorNotAvailableError.errno
    assert "offsets.topic.replication.factor is 3" in found.error_message
    assert OFFSETS_TOPIC not in brokers.controller.topics
    brokers.restart(2)
    brokers.run()
    answers = brokers.request(0, request, 4)
    brokers.run()
    assert answers[0].coordinators[0].error_code == 0
    assert len(brokers.controller.topics[OFFSETS_TOPIC].partitions[0].replicas) == 3
    brokers.stop()


def test_a_load_reads_small_pieces(brokers: Brokers) -> None:
    storage, _, _ = storages(brokers)
    for number in range(30):
        storage.append(0, [(b"key %d" % number, b"v" * 10_000)], 1_000)
    brokers.run()
    sizes = [len(piece) for piece in storage.read(0)]
    assert len(sizes) >= 5
    assert max(sizes) <= 64 << 10
