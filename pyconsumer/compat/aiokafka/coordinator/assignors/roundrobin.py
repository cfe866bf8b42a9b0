"""``aiokafka.coordinator.assignors.roundrobin``: kafka-python's, which are the same."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

__all__ = ["RoundRobinPartitionAssignor"]
