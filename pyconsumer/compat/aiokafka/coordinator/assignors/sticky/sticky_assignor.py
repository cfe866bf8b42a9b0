"""``aiokafka.coordinator.assignors.sticky.sticky_assignor``: the same as in the layer for kafka-python."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

__all__ = ["StickyPartitionAssignor"]
