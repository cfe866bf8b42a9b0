"""aiokafka's API: ``from pyconsumer.compat.aiokafka import AIOKafkaConsumer``.

As in aiokafka, clients are started and stopped, ``getone`` and ``getmany`` read, ``send`` returns an asyncio future,
and the defaults are aiokafka's. The implementation is :mod:`pyconsumer.aio`. ``docs/porting.md`` lists the remaining
differences.
"""

from __future__ import annotations

from pyconsumer import ConsumerRebalanceListener
from pyconsumer.compat.aiokafka import errors
from pyconsumer.compat.aiokafka.client import AIOKafkaClient
from pyconsumer.compat.aiokafka.consumer import AIOKafkaConsumer
from pyconsumer.compat.aiokafka.errors import ConsumerStoppedError, IllegalOperation
from pyconsumer.compat.aiokafka.producer import AIOKafkaProducer
from pyconsumer.compat.aiokafka.structs import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from pyconsumer.compat.layers import LAYERS

__all__ = [
    "AIOKafkaClient",
    "AIOKafkaConsumer",
    "AIOKafkaProducer",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerStoppedError",
    "IllegalOperation",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
    "__version__",
    "errors",
]

#: The version of aiokafka whose API this is.
__version__ = LAYERS["aiokafka"].version
