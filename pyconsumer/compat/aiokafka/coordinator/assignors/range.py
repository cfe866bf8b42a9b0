"""``aiokafka.coordinator.assignors.range``: the assignor of ``compat/kafka``, under the same name."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.range import RangePartitionAssignor

__all__ = ["RangePartitionAssignor"]
