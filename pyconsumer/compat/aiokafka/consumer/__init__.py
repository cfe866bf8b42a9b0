"""``aiokafka.consumer``: the same as in :mod:`pyconsumer.compat.aiokafka.consumer.consumer`."""

from __future__ import annotations

from pyconsumer.compat.aiokafka.consumer.consumer import AIOKafkaConsumer

__all__ = ["AIOKafkaConsumer"]
