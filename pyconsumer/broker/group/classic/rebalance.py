"""Rebalances of classic groups: session timeouts, the end of the join phase, removal of members, replies.

The state is the group's (:mod:`.group_metadata`). This module sets the group's timers. A rebalance in steps:

1. *Prepare*: a member joined, left, failed or changed. Pending SyncGroups get REBALANCE_IN_PROGRESS.
2. *Join phase*: JoinGroups are held. It ends (:meth:`GroupRebalancer.maybe_complete_join`) when all members have joined
   and every pending member has joined or expired, or after the longest rebalance timeout of the members. A group that
   was Empty waits ``group.initial.rebalance.delay.ms`` instead, again as long as new members join, within that timeout.
   Dynamic members that have not joined are removed.
3. *Next generation*: the generation id is raised, the protocol is chosen, and pending JoinGroups get their replies. The
   leader's has the metadata of all members.
4. *Sync phase*: SyncGroups are held until the leader's has brought the assignment and it is in the log. Members without
   a SyncGroup within the rebalance timeout are removed, which begins the next rebalance.

If only static members are left and none of them has joined, the join phase begins again and lasts at least a second.

Sessions: a member fails if it sends no heartbeat within its session timeout. While a request of it is pending it counts
as alive. The exception is its first JoinGroup, which is limited by ``group.new.member.join.timeout.ms``: otherwise a
client that has ended would leave one member for each retry. A static member leaves none, and once it has rejoined it is
no longer new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol

from pyconsumer.background_log import Log
from pyconsumer.broker.deferred import Deferred, PendingReplies
from pyconsumer.broker.group.classic.group_metadata import GroupMetadata, GroupState, MemberMetadata
from pyconsumer.broker.group.common.config import GroupConfig
from pyconsumer.broker.group.common.results import JoinMember, JoinResult, SyncResult
from pyconsumer.broker.timer import Timer, TimerHandle
from pyconsumer.clock import Clock
from pyconsumer.errors import Errors, error_name

__all__ = ["ClassicGroupStore", "GroupRebalancer"]

_log = Log(__name__)

#: The shortest time before a join phase in which no member joined ends again: the rebalance timeout may be 0.
_NO_MEMBER_JOINED_MS = 1000

_SYNC_STATES = (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)


class ClassicGroupStore(Protocol):
    """The part of the group manager that groups of the classic protocol need."""

    def partition_for(self, group_id: str) -> int:
        """Return a group's partition of ``__consumer_offsets``."""

    def store_group(self, group: GroupMetadata, assignments: Mapping[str, bytes]) -> Deferred[int]:
        """Write the group's record with these assignments. The result is an error code for clients."""


