"""``RecordConsumer``: the consumer below ``AIOKafkaConsumer``, whose decoder makes aiokafka's records."""

from __future__ import annotations

from pyconsumer.aio.group_consumer import GroupConsumer
from pyconsumer.compat.aiokafka.structs import ConsumerRecord

__all__ = ["RecordConsumer"]


class RecordConsumer(GroupConsumer):
    """A consumer that returns records of :class:`pyconsumer.compat.aiokafka.structs.ConsumerRecord`."""

    _form = ConsumerRecord
    _name = "AIOKafkaConsumer"
    _unclosed = "Unclosed AIOKafkaConsumer"
    _how_to_close = "await stop(), or use it in async with"
