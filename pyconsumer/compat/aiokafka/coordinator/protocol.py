"""``aiokafka.coordinator.protocol``: the values of ``compat/kafka/coordinator/protocol``."""

from __future__ import annotations

from pyconsumer.compat.kafka.coordinator.protocol import (
    ConsumerProtocol,
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)

__all__ = ["ConsumerProtocol", "ConsumerProtocolMemberAssignment", "ConsumerProtocolMemberMetadata"]
