"""``aiokafka.producer``: the class ``AIOKafkaProducer``."""

from __future__ import annotations

from pyconsumer.compat.aiokafka.producer.producer import AIOKafkaProducer

__all__ = ["AIOKafkaProducer"]
