"""Moves groups through rebalances: who is removed when, when the join phase ends, which requests are answered.

A rebalance in steps:

1. *Prepare*: somebody joined, left, fell silent or changed. Pending SyncGroups are sent back to join again.
2. *Join phase*: JoinGroups are held. It ends (:meth:`GroupRebalancer.maybe_complete_join`) when every member has come
   and every member id that was issued has been used or has expired, or after the longest of their rebalance
   timeouts; a group that was empty waits ``group.initial.rebalance.delay.ms`` instead, again and again while new
   members come, within that timeout. Dynamic members that did not come are removed.
3. *Next generation*: counted up, strategy chosen, pending JoinGroups answered. The leader gets everybody's
   subscription.
4. *Sync phase*: SyncGroups are held until the leader's brings the assignment and it is stored. Members that do not
   come within the rebalance timeout are removed, which starts the next rebalance.

If only static members are left and none of them came, the join phase begins again, and lasts a second at least.

Sessions: a member must be heard of within its session timeout. While a request of it is pending it counts as alive,
except in its very first join, which is given up after ``group.new.member.join.timeout``: its client may be gone, and
would otherwise leave one member behind for each retry. A static member that comes back leaves nothing behind, and its
next join is not its first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from pyconsumer.broker.deferred import PendingReplies
from pyconsumer.broker.group.classic.group_metadata import GroupMetadata, GroupState, MemberMetadata
from pyconsumer.broker.group.config import GroupConfig
from pyconsumer.broker.group.manager import GroupMetadataManager
from pyconsumer.broker.group.results import JoinMember, JoinResult, SyncResult
from pyconsumer.broker.timer import Timer, TimerHandle
from pyconsumer.clock import Clock
from pyconsumer.errors import Errors, error_name

__all__ = ["GroupRebalancer"]

_log = logging.getLogger(__name__)

#: How long a join phase lasts at least that nobody came to: a rebalance timeout may be 0.
_NOBODY_CAME_MS = 1000

_SYNC_STATES = (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)


class GroupRebalancer:
    """The rules above. All methods expect to be called inside ``with answers``."""

    def __init__(
        self, config: GroupConfig, manager: GroupMetadataManager, timer: Timer, clock: Clock, answers: PendingReplies
    ) -> None:
        self._config = config
        self._manager = manager
        self._timer = timer
        self._clock = clock
        self._answers = answers

    def _after(self, delay_ms: int, action: Callable[[], None]) -> TimerHandle:
        def run() -> None:
            try:
                with self._answers:
                    action()
            except Exception:
                _log.exception("A timer of the group coordinator failed")

        return self._timer.schedule(self._clock.now() + delay_ms / 1000, run)

    # Sessions

    def restart_session(self, group: GroupMetadata, member: MemberMetadata, timeout_ms: int | None = None) -> None:
        """The member was heard of: it has its session timeout (or ``timeout_ms``) from now."""
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.restart_heartbeat(self._after(timeout_ms, partial(self._expire_member, group, member)))

    def start_sessions(self, group: GroupMetadata) -> None:
        """The group was loaded: its members have one session timeout to show up."""
        for member in group.members.values():
            self.restart_session(group, member)

    def _expire_member(self, group: GroupMetadata, member: MemberMetadata) -> None:
        if group.is_(GroupState.DEAD) or group.members.get(member.member_id) is not member:
            return
        if member.has_satisfied_heartbeat:
            return  # It waits for us; its session starts again with the answer.
        _log.info("Member %s of group %s has failed: its session is over", member.member_id, group.group_id)
        self.remove_members(group, [member])
        self.after_removal(group, f"member {member.member_id} was not heard of within its session timeout")

    def add_pending_member(self, group: GroupMetadata, member_id: str, timeout_ms: int) -> None:
        """Issue an id that has to be used within the timeout."""
        group.add_pending_member(member_id, self._after(timeout_ms, partial(self._expire_pending, group, member_id)))

    def _expire_pending(self, group: GroupMetadata, member_id: str) -> None:
        if group.is_(GroupState.DEAD) or not group.remove_pending_member(member_id):
            return
        _log.info("Pending member %s of group %s did not join in time", member_id, group.group_id)
        self.maybe_complete_join(group)

    def remove_members(self, group: GroupMetadata, members: Iterable[MemberMetadata]) -> None:
        """Take members out and answer what they wait for; the rebalance that follows is :meth:`after_removal`."""
        for member in members:
            # A client that is still there joins again when it reads this.
            join = JoinResult(Errors.UNKNOWN_MEMBER_ID, "")
            self._answers.put(group.take_join_waiter(member), join)
            self._answers.put(member.take_sync_waiter(), SyncResult(Errors.UNKNOWN_MEMBER_ID))
            group.remove(member.member_id)

    def after_removal(self, group: GroupMetadata, reason: str) -> None:
        """Members are gone: rebalance, or continue with the join phase if they were what it waited for."""
        if group.is_(*_SYNC_STATES):
            self.prepare(group, reason)
        else:
            self.maybe_complete_join(group)

    # Join phase

    def maybe_prepare(self, group: GroupMetadata, reason: str) -> None:
        """Begin a rebalance, unless one is being prepared: then see whether that one can continue."""
        if group.can_rebalance:
            self.prepare(group, reason)
        else:
            self.maybe_complete_join(group)

    def prepare(self, group: GroupMetadata, reason: str) -> None:
        """Begin a rebalance.

        Args:
            reason: in words, for the log.
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
        group.start_join_timer(self._after(delay_ms, partial(self._complete_join, group)))

    def _wait_for_more(self, group: GroupMetadata, delay_ms: int, remaining_ms: int) -> None:
        def over() -> None:
            if group.new_member_added and remaining_ms != 0:
                group.note_new_member(False)
                next_ms = min(self._config.group_initial_rebalance_delay_ms, remaining_ms)
                self._wait_for_more(group, next_ms, max(remaining_ms - next_ms, 0))
            else:
                self._complete_join(group)

        group.start_join_timer(self._after(delay_ms, over))

    def maybe_complete_join(self, group: GroupMetadata) -> None:
        """End the join phase if nobody is missing. The one of a group that was empty lasts its time in any case."""
        if (
            group.is_(GroupState.PREPARING_REBALANCE)
            and group.previous_state is not GroupState.EMPTY
            and group.has_all_members_joined
        ):
            self._complete_join(group)

    def _complete_join(self, group: GroupMetadata) -> None:
        group.stop_join_timer()
        if group.is_(GroupState.DEAD):
            _log.info("Group %s is dead, so its rebalance ends here", group.group_id)
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
            # Only static members, and none came: their sessions decide.
            _log.error("Group %s could not complete its rebalance because no member rejoined", group.group_id)
            self._wait_for_members(group, _NOBODY_CAME_MS)
            return
        group.init_next_generation()
        self._log_generation(group)
        if group.is_(GroupState.EMPTY):
            stored = self._manager.store_group(group, {})
            stored.on_done(partial(self._on_empty_stored, group))
        else:
            self._answer_joins(group)

    def _answer_joins(self, group: GroupMetadata) -> None:
        everybody = group.current_member_metadata()
        for member in group.members.values():
            leads = group.is_leader(member.member_id)
            result = self.current_generation(group, member.member_id, everybody if leads else ())
            self._answers.put(group.take_join_waiter(member), result)
            self.restart_session(group, member)
            member.joined()
            group.pending_sync_members.add(member.member_id)
        expire = partial(self._expire_sync, group, group.generation_id)
        group.start_sync_timer(self._after(group.rebalance_timeout_ms, expire))

    @staticmethod
    def current_generation(
        group: GroupMetadata, member_id: str, members: tuple[JoinMember, ...] = (), *, leader: str | None = None
    ) -> JoinResult:
        """The answer to a join that is in the current generation."""
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
            # After a restart the last generation would be back, with members that soon time out: harmless.
            _log.warning(
                "Failed to write the empty registration of group %s: %s", group.group_id, error_name(error_code)
            )

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
            f"; gone: {', '.join(sorted(left))}" if left else "",
        )
        group.remember_members()

    # Sync phase

    def note_sync(self, group: GroupMetadata, member_id: str) -> None:
        """The member's SyncGroup has come; after the last one nothing is waited for any more."""
        group.pending_sync_members.discard(member_id)
        if not group.pending_sync_members:
            self._end_sync_phase(group)

    def _end_sync_phase(self, group: GroupMetadata) -> None:
        group.pending_sync_members.clear()
        group.stop_sync_timer()

    def _expire_sync(self, group: GroupMetadata, generation_id: int) -> None:
        if group.generation_id != generation_id or not group.is_(*_SYNC_STATES) or not group.pending_sync_members:
            return
        silent = [group.members[member_id] for member_id in group.pending_sync_members if group.has(member_id)]
        names = ", ".join(sorted(member.member_id for member in silent))
        self.remove_members(group, silent)
        self.prepare(group, f"no SyncGroup within the rebalance timeout from {names}")

    def reset_assignment(self, group: GroupMetadata, error_code: int) -> None:
        """Forget all assignments and answer pending SyncGroups with the error."""
        for member in group.members.values():
            member.assign(b"")
        self._propagate(group, error_code)

    def set_assignment(self, group: GroupMetadata, assignments: Mapping[str, bytes]) -> None:
        """Give every member its assignment, and answer pending SyncGroups with it."""
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
            self._answers.put(waiter, result)
            # Its session may have ended while it waited, and nobody would look at it again.
            self.restart_session(group, member)

    # The end

    def abandon(self, group: GroupMetadata) -> None:
        """This broker is no longer the group's coordinator: send everybody who waits to look for the new one."""
        self._end(group, Errors.NOT_COORDINATOR)

    def convert(self, group: GroupMetadata) -> None:
        """The group has become one of the consumer protocol: send everybody who waits to join that."""
        self._end(group, Errors.REBALANCE_IN_PROGRESS)

    def _end(self, group: GroupMetadata, error_code: int) -> None:
        group.transition_to(GroupState.DEAD)
        for member in group.members.values():
            self._answers.put(group.take_join_waiter(member), JoinResult(error_code, member.member_id))
            self._answers.put(member.take_sync_waiter(), SyncResult(error_code))
        group.stop_timers()
