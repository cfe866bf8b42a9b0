"""A share partition with its log, its members, its share coordinator, and everything that may happen to them.

Real are :class:`SharePartition`, :class:`ShareCoordinator` and :class:`Persister`. The log is a list of batches, the
internal topic is in memory, and time is a clock that the world moves. Faults: appends that take long, fail, or fail
although they are in the log, coordinators and leaders that move, members that go away, locks that end, compaction,
aborted transactions, and a log start that moves.

Rules, checked at each delivery and at the end
----------------------------------------------
1. A record that was accepted or rejected, and confirmed, is never delivered again.
2. As long as a lock has not ended, no other member gets its record from the same leader.
3. The delivery count of a record rises by one with each delivery of a leader, and never exceeds the limit. That of the
   next leader is at most one more than the true number of deliveries.
4. No record of an aborted transaction, and none before the log start, is delivered.
5. At the end the share partition reaches the end of the log. Each record was confirmed as final, or may be final by an
   acknowledgement without an answer, or was archived for a reason: aborted, removed from the log, or the limit.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pyconsumer.broker.controller import SHARE_STATE_TOPIC
from pyconsumer.broker.group.common.storage import StoreResult
from pyconsumer.broker.share.config import ShareConfig
from pyconsumer.broker.share.coordinator import ShareCoordinator
from pyconsumer.broker.share.persister import Persister
from pyconsumer.broker.share.share_partition import Acknowledgement, Outcome, SharePartition
from pyconsumer.broker.timer import Timer
from pyconsumer.clock import ManualClock
from pyconsumer.errors import Errors
from pyconsumer.protocol.records import BatchInfo
from pyconsumer.protocol.share_state_topic import ShareStateKey
from pyconsumer.structs import AcknowledgeType
from tests.unit.broker.group.support import MemoryStorage

__all__ = ["LIMIT", "BrokenRule", "World", "play"]

LIMIT = 4
_LOCK_S = 10.0
_TOPIC_ID = b"T" * 16
_KEY = ShareStateKey("g", _TOPIC_ID, 0)
_STEPS = 90
_FINAL = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)


class BrokenRule(AssertionError):
    """A rule of the module was broken. The text has the trace."""


class _Rules:
    def lock_ms(self, group_id: str) -> int:
        return int(_LOCK_S * 1000)

    def delivery_limit(self, group_id: str) -> int:
        return LIMIT

    def max_locks(self, group_id: str) -> int:
        return 60

    def may_renew(self, group_id: str) -> bool:
        return True


class _Storage(MemoryStorage):
    """The internal topic. Appends that are held may fail later, although they are in the log."""

    def end(self, choose: Callable[[], int]) -> None:
        """End all held appends with an error code each."""
        held, self.held = self.held, []
        for result, outcome in held:
            code = choose()
            result.set(StoreResult(code) if code and not outcome.error_code else outcome)

    def drop_before(self, partition: int, offset: int) -> None:
        """Remove whole batches before an offset."""
        kept = self.batches[partition]
        while len(kept) > 1 and int.from_bytes(kept[1][:8], "big") <= offset:
            kept.pop(0)


class World:
    """One schedule. See the module."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = ManualClock(1000.0)
        self.timer = Timer()
        self.storage = _Storage(self.clock, partitions=1)
        self.trace: list[str] = []
        self.batches: list[BatchInfo] = []
        self.aborted: list[tuple[int, int]] = []
        self.log_start = 0
        self.log_end = 0
        self.removed: set[int] = set()
        self.leader_epoch = 0
        self.coordinator_epoch = 0
        self.held: dict[str, set[int]] = defaultdict(set)
        self.locks: dict[int, tuple[str, float]] = {}
        self.counts: dict[int, int] = {}
        self.deliveries: dict[int, int] = defaultdict(int)
        self.limited: set[int] = set()
        self.finals: set[int] = set()
        self.maybe_final: set[int] = set()
        self.in_transition: set[int] = set()
        topic = SimpleNamespace(partitions=[SimpleNamespace(leader=1)])
        self._broker: Any = SimpleNamespace(
            clock=self.clock, timer=self.timer, controller=SimpleNamespace(topics={SHARE_STATE_TOPIC: topic})
        )
        self._broker.share_coordinator = self._new_coordinator()
        self.persister = Persister(self._broker, {1: self._broker})
        self._settle()
        begun = self.persister.initialize(_KEY, 1, -1)
        self._settle()
        assert begun.value.error_code == 0
        self.share = self._new_leader()

    # --- the parts

    def _new_coordinator(self) -> ShareCoordinator:
        topics: Any = SimpleNamespace(
            topic_name=lambda topic_id: "t", partition_count=lambda topic: 1, remove_before=self.storage.drop_before
        )
        config = ShareConfig(share_coordinator_snapshot_update_records_per_snapshot=7)
        coordinator = ShareCoordinator(config, self.storage, self.timer, self.clock, topics)
        self.coordinator_epoch += 1
        coordinator.on_become_leader(0, self.coordinator_epoch)
        return coordinator

    def _new_leader(self) -> SharePartition:
        self.leader_epoch += 1
        self.locks.clear()
        self.counts.clear()
        self.in_transition.clear()
        return SharePartition(
            _KEY, self.leader_epoch, self.persister, _Rules(), self.timer, self.clock, lambda: self.log_start
        )

    def _settle(self) -> None:
        self.timer.run_due(self.clock.now())

    def advance(self, seconds: float) -> None:
        """Move the clock, and run the timers that are due on the way."""
        until = self.clock.now() + seconds
        while True:
            due = self.timer.next_deadline()
            if due is None or due > until:
                break
            self.clock.advance(max(0.0, due - self.clock.now()))
            self.timer.run_due(self.clock.now())
        self.clock.advance(until - self.clock.now())

    def note(self, text: str) -> None:
        self.trace.append(f"{self.clock.now() - 1000:7.2f} {text}")

    def broken(self, text: str) -> None:
        raise BrokenRule("\n".join([*self.trace, text, repr(self.share), *map(repr, self.share.runs)]))

    # --- the actions

    def produce(self) -> None:
        count = self.random.randint(1, 12)
        first = self.log_end
        aborted = self.random.random() < 0.15
        self.batches.append(_batch(first, first + count - 1))
        self.log_end += count
        if aborted:
            self.aborted.append((first, first + count - 1))
        self.note(f"produced {first} to {first + count - 1}{' aborted' if aborted else ''}")

    def compact(self) -> None:
        if len(self.batches) > 2:
            gone = self.batches.pop(self.random.randrange(len(self.batches) - 1))
            self.removed.update(range(gone.base_offset, gone.last_offset + 1))
            self.note(f"compaction has removed {gone.base_offset} to {gone.last_offset}")

    def move_log_start(self) -> None:
        self.log_start = min(self.log_end, self.log_start + self.random.randint(0, 8))
        self.removed.update(range(self.log_start))
        self.note(f"the log starts at {self.log_start}")

    def fetch(self, member: str, most: int | None = None) -> list[int]:
        """Let a member fetch. Return the offsets that it got."""
        share = self.share
        if share.is_over:
            share = self.share = self._new_leader()
        share.load()
        if not share.is_active:
            return []
        share.on_log_start(self.log_start)
        begin = share.next_offset()
        if begin is None:
            return []
        found = [one for one in self.batches if one.last_offset >= begin][: self.random.randint(1, 4)]
        if not found:
            return []
        share.skip_missing(begin, found)
        acquired = share.acquire(
            member,
            found,
            begin,
            max_records=most or self.random.choice((1, 3, 10, 500)),
            batch_size=self.random.choice((1, 5, 500)),
            exact=self.random.random() < 0.4,
            aborted=[one for one in self.aborted if one[1] >= begin],
        )
        self.note(f"{member} got {[tuple(one) for one in acquired]}")
        offsets = []
        for first, last, count in acquired:
            for offset in range(first, last + 1):
                self._delivered(member, offset, count)
                offsets.append(offset)
        return offsets

    def _delivered(self, member: str, offset: int, count: int) -> None:
        if offset in self.finals:
            self.broken(f"rule 1: {offset} was confirmed and is delivered again")
        holder, until = self.locks.get(offset, ("", 0.0))
        if holder and until > self.clock.now():
            self.broken(f"rule 2: {offset} is delivered to {member} while {holder} holds it until {until - 1000:.2f}")
        if offset in self.in_transition:
            self.broken(f"rule 2: {offset} is delivered while an acknowledgement of it is being written")
        before = self.counts.get(offset)
        if count > LIMIT or (before is not None and count != before + 1) or count > self.deliveries[offset] + 1:
            self.broken(f"rule 3: {offset} has count {count} after {before} and {self.deliveries[offset]} deliveries")
        if offset < self.log_start or any(first <= offset <= last for first, last in self.aborted):
            self.broken(f"rule 4: {offset} is delivered")
        self.counts[offset] = count
        self.deliveries[offset] += 1
        if count == LIMIT:
            self.limited.add(offset)
        self.locks[offset] = (member, self.clock.now() + _LOCK_S)
        self.held[member].add(offset)

    def acknowledge(self, member: str, kind: AcknowledgeType | None = None, part: bool = True) -> None:
        """Let a member acknowledge some records that it believes to hold."""
        mine = sorted(self.held[member])
        if not mine:
            return
        if part:
            mine = mine[self.random.randrange(len(mine)) :][: self.random.randint(1, 6)]
        chosen = {
            offset: kind or self.random.choice((*AcknowledgeType, AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE))
            for offset in mine
        }
        share, epoch = self.share, self.leader_epoch
        valid = [offset for offset in chosen if self.locks.get(offset, ("", 0.0))[0] == member]
        result = share.acknowledge(member, [Acknowledgement(one, one, [int(chosen[one])]) for one in mine])
        moved = {one for one in chosen if chosen[one] is not AcknowledgeType.RENEW}
        self.held[member] -= moved
        if not result.done:
            self.in_transition |= moved
        if not result.done or result.value.error_code == Errors.NONE:  # locks are renewed before the others are stored
            self.locks |= {one: (member, self.clock.now() + _LOCK_S) for one in chosen.keys() - moved}
        self.note(f"{member} acknowledges { ({one: chosen[one].name for one in mine}) }")

        def on_result(outcome: Outcome) -> None:
            self.note(f"the answer to {member} about {mine}: {outcome.error_code}")
            self.in_transition -= moved
            for offset in mine:
                if outcome.error_code == Errors.NONE:
                    if offset < self.log_start:
                        continue
                    if chosen[offset] in _FINAL:
                        self.finals.add(offset)
                    if epoch == self.leader_epoch and offset in moved:
                        self.locks.pop(offset, None)
                elif chosen[offset] in _FINAL and offset in valid:
                    self.maybe_final.add(offset)

        if result.done and result.value.error_code == Errors.NONE:
            on_result(result.value)
        else:
            result.on_done(on_result)

    def leave(self, member: str) -> None:
        """End the session of a member, which releases its records."""
        self.note(f"{member} goes away")
        for offset, (holder, _) in list(self.locks.items()):
            if holder == member:
                del self.locks[offset]
        self.held[member].clear()
        self.share.release(member)

    def move_leader(self) -> None:
        self.note("the leader moves")
        self.share.fence()
        for held in self.held.values():
            held.clear()
        self.share = self._new_leader()

    def move_coordinator(self) -> None:
        self.note("the share coordinator moves")
        self._broker.share_coordinator.shutdown()
        held, self.storage.held = self.storage.held, []
        self._broker.share_coordinator = self._new_coordinator()
        for result, _ in held:
            result.set(StoreResult(Errors.NOT_LEADER_OR_FOLLOWER))

    def change_storage(self) -> None:
        choice = self.random.random()
        self.storage.fail_with = Errors.NOT_ENOUGH_REPLICAS if choice < 0.15 else 0
        self.storage.hold = 0.15 <= choice < 0.6
        self.note(f"the internal topic: hold {self.storage.hold}, fail {self.storage.fail_with}")
        if not self.storage.hold:
            self.end_appends()

    def end_appends(self) -> None:
        self.storage.end(lambda: Errors.REQUEST_TIMED_OUT if self.random.random() < 0.15 else 0)

    def prune(self) -> None:
        if not self.storage.held:
            self._broker.share_coordinator.prune()

    # --- a schedule

    def play(self) -> None:
        """Play the schedule, then let everything end well, and check rule 5."""
        members = ("a", "b", "c")
        actions: list[tuple[int, Callable[[], object]]] = [
            (18, self.produce),
            (30, lambda: self.fetch(self.random.choice(members))),
            (26, lambda: self.acknowledge(self.random.choice(members))),
            (4, lambda: self.leave(self.random.choice(members))),
            (3, self.move_leader),
            (3, self.move_coordinator),
            (5, self.change_storage),
            (5, self.end_appends),
            (2, self.compact),
            (1, self.move_log_start),
            (2, self.prune),
            (12, lambda: self.advance(self.random.choice((0.01, 0.5, 3.0, 11.0)))),
        ]
        weights = [weight for weight, _ in actions]
        for _ in range(_STEPS):
            self.random.choices([action for _, action in actions], weights)[0]()
            self._settle()
        self._drain()

    def _drain(self) -> None:
        self.note("from now on there are no faults")
        self.storage.hold, self.storage.fail_with = False, 0
        self.storage.end(lambda: 0)
        idle = 0
        for _ in range(2000):
            self.advance(0.5)
            got = self.fetch("z")
            self._settle()
            if got:
                self.acknowledge("z", AcknowledgeType.ACCEPT, part=False)
            idle = 0 if got else idle + 1
            if idle > 60:
                break
        self.check_end()

    def check_end(self) -> None:
        done = self.finals | self.maybe_final | self.removed | self.limited
        done |= {offset for first, last in self.aborted for offset in range(first, last + 1)}
        lost = [offset for offset in range(self.log_end) if offset not in done]
        if lost:
            self.broken(f"rule 5: {lost} were neither delivered nor archived for a reason")
        present = [one.last_offset for one in self.batches if one.last_offset >= self.log_start]
        if present and self.share.start_offset < max(present) + 1:
            self.broken(
                f"rule 5: the share partition stops at {self.share.start_offset}, the log ends at {self.log_end}"
            )


def _batch(first: int, last: int) -> BatchInfo:
    count = last - first + 1
    return BatchInfo(0, 100, 2, first, last, 0, 0, 0, count - 1, 0, 0, -1, -1, -1, count)


def play(seed: int) -> World:
    """Play a schedule. Raises ``BrokenRule``."""
    world = World(seed)
    world.play()
    return world
