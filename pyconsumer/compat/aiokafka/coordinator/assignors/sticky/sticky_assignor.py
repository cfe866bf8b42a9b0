"""``aiokafka.coordinator.assignors.sticky.sticky_assignor``: names of kafka-python's module."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

__all__ = ["StickyPartitionAssignor"]
