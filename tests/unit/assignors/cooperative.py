"""A small cooperative assignor, for tests of the protocol without the real one."""

from __future__ import annotations

from collections.abc import Mapping

from pyconsumer.assignors import PartitionAssignor, RebalanceProtocol, Subscription
from pyconsumer.structs import TopicPartition


class Sticky(PartitionAssignor):
    """A cooperative assignor for tests: members keep their partitions up to a fair share. The rest goes round.

    A revoked partition is withheld for one round (KIP-429).
    """

    @property
    def name(self) -> str:
        return "test-cooperative"

    def supported_protocols(self) -> tuple[RebalanceProtocol, ...]:
        return (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def assign_partitions(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> dict[str, list[TopicPartition]]:
        everything = [TopicPartition(t, p) for t, count in partitions_per_topic.items() for p in range(count)]
        members = sorted(subscriptions)
        whole, rest = divmod(len(everything), len(members))
        owned = {tp for s in subscriptions.values() for tp in s.owned_partitions}
        shares: dict[str, list[TopicPartition]] = {}
        by_most = sorted(members, key=lambda m: -len(subscriptions[m].owned_partitions))
        limit = {m: whole + (1 if i < rest else 0) for i, m in enumerate(by_most)}
        for member in members:
            mine = [tp for tp in subscriptions[member].owned_partitions if tp in everything]
            shares[member] = mine[: limit[member]]
        free = [tp for tp in everything if tp not in owned]
        for member in members:
            while free and len(shares[member]) < limit[member]:
                shares[member].append(free.pop(0))
        return shares
