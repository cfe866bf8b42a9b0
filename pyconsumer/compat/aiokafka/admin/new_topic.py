"""``aiokafka.admin.new_topic``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyconsumer.compat.aiokafka.errors import IllegalArgumentError

__all__ = ["NewTopic"]


class NewTopic:
    """A topic to create.

    Args:
        name: its name.
        num_partitions: the number of partitions, -1 with ``replica_assignments``.
        replication_factor: the number of replicas, -1 with ``replica_assignments``.
        replica_assignments: the ids of the brokers for each partition, by the partition's number.
        topic_configs: settings of the topic, by name.

    Raises:
        IllegalArgumentError: the numbers and ``replica_assignments`` are both given, or both missing.
    """

    def __init__(
        self,
        name: str,
        num_partitions: int,
        replication_factor: int,
        replica_assignments: Mapping[int, Sequence[int]] | None = None,
        topic_configs: Mapping[str, str] | None = None,
    ) -> None:
        if (num_partitions == -1 or replication_factor == -1) == (replica_assignments is None):
            raise IllegalArgumentError(
                "give num_partitions and replication_factor, or replica_assignments and -1 for both"
            )
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignments = replica_assignments or {}
        self.topic_configs = topic_configs or {}
