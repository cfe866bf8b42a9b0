"""``kafka.coordinator.assignors.roundrobin``: a name for our assignor ``roundrobin``."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.named import NamedAssignor

__all__ = ["RoundRobinPartitionAssignor"]


class RoundRobinPartitionAssignor(NamedAssignor):
    """Stands for pyconsumer's assignor ``roundrobin`` in ``partition_assignment_strategy``."""

    name = "roundrobin"
