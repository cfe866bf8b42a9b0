"""Members whose group is driven between their reads, as by ``pyconsumer.compat.aiokafka``, in the same world of faults.

The rules of :mod:`.rules` hold, and these

1. A record is done when its member reads again. No commit covers a record that is not done.
2. A read begins behind records that are done, without a gap: no record is missing. An owner's read does not begin
   before the commit of another member.
3. A member that works on its records takes part in rebalances at once, unless its loop is blocked.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from pyconsumer.consumer.partition_state import FetchPosition
from pyconsumer.errors import FencedInstanceIdError, InconsistentGroupProtocolError, KafkaError
from pyconsumer.network.futures import Steps, Wait
from pyconsumer.structs import TopicPartition
from tests.simulation.member import Busy, Member
from tests.simulation.rules import Stored
from tests.simulation.world import World

__all__ = ["ApartWorld", "play_apart"]

_LONGEST_WORK = 6.0  # seconds; a heartbeat tells of a rebalance within 3


class DoneRecords:
    """The records that are done, by partition: ranges of offsets that do not touch one another."""

    def __init__(self) -> None:
        self._ranges: dict[TopicPartition, list[tuple[int, int]]] = {}

    def add(self, tp: TopicPartition, begin: int, end: int) -> None:
        """Add the records from ``begin`` up to and without ``end``."""
        kept = []
        for first, last in self._ranges.get(tp, []):
            if last < begin or end < first:
                kept.append((first, last))
            else:
                begin, end = min(first, begin), max(last, end)
        self._ranges[tp] = [*kept, (begin, end)]

    def covers(self, tp: TopicPartition, offset: int) -> bool:
        """Return whether all records before this offset are done."""
        return offset == 0 or any(first == 0 and offset <= last for first, last in self._ranges.get(tp, []))


class ApartMember(Member):
    """A member that reads, works and reads again. In between its group is served."""

    world: ApartWorld
    _hand: tuple[TopicPartition, int, int] | None = None

    def _application(self) -> Generator[Wait | Busy, None, None]:
        world, coordinator, random = self.world, self.coordinator, self.world.random
        clock = world.clock
        coordinator.live_between_polls()
        self._ends: dict[TopicPartition, tuple[int, int]] = {}  # of our reads, and the assignment then
        try:
            while not self.closing:
                self._finish()
                coordinator.note_poll(clock.now())
                yield from self._serve(clock.now())
                if not self.subscriptions.has_all_fetch_positions:
                    yield from self._find_positions()
                    continue
                self._read()
                yield from self._serve(clock.now() + random.uniform(0.01, world.longest_work))
                if self.stalled_until > clock.now():
                    yield Busy(self.stalled_until)
                if self._commits != "auto" and clock.now() >= self._commit_at:
                    self._commit_at = clock.now() + 2.5
                    self._finish()
                    yield from self._commit()
        except FencedInstanceIdError:
            world.note(self.name, "is fenced: somebody has its instance id")
            self.closing = True
        except InconsistentGroupProtocolError as error:
            if not world.mixed:
                world.fail(f"{self.name} was told of {error!r}")
            self.closing = True
        except KafkaError as error:
            world.fail(f"{self.name} was told of {error!r}")
        self._finish()
        world.note(self.name, "closes")
        yield from coordinator.close(clock.now() + (self.patience or 3.0), self.leave_group)

    def _serve(self, until: float) -> Steps[None]:
        """Serve the group until then, as the task of the loop does."""
        came = False
        while True:
            now = self.world.clock.now()
            due = self.coordinator.due_between_polls(now, something_came=came)
            if due <= now:
                yield from self.coordinator.advance()
                came = False
            elif now >= until:
                return
            else:
                yield Wait(None, min(due, until))
                came = True

    def _finish(self) -> None:
        """The records in hand are done."""
        if self._hand is not None:
            self.world.done.add(*self._hand)
        self._hand = None
        self.subscriptions.in_hand = {}

    def _read(self) -> None:
        partitions = self.subscriptions.assigned_list()
        if not partitions:
            return
        world = self.world
        tp = world.random.choice(partitions)
        state = self.subscriptions.state(tp)
        position = state.fetch_position
        if position is None or not state.is_fetchable:
            return
        begin = position.offset
        world.rules.on_read(self, tp)
        if not world.done.covers(tp, begin):
            world.fail(f"{self.name} reads {tp} from {begin}, and records before that are not done")
        end, assignment = self._ends.get(tp, (0, 0))
        committed = world.rules.last.get(tp)
        if committed is not None and begin < committed.offset and self._is_owner(tp) and not self._wrote(committed):
            world.fail(f"{self.name} reads {tp} from {begin}, and {committed.offset} is committed by {committed[1:]}")
        if (
            end == begin
            and assignment != self.subscriptions.assignment_id
            and (committed is None or committed.offset < begin)
        ):
            world.kept += 1
        end = begin + world.random.randint(1, 9)
        self._hand = tp, begin, end
        self.subscriptions.in_hand = {state: begin}
        self.subscriptions.seek(tp, FetchPosition(end))
        self._ends[tp] = end, self.subscriptions.assignment_id

    def _is_owner(self, tp: TopicPartition) -> bool:
        return self.world.rules.check_owners().get(tp) is self

    def _wrote(self, commit: Stored) -> bool:
        return commit.member_id == self.core.generation.member_id

    def _commit(self) -> Steps[None]:
        offsets = self.subscriptions.all_finished()
        if self._commits == "async":
            self.coordinator.commit_async(offsets)
            return
        try:
            yield from self.coordinator.commit(offsets, self.world.clock.now() + 3.0)
        except KafkaError as error:
            self.world.note(self.name, f"could not commit: {type(error).__name__}")


class ApartWorld(World):
    """A world of such members.

    Attributes:
        done: the records that are done.
        kept: reads after a rebalance that went on at the member's position, with less committed.
    """

    member_type = ApartMember

    def __init__(self, protocol: str, seed: int) -> None:
        super().__init__(protocol, seed)
        self.longest_work = _LONGEST_WORK
        self.done = DoneRecords()
        self.kept = 0
        stored = self.rules.on_commit_stored

        def on_commit_stored(
            client: str, member_id: str, generation: int, offsets: Mapping[TopicPartition, int]
        ) -> dict[TopicPartition, int]:
            for tp, offset in offsets.items():
                if not self.done.covers(tp, offset):
                    self.fail(f"{client} committed {offset} for {tp}, and records before that are not done")
            return stored(client, member_id, generation, offsets)

        self.rules.on_commit_stored = on_commit_stored  # type: ignore[method-assign]


def play_apart(protocol: str, seed: int) -> ApartWorld:
    """Run one schedule and return it for its figures.

    Raises:
        BrokenRule: see :meth:`World.play`.
    """
    world = ApartWorld(protocol, seed)
    world.play()
    return world
