"""``kafka.cluster``: a read-only view of the known brokers and topics."""

from __future__ import annotations

from pyconsumer.compat.kafka.structs import BrokerMetadata
from pyconsumer.network.metadata import Metadata
from pyconsumer.structs import TopicPartition

__all__ = ["ClusterMetadata"]


class ClusterMetadata:
    """The brokers and topics of a cluster, as a client knows them now.

    Args:
        metadata: the client's metadata. This object changes and requests nothing.
    """

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata

    def brokers(self) -> set[BrokerMetadata]:
        """Return the brokers. Until a broker has responded, these are the bootstrap addresses, with negative ids."""
        return set(self._all().values())

    def broker_metadata(self, broker_id: int) -> BrokerMetadata | None:
        """Return a broker, or None if it is unknown."""
        return self._all().get(broker_id)

    def is_bootstrap(self, node_id: int) -> bool:
        """Return whether an id belongs to a bootstrap address."""
        return self._metadata.is_bootstrap and node_id in self._all()

    @property
    def controller(self) -> BrokerMetadata | None:
        """The controller, or None if it is unknown."""
        return self._brokers.get(self._metadata.controller_id)

    @property
    def internal_topics(self) -> set[str]:
        """The names of Kafka's own topics, as far as they are known."""
        return {name for name in self._metadata.topics() if self._is_internal(name)}

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        """Return the names of the known topics."""
        found = set(self._metadata.topics())
        return {name for name in found if not self._is_internal(name)} if exclude_internal_topics else found

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the partitions of a topic, or None if the topic is unknown."""
        found = self._metadata.topic(topic)
        return None if found is None else set(found.partitions)

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the partitions of a topic that have a leader, or None if the topic is unknown."""
        found = self._metadata.topic(topic)
        return None if found is None else {number for number, each in found.partitions.items() if each.leader >= 0}

    def leader_for_partition(self, partition: TopicPartition) -> int | None:
        """Return the id of a partition's leader. -1 if there is no leader, None if the partition is unknown."""
        found = self._metadata.topic(partition.topic)
        known = None if found is None else found.partitions.get(partition.partition)
        return None if known is None else known.leader

    def partitions_for_broker(self, broker_id: int) -> set[TopicPartition] | None:
        """Return the known partitions that a broker leads, or None if there are none."""
        led = {
            TopicPartition(name, number)
            for name in self._metadata.topics()
            for number in self.available_partitions_for_topic(name) or ()
            if self.leader_for_partition(TopicPartition(name, number)) == broker_id
        }
        return led or None

    def _all(self) -> dict[int, BrokerMetadata]:
        return {each.node_id: BrokerMetadata(*each) for each in self._metadata.brokers()}

    def _is_internal(self, name: str) -> bool:
        found = self._metadata.topic(name)
        return found is not None and found.is_internal

    @property
    def _brokers(self) -> dict[int, BrokerMetadata]:
        """The brokers by id, for programs that read the original's field."""
        return {} if self._metadata.is_bootstrap else self._all()

    def __str__(self) -> str:
        return f"ClusterMetadata(brokers: {len(self._all())}, topics: {len(self._metadata.topics())})"
