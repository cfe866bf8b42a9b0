"""``kafka.coordinator.assignors.range``: a name for our assignor ``range``."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.named import NamedAssignor

__all__ = ["RangePartitionAssignor"]


class RangePartitionAssignor(NamedAssignor):
    """Stands for pyconsumer's assignor ``range`` in ``partition_assignment_strategy``."""

    name = "range"
