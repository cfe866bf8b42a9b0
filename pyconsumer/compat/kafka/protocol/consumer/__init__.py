"""``kafka.protocol.consumer``: the values of assignors, and two that calls take."""

from __future__ import annotations

from pyconsumer.compat.kafka.admin.types import IsolationLevel, OffsetSpec

__all__ = ["IsolationLevel", "OffsetSpec"]
