"""``aiokafka.coordinator.assignors.sticky.sticky_assignor``: kafka-python's, which are the same."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

__all__ = ["StickyPartitionAssignor"]
