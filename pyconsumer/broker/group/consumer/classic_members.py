"""Members of a consumer group that use the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Such a member's state is that of any other member. Its generation is its member epoch, and its protocol the first of
those that it supports. JoinGroup does what a heartbeat of the consumer protocol does: the owned partitions of the
subscription confirm revocations. The reply comes without a join phase, and the SyncGroup response has the partitions
that the member may use. While the member is behind the target assignment, its Heartbeat gets REBALANCE_IN_PROGRESS. It
then has its rebalance timeout to join again.

A member that is not in the group but owns partitions was removed and does not know it yet. Other members may own these
partitions by now. It gets UNKNOWN_MEMBER_ID, which makes it revoke everything first. (Kafka 4.3.1 lets it join, and it
keeps its partitions until it has its SyncGroup response: two members may own one.)

Under the policy ``upgrade`` all remaining members of a consumer group may use the classic protocol. If the target
assignment could not be computed when the last other member left, because the previous computation was too recent
(KIP-1263), a Heartbeat gets REBALANCE_IN_PROGRESS as soon as it can. (In Kafka 4.3.1 it does not: the partitions of the
member that left have no owner until a member joins.)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pyconsumer.background_log import Log
from pyconsumer.broker.deferred import Deferred, PendingReplies
from pyconsumer.broker.group.classic.admission import JoinRequest
from pyconsumer.broker.group.common.config import GroupConfig
from pyconsumer.broker.group.common.results import JoinResult, LeaveResult, LeavingMember, SyncResult
from pyconsumer.broker.group.consumer.group import ConsumerGroup
from pyconsumer.broker.group.consumer.member import ClassicMember, ConsumerGroupMember, MemberState
from pyconsumer.broker.group.consumer.membership import ConsumerGroups, MemberUpdate
from pyconsumer.broker.group.consumer.migration import encode_target, read_subscription
from pyconsumer.broker.group.consumer.rules import (
    check_instance_fenced,
    check_not_full,
    known_member,
    known_static_member,
)
from pyconsumer.broker.group.consumer.timers import Deadline
from pyconsumer.broker.group.consumer.topics import from_names, to_names
from pyconsumer.broker.group.consumer.writer import Change
from pyconsumer.errors import (
    BrokerResponseError,
    Errors,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    ProtocolError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

__all__ = ["ClassicMembers"]

_log = Log(__name__)

_PROTOCOL_TYPE = ConsumerGroup.protocol_type


class ClassicMembers:
    """Serves requests of the classic protocol for groups of the consumer protocol.

    Call the methods inside ``with replies``.
    """

    def __init__(self, config: GroupConfig, groups: ConsumerGroups, replies: PendingReplies) -> None:
        self._config = config
        self._groups = groups
        self._replies = replies

    def join(self, group: ConsumerGroup, request: JoinRequest, reply: Deferred[JoinResult]) -> None:
        """Serve JoinGroup."""
        try:
            self._join(group, request, reply)
        except BrokerResponseError as error:
            _log.info("Group %s: rejected the JoinGroup of client %s: %s", group.group_id, request.client_id, error)
            self._replies.put(reply, JoinResult(error.errno, request.member_id))

    def _join(self, group: ConsumerGroup, request: JoinRequest, reply: Deferred[JoinResult]) -> None:
        groups, group_id, instance_id = self._groups, group.group_id, request.group_instance_id
        if not self._config.migration_policy.allows_classic_members:
            raise InconsistentGroupProtocolError(
                f"Cannot join the consumer group {group_id} with the classic protocol because the group migration is "
                "disabled."
            )
        is_new = not request.member_id
        member_id = request.member_id or groups.new_member_id()
        check_not_full(group, member_id, self._config.group_consumer_max_size)
        supported = group.classic_protocols
        if request.protocol_type != _PROTOCOL_TYPE or not any(
            supported[name] == group.classic_count for name, _ in request.protocols
        ):
            raise InconsistentGroupProtocolError(f"Member {member_id}'s protocols are not supported.")
        if is_new and request.require_known_member_id:
            self._replies.put(reply, JoinResult(Errors.MEMBER_ID_REQUIRED, member_id))
            return
        change = Change(group)
        if instance_id is None:
            member = group.members.get(member_id) or ConsumerGroupMember(member_id)
        else:
            member = groups.static_member(change, member_id, instance_id, joins=is_new, classic=True)
        downgrades = groups.migration.may_downgrade_with(group, group.static_member(instance_id))
        try:
            subscription = read_subscription(request.protocols[0][1])
        except ProtocolError:
            raise InconsistentGroupProtocolError("Malformed embedded consumer protocol in the subscription.") from None
        if member_id not in group.members and instance_id is None and subscription.owned_partitions:
            raise UnknownMemberIdError(f"Member {member_id} is no longer in group {group_id}.")
        updated = member.replace(
            instance_id=instance_id if instance_id is not None else member.instance_id,
            rack_id=subscription.rack_id or member.rack_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            topic_names=frozenset(subscription.topics),
            topic_regex="",
            client_id=request.client_id,
            client_host=request.client_host,
            classic=ClassicMember(request.session_timeout_ms, tuple(request.protocols)),
        )
        update = groups.update_member(change, member, updated)
        named = ((one.topic, one.partitions) for one in subscription.owned_partitions)
        owned = [(topic_id, sorted(indexes)) for topic_id, indexes in from_names(named, groups.image).items()]
        if downgrades:
            self._downgrade(change, update, owned, request, reply)
            return
        epoch, target = groups.update_target(change, update)
        after = groups.reconcile(change, update, epoch, target, owned)
        groups.writer.write(
            change, reply, _joined(after), _join_failed, partial(self._on_joined, group, after, request)
        )

    def _on_joined(self, group: ConsumerGroup, member: ConsumerGroupMember, request: JoinRequest) -> None:
        groups = self._groups
        groups.timers.cancel(group.group_id, member.member_id, Deadline.JOIN)
        present = group.members.get(member.member_id)
        if group.is_dead or present is None:
            return
        groups.start_session(group, present)
        groups.set_deadline(
            group,
            member.member_id,
            Deadline.SYNC,
            request.rebalance_timeout_ms,
            "it sent no SyncGroup within its rebalance timeout",
        )

    def _downgrade(
        self,
        change: Change,
        update: MemberUpdate,
        owned: Sequence[tuple[bytes, Sequence[int]]],
        request: JoinRequest,
        reply: Deferred[JoinResult],
    ) -> None:
        """Convert the group to a classic one, because a classic member replaces the last one of this protocol."""
        group, after = change.group, update.after
        reason = None
        if group.assignment_epoch < update.epoch:
            reason = f"Downgrade group {group.group_id} from consumer to classic with stale assignment."
        else:
            target = group.target_of(after.member_id, after.instance_id)
            after = self._groups.reconcile(change, update, group.assignment_epoch, target, owned)
        self._groups.migration.to_classic(group, joining=after, rebalance=reason, change=change)
        self._groups.writer.write(change, reply, _joined(after), _join_failed)

    def sync(
        self,
        group: ConsumerGroup,
        generation_id: int,
        member_id: str,
        instance_id: str | None,
        protocol_type: str | None,
        protocol_name: str | None,
        reply: Deferred[SyncResult],
    ) -> None:
        """Serve SyncGroup. The reply has the partitions that the member may use now."""
        try:
            member, classic = self._member(group, member_id, instance_id, generation_id)
            if protocol_type not in (None, _PROTOCOL_TYPE):
                raise InconsistentGroupProtocolError(f"The protocol type {protocol_type} is not {_PROTOCOL_TYPE}.")
            if protocol_name not in (None, classic.protocol_name):
                raise InconsistentGroupProtocolError(f"The protocol name {protocol_name} is not that of JoinGroup.")
            is_behind = group.assignment_epoch > member.member_epoch
            if is_behind and member.state is not MemberState.UNREVOKED_PARTITIONS:
                self._start_join_timeout(group, member)
                raise RebalanceInProgressError(f"Member {member_id} has to join again to get its target assignment.")
        except BrokerResponseError as error:
            self._replies.put(reply, SyncResult(error.errno))
            return
        assignment = encode_target(to_names(member.assigned, self._groups.image), classic.protocols[0][1])
        result = SyncResult(Errors.NONE, assignment, protocol_type, protocol_name)

        def on_stored() -> None:
            self._groups.timers.cancel(group.group_id, member_id, Deadline.SYNC)
            if not group.is_dead and member_id in group.members:
                self._groups.start_session(group, group.members[member_id])

        self._groups.writer.write(Change(group), reply, result, SyncResult, on_stored)

    def heartbeat(self, group: ConsumerGroup, generation_id: int, member_id: str, instance_id: str | None) -> int:
        """Serve Heartbeat. Return an error code. REBALANCE_IN_PROGRESS makes the member join again."""
        try:
            member, _ = self._member(group, member_id, instance_id, generation_id)
        except BrokerResponseError as error:
            return error.errno
        self._groups.start_session(group, member)
        if (
            member.member_epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member))
            or self._needs_join_for_target(group)
        ):
            self._start_join_timeout(group, member)
            return Errors.REBALANCE_IN_PROGRESS
        return Errors.NONE

    def _needs_join_for_target(self, group: ConsumerGroup) -> bool:
        """Return whether a target assignment is due, and no member sends the heartbeats that would compute it."""
        all_classic = group.classic_count == len(group.members)
        return all_classic and self._groups.target_is_due(group, group.group_epoch)

    def leave(self, group: ConsumerGroup, leaving: Sequence[LeavingMember]) -> Deferred[LeaveResult]:
        """Serve LeaveGroup. An administrator may use it to remove members of the consumer protocol, too."""
        results, members = [], {}
        for one in leaving:
            try:
                if one.group_instance_id is None:
                    member = known_member(group, one.member_id)
                else:
                    member = known_static_member(group, one.group_instance_id)
                    if one.member_id:
                        check_instance_fenced(member, one.member_id, one.group_instance_id)
            except BrokerResponseError as error:
                results.append(one._replace(error_code=error.errno))
                continue
            results.append(one)
            members[member.member_id] = member
        reply: Deferred[LeaveResult] = Deferred()
        result = LeaveResult(Errors.NONE, tuple(results))
        self._groups.remove(group, members.values(), reply, result, LeaveResult)
        return reply

    def _member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
    ) -> tuple[ConsumerGroupMember, ClassicMember]:
        if instance_id is None:
            member = known_member(group, member_id)
        else:
            member = known_static_member(group, instance_id)
            check_instance_fenced(member, member_id, instance_id)
        if member.classic is None:
            raise UnknownMemberIdError(f"Member {member_id} does not use the classic protocol.")
        if member.member_epoch != generation_id:
            raise IllegalGenerationError(f"Generation {generation_id} is not member epoch {member.member_epoch}.")
        return member, member.classic

    def _start_join_timeout(self, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
        self._groups.set_deadline(
            group,
            member.member_id,
            Deadline.JOIN,
            member.rebalance_timeout_ms,
            "it did not join again within its rebalance timeout",
            if_absent=True,
        )


def _joined(member: ConsumerGroupMember) -> JoinResult:
    assert member.classic is not None
    return JoinResult(
        Errors.NONE,
        member.member_id,
        generation_id=member.member_epoch,
        protocol_type=_PROTOCOL_TYPE,
        protocol_name=member.classic.protocol_name,
    )


def _join_failed(code: int) -> JoinResult:
    return JoinResult(code, "")
