"""``kafka.coordinator.assignors.roundrobin``."""

from __future__ import annotations

from pyconsumer.assignors import RoundRobinAssignor as RoundRobinPartitionAssignor

__all__ = ["RoundRobinPartitionAssignor"]
