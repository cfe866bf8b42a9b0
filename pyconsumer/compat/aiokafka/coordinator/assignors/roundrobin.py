"""``aiokafka.coordinator.assignors.roundrobin``: the same as in :mod:`pyconsumer.compat.kafka.coordinator.assignors.roundrobin`."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

__all__ = ["RoundRobinPartitionAssignor"]
