"""``kafka.coordinator.assignors.cooperative_sticky``."""

from __future__ import annotations

from pyconsumer.assignors import CooperativeStickyAssignor

__all__ = ["CooperativeStickyAssignor"]
