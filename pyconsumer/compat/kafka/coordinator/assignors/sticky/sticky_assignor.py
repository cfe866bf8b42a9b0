"""``kafka.coordinator.assignors.sticky.sticky_assignor``: a name for our assignor ``sticky``."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.named import NamedAssignor

__all__ = ["StickyPartitionAssignor"]


class StickyPartitionAssignor(NamedAssignor):
    """Stands for pyconsumer's assignor ``sticky`` in ``partition_assignment_strategy``."""

    name = "sticky"
