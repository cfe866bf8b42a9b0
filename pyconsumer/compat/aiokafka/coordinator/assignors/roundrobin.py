"""``aiokafka.coordinator.assignors.roundrobin``: the assignor of ``compat/kafka``, under the same name."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

__all__ = ["RoundRobinPartitionAssignor"]
