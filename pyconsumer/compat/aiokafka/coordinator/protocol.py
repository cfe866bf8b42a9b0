"""``aiokafka.coordinator.protocol``: the names of kafka-python's module of that kind."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.protocol import (
    ConsumerProtocol,
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)

__all__ = ["ConsumerProtocol", "ConsumerProtocolMemberAssignment", "ConsumerProtocolMemberMetadata"]
