"""What the handlers of group requests need of the broker that they run in."""

from __future__ import annotations

from typing import Protocol

from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.group.coordinator import GroupCoordinator
from pyconsumer.structs import BrokerMetadata

__all__ = ["GroupBroker"]


class GroupBroker(Protocol):
    """One broker, as its group handlers see it."""

    @property
    def group_coordinator(self) -> GroupCoordinator: ...

    def topic_id(self, name: str) -> bytes | None:
        """The id of a topic, 16 bytes; None if there is no such topic."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of the topic with this id."""

    def partition_count(self, topic: str) -> int | None:
        """How many partitions a topic has; None if there is no such topic."""

    def group_coordinator_node(self, partition: int, context: RequestContext) -> BrokerMetadata | None:
        """The leader of a partition of ``__consumer_offsets`` under the address that the client's listener has.

        None while the partition has no leader.
        """
