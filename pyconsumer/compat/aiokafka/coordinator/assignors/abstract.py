"""``aiokafka.coordinator.assignors.abstract``: kafka-python's, which are the same."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.abstract import AbstractPartitionAssignor

__all__ = ["AbstractPartitionAssignor"]
