"""The balancing step of all sticky assignors: makes shares even by moving few partitions.

Members differ in their subscriptions, so the fairest result is found by moving one partition at a time, from a member
to one that has at least two fewer. A partition moves only within its topic's subscribers.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from pyconsumer.assignors.base import member_order
from pyconsumer.structs import TopicPartition

__all__ = ["Balancer", "Movements"]


class Movements:
    """Remembers the previous owners of moved partitions, so that members do not swap partitions of a topic.

    If a partition moves several times, that counts as one move from its first owner. If it returns there, it counts as
    no move.
    """

    def __init__(self) -> None:
        self._moved: dict[TopicPartition, tuple[str, str]] = {}
        self._by_pair: dict[tuple[str, str, str], set[TopicPartition]] = {}

    def instead_of(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return the partition to move instead, if there is one.

        It is of the same topic and has moved in the opposite direction.
        """
        if partition in self._moved:
            source = self._moved[partition][0]
        opposite = self._by_pair.get((partition.topic, target, source))
        return self.choose(opposite) if opposite else partition

    @staticmethod
    def choose(partitions: Collection[TopicPartition]) -> TopicPartition:
        """Return which of several moves to take back: the partition with the lowest number."""
        return min(partitions)

    def note(self, partition: TopicPartition, source: str, target: str) -> None:
        """Record a move."""
        before = self._moved.pop(partition, None)
        if before is not None:
            key = (partition.topic, *before)
            self._by_pair[key].discard(partition)
            if not self._by_pair[key]:
                del self._by_pair[key]
            source = before[0]
            if source == target:
                return
        self._moved[partition] = (source, target)
        self._by_pair.setdefault((partition.topic, source, target), set()).add(partition)


