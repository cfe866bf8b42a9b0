"""A share partition: the records of a partition as one share group gets them. A core without sockets (KIP-932).

It lives in the leader of the partition, for one leader epoch. It owns the runs (:mod:`.runs`), the *start offset*, the
first that is not done with, and the *end offset*, the next that was never delivered. Nothing is kept about a record
before the first or after the second.

States
------
1. *EMPTY* -> *LOADING*: the state is read at the share coordinator. Offsets between stored batches were not delivered
   as far as the log knows, so they are free. If the group has no offset, ``share.auto.offset.reset`` chooses one.
2. *ACTIVE*: records are acquired, acknowledged, and released when a lock ends.
3. *FAILED*: the state could not be read. The next fetch makes another share partition.
4. *FENCED*: the leader has changed, the group's state was initialized again, or the group is gone. Each request gets
   NOT_LEADER_OR_FOLLOWER. No lock is timed any more.

Rules
-----
1. One holder for each record: only free runs are acquired, and only their holder acknowledges them.
2. An acknowledgement is written before it is confirmed. All of a request or nothing takes effect.
3. A record whose delivery count has reached the limit is archived instead of released.
4. At most ``share.partition.max.record.locks`` offsets lie between start and end. Then only released ones are acquired.
5. From half of the allowed deliveries on, fewer records are delivered at a time, and for the last time only one. A
   record that kills its reader so takes fewer others with it.
6. A change in memory may be ahead of the log only towards another delivery: what is stored as final is final.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from pyconsumer.background_log import Log
from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.share.coordinator import StateResult
from pyconsumer.broker.share.runs import FINAL_STATES, Run, Runs
from pyconsumer.broker.share.state import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    NO_OFFSET,
    Batch,
    StateChange,
)
from pyconsumer.broker.timer import Timer, TimerHandle
from pyconsumer.clock import Clock
from pyconsumer.errors import BrokerResponseError, Errors, error_name
from pyconsumer.protocol.primitives import uuid_to_str
from pyconsumer.protocol.records import BatchInfo
from pyconsumer.protocol.share_state_topic import ShareStateKey
from pyconsumer.structs import AcknowledgeType

__all__ = ["Acknowledgement", "Acquired", "Outcome", "PartitionStatus", "SharePartition", "ShareRules", "StateStore"]

_log = Log(__name__)

#: The type in an acknowledgement for an offset without a record.
_GAP: Final = 0
_TARGETS: Final = {
    _GAP: ARCHIVED,
    int(AcknowledgeType.ACCEPT): ACKNOWLEDGED,
    int(AcknowledgeType.RELEASE): AVAILABLE,
    int(AcknowledgeType.REJECT): ARCHIVED,
}
_RENEW: Final = int(AcknowledgeType.RENEW)
#: The pause before records are archived once more, if that could not be written.
_RETRY_S: Final = 1.0
_FENCED: Final = frozenset({Errors.FENCED_LEADER_EPOCH, Errors.FENCED_STATE_EPOCH})
_NO_COORDINATOR: Final = frozenset(
    {Errors.NOT_COORDINATOR, Errors.COORDINATOR_NOT_AVAILABLE, Errors.COORDINATOR_LOAD_IN_PROGRESS}
)
_PASSED_ON: Final = frozenset({Errors.GROUP_ID_NOT_FOUND, Errors.UNKNOWN_TOPIC_OR_PARTITION})


class PartitionStatus(Enum):
    """The state of a share partition. See the module."""

    EMPTY = auto()
    LOADING = auto()
    ACTIVE = auto()
    FAILED = auto()
    FENCED = auto()


class Acquired(NamedTuple):
    """Records that were delivered. Both offsets belong to them."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """Acknowledgements of a range of offsets: one type for all of them, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


class Outcome(NamedTuple):
    """The result of a change: an error code and its text."""

    error_code: int = 0
    error_message: str | None = None


