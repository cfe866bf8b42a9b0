"""Rules that hold whatever happens. Each rule is checked when something happens that could break it.

1. No partition has two owners among the members of the group's present generation.
2. A partition without owner has one again within session timeout + rebalance timeout + delay + 10 round trips of the
   last fault. A request that arrives late over a broken connection counts as a fault, since a commit of a dead member
   restarts its session. The delay is that of the delayed assignor, and 0 with others.
3. A commit that was acknowledged is in the log. OffsetFetch returns the last commit in the log, or the one before
while the last is not acknowledged. No commit of an earlier generation gets there. Only the writer of an offset
moves it back.
4. A listener hears of a partition in turn that it is assigned and that it is revoked or lost. Under the eager protocol
   all are revoked before any is assigned. No callback starts while another runs, or after the end.
5. While the delay of a vanished member lasts, its partitions have no owner. See :mod:`.waiting`.
6. Once a member knows that its generation is lost, it gets no record until its listener knows the lost partitions.
7. When the faults are over, the group is stable in bounded time: all members in one generation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyconsumer.consumer.coordinator.classic_group_state import ClassicMemberState
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.brokers import Broker
    from tests.simulation.member import Member
    from tests.simulation.world import World

SESSION_TIMEOUT = 10.0
REBALANCE_TIMEOUT = 15.0


class Stored(NamedTuple):
    """A commit in the log."""

    offset: int
    member_id: str
    generation: int


class Rules:
    """See the module. A broken rule is reported to the world, which ends the schedule."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._generation = -1
        self.last: dict[TopicPartition, Stored] = {}
        self._stored: dict[str, set[tuple[TopicPartition, int]]] = {}
        self._free_since: dict[TopicPartition, float] = {}
        self.commits = 0
        self.longest_free = 0.0

    @property
    def bound(self) -> float:
        """Return how long a partition may be without owner after the last fault, seconds."""
        return SESSION_TIMEOUT + REBALANCE_TIMEOUT + self._world.rebalance_delay + 10 * 2 * self._world.slowest

    # -- offsets -----------------------------------------------------------------------------------------------------

    def on_generation_stored(self, generation: int) -> None:
        """A registration of the group is in the log."""
        if generation < self._generation:
            self._world.fail(f"generation {generation} was stored after generation {self._generation}")
        self._generation = generation

    def on_commit_stored(
        self, client: str, member_id: str, generation: int, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The coordinator wrote a commit. Returns the one it replaces."""
        world = self._world
        replaced = {tp: self.last[tp].offset if tp in self.last else -1 for tp in offsets}
        if generation != self._generation:
            world.fail(
                f"a commit of {client} ({member_id}) for generation {generation} was stored, although the group is in"
                f" generation {self._generation}"
            )
        self.commits += 1
        written = self._stored.setdefault(client.partition("/")[0], set())
        for tp, offset in offsets.items():
            last = self.last.get(tp)
            if last is not None and offset < last.offset and last[1:] != (member_id, generation):
                world.fail(
                    f"{client} ({member_id}, generation {generation}) moved the offset of {tp} from {last.offset} back"
                    f" to {offset}; it was committed by {last.member_id} in generation {last.generation}"
                )
            self.last[tp] = Stored(offset, member_id, generation)
            written.add((tp, offset))
        return replaced

    def on_commit_acknowledged(self, member: Member, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """A member was informed that its commit succeeded."""
        for tp, offset in offsets.items():
            if (tp, offset.offset) not in self._stored.get(member.name, ()):
                self._world.fail(f"{member.name} was told that {offset.offset} is committed for {tp}; it is not stored")

    def on_offsets_read(self, broker: Broker, offsets: Mapping[TopicPartition, int]) -> None:
        """The coordinator answered OffsetFetch."""
        if broker is not self._world.brokers.leader:
            return  # it has not heard yet that it is not the coordinator; whoever believes it cannot commit there
        for tp, offset in offsets.items():
            last = self.last.get(tp)
            expected = -1 if last is None else last.offset
            # Until a commit is acknowledged, the one before may be told.
            if offset != expected and not any(replaced.get(tp) == offset for replaced in broker.under_way):
                self._world.fail(f"{broker.name} says that {offset} is committed for {tp}; the log says {expected}")

    def check_offsets(self) -> None:
        """In the end: the coordinator has every offset of the log."""
        group = self._world.brokers.group()
        if group is None:
            return
        for tp, last in self.last.items():
            record = group.offsets.committed.get(tp)
            if record is None or record.value.offset != last.offset:
                self._world.fail(f"the coordinator lost the commit of {last.offset} for {tp}: it has {record}")

    # -- partitions --------------------------------------------------------------------------------------------------

    def check_owners(self) -> Mapping[TopicPartition, Member]:
        """One owner for each partition in the present generation."""
        owners: dict[TopicPartition, Member] = {}
        group = self._world.brokers.group()
        if group is None:
            return owners
        for member in self._world.members:
            generation = member.core.generation
            if generation.generation_id != group.generation_id or not group.has(generation.member_id):
                continue
            for tp in member.subscriptions.assigned_list():
                if tp in owners:
                    self._world.fail(
                        f"{tp} belongs to {owners[tp].name} and to {member.name} in generation {group.generation_id}"
                    )
                owners[tp] = member
        return owners

    def check_coverage(self) -> None:
        """Partitions without owner are not so for too long."""
        world = self._world
        now = world.clock.now()
        if world.in_trouble:
            world.quiet_since = now
        covered = self.check_owners().keys()
        if not self._free_since and len(covered) == len(world.partitions):
            return
        for tp in world.partitions:
            if tp in covered or not world.members:
                self._free_since.pop(tp, None)
                continue
            free = now - max(self._free_since.setdefault(tp, now), world.quiet_since)
            self.longest_free = max(free, self.longest_free)
            if free > self.bound:
                world.fail(
                    f"{tp} has had no owner for {free:.1f} s since the last fault; {self.bound:.1f} s are allowed"
                )

    @property
    def settled(self) -> bool:
        """Everybody stable in the coordinator's generation, every partition owned once."""
        world = self._world
        group = world.brokers.group()
        if group is None or len(group.members) != len(world.members):
            return False
        owned: list[TopicPartition] = []
        for member in world.members:
            core = member.core
            if (
                core.state is not ClassicMemberState.STABLE
                or core.rejoin_pending
                or core.generation.generation_id != group.generation_id
                or not group.has(core.generation.member_id)
            ):
                return False
            owned += member.owned
        return len(owned) == len(world.partitions) and set(owned) == world.partitions

    def on_read(self, member: Member, tp: TopicPartition) -> None:
        """A member's application is handed records."""
        if not member.core.generation.joined:
            self._world.fail(f"{member.name} is handed records of {tp}, although its generation is lost")

    # -- callbacks ---------------------------------------------------------------------------------------------------

    def on_callback(self, member: Member, name: str, partitions: Sequence[TopicPartition], *, eager: bool) -> None:
        """A listener is called. ``member.told`` has the partitions of its earlier calls."""
        told, given = member.told, set(partitions)
        where = f"{member.name}: {name}({', '.join(map(str, partitions))})"
        if member.in_callback:
            self._world.fail(f"{where} while another callback runs")
        if not member.alive or member.ended:
            self._world.fail(f"{where} after its end")
        if len(given) != len(partitions):
            self._world.fail(f"{where} names a partition twice")
        if not given <= member.owned:
            self._world.fail(f"{where}, but the assignment is {sorted(member.owned)}")
        if name == "assigned":
            if given & told:
                self._world.fail(f"{where}, but {sorted(given & told)} were assigned before and never given up")
            if eager and told:
                self._world.fail(f"{where}, but {sorted(told)} were not revoked first, as the eager protocol wants")
            told |= given
            if told != member.owned:
                self._world.fail(f"{where} makes {sorted(told)}, but the assignment is {sorted(member.owned)}")
        else:
            if not given:
                self._world.fail(f"{where} is about nothing") if name == "lost" else None
            if not given <= told:
                self._world.fail(f"{where}, but it was told to own {sorted(told)}")
            if name == "revoked" and not member.core.generation.joined:
                self._world.fail(f"{where}, but the generation is lost")
            told -= given
