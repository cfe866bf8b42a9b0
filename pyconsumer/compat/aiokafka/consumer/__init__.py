"""``aiokafka.consumer``: the class ``AIOKafkaConsumer``."""

from __future__ import annotations

from pyconsumer.compat.aiokafka.consumer.consumer import AIOKafkaConsumer

__all__ = ["AIOKafkaConsumer"]