class Balancer:
    """One run of the balancing algorithm.

    It has the members, the partitions that each has and may have, and the steps of the run.

    Args:
        shares: each member's partitions at the start. This dictionary is changed in place.
        topics: the known topics to which each member is subscribed.
        counts: the number of partitions of each topic.
        tolerance: the largest difference between the numbers of partitions of two members that still counts as
            balanced.
    """

    def __init__(
        self,
        shares: dict[str, list[TopicPartition]],
        topics: Mapping[str, Collection[str]],
        counts: Mapping[str, int],
        *,
        tolerance: int,
    ) -> None:
        self.shares = shares
        self.owner = {partition: member for member, share in shares.items() for partition in share}
        #: How many partitions were looked at, for tests of the effort.
        self._topics = topics
        self._counts = counts
        self._tolerance = tolerance
        self._names = sorted(shares, key=member_order)
        self._rank = {member: rank for rank, member in enumerate(self._names)}
        self._by_size = sorted((len(share), self._rank[member]) for member, share in shares.items())
        self._subscribers = dict.fromkeys(counts, 0)
        for mine in topics.values():
            for topic in mine:
                self._subscribers[topic] += 1
        self._movements = Movements()
        self._balanced: bool | None = None

    def subscribers(self, topic: str) -> int:
        """Return the number of members that may have partitions of the topic."""
        return self._subscribers[topic]

    @property
    def nothing_dealt(self) -> bool:
        """Return whether no member has a partition."""
        return self._by_size[-1][0] == 0

    def deal(
        self, partitions: Iterable[TopicPartition], may_have: Callable[[str, TopicPartition], bool] | None = None
    ) -> list[TopicPartition]:
        """Give each partition to the subscriber that has the fewest. Return the partitions that have no subscriber."""
        left = []
        for partition in partitions:
            for _, rank in self._by_size:
                member = self._names[rank]
                if partition.topic in self._topics[member] and (may_have is None or may_have(member, partition)):
                    self._resize(member, 1)
                    self.shares[member].append(partition)
                    self.owner[partition] = member
                    break
            else:
                left.append(partition)
        return left

    def balance(
        self,
        order: Sequence[TopicPartition],
        *,
        first: Sequence[TopicPartition] = (),
        former: Mapping[TopicPartition, str] | None = None,
        initial: bool = False,
    ) -> None:
        """Move partitions until no move makes the shares more even.

        If the result is no more even than the start, undo the run.

        Args:
            order: all partitions, in the order in which they are tried.
            first: partitions that are tried before the others, repeatedly.
            former: earlier owners. If such a member has room, it is preferred when its partition is moved.
            initial: True keeps the result in any case, because there was no assignment before.
        """
        aside = [member for member in self.shares if not self._takes_part(member)]
        for member in aside:
            self._by_size.remove((len(self.shares[member]), self._rank[member]))
        before = {self._names[rank]: list(self.shares[self._names[rank]]) for _, rank in self._by_size}
        score = self._score()
        moved = self._move_all(first, former or {})
        moved = self._move_all(order, former or {}) or moved
        if moved and not initial and self._score() >= score:
            self.shares.update(before)
            self.owner.update({partition: member for member, share in before.items() for partition in share})

    def _takes_part(self, member: str) -> bool:
        share = self.shares[member]
        return len(share) < self._most(member) or any(self._subscribers[p.topic] > 1 for p in share)

    def _most(self, member: str) -> int:
        return sum(self._counts[topic] for topic in self._topics[member])

    def _move_all(self, partitions: Sequence[TopicPartition], former: Mapping[TopicPartition, str]) -> bool:
        candidates = [partition for partition in partitions if self._subscribers[partition.topic] > 1]
        moved_any = False
        moved = bool(self._by_size)
        while moved:
            moved, score = False, self._score()
            for partition in candidates:
                if self._is_balanced():
                    break
                size = len(self.shares[self.owner[partition]])
                target = former.get(partition)
                if target is None or size <= len(self.shares[target]) + 1:
                    target = self._smallest(partition.topic, size - 1)
                if target is not None:
                    self._move(partition, target)
                    moved = True
            moved_any = moved_any or moved
            moved = moved and self._score() < score  # ends for certain, though a move may be replaced by another
        return moved_any

    def _smallest(self, topic: str, below: int) -> str | None:
        """Return the subscriber with the fewest partitions, if it has fewer than ``below``."""
        for size, rank in self._by_size:
            if size >= below:
                return None
            if topic in self._topics[self._names[rank]]:
                return self._names[rank]
        return None

    def _move(self, partition: TopicPartition, target: str) -> None:
        partition = self._movements.instead_of(partition, self.owner[partition], target)
        source = self.owner[partition]
        self._movements.note(partition, source, target)
        self._resize(source, -1)
        self.shares[source].remove(partition)
        self._resize(target, 1)
        self.shares[target].append(partition)
        self.owner[partition] = target
        self._balanced = None

    def _resize(self, member: str, change: int) -> None:
        size, rank = len(self.shares[member]), self._rank[member]
        del self._by_size[bisect_left(self._by_size, (size, rank))]
        insort(self._by_size, (size + change, rank))

    def _is_balanced(self) -> bool:
        if self._balanced is None:
            self._balanced = self._find_balanced()
        return self._balanced

    def _find_balanced(self) -> bool:
        largest = self._by_size[-1][0]
        if largest - self._by_size[0][0] <= 1:
            return True
        heaviest: dict[str, int] = {}
        for size, rank in reversed(self._by_size):
            for topic in {partition.topic for partition in self.shares[self._names[rank]]}:
                heaviest.setdefault(topic, size)
        for size, rank in self._by_size:
            if size + self._tolerance >= largest:
                return True
            member = self._names[rank]
            if size < self._most(member) and any(
                heaviest.get(topic, 0) > size + self._tolerance for topic in self._topics[member]
            ):
                return False
        return True

    def _score(self) -> int:
        """Return the sum of the differences in size between all pairs of members."""
        last = len(self._by_size) - 1
        return sum(size * (2 * place - last) for place, (size, _) in enumerate(self._by_size))
