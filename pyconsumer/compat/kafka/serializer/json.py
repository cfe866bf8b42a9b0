"""``kafka.serializer.json``."""

from __future__ import annotations

from pyconsumer.compat.kafka.serializer.abstract import JsonSerializer

__all__ = ["JsonSerializer"]
