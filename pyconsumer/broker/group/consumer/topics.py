"""The cluster's topics, as the group coordinator sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pyconsumer.broker.group.consumer.member import Target

__all__ = ["NoTopics", "TopicImage", "from_names", "to_names"]


class TopicImage(Protocol):
    """The topics of the cluster, by name and id."""

    def topic_id(self, name: str) -> bytes | None:
        """Return the id of a topic, 16 bytes, or None if there is no such topic."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id, or None."""

    def partition_count(self, topic: str) -> int | None:
        """Return the number of a topic's partitions, or None if there is no such topic."""

    def topic_names(self) -> Iterable[str]:
        """Return the names of all topics."""

    def partition_racks(self, topic: str, partition: int) -> Sequence[str]:
        """Return the racks of the brokers that have a replica of a partition. Unknown racks are left out."""


class NoTopics:
    """The topics of an empty cluster, for a coordinator without groups of the consumer protocol."""

    def topic_id(self, name: str) -> bytes | None:
        return None

    def topic_name(self, topic_id: bytes) -> str | None:
        return None

    def partition_count(self, topic: str) -> int | None:
        return None

    def topic_names(self) -> Iterable[str]:
        return ()

    def partition_racks(self, topic: str, partition: int) -> Sequence[str]:
        return ()


def from_names(assigned: Iterable[tuple[str, Iterable[int]]], image: TopicImage) -> dict[bytes, frozenset[int]]:
    """Convert partitions by topic name to partitions by topic id. Missing topics are left out."""
    found: dict[bytes, frozenset[int]] = {}
    for name, partitions in assigned:
        topic_id = image.topic_id(name)
        if topic_id is not None:
            found[topic_id] = frozenset(partitions)
    return found


def to_names(target: Target | Mapping[bytes, Mapping[int, int]], image: TopicImage) -> list[tuple[str, list[int]]]:
    """Convert partitions by topic id to partitions by topic name. Missing topics are left out."""
    found = []
    for topic_id, partitions in target.items():
        name = image.topic_name(topic_id)
        if name is not None:
            found.append((name, sorted(partitions)))
    return found
