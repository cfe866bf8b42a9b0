"""The values of ``aiokafka.structs``, under the same names."""

from __future__ import annotations

from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import OffsetAndMetadata, OffsetAndTimestamp, RecordMetadata, TopicPartition

__all__ = ["ConsumerRecord", "OffsetAndMetadata", "OffsetAndTimestamp", "RecordMetadata", "TopicPartition"]
