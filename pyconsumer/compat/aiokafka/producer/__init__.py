"""``aiokafka.producer``: the same as in :mod:`pyconsumer.compat.aiokafka.producer.producer`."""

from __future__ import annotations

from pyconsumer.compat.aiokafka.producer.producer import AIOKafkaProducer

__all__ = ["AIOKafkaProducer"]
