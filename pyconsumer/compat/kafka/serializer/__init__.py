"""``kafka.serializer``."""

from __future__ import annotations

from pyconsumer.compat.kafka.serializer.abstract import DefaultSerializer, Deserializer, JsonSerializer, Serializer

__all__ = ["DefaultSerializer", "Deserializer", "JsonSerializer", "Serializer"]
