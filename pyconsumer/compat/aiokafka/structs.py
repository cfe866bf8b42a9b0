"""The values of ``aiokafka.structs``, under the same names."""

from __future__ import annotations

from typing import NamedTuple

from pyconsumer.compat.kafka.structs import BrokerMetadata
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import OffsetAndMetadata, OffsetAndTimestamp, PartitionMetadata, TopicPartition

__all__ = [
    "BrokerMetadata",
    "ConsumerRecord",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionMetadata",
    "RecordMetadata",
    "TopicPartition",
]


class RecordMetadata(NamedTuple):
    """The place of a produced record.

    ``timestamp_type`` is 0 if the producer has set the timestamp, 1 if the broker has. ``log_start_offset`` is always
    None.
    """

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int | None
    timestamp_type: int
    log_start_offset: int | None = None
