"""Leader elections: the choice of a partition's leader and ISR.

1. The leader is the first assigned replica that is in sync and alive.
2. Whenever the leader changes or is lost, the leader epoch rises by one. A replica that leaves or enters the ISR
   changes no epoch.
3. A broker that dies leaves the ISR, except for the last one in it. That one has all acknowledged records, so only it
   can lead again. Until it restarts the partition is offline.
4. Only with ``unclean.leader.election.enable`` does a replica out of sync lead a partition that would be offline. It is
   then alone in the ISR, and the records that it lacks are lost.
5. The preferred leader is the first replica.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

__all__ = [
    "NO_LEADER",
    "PartitionState",
    "TopicState",
    "after_death",
    "after_return",
    "after_unclean_election",
    "moved_to",
]

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition's replicas, and those in sync, by node id. ``leader`` is -1 if there is none."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def preferred_leader(self) -> int:
        """Return the first replica, which is the preferred leader."""
        return self.replicas[0]


@dataclass(slots=True)
class TopicState:
    """A topic: its id (16 bytes), its own settings as text, and its partitions in order."""

    name: str
    topic_id: bytes
    config: dict[str, str] = field(default_factory=dict)
    partitions: list[PartitionState] = field(default_factory=list)

    def configure(self, config: Mapping[str, str]) -> dict[str, str]:
        """Replace the settings and return the previous ones."""
        before, self.config = self.config, dict(config)
        return before

    def become(self, partitions: list[PartitionState]) -> None:
        """Replace the states of all partitions."""
        self.partitions = partitions


def _elect(state: PartitionState, alive: Collection[int], unclean: bool) -> PartitionState:
    """Return the state with a leader that is alive, if there can be one (rules 1, 2, 4)."""
    for node in state.replicas:
        if node in state.isr and node in alive:
            return replace(state, leader=node, leader_epoch=state.leader_epoch + 1)
    if unclean:
        for node in state.replicas:
            if node in alive:
                return replace(state, leader=node, leader_epoch=state.leader_epoch + 1, isr=(node,))
    if state.leader == NO_LEADER:
        return state
    return replace(state, leader=NO_LEADER, leader_epoch=state.leader_epoch + 1)


def after_death(
    state: PartitionState, dead: Collection[int], alive: Collection[int], *, unclean: bool = False
) -> PartitionState:
    """Return a partition's state after some brokers have died. If it is not affected, return the same object.

    Args:
        alive: the node ids of the remaining brokers.
    """
    left = tuple(node for node in state.isr if node not in dead)
    if left != state.isr:
        # The leader stays the longest: no replica has more records.
        state = replace(state, isr=left or ((state.leader,) if state.leader in state.isr else state.isr[:1]))
    if state.leader in dead:
        return _elect(state, alive, unclean)
    return state


def after_return(
    state: PartitionState, back: Collection[int], alive: Collection[int], *, unclean: bool = False
) -> PartitionState:
    """Return a partition's state after some brokers have restarted. If it is not affected, return the same object.

    If no other broker could take over, a restarted broker may still be the leader. It then leads in a new epoch,
    because its memory of the old epoch is lost.

    Args:
        alive: the node ids of all live brokers, including the restarted ones.
    """
    if state.leader in back:
        return replace(state, leader_epoch=state.leader_epoch + 1)
    return state if state.leader in alive else _elect(state, alive, unclean)


def after_unclean_election(state: PartitionState, alive: Collection[int]) -> PartitionState:
    """Return the state of a partition after an unclean election, in which any replica may win (rule 4).

    The partition had no leader before.
    """
    return _elect(state, alive, unclean=True)


def moved_to(state: PartitionState, node: int) -> PartitionState:
    """Return a partition's state with another leader. The leader must be in sync and alive."""
    return replace(state, leader=node, leader_epoch=state.leader_epoch + 1)
