"""``aiokafka.coordinator.assignors.roundrobin``: names of kafka-python's module, which leads to our assignor."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

__all__ = ["RoundRobinPartitionAssignor"]
