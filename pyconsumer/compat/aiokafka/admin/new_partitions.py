"""``aiokafka.admin.new_partitions``."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["NewPartitions"]


class NewPartitions:
    """The new number of partitions of a topic, and optionally the brokers for each new partition.

    Args:
        total_count: the number of partitions, including those that the topic already has.
        new_assignments: the ids of the brokers for each new partition. By default the broker chooses.
    """

    def __init__(self, total_count: int, new_assignments: Sequence[Sequence[int]] | None = None) -> None:
        self.total_count = total_count
        self.new_assignments = new_assignments
