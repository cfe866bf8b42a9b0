"""``aiokafka.coordinator.assignors.range``: names of kafka-python's module, which leads to our assignor."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.range import RangePartitionAssignor

__all__ = ["RangePartitionAssignor"]
