"""``kafka.coordinator.assignors.range``."""

from __future__ import annotations

from pyconsumer.assignors import RangeAssignor as RangePartitionAssignor

__all__ = ["RangePartitionAssignor"]
