"""Tests of the estimate of record sizes from a few batches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyconsumer.clock import ManualClock
from pyconsumer.errors import NotLeaderOrFollowerError
from pyconsumer.network.futures import RequestFuture, drive
from pyconsumer.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from pyconsumer.protocol.records import BatchBuilder
from pyconsumer.spark.offset_reader import bytes_per_offset_in, sample
from pyconsumer.structs import PartitionMetadata, TopicPartition


def batch(count: int, size: int, base: int = 0) -> bytes:
    builder = BatchBuilder("none", size_limit=1 << 24)
    for number in range(count):
        assert builder.try_append(number, None, b"x" * size) is not None
    return builder.build(base)


def test_bytes_per_offset() -> None:
    one, two = batch(10, 100), batch(30, 200, 10)
    assert bytes_per_offset_in(one) == len(one) / 10
    assert bytes_per_offset_in(one + two) == len(one + two) / 40
    assert bytes_per_offset_in(one + two[:-1]) == len(one) / 10  # the last one is cut off


def test_the_header_of_a_batch_that_is_cut_off_is_enough() -> None:
    one = batch(10, 5000)
    assert bytes_per_offset_in(one[:1000]) == len(one) / 10
    assert bytes_per_offset_in(one[:20]) is None
    assert bytes_per_offset_in(b"") is None


def test_offsets_that_compaction_removed_count() -> None:
    one, two = batch(10, 100), batch(10, 100, 90)
    assert bytes_per_offset_in(one + two) == len(one + two) / 100


def test_damage_is_left_to_the_task() -> None:
    damaged = bytearray(batch(10, 100))
    damaged[16] = 77  # no such format
    assert bytes_per_offset_in(damaged) is None


class Leaders:
    """Leaders of some partitions, each of which answers a fetch with its batches or fails."""

    def __init__(self, answers: dict[int, Any]) -> None:
        self.answers = answers
        self.requests: list[tuple[int, FetchRequest]] = []

    def leader(self, tp: TopicPartition) -> PartitionMetadata | None:
        return None if tp.partition == 9 else PartitionMetadata(tp.topic, tp.partition, tp.partition % 2, 0)

    def topic_id(self, topic: str) -> bytes:
        return topic.encode() * 16

    def send(self, node: int, api: Any, request: FetchRequest, *, max_version: int | None) -> RequestFuture[Any]:
        self.requests.append((node, request))
        future: RequestFuture[Any] = RequestFuture()
        answer = self.answers[node]
        if isinstance(answer, Exception):
            future.fail(answer)  # type: ignore[arg-type]
            return future
        topics = [
            FetchableTopicResponse(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=p.partition,
                        # What is larger than asked for comes only if it is the first.
                        records=answer if len(answer) <= p.partition_max_bytes or not number + place else b"",
                    )
                    for place, p in enumerate(topic.partitions)
                ],
            )
            for number, topic in enumerate(request.topics)
        ]
        future.complete(SimpleNamespace(message=FetchResponse(responses=topics)))
        return future


def look(leaders: Any, *partitions: tuple[str, int]) -> dict[TopicPartition, float]:
    clock = ManualClock(0.0)
    positions = {TopicPartition(topic, partition): 7 for topic, partition in partitions}
    return drive(sample(leaders, leaders, positions), 1.0, lambda until, future: None, clock.now)


def test_one_small_fetch_to_each_leader() -> None:
    records = batch(10, 100)
    leaders = Leaders({0: records, 1: records})
    found = look(leaders, ("a", 0), ("a", 1), ("b", 2))
    assert found == dict.fromkeys([("a", 0), ("a", 1), ("b", 2)], pytest.approx(len(records) / 10))
    assert sorted(node for node, _ in leaders.requests) == [0, 1]
    for _, request in leaders.requests:
        assert (request.max_wait_ms, request.min_bytes) == (0, 0)
        for topic in request.topics:
            assert [p.fetch_offset for p in topic.partitions] == [7]


def test_failed_samples_are_left_out() -> None:
    leaders = Leaders({0: batch(1, 1), 1: NotLeaderOrFollowerError("moved")})
    assert set(look(leaders, ("a", 0), ("a", 1), ("a", 9))) == {("a", 0)}


def test_large_batches_are_requested_alone() -> None:
    records = batch(100, 1000)
    leaders = Leaders({0: records, 1: records})
    expected = pytest.approx(len(records) / 100)
    assert look(leaders, ("a", 0), ("a", 2), ("a", 4), ("a", 1)) == {("a", n): expected for n in (0, 1, 2, 4)}
    assert len(leaders.requests) == 4