class StateStore(Protocol):
    """The place in which the state of share partitions is kept."""

    def read(self, key: ShareStateKey, leader_epoch: int) -> Deferred[StateResult]:
        """Read the state of a share partition, as its leader in this epoch."""

    def write(self, key: ShareStateKey, change: StateChange) -> Deferred[StateResult]:
        """Write a change of the state."""


class ShareRules(Protocol):
    """The settings of a group. They may change at any time."""

    def lock_ms(self, group_id: str) -> int:
        """Return for how long a record is locked."""

    def delivery_limit(self, group_id: str) -> int:
        """Return how often a record is delivered at most."""

    def max_locks(self, group_id: str) -> int:
        """Return how many records may be between start and end."""

    def may_renew(self, group_id: str) -> bool:
        """Return whether members may renew locks."""


class SharePartition:
    """A share partition. See the module.

    Args:
        leader_epoch: of the partition's leader, which is this broker.
        choose_start: returns the first offset of a group without one. It may raise ``BrokerResponseError``, or
            ``OSError`` if the log cannot be read.
    """

    def __init__(
        self,
        key: ShareStateKey,
        leader_epoch: int,
        store: StateStore,
        rules: ShareRules,
        timer: Timer,
        clock: Clock,
        choose_start: Callable[[], int],
    ) -> None:
        self.key = key
        self.leader_epoch = leader_epoch
        self.status = PartitionStatus.EMPTY
        self.start_offset = 0
        self.end_offset = 0
        self.state_epoch = 0
        self.runs = Runs()
        self.loaded: Deferred[Outcome] = Deferred()
        self._store = store
        self._rules = rules
        self._timer = timer
        self._clock = clock
        self._choose_start = choose_start
        self._lock_timer: TimerHandle | None = None
        self._armed_for = 0.0
        self._watchers: dict[Callable[[], None], None] = {}

    def __repr__(self) -> str:
        group, topic, partition = self.key
        where = f"{group}:{uuid_to_str(topic)}:{partition}"
        return f"<SharePartition {where} {self.status.name} {self.start_offset}-{self.end_offset}>"

    # --- the beginning and the end

    def load(self) -> Deferred[Outcome]:
        """Read the state, if that has not begun. The result is an error, or ACTIVE has begun."""
        if self.status is PartitionStatus.EMPTY:
            self.status = PartitionStatus.LOADING
            self._store.read(self.key, self.leader_epoch).on_done(self._on_read)
        return self.loaded

    def _on_read(self, result: StateResult) -> None:
        if self.status is not PartitionStatus.LOADING:
            return
        outcome = _outcome(result)
        if outcome.error_code == Errors.NONE:
            try:
                self._begin(result)
            except BrokerResponseError as error:
                outcome = Outcome(error.errno, str(error))
            except OSError as error:
                _log.error("%s: its start offset could not be read from the log: %s", self, error)
                outcome = Outcome(Errors.KAFKA_STORAGE_ERROR, "the broker cannot read the partition")
            except Exception:
                _log.exception("%s: its state could not be begun", self)
                outcome = Outcome(Errors.UNKNOWN_SERVER_ERROR)
        self.status = PartitionStatus.ACTIVE if outcome.error_code == Errors.NONE else PartitionStatus.FAILED
        self.loaded.set(outcome)
        self._notify()

    def _begin(self, result: StateResult) -> None:
        state = result.state
        assert state is not None
        start = self._choose_start() if state.start_offset == NO_OFFSET else state.start_offset
        runs: list[Run] = []
        end = start
        for first, last, delivery_state, count in state.batches:
            low = max(first, end)
            if low > last:
                continue
            if low > end:
                runs.append(Run(end, low - 1, AVAILABLE, 0))
            runs.append(Run(low, last, AVAILABLE if delivery_state == ACQUIRED else delivery_state, count))
            end = last + 1
        self.start_offset, self.end_offset, self.state_epoch = start, end, state.state_epoch
        self.runs.replace(runs)
        self._advance()

    def fence(self) -> None:
        """End: the leader or the state has been replaced."""
        if self.status is not PartitionStatus.FENCED:
            was_loading = self.status is PartitionStatus.LOADING or not self.loaded.done
            self.status = PartitionStatus.FENCED
            if self._lock_timer is not None:
                self._lock_timer.cancel()
            if was_loading:
                self.loaded.set(Outcome(Errors.NOT_LEADER_OR_FOLLOWER, "The share partition is fenced."))
            self._notify()

    @property
    def is_active(self) -> bool:
        return self.status is PartitionStatus.ACTIVE

    @property
    def is_over(self) -> bool:
        """Return whether another share partition must take the place of this one."""
        return self.status in (PartitionStatus.FAILED, PartitionStatus.FENCED)

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call ``watcher`` whenever records may have become free, and at the end."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: Callable[[], None]) -> None:
        self._watchers.pop(watcher, None)

    def _notify(self) -> None:
        for watcher in tuple(self._watchers):
            watcher()

    # --- acquiring

    @property
    def complete_count(self) -> int:
        """The number of records between start and end that are done with (KIP-1226)."""
        return sum(run.size for run in self.runs if (run.state if run.target is None else run.target) in FINAL_STATES)

    def next_offset(self) -> int | None:
        """Return the offset from which records can be acquired now. None if there are none, and none may be locked."""
        if not self.is_active:
            return None
        free = self.runs.first_free()
        if free is not None:
            return free.first
        in_flight = self.end_offset - self.start_offset
        return self.end_offset if in_flight < self._rules.max_locks(self.key.group_id) else None

    def acquirable(self, batches: Iterable[BatchInfo]) -> int:
        """Return how many records of these batches could be acquired, without any limit."""
        count = 0
        for batch in batches:
            if batch.last_offset >= self.end_offset:
                count += batch.last_offset - max(batch.base_offset, self.end_offset) + 1
            if batch.base_offset < self.end_offset:
                for run in self.runs.between(batch.base_offset, batch.last_offset):
                    if run.is_free:
                        count += min(run.last, batch.last_offset) - max(run.first, batch.base_offset) + 1
        return count

    def acquire(
        self,
        member: str,
        batches: Sequence[BatchInfo],
        fetch_offset: int,
        *,
        max_records: int,
        batch_size: int,
        exact: bool,
        aborted: Sequence[tuple[int, int]] = (),
    ) -> list[Acquired]:
        """Deliver records of these batches to a member.

        Args:
            batches: what was read from the log at ``fetch_offset``, in order.
            max_records: how many records the member wants. Without ``exact``, the last batch is delivered whole.
            batch_size: the size from which the ranges of new records are divided, at bounds of batches.
            exact: True delivers no more than ``max_records`` (KIP-1206).
            aborted: offsets of aborted transactions, which are archived instead.
        """
        if not self.is_active or not batches or batches[-1].last_offset < self.start_offset or max_records <= 0:
            return []
        self.skip_missing(fetch_offset, batches)
        deadline = self._clock.now() + self._rules.lock_ms(self.key.group_id) / 1000
        taken, ended = self._acquire_free(member, batches, fetch_offset, max_records, exact, deadline)
        room = max_records - sum(run.size for run in taken)
        if room > 0 and not ended:
            taken += self._acquire_new(member, batches, room, batch_size, exact, deadline)
        found = _joined(taken)
        if found:
            self._arm(deadline)
        for first, last in aborted:
            found = self._archive_aborted(found, first, last)
        self._advance()
        return found

    def _archive_aborted(self, found: Iterable[Acquired], first: int, last: int) -> list[Acquired]:
        """Archive records of an aborted transaction that were just acquired. Return the ranges without them."""
        kept = []
        for one in found:
            low, high = max(first, one.first_offset), min(last, one.last_offset)
            if low > high:
                kept.append(one)
                continue
            for run in self.runs.carve(low, high):
                run.become(ARCHIVED)
            if one.first_offset < low:
                kept.append(one._replace(last_offset=low - 1))
            if high < one.last_offset:
                kept.append(one._replace(first_offset=high + 1))
        return kept

    def skip_missing(self, fetch_offset: int, batches: Sequence[BatchInfo]) -> None:
        """Archive free offsets that the log no longer has: compaction has removed them."""
        position = fetch_offset
        for batch in batches:
            if position < min(batch.base_offset, self.end_offset):
                for run in self.runs.between(position, batch.base_offset - 1):
                    if run.is_free:
                        for part in self.runs.carve(max(position, run.first), min(run.last, batch.base_offset - 1)):
                            part.become(ARCHIVED)
            position = max(position, batch.next_offset)
        self._advance()

    def _acquire_free(
        self,
        member: str,
        batches: Sequence[BatchInfo],
        fetch_offset: int,
        room: int,
        exact: bool,
        deadline: float,
    ) -> tuple[list[Run], bool]:
        """Acquire records that were released. Return the runs, and whether no more may be delivered (rule 5)."""
        limit = self._rules.delivery_limit(self.key.group_id)
        careful_from = max(2, (limit + 1) // 2)
        taken: list[Run] = []
        for run in self.runs.between(fetch_offset, batches[-1].last_offset):
            if room <= 0:
                break
            if not run.is_free:
                continue
            first = max(run.first, fetch_offset)
            last = min(run.last, batches[-1].last_offset)
            careful = run.count >= careful_from
            if careful:
                if taken:
                    return taken, True
                is_last_time = limit > 2 and run.count == limit - 1
                size = 1 if is_last_time else max(1, run.size >> (run.count - careful_from + 1))
                last = min(last, first + size - 1)
            if last - first + 1 > room:
                last = min(last, first + room - 1 if exact else _end_of_batch(batches, first + room - 1))
            for part in self.runs.carve(first, last):
                part.acquire(member, deadline)
                taken.append(part)
            room -= last - first + 1
            if careful:
                return taken, True
        return taken, False

    def _acquire_new(
        self,
        member: str,
        batches: Sequence[BatchInfo],
        room: int,
        batch_size: int,
        exact: bool,
        deadline: float,
    ) -> list[Run]:
        """Acquire records after the end offset."""
        in_flight = self.end_offset - self.start_offset
        room = min(room, self._rules.max_locks(self.key.group_id) - in_flight)
        later = [batch for batch in batches if batch.last_offset >= self.end_offset]
        if room <= 0 or not later:
            return []
        first = max(later[0].base_offset, self.end_offset)
        last = later[-1].last_offset
        if last - first + 1 > room:
            last = min(last, first + room - 1 if exact else _end_of_batch(later, first + room - 1))
        if first > self.end_offset:  # the log has no records in between
            self.runs.append(Run(self.end_offset, first - 1, ARCHIVED, 0))
        starts = [first]
        if not exact and last - first + 1 > batch_size:
            for batch in later:
                if starts[-1] + max(batch_size, 1) <= batch.base_offset <= last:
                    starts.append(batch.base_offset)
        taken = []
        for index, begin in enumerate(starts):
            until = starts[index + 1] - 1 if index + 1 < len(starts) else last
            run = Run(begin, until, ACQUIRED, 1, member, deadline)
            self.runs.append(run)
            taken.append(run)
        self.end_offset = last + 1
        return taken

    # --- acknowledging

    def acknowledge(self, member: str, acknowledgements: Iterable[Acknowledgement]) -> Deferred[Outcome]:
        """Acknowledge records that a member holds. All of it or nothing takes effect (rule 2)."""
        if not self.is_active:
            return Deferred.of(self._not_active())
        pieces = [piece for one in acknowledgements for piece in _pieces(one)]
        problem = self._check(member, pieces)
        if problem is not None:
            return Deferred.of(problem)
        limit = self._rules.delivery_limit(self.key.group_id)
        deadline = self._clock.now() + self._rules.lock_ms(self.key.group_id) / 1000
        changed: list[Run] = []
        for first, last, kind in pieces:
            low = max(first, self.start_offset)
            if low > last:
                continue
            for run in self.runs.carve(low, last):
                if kind == _RENEW:
                    run.renew(deadline)
                else:
                    run.begin(_released(run, limit) if _TARGETS[kind] == AVAILABLE else _TARGETS[kind])
                    changed.append(run)
        return self._write(changed) if changed else Deferred.of(Outcome())

    def _check(self, member: str, pieces: Sequence[tuple[int, int, int]]) -> Outcome | None:
        """Return the error of acknowledgements, or None if all of them are allowed."""
        before = -1
        for first, last, kind in pieces:
            if kind != _RENEW and kind not in _TARGETS:
                return Outcome(Errors.INVALID_REQUEST, f"Invalid acknowledge type: {kind}")
            if first <= before or last < first:
                return Outcome(Errors.INVALID_REQUEST, "The acknowledged offsets are not in order.")
            before = last
            if last < self.start_offset:
                continue  # done with: a repeated acknowledgement
            if last >= self.end_offset:
                text = "Batch record not found. The last offset in request is past acquired records."
                return Outcome(Errors.INVALID_REQUEST, text)
            for run in self.runs.between(max(first, self.start_offset), last):
                if not run.is_held:
                    text = "The offset cannot be acknowledged. The offset is not acquired."
                    return Outcome(Errors.INVALID_RECORD_STATE, text)
                if run.member != member:
                    return Outcome(Errors.INVALID_RECORD_STATE, "Member is not the owner of offset")
            if kind == _RENEW and not self._rules.may_renew(self.key.group_id):
                text = "Renewing acquisition locks is not enabled for the group."
                return Outcome(Errors.INVALID_RECORD_STATE, text)
        return None

    def release(self, member: str) -> Deferred[Outcome]:
        """Release all records that a member holds, because its session has ended."""
        if not self.is_active:
            return Deferred.of(self._not_active())
        limit = self._rules.delivery_limit(self.key.group_id)
        held = [run for run in self.runs if run.is_held and run.member == member]
        for run in held:
            run.begin(_released(run, limit))
        return self._write(held) if held else Deferred.of(Outcome())

    def _not_active(self) -> Outcome:
        if self.status is PartitionStatus.FENCED:
            return Outcome(Errors.NOT_LEADER_OR_FOLLOWER, "The share partition is fenced.")
        return Outcome(Errors.INVALID_RECORD_STATE, "The record is not acquired: the share partition is not active.")

    def _write(self, changed: Sequence[Run]) -> Deferred[Outcome]:
        """Write transitions, and end them when the result is known."""
        done: Deferred[Outcome] = Deferred()

        def on_written(result: StateResult) -> None:
            outcome = _outcome(result)
            for run in changed:
                run.end(written=outcome.error_code == Errors.NONE)
            self._after_write(result)
            done.set(outcome)

        self._store.write(self.key, self._change([run.as_batch(run.target) for run in changed])).on_done(on_written)
        return done

    def _change(self, batches: Sequence[Batch]) -> StateChange:
        return StateChange(self.state_epoch, self.leader_epoch, self.start_offset, self.complete_count, batches)

    def _after_write(self, result: StateResult) -> None:
        if result.error_code in _FENCED or result.error_code == Errors.INVALID_REQUEST:  # the state is gone
            self.fence()
            return
        if self.is_active:
            if result.error_code != Errors.NONE:
                _log.warning("%s: its state could not be written: %s", self, error_name(result.error_code))
            self._advance()
            self._arm_next()
            self._notify()

    def _advance(self) -> None:
        """Move the start offset past records that are done with."""
        after = self.runs.drop_done()
        if after is not None:
            self.start_offset = after

    def on_log_start(self, log_start_offset: int) -> None:
        """Forget records that the log no longer has."""
        if self.is_active and log_start_offset > self.start_offset:
            self.runs.drop_before(log_start_offset)
            self.start_offset = log_start_offset
            self.end_offset = max(self.end_offset, log_start_offset)
            self._advance()

    # --- locks

    def _arm(self, deadline: float) -> None:
        if self._lock_timer is not None and self._lock_timer.active:
            if self._armed_for <= deadline:
                return
            self._lock_timer.cancel()
        self._armed_for = deadline
        self._lock_timer = self._timer.schedule(deadline, self._on_lock_timer)

    def _arm_next(self) -> None:
        next_end = min((run.deadline for run in self.runs if run.is_held), default=None)
        if next_end is not None and self.is_active:
            self._arm(next_end)

    def _on_lock_timer(self) -> None:
        try:
            self.expire_locks()
        except Exception:
            _log.exception("%s: its locks could not be ended", self)
        self._arm_next()

    def expire_locks(self) -> None:
        """Release the records whose locks have ended. Nobody waits until that is written.

        Those that have reached the limit are archived, which takes effect only when it is written (rule 6).
        """
        if not self.is_active:
            return
        now, limit = self._clock.now(), self._rules.delivery_limit(self.key.group_id)
        ended = [run for run in self.runs if run.is_held and run.deadline <= now]
        if not ended:
            return
        _log.debug("%s: the locks of %d runs have ended", self, len(ended))
        archived = []
        for run in ended:
            if _released(run, limit) == AVAILABLE:
                run.become(AVAILABLE)
            else:
                run.begin(ARCHIVED)
                archived.append(run)

        def on_written(result: StateResult) -> None:
            for run in archived:
                run.end(written=result.error_code == Errors.NONE)
                run.renew(self._clock.now() + _RETRY_S)  # has no effect once it is archived
            self._after_write(result)

        batches = [run.as_batch(run.target) for run in ended]
        self._store.write(self.key, self._change(batches)).on_done(on_written)
        self._notify()


def _released(run: Run, limit: int) -> int:
    """Return the state of a record that is released (rule 3)."""
    return AVAILABLE if run.count < limit else ARCHIVED


def _end_of_batch(batches: Sequence[BatchInfo], offset: int) -> int:
    """Return the last offset of the batch that has an offset, or the offset if there is none."""
    for batch in batches:
        if batch.base_offset <= offset <= batch.last_offset:
            return batch.last_offset
    return offset


def _joined(taken: Iterable[Run]) -> list[Acquired]:
    """Return runs that were acquired. Adjacent single records with the same count are one range."""
    found: list[Acquired] = []
    for run in taken:
        last = found[-1] if found else None
        if last is not None and run.count > 1 and last[1] + 1 == run.first and last.delivery_count == run.count:
            found[-1] = last._replace(last_offset=run.last)
        else:
            found.append(Acquired(run.first, run.last, run.count))
    return found


def _pieces(one: Acknowledgement) -> list[tuple[int, int, int]]:
    """Return an acknowledgement as ranges with one type each."""
    first, last, types = one
    if len(types) == 1:
        return [(first, last, types[0])]
    found: list[tuple[int, int, int]] = []
    for index, kind in enumerate(types):
        if found and found[-1][2] == kind:
            found[-1] = (found[-1][0], first + index, kind)
        else:
            found.append((first + index, first + index, kind))
    return found


def _outcome(result: StateResult) -> Outcome:
    """Return the error for a client, if a request to the share coordinator ended with this result."""
    code = result.error_code
    if code == Errors.NONE:
        return Outcome()
    if code in _FENCED:
        return Outcome(Errors.NOT_LEADER_OR_FOLLOWER, result.error_message)
    if code in _NO_COORDINATOR:
        return Outcome(Errors.COORDINATOR_NOT_AVAILABLE, result.error_message)
    return Outcome(code if code in _PASSED_ON else Errors.UNKNOWN_SERVER_ERROR, result.error_message)
