"""kafka-python's names and habits: ``from pyconsumer.compat.kafka import KafkaConsumer``.

Where kafka-python counts in seconds, so do these; the constructors connect, and raise ``NoBrokersAvailable``; defaults
are kafka-python's. Everything else is ours, so a program can move to :mod:`pyconsumer` step by step. What differs
nevertheless stands in ``docs/porting.md``.
"""

from __future__ import annotations

from pyconsumer import ConsumerRebalanceListener
from pyconsumer.compat.kafka import errors
from pyconsumer.compat.kafka.consumer import KafkaConsumer
from pyconsumer.compat.kafka.producer import KafkaProducer
from pyconsumer.structs import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

__all__ = [
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "KafkaConsumer",
    "KafkaProducer",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
    "errors",
]
