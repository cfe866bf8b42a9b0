"""``kafka.partitioner``."""

from __future__ import annotations

from pyconsumer.compat.kafka.partitioner.default import (
    DefaultPartitioner,
    Partitioner,
    StickyPartitioner,
    murmur2,
)

__all__ = ["DefaultPartitioner", "Partitioner", "StickyPartitioner", "murmur2"]
