"""``kafka.producer``."""

from __future__ import annotations

from pyconsumer.compat.kafka.producer.kafka import KafkaProducer

__all__ = ["KafkaProducer"]
