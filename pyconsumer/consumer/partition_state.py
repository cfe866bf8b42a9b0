"""The state of one partition: fetch state, position, paused, offsets of the log. A core: no I/O, no clock.

Which moves between fetch states are possible is decided here, and which positions can be validated by their epochs
(:attr:`FetchPosition.needs_validation`). :mod:`.subscription_state` keeps one :class:`TopicPartitionState` for each
assigned partition and makes the moves: ``seek`` and ``on_leader`` there decide that such a position must be validated
now. :mod:`.offset_fetcher` asks the leader.

Rules of the fetch states, and the table ``RULES``

1. A partition that has just been assigned is INITIALIZING: it has no position, and its committed offset is fetched.
2. AWAIT_RESET: it has no position and waits for the start or end of the log, or an offset by time (ListOffsets).
3. AWAIT_VALIDATION: it has a position, and the leader must confirm that the log still contains it (KIP-320). That is
   so if the epochs of the position and of the leader are known, and one of two events happened. The position was set:
   by ``seek``, by a committed offset or by a reset. Or metadata names another leader or leader epoch than the position.
4. FETCHING: records may be fetched from its position and returned. In no other state may they.
5. A move that the table does not contain is ignored and is no error: the event came too late to matter. So no move
   leads from INITIALIZING or AWAIT_VALIDATION back to INITIALIZING, or from AWAIT_RESET to AWAIT_VALIDATION: a reset
   first finds a position (FETCHING), which may then need validation.
6. Entering a state that needs no position drops the position. Entering one that needs a position without having one is
   a bug and raises.

The life of a partition::

    assigned -> INITIALIZING -> AWAIT_VALIDATION -> FETCHING        (committed offset with a leader epoch)
                INITIALIZING -> FETCHING                            (committed offset without an epoch)
                INITIALIZING -> AWAIT_RESET -> FETCHING             (no offset committed)
    FETCHING -> AWAIT_RESET                                         (out of range, truncated, another topic of its name,
                                                                     seek_to_beginning/end)
    FETCHING -> AWAIT_VALIDATION -> FETCHING                        (leader changed)
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from pyconsumer.consumer.auto_offset_reset import ResetPolicy
from pyconsumer.consumer.lag_time import FULL, HIDDEN, age_of, cut, first_from, forget_before, thin
from pyconsumer.consumer.record_counters import PartitionCounters
from pyconsumer.errors import IllegalStateError
from pyconsumer.metrics.windows import Windows
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pyconsumer.network.metadata import Metadata

__all__ = [
    "MAX_BUFFERED_FETCHES",
    "NO_LEADER",
    "RULES",
    "FetchPosition",
    "FetchState",
    "LeaderAndEpoch",
    "StateRule",
    "TopicPartitionState",
    "current_leader",
    "next_state",
]


class FetchState(Enum):
    """The fetch state of a partition: how far it is from being fetched."""

    INITIALIZING = "INITIALIZING"
    FETCHING = "FETCHING"
    AWAIT_RESET = "AWAIT_RESET"
    AWAIT_VALIDATION = "AWAIT_VALIDATION"

    __hash__ = object.__hash__  # members are singletons; Enum's own is a function of Python


class StateRule(NamedTuple):
    """The rules of one fetch state: its successors, whether it needs a position, and whether it allows fetching."""

    next_states: frozenset[FetchState]
    requires_position: bool
    has_valid_position: bool


_I, _F, _R, _V = FetchState.INITIALIZING, FetchState.FETCHING, FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION

RULES: Final[dict[FetchState, StateRule]] = {
    _I: StateRule(frozenset((_F, _R, _V)), requires_position=False, has_valid_position=False),
    _F: StateRule(frozenset((_F, _R, _V)), requires_position=True, has_valid_position=True),
    _R: StateRule(frozenset((_F, _R)), requires_position=False, has_valid_position=False),
    _V: StateRule(frozenset((_F, _R, _V)), requires_position=True, has_valid_position=False),
}


def next_state(current: FetchState, wanted: FetchState) -> FetchState:
    """Return ``wanted`` if the table allows this change, otherwise ``current`` (rule 5)."""
    return wanted if wanted in RULES[current].next_states else current


class LeaderAndEpoch(NamedTuple):
    """A partition's leader and leader epoch, according to metadata. -1 means unknown."""

    leader: int = -1
    epoch: int = -1


NO_LEADER: Final = LeaderAndEpoch()


