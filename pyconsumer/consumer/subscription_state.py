"""Subscription, assignment, positions: resets, lag, and the offsets that commits cover.

A core: no I/O, no clock, no callback.

Rules

1. Topics, a pattern and partitions by hand exclude one another until ``unsubscribe``.
2. A partition that stays assigned keeps its state. One that is assigned (again) starts with a new state, in a fetch
   epoch that has never been used.
3. Everything that invalidates buffered or requested data gives the partition a new fetch epoch: seek, reset,
   revocation, truncation, another leader. A pause does not.
4. A journal, :meth:`take_changed`, lists the partitions whose state changed, so that planning need not visit them all.
5. Only the application's thread calls this.
6. A partition's attributes change only in methods of :class:`TopicPartitionState`. Moves between fetch states, which
   need a new fetch epoch and the journal, only here.
7. Rule 3 of :mod:`.partition_state`, which position needs a validation, is applied by :meth:`seek` and
   :meth:`on_leader`.
8. Offsets that the application stored end with the assignment of their partition, committed or not, so that a member
   never commits over its successor.
9. Automatic commits take :meth:`all_finished`. A call that asks for records finishes those of the calls before, so in a
   poll these are the positions. A member that rebalances between polls gives :attr:`in_hand`: for the state of a
   partition the offset of the first record that its application may still be working on.
10. An eager rebalance revokes every partition and gives some of them back. A member with ``keeps_positions`` continues
   at its positions in these (:meth:`remember_revoked`): its application may still be working on their records. This
   holds for the very next generation. After a later one another member may have had them in between, and the
   committed offset counts. In Java, where only a poll rebalances, it always does.
11. Ctrl-C may come between any two steps. A step that another one depends on comes first: a policy before the reset, a
   position before the state that needs it. Everything else follows from the states of the partitions, and
   :meth:`recover` computes it again.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final

from pyconsumer.consumer.auto_offset_reset import LATEST, ResetPolicy
from pyconsumer.consumer.partition_state import (
    NO_LEADER,
    FetchPosition,
    FetchState,
    LeaderAndEpoch,
    TopicPartitionState,
)
from pyconsumer.errors import IllegalStateError, LogTruncationError, NoOffsetForPartitionError
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pyconsumer.consumer.interface import ConsumerRebalanceListener

__all__ = ["SubscriptionState", "SubscriptionType"]

_UNDEFINED = -1


class SubscriptionType(Enum):
    """The way in which the consumer gets its partitions."""

    NONE = "NONE"
    AUTO_TOPICS = "AUTO_TOPICS"
    AUTO_PATTERN = "AUTO_PATTERN"
    AUTO_PATTERN_RE2J = "AUTO_PATTERN_RE2J"
    USER_ASSIGNED = "USER_ASSIGNED"


_NO_STATES: Final[Mapping[TopicPartition, TopicPartitionState]] = {}


class SubscriptionState:
    """The subscription, and the state of each assigned partition.

    Args:
        default_reset: the setting ``auto_offset_reset``.
        store_positions: True if commits take the positions, False if they take the stored offsets.

    Attributes:
        default_reset: the setting ``auto_offset_reset``.
        type: the kind of subscription.
        listener: the application's rebalance listener.
        assignment_id: increases with each change of the assignment.
        changed: the journal (rule 4). :meth:`take_changed` and :meth:`note_changed` change it.
        in_hand: the records that the application may be working on (rule 9). Empty during a poll.
        commits_by_position: True if records that were returned count as committed for the lag: there is no group, or a
            producer commits in its transactions.
        keeps_positions: True if positions outlast an eager rebalance (rule 10). By default False.
    """

    def __init__(self, default_reset: ResetPolicy = LATEST, *, store_positions: bool = True) -> None:
        self.default_reset = default_reset
        self._store_positions = store_positions
        self.type = SubscriptionType.NONE
        self.listener: ConsumerRebalanceListener | None = None
        self.assignment_id = 0
        self._subscription: frozenset[str] = frozenset()
        self._group_subscription: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self._remote_pattern: str | None = None
        self._assignment: dict[TopicPartition, TopicPartitionState] = {}
        self._taken_out: TopicPartitionState | None = None  # of the assignment, while it is put back at the end
        self._topic_ids: dict[str, bytes] = {}
        self._epochs = itertools.count(1)
        self.changed: dict[TopicPartition, None] = {}
        self._not_fetching: dict[TopicPartition, TopicPartitionState] = {}
        self.in_hand: Mapping[TopicPartitionState, int] = {}
        self.keeps_positions = False
        self.commits_by_position = False
        self._revoked: dict[TopicPartition, TopicPartitionState] = {}
        self._revoked_in = -1  # the generation
        self._left_out: list[TopicPartitionState] = []

    # -- subscription ------------------------------------------------------------------------------------------------

    def check_type(self, wanted: SubscriptionType) -> None:
        """Raise ``IllegalStateError`` if the consumer has a subscription of another type."""
        if self.type not in (SubscriptionType.NONE, wanted):
            raise IllegalStateError(
                "subscription to topics, to a pattern and assigned partitions exclude one another:"
                f" the consumer has {self.type.name}. Call unsubscribe() first"
            )

    def subscribe(self, topics: Iterable[str], listener: ConsumerRebalanceListener | None = None) -> bool:
        """Subscribe to topics. Return whether the set of topics has changed.

        The assignment stays the same until the group changes it.
        """
        self.check_type(SubscriptionType.AUTO_TOPICS)
        self.type = SubscriptionType.AUTO_TOPICS
        self.listener = listener
        return self._change_subscription(frozenset(topics))

    def replace_listener(self, listener: ConsumerRebalanceListener | None) -> None:
        """Put another listener in the place of the subscription's."""
        self.listener = listener

    def subscribe_pattern(self, pattern: re.Pattern[str], listener: ConsumerRebalanceListener | None = None) -> None:
        """Subscribe to the topics whose whole name matches. :meth:`subscribe_from_pattern` then sets the topics."""
        self.check_type(SubscriptionType.AUTO_PATTERN)
        self.type = SubscriptionType.AUTO_PATTERN
        self.listener = listener
        self._pattern = pattern

    def subscribe_from_pattern(self, topics: Iterable[str]) -> bool:
        """Set the topics that match the pattern now. Return whether this set has changed."""
        if self.type is not SubscriptionType.AUTO_PATTERN:
            raise IllegalStateError("there is no pattern subscription")
        return self._change_subscription(frozenset(topics))

    def subscribe_remote_pattern(self, pattern: str, listener: ConsumerRebalanceListener | None = None) -> None:
        """Subscribe to a pattern that the broker evaluates.

        Of the matching topics, only those with partitions assigned to this member are known here.
        """
        self.check_type(SubscriptionType.AUTO_PATTERN_RE2J)
        self.type = SubscriptionType.AUTO_PATTERN_RE2J
        self.listener = listener
        self._remote_pattern = pattern

    @property
    def has_remote_pattern(self) -> bool:
        return self.type is SubscriptionType.AUTO_PATTERN_RE2J

    @property
    def remote_pattern(self) -> str | None:
        """Return the pattern that the broker evaluates, or None."""
        return self._remote_pattern

    def matches_pattern(self, topic: str) -> bool:
        """Return whether a topic matches the subscribed pattern."""
        return self._pattern is not None and self._pattern.fullmatch(topic) is not None

    @property
    def has_pattern(self) -> bool:
        return self.type is SubscriptionType.AUTO_PATTERN

    @property
    def has_auto_assigned(self) -> bool:
        """Return whether the group assigns the partitions."""
        return self.type in (
            SubscriptionType.AUTO_TOPICS,
            SubscriptionType.AUTO_PATTERN,
            SubscriptionType.AUTO_PATTERN_RE2J,
        )

    @property
    def has_none(self) -> bool:
        """Return whether no topic is subscribed and no partition is assigned."""
        return self.type is SubscriptionType.NONE

    def subscription(self) -> set[str]:
        """Return the subscribed topics. The set is empty if partitions are assigned by hand.

        With a pattern, the result is the set of matching topics. If the broker evaluates the pattern, it is the set of
        topics of which this member has partitions.
        """
        return set(self._subscription) if self.has_auto_assigned else set()

    def metadata_topics(self) -> set[str]:
        """Return the topics whose metadata is needed.

        These are the subscribed topics. If this member leads the group, they are the topics of all members.
        """
        return set(self._subscription | self._group_subscription)

    def group_subscribe(self, topics: Iterable[str]) -> bool:
        """As leader of the group, set the topics of all members. Return whether one of them is new."""
        if not self.has_auto_assigned:
            raise IllegalStateError("there is no group subscription")
        known = self._subscription | self._group_subscription
        self._group_subscription = frozenset(topics)
        return not known >= self._group_subscription

    def reset_group_subscription(self) -> None:
        """Forget the topics of other members, because this member no longer leads the group."""
        self._group_subscription = frozenset()

    def assign_from_user(self, partitions: Collection[TopicPartition]) -> bool:
        """Assign partitions by hand. Return whether the set of their topics has changed."""
        self.check_type(SubscriptionType.USER_ASSIGNED)
        self.type = SubscriptionType.USER_ASSIGNED
        wanted = set(partitions)
        if wanted == self._assignment.keys():
            return False
        is_changed = self._change_subscription(frozenset(tp.topic for tp in wanted))
        self._set_assignment(partitions)
        return is_changed

    def assign_from_subscribed(self, partitions: Collection[TopicPartition], generation: int | None = None) -> None:
        """Adopt the assignment that the group has computed for this member.

        Args:
            partitions: the assigned partitions.
            generation: the group's generation, if this assignment ends a rebalance (rule 10).
        """
        if not self.has_auto_assigned:
            raise IllegalStateError("partitions cannot be assigned by the group: no topic is subscribed")
        kept = self._revoked if generation == self._revoked_in + 1 else {}
        self._set_assignment(partitions, kept)
        if generation is not None:
            self.forget_revoked()
        if self.has_remote_pattern:
            self._subscription = frozenset(tp.topic for tp in self._assignment)

    def remember_revoked(self, generation: int) -> None:
        """Remember the states of all partitions, because they are about to be revoked in this generation (rule 10)."""
        if self.keeps_positions:
            self._revoked = dict(self._assignment)
            self._revoked_in = generation

    def forget_revoked(self) -> None:
        """Forget the remembered states. If such a partition comes back, it starts at its committed offset."""
        self._revoked = {}
        self._revoked_in = -1

    @property
    def has_revoked(self) -> bool:
        """Return whether a rebalance has revoked partitions and may still give them back (rule 10)."""
        return bool(self._revoked) and not self._assignment

    def revoked(self, tp: TopicPartition) -> TopicPartitionState | None:
        """Return the remembered state of a partition that the current rebalance may give back, or None."""
        return None if tp in self._assignment else self._revoked.get(tp)

    def assignment_matches_subscription(self, partitions: Iterable[TopicPartition]) -> bool:
        """Return whether every partition belongs to a topic that is subscribed now."""
        if self._pattern is not None:
            return all(self._pattern.fullmatch(tp.topic) is not None for tp in partitions)
        return all(tp.topic in self._subscription for tp in partitions)

    def forget_listener(self) -> None:
        """Call no rebalance listener from now on."""
        self.listener = None

    def unsubscribe(self) -> None:
        """Drop subscription and assignment."""
        self.type = SubscriptionType.NONE
        self.listener = None
        self._subscription = self._group_subscription = frozenset()
        self.forget_revoked()
        self._pattern = self._remote_pattern = None
        self._set_assignment(())

    def _change_subscription(self, topics: frozenset[str]) -> bool:
        if topics == self._subscription:
            return False
        self._subscription = topics
        return True

    def _set_assignment(
        self, partitions: Collection[TopicPartition], kept: Mapping[TopicPartition, TopicPartitionState] = _NO_STATES
    ) -> None:
        old = self._assignment
        by_topic: dict[str, dict[TopicPartition, TopicPartitionState]] = {}
        for item in partitions:
            tp = TopicPartition(*item)
            state = old.get(tp) or self._kept(kept.get(tp)) or TopicPartitionState(tp, next(self._epochs))
            by_topic.setdefault(tp.topic, {})[tp] = state
            state.keep()  # before it counts as assigned, so that Ctrl-C leaves no revocation behind
        self._assignment = {tp: state for group in by_topic.values() for tp, state in group.items()}
        self._topic_ids = {topic: found for topic, found in self._topic_ids.items() if topic in by_topic}
        for tp, state in old.items():
            if tp not in self._assignment:
                state.unassign(next(self._epochs))
                self._not_fetching.pop(tp, None)
                self.changed[tp] = None
        for tp, state in self._assignment.items():
            if tp not in old and not state.has_valid_position:
                self._not_fetching[tp] = state
            self.changed[tp] = None
        self.assignment_id += 1

    def _kept(self, state: TopicPartitionState | None) -> TopicPartitionState | None:
        """Return a remembered state for its partition's return. A pause has ended, as with a new state."""
        if state is not None:
            state.restart_fetching(next(self._epochs))
            state.resume()
        return state

    # -- assignment --------------------------------------------------------------------------------------------------

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions."""
        return set(self._assignment)

    def assigned_list(self) -> list[TopicPartition]:
        """Return the assigned partitions in fetch order. Partitions of the same topic are next to each other."""
        return list(self._assignment)

    def states(self) -> Iterator[TopicPartitionState]:
        """Iterate over the states of all assigned partitions, in fetch order."""
        return iter(self._assignment.values())

    @property
    def assigned_count(self) -> int:
        return len(self._assignment)

    def get(self, tp: TopicPartition) -> TopicPartitionState | None:
        """Return the state of a partition, or None if it is not assigned."""
        return self._assignment.get(tp)

    @property
    def by_partition(self) -> Mapping[TopicPartition, TopicPartitionState]:
        """The states of all assigned partitions. They may be read until the assignment changes."""
        return self._assignment

    def state(self, tp: TopicPartition) -> TopicPartitionState:
        """Return the state of an assigned partition.

        Raises:
            IllegalStateError: the partition is not assigned.
        """
        found = self._assignment.get(tp)
        if found is None:
            raise IllegalStateError(f"{tp[0]}-{tp[1]} is not assigned to this consumer")
        return found

    def move_to_end(self, tp: TopicPartition) -> None:
        """Put a partition last in the order for the next full fetch."""
        state = self._assignment.get(tp)
        if state is not None:
            self._taken_out = state  # so that Ctrl-C does not lose it
            del self._assignment[tp]
            self._assignment[tp] = state
            self._taken_out = None

    def mark_pending_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching and returning records of these partitions, because they are about to be revoked."""
        for tp in partitions:
            self.state(tp).mark_pending_revocation()
            self.changed[tp] = None

    def take_changed(self) -> list[TopicPartition]:
        """Return the partitions whose state, position or assignment has changed since the last call."""
        if not self.changed:
            return []
        changed = list(self.changed)
        self.changed.clear()
        return changed

    def note_changed(self, tp: TopicPartition) -> None:
        """Add a partition to the journal, because its next fetch may change."""
        self.changed[tp] = None

    # -- pausing -----------------------------------------------------------------------------------------------------

    def pause(self, tp: TopicPartition) -> None:
        self.state(tp).pause()
        self.changed[tp] = None

    def resume(self, tp: TopicPartition) -> None:
        self.state(tp).resume()
        self.changed[tp] = None

    def paused(self) -> set[TopicPartition]:
        return {tp for tp, state in self._assignment.items() if state.paused}

    def hold_back(self, tp: TopicPartition, is_held_back: bool) -> None:
        """Fetch and return no records of a partition while workers have no room. Pauses stay as they are."""
        self.state(tp).hold_back(is_held_back)
        self.changed[tp] = None

    def leave_out_all_but(self, partitions: Collection[TopicPartition]) -> None:
        """Fetch and return records of these partitions alone, until :meth:`leave_out_none`. Pauses stay as they are."""
        for tp, state in self._assignment.items():
            if not state.left_out and tp not in partitions:
                state.leave_out(True)
                self._left_out.append(state)
                self.changed[tp] = None

    def leave_out_none(self) -> None:
        """End :meth:`leave_out_all_but`, also for partitions that were revoked since and may come back."""
        for state in self._left_out:
            state.leave_out(False)
            self.changed[state.topic_partition] = None
        self._left_out.clear()

    # -- positions ---------------------------------------------------------------------------------------------------

    def seek(self, tp: TopicPartition, position: FetchPosition) -> None:
        """Continue from ``position``.

        If its leader epoch and that of the leader are known, it is validated first (KIP-320).
        """
        state = self.state(tp)
        if not position.needs_validation:
            self._found(state, position)
            return
        # Without the leader at first. After Ctrl-C between the two moves, the next look at metadata validates it.
        self._found(state, position._replace(leader=NO_LEADER))
        self._move(state, FetchState.AWAIT_VALIDATION, position)

    def seek_validated(self, tp: TopicPartition, position: FetchPosition) -> None:
        """Continue from a position that needs no validation."""
        self._found(self.state(tp), position)

    def initialise(self, tp: TopicPartition, committed: OffsetAndMetadata, leader: LeaderAndEpoch = NO_LEADER) -> bool:
        """Set a committed offset as position, and return True.

        If the partition is not waiting for a committed offset, set nothing and return False.
        """
        state = self._assignment.get(tp)
        if state is None or state.state is not FetchState.INITIALIZING:
            return False
        state.note_committed(committed.offset)
        self.seek(tp, FetchPosition(committed.offset, committed.leader_epoch, leader))
        return True

    def note_committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Store the offsets that are committed now. Any thread may call this."""
        assigned = self._assignment
        for tp, offset in offsets.items():
            state = assigned.get(tp)
            if state is not None:
                state.note_committed(offset.offset)

    def all_consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit: all positions, or the stored offsets (rule 8)."""
        found = {}
        for tp, state in self._assignment.items():
            committable = state.committable if self._store_positions else state.stored
            if committable is not None:
                found[tp] = committable
        return found

    def store_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Store offsets to commit. If one of the partitions is not assigned, nothing is stored.

        Raises:
            IllegalStateError: commits take the positions, or a partition is not assigned.
        """
        if self._store_positions:
            raise IllegalStateError(
                "store_offsets needs enable_auto_offset_store=False: with True the positions are committed"
            )
        missing = [tp for tp in offsets if tp not in self._assignment]
        if missing:
            names = ", ".join(map(str, sorted(missing)))
            raise IllegalStateError(f"not assigned to this consumer: {names}. Another member may have committed")
        for tp, offset in offsets.items():
            self._assignment[tp].store(offset)

    def keep_positions(self) -> None:
        """From now on, keep the positions of partitions that an eager rebalance gives back (rule 10)."""
        self.keeps_positions = True

    def count_by_position(self) -> None:
        """From now on, records that were returned count as committed for the lag."""
        self.commits_by_position = True
        for state in self._assignment.values():
            state.keep_no_lag_marks()

    def note_in_hand(self, begins: Mapping[TopicPartitionState, int]) -> None:
        """Store the offsets at which the records begin that the application may still be working on (rule 9)."""
        self.in_hand = begins

    def all_finished(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets of :meth:`all_consumed`, without records that the application is working on (rule 9)."""
        found = self.all_consumed()
        if self._store_positions:
            for state, offset in self.in_hand.items():
                tp = state.topic_partition
                if self._assignment.get(tp) is state and tp in found and offset < found[tp].offset:
                    found[tp] = OffsetAndMetadata(offset)
        return found

    def initializing(self) -> list[TopicPartition]:
        """Return the partitions whose committed offset must be fetched."""
        return self._in(FetchState.INITIALIZING)

    @property
    def has_all_fetch_positions(self) -> bool:
        """Return whether all assigned partitions may be fetched, apart from paused ones."""
        return not self._not_fetching

    def needing_reset(self, now: float) -> list[TopicPartitionState]:
        """Return the partitions for which ListOffsets is due."""
        return [s for s in self._not_fetching.values() if s.state is FetchState.AWAIT_RESET and s.retry_at <= now]

    def needing_validation(self, now: float) -> list[TopicPartitionState]:
        """Return the partitions for which OffsetForLeaderEpoch is due."""
        return [s for s in self._not_fetching.values() if s.state is FetchState.AWAIT_VALIDATION and s.retry_at <= now]

    def next_retry_at(self) -> float:
        """Return when the next reset or validation is due, or ``inf`` if none is pending."""
        wanted = (FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION)
        return min((s.retry_at for s in self._not_fetching.values() if s.state in wanted), default=float("inf"))

    def on_leaders(self, leader: LeaderOf) -> bool:
        """After a change of metadata, make all operations due that waited only for a leader and have one now.

        Returns:
            True if another operation still waits for a leader.
        """
        leaderless = False
        for tp, state in self._not_fetching.items():
            if state.awaits_leader:
                if leader(tp).leader >= 0:
                    state.retry_now()
                else:
                    leaderless = True
        return leaderless

    def _in(self, wanted: FetchState) -> list[TopicPartition]:
        return [tp for tp, state in self._not_fetching.items() if state.state is wanted]

    def drop_fetched(self, partitions: Iterable[TopicPartition]) -> None:
        """Discard all fetched records of these partitions beyond the position."""
        for tp in partitions:
            self.state(tp).restart_fetching(next(self._epochs))
            self.changed[tp] = None

    def recover(self) -> None:
        """Compute again what follows from the states of the partitions (rule 11). Fetch from their positions."""
        if self._taken_out is not None:
            self._assignment[self._taken_out.topic_partition] = self._taken_out
            self._taken_out = None
        for tp, state in self._assignment.items():
            state.recover(next(self._epochs))
            self.changed[tp] = None
        self._not_fetching = {tp: state for tp, state in self._assignment.items() if not state.has_valid_position}
        self.assignment_id += 1

    # -- resets ------------------------------------------------------------------------------------------------------

    def request_reset(self, tp: TopicPartition, policy: ResetPolicy | None = None) -> None:
        """Request a new position according to ``policy`` (by default ``auto_offset_reset``)."""
        state = self.state(tp)
        state.reset_by(policy or self.default_reset)  # first: a reset without its policy would never complete
        self._move(state, FetchState.AWAIT_RESET)

    def note_topic_id(self, state: TopicPartitionState, topic_id: bytes) -> int | None:
        """Store the id of a partition's topic. If the id has changed, drop the position and request a reset.

        Returns:
            The position that was dropped, or None.
        """
        known, position = state.topic_id, state.position
        is_another = known not in (topic_id, ZERO_UUID)
        if is_another:
            state.forget_log()
            if position is not None:
                self.request_reset(state.topic_partition)
        state.set_topic_id(topic_id)  # after the reset, which would not be requested a second time
        self._topic_ids[state.topic_partition.topic] = topic_id
        return position if is_another else None

    def topic_id(self, topic: str) -> bytes:
        """Return the id of the topic to which positions belong.

        It is zeros if it is unknown or if the topic has no assigned partition.
        """
        return self._topic_ids.get(topic, ZERO_UUID)

    def reset_initializing(self, partitions: Iterable[TopicPartition]) -> None:
        """Reset the partitions that have no committed offset, as ``auto_offset_reset`` says.

        Raises:
            NoOffsetForPartitionError: ``auto_offset_reset`` is ``none``.
        """
        unreset: dict[TopicPartition, int | None] = {}
        for tp in partitions:
            state = self._assignment.get(tp)
            if state is None or state.state is not FetchState.INITIALIZING:
                continue
            if self.default_reset.name == "none":
                unreset[tp] = None
            else:
                self.request_reset(tp)
        if unreset:
            names = ", ".join(map(str, sorted(unreset)))
            raise NoOffsetForPartitionError(
                f"no offset is committed for {names} and auto_offset_reset is none: seek, or choose a reset policy",
                partitions=unreset,
            )

    def complete_reset(self, tp: TopicPartition, policy: ResetPolicy, position: FetchPosition) -> bool:
        """Set the position that a reset has found. It may need validation. Return False if the reset is obsolete."""
        state = self._assignment.get(tp)
        if state is None or state.state is not FetchState.AWAIT_RESET or state.reset_policy != policy:
            return False
        self.seek(tp, position)
        return True

    def retry_later(
        self, partitions: Iterable[TopicPartition], retry_at: float, *, awaits_leader: bool = False
    ) -> None:
        """Delay resets and validations until the time ``retry_at``.

        With ``awaits_leader`` the delay also ends when the partition has a leader.
        """
        for tp in partitions:
            state = self._assignment.get(tp)
            if state is not None:
                state.retry_later(retry_at, awaits_leader=awaits_leader)

    # -- validation (KIP-320) ----------------------------------------------------------------------------------------

    def on_leader(self, tp: TopicPartition, leader: LeaderAndEpoch) -> bool:
        """Apply a partition's leader from metadata. Return whether the position must be validated now.

        An unknown leader has no effect. If the leader is not the one that validated the position, buffered records
        become invalid. The position is then validated, if its leader epoch and that of the leader are known.
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
        if moved.needs_validation:
            self._move(state, FetchState.AWAIT_VALIDATION, moved)
            return True
        if position.leader == NO_LEADER and state.state is FetchState.FETCHING:
            state.set_leader(leader)  # the first known leader: nothing has been fetched from another one
            self.changed[tp] = None
            return False
        self._move(state, FetchState.FETCHING, moved)
        return False

    def complete_validation(self, tp: TopicPartition) -> None:
        """End a validation: the position is valid, or no broker can validate it."""
        state = self._assignment.get(tp)
        if state is not None and state.state is FetchState.AWAIT_VALIDATION:
            self._move(state, FetchState.FETCHING)

    def on_end_of_epoch(
        self, tp: TopicPartition, asked: FetchPosition, epoch: int, end_offset: int
    ) -> LogTruncationError | None:
        """Finish a validation with the leader's response, which says where the position's epoch ends.

        Args:
            asked: the position in the request. If the position has moved since, the response is ignored.
            epoch: the leader's largest epoch that is not above the requested epoch, or -1.
            end_offset: the offset after the last record of that epoch, or -1.

        Returns:
            An error if the log was truncated and there is no reset policy. Otherwise None.
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

    # -- lag and lead ------------------------------------------------------------------------------------------------

    def partition_lag(self, tp: TopicPartition, *, read_committed: bool) -> int | None:
        """Return how many readable records follow the position, or None if unknown. The isolation level decides."""
        state = self._assignment.get(tp)
        return None if state is None else state.lag(read_committed=read_committed)

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _found(self, state: TopicPartitionState, position: FetchPosition) -> None:
        self._move(state, FetchState.FETCHING, position)
        state.reset_by(None)
        state.forget_preferred_replica()

    def _move(self, state: TopicPartitionState, wanted: FetchState, position: FetchPosition | None = None) -> bool:
        """Move to another fetch state, which invalidates buffered data, and return whether the table allowed it."""
        if not state.move_to(wanted, position):
            return False
        tp = state.topic_partition
        if state.state is FetchState.FETCHING:
            self._not_fetching.pop(tp, None)
        else:
            self._not_fetching[tp] = state
        state.restart_fetching(next(self._epochs))
        self.changed[tp] = None
        return True


LeaderOf = Callable[[TopicPartition], LeaderAndEpoch]
"""Returns a partition's leader according to metadata, :data:`NO_LEADER` if none is known."""
