"""``aiokafka.consumer.group_coordinator``: the name, for annotations and ``isinstance``."""

from __future__ import annotations

from pyconsumer.compat.internals import CoordinatorView as GroupCoordinator

__all__ = ["GroupCoordinator"]
