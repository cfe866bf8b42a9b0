"""``kafka.serializer.default``."""

from __future__ import annotations

from pyconsumer.compat.kafka.serializer.abstract import DefaultSerializer

__all__ = ["DefaultSerializer"]
