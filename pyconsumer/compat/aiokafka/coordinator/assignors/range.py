"""``aiokafka.coordinator.assignors.range``: the same as in the layer for kafka-python."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.range import RangePartitionAssignor

__all__ = ["RangePartitionAssignor"]
