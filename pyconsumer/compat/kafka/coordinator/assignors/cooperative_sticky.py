"""``kafka.coordinator.assignors.cooperative_sticky``: a name for our assignor ``cooperative-sticky``."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.named import NamedAssignor

__all__ = ["CooperativeStickyAssignor"]


class CooperativeStickyAssignor(NamedAssignor):
    """Stands for pyconsumer's assignor ``cooperative-sticky`` in ``partition_assignment_strategy``."""

    name = "cooperative-sticky"
