"""``aiokafka.coordinator.assignors.roundrobin``: the same as in the layer for kafka-python."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

__all__ = ["RoundRobinPartitionAssignor"]
