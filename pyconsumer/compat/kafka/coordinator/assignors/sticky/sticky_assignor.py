"""``kafka.coordinator.assignors.sticky.sticky_assignor``."""

from __future__ import annotations

from pyconsumer.assignors import StickyAssignor as StickyPartitionAssignor

__all__ = ["StickyPartitionAssignor"]
