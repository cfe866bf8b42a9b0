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
    """A result of ``offsets_for_times``: the first offset at or after a time, and its record's timestamp in ms."""

    offset: int
    timestamp: int | None


class PartitionMetadata(NamedTuple):
    """One partition in the metadata. ``leader`` is -1 if there is no leader. ``error`` is None or an error."""

    topic: str
    partition: int
    leader: int
    replicas: Sequence[int]
    isr: Sequence[int]
    error: Any


class RecordMetadata(NamedTuple):
    """The partition and offset of a produced record.

    ``timestamp_type`` is 0 if the producer has set the timestamp, and 1 if the broker has set it. ``log_start_offset``
    is always None.
    """

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int | None
    timestamp_type: int
    log_start_offset: int | None = None
