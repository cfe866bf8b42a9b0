"""The groups of ``tests/vectors/sticky.jsonl.gz``: members' subscriptions, and the result of Kafka's assignor."""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyconsumer.assignors import Assignment, Subscription
from pyconsumer.structs import TopicPartition
from tests.unit.assignors.cluster import FakeCluster
from tests.vectors.make_sticky import VECTORS

__all__ = ["Group", "as_java_chooses", "groups"]


@dataclass(frozen=True)
class Group:
    """One group and its expected result: topic -> the letter of each partition's owner, a dot for none."""

    text: str
    hashed: bool
    cluster: FakeCluster
    counts: Mapping[str, int]
    subscriptions: Mapping[str, Subscription]
    letters: Mapping[str, str]
    expected: Mapping[str, str]

    def show(self, result: Mapping[str, Assignment]) -> dict[str, str]:
        """A result as the vectors write it. Fails if a partition was assigned twice."""
        owners = {topic: ["."] * count for topic, count in self.counts.items()}
        for member_id, assignment in result.items():
            for topic, partition in assignment.partitions:
                assert owners[topic][partition] == ".", self.text
                owners[topic][partition] = self.letters[member_id]
        return {topic: "".join(row) for topic, row in owners.items()}

    def sizes(self, shown: Mapping[str, str]) -> list[int]:
        """Return how many partitions the members have, in order of size."""
        return sorted("".join(shown.values()).count(letter) for letter in self.letters.values())

    def kept(self, shown: Mapping[str, str]) -> int:
        """Return how many partitions stay with a member that owned them."""
        return sum(
            shown[topic][partition] == self.letters[member_id]
            for member_id, subscription in self.subscriptions.items()
            for topic, partition in subscription.owned_partitions
        )


def groups(*, hashed: bool) -> Iterator[Group]:
    """The groups in which the order of Java's hash maps is not, or is, the order of the member ids."""
    with gzip.open(VECTORS, "rt") as lines:
        for line in lines:
            case = json.loads(line)
            if bool(case["h"]) == hashed:
                yield _group(line, case)


def _group(line: str, case: Mapping[str, Any]) -> Group:
    ids = {letter: f"m{((ord(letter) - 97) * 7919 + 13) % 1000}" if case["h"] else letter for letter in case["m"]}
    subscriptions = {}
    for letter, (topics, generation, data, rack, owned) in case["m"].items():
        subscriptions[ids[letter]] = Subscription(
            tuple(f"t{digit}" for digit in topics),
            user_data=None if data is None else data.to_bytes(4, "big", signed=True),
            owned_partitions=tuple(
                TopicPartition(t, int(digit, 36)) for t, digits in owned.items() for digit in digits
            ),
            generation_id=generation,
            rack_id=None if rack is None else f"r{rack}",
        )
    topics = {
        topic: partitions
        if isinstance(partitions, int)
        else [[None if digit == "-" else f"r{digit}" for digit in digits] for digits in partitions]
        for topic, partitions in case["t"].items()
    }
    return Group(
        text=line,
        hashed=bool(case["h"]),
        cluster=FakeCluster(topics),
        counts={topic: len(row) for topic, row in case["r"].items()},
        subscriptions=subscriptions,
        letters={member_id: letter for letter, member_id in ids.items()},
        expected=case["r"],
    )


def as_java_chooses(partitions: Collection[TopicPartition]) -> TopicPartition:
    """The partition of one topic that a small Java ``HashSet`` of them gives first."""

    def bucket(partition: TopicPartition) -> int:
        topic_hash = 0
        for char in partition.topic:
            topic_hash = 31 * topic_hash + ord(char)
        return (31 * (31 + partition.partition) + topic_hash) & 15

    return min(partitions, key=bucket)
