"""Tests of retries while the cluster does not respond."""

from __future__ import annotations

import pytest

from pyconsumer.errors import KafkaTimeoutError, UnknownTopicOrPartitionError
from pyconsumer.spark.offset_reader import OffsetReader
from pyconsumer.spark.subscription import Assign, Subscribe, Subscription
from pyconsumer.structs import PartitionMetadata, TopicPartition
from tests.unit.spark.fake_broker import TP, FakeConnection


def asked(*, retry_timeouts: bool) -> tuple[float, list[float]]:
    """Return the waiting time for an unreachable leader, and the pauses in between."""
    connection = FakeConnection(default_api_timeout_ms="500")
    connection.leader_known = False
    pauses: list[float] = []
    cluster = OffsetReader(
        connection,  # type: ignore[arg-type]
        attempts=3,
        retry_ms=200,
        retry_timeouts=retry_timeouts,
        sleep=pauses.append,
    )
    start = connection.clock.now()
    with pytest.raises(KafkaTimeoutError, match=r"looking up offsets at x:9092 took longer than 500 ms"):
        cluster.offsets({TP: -1})
    return connection.clock.now() - start, pauses


def test_a_batch_soon_reports_an_absent_cluster() -> None:
    elapsed, pauses = asked(retry_timeouts=False)
    assert elapsed == pytest.approx(0.5, abs=0.11)
    assert pauses == []


def test_a_stream_outlives_a_longer_outage() -> None:
    elapsed, pauses = asked(retry_timeouts=True)
    assert elapsed == pytest.approx(1.5, abs=0.33)
    assert pauses == [0.2, 0.2]


@pytest.mark.parametrize("by_error", [True, False], ids=["as an error", "by its absence"])
def test_a_deleted_topic_is_reported_soon(by_error: bool) -> None:
    connection = FakeConnection()
    metadata = connection.metadata
    connection.leader_known = False
    pauses: list[float] = []

    def update() -> int:
        metadata.update_count = metadata.settled = metadata.update_count + 1
        metadata.topic = lambda name: None
        metadata.topic_error = lambda name: UnknownTopicOrPartitionError(name) if by_error else None
        return int(metadata.update_count)

    metadata.request_update = update
    start = connection.clock.now()
    with pytest.raises(UnknownTopicOrPartitionError, match=TP.topic):
        OffsetReader(connection, attempts=3, retry_timeouts=True, sleep=pauses.append).offsets({TP: -1})  # type: ignore[arg-type]
    assert len(pauses) == 2  # brokers may not all know a new topic at once
    assert connection.clock.now() - start < 1


@pytest.mark.parametrize(
    "subscription",
    [Subscribe(("events", "gone")), Assign((TP, TopicPartition("gone", 0)))],
    ids=["topics", "partitions"],
)
def test_a_deleted_topic_can_be_left_out_after_a_second_metadata_request(subscription: Subscription) -> None:
    connection = FakeConnection()
    metadata = connection.metadata

    def update() -> int:
        metadata.update_count += 1
        return int(metadata.update_count)

    metadata.request_update = update
    metadata.topic = lambda name: None if name == "gone" else object()
    metadata.topic_error = lambda name: UnknownTopicOrPartitionError(name) if name == "gone" else None
    metadata.partitions_for = lambda name: [] if name == "gone" else [PartitionMetadata(*TP, 1, 7)]
    metadata.partition_count = lambda name: 0
    pauses: list[float] = []
    cluster = OffsetReader(connection, attempts=3, sleep=pauses.append)  # type: ignore[arg-type]
    with pytest.raises(UnknownTopicOrPartitionError):
        cluster.partitions(subscription)
    pauses.clear()
    assert cluster.partitions(subscription, missing_ok=True) == [TP]
    assert len(pauses) == 2
    assert cluster.partitions(subscription, missing_ok=True) == [TP]
    assert len(pauses) == 2  # it is known by now
    with pytest.raises(UnknownTopicOrPartitionError):
        cluster.partitions(subscription)


def test_sizes_that_do_not_come_in_time_are_left_out() -> None:
    connection = FakeConnection()
    connection.troubles = [None]  # a broker that stands still
    start = connection.clock.now()
    assert OffsetReader(connection).bytes_per_offset({TP: 0}) == {}  # type: ignore[arg-type]
    assert connection.clock.now() - start == pytest.approx(5.0)
