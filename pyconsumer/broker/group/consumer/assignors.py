"""The broker's assignors ``uniform`` and ``range`` (KIP-848), with Apache Kafka's results.

``uniform``
    Members get equal numbers of partitions, as far as their subscriptions allow, and keep partitions that they had. If
    all subscribe to the same topics, each has a quota (:class:`_Homogeneous`). Otherwise partitions are assigned to the
    least loaded subscriber, and then, in a limited number of rounds, single partitions move from the most loaded to the
    least loaded subscriber of a topic (:class:`_Heterogeneous`).
``range``
    Every subscriber of a topic gets a contiguous range of its partitions, in the order of instance ids (static members
    first), then of member ids. Topics with the same subscribers and the same number of partitions are divided alike.

In Kafka the order of members and topics is that of hash maps. Here it is the order of the arguments. The vectors in the
tests have Kafka's order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from pyconsumer.broker.group.consumer.member import Target
from pyconsumer.errors import IllegalStateError

__all__ = ["ASSIGNORS", "AssignorMember", "assign_range", "assign_uniform"]

#: The most rounds in which partitions are moved to balance an assignment.
_MOST_ROUNDS: Final = 16


class AssignorMember(NamedTuple):
    """A member, as an assignor sees it.

    ``topic_ids`` are the ids of the member's subscribed topics that exist. ``target`` is its part of the last target
    assignment.
    """

    member_id: str
    instance_id: str | None
    topic_ids: Sequence[bytes]
    target: Target


#: The partition count of each subscribed topic.
Counts = Mapping[bytes, int]
_Result = dict[str, dict[bytes, set[int]]]


def assign_range(members: Sequence[AssignorMember], counts: Counts, *, homogeneous: bool) -> _Result:
    """Compute an assignment by the assignor ``range``. ``homogeneous`` has no effect on the result."""
    ordered = sorted(members, key=lambda one: (one.instance_id is None, one.instance_id or one.member_id))
    subscribers: dict[bytes, int] = {}
    for member in ordered:
        for topic_id in member.topic_ids:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
    extra = {topic_id: counts[topic_id] % number for topic_id, number in subscribers.items()}
    start = dict.fromkeys(subscribers, 0)
    result: _Result = {}
    for member in ordered:
        assigned = result[member.member_id] = {}
        for topic_id in member.topic_ids:
            quota = counts[topic_id] // subscribers[topic_id]
            if extra[topic_id]:
                extra[topic_id] -= 1
                quota += 1
            end = min(start[topic_id] + quota, counts[topic_id])
            if start[topic_id] < end:
                assigned[topic_id] = set(range(start[topic_id], end))
            start[topic_id] = end
    return result


def assign_uniform(members: Sequence[AssignorMember], counts: Counts, *, homogeneous: bool) -> _Result:
    """Compute an assignment by the assignor ``uniform``.

    ``homogeneous`` is True if all members subscribe to the same topics.
    """
    if not members:
        return {}
    return _Homogeneous(members, counts).build() if homogeneous else _Heterogeneous(members, counts).build()


class _Homogeneous:
    """The uniform assignment of members that subscribe to the same topics."""

    def __init__(self, members: Sequence[AssignorMember], counts: Counts) -> None:
        self._members = members
        self._counts = counts
        self._topics = dict.fromkeys(members[0].topic_ids)
        self._unassigned: list[tuple[bytes, int]] = []
        self._unfilled: list[tuple[str, int]] = []
        self._result: _Result = {}

    def build(self) -> _Result:
        if not self._topics:
            return {}
        owned: dict[bytes, set[int]] = {}
        for member in self._members:
            for topic_id, partitions in member.target.items():
                owned.setdefault(topic_id, set()).update(partitions)
        total = 0
        for topic_id in self._topics:
            count, owned_here = self._counts[topic_id], owned.get(topic_id, set())
            self._unassigned += [(topic_id, index) for index in range(count) if index not in owned_here]
            total += count
        self._keep(*divmod(total, len(self._members)))
        self._fill()
        return self._result

    def _keep(self, least: int, extra: int) -> None:
        """Let every member keep the partitions that its quota allows. Record the members below their quota.

        Args:
            least: the quota of every member.
            extra: the number of members whose quota is larger by one.
        """
        for index, member in enumerate(self._members):
            has_extra = extra > 0
            quota = least + has_extra
            assigned = self._result[member.member_id] = {}
            for topic_id, partitions in member.target.items():
                if topic_id not in self._topics:
                    continue
                count = self._counts[topic_id]
                ordered = sorted(partition for partition in partitions if partition < count)
                kept, revoked = ordered[:quota], ordered[quota:]
                quota -= len(kept)
                if kept:
                    assigned[topic_id] = set(kept)
                self._unassigned += [(topic_id, partition) for partition in revoked]
            if quota > 0 and has_extra and len(self._members) - index > extra:
                quota -= 1
                has_extra = False
            if quota > 0:
                self._unfilled.append((member.member_id, quota))
            extra -= has_extra

    def _fill(self) -> None:
        remaining = iter(self._unassigned)
        for member_id, quota in self._unfilled:
            assigned = self._result[member_id]
            for _ in range(quota):
                found = next(remaining, None)
                if found is None:
                    return
                assigned.setdefault(found[0], set()).add(found[1])
        if next(remaining, None) is not None:
            raise IllegalStateError("Partitions were left unassigned")


class _Heterogeneous:
    """The uniform assignment of members that subscribe to different topics. Members are numbered in their order."""

    def __init__(self, members: Sequence[AssignorMember], counts: Counts) -> None:
        self._members = members
        self._counts = counts
        self._subscribers: dict[bytes, list[int]] = {}
        for index, member in enumerate(members):
            for topic_id in member.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(index)
        self._sizes = [0] * len(members)
        self._owners: dict[bytes, list[int]] = {topic_id: [-1] * counts[topic_id] for topic_id in self._subscribers}

    def build(self) -> _Result:
        if not self._subscribers:
            return {}
        for index, member in enumerate(self._members):
            topics = set(member.topic_ids)
            for topic_id, partitions in member.target.items():
                if topic_id in topics:
                    owners = self._owners[topic_id]
                    for partition in partitions:
                        if partition < len(owners):
                            owners[partition] = index
                            self._sizes[index] += 1
        self._assign_unowned()
        shared = [topic_id for topic_id, subscribers in self._subscribers.items() if len(subscribers) > 1]
        if shared:
            self._balance(self._sorted(shared))
        result: _Result = {member.member_id: {} for member in self._members}
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                if owner >= 0:
                    result[self._members[owner].member_id].setdefault(topic_id, set()).add(partition)
        return result

    def _sorted(self, topics: Iterable[bytes]) -> list[bytes]:
        """Sort by most partitions per subscriber, then fewest subscribers, then the id as Java compares ids."""

        def key(topic_id: bytes) -> tuple[float, int, int, int]:
            subscriber_count = len(self._subscribers[topic_id])
            high = int.from_bytes(topic_id[:8], "big", signed=True)
            low = int.from_bytes(topic_id[8:], "big", signed=True)
            return -(self._counts[topic_id] / subscriber_count), subscriber_count, high, low

        return sorted(topics, key=key)

    def _assign(self, topic_id: bytes, partition: int, member: int) -> None:
        owners = self._owners[topic_id]
        if owners[partition] >= 0:
            self._sizes[owners[partition]] -= 1
        owners[partition] = member
        self._sizes[member] += 1

    def _assign_unowned(self) -> None:
        unassigned = {
            topic_id: [index for index, owner in enumerate(owners) if owner < 0]
            for topic_id, owners in self._owners.items()
        }
        for topic_id in self._sorted([topic_id for topic_id, partitions in unassigned.items() if partitions]):
            by_load = _MembersByLoad(self._subscribers[topic_id], self._sizes)
            for partition in unassigned[topic_id]:
                self._assign(topic_id, partition, by_load.next_least_loaded())

    def _balance(self, topics: list[bytes]) -> None:
        last_moved = -1
        for _ in range(_MOST_ROUNDS):
            for index, topic_id in enumerate(topics):
                if index == last_moved:
                    return
                if self._balance_topic(topic_id) > 0 or last_moved == -1:
                    last_moved = index

    def _balance_topic(self, topic_id: bytes) -> int:
        """Move partitions of one topic between its subscribers and return how many."""
        by_load = _MembersByLoad(self._subscribers[topic_id], self._sizes)
        if by_load.imbalance <= 1:
            return 0
        owners = self._owners[topic_id]
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
        moved = 0
        while not by_load.is_balanced():
            most = by_load.next_most_loaded()
            while most != -1 and not owned.get(most):
                by_load.exclude_most_loaded()
                most = by_load.next_most_loaded()
            if most == -1:
                break
            partition = owned[most].pop()
            least = by_load.next_least_loaded()
            if by_load.is_balanced():
                break
            self._assign(topic_id, partition, least)
            moved += 1
        return moved


class _MembersByLoad:
    """The subscribers of a topic in the order of their load, their number of partitions.

    Two ranges grow towards each other: at the start of the order the least loaded members, which all have the same load
    and take turns to get a partition. At the end the most loaded ones, which take turns to lose one.
    """

    def __init__(self, members: Sequence[int], sizes: Sequence[int]) -> None:
        self._sizes = sizes  # the builder's own list, which changes with each move
        self._order = sorted(members, key=lambda member: (sizes[member], member))
        self._least_end = 0
        self._least = sizes[self._order[0]] - 1
        self._next_least = 0
        self._most_start = self._most_end = len(self._order)
        self._most = sizes[self._order[-1]] + 1
        self._next_most = len(self._order) - 1
        self.imbalance = sizes[self._order[-1]] - sizes[self._order[0]]

    def is_balanced(self) -> bool:
        return self._most - self._least <= 1

    def next_least_loaded(self) -> int:
        """Return the member that gets the next partition. The caller gives it one."""
        order = self._order
        if self._next_least >= self._least_end:
            self._least += 1
            while self._least_end < len(order) and self._sizes[order[self._least_end]] == self._least:
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return order[self._next_least - 1]

    def next_most_loaded(self) -> int:
        """Return the member that loses the next partition, -1 if none is left. The caller takes one."""
        order = self._order
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                self._most = self._sizes[order[self._most_start - 1]]
            else:
                self._most -= 1
            while self._most_start > 0 and self._sizes[order[self._most_start - 1]] == self._most:
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return -1
        self._next_most -= 1
        return order[self._next_most + 1]

    def exclude_most_loaded(self) -> None:
        """Exclude the member that was returned last from the most loaded ones: it has no partition of the topic."""
        order, at, end = self._order, self._next_most + 1, self._most_end - 1
        order[at], order[end] = order[end], order[at]
        self._most_end -= 1


Assignor = Callable[..., _Result]
#: By the names that members send (``group.remote.assignor``).
ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": assign_uniform, "range": assign_range}
