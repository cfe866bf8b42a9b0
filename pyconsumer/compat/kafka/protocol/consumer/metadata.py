"""``kafka.protocol.consumer.metadata``: the values of assignors under the names that kafka-python 3 has for them."""

from __future__ import annotations

from typing import Final

from pyconsumer.compat.kafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)

__all__ = ["ConsumerProtocolAssignment", "ConsumerProtocolSubscription", "ConsumerProtocolType"]

ConsumerProtocolAssignment = ConsumerProtocolMemberAssignment
ConsumerProtocolSubscription = ConsumerProtocolMemberMetadata
ConsumerProtocolType: Final = "consumer"
