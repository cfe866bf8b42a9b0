"""``aiokafka.coordinator.assignors.range``: kafka-python's, which are the same."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.range import RangePartitionAssignor

__all__ = ["RangePartitionAssignor"]
