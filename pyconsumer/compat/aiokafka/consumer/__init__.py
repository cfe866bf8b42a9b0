"""``aiokafka.consumer``: the names of kafka-python's module of that kind."""

from __future__ import annotations

from pyconsumer.compat.aiokafka.consumer.consumer import AIOKafkaConsumer

__all__ = ["AIOKafkaConsumer"]
