"""The assignors of a broker, ``uniform`` and ``range``: pure functions, as Apache Kafka's (KIP-848).

``uniform``
    Everybody has as many partitions as everybody else, give or take one, and keeps what it had as far as that allows.
    Where all members subscribe to the same topics, quotas decide (:class:`_Homogeneous`); otherwise partitions are
    given to the least loaded subscriber, and a limited number of rounds moves single partitions from the most loaded
    to the least loaded subscriber of a topic (:class:`_Heterogeneous`).
``range``
    Of each topic every subscriber gets a contiguous range of partitions, in the order of instance ids (static members
    first), then of member ids. All topics with the same subscribers are divided alike.

Kafka leaves the order of members and topics to its hash maps. Here it is the order in which they are given; the vectors
in the tests give Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from pyconsumer.broker.group.consumer.member import Target
from pyconsumer.errors import IllegalStateError

__all__ = ["ASSIGNORS", "AssignorMember", "assign_range", "assign_uniform"]

#: Rounds of moves after which an assignment is good enough.
_MOST_ROUNDS: Final = 16


class AssignorMember(NamedTuple):
    """A member as an assignor sees it.

    ``topic_ids`` are its existing subscribed topics, ``target`` is what it was given in the last target assignment.
    """

    member_id: str
    instance_id: str | None
    topic_ids: Sequence[bytes]
    target: Target


#: Partition count of each subscribed topic.
Counts = Mapping[bytes, int]
_Result = dict[str, dict[bytes, set[int]]]


def assign_range(members: Sequence[AssignorMember], counts: Counts, *, homogeneous: bool) -> _Result:
    """Assign by ``range``; ``homogeneous`` makes no difference to the result."""
    ordered = sorted(members, key=lambda one: (one.instance_id is None, one.instance_id or one.member_id))
    subscribers: dict[bytes, int] = {}
    for member in ordered:
        for topic_id in member.topic_ids:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
    extra = {topic_id: counts[topic_id] % number for topic_id, number in subscribers.items()}
    start = dict.fromkeys(subscribers, 0)
    result: _Result = {}
    for member in ordered:
        mine = result[member.member_id] = {}
        for topic_id in member.topic_ids:
            quota = counts[topic_id] // subscribers[topic_id]
            if extra[topic_id]:
                extra[topic_id] -= 1
                quota += 1
            end = min(start[topic_id] + quota, counts[topic_id])
            if start[topic_id] < end:
                mine[topic_id] = set(range(start[topic_id], end))
            start[topic_id] = end
    return result


def assign_uniform(members: Sequence[AssignorMember], counts: Counts, *, homogeneous: bool) -> _Result:
    """Assign by ``uniform``; ``homogeneous`` says that all members subscribe to the same topics."""
    if not members:
        return {}
    return _Homogeneous(members, counts).build() if homogeneous else _Heterogeneous(members, counts).build()


class _Homogeneous:
    """All members subscribe to the same topics."""

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
            count, taken = self._counts[topic_id], owned.get(topic_id, set())
            self._unassigned += [(topic_id, index) for index in range(count) if index not in taken]
            total += count
        self._keep(*divmod(total, len(self._members)))
        self._fill()
        return self._result

    def _keep(self, least: int, extra: int) -> None:
        """Let everybody keep what its quota allows; note who may have more."""
        for index, member in enumerate(self._members):
            has_extra = extra > 0
            quota = least + has_extra
            mine = self._result[member.member_id] = {}
            for topic_id, partitions in member.target.items():
                if topic_id not in self._topics:
                    continue
                count = self._counts[topic_id]
                ordered = sorted(partition for partition in partitions if partition < count)
                kept, given_up = ordered[:quota], ordered[quota:]
                quota -= len(kept)
                if kept:
                    mine[topic_id] = set(kept)
                self._unassigned += [(topic_id, partition) for partition in given_up]
            if quota > 0 and has_extra and len(self._members) - index > extra:
                quota -= 1
                has_extra = False
            if quota > 0:
                self._unfilled.append((member.member_id, quota))
            extra -= has_extra

    def _fill(self) -> None:
        remaining = iter(self._unassigned)
        for member_id, quota in self._unfilled:
            mine = self._result[member_id]
            for _ in range(quota):
                found = next(remaining, None)
                if found is None:
                    return
                mine.setdefault(found[0], set()).add(found[1])
        if next(remaining, None) is not None:
            raise IllegalStateError("Partitions were left unassigned")


class _Heterogeneous:
    """Members subscribe to different topics. Members are numbered in their order."""

    def __init__(self, members: Sequence[AssignorMember], counts: Counts) -> None:
        self._members = members
        self._counts = counts
        self._subscribers: dict[bytes, list[int]] = {}
        for index, member in enumerate(members):
            for topic_id in member.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(index)
        self._sizes = [0] * len(members)
        self._owners: dict[bytes, list[int]] = {topic_id: [-1] * counts[topic_id] for topic_id in self._subscribers}
        self._kept: list[tuple[bytes, int, int]] = []

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
        self._give_out()
        shared = [topic_id for topic_id, readers in self._subscribers.items() if len(readers) > 1]
        if shared:
            self._balance(self._sorted(shared))
        result: _Result = {member.member_id: {} for member in self._members}
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                if owner >= 0:
                    result[self._members[owner].member_id].setdefault(topic_id, set()).add(partition)
        return result

    def _sorted(self, topics: Iterable[bytes]) -> list[bytes]:
        """Most partitions for each subscriber first; then fewest subscribers; then by id, as Java compares ids."""

        def key(topic_id: bytes) -> tuple[float, int, int, int]:
            readers = len(self._subscribers[topic_id])
            high = int.from_bytes(topic_id[:8], "big", signed=True)
            low = int.from_bytes(topic_id[8:], "big", signed=True)
            return -(self._counts[topic_id] / readers), readers, high, low

        return sorted(topics, key=key)

    def _assign(self, topic_id: bytes, partition: int, member: int) -> None:
        owners = self._owners[topic_id]
        if owners[partition] >= 0:
            self._sizes[owners[partition]] -= 1
        owners[partition] = member
        self._sizes[member] += 1

    def _give_out(self) -> None:
        unassigned = {
            topic_id: [index for index, owner in enumerate(owners) if owner < 0]
            for topic_id, owners in self._owners.items()
        }
        for topic_id in self._sorted([topic_id for topic_id, partitions in unassigned.items() if partitions]):
            scale = _Scale(self._subscribers[topic_id], self._sizes)
            for partition in unassigned[topic_id]:
                self._assign(topic_id, partition, scale.next_least_loaded())

    def _balance(self, topics: list[bytes]) -> None:
        last_moved = -1
        for _ in range(_MOST_ROUNDS):
            for index, topic_id in enumerate(topics):
                if index == last_moved:
                    return
                if self._balance_topic(topic_id) > 0 or last_moved == -1:
                    last_moved = index

    def _balance_topic(self, topic_id: bytes) -> int:
        """Move partitions of one topic between its subscribers; return how many."""
        scale = _Scale(self._subscribers[topic_id], self._sizes)
        if scale.imbalance <= 1:
            return 0
        owners = self._owners[topic_id]
        theirs: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            theirs.setdefault(owner, []).append(partition)
        moved = 0
        while not scale.is_balanced():
            most = scale.next_most_loaded()
            while most != -1 and not theirs.get(most):
                scale.exclude_most_loaded()
                most = scale.next_most_loaded()
            if most == -1:
                break
            partition = theirs[most].pop()
            least = scale.next_least_loaded()
            if scale.is_balanced():
                break
            self._assign(topic_id, partition, least)
            moved += 1
        return moved


class _Scale:
    """The subscribers of a topic in the order of their load.

    Two ranges grow towards each other: at the bottom of the order the least loaded members, who all have the same
    number of partitions and take turns to get one more; at the top the most loaded ones, who take turns to lose one.
    """

    def __init__(self, members: Sequence[int], sizes: Sequence[int]) -> None:
        self._sizes = sizes  # the builder's, which changes with each move
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
        """Return who gets the next partition, and count it."""
        order = self._order
        if self._next_least >= self._least_end:
            self._least += 1
            while self._least_end < len(order) and self._sizes[order[self._least_end]] == self._least:
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return order[self._next_least - 1]

    def next_most_loaded(self) -> int:
        """Return who loses the next partition, and count it; -1 if nobody is left."""
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
        """Take the member that was returned last out of the most loaded: it has no partition of the topic."""
        order, at, end = self._order, self._next_most + 1, self._most_end - 1
        order[at], order[end] = order[end], order[at]
        self._most_end -= 1


Assignor = Callable[..., _Result]
#: By the names that members ask for; the first is the default (``group.consumer.assignors``).
ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": assign_uniform, "range": assign_range}
