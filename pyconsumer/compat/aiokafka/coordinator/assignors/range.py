"""``aiokafka.coordinator.assignors.range``: the same as in :mod:`pyconsumer.compat.kafka.coordinator.assignors.range`."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.range import RangePartitionAssignor

__all__ = ["RangePartitionAssignor"]
