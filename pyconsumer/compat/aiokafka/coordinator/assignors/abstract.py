"""``aiokafka.coordinator.assignors.abstract``: the same as in the layer for kafka-python."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.abstract import AbstractPartitionAssignor

__all__ = ["AbstractPartitionAssignor"]
