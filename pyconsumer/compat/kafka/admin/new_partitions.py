"""``kafka.admin.new_partitions``."""

from __future__ import annotations

from pyconsumer.compat.kafka.admin.types import NewPartitions

__all__ = ["NewPartitions"]