def current_leader(metadata: Metadata, tp: TopicPartition) -> LeaderAndEpoch:
    """Return a partition's leader according to metadata, or :data:`NO_LEADER` if none is known."""
    found = metadata.leader(tp)
    return NO_LEADER if found is None else LeaderAndEpoch(found.leader, found.leader_epoch)


MAX_BUFFERED_FETCHES: Final = 2
"""The most buffered fetches of one partition; a partition that has them is left out of requests."""


class FetchPosition(NamedTuple):
    """A position of the consumer.

    It has the offset of the next record, the leader epoch of the record before it, and the leader that validated it.
    """

    offset: int
    offset_epoch: int = -1
    leader: LeaderAndEpoch = NO_LEADER

    @property
    def needs_validation(self) -> bool:
        """Return whether the leader must confirm the position before fetching from it (rule 3)."""
        return self.offset_epoch >= 0 and self.leader.epoch >= 0


class TopicPartitionState:
    """State of one assigned partition.

    Attributes:
        is_fetchable: True if a fetch is allowed: the state is FETCHING, the partition is not paused or held back, not
            left out of a call, and not about to be revoked. Buffers and errors are not considered.
        position: offset of the next record to return, or None. It moves when records are returned.
        fetch_offset: offset at which the next fetch starts. It is the end of the last scanned batch, so it is ahead of
            the position by the buffered records.
        fetch_epoch: a number that changes whenever buffered records or fetches in flight become invalid. A response is
            valid only if it was requested in the current epoch.
        buffered_fetches: the number of fetches whose records wait to be returned.
        retry_at: the time (seconds) before which no reset and no validation is sent.
        awaits_leader: True if ``retry_at`` is set only because the partition has no known leader.
        fetch_blocked: True while an error waits to be raised. Another fetch would bring the same error.
        fetch_not_before: the time (seconds) before which no fetch is sent, after a retriable error.
        preferred_replica: the node to fetch from instead of the leader (KIP-392) until ``preferred_until``. -1 for
            none.
        high_watermark, last_stable_offset, log_start_offset: the offsets in the last response. -1 if unknown.
        end_offset_requested: True while a request for the end of the log is in flight.
        topic_id: the id of the topic to which the position belongs. Zeros if unknown. See :mod:`.topic_ids`.
        committed: the committed offset, as far as this consumer knows it. -1 if it knows none. Any thread may set it.
        lag_marks: the timestamps of uncommitted records. None as long as no records have arrived, and if records that
            were returned count as committed.
        next_timestamp: the timestamp (ms) of the first fetched record that was not returned. None if there is none.
        poll_count: the number of polls that :attr:`counters` do not have yet. See :meth:`polls`.
        counters: of lag and lead. None until records have arrived.
        stored: the offset to commit that the application has stored, or None. It is used if positions are not
            committed.
    """

    __slots__ = (
        "_first_polled",
        "_polled",
        "awaits_leader",
        "buffered_fetches",
        "committed",
        "counters",
        "end_offset_requested",
        "fetch_blocked",
        "fetch_epoch",
        "fetch_not_before",
        "fetch_offset",
        "held_back",
        "high_watermark",
        "is_fetchable",
        "lag_marks",
        "last_stable_offset",
        "left_out",
        "log_start_offset",
        "next_timestamp",
        "offset_epoch",
        "paused",
        "pending_revocation",
        "poll_count",
        "position",
        "position_leader",
        "preferred_replica",
        "preferred_until",
        "reset_policy",
        "retry_at",
        "state",
        "stored",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, fetch_epoch: int) -> None:
        self.topic_partition = topic_partition
        self.topic_id = ZERO_UUID
        self.state = FetchState.INITIALIZING
        self.is_fetchable = False
        self.position: int | None = None
        self.offset_epoch = -1
        self.position_leader = NO_LEADER
        self.fetch_offset = -1
        self.fetch_epoch = fetch_epoch
        self.buffered_fetches = 0
        self.paused = False
        self.held_back = False
        self.left_out = False
        self.pending_revocation = False
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.reset_policy: ResetPolicy | None = None
        self.retry_at = 0.0
        self.awaits_leader = False
        self.fetch_not_before = 0.0
        self.fetch_blocked = False
        self.preferred_replica = -1
        self.preferred_until = 0.0
        self.end_offset_requested = False
        self.stored: OffsetAndMetadata | None = None
        self.committed = -1
        self.lag_marks: list[int] | None = None
        self.counters: PartitionCounters | None = None
        self.next_timestamp: int | None = None
        self.poll_count = self._polled = self._first_polled = 0

    def end(self, *, read_committed: bool) -> int:
        """Return the offset at which the readable records end, -1 if unknown. Any thread may call this."""
        return self.last_stable_offset if read_committed else self.high_watermark

    def lag(self, *, read_committed: bool) -> int | None:
        """Return how many readable records follow the position, or None if unknown. Any thread may call this."""
        end, position = self.end(read_committed=read_committed), self.position
        return None if end < 0 or position is None else max(0, end - position)

    def lead(self) -> int | None:
        """Return how many records lie between the start of the log and the position. Any thread may call this."""
        start, position = self.log_start_offset, self.position
        return None if start < 0 or position is None else max(0, position - start)

    def lag_time(self, wall_ms: int, *, read_committed: bool, by_position: bool) -> float | None:
        """Return the age of the first uncommitted record in seconds. Any thread may call this.

        Args:
            wall_ms: the present time.
            read_committed: True if records beyond the last stable offset do not count.
            by_position: True if records that were returned count as committed.

        Returns:
            0.0 if nothing is uncommitted. None if the record has not been fetched or has no timestamp.
        """
        position, committed, marks = self.position, self.committed, self.lag_marks
        if position is None:
            return None
        if marks is not None and not by_position and committed < position:
            found = first_from(marks, committed)
            if found != HIDDEN:
                return age_of(found, wall_ms)
        if self.lag(read_committed=read_committed) == 0:
            return 0.0
        return age_of(self.next_timestamp, wall_ms)

    def note_committed(self, offset: int) -> None:
        """Store the offset that is committed. Any thread may call this."""
        before, self.committed = self.committed, offset
        marks, position = self.lag_marks, self.position
        if marks is None or position is None:
            return
        count = len(marks)  # what is added from now on stays
        if offset >= position:
            del marks[:count]
        elif not marks and offset < before:
            marks[:0] = offset, -1
        else:
            forget_before(marks, offset)

    def await_record(self, timestamp_ms: int | None) -> None:
        """Store the timestamp of the next record to return, which has just arrived."""
        self.next_timestamp = timestamp_ms

    def keep_lag_marks(self) -> None:
        """From now on, keep marks, because the partition's first records have arrived. See :mod:`.lag_time`."""
        if self.lag_marks is None:
            self.lag_marks = []

    def keep_no_lag_marks(self) -> None:
        """From now on, records that were returned count as committed."""
        self.lag_marks = None

    def note_taken(self) -> None:
        """Note that iteration has taken the records from the position on."""
        if self.lag_marks is not None and self.position is not None:
            self.lag_marks.extend((self.position, HIDDEN if self.next_timestamp is None else self.next_timestamp))
            if len(self.lag_marks) > FULL:
                thin(self.lag_marks)

    def polls(self) -> tuple[int, int, int]:
        """Return the polls that :attr:`counters` do not have yet. Any thread may call this.

        Returns:
            Their number, the sum of the positions after them, and the first of these positions.
        """
        return self.poll_count, self._polled, self._first_polled

    def forget_polls(self) -> None:
        """Forget all that was noted of polls."""
        self.lag_marks = self.next_timestamp = None
        self.poll_count = self._polled = 0

    def take_polls(self) -> tuple[int, int, int]:
        """Return the same as :meth:`polls`, and count from 0 again."""
        found = self.poll_count, self._polled, self._first_polled
        self.poll_count = self._polled = 0
        return found

    def start_counters(self, windows: Windows, now: float) -> PartitionCounters:
        """Return new counters of the partition's lag, because its first records have arrived."""
        self.counters = PartitionCounters(windows, now)
        return self.counters

    @property
    def fetch_position(self) -> FetchPosition | None:
        """The position together with its leader epochs, or None."""
        if self.position is None:
            return None
        return FetchPosition(self.position, self.offset_epoch, self.position_leader)

    @property
    def has_valid_position(self) -> bool:
        """Return whether there is a position from which fetching is allowed."""
        return self.state is FetchState.FETCHING

    @property
    def committable(self) -> OffsetAndMetadata | None:
        """The position in the form of an offset to commit, or None."""
        if self.position is None or not RULES[self.state].requires_position:
            return None
        return OffsetAndMetadata(self.position, "", self.offset_epoch)

    def store(self, offset: OffsetAndMetadata) -> None:
        """Store an offset to commit. It replaces the one stored before."""
        self.stored = offset

    def move_to(self, wanted: FetchState, position: FetchPosition | None = None) -> bool:
        """Change to a state, with a position if the state needs one.

        Return whether the table allowed it (rules 5 and 6).
        """
        if next_state(self.state, wanted) is not wanted or wanted not in RULES[self.state].next_states:
            return False
        if RULES[wanted].requires_position:
            found = position or self.fetch_position
            if found is None:
                raise AssertionError(f"{self.topic_partition} cannot be {wanted.name} without a position")
            # Ctrl-C between these leaves a position without its leader, which is validated again if it has an epoch.
            self.position_leader = NO_LEADER
            self.position, self.offset_epoch = found[:2]
            self.state = wanted
            self.position_leader = found.leader
        else:
            self.state = wanted  # first, so that Ctrl-C leaves no state that lacks its position
            self.position = None
            self.offset_epoch = -1
            self.position_leader = NO_LEADER
            self.fetch_offset = -1
        self._update_fetchable()
        self.retry_at = 0.0  # a pause after an earlier request does not delay the next one
        self.awaits_leader = False
        return True

    def advance(self, offset: int, offset_epoch: int) -> None:
        """Move the position past records that were returned to the application.

        Args:
            offset: the offset after the last of these records.
            offset_epoch: the leader epoch of the last of these records, -1 if unknown.

        Raises:
            IllegalStateError: the partition has no position from which records may be returned.
        """
        if self.state is not _F:
            raise IllegalStateError(f"{self.topic_partition} has no valid position to move: it is {self.state.name}")
        self.position = offset
        self.offset_epoch = offset_epoch

    def pass_records(self, offset: int, offset_epoch: int, next_timestamp: int | None, hidden: bool) -> None:
        """Do :meth:`advance` after a poll, and note what the metrics need. Nothing else is done for them in a poll.

        Args:
            offset, offset_epoch: see :meth:`advance`.
            next_timestamp: the timestamp (ms) of the next fetched record, None if there is none.
            hidden: True if no record was returned, only passed.
        """
        if self.state is not _F:
            self.advance(offset, offset_epoch)  # raises
        marks, position = self.lag_marks, self.position
        if marks is not None and position is not None and offset != position:
            timestamp = HIDDEN if hidden or self.next_timestamp is None else self.next_timestamp
            if not marks or timestamp != marks[-1]:
                marks.append(position)
                marks.append(timestamp)
                if len(marks) > FULL:
                    thin(marks)
        self.position = offset
        self.offset_epoch = offset_epoch
        self.next_timestamp = next_timestamp
        if not hidden:  # without a call between: no thread sees a part of it
            if not self.poll_count:
                self._first_polled = offset
            self.poll_count += 1
            self._polled += offset

    def set_topic_id(self, topic_id: bytes) -> None:
        """Store the id of the topic to which the position now belongs."""
        self.topic_id = topic_id

    def forget_log(self) -> None:
        """Forget the stored offset and the offsets of the log, because the partition has a new log."""
        self.stored = None
        self.committed = -1
        self.forget_polls()
        self.high_watermark = self.last_stable_offset = self.log_start_offset = -1
        self.forget_preferred_replica()

    def set_leader(self, leader: LeaderAndEpoch) -> None:
        """Store the leader for which the position is valid."""
        self.position_leader = leader

    def restart_fetching(self, fetch_epoch: int) -> None:
        """Forget buffered records and fetches in flight. Fetching starts again from the position, in a new epoch."""
        self.fetch_epoch = fetch_epoch
        self.fetch_offset = -1 if self.position is None else self.position
        self.buffered_fetches = 0
        self.fetch_blocked = False
        self.fetch_not_before = 0.0
        self.next_timestamp = None
        if self.lag_marks is not None:
            cut(self.lag_marks, self.position)

    def recover(self, fetch_epoch: int) -> None:
        """Compute again what follows from state and position, after Ctrl-C between two steps of a change."""
        if not RULES[self.state].requires_position:
            self.position, self.offset_epoch, self.position_leader = None, -1, NO_LEADER
        self._update_fetchable()
        self.end_offset_requested = False
        self.retry_now()
        self.restart_fetching(fetch_epoch)

    # -- assignment and pausing --------------------------------------------------------------------------------------

    def keep(self) -> None:
        """End a planned revocation: the partition stays assigned."""
        self.pending_revocation = False
        self._update_fetchable()

    def unassign(self, fetch_epoch: int) -> None:
        """Make all fetches and requests of the partition invalid, because it is no longer assigned."""
        self.pending_revocation = False
        self._update_fetchable()
        self.fetch_epoch = fetch_epoch
        self.counters = None
        self.forget_polls()

    def mark_pending_revocation(self) -> None:
        """Stop fetching and returning records, because the partition is about to be revoked."""
        self.pending_revocation = True
        self.is_fetchable = False

    def pause(self) -> None:
        """Fetch and return no records until :meth:`resume`. The position and the buffered records are kept."""
        self.paused = True
        self.is_fetchable = False

    def resume(self) -> None:
        """End a pause."""
        self.paused = False
        self._update_fetchable()

    def hold_back(self, is_held_back: bool) -> None:
        """Fetch and return no records while workers have no room for them. The application's pause is apart."""
        self.held_back = is_held_back
        self._update_fetchable()

    def leave_out(self, is_left_out: bool) -> None:
        """Fetch and return no records while a call reads other partitions alone. The application's pause is apart."""
        self.left_out = is_left_out
        self._update_fetchable()

    def _update_fetchable(self) -> None:
        held = self.paused or self.held_back or self.pending_revocation or self.left_out
        self.is_fetchable = self.state is FetchState.FETCHING and not held

    # -- resets and validation ---------------------------------------------------------------------------------------

    def reset_by(self, policy: ResetPolicy | None) -> None:
        """Set the policy by which a new position is found. None: no new position is wanted any more."""
        self.reset_policy = policy

    def retry_later(self, retry_at: float, *, awaits_leader: bool = False) -> None:
        """Send no reset and no validation before the time ``retry_at`` (seconds).

        With ``awaits_leader`` the wait also ends when the partition has a leader.
        """
        self.retry_at = retry_at
        self.awaits_leader = awaits_leader

    def retry_now(self) -> None:
        """Allow a reset or validation to be sent at once."""
        self.retry_at = 0.0
        self.awaits_leader = False

    # -- fetching ----------------------------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Return whether no more may be fetched until a buffered fetch has been removed."""
        return self.fetch_blocked or self.buffered_fetches >= MAX_BUFFERED_FETCHES

    def add_buffered(self, end_offset: int, blocks: bool) -> bool:
        """Count one more buffered fetch, and fetch from its end next. Return :attr:`is_full`.

        Args:
            end_offset: the offset after the last batch of this fetch.
            blocks: True if no more may be fetched until this fetch has been removed.
        """
        self.fetch_offset = end_offset
        self.buffered_fetches = buffered = self.buffered_fetches + 1
        if blocks:
            self.fetch_blocked = True
        return buffered >= MAX_BUFFERED_FETCHES or self.fetch_blocked

    def remove_buffered(self, blocks: bool) -> bool:
        """Count one buffered fetch less. Pass the same ``blocks`` as to :meth:`add_buffered`.

        Returns:
            True if the partition was full, so it may now be fetched again.
        """
        was_full = self.is_full
        self.buffered_fetches -= 1
        if blocks:
            self.fetch_blocked = False
        return was_full

    def clear_buffered(self) -> None:
        """Set the number of buffered fetches to 0."""
        self.buffered_fetches = 0
        self.fetch_blocked = False

    def back_off(self, until: float) -> None:
        """Send no fetch before the time ``until`` (seconds)."""
        self.fetch_not_before = until

    def prefer_replica(self, node_id: int, until: float) -> None:
        """Fetch from a follower until the time ``until`` (seconds), as the leader has proposed (KIP-392)."""
        self.preferred_replica = node_id
        self.preferred_until = until

    def forget_preferred_replica(self) -> None:
        """Fetch from the leader again."""
        self.preferred_replica = -1

    # -- offsets of the log ------------------------------------------------------------------------------------------

    def update_log_offsets(self, high_watermark: int, last_stable_offset: int, log_start_offset: int) -> None:
        """Store the offsets from a fetch response. A negative offset is unknown and is ignored."""
        if high_watermark >= 0:
            self.high_watermark = high_watermark
        if last_stable_offset >= 0:
            self.last_stable_offset = last_stable_offset
        if log_start_offset >= 0:
            self.log_start_offset = log_start_offset

    def request_end_offset(self) -> None:
        """Record that the end of the log has been requested, so that it is not requested twice."""
        self.end_offset_requested = True

    def on_end_offset(self, offset: int | None, *, read_committed: bool) -> None:
        """Store the end of the log, as the isolation level sees it. None means that the request failed."""
        self.end_offset_requested = False
        if offset is None:
            return
        if read_committed:
            self.last_stable_offset = max(self.last_stable_offset, offset)
        else:
            self.high_watermark = max(self.high_watermark, offset)
