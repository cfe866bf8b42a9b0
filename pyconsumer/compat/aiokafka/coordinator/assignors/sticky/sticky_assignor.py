"""``aiokafka.coordinator.assignors.sticky.sticky_assignor``: the assignor of ``compat/kafka``, under the same name."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

__all__ = ["StickyPartitionAssignor"]
