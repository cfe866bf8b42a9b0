"""The partitions of a topic, in the form that ``send`` needs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyconsumer.errors import KafkaError
from pyconsumer.structs import PartitionMetadata

__all__ = ["TopicFacts"]


class TopicFacts:
    """The partitions of a topic. When metadata changes, the object is replaced.

    Args:
        metadata: the metadata of the partitions, in their order. None if the topic has an error.
        near: ids of the brokers in the producer's rack. None if the partitioner is not rack-aware (KIP-1123).
        error: the reason why no record can be sent to the topic.

    Attributes:
        available: the partitions that have a leader.
        preferred: the available partitions whose leader is near. If there are none, or ``near`` is None, all available
            partitions.
    """

    __slots__ = ("all", "available", "count", "error", "metadata", "preferred")

    def __init__(
        self,
        metadata: Sequence[PartitionMetadata],
        near: Collection[int] | None = None,
        *,
        error: KafkaError | None = None,
    ) -> None:
        self.metadata = list(metadata)
        self.count = len(metadata)
        self.all = [item.partition for item in metadata]
        self.available = [item.partition for item in metadata if item.leader >= 0]
        self.preferred = self.available
        if near is not None:
            self.preferred = [item.partition for item in metadata if item.leader in near] or self.available
        self.error = error

    def without(self, nodes: Collection[int]) -> Sequence[int]:
        """Return the preferred partitions whose leader is none of some brokers. If there are none, all preferred."""
        if not nodes:
            return self.preferred
        slow = {item.partition for item in self.metadata if item.leader in nodes}
        return [partition for partition in self.preferred if partition not in slow] or self.preferred
