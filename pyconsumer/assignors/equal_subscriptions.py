"""The cooperative sticky assignor for members that all subscribe to the same topics.

With P partitions and M members, ``P % M`` members get one more than ``P // M``. A member keeps the partitions that it
owned up to that number, the lowest partition numbers first. The rest is dealt in turn to members that have too few. As
every member may have every partition, none needs to move twice. Java's "constrained" algorithm (Kafka 2.4 and later).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain

from pyconsumer.assignors.base import member_order
from pyconsumer.assignors.racks import Racks
from pyconsumer.structs import TopicPartition

__all__ = ["EqualSubscriptions"]


class EqualSubscriptions:
    """One run of the algorithm.

    Args:
        partitions: all partitions, by topic and number.
        owned: the partitions that each member had. The order of this dictionary is the order of assignment.
        contested: partitions that several members claim in the same generation. No member keeps them.
        racks: the racks of members and replicas.

    Attributes:
        shares: the resulting partitions of each member.
        changing_hands: the partitions in ``shares`` that another member may still be using.
    """

    def __init__(
        self,
        partitions: Sequence[TopicPartition],
        owned: Mapping[str, Sequence[TopicPartition]],
        contested: Collection[TopicPartition],
        racks: Racks,
    ) -> None:
        self.shares: dict[str, list[TopicPartition]] = {member: [] for member in owned}
        self.changing_hands: dict[TopicPartition, str] = {}
        self._contested = contested
        self._racks = racks
        self._least, self._larger_left = divmod(len(partitions), len(owned))
        self._most = self._least + (1 if self._larger_left else 0)
        self._given_up: dict[TopicPartition, str] = {}
        self._short: list[str] = []  # have fewer than the least
        self._even: list[str] = []  # have the least, and may get one more
        for member, mine in owned.items():
            self._keep(member, mine)
        self._short.sort(key=member_order)
        self._even.sort(key=member_order)
        kept = {partition for share in self.shares.values() for partition in share}
        left = [partition for partition in partitions if partition not in kept]
        if racks.aware:
            left.sort(key=racks.members_nearby)
            left = self._deal_nearby(left)
        self._deal(left)

    def _keep(self, member: str, owned: Sequence[TopicPartition]) -> None:
        mine = []
        for partition in sorted(owned, key=lambda tp: (tp.partition, tp.topic)):
            if self._racks.mismatch(member, partition):
                self._given_up[partition] = member
            elif partition not in self._contested:
                mine.append(partition)
        if len(mine) < self._least:
            self._short.append(member)
            limit = self._least
        elif self._larger_left and len(mine) >= self._most:
            self._one_larger()
            limit = self._most
        else:
            limit = self._least
            if self._larger_left:
                self._even.append(member)
        self.shares[member] += mine[:limit]
        self._given_up.update(dict.fromkeys(mine[limit:], member))

    def _one_larger(self) -> None:
        """Count a member that got the larger number. After the last of them, none may get more than the smaller."""
        self._larger_left -= 1
        if not self._larger_left:
            self._even.clear()

    def _deal_nearby(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Give partitions in turn to members in a rack of their replicas, and return those without such a member."""
        left = []
        turn = 0
        for partition in partitions:
            index = self._nearby(partition, self._short, turn)
            if index is not None:
                member = self._short[index]
                size = len(self.shares[member]) + 1
                if size >= self._least:
                    del self._short[index]
                    if size < self._most and self._larger_left:
                        self._even.append(member)
                else:
                    index += 1
                turn = index % len(self._short) if self._short else 0
            else:
                index = self._nearby(partition, self._even, 0)
                if index is None:
                    left.append(partition)
                    continue
                member = self._even.pop(index)
                self._one_larger()
            self._give(partition, member)
        return left

    def _nearby(self, partition: TopicPartition, members: Sequence[str], start: int) -> int | None:
        for index in chain(range(start, len(members)), range(start)):
            if self._racks.match(members[index], partition):
                return index
        return None

    def _deal(self, partitions: Sequence[TopicPartition]) -> None:
        """Give partitions to members in turn, to those with too few first."""
        turn = 0
        for partition in partitions:
            if not self._short:
                self._give(partition, self._even.pop(0))
                continue
            turn %= len(self._short)
            member = self._short[turn]
            self._give(partition, member)
            if len(self.shares[member]) >= self._least:
                del self._short[turn]
                self._even.append(member)
            else:
                turn += 1

    def _give(self, partition: TopicPartition, member: str) -> None:
        self.shares[member].append(partition)
        if self._given_up.get(partition, member) != member or partition in self._contested:
            self.changing_hands[partition] = member
