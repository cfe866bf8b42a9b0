"""The values of ``aiokafka.structs``, under the same names."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyconsumer.compat.kafka.structs import BrokerMetadata
from pyconsumer.protocol.records.native_module import compiled
from pyconsumer.protocol.records.open_record import OpenRecord
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

if TYPE_CHECKING:
    ConsumerRecord = OpenRecord
else:
    #: That of the decoder in use.
    ConsumerRecord = compiled("OpenRecord") or OpenRecord


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