class GroupRebalancer:
    """Applies the module's rules to all classic groups of one coordinator. Call the methods inside ``with replies``."""

    def __init__(
        self, config: GroupConfig, manager: ClassicGroupStore, timer: Timer, clock: Clock, replies: PendingReplies
    ) -> None:
        self._config = config
        self._manager = manager
        self._timer = timer
        self._clock = clock
        self._replies = replies

    def _after(self, delay_ms: int, action: Callable[[], None]) -> TimerHandle:
        def run() -> None:
            try:
                with self._replies:
                    action()
            except Exception:
                _log.exception("A timer of the group coordinator failed")

        return self._timer.schedule(self._clock.now() + delay_ms / 1000, run)

    # Sessions

    def restart_session(self, group: GroupMetadata, member: MemberMetadata, timeout_ms: int | None = None) -> None:
        """Start the member's session timeout again. With ``timeout_ms``, that is the timeout."""
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.restart_heartbeat(self._after(timeout_ms, partial(self._expire_member, group, member)))

    def start_sessions(self, group: GroupMetadata) -> None:
        """Start the session timeouts of all members of a group that was loaded or converted."""
        for member in group.members.values():
            self.restart_session(group, member)

    def _expire_member(self, group: GroupMetadata, member: MemberMetadata) -> None:
        if group.is_(GroupState.DEAD) or group.members.get(member.member_id) is not member:
            return
        if member.has_satisfied_heartbeat:
            return  # a request of it is pending; the reply starts its session timeout again
        _log.info("Group %s: member %s has failed: its session has timed out", group.group_id, member.member_id)
        self.remove_members(group, [member])
        self.after_removal(group, f"member {member.member_id} sent no heartbeat within its session timeout")

    def add_pending_member(self, group: GroupMetadata, member_id: str, timeout_ms: int) -> None:
        """Add a pending member. It must join within the timeout."""
        group.add_pending_member(member_id, self._after(timeout_ms, partial(self._expire_pending, group, member_id)))

    def _expire_pending(self, group: GroupMetadata, member_id: str) -> None:
        if group.is_(GroupState.DEAD) or not group.remove_pending_member(member_id):
            return
        _log.info("Group %s: pending member %s did not join in time", group.group_id, member_id)
        self.maybe_complete_join(group)

    def remove_members(self, group: GroupMetadata, members: Iterable[MemberMetadata]) -> None:
        """Remove members. Their pending requests get UNKNOWN_MEMBER_ID. Call :meth:`after_removal` next."""
        for member in members:
            # A client that still runs joins again when it gets this.
            join = JoinResult(Errors.UNKNOWN_MEMBER_ID, "")
            self._replies.put(group.take_join_waiter(member), join)
            self._replies.put(member.take_sync_waiter(), SyncResult(Errors.UNKNOWN_MEMBER_ID))
            group.remove(member.member_id)

    def after_removal(self, group: GroupMetadata, reason: str) -> None:
        """Begin a rebalance, because members were removed. If the join phase waited only for these members, end it."""
        if group.is_(*_SYNC_STATES):
            self.prepare(group, reason)
        else:
            self.maybe_complete_join(group)

    # Join phase

    def maybe_prepare(self, group: GroupMetadata, reason: str) -> None:
        """Begin a rebalance. If one is in its join phase and all members have joined, end that phase instead."""
        if group.can_rebalance:
            self.prepare(group, reason)
        else:
            self.maybe_complete_join(group)

    def prepare(self, group: GroupMetadata, reason: str) -> None:
        """Begin a rebalance.

        Args:
            reason: for the log line.
        """
        if group.is_(GroupState.COMPLETING_REBALANCE):
            self.reset_assignment(group, Errors.REBALANCE_IN_PROGRESS)
        self._end_sync_phase(group)
        _log.info(
            "Preparing to rebalance group %s in state %s with old generation %d (__consumer_offsets-%d): %s",
            group.group_id,
            group.state,
            group.generation_id,
            self._manager.partition_for(group.group_id),
            reason,
        )
        initial = group.is_(GroupState.EMPTY)
        group.transition_to(GroupState.PREPARING_REBALANCE)
        group.begin_rebalance(reason, self._clock.now())
        if initial:
            delay_ms = self._config.group_initial_rebalance_delay_ms
            self._wait_for_more(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        else:
            self._wait_for_members(group)
            self.maybe_complete_join(group)

    def _wait_for_members(self, group: GroupMetadata, least_ms: int = 0) -> None:
        delay_ms = max(group.rebalance_timeout_ms, least_ms)
        group.join_timer.start(self._after(delay_ms, partial(self._complete_join, group)))

    def _wait_for_more(self, group: GroupMetadata, delay_ms: int, remaining_ms: int) -> None:
        def over() -> None:
            if group.new_member_added and remaining_ms != 0:
                group.note_new_member(False)
                next_ms = min(self._config.group_initial_rebalance_delay_ms, remaining_ms)
                self._wait_for_more(group, next_ms, max(remaining_ms - next_ms, 0))
            else:
                self._complete_join(group)

        group.join_timer.start(self._after(delay_ms, over))

    def maybe_complete_join(self, group: GroupMetadata) -> None:
        """End the join phase if all members have joined.

        If the group was Empty before, its join phase lasts for the whole initial delay.
        """
        if (
            group.is_(GroupState.PREPARING_REBALANCE)
            and group.previous_state is not GroupState.EMPTY
            and group.has_all_members_joined
        ):
            self._complete_join(group)

    def _complete_join(self, group: GroupMetadata) -> None:
        group.join_timer.stop()
        if group.is_(GroupState.DEAD):
            _log.info("Group %s: its rebalance ends because the group is dead", group.group_id)
            return
        missing = [member for member in group.not_yet_rejoined if not member.is_static]
        if missing:
            self.remove_members(group, missing)
            _log.info(
                "Group %s: removed dynamic members that did not rejoin: %s",
                group.group_id,
                ", ".join(member.member_id for member in missing),
            )
        if not group.maybe_elect_joined_leader() and group.members:
            # Only static members are left, and none has joined: they stay until their sessions time out.
            _log.error("Group %s could not complete its rebalance because no member rejoined", group.group_id)
            self._wait_for_members(group, _NO_MEMBER_JOINED_MS)
            return
        group.init_next_generation()
        self._log_generation(group)
        if group.is_(GroupState.EMPTY):
            stored = self._manager.store_group(group, {})
            stored.on_done(partial(self._on_empty_stored, group))
        else:
            self._reply_to_joins(group)

    def _reply_to_joins(self, group: GroupMetadata) -> None:
        all_members = group.current_member_metadata()
        for member in group.members.values():
            leads = group.is_leader(member.member_id)
            result = self.current_generation(group, member.member_id, all_members if leads else ())
            self._replies.put(group.take_join_waiter(member), result)
            self.restart_session(group, member)
            member.joined()
            group.pending_sync_members.add(member.member_id)
        expire = partial(self._expire_sync, group, group.generation_id)
        group.sync_timer.start(self._after(group.rebalance_timeout_ms, expire))

    @staticmethod
    def current_generation(
        group: GroupMetadata, member_id: str, members: tuple[JoinMember, ...] = (), *, leader: str | None = None
    ) -> JoinResult:
        """Return the reply to a JoinGroup of a member that stays in the current generation."""
        return JoinResult(
            Errors.NONE,
            member_id,
            members,
            group.generation_id,
            group.protocol_type,
            group.protocol_name,
            (leader if leader is not None else group.leader_id) or "",
        )

    def _on_empty_stored(self, group: GroupMetadata, error_code: int) -> None:
        if error_code != Errors.NONE:
            # Harmless: after a restart the group has its last generation, whose members soon time out.
            _log.warning("Group %s: its Empty state could not be written: %s", group.group_id, error_name(error_code))

    def _log_generation(self, group: GroupMetadata) -> None:
        now = frozenset(group.members)
        joined, left = now - group.last_members, group.last_members - now
        _log.info(
            "Group %s is %s in generation %d (__consumer_offsets-%d) after %.3f s: %s; %d members%s%s%s",
            group.group_id,
            "empty" if group.is_(GroupState.EMPTY) else "stabilized",
            group.generation_id,
            self._manager.partition_for(group.group_id),
            self._clock.now() - group.rebalance_started,
            group.rebalance_reason or "no reason known",
            len(now),
            f", protocol {group.protocol_name}, leader {group.leader_id}" if now else "",
            f"; joined: {', '.join(sorted(joined))}" if joined else "",
            f"; left: {', '.join(sorted(left))}" if left else "",
        )
        group.remember_members()

    # Sync phase

    def note_sync(self, group: GroupMetadata, member_id: str) -> None:
        """Record that a member has sent its SyncGroup.

        After the last one, the timer for missing SyncGroups is cancelled.
        """
        group.pending_sync_members.discard(member_id)
        if not group.pending_sync_members:
            self._end_sync_phase(group)

    def _end_sync_phase(self, group: GroupMetadata) -> None:
        group.pending_sync_members.clear()
        group.sync_timer.stop()

    def _expire_sync(self, group: GroupMetadata, generation_id: int) -> None:
        if group.generation_id != generation_id or not group.is_(*_SYNC_STATES) or not group.pending_sync_members:
            return
        missing = [group.members[member_id] for member_id in group.pending_sync_members if group.has(member_id)]
        names = ", ".join(sorted(member.member_id for member in missing))
        self.remove_members(group, missing)
        self.prepare(group, f"no SyncGroup within the rebalance timeout from {names}")

    def reset_assignment(self, group: GroupMetadata, error_code: int) -> None:
        """Remove all assignments. Pending SyncGroups get the error."""
        for member in group.members.values():
            member.assign(b"")
        self._propagate(group, error_code)

    def set_assignment(self, group: GroupMetadata, assignments: Mapping[str, bytes]) -> None:
        """Set the assignment of every member. Pending SyncGroups get it."""
        for member in group.members.values():
            member.assign(assignments.get(member.member_id, b""))
        self._propagate(group, Errors.NONE)

    def _propagate(self, group: GroupMetadata, error_code: int) -> None:
        for member in group.members.values():
            waiter = member.take_sync_waiter()
            if waiter is None:
                continue
            if error_code == Errors.NONE:
                result = SyncResult(Errors.NONE, member.assignment, group.protocol_type, group.protocol_name)
            else:
                result = SyncResult(error_code)
            self._replies.put(waiter, result)
            # The timer may have run out while the request was pending; without a new one the member could never fail.
            self.restart_session(group, member)

    # End of a group

    def abandon(self, group: GroupMetadata) -> None:
        """End a group that this broker no longer coordinates. Its pending requests get NOT_COORDINATOR."""
        self._end(group, Errors.NOT_COORDINATOR)

    def convert(self, group: GroupMetadata) -> None:
        """End a group that became a group of the consumer protocol. Its pending requests get REBALANCE_IN_PROGRESS."""
        self._end(group, Errors.REBALANCE_IN_PROGRESS)

    def _end(self, group: GroupMetadata, error_code: int) -> None:
        group.transition_to(GroupState.DEAD)
        for member in group.members.values():
            self._replies.put(group.take_join_waiter(member), JoinResult(error_code, member.member_id))
            self._replies.put(member.take_sync_waiter(), SyncResult(error_code))
        group.stop_timers()
