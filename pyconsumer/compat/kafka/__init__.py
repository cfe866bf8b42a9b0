"""kafka-python's API: ``from pyconsumer.compat.kafka import KafkaConsumer``.

As in kafka-python, some times are in seconds, the constructors connect and raise ``NoBrokersAvailable``, and the
defaults and the names of modules are its own. Everything else is ours, so a program can move to :mod:`pyconsumer` step
by step. ``docs/porting.md`` lists the remaining differences.
"""

from __future__ import annotations

from pyconsumer import ConsumerRebalanceListener
from pyconsumer.compat.kafka import codec, errors, structs
from pyconsumer.compat.kafka.admin import KafkaAdminClient
from pyconsumer.compat.kafka.admin.types import IsolationLevel, OffsetSpec
from pyconsumer.compat.kafka.client_async import KafkaClient
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
    "KafkaClient",
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
