"""The delayed assignor under observation: partitions of a vanished member stay unassigned until its delay is over.

The assignor relies on the members' user data. The rule here relies on the events: the assignments that were made, and
the time at which a leader first missed a member.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyconsumer.assignors import Assignment, ClusterView, CooperativeStickyDelayedAssignor, Subscription
from pyconsumer.assignors.delayed_data import decode
from pyconsumer.structs import ConsumerGroupMetadata, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.world import World

_CLOCKS_DIFFER = 0.01  # seconds; delays travel as whole milliseconds


class Lost:
    """Partitions of a member that a leader misses, and the generation that heard of it."""

    def __init__(
        self, instance_id: str | None, partitions: set[TopicPartition], since: float, generation_id: int
    ) -> None:
        self.instance_id = instance_id
        self.partitions = partitions
        self.since = since
        self.generation_id = generation_id


class Waiting:
    """The rule, for one group.

    Attributes:
        delayed: how often a leader let something wait.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._had: dict[int, dict[str, tuple[str | None, set[TopicPartition]]]] = {}
        self._lost: dict[str, Lost] = {}
        self._farewells: set[str] = set()
        self._missed: dict[str, float | None] = {}  # since when leaders miss a member; None: they don't
        self.delayed = 0

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        """A member got its assignment."""
        had = self._had.setdefault(metadata.generation_id, {})
        had[metadata.member_id] = metadata.group_instance_id, set(assignment.partitions)

    def on_assign(self, subscriptions: Mapping[str, Subscription], given: Mapping[str, Assignment]) -> None:
        """A leader decided."""
        now = self._world.clock.now()
        self._look(subscriptions, now)
        dealt = {tp: member for member, assignment in given.items() for tp in assignment.partitions}
        for member, lost in self._lost.items():
            early = lost.partitions & dealt.keys()
            over = lost.since + self._world.rebalance_delay
            if early and now < over - _CLOCKS_DIFFER:
                tp = min(early)
                self._world.fail(
                    f"{dealt[tp]} is given {tp}, which waits {over - now:.3f} s more for {member} to come back"
                )
            self.delayed += bool(lost.partitions - dealt.keys())

    def _look(self, subscriptions: Mapping[str, Subscription], now: float) -> None:
        decoded = {member: decode(subscription.user_data) for member, subscription in subscriptions.items()}
        self._farewells.update(member for member, memory in decoded.items() if memory.leaves)
        memories = decoded.values()
        newest = max(memory.generation_id for memory in memories)
        group = self._world.brokers.group()
        deciding = newest + 1 if group is None else group.generation_id
        for member, since in self._missed.items():
            if since is None and member not in subscriptions:
                self._missed[member] = now
        self._missed.update(dict.fromkeys(subscriptions))
        for member, (instance_id, partitions) in self._had.get(newest, {}).items():
            # a member may hear late what it had, in a callback that takes longer than it takes others to miss it
            since = self._missed.get(member, now)
            if since is not None and partitions and member not in self._lost and member not in self._farewells:
                self._lost[member] = Lost(instance_id, set(partitions), since, deciding)
        known: dict[str, set[TopicPartition]] = {}
        for memory in memories:
            if memory.generation_id == newest:
                for share in memory.shares:
                    known.setdefault(share.member_id, set()).update(share.partitions)
        instances = {subscription.group_instance_id for subscription in subscriptions.values()} - {None}
        owned = {tp for subscription in subscriptions.values() for tp in subscription.owned_partitions}
        for member, lost in list(self._lost.items()):
            lost.partitions -= owned
            if newest < lost.generation_id:  # all who heard of it are gone, and the others know something older
                lost.partitions &= known.get(member, set())
            back = member in subscriptions or lost.instance_id in instances
            if back or member not in known or not lost.partitions:  # nobody knows: all who did are gone
                del self._lost[member]


class WatchedAssignor(CooperativeStickyDelayedAssignor):
    """One member's."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        super().on_assignment(assignment, metadata)
        self._world.waiting.on_assignment(assignment, metadata)

    def rebalance_due_in(self) -> float:
        return math.inf if self._world.broken == "no-follow-up" else super().rebalance_due_in()

    def assign(self, cluster: ClusterView, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        delay_ms = self._delay_ms
        if self._world.broken == "no-waiting":
            self._delay_ms = 0
        given = super().assign(cluster, subscriptions)
        self._delay_ms = delay_ms
        self._world.waiting.on_assign(subscriptions, given)
        return given
