"""About how large records are at some positions, for limits in bytes: a small fetch of each partition tells.

Brokers tell offsets but not bytes. The headers of the batches at a position have both, so one fetch to each leader, of
a few batches for each partition, is enough for an estimate. What cannot be looked at is left out of the answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Final

from pyconsumer.errors import CorruptRecordError
from pyconsumer.network.waiting import Steps, Wait
from pyconsumer.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.protocol.records import scan
from pyconsumer.structs import TopicPartition

if TYPE_CHECKING:
    from pyconsumer.consumer.network_client import ConsumerNetworkClient
    from pyconsumer.network.client import ClientResponse
    from pyconsumer.network.future import RequestFuture
    from pyconsumer.network.metadata import Metadata

__all__ = ["density", "sample"]

_SAMPLE_BYTES: Final = 65_536
_ANSWER_BYTES: Final = 16 * 1024 * 1024
_MOST_ALONE: Final = 16  # partitions that are asked alone, one batch of each
_LAST_VERSION_WITH_NAMES: Final = 12
_HEAD: Final = Struct(">qiibIhi")  # base offset, length, leader epoch, magic, crc, attributes, last offset delta
_BEFORE_LENGTH_COUNTS: Final = 12


def sample(
    client: ConsumerNetworkClient, metadata: Metadata, positions: Mapping[TopicPartition, int]
) -> Steps[dict[TopicPartition, float]]:
    """Bytes per offset at each position."""
    by_node: dict[int, dict[TopicPartition, int]] = {}
    for tp, position in positions.items():
        leader = metadata.leader(tp)
        if leader is not None and leader.leader >= 0:
            by_node.setdefault(leader.leader, {})[tp] = position
    found = yield from _ask(client, metadata, list(by_node.items()))
    # A batch larger than what was asked for comes only if it is the answer's first.
    missing = [(node, {tp: at}) for node, group in by_node.items() for tp, at in group.items() if tp not in found]
    return found | (yield from _ask(client, metadata, missing[:_MOST_ALONE]))


def _ask(
    client: ConsumerNetworkClient, metadata: Metadata, groups: list[tuple[int, dict[TopicPartition, int]]]
) -> Steps[dict[TopicPartition, float]]:
    sent = [(_send(client, metadata, node, group), group) for node, group in groups]
    found: dict[TopicPartition, float] = {}
    for future, group in sent:
        while not future.done:
            yield Wait(future, math.inf)
        if future.exception is not None:
            continue
        response = future.value.message
        assert isinstance(response, FetchResponse)
        names = {metadata.topic_id(tp.topic): tp.topic for tp in group}
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                bytes_each = density(data.records or b"")
                if bytes_each is not None and not data.error_code:
                    found[TopicPartition(name, data.partition_index)] = bytes_each
    return found


def density(records: bytes | bytearray | memoryview) -> float | None:
    """Bytes per offset of the batches in a fetch answer, whose last one, or only one, may be cut off."""
    try:
        batches = scan(records)
    except CorruptRecordError:  # the task that reads it tells
        return None
    if batches:
        offsets = batches[-1].next_offset - batches[0].base_offset
        return batches[-1].end_position / max(offsets, 1)
    if len(records) < _HEAD.size:
        return None
    _, length, _, magic, _, _, delta = _HEAD.unpack_from(records)
    return (length + _BEFORE_LENGTH_COUNTS) / (delta + 1) if magic >= 2 and delta >= 0 else None


def _send(
    client: ConsumerNetworkClient, metadata: Metadata, node: int, positions: Mapping[TopicPartition, int]
) -> RequestFuture[ClientResponse]:
    topics: dict[str, FetchTopic] = {}
    for tp, position in positions.items():
        topic = topics.get(tp.topic)
        if topic is None:
            topic = topics[tp.topic] = FetchTopic(topic=tp.topic, topic_id=metadata.topic_id(tp.topic), partitions=[])
        topic.partitions.append(
            FetchPartition(partition=tp.partition, fetch_offset=position, partition_max_bytes=_SAMPLE_BYTES)
        )
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=_ANSWER_BYTES, isolation_level=0, topics=list(topics.values())
    )
    by_name = any(topic.topic_id == ZERO_UUID for topic in topics.values())
    return client.send(node, FetchRequest, request, max_version=_LAST_VERSION_WITH_NAMES if by_name else None)
