"""JoinGroup of the classic protocol: who may join, fencing of static members, and when a rebalance begins.

The state is the group's. When the join phase ends, because all members have joined or the time is over, is decided in
:mod:`.rebalance`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyconsumer.background_log import Log
from pyconsumer.broker.deferred import Deferred, PendingReplies
from pyconsumer.broker.group.classic.group_metadata import GroupMetadata, GroupState, MemberMetadata, Protocols
from pyconsumer.broker.group.classic.rebalance import ClassicGroupStore, GroupRebalancer
from pyconsumer.broker.group.common.config import GroupConfig
from pyconsumer.broker.group.common.results import JoinResult, SyncResult
from pyconsumer.errors import Errors, IllegalStateError

__all__ = ["JoinHandler", "JoinRequest"]

_log = Log(__name__)

#: The longest string on the wire, in bytes.
_LONGEST_ID = 32_767


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """The fields of a JoinGroup request.

    Args:
        member_id: the member's id, empty for a new member.
        require_known_member_id: True gives a new dynamic member the error MEMBER_ID_REQUIRED and its id first (KIP-394,
            JoinGroup from version 4 on).
        can_skip_assignment: True if the client understands ``skip_assignment`` (KIP-814, JoinGroup from version 9 on).
        protocols: the protocols that the member supports, in order of preference. Each name occurs once.
        reason: why the client joins, for log lines (KIP-800).
    """

    group_id: str
    member_id: str = ""
    group_instance_id: str | None = None
    require_known_member_id: bool = True
    can_skip_assignment: bool = True
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    reason: str | None = None

    @property
    def client_reason(self) -> str:
        return self.reason or "not provided"


class JoinHandler:
    """Handles JoinGroup requests for groups that exist.

    Args:
        new_uuid: returns the unique part of a member id.
    """

    def __init__(
        self,
        config: GroupConfig,
        manager: ClassicGroupStore,
        rebalancer: GroupRebalancer,
        replies: PendingReplies,
        new_uuid: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._config = config
        self._manager = manager
        self._rebalancer = rebalancer
        self._replies = replies
        self._new_uuid = new_uuid

    def join(self, group: GroupMetadata, request: JoinRequest, waiter: Deferred[JoinResult]) -> None:
        """Handle a request. ``waiter`` is set at once, or when the join phase ends.

        Call this inside ``with replies``.
        """
        member_id = request.member_id
        if not self._accepts(group, member_id):
            member = group.members.get(member_id)
            if member is not None:
                self._rebalancer.remove_members(group, [member])
            group.remove_pending_member(member_id)
            self._fail(waiter, Errors.GROUP_MAX_SIZE_REACHED, "")
        elif group.is_(GroupState.DEAD):
            # The group was removed a moment ago; perhaps another broker coordinates it now.
            self._fail(waiter, Errors.COORDINATOR_NOT_AVAILABLE, member_id)
        elif not group.supports_protocols(request.protocol_type, request.protocols):
            self._fail(waiter, Errors.INCONSISTENT_GROUP_PROTOCOL, member_id)
        elif not member_id:
            self._join_unknown(group, request, waiter)
        else:
            self._join_known(group, request, waiter)
        self._rebalancer.maybe_complete_join(group)

    def _fail(self, waiter: Deferred[JoinResult], error_code: int, member_id: str) -> None:
        self._replies.put(waiter, JoinResult(error_code, member_id))

    def _accepts(self, group: GroupMetadata, member_id: str) -> bool:
        """Return whether ``group.max.size`` allows the member.

        In the join phase only the members with a pending JoinGroup count, so that the last to rejoin are rejected if
        the limit was lowered. Outside it the size of the group counts.
        """
        limit = self._config.group_max_size
        member = group.members.get(member_id)
        if group.is_(GroupState.EMPTY, GroupState.DEAD):
            return True
        if group.is_(GroupState.PREPARING_REBALANCE):
            return (member is not None and member.is_awaiting_join) or group.num_members_awaiting_join < limit
        return member is not None or group.size < limit

    # A new member

    def _join_unknown(self, group: GroupMetadata, request: JoinRequest, waiter: Deferred[JoinResult]) -> None:
        new_id = f"{request.group_instance_id or request.client_id}-{self._new_uuid()}"
        if len(new_id.encode()) > _LONGEST_ID:
            # Such an id fits neither into a response nor into the group's record.
            self._fail(waiter, Errors.INVALID_REQUEST, "")
        elif group.has_static_member(request.group_instance_id):
            self._replace_static(group, request, new_id, waiter)
        elif request.require_known_member_id and request.group_instance_id is None:
            _log.debug("Group %s: issued member id %s, with which the member is to join", group.group_id, new_id)
            self._rebalancer.add_pending_member(group, new_id, request.session_timeout_ms)
            self._fail(waiter, Errors.MEMBER_ID_REQUIRED, new_id)
        else:
            _log.info("Group %s: %s joins without an id as %s", group.group_id, request.client_id, new_id)
            self._add(group, request, new_id, waiter)

    def _add(self, group: GroupMetadata, request: JoinRequest, member_id: str, waiter: Deferred[JoinResult]) -> None:
        member = MemberMetadata(
            member_id,
            group.group_id,
            group_instance_id=request.group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            supported_protocols=request.protocols,
            is_new=True,
        )
        if group.is_(GroupState.PREPARING_REBALANCE) and group.previous_state is GroupState.EMPTY:
            group.note_new_member()
        group.add(member, waiter)
        # The member does not know its id yet and cannot send heartbeats, so its session timeout does not apply.
        self._rebalancer.restart_session(group, member, self._config.group_new_member_join_timeout_ms)
        if member.is_static:
            _log.info("Group %s: added static member %s as %s", group.group_id, request.group_instance_id, member_id)
        self._rebalancer.maybe_prepare(
            group,
            f"new member {member_id} with instance id {request.group_instance_id}; "
            f"client reason: {request.client_reason}",
        )

    def _replace_static(
        self, group: GroupMetadata, request: JoinRequest, new_id: str, waiter: Deferred[JoinResult]
    ) -> None:
        """Give the instance id to the member that joins with it. The one that had it before is fenced."""
        instance_id = request.group_instance_id
        assert instance_id is not None
        old_id = group.static_members[instance_id]
        old_leader = group.leader_id
        member = group.get(old_id)
        self._replies.put(group.take_join_waiter(member), JoinResult(Errors.FENCED_INSTANCE_ID, old_id))
        self._replies.put(member.take_sync_waiter(), SyncResult(Errors.FENCED_INSTANCE_ID))
        before = (member.supported_protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        group.replace_static_member(instance_id, old_id, new_id)
        group.update_member(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms, waiter)
        member.joined()
        self._rebalancer.restart_session(group, member)
        _log.info(
            "Group %s in state %s: static member %s rejoins as %s; its member id was %s",
            group.group_id,
            group.state,
            instance_id,
            new_id,
            old_id,
        )
        if group.is_(GroupState.STABLE) and group.select_protocol() == group.protocol_name:
            # Nothing changes for the other members, so there is no rebalance; but the new id must survive a restart.
            undo = partial(self._undo_replacement, group, member, old_id, before)
            assignments = {one.member_id: one.assignment for one in group.members.values()}
            self._manager.store_group(group, assignments).on_done(
                partial(self._on_replacement_stored, group, member, waiter, request, old_leader, undo)
            )
        elif group.is_(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            # In CompletingRebalance the leader may be assigning partitions to the old id at this moment.
            self._rebalancer.prepare(
                group, f"static member {instance_id} rejoined as {new_id}; client reason: {request.client_reason}"
            )
        elif not group.is_(GroupState.PREPARING_REBALANCE):
            raise IllegalStateError(f"static member {instance_id} cannot rejoin a group in state {group.state}")

    def _on_replacement_stored(
        self,
        group: GroupMetadata,
        member: MemberMetadata,
        waiter: Deferred[JoinResult],
        request: JoinRequest,
        old_leader: str | None,
        undo: Callable[[], None],
        error_code: int,
    ) -> None:
        with self._replies:
            if not group.is_(GroupState.STABLE) or member.join_waiter is not waiter:
                return  # a rebalance that began in the meantime replies to it, or it has its reply already
            if error_code != Errors.NONE:
                group.take_join_waiter(member)
                self._fail(waiter, error_code, "")
                undo()
                return
            group.take_join_waiter(member)
            self._rebalancer.restart_session(group, member)
            if request.can_skip_assignment:
                leads = group.is_leader(member.member_id)
                all_members = group.current_member_metadata() if leads else ()
                result = self._rebalancer.current_generation(group, member.member_id, all_members)
                self._replies.put(waiter, result._replace(skip_assignment=leads))
            else:
                # It must not compute an assignment: with its old id as the leader it does not take itself for it.
                result = self._rebalancer.current_generation(group, member.member_id, leader=old_leader)
                self._replies.put(waiter, result)

    def _undo_replacement(
        self, group: GroupMetadata, member: MemberMetadata, old_id: str, before: tuple[Protocols, int, int]
    ) -> None:
        assert member.group_instance_id is not None
        _log.warning(
            "Group %s: the new id %s of static member %s could not be written; its id is %s again",
            group.group_id,
            member.member_id,
            member.group_instance_id,
            old_id,
        )
        group.update_member(member, *before, None)
        group.replace_static_member(member.group_instance_id, member.member_id, old_id)
        self._rebalancer.restart_session(group, member)

    # A member that has an id

    def _join_known(self, group: GroupMetadata, request: JoinRequest, waiter: Deferred[JoinResult]) -> None:
        member_id = request.member_id
        if group.is_pending_member(member_id):
            if request.group_instance_id is not None:
                raise IllegalStateError(
                    f"static member {request.group_instance_id} was given the pending id {member_id}"
                )
            _log.debug("Group %s: pending member %s joins", group.group_id, member_id)
            self._add(group, request, member_id, waiter)
            return
        error_code = check_member(group, member_id, request.group_instance_id)
        if error_code != Errors.NONE:
            self._fail(waiter, error_code, member_id)
            return
        member = group.get(member_id)
        changed = not member.matches(request.protocols)
        if group.is_(GroupState.PREPARING_REBALANCE):
            self._update(group, member, request, waiter, "rejoins")
        elif group.is_(GroupState.COMPLETING_REBALANCE) and not changed:
            # It has joined this generation and did not get the response.
            all_members = group.current_member_metadata() if group.is_leader(member_id) else ()
            self._replies.put(waiter, self._rebalancer.current_generation(group, member_id, all_members))
        elif group.is_(GroupState.STABLE) and not changed and not group.is_leader(member_id):
            self._replies.put(waiter, self._rebalancer.current_generation(group, member_id))
        elif group.is_(GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            # The leader also rejoins for changes that are not in its own subscription, such as more partitions.
            what = "changed its subscription" if changed else "is the leader and asks for a rebalance"
            self._update(group, member, request, waiter, what)
        else:
            _log.warning("Group %s: %s rejoins in the unexpected state %s", group.group_id, member_id, group.state)
            self._fail(waiter, Errors.UNKNOWN_MEMBER_ID, member_id)

    def _update(
        self,
        group: GroupMetadata,
        member: MemberMetadata,
        request: JoinRequest,
        waiter: Deferred[JoinResult],
        what: str,
    ) -> None:
        # Nobody will read the response to an earlier JoinGroup; it must not stay pending for ever.
        earlier = group.take_join_waiter(member)
        self._replies.put(earlier, JoinResult(Errors.REBALANCE_IN_PROGRESS, member.member_id))
        group.update_member(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms, waiter)
        self._rebalancer.maybe_prepare(
            group, f"member {member.member_id} {what}; client reason: {request.client_reason}"
        )


def check_member(group: GroupMetadata, member_id: str, group_instance_id: str | None) -> int:
    """Check that the member is in the group, and that no other member has its instance id. Return an error code."""
    if group_instance_id is not None:
        if group.is_static_member_fenced(member_id, group_instance_id):
            return Errors.FENCED_INSTANCE_ID
        if not group.has_static_member(group_instance_id):
            return Errors.UNKNOWN_MEMBER_ID
    return Errors.NONE if group.has(member_id) else Errors.UNKNOWN_MEMBER_ID
