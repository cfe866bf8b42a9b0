"""The values of ``aiokafka.structs``, under the same names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyconsumer.compat.kafka.structs import BrokerMetadata, TopicPartition
from pyconsumer.protocol.records.native_module import compiled
from pyconsumer.protocol.records.open_record import OpenRecord

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


class OffsetAndMetadata(NamedTuple):
    """A committed position: the next offset to read, and a text of the program."""

    offset: int
    metadata: str


class OffsetAndTimestamp(NamedTuple):
    """Result of ``offsets_for_times``: the first offset at or after a time, and that record's timestamp in ms."""

    offset: int
    timestamp: int | None


class PartitionMetadata(NamedTuple):
    """One partition in metadata. ``leader`` is -1 without a leader, ``error`` None or an error."""

    topic: str
    partition: int
    leader: int
    replicas: Sequence[int]
    isr: Sequence[int]
    error: Any


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
