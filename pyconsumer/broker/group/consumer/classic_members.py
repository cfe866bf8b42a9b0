"""Members of the classic protocol inside a consumer group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Such a member is a member like any other; its generation is its member epoch, and its strategy the first of its own
list. JoinGroup is its heartbeat of the consumer protocol: the owned partitions of its subscription say what it has
given up. It is answered at once, without a join phase, and SyncGroup brings what it may use. Heartbeat sends it to join
again while it is behind the target assignment; then it has its rebalance timeout to do so.

A member that is not in the group and says that it owns partitions was taken out of it, and does not know that yet: what
it had may be somebody else's by now. UNKNOWN_MEMBER_ID makes it give everything up first. (Kafka 4.3.1 takes it in, and
it keeps its partitions until it has read its SyncGroup: two members may own one.)

Under the policy ``upgrade`` classic members can be left alone in a consumer group. If the last computation of a target
was too recent when the last other member left (KIP-1263), Heartbeat sends a member to join as soon as it is not. (In
Kafka 4.3.1 it does not: what the other one had stays without an owner until somebody joins.)
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from pyconsumer.broker.deferred import Deferred, PendingReplies
from pyconsumer.broker.group.classic.join import JoinRequest
from pyconsumer.broker.group.config import GroupConfig
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
from pyconsumer.broker.group.results import JoinResult, LeaveResult, LeavingMember, SyncResult
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

_log = logging.getLogger(__name__)

_PROTOCOL_TYPE = ConsumerGroup.protocol_type


class ClassicMembers:
    """Serves the classic protocol to members of consumer groups. Call inside ``with answers``."""

    def __init__(self, config: GroupConfig, groups: ConsumerGroups, answers: PendingReplies) -> None:
        self._config = config
        self._groups = groups
        self._answers = answers

    def join(self, group: ConsumerGroup, request: JoinRequest, answer: Deferred[JoinResult]) -> None:
        """JoinGroup."""
        try:
            self._join(group, request, answer)
        except BrokerResponseError as error:
            _log.info("Group %s: JoinGroup of %s is refused: %s", group.group_id, request.client_id, error)
            self._answers.put(answer, JoinResult(error.errno, request.member_id))

    def _join(self, group: ConsumerGroup, request: JoinRequest, answer: Deferred[JoinResult]) -> None:
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
            self._answers.put(answer, JoinResult(Errors.MEMBER_ID_REQUIRED, member_id))
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
            raise UnknownMemberIdError(f"Member {member_id} is not in group {group_id} any more.")
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
            self._downgrade(change, update, owned, request, answer)
            return
        epoch, target = groups.update_target(change, update)
        after = groups.reconcile(change, update, epoch, target, owned)
        groups.writer.write(
            change, answer, _joined(after), _join_failed, partial(self._on_joined, group, after, request)
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
            "the member failed to sync within timeout",
        )

    def _downgrade(
        self,
        change: Change,
        update: MemberUpdate,
        owned: Sequence[tuple[bytes, Sequence[int]]],
        request: JoinRequest,
        answer: Deferred[JoinResult],
    ) -> None:
        """Make the group a classic one, because the last member of the consumer protocol is replaced."""
        group, after = change.group, update.after
        reason = None
        if group.assignment_epoch < update.epoch:
            reason = f"Downgrade group {group.group_id} from consumer to classic with stale assignment."
        else:
            target = group.target_of(after.member_id, after.instance_id)
            after = self._groups.reconcile(change, update, group.assignment_epoch, target, owned)
        self._groups.migration.to_classic(group, joining=after, rebalance=reason, change=change)
        self._groups.writer.write(change, answer, _joined(after), _join_failed)

    def sync(
        self,
        group: ConsumerGroup,
        generation_id: int,
        member_id: str,
        instance_id: str | None,
        protocol_type: str | None,
        protocol_name: str | None,
        answer: Deferred[SyncResult],
    ) -> None:
        """SyncGroup: the partitions that the member may use now."""
        try:
            member, classic = self._member(group, member_id, instance_id, generation_id)
            if protocol_type not in (None, _PROTOCOL_TYPE):
                raise InconsistentGroupProtocolError(f"The protocol type {protocol_type} is not {_PROTOCOL_TYPE}.")
            if protocol_name not in (None, classic.protocol_name):
                raise InconsistentGroupProtocolError(f"The protocol name {protocol_name} was not given by JoinGroup.")
            behind = group.assignment_epoch > member.member_epoch
            if behind and member.state is not MemberState.UNREVOKED_PARTITIONS:
                self._expect_join(group, member)
                raise RebalanceInProgressError(f"Member {member_id} has to join again to catch up.")
        except BrokerResponseError as error:
            self._answers.put(answer, SyncResult(error.errno))
            return
        assignment = encode_target(to_names(member.assigned, self._groups.image), classic.protocols[0][1])
        result = SyncResult(Errors.NONE, assignment, protocol_type, protocol_name)

        def on_stored() -> None:
            self._groups.timers.cancel(group.group_id, member_id, Deadline.SYNC)
            if not group.is_dead and member_id in group.members:
                self._groups.start_session(group, group.members[member_id])

        self._groups.writer.write(Change(group), answer, result, SyncResult, on_stored)

    def heartbeat(self, group: ConsumerGroup, generation_id: int, member_id: str, instance_id: str | None) -> int:
        """Heartbeat: an error code; REBALANCE_IN_PROGRESS sends the member to join again."""
        try:
            member, _ = self._member(group, member_id, instance_id, generation_id)
        except BrokerResponseError as error:
            return error.errno
        self._groups.start_session(group, member)
        if (
            member.member_epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member))
            or self._has_to_move_the_group(group)
        ):
            self._expect_join(group, member)
            return Errors.REBALANCE_IN_PROGRESS
        return Errors.NONE

    def _has_to_move_the_group(self, group: ConsumerGroup) -> bool:
        """Return whether a target is due that only a JoinGroup can bring: nobody else sends what computes one."""
        alone = group.classic_count == len(group.members)
        return alone and self._groups.target_is_due(group, group.group_epoch)

    def leave(self, group: ConsumerGroup, leaving: Sequence[LeavingMember]) -> Deferred[LeaveResult]:
        """LeaveGroup, also of members of the consumer protocol that an administrator takes out."""
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
        answer: Deferred[LeaveResult] = Deferred()
        result = LeaveResult(Errors.NONE, tuple(results))
        self._groups.remove(group, members.values(), answer, result, LeaveResult)
        return answer

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

    def _expect_join(self, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
        self._groups.set_deadline(
            group,
            member.member_id,
            Deadline.JOIN,
            member.rebalance_timeout_ms,
            "the classic member failed to join within the rebalance timeout",
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
