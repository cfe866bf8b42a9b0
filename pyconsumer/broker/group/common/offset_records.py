"""Conversion of committed offsets to records of ``__consumer_offsets`` and back. Functions without state.

:func:`partition_for` is here too: it decides which partition has a group's records, and so which broker coordinates it.
"""

from __future__ import annotations

from functools import lru_cache

from pyconsumer.broker.group.common.offsets import CommittedOffset
from pyconsumer.broker.group.common.storage import KeyValue
from pyconsumer.protocol import offsets_topic
from pyconsumer.protocol.offsets_topic import OffsetCommitValue
from pyconsumer.structs import TopicPartition

__all__ = ["committed_offset", "java_hash", "offset_record", "offset_tombstone", "partition_for", "utf16_length"]

_NO_TIMESTAMP = -1


@lru_cache(maxsize=4096)
def java_hash(text: str) -> int:
    """Return Java's ``String.hashCode``. It is computed over UTF-16 units and is a signed 32-bit number."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(data), 2):
        value = (31 * value + (data[index] << 8 | data[index + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def utf16_length(text: str) -> int:
    """Return Java's ``String.length``: the number of UTF-16 units."""
    return len(text) + sum(1 for character in text if character > "\uffff")


def partition_for(group_id: str, partition_count: int) -> int:
    """Return the partition that holds all records of a group (or of a transactional id).

    It is the absolute value of the id's hash, modulo the partition count. As in Kafka, the absolute value of the most
    negative number is 0.
    """
    value = java_hash(group_id)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count


def offset_record(group_id: str, partition: TopicPartition, offset: CommittedOffset) -> KeyValue:
    """Return the record of one committed offset."""
    value = OffsetCommitValue(
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        commit_timestamp=offset.commit_timestamp,
        expire_timestamp=_NO_TIMESTAMP if offset.expire_timestamp is None else offset.expire_timestamp,
        topic_id=offset.topic_id,
    )
    key = offsets_topic.encode_offset_key(group_id, partition.topic, partition.partition)
    return key, offsets_topic.encode_offset_value(value)


def offset_tombstone(group_id: str, partition: TopicPartition) -> KeyValue:
    return offsets_topic.encode_offset_key(group_id, partition.topic, partition.partition), None


def committed_offset(value: OffsetCommitValue) -> CommittedOffset:
    """Return the committed offset that the value of a record contains."""
    return CommittedOffset(
        offset=value.offset,
        leader_epoch=max(value.leader_epoch, -1),
        metadata=value.metadata,
        commit_timestamp=value.commit_timestamp,
        expire_timestamp=None if value.expire_timestamp == _NO_TIMESTAMP else value.expire_timestamp,
        topic_id=bytes(value.topic_id),
    )
