"""``aiokafka.coordinator.assignors.abstract``: names of kafka-python's module, which leads to our assignor."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.abstract import AbstractPartitionAssignor

__all__ = ["AbstractPartitionAssignor"]
