"""What is subscribed, what is assigned, and where each partition stands. A core: no I/O, no clock, no callback.

Rules

1. Topics, a pattern and partitions by hand exclude one another until ``unsubscribe``.
2. A partition that stays assigned keeps its state; one that comes (back) starts anew, in a fetch epoch never used.
3. Everything that makes buffered or requested data worthless gives the partition a new fetch epoch: seek, reset,
   revocation, truncation, another leader. A pause does not.
4. Whoever plans fetches need not look at all partitions: those whose state changed are in a journal,
   :meth:`take_changed`.
5. Only the thread that uses the consumer calls this.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING

from pyconsumer.consumer.auto_offset_reset import LATEST, ResetPolicy
from pyconsumer.consumer.partition_state import (
    NO_LEADER,
    FetchPosition,
    FetchState,
    LeaderAndEpoch,
    TopicPartitionState,
)
from pyconsumer.errors import IllegalStateError, LogTruncationError, NoOffsetForPartitionError
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pyconsumer.consumer.interface import ConsumerRebalanceListener

__all__ = ["SubscriptionState", "SubscriptionType"]

_UNDEFINED = -1


class SubscriptionType(Enum):
    """How partitions come to this consumer."""

    NONE = "NONE"
    AUTO_TOPICS = "AUTO_TOPICS"
    AUTO_PATTERN = "AUTO_PATTERN"
    USER_ASSIGNED = "USER_ASSIGNED"


class SubscriptionState:
    """The subscription and the assigned partitions' states.

    Args:
        default_reset: ``auto_offset_reset``.

    Attributes:
        type: how partitions are chosen.
        listener: the application's rebalance listener.
        assignment_id: grows with each change of the assignment.
    """

    def __init__(self, default_reset: ResetPolicy = LATEST) -> None:
        self.default_reset = default_reset
        self.type = SubscriptionType.NONE
        self.listener: ConsumerRebalanceListener | None = None
        self.assignment_id = 0
        self._subscription: frozenset[str] = frozenset()
        self._group_subscription: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self._assignment: dict[TopicPartition, TopicPartitionState] = {}
        self._epochs = itertools.count(1)
        self._changed: dict[TopicPartition, None] = {}
        self._not_fetching: dict[TopicPartition, TopicPartitionState] = {}

    # -- subscription ------------------------------------------------------------------------------------------------

    def check_type(self, wanted: SubscriptionType) -> None:
        """Raise ``IllegalStateError`` if the kind of subscription cannot become ``wanted`` now."""
        if self.type not in (SubscriptionType.NONE, wanted):
            raise IllegalStateError(
                "subscription to topics, to a pattern and assigned partitions exclude one another:"
                f" the consumer has {self.type.name}; call unsubscribe() first"
            )

    def subscribe(self, topics: Iterable[str], listener: ConsumerRebalanceListener | None = None) -> bool:
        """Subscribe to topics; whether the set of topics changed. The assignment stays until the group decides."""
        self.check_type(SubscriptionType.AUTO_TOPICS)
        self.type = SubscriptionType.AUTO_TOPICS
        self.listener = listener
        return self._change_subscription(frozenset(topics))

    def subscribe_pattern(self, pattern: re.Pattern[str], listener: ConsumerRebalanceListener | None = None) -> None:
        """Subscribe to the topics whose whole name matches; :meth:`subscribe_from_pattern` says which those are."""
        self.check_type(SubscriptionType.AUTO_PATTERN)
        self.type = SubscriptionType.AUTO_PATTERN
        self.listener = listener
        self._pattern = pattern

    def subscribe_from_pattern(self, topics: Iterable[str]) -> bool:
        """Take over the topics that match the pattern now; whether the set changed."""
        if self.type is not SubscriptionType.AUTO_PATTERN:
            raise IllegalStateError("there is no pattern subscription")
        return self._change_subscription(frozenset(topics))

    def matches_pattern(self, topic: str) -> bool:
        """Whether the subscribed pattern takes this topic."""
        return self._pattern is not None and self._pattern.fullmatch(topic) is not None

    @property
    def has_pattern(self) -> bool:
        return self.type is SubscriptionType.AUTO_PATTERN

    @property
    def has_auto_assigned(self) -> bool:
        """Whether the group assigns the partitions."""
        return self.type in (SubscriptionType.AUTO_TOPICS, SubscriptionType.AUTO_PATTERN)

    @property
    def has_none(self) -> bool:
        """Whether nothing is subscribed or assigned by the user."""
        return self.type is SubscriptionType.NONE

    def subscription(self) -> set[str]:
        """The subscribed topics (for a pattern: those that match); empty with partitions assigned by hand."""
        return set(self._subscription) if self.has_auto_assigned else set()

    def metadata_topics(self) -> set[str]:
        """The topics whose metadata is needed: our own and, as the group's leader, everybody's."""
        return set(self._subscription | self._group_subscription)

    def group_subscribe(self, topics: Iterable[str]) -> bool:
        """As leader, remember the topics of all members; whether one of them was not known before."""
        if not self.has_auto_assigned:
            raise IllegalStateError("there is no group subscription")
        known = self._subscription | self._group_subscription
        self._group_subscription = frozenset(topics)
        return not known >= self._group_subscription

    def reset_group_subscription(self) -> None:
        """We are not the leader any more."""
        self._group_subscription = frozenset()

    def assign_from_user(self, partitions: Collection[TopicPartition]) -> bool:
        """Assign partitions by hand; whether their set of topics changed."""
        self.check_type(SubscriptionType.USER_ASSIGNED)
        self.type = SubscriptionType.USER_ASSIGNED
        wanted = set(partitions)
        if wanted == self._assignment.keys():
            return False
        self._set_assignment(partitions)
        return self._change_subscription(frozenset(tp.topic for tp in wanted))

    def assign_from_subscribed(self, partitions: Collection[TopicPartition]) -> None:
        """Take over what the group's leader (or the coordinator) assigned to us."""
        if not self.has_auto_assigned:
            raise IllegalStateError("partitions cannot be assigned by the group: nothing is subscribed")
        self._set_assignment(partitions)

    def assignment_matches_subscription(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether every partition belongs to a topic that is subscribed now."""
        if self._pattern is not None:
            return all(self._pattern.fullmatch(tp.topic) is not None for tp in partitions)
        return all(tp.topic in self._subscription for tp in partitions)

    def unsubscribe(self) -> None:
        """Forget subscription and assignment."""
        self.type = SubscriptionType.NONE
        self.listener = None
        self._subscription = self._group_subscription = frozenset()
        self._pattern = None
        self._set_assignment(())

    def _change_subscription(self, topics: frozenset[str]) -> bool:
        if topics == self._subscription:
            return False
        self._subscription = topics
        return True

    def _set_assignment(self, partitions: Collection[TopicPartition]) -> None:
        old = self._assignment
        by_topic: dict[str, dict[TopicPartition, TopicPartitionState]] = {}
        for item in partitions:
            tp = TopicPartition(*item)
            state = old.get(tp) or TopicPartitionState(tp, next(self._epochs))
            by_topic.setdefault(tp.topic, {})[tp] = state
        self._assignment = {tp: state for group in by_topic.values() for tp, state in group.items()}
        for tp, state in old.items():
            if tp in self._assignment:
                state.keep()
            else:
                state.unassign(next(self._epochs))
                self._not_fetching.pop(tp, None)
                self._changed[tp] = None
        for tp, state in self._assignment.items():
            if tp not in old:
                self._not_fetching[tp] = state
            self._changed[tp] = None
        self.assignment_id += 1

    # -- assignment --------------------------------------------------------------------------------------------------

    def assignment(self) -> set[TopicPartition]:
        """The assigned partitions."""
        return set(self._assignment)

    def assigned_list(self) -> list[TopicPartition]:
        """The assigned partitions in fetch order, those of a topic together."""
        return list(self._assignment)

    def states(self) -> Iterator[TopicPartitionState]:
        """The states of all assigned partitions, in fetch order."""
        return iter(self._assignment.values())

    @property
    def assigned_count(self) -> int:
        return len(self._assignment)

    def get(self, tp: TopicPartition) -> TopicPartitionState | None:
        """State of a partition, None if it is not assigned."""
        return self._assignment.get(tp)

    def state(self, tp: TopicPartition) -> TopicPartitionState:
        """State of an assigned partition.

        Raises:
            IllegalStateError: it is not assigned.
        """
        found = self._assignment.get(tp)
        if found is None:
            raise IllegalStateError(f"{tp[0]}-{tp[1]} is not assigned to this consumer")
        return found

    def move_to_end(self, tp: TopicPartition) -> None:
        """Let the other partitions have their turn first in the next full fetch."""
        state = self._assignment.pop(tp, None)
        if state is not None:
            self._assignment[tp] = state

    def mark_pending_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch and hand out no more of these: they are about to be given up."""
        for tp in partitions:
            self.state(tp).mark_pending_revocation()
            self._changed[tp] = None

    def take_changed(self) -> list[TopicPartition]:
        """The partitions whose state, position or assignment changed since the last call."""
        if not self._changed:
            return []
        changed = list(self._changed)
        self._changed.clear()
        return changed

    @property
    def has_changed(self) -> bool:
        return bool(self._changed)

    def note_changed(self, tp: TopicPartition) -> None:
        """Put a partition into the journal, as its next fetch may be another one."""
        self._changed[tp] = None

    # -- pausing -----------------------------------------------------------------------------------------------------

    def pause(self, tp: TopicPartition) -> None:
        self.state(tp).pause()
        self._changed[tp] = None

    def resume(self, tp: TopicPartition) -> None:
        self.state(tp).resume()
        self._changed[tp] = None

    def paused(self) -> set[TopicPartition]:
        return {tp for tp, state in self._assignment.items() if state.paused}

    # -- positions ---------------------------------------------------------------------------------------------------

    def seek(self, tp: TopicPartition, position: FetchPosition) -> None:
        """Go on from ``position``; it is validated first where its epoch and the leader's are known (KIP-320)."""
        state = self.state(tp)
        self._found(state, position)
        if position.offset_epoch >= 0 and position.leader.epoch >= 0:
            self._move(state, FetchState.AWAIT_VALIDATION, position)

    def seek_validated(self, tp: TopicPartition, position: FetchPosition) -> None:
        """Go on from a position that needs no validation."""
        self._found(self.state(tp), position)

    def initialise(self, tp: TopicPartition, committed: OffsetAndMetadata, leader: LeaderAndEpoch = NO_LEADER) -> bool:
        """Take a committed offset as position; whether the partition still waited for one."""
        state = self._assignment.get(tp)
        if state is None or state.state is not FetchState.INITIALIZING:
            return False
        self.seek(tp, FetchPosition(committed.offset, committed.leader_epoch, leader))
        return True

    def all_consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What may be committed: the position of each partition that has one."""
        found = {}
        for tp, state in self._assignment.items():
            committable = state.committable
            if committable is not None:
                found[tp] = committable
        return found

    def initializing(self) -> list[TopicPartition]:
        """Partitions whose committed offset is to be looked up."""
        return self._in(FetchState.INITIALIZING)

    @property
    def has_all_fetch_positions(self) -> bool:
        """Whether every assigned partition may be fetched, pauses aside."""
        return not self._not_fetching

    def needing_reset(self, now: float) -> list[TopicPartitionState]:
        """Partitions for which ListOffsets is due."""
        return [s for s in self._not_fetching.values() if s.state is FetchState.AWAIT_RESET and s.retry_at <= now]

    def needing_validation(self, now: float) -> list[TopicPartitionState]:
        """Partitions for which OffsetForLeaderEpoch is due."""
        return [s for s in self._not_fetching.values() if s.state is FetchState.AWAIT_VALIDATION and s.retry_at <= now]

    def next_retry_at(self) -> float:
        """When the next reset or validation is due, ``inf`` if none is wanted."""
        wanted = (FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION)
        return min((s.retry_at for s in self._not_fetching.values() if s.state in wanted), default=float("inf"))

    def retry_now(self) -> None:
        """Let every reset and validation that is wanted be due."""
        for state in self._not_fetching.values():
            state.retry_now()

    def on_leaders(self, leader: MetadataLookup) -> None:
        """Metadata is new: what waited for a leader alone is due, if it has one now."""
        for tp, state in self._not_fetching.items():
            if state.awaits_leader and leader(tp).leader >= 0:
                state.retry_now()

    def _in(self, wanted: FetchState) -> list[TopicPartition]:
        return [tp for tp, state in self._not_fetching.items() if state.state is wanted]

    def drop_fetched(self, partitions: Iterable[TopicPartition]) -> None:
        """Whatever was fetched of these beyond their position is not wanted any more."""
        for tp in partitions:
            self.state(tp).restart_fetching(next(self._epochs))
            self._changed[tp] = None

    # -- resets ------------------------------------------------------------------------------------------------------

    def request_reset(self, tp: TopicPartition, policy: ResetPolicy | None = None) -> None:
        """Find a new position by ``policy`` (default: ``auto_offset_reset``)."""
        state = self.state(tp)
        if self._move(state, FetchState.AWAIT_RESET):
            state.reset_by(policy or self.default_reset)

    def reset_initializing(self, partitions: Iterable[TopicPartition]) -> None:
        """Nothing is committed for these: reset them.

        Raises:
            NoOffsetForPartitionError: ``auto_offset_reset`` is ``none``.
        """
        homeless: dict[TopicPartition, int | None] = {}
        for tp in partitions:
            state = self._assignment.get(tp)
            if state is None or state.state is not FetchState.INITIALIZING:
                continue
            if self.default_reset.name == "none":
                homeless[tp] = None
            else:
                self.request_reset(tp)
        if homeless:
            names = ", ".join(map(str, sorted(homeless)))
            raise NoOffsetForPartitionError(
                f"no offset is committed for {names} and auto_offset_reset is none: seek, or choose a reset policy",
                partitions=homeless,
            )

    def complete_reset(self, tp: TopicPartition, policy: ResetPolicy, position: FetchPosition) -> bool:
        """A reset found an offset; whether it is still wanted. It may need validation as any new position does."""
        state = self._assignment.get(tp)
        if state is None or state.state is not FetchState.AWAIT_RESET or state.reset_policy != policy:
            return False
        self.seek(tp, position)
        return True

    def retry_later(
        self, partitions: Iterable[TopicPartition], retry_at: float, *, awaits_leader: bool = False
    ) -> None:
        """No reset or validation of these before ``retry_at``, or before they have a leader if they lack only that."""
        for tp in partitions:
            state = self._assignment.get(tp)
            if state is not None:
                state.retry_later(retry_at, awaits_leader=awaits_leader)

    # -- validation (KIP-320) ----------------------------------------------------------------------------------------

    def on_leader(self, tp: TopicPartition, leader: LeaderAndEpoch) -> bool:
        """Metadata named a leader; whether the position has to be validated now.

        An unknown leader changes nothing. Another leader than the position was checked with makes what is buffered
        worthless; the position is validated if both its own epoch and the leader's are known.
        """
        state = self._assignment.get(tp)
        if state is None or leader.leader < 0:
            return False
        position = state.fetch_position
        if position is None:
            return False
        if leader == position.leader:
            return state.state is FetchState.AWAIT_VALIDATION
        moved = FetchPosition(position.offset, position.offset_epoch, leader)
        if position.offset_epoch >= 0 and leader.epoch >= 0:
            self._move(state, FetchState.AWAIT_VALIDATION, moved)
            return True
        if position.leader == NO_LEADER and state.state is FetchState.FETCHING:
            state.set_leader(leader)  # the first known leader: nothing has been fetched from another one
            self._changed[tp] = None
            return False
        self._move(state, FetchState.FETCHING, moved)
        return False

    def complete_validation(self, tp: TopicPartition) -> None:
        """The position is good, or nobody can tell."""
        state = self._assignment.get(tp)
        if state is not None and state.state is FetchState.AWAIT_VALIDATION:
            self._move(state, FetchState.FETCHING)

    def on_end_of_epoch(
        self, tp: TopicPartition, asked: FetchPosition, epoch: int, end_offset: int
    ) -> LogTruncationError | None:
        """The leader said where the position's epoch ends.

        Args:
            asked: the position when the question was sent; nothing happens if it has moved since.
            epoch: the largest epoch of the leader not above the one asked for, -1 if there is none.
            end_offset: the offset after that epoch's last record, -1 if there is none.

        Returns:
            An error if the log was truncated and there is no policy to go on by.
        """
        state = self._assignment.get(tp)
        if state is None or state.state is not FetchState.AWAIT_VALIDATION or state.fetch_position != asked:
            return None
        undefined = epoch == _UNDEFINED or end_offset == _UNDEFINED
        if not undefined and end_offset >= asked.offset:
            self._move(state, FetchState.FETCHING)
            return None
        if self.default_reset.name != "none":
            if undefined:
                self.request_reset(tp)
            else:
                self.seek_validated(tp, FetchPosition(end_offset, epoch, asked.leader))
            return None
        where = "an unknown offset" if undefined else f"offset {end_offset}"
        return LogTruncationError(
            f"the log of {tp} was truncated: position {asked.offset} (leader epoch {asked.offset_epoch}) diverges"
            f" from the leader's log at {where}, and auto_offset_reset is none",
            partitions={tp: asked.offset},
        )

    # -- what answers tell -------------------------------------------------------------------------------------------

    def partition_lag(self, tp: TopicPartition, *, read_committed: bool) -> int | None:
        """Records between the position and the end that this isolation level may read; None if unknown."""
        state = self._assignment.get(tp)
        if state is None or state.position is None:
            return None
        end = state.last_stable_offset if read_committed else state.high_watermark
        return None if end < 0 else max(0, end - state.position)

    def partition_lead(self, tp: TopicPartition) -> int | None:
        """Records between the log's start and the position; None if unknown."""
        state = self._assignment.get(tp)
        if state is None or state.position is None or state.log_start_offset < 0:
            return None
        return max(0, state.position - state.log_start_offset)

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _found(self, state: TopicPartitionState, position: FetchPosition) -> None:
        self._move(state, FetchState.FETCHING, position)
        state.reset_by(None)
        state.forget_preferred_replica()

    def _move(self, state: TopicPartitionState, wanted: FetchState, position: FetchPosition | None = None) -> bool:
        """Change the state; whatever the change is, buffered data is worthless afterwards."""
        if not state.move_to(wanted, position):
            return False
        tp = state.topic_partition
        if state.state is FetchState.FETCHING:
            self._not_fetching.pop(tp, None)
        else:
            self._not_fetching[tp] = state
        state.restart_fetching(next(self._epochs))
        self._changed[tp] = None
        return True


MetadataLookup = Callable[[TopicPartition], LeaderAndEpoch]
"""What the parts that need leaders ask: metadata's answer, :data:`NO_LEADER` if there is none."""
