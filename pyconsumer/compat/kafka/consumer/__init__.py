"""``kafka.consumer``."""

from __future__ import annotations

from pyconsumer.compat.kafka.consumer.group import KafkaConsumer

__all__ = ["KafkaConsumer"]
