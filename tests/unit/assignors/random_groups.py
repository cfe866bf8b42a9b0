"""Random groups for property tests, and the rules of every assignment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from pyconsumer.assignors import Assignment, Subscription
from pyconsumer.structs import TopicPartition
from tests.unit.assignors.cluster import FakeCluster

__all__ = ["Situation", "check_even", "check_valid", "owners", "situations"]


@dataclass(frozen=True)
class Situation:
    """Members, the topics of each, and the number of partitions of each topic."""

    topics: Mapping[str, tuple[str, ...]]
    counts: Mapping[str, int]

    @property
    def cluster(self) -> FakeCluster:
        return FakeCluster(self.counts)

    @property
    def subscriptions(self) -> dict[str, Subscription]:
        return {member: Subscription(topics) for member, topics in self.topics.items()}

    def without(self, member: str) -> Situation:
        return replace(self, topics={m: topics for m, topics in self.topics.items() if m != member})


@st.composite
def situations(draw: st.DrawFn, *, equal: bool | None = None, least_members: int = 1) -> Situation:
    """A group of up to 8 members. ``equal``: whether all subscribe to the same topics."""
    names = [f"t{number}" for number in range(draw(st.integers(1, 4)))]
    members = draw(st.lists(st.integers(0, 30), min_size=least_members, max_size=8, unique=True))
    same = draw(st.booleans()) if equal is None else equal
    choice = st.just(tuple(names)) if same else st.lists(st.sampled_from(names), unique=True).map(tuple)
    return Situation(
        {f"c{member}": draw(choice) for member in members},
        {name: draw(st.integers(0, 9)) for name in names},
    )


def owners(result: Mapping[str, Assignment]) -> dict[TopicPartition, str]:
    """Return the owner of each partition. Fails if a partition was assigned twice."""
    found: dict[TopicPartition, str] = {}
    for member, assignment in result.items():
        for partition in assignment.partitions:
            assert partition not in found
            found[partition] = member
    return found


def check_valid(situation: Situation, result: Mapping[str, Assignment], *, complete: bool = True) -> None:
    """Every member has an entry, with partitions of its own topics only. Each partition is assigned once.

    With ``complete=False`` partitions may be left out.
    """
    assert result.keys() == situation.topics.keys()
    given = owners(result)
    assert all(partition.topic in situation.topics[member] for partition, member in given.items())
    wanted = {topic for topics in situation.topics.values() for topic in topics}
    everything = {TopicPartition(t, p) for t in wanted for p in range(situation.counts[t])}
    assert given.keys() == everything if complete else given.keys() <= everything


def check_even(situation: Situation, result: Mapping[str, Assignment]) -> None:
    """No owner of a partition has two more partitions than another subscriber of its topic."""
    sizes = {member: len(assignment.partitions) for member, assignment in result.items()}
    for partition, owner in owners(result).items():
        for member, topics in situation.topics.items():
            if partition.topic in topics:
                assert sizes[owner] - sizes[member] <= 1, (partition, owner, member)
