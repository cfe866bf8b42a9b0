"""``kafka.partitioner.abc``."""

from __future__ import annotations

from pyconsumer.compat.kafka.partitioner.default import Partitioner

__all__ = ["Partitioner"]
