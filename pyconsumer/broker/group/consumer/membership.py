"""ConsumerGroupHeartbeat: members join, change, reconcile, leave and time out (KIP-848).

The state is that of the groups (:mod:`.group`). A heartbeat collects the records that change it, in steps:

1. *Member*: the group is found or created, or a classic one converted. The member is found or created, or replaces the
   static member that has its instance id.
2. *Subscription*: the heartbeat is compared with the member. Another subscription, or topics that have changed, raise
   the group epoch.
3. *Target*: if the group epoch is ahead of the assignment epoch, the target assignment is computed, at most once per
   ``group.consumer.assignment.interval.ms``.
4. *Reconciliation*: the member makes its next step to its target.
5. *Log*: the records are appended and replayed, and the reply is sent when they are in the log.

Deadlines: a member is removed if it sends no heartbeat within its session timeout, or does not revoke partitions within
its rebalance timeout. A static member that has left temporarily (epoch -2) keeps its partitions until its session times
out.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

from pyconsumer.background_log import Log
from pyconsumer.broker.deferred import Deferred, PendingReplies
from pyconsumer.broker.group.classic.rebalance import GroupRebalancer
from pyconsumer.broker.group.common.config import GroupConfig
from pyconsumer.broker.group.consumer import records
from pyconsumer.broker.group.consumer.current_assignment import OwnedPartitions, next_assignment
from pyconsumer.broker.group.consumer.group import ConsumerGroup, TopicCounts
from pyconsumer.broker.group.consumer.group_settings import GroupSettings
from pyconsumer.broker.group.consumer.member import (
    LEAVE_EPOCH,
    NO_ASSIGNMENT,
    STATIC_LEAVE_EPOCH,
    Assignment,
    ConsumerGroupMember,
    MemberState,
    Target,
)
from pyconsumer.broker.group.consumer.metadata_hash import MetadataHasher
from pyconsumer.broker.group.consumer.migration import Migration
from pyconsumer.broker.group.consumer.regexes import RegexStatus, TopicRegexes
from pyconsumer.broker.group.consumer.rules import (
    check_epoch,
    check_instance_fenced,
    check_not_full,
    check_released,
    check_request,
    known_member,
    known_static_member,
)
from pyconsumer.broker.group.consumer.target_assignment import compute_target, may_compute
from pyconsumer.broker.group.consumer.timers import Deadline, MemberTimers
from pyconsumer.broker.group.consumer.topics import TopicImage
from pyconsumer.broker.group.consumer.writer import Change, ConsumerGroupStore, GroupWriter
from pyconsumer.broker.timer import Timer
from pyconsumer.clock import Clock
from pyconsumer.errors import BrokerResponseError, Errors, GroupIdNotFoundError
from pyconsumer.protocol.consumer_group_records import RecordType
from pyconsumer.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

__all__ = ["ConsumerGroups", "HeartbeatResult", "MemberUpdate"]

_log = Log(__name__)

T = TypeVar("T")


class HeartbeatResult(NamedTuple):
    """Response to ConsumerGroupHeartbeat. ``assignment`` is None if the member knows its assignment already."""

    error_code: int
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


@dataclass(slots=True)
class MemberUpdate:
    """A change of a member by its heartbeat.

    Attributes:
        before, after: the member before and after the change.
        epoch: the group epoch after the change.
        homogeneous: True if all members subscribe to the same topics after the change.
        subscription_changed: True if the heartbeat changes the member's subscription.
    """

    before: ConsumerGroupMember
    after: ConsumerGroupMember
    epoch: int
    homogeneous: bool
    subscription_changed: bool


class ConsumerGroups:
    """All consumer-protocol groups of one coordinator. Call the methods inside ``with replies``.

    Args:
        rebalancer: the rebalancer of classic groups, for conversions.
        image: the topics of the cluster.
        settings: the settings of single groups.
    """

    def __init__(
        self,
        config: GroupConfig,
        manager: ConsumerGroupStore,
        rebalancer: GroupRebalancer,
        timer: Timer,
        clock: Clock,
        replies: PendingReplies,
        image: TopicImage,
        settings: GroupSettings,
    ) -> None:
        self.config = config
        self.manager = manager
        self.image = image
        self.settings = settings
        self.writer = GroupWriter(manager, replies)
        self.timers = MemberTimers(timer, clock, replies)
        self.hasher = MetadataHasher(image)
        self.migration = Migration(config, manager, rebalancer, self.timers, clock, image, self.hasher)
        self.regexes = TopicRegexes(config, self.writer, self.hasher, image, timer, clock, replies)
        self._clock = clock
        self._replies = replies
        self._new_uuid: Callable[[], str] = lambda: str(uuid.uuid4())

    # The cluster

    def on_topic_changed(self, topic: str, *, created: bool) -> None:
        """Note that a topic was created, got more partitions, or was deleted.

        The groups that subscribe to it are updated.
        """
        self.hasher.forget(topic)
        if created:
            self.regexes.on_topic_created()
        for group in self.manager.groups:
            if isinstance(group, ConsumerGroup) and group.is_subscribed_to(topic):
                group.expire_metadata()

    def on_loaded(self, group: ConsumerGroup) -> None:
        """Start the session timeouts and rebalance timeouts of the members of a loaded group."""
        _log.info("Loaded consumer group %s with %d members", group.group_id, len(group.members))
        self._start_sessions(group)
        for member in group.members.values():
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self._start_rebalance_timeout(group, member)

    def abandon(self, group: ConsumerGroup) -> None:
        """End a group that this broker no longer coordinates, or that was converted."""
        self.timers.cancel_group(group.group_id)
        group.end()

    def new_member_id(self) -> str:
        return self._new_uuid()

    # Heartbeats

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        reply: Deferred[HeartbeatResult],
        *,
        client_id: str,
        client_host: str,
    ) -> None:
        """Serve one ConsumerGroupHeartbeat."""
        try:
            if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
                self._leave(request, reply)
            else:
                self._heartbeat(request, reply, client_id, client_host)
        except BrokerResponseError as error:
            self._replies.put(reply, _rejected(error))

    def check(self, request: ConsumerGroupHeartbeatRequest, version: int) -> HeartbeatResult | None:
        """Return the error for a request with invalid fields, or None if they are valid."""
        try:
            check_request(request, version, self.config.assignors)
        except BrokerResponseError as error:
            return _rejected(error)
        return None

    def _heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        reply: Deferred[HeartbeatResult],
        client_id: str,
        client_host: str,
    ) -> None:
        joins = request.member_epoch == 0
        change = self._group(request.group_id, create=joins)
        group = change.group
        check_not_full(group, request.member_id, self.config.group_consumer_max_size)
        member_id = request.member_id or self._new_uuid()
        owned: OwnedPartitions = None
        if request.topic_partitions is not None:
            owned = [(bytes(one.topic_id), one.partitions) for one in request.topic_partitions]
        if request.instance_id is None:
            member = group.members.get(member_id) if joins else known_member(group, member_id)
            member = member or ConsumerGroupMember(member_id)
            check_epoch(member, request.member_epoch, owned)
        else:
            member = self.static_member(
                change, member_id, request.instance_id, joins=joins, epoch=request.member_epoch, owned=owned
            )
        names = request.subscribed_topic_names
        regex = request.subscribed_topic_regex
        updated = member.replace(
            instance_id=request.instance_id if request.instance_id is not None else member.instance_id,
            rack_id=request.rack_id if request.rack_id is not None else member.rack_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms
            if request.rebalance_timeout_ms != -1
            else member.rebalance_timeout_ms,
            server_assignor=request.server_assignor if request.server_assignor is not None else member.server_assignor,
            topic_names=frozenset(names) if names is not None else member.topic_names,
            topic_regex=regex if regex is not None else member.topic_regex,
            client_id=client_id,
            client_host=client_host,
            classic=None,
        )
        update = self.update_member(change, member, updated)
        epoch, target = self.update_target(change, update)
        after = self.reconcile(change, update, epoch, target, owned)
        full = request.rebalance_timeout_ms != -1 and (names is not None or regex is not None) and owned is not None
        result = HeartbeatResult(
            Errors.NONE,
            None,
            member_id,
            after.member_epoch,
            self.settings.heartbeat_interval_ms(group.group_id),
            after.assigned if joins or full or after.assigned != member.assigned else None,
        )
        change.on_accepted.append(partial(self.start_session, group, after))
        self.writer.write(change, reply, result, _failed)

    def _group(self, group_id: str, *, create: bool) -> Change:
        """Return an empty change of the group. With ``create``, one that creates it or converts a classic one.

        Raises:
            GroupIdNotFoundError: there is no such group, or it cannot be converted to this protocol.
        """
        group = self.manager.get_group(group_id)
        if group is None or group.is_dead:
            if not create:
                raise GroupIdNotFoundError(f"Consumer group {group_id} not found.")
            new = ConsumerGroup(group_id)
            change = Change(new)
            change.on_accepted.append(partial(self.manager.replace_group, new))
            return change
        if isinstance(group, ConsumerGroup):
            return Change(group)
        if not create:
            raise GroupIdNotFoundError(f"Group {group_id} is not a consumer group.")
        change = self.migration.to_consumer(group)
        change.on_accepted.append(partial(self._start_sessions, change.group))
        return change

    def _start_sessions(self, group: ConsumerGroup) -> None:
        for member in group.members.values():
            self.start_session(group, member)

    def static_member(
        self,
        change: Change,
        member_id: str,
        instance_id: str,
        *,
        joins: bool,
        epoch: int = 0,
        owned: OwnedPartitions = None,
        classic: bool = False,
    ) -> ConsumerGroupMember:
        """Return a static member. If the member is joining, it replaces the member that has the same instance id.

        Raises:
            UnreleasedInstanceIdError: the member is joining, and the other member has not left.
            UnknownMemberIdError: the member is not joining, and no member has the instance id.
            FencedInstanceIdError: the member is not joining, and another member has the instance id.
            FencedMemberEpochError: the member is not joining, and the request's epoch is not the member's.
        """
        group = change.group
        present = group.static_member(instance_id)
        if not joins:
            present = known_static_member(group, instance_id)
            check_instance_fenced(present, member_id, instance_id)
            if not classic:
                check_epoch(present, epoch, owned)
            return present
        if present is None:
            return group.members.get(member_id) or ConsumerGroupMember(member_id)
        if not classic and not present.uses_classic_protocol:
            check_released(present, member_id, instance_id)
        member = present.replace(member_id=member_id, member_epoch=0, previous_member_epoch=0)
        change.records.extend(
            [
                *records.member_tombstones(present.member_id),
                records.member_metadata(member),
                records.target_assignment(member_id, group.target_of(present.member_id)),
                records.current_assignment(member),
            ]
        )
        if member_id != present.member_id:
            change.on_accepted.append(partial(self.timers.cancel, group.group_id, present.member_id))
        _log.info("Group %s: static member %s rejoins as %s", group.group_id, instance_id, member_id)
        return member

    def update_member(self, change: Change, before: ConsumerGroupMember, after: ConsumerGroupMember) -> MemberUpdate:
        """Record a member's metadata. If its subscription or the group's topics have changed, raise the group epoch.

        Raises:
            InvalidRegularExpressionError: the member's regular expression is new in the group, and it is invalid.
        """
        group = change.group
        names_changed = False
        if after != before:
            change.records.append(records.member_metadata(after))
            names_changed = after.topic_names != before.topic_names
        status = self.regexes.on_member(change, before, after)
        changed = names_changed or status is not RegexStatus.UNCHANGED
        resolved = status is RegexStatus.RESOLVED if after.classic is None else status is not RegexStatus.UNCHANGED
        bump = names_changed or resolved
        if not bump and not group.metadata_expired:
            homogeneous = group.subscribed.is_homogeneous(group.regexes, len(group.members))
            return MemberUpdate(before, after, group.group_epoch, homogeneous, changed)
        counts, regexes = self._counts_with(group, before, after)
        is_new = after.member_id not in group.members and group.static_member(after.instance_id) is None
        homogeneous = counts.is_homogeneous(regexes, len(group.members) + is_new)
        metadata_hash, epoch = self.hasher.of_topics(counts.topics()), group.group_epoch
        if bump or metadata_hash != group.metadata_hash:
            epoch += 1
            change.records.append(records.group_epoch(epoch, metadata_hash))
            _log.info("Group %s: group epoch %d", group.group_id, epoch)
        if group.has_partition_metadata:
            change.records.append(records.tombstone(RecordType.PARTITION_METADATA))
        change.on_accepted.append(group.note_fresh_metadata)
        return MemberUpdate(before, after, epoch, homogeneous, changed)

    @staticmethod
    def _counts_with(
        group: ConsumerGroup, before: ConsumerGroupMember, after: ConsumerGroupMember
    ) -> tuple[TopicCounts, Counter[str]]:
        """Return the group's subscriptions with a member's new one in place of the old one."""
        counts, regexes = group.subscribed.copy(), group.regexes.copy()
        counts.change(counts.names, before.topic_names, after.topic_names)
        old, new = before.topic_regex, after.topic_regex
        if old != new:
            if old:
                regexes[old] -= 1
                if not regexes[old] and old in group.resolved:
                    counts.change(counts.regexes, group.resolved[old].topics, ())
            if new:
                regexes[new] += 1
        return counts, +regexes

    def target_is_due(self, group: ConsumerGroup, epoch: int) -> bool:
        """Return whether the target assignment is older than ``epoch``, and may be computed now (KIP-1263)."""
        if group.assignment_epoch >= epoch:
            return False
        interval_ms = self.settings.assignment_interval_ms(group.group_id)
        return may_compute(group.assignment_timestamp, interval_ms, self._clock.wall_ms())

    def update_target(self, change: Change, update: MemberUpdate) -> tuple[int, Target]:
        """If the target assignment is due, compute it. Return the assignment epoch and the member's target."""
        group, member, now_ms = change.group, update.after, self._clock.wall_ms()
        if not self.target_is_due(group, update.epoch):
            target = group.targets.get(member.member_id)
            if target is None:
                target = group.target_of(member.member_id, member.instance_id)
            return group.assignment_epoch, target
        members = {**group.members, member.member_id: member}
        replaced = group.static_member(member.instance_id)
        if replaced is not None and replaced.member_id != member.member_id:
            del members[replaced.member_id]
        assignor = group.preferred_assignor(update.before, member) or self.config.assignors[0]
        targets, changes = compute_target(
            group,
            members,
            self.image,
            assignor=assignor,
            epoch=update.epoch,
            homogeneous=update.homogeneous,
            now_ms=now_ms,
        )
        _log.info("Group %s: new target assignment for epoch %d by %s", group.group_id, update.epoch, assignor)
        change.records.extend(changes)
        return update.epoch, targets[member.member_id]

    def reconcile(
        self, change: Change, update: MemberUpdate, epoch: int, target: Target, owned: OwnedPartitions
    ) -> ConsumerGroupMember:
        """Record the member's next step towards its target. Return the member after that step."""
        group, member = change.group, update.after
        if not update.subscription_changed and member.is_reconciled_to(epoch):
            return member
        topics = (self.image.topic_id(name) for name in group.subscribed_topics_of(member))
        subscribed = {topic_id for topic_id in topics if topic_id is not None}
        after = next_assignment(
            member,
            epoch=epoch,
            target=target,
            subscribed=subscribed,
            is_free=group.is_free,
            owned=owned,
            subscription_changed=update.subscription_changed,
        )
        if after == member:
            return after
        change.records.append(records.current_assignment(after))
        if not after.uses_classic_protocol:
            if after.state is MemberState.UNREVOKED_PARTITIONS:
                change.on_accepted.append(partial(self._start_rebalance_timeout, group, after))
            else:
                cancel = partial(self.timers.cancel, group.group_id, after.member_id, Deadline.REBALANCE)
                change.on_accepted.append(cancel)
        return after

    # Deadlines

    def start_session(self, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
        """Start the member's session timeout again."""
        timeout_ms = self.settings.session_timeout_ms(group.group_id)
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        self.set_deadline(group, member.member_id, Deadline.SESSION, timeout_ms, "its session has timed out")

    def set_deadline(
        self,
        group: ConsumerGroup,
        member_id: str,
        kind: Deadline,
        timeout_ms: int,
        reason: str,
        *,
        if_absent: bool = False,
    ) -> None:
        """Remove the member after ``timeout_ms``, unless the deadline is cancelled or set again.

        Args:
            reason: the reason for the removal, for the log line.
            if_absent: True keeps a deadline that is already set.
        """
        action = partial(self._expire, group, member_id, reason)
        setter = self.timers.set_if_absent if if_absent else self.timers.set
        setter(group.group_id, member_id, kind, timeout_ms, action)

    def _expire(self, group: ConsumerGroup, member_id: str, reason: str) -> bool | None:
        member = group.members.get(member_id)
        if group.is_dead or member is None:
            return None
        _log.info("Group %s: member %s is removed: %s", group.group_id, member_id, reason)
        no_reply: Deferred[int] | None = None
        return self.remove(group, [member], no_reply, Errors.NONE, lambda code: code)

    def _start_rebalance_timeout(self, group: ConsumerGroup, member: ConsumerGroupMember) -> None:
        member_id, epoch, timeout_ms = member.member_id, member.member_epoch, member.rebalance_timeout_ms

        def expire() -> bool | None:
            present = group.members.get(member_id)
            if present is None or present.member_epoch != epoch:
                return None
            reason = f"it has not revoked its partitions of epoch {epoch} within {timeout_ms} ms"
            return self._expire(group, member_id, reason)

        self.timers.set(group.group_id, member_id, Deadline.REBALANCE, timeout_ms, expire)

    # Leaving

    def _leave(self, request: ConsumerGroupHeartbeatRequest, reply: Deferred[HeartbeatResult]) -> None:
        group = self.get(request.group_id)
        member_id, epoch = request.member_id, request.member_epoch
        result = HeartbeatResult(Errors.NONE, None, member_id, epoch)
        if request.instance_id is None:
            member = known_member(group, member_id)
        else:
            member = known_static_member(group, request.instance_id)
            check_instance_fenced(member, member_id, request.instance_id)
        if request.instance_id is None or epoch == LEAVE_EPOCH:
            _log.info("Group %s: member %s left", group.group_id, member_id)
            self.remove(group, [member], reply, result, _failed)
            return
        _log.info("Group %s: static member %s left temporarily", group.group_id, request.instance_id)
        away = member.replace(
            member_epoch=STATIC_LEAVE_EPOCH,
            pending_revocation=NO_ASSIGNMENT,
            assigned={topic_id: dict.fromkeys(indexes, 0) for topic_id, indexes in member.assigned.items()},
        )
        self.writer.write(Change(group, records=[records.current_assignment(away)]), reply, result, _failed)

    def get(self, group_id: str) -> ConsumerGroup:
        """Return the group with this id.

        Raises ``GroupIdNotFoundError`` if there is no group of the consumer protocol with it.
        """
        group = self.manager.get_group(group_id)
        if group is None or group.is_dead:
            raise GroupIdNotFoundError(f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFoundError(f"Group {group_id} is not a consumer group.")
        return group

    def remove(
        self,
        group: ConsumerGroup,
        members: Iterable[ConsumerGroupMember],
        reply: Deferred[T] | None,
        result: T,
        failed: Callable[[int], T],
    ) -> bool:
        """Remove members. If only members of the classic protocol are left, the group becomes a classic group.

        Returns:
            False if the append failed at once. In that case the group is unchanged.
        """
        leaving = {member.member_id: member for member in members}
        if not leaving:
            return self.writer.write(Change(group), reply, result, failed)
        if self.migration.may_downgrade(group, leaving):
            change = self.migration.to_classic(
                group, leaving, rebalance=f"Downgrade group {group.group_id} from consumer to classic: a member left"
            )
            return self.writer.write(change, reply, result, failed)
        change = Change(group)
        counts, regexes = group.subscribed.copy(), group.regexes.copy()
        for member in leaving.values():
            change.records.extend(records.member_tombstones(member.member_id))
            counts.change(counts.names, member.topic_names, ())
            if member.topic_regex:
                regexes[member.topic_regex] -= 1
        for regex, count in regexes.items():
            if count == 0:
                change.records.append(records.tombstone(RecordType.REGULAR_EXPRESSION, regex))
                if regex in group.resolved:
                    counts.change(counts.regexes, group.resolved[regex].topics, ())
        metadata_hash = self.hasher.of_topics(counts.topics())
        change.records.append(records.group_epoch(group.group_epoch + 1, metadata_hash))
        for member_id in leaving:
            change.on_accepted.append(partial(self.timers.cancel, group.group_id, member_id))
        return self.writer.write(change, reply, result, failed)


def _rejected(error: BrokerResponseError) -> HeartbeatResult:
    """Return the response for an error, with its message."""
    return HeartbeatResult(error.errno, str(error.args[0]) if error.args else None)


def _failed(code: int) -> HeartbeatResult:
    return HeartbeatResult(code)
