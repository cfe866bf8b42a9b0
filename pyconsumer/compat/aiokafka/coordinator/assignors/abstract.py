"""``aiokafka.coordinator.assignors.abstract``: the base class of ``compat/kafka``, under the same name."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.assignors.abstract import AbstractPartitionAssignor

__all__ = ["AbstractPartitionAssignor"]
