"""``aiokafka.producer``: the names of kafka-python's module of that kind."""

from __future__ import annotations

from pyconsumer.compat.aiokafka.producer.producer import AIOKafkaProducer

__all__ = ["AIOKafkaProducer"]
