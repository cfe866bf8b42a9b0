"""One assigned partition: its fetch state, its position, and the known offsets of its log. A core: no I/O, no clock.

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
from pyconsumer.errors import IllegalStateError
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
    """State of a partition on its way to being fetched from."""

    INITIALIZING = "INITIALIZING"
    FETCHING = "FETCHING"
    AWAIT_RESET = "AWAIT_RESET"
    AWAIT_VALIDATION = "AWAIT_VALIDATION"

    __hash__ = object.__hash__  # members are singletons; Enum's own is a function of Python


class StateRule(NamedTuple):
    """Rules of one state: its successors, whether it needs a position, whether that may be fetched from."""

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
    """Return ``wanted`` if the table allows it, else ``current`` (rule 5)."""
    return wanted if wanted in RULES[current].next_states else current


class LeaderAndEpoch(NamedTuple):
    """A partition's leader according to metadata. -1 stands for unknown."""

    leader: int = -1
    epoch: int = -1


NO_LEADER: Final = LeaderAndEpoch()


def current_leader(metadata: Metadata, tp: TopicPartition) -> LeaderAndEpoch:
    """Return a partition's leader according to metadata, :data:`NO_LEADER` if none is known."""
    found = metadata.leader(tp)
    return NO_LEADER if found is None else LeaderAndEpoch(found.leader, found.leader_epoch)


MAX_BUFFERED_FETCHES: Final = 2
"""The most buffered fetches of one partition; a partition that has them is left out of requests."""


class FetchPosition(NamedTuple):
    """The offset of the next record, the leader epoch of the record before it, and the leader that validated it."""

    offset: int
    offset_epoch: int = -1
    leader: LeaderAndEpoch = NO_LEADER

    @property
    def needs_validation(self) -> bool:
        """True if this leader has to confirm the position before it is fetched from (rule 3)."""
        return self.offset_epoch >= 0 and self.leader.epoch >= 0


