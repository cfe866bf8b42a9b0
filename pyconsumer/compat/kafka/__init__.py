"""kafka-python's names and habits: ``from pyconsumer.compat.kafka import KafkaConsumer``.

Where kafka-python counts in seconds, so do these; the constructors connect, and raise ``NoBrokersAvailable``; defaults
are kafka-python's; modules have its names. Everything else is ours, so a program can move to :mod:`pyconsumer` step by
step. What differs nevertheless stands in ``docs/porting.md``.
"""

from __future__ import annotations

from pyconsumer import ConsumerRebalanceListener
from pyconsumer.compat.kafka import codec, errors, structs
from pyconsumer.compat.kafka.admin import KafkaAdminClient
from pyconsumer.compat.kafka.admin.types import IsolationLevel, OffsetSpec
from pyconsumer.compat.kafka.consumer import KafkaConsumer
from pyconsumer.compat.kafka.producer import KafkaProducer
from pyconsumer.compat.kafka.serializer import DefaultSerializer, Deserializer, JsonSerializer, Serializer
from pyconsumer.compat.kafka.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
    TopicPartitionReplica,
)
from pyconsumer.compat.kafka.version import __version__

__all__ = [
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "DefaultSerializer",
    "Deserializer",
    "IsolationLevel",
    "JsonSerializer",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "Serializer",
    "TopicPartition",
    "TopicPartitionReplica",
    "__version__",
    "codec",
    "errors",
    "structs",
]
