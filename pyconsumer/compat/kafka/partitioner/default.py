"""``kafka.partitioner.default``: partitioners that can be called as in kafka-python 2.x, or have the method of 3.x.

``KafkaProducer(partitioner=...)`` accepts both, and functions ``(key, all partitions, available partitions)``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from pyconsumer.producer.partitioner import murmur2, partition_for_key

__all__ = ["DefaultPartitioner", "Partitioner", "StickyPartitioner", "as_function", "murmur2"]


class Partitioner:
    """Base class for partitioners in the form of kafka-python 3.x. Override :meth:`partition`."""

    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: Any,
    ) -> int:
        """Return the partition of a record.

        Args:
            cluster: an object with ``topics``, ``partitions_for_topic`` and ``available_partitions_for_topic``. If
                pyconsumer's producer makes the call, the object knows only the record's topic, and ``topic``, ``key``
                and ``value`` are None.
        """
        raise NotImplementedError


class DefaultPartitioner(Partitioner):
    """Chooses the partition by murmur2 of the key, as Java does.

    Records without a key go to a random partition that has a leader.
    """

    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: Any,
    ) -> int:
        """Return the partition of a record.

        Raises:
            ValueError: the topic is unknown.
        """
        if topic not in cluster.topics():
            raise ValueError(f"topic {topic} not found in the metadata")
        partitions = sorted(cluster.partitions_for_topic(topic))
        return self(serialized_key, partitions, list(cluster.available_partitions_for_topic(topic)))

    def __call__(self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int:
        """Return the partition of a serialized key."""
        if key is None:
            return random.choice(available or all_partitions)
        return all_partitions[partition_for_key(key, len(all_partitions))]


class StickyPartitioner(DefaultPartitioner):
    """Chooses the partition by key, like :class:`DefaultPartitioner`.

    Without a key, all records of a batch go to one partition.

    pyconsumer's producer replaces this class by its own partitioner, which does the same (KIP-794).
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: Any,
    ) -> int:
        """Return the partition of a record. Without a key, it stays the same until :meth:`on_new_batch`."""
        if serialized_key is not None or topic not in cluster.topics():
            return super().partition(topic, key, serialized_key, value, serialized_value, cluster)
        usable = cluster.available_partitions_for_topic(topic) or cluster.partitions_for_topic(topic)
        if self._last.get(topic) not in usable:
            self._last[topic] = random.choice(sorted(usable))
        return self._last[topic]

    def on_new_batch(self, topic: str, cluster: Any, prev_partition: int) -> None:
        """Choose another partition for records without a key.

        If it differs from ``prev_partition`` already, keep it.
        """
        usable = sorted(cluster.available_partitions_for_topic(topic) or cluster.partitions_for_topic(topic) or ())
        if usable and self._last.get(topic) == prev_partition:
            self._last[topic] = random.choice([one for one in usable if one != prev_partition] or usable)


class _OneTopic:
    """The cluster that is passed to a partitioner of kafka-python 3.x: one topic."""

    def __init__(self, partitions: Sequence[int], available: Sequence[int]) -> None:
        self._partitions = set(partitions)
        self._available = set(available)

    def topics(self) -> set[None]:
        return {None}

    def partitions_for_topic(self, topic: object) -> set[int]:
        return self._partitions

    def available_partitions_for_topic(self, topic: object) -> set[int]:
        return self._available


def as_function(given: Any) -> Any:
    """Return a partitioner as a function for pyconsumer's producer. None means that the producer chooses."""
    if given is None or type(given) in (DefaultPartitioner, StickyPartitioner) or callable(given):
        return None if type(given) in (DefaultPartitioner, StickyPartitioner) else given
    choose = given.partition

    def function(key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        return int(choose(None, None, key, None, None, _OneTopic(partitions, available)))

    return function