class TopicPartitionState:
    """State of one assigned partition.

    Attributes:
        is_fetchable: True if a fetch may be sent, apart from buffers and errors: FETCHING, not paused, not about to be
            revoked.
        position: offset of the next record to return, or None. It moves when records are returned.
        fetch_offset: offset at which the next fetch starts: the end of the last batch that was scanned. It is ahead of
            the position by the buffered records.
        fetch_epoch: changes whenever buffered records or fetches in flight become invalid. A response counts only if it
            was requested in the same epoch.
        buffered_fetches: number of fetches that wait to be returned.
        retry_at: no reset or validation is sent before this time (seconds).
        awaits_leader: True while ``retry_at`` is set only because the partition has no known leader.
        fetch_blocked: True while an error waits to be raised. Another fetch would bring the same error.
        fetch_not_before: no fetch is sent before this time (seconds), after a retriable error.
        preferred_replica: node to fetch from instead of the leader (KIP-392) until ``preferred_until``, or -1.
        high_watermark, last_stable_offset, log_start_offset: as of the last response, -1 if unknown.
        end_offset_requested: True while a request for the end of the log is in flight.
        topic_id: the id of the topic that the position belongs to, zeros if unknown. See :mod:`.topic_ids`.
        stored: the offset to commit that the application has stored, or None. It is used if positions are not
            committed.
    """

    __slots__ = (
        "awaits_leader",
        "buffered_fetches",
        "end_offset_requested",
        "fetch_blocked",
        "fetch_epoch",
        "fetch_not_before",
        "fetch_offset",
        "high_watermark",
        "is_fetchable",
        "last_stable_offset",
        "log_start_offset",
        "offset_epoch",
        "paused",
        "pending_revocation",
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

    @property
    def fetch_position(self) -> FetchPosition | None:
        """The position with its leader epochs, or None."""
        if self.position is None:
            return None
        return FetchPosition(self.position, self.offset_epoch, self.position_leader)

    @property
    def has_valid_position(self) -> bool:
        """True if the position may be fetched from."""
        return self.state is FetchState.FETCHING

    @property
    def committable(self) -> OffsetAndMetadata | None:
        """The position as an offset to commit, or None."""
        if self.position is None or not RULES[self.state].requires_position:
            return None
        return OffsetAndMetadata(self.position, "", self.offset_epoch)

    def store(self, offset: OffsetAndMetadata) -> None:
        """Note an offset to commit, instead of the one stored before."""
        self.stored = offset

    def move_to(self, wanted: FetchState, position: FetchPosition | None = None) -> bool:
        """Move to a state, with a position if it needs one, and return whether the table allowed it (rules 5 and 6)."""
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
            offset: the offset after the last of them.
            offset_epoch: the leader epoch of the last of them, -1 if unknown.

        Raises:
            IllegalStateError: the partition has no position that records may be returned from.
        """
        if self.state is not FetchState.FETCHING:
            raise IllegalStateError(f"{self.topic_partition} has no valid position to move: it is {self.state.name}")
        self.position = offset
        self.offset_epoch = offset_epoch

    def set_topic_id(self, topic_id: bytes) -> None:
        """Note the id of the topic that the position belongs to from now on."""
        self.topic_id = topic_id

    def forget_log(self) -> None:
        """Forget the stored offset, and the offsets of the log: there is another log."""
        self.stored = None
        self.high_watermark = self.last_stable_offset = self.log_start_offset = -1
        self.forget_preferred_replica()

    def set_leader(self, leader: LeaderAndEpoch) -> None:
        """Note the leader that the position is valid for."""
        self.position_leader = leader

    def restart_fetching(self, fetch_epoch: int) -> None:
        """Forget buffered records and fetches in flight: fetch from the position again, in a new epoch."""
        self.fetch_epoch = fetch_epoch
        self.fetch_offset = -1 if self.position is None else self.position
        self.buffered_fetches = 0
        self.fetch_blocked = False
        self.fetch_not_before = 0.0

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
        """Stay assigned: a revocation that was planned is over."""
        self.pending_revocation = False
        self._update_fetchable()

    def unassign(self, fetch_epoch: int) -> None:
        """Make everything that was fetched or requested invalid, as the partition is no longer assigned."""
        self.pending_revocation = False
        self._update_fetchable()
        self.fetch_epoch = fetch_epoch

    def mark_pending_revocation(self) -> None:
        """Stop fetching and returning records: the partition is about to be revoked."""
        self.pending_revocation = True
        self.is_fetchable = False

    def pause(self) -> None:
        """Fetch and return no records until :meth:`resume`. The position and buffered records stay."""
        self.paused = True
        self.is_fetchable = False

    def resume(self) -> None:
        """End a pause."""
        self.paused = False
        self._update_fetchable()

    def _update_fetchable(self) -> None:
        self.is_fetchable = self.state is FetchState.FETCHING and not self.paused and not self.pending_revocation

    # -- resets and validation ---------------------------------------------------------------------------------------

    def reset_by(self, policy: ResetPolicy | None) -> None:
        """Set the policy by which a new position is found. None: a position is no longer wanted."""
        self.reset_policy = policy

    def retry_later(self, retry_at: float, *, awaits_leader: bool = False) -> None:
        """Send no reset or validation before a time (seconds), or before there is a leader if only that is missing."""
        self.retry_at = retry_at
        self.awaits_leader = awaits_leader

    def retry_now(self) -> None:
        """Let a reset or validation be sent at once."""
        self.retry_at = 0.0
        self.awaits_leader = False

    # -- fetching ----------------------------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """True if no more may be fetched before a buffered fetch has been removed."""
        return self.fetch_blocked or self.buffered_fetches >= MAX_BUFFERED_FETCHES

    def add_buffered(self, end_offset: int, blocks: bool) -> bool:
        """Count one more buffered fetch, and fetch from its end next. Return :attr:`is_full`.

        Args:
            end_offset: the offset after its last batch.
            blocks: no more is to be fetched before this one has been removed.
        """
        self.fetch_offset = end_offset
        self.buffered_fetches = buffered = self.buffered_fetches + 1
        if blocks:
            self.fetch_blocked = True
        return buffered >= MAX_BUFFERED_FETCHES or self.fetch_blocked

    def remove_buffered(self, blocks: bool) -> bool:
        """Count one buffered fetch less. ``blocks`` is as it was added with.

        Returns:
            True if the partition was full, so that it may be fetched again now.
        """
        was_full = self.is_full
        self.buffered_fetches -= 1
        if blocks:
            self.fetch_blocked = False
        return was_full

    def end_buffered(self, offset: int, offset_epoch: int, blocks: bool) -> bool:
        """Do the work of :meth:`advance` and :meth:`remove_buffered`, when a fetch has been returned to its end."""
        if self.state is not FetchState.FETCHING:
            self.advance(offset, offset_epoch)  # raises
        self.position = offset
        self.offset_epoch = offset_epoch
        buffered = self.buffered_fetches
        self.buffered_fetches = buffered - 1
        if self.fetch_blocked:
            self.fetch_blocked = not blocks
            return True
        return buffered >= MAX_BUFFERED_FETCHES

    def clear_buffered(self) -> None:
        """Count no buffered fetch any more."""
        self.buffered_fetches = 0
        self.fetch_blocked = False

    def back_off(self, until: float) -> None:
        """Send no fetch before a time (seconds)."""
        self.fetch_not_before = until

    def prefer_replica(self, node_id: int, until: float) -> None:
        """Fetch from a follower until a time (seconds), as the leader proposed (KIP-392)."""
        self.preferred_replica = node_id
        self.preferred_until = until

    def forget_preferred_replica(self) -> None:
        """Fetch from the leader again."""
        self.preferred_replica = -1

    # -- offsets of the log ------------------------------------------------------------------------------------------

    def update_log_offsets(self, high_watermark: int, last_stable_offset: int, log_start_offset: int) -> None:
        """Note offsets that a fetch response gave. A negative one is unknown and ignored."""
        if high_watermark >= 0:
            self.high_watermark = high_watermark
        if last_stable_offset >= 0:
            self.last_stable_offset = last_stable_offset
        if log_start_offset >= 0:
            self.log_start_offset = log_start_offset

    def request_end_offset(self) -> None:
        """Note that the end of the log has been requested, so that it is requested once."""
        self.end_offset_requested = True

    def on_end_offset(self, offset: int | None, *, read_committed: bool) -> None:
        """Note the end of the log, as the isolation level sees it. None: the request failed."""
        self.end_offset_requested = False
        if offset is None:
            return
        if read_committed:
            self.last_stable_offset = max(self.last_stable_offset, offset)
        else:
            self.high_watermark = max(self.high_watermark, offset)
