"""Record sets and responses of brokers, for the consumer's unit tests."""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator, Sequence
from typing import Any

from pyconsumer import ConsumerRecord
from pyconsumer.network.futures import Wait
from pyconsumer.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from pyconsumer.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pyconsumer.protocol.messages.metadata import MetadataResponse
from pyconsumer.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from pyconsumer.protocol.records import BatchBuilder
from pyconsumer.structs import TopicPartition
from tests.support.fake_network import metadata_response

__all__ = [
    "TOPIC_ID",
    "batch",
    "batches",
    "data",
    "ends",
    "finish",
    "interrupted_at",
    "leaders_of_t",
    "listed",
    "offsets_of",
    "record",
    "response",
    "tp",
]


def batch(first: int, count: int, *, codec: str = "none", leader_epoch: int = 3, size: int = 4) -> bytes:
    """A record batch with offsets from ``first`` on. Each value is its offset as text, padded."""
    builder = BatchBuilder(codec=codec)
    for offset in range(first, first + count):
        builder.try_append(1_000 + offset, b"k%d" % offset, str(offset).rjust(size).encode(), [])
    return builder.build(base_offset=first, leader_epoch=leader_epoch)


def batches(first: int, count: int, each: int = 10) -> bytes:
    """``count`` records in batches of ``each``."""
    return b"".join(batch(at, min(each, first + count - at)) for at in range(first, first + count, each))


def offsets_of(records: Sequence[Any]) -> list[int]:
    """Offsets of records."""
    return [record.offset for record in records]


def tp(partition: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, partition)


TOPIC_ID = bytes([7] * 16)


def leaders_of_t(leaders: dict[int, tuple[int, int]], *, topic_id: bytes = TOPIC_ID) -> MetadataResponse:
    """Two brokers, or as many as there are leaders, and the leader and epoch of each partition of topic t."""
    last = max([2, *(leader for leader, _ in leaders.values())])
    return metadata_response({"t": leaders}, nodes=range(1, last + 1), topic_id=lambda name: topic_id)


def data(records: bytes | None = None, **fields: Any) -> PartitionData:
    return PartitionData(records=records, **fields)


def response(partitions: dict[TopicPartition, PartitionData], *, session_id: int = 5, **more: Any) -> FetchResponse:
    topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[])
    for tp, found in partitions.items():
        found.partition_index = tp.partition
        topic.partitions.append(found)
    return FetchResponse(session_id=session_id, responses=[topic] if topic.partitions else [], **more)


def listed(*found: tuple[TopicPartition, int, int]) -> ListOffsetsResponse:
    """A response of (partition, offset, error code)."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name="t",
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=tp.partition,
                        offset=offset,
                        timestamp=offset * 10,
                        error_code=code,
                        leader_epoch=3,
                    )
                    for tp, offset, code in found
                ],
            )
        ]
    )


def ends(tp: TopicPartition, epoch: int, end: int, code: int = 0) -> OffsetForLeaderEpochResponse:
    """The end offset of a leader epoch, as a leader returns it."""
    answer = EpochEndOffset(error_code=code, partition=tp.partition, leader_epoch=epoch, end_offset=end)
    return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic=tp.topic, partitions=[answer])])


def record(offset: int, value: bytes | None = b"v", key: bytes | None = b"k", topic: str = "a") -> ConsumerRecord:
    return ConsumerRecord(topic, 0, offset, 1000, 0, key, value, [("h", b"1")], 4)


def interrupted_at(step: int, function: Any) -> bool:
    """Run a function and raise Ctrl-C at the n-th line that it or a callee executes. Return whether it got that far."""
    lines = 0

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal lines
        if event == "line" and frame.f_code is not function.__code__:
            lines += 1
            if lines == step:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    gc.disable()  # what the collector calls is not the function's, and would not pass it on
    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
        gc.enable()
    return False


def finish(steps: Generator[Wait, None, Any]) -> Any:
    """The result of steps that need no further wait."""
    try:
        steps.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it still waits")
