"""A group without random faults: a test chooses the events and their times. The rest is as in a schedule.

Members poll, stall, vanish, leave and come. The coordinator's broker restarts from its log. Whenever an
assignment changes, partitions with two owners in one generation are looked for. Every callback is checked, as in a
schedule.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any

from pyconsumer.assignors import Assignor, RebalanceProtocol, common_protocol
from pyconsumer.consumer.coordinator.classic_group_state import ClassicMemberState
from pyconsumer.structs import TopicPartition
from tests.simulation.brokers import TOPIC
from tests.simulation.member import Member
from tests.simulation.world import World


class ScriptedMember(Member):
    """A member that is driven by the test.

    Attributes:
        lost: the partitions of each call of ``on_partitions_lost``.
    """

    def __init__(self, world: Script, name: str, instance_id: str | None, settings: dict[str, Any]) -> None:
        self.lost: list[frozenset[TopicPartition]] = []
        super().__init__(world, name, instance_id, "auto", settings=settings)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        self.lost.append(frozenset(lost))
        super().on_partitions_lost(lost)

    def stall(self, seconds: float) -> None:
        """Its application does not poll for this time, in seconds. Its heartbeats continue."""
        self.stalled_until = self.world.clock.now() + seconds


class Script(World):
    """The world of one group.

    Args:
        seed: of delays and pauses, which are random.
        assignor: makes each member's assignor.
        partitions: of the one topic.
        longest_work: the most seconds that a member works between two polls.
    """

    members: list[ScriptedMember]  # type: ignore[assignment]

    def __init__(
        self, seed: int, assignor: Callable[[], Assignor], *, partitions: int = 12, longest_work: float = 0.4
    ) -> None:
        eager = common_protocol([assignor()]) is RebalanceProtocol.EAGER
        super().__init__("eager" if eager else "cooperative", seed)
        random.seed(seed)  # the jitter of the members' backoffs
        self._assignor = assignor
        self.slowest, self.longest_work = 0.05, longest_work
        self._have(partitions)

    @property
    def rebalances(self) -> int:
        """Return how often a member has completed a rebalance."""
        return self.callbacks["assigned"]

    def add(self, instance_id: str | None = None, **settings: Any) -> ScriptedMember:
        """Let a member begin. ``settings`` in place of the usual ones, under the names of the consumer's settings."""
        self._names += 1
        member = ScriptedMember(self, f"c{self._names}", instance_id, settings)
        self.members.append(member)
        member.start()
        return member

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.run(self.clock.now() + seconds)

    def grow(self, partitions: int) -> None:
        """The topic has that many partitions from now on, and everybody hears of it."""
        self._have(partitions)
        for member in self.members:
            member.hear_metadata()

    def _have(self, partitions: int) -> None:
        self.partitions = {TopicPartition(TOPIC, number) for number in range(partitions)}

    def restart_coordinator(self) -> None:
        """The coordinator's broker ends and reads its log again. All connections break."""
        self.brokers.restart(self.brokers.leader, 0.1, move=False)

    def assert_settled(self) -> None:
        """All members are stable in one generation, and every partition belongs to exactly one of them."""
        states = {member.name: (member.core.state, member.core.generation) for member in self.members}
        assert {member.core.state for member in self.members} == {ClassicMemberState.STABLE}, states
        assert len({member.core.generation.generation_id for member in self.members}) == 1, states
        owned = [tp for member in self.members for tp in member.owned]
        assert sorted(owned) == sorted(self.partitions), states
        assert self.rules.settled
