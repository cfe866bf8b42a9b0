"""The rules for groups with members of the consumer protocol (KIP-848), alone or beside classic ones.

Differences from :mod:`.rules`

1. No partition has two owners among the members that the coordinator knows, whatever their epochs.
2. A commit may name an epoch before the present one, as long as the member has had the partition since (KIP-1251).
   Only the same member moves an offset back, with one exception, which Apache Kafka has, too. The coordinator takes a
   commit of the member's present epoch for any partition (Java's ConsumerGroup.validateOffsetCommit). So a commit that
   the network held may arrive after its member gave up the partition, while the member still waits for its next epoch.
7. When the faults are over, every member is stable in the epoch that the coordinator knows, which is the group's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyconsumer.broker.group.consumer.group import ConsumerGroup, ConsumerGroupState
from pyconsumer.structs import TopicPartition
from tests.simulation.rules import Rules, Stored

if TYPE_CHECKING:
    from tests.simulation.member import Member
    from tests.simulation.world import World

__all__ = ["ConsumerRules"]


class ConsumerRules(Rules):
    """See the module."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        #: The member ids and epochs in which a member has had a partition.
        self._owners: dict[TopicPartition, set[tuple[str, int]]] = {}

    def on_generation_stored(self, generation: int) -> None:
        """A classic registration is in the log: in a group that changes its protocol it may begin again."""

    def on_commit_stored(
        self, client: str, member_id: str, generation: int, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The coordinator wrote a commit. Returns the one it replaces."""
        replaced = {tp: self.last[tp].offset if tp in self.last else -1 for tp in offsets}
        self.commits += 1
        written = self._stored.setdefault(client.partition("/")[0], set())
        for tp, offset in offsets.items():
            last = self.last.get(tp)
            moved_back = last is not None and offset < last.offset and last.member_id != member_id
            if last is not None and moved_back and not self._is_late(tp, member_id, generation):
                self._world.fail(
                    f"{client} ({member_id}, epoch {generation}) moved the offset of {tp} from {last.offset} back"
                    f" to {offset}; it was committed by {last.member_id} in epoch {last.generation}"
                )
            self.last[tp] = Stored(offset, member_id, generation)
            written.add((tp, offset))
        return replaced

    def _is_late(self, tp: TopicPartition, member_id: str, epoch: int) -> bool:
        """Return whether a member that had the partition in its present epoch no longer has it."""
        group = self._world.brokers.group()
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if member is None or member.member_epoch != epoch or (member_id, epoch) not in self._owners.get(tp, ()):
            return False
        return not any(
            tp in other.subscriptions.assigned_list()
            for other in self._world.members
            if other.core.generation.member_id == member_id
        )

    def check_owners(self) -> Mapping[TopicPartition, Member]:
        """One owner for each partition among the members of the group."""
        group = self._world.brokers.group()
        if not isinstance(group, ConsumerGroup):
            return super().check_owners()
        owners: dict[TopicPartition, Member] = {}
        for member in self._world.members:
            generation = member.core.generation
            if not generation.joined or generation.member_id not in group.members:
                continue
            for tp in member.subscriptions.assigned_list():
                if tp in owners:
                    self._world.fail(f"{tp} belongs to {owners[tp].name} and to {member.name} in {group!r}")
                owners[tp] = member
                self._owners.setdefault(tp, set()).add((generation.member_id, generation.generation_id))
        return owners

    @property
    def settled(self) -> bool:
        """Everybody stable in the group's epoch, every partition owned once."""
        world = self._world
        group = world.brokers.group()
        if not isinstance(group, ConsumerGroup):
            return super().settled
        if len(group.members) != len(world.members) or group.state is not ConsumerGroupState.STABLE:
            return False
        owned: list[TopicPartition] = []
        for member in world.members:
            core = member.core
            if core.state.name != "STABLE" or core.rejoin_pending:  # type: ignore[attr-defined]
                return False
            if core.generation.generation_id != group.group_epoch or core.generation.member_id not in group.members:
                return False
            owned += member.owned
        return len(owned) == len(world.partitions) and set(owned) == world.partitions
