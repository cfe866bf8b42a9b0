"""``kafka.partitioner.sticky``."""

from __future__ import annotations

from pyconsumer.compat.kafka.partitioner.default import StickyPartitioner

__all__ = ["StickyPartitioner"]
