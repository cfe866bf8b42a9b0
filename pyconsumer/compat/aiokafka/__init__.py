"""aiokafka's names and habits: ``from pyconsumer.compat.aiokafka import AIOKafkaConsumer``.

Clients are started and stopped, ``getone`` and ``getmany`` read, the producer's future is one of asyncio, and defaults
are aiokafka's. Everything behind that is :mod:`pyconsumer.aio`. What differs nevertheless stands in
``docs/porting.md``.
"""

from __future__ import annotations

from pyconsumer import ConsumerRebalanceListener
from pyconsumer.compat.aiokafka import errors
from pyconsumer.compat.aiokafka.consumer import AIOKafkaConsumer
from pyconsumer.compat.aiokafka.errors import ConsumerStoppedError, IllegalOperation
from pyconsumer.compat.aiokafka.producer import AIOKafkaProducer
from pyconsumer.compat.aiokafka.structs import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

__all__ = [
    "AIOKafkaConsumer",
    "AIOKafkaProducer",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerStoppedError",
    "IllegalOperation",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
    "errors",
]
