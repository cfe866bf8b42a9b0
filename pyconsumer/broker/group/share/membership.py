"""ShareGroupHeartbeat: members join, change, leave and time out (KIP-932).

The state is that of the groups (:mod:`.group`). A heartbeat collects the records that change it, in steps:

1. *Member*: the group and the member are found or created.
2. *Subscription*: another subscription, topics that have changed, or share partitions that were initialized raise the
   group epoch.
3. *Target*: if the group epoch is ahead of the assignment epoch, the target assignment is computed, at most once per
   ``share.assignment.interval.ms``.
4. *Member epoch*: the member gets its whole target at once.
5. *Initialization*: subscribed partitions without a state are noted as initializing.
6. *Log*: the records are appended and replayed, and the reply is sent when they are in the log. Then the share
   coordinators are asked to begin the states. If they have, that is noted too, and the next heartbeat assigns the
   partitions. If not, a later heartbeat begins again.

A member that sends no heartbeat within its session timeout is removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from pyconsumer.background_log import Log
from pyconsumer.broker.deferred import Deferred, PendingReplies
from pyconsumer.broker.group.common.storage import KeyValue, StoreResult, from_append
from pyconsumer.broker.group.consumer.group import Group
from pyconsumer.broker.group.consumer.member import NO_TARGET, Target
from pyconsumer.broker.group.consumer.metadata_hash import MetadataHasher
from pyconsumer.broker.group.consumer.timers import Deadline, MemberTimers
from pyconsumer.broker.group.consumer.topics import TopicImage
from pyconsumer.broker.group.share.assignor import assign
from pyconsumer.broker.group.share.group import (
    LEAVE_EPOCH,
    InitTopic,
    ShareGroup,
    ShareGroupMember,
    SharePartitionsInfo,
    ShareRecord,
)
from pyconsumer.broker.group.share.states import ShareStates, for_each
from pyconsumer.broker.group.share.times import ShareTimes
from pyconsumer.broker.group.share.turns import Turns
from pyconsumer.broker.timer import Timer
from pyconsumer.clock import Clock
from pyconsumer.errors import (
    BrokerResponseError,
    Errors,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InvalidRequestError,
    UnknownMemberIdError,
)
from pyconsumer.protocol import share_group_records as wire
from pyconsumer.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from pyconsumer.protocol.share_group_records import ShareRecordType

__all__ = ["ShareChange", "ShareGroupStore", "ShareGroups", "ShareHeartbeatResult"]

_log = Log(__name__)

T = TypeVar("T")


class ShareHeartbeatResult(NamedTuple):
    """Response to ShareGroupHeartbeat. ``assignment`` is None if the member knows its assignment already."""

    error_code: int
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Target | None = None


class ShareGroupStore(Protocol):
    """The part of the group manager that share groups need."""

    @property
    def share_groups(self) -> list[ShareGroup]: ...

    def get_group(self, group_id: str) -> Group | None:
        """Return the cached group of another type, or None if this broker does not have it."""

    def get_share_group(self, group_id: str) -> ShareGroup | None:
        """Return the cached share group, or None if this broker does not have it."""

    def add_share_group(self, group: ShareGroup) -> None:
        """Cache a share group."""

    def remove_share_group(self, group: ShareGroup) -> None:
        """Remove a share group from the cache."""

    def is_local(self, group_id: str) -> bool:
        """Return whether this broker serves the group."""

    def partition_for(self, group_id: str) -> int:
        """Return a group's partition of ``__consumer_offsets``."""

    def append(self, partition: int, records: Sequence[KeyValue]) -> Deferred[StoreResult]:
        """Append a batch to a partition of ``__consumer_offsets``."""


@dataclass(slots=True)
class ShareChange:
    """A change of one group: its records, and calls for when they have been replayed."""

    group: ShareGroup
    records: list[ShareRecord] = field(default_factory=list)
    on_accepted: list[Callable[[], None]] = field(default_factory=list)


class ShareGroups:
    """All share groups of one coordinator. Call the methods inside ``with replies``.

    Args:
        max_size: the most members of a group.
        retry_ms: the time after which a share partition that is still initializing is initialized once more.
    """

    def __init__(
        self,
        manager: ShareGroupStore,
        timer: Timer,
        clock: Clock,
        replies: PendingReplies,
        image: TopicImage,
        times: ShareTimes,
        states: ShareStates,
        *,
        max_size: int = 200,
        retry_ms: int = 30_000,
    ) -> None:
        self.manager = manager
        self.states = states
        self.image = image
        self.timers = MemberTimers(timer, clock, replies)
        self.turns = Turns()
        self._clock = clock
        self._replies = replies
        self._times = times
        self._hasher = MetadataHasher(image)
        self._max_size = max_size
        self._retry_ms = retry_ms

    # The cluster

    def on_topic_changed(self, topic: str) -> None:
        """Note that a topic was created, got more partitions, or was deleted."""
        self._hasher.forget(topic)
        for group in self.manager.share_groups:
            if topic in group.subscribed:
                group.expire_metadata()
            self._forget_deleted(group)

    def _forget_deleted(self, group: ShareGroup) -> None:
        """Note that the share partitions of deleted topics are gone."""
        gone = [one for one in group.partitions.topics if self.image.topic_name(one) is None]
        if gone and self.manager.is_local(group.group_id):
            self.note_partitions(group, group.partitions.without(gone))

    def on_loaded(self, group: ShareGroup) -> None:
        """Start the session timeouts of the members of a loaded group, whose topics may have been deleted."""
        _log.info("Loaded share group %s with %d members", group.group_id, len(group.members))
        for member_id in group.members:
            self._start_session(group, member_id)
        self._forget_deleted(group)

    def abandon(self, group: ShareGroup) -> None:
        """End a group that this broker no longer coordinates."""
        self.timers.cancel_group(group.group_id)
        group.end()

    def is_current(self, group: ShareGroup) -> bool:
        """Return whether this broker coordinates the group, and it was not deleted."""
        is_cached = self.manager.get_share_group(group.group_id) is group
        return is_cached and not group.is_dead and self.manager.is_local(group.group_id)

    def get(self, group_id: str) -> ShareGroup:
        """Return the share group with this id. Raise ``GroupIdNotFoundError`` if there is none."""
        group = self.manager.get_share_group(group_id)
        if group is not None and not group.is_dead:
            return group
        if self.manager.get_group(group_id) is not None:
            raise GroupIdNotFoundError(f"Group {group_id} is not a share group.")
        raise GroupIdNotFoundError(f"Group {group_id} not found.")

    def get_or_new(self, group_id: str) -> ShareGroup:
        """Return the share group with this id, or a new one that is not cached."""
        try:
            return self.get(group_id)
        except GroupIdNotFoundError:
            if self.manager.get_group(group_id) is not None:
                raise
            return ShareGroup(group_id)

    # Heartbeats

    @staticmethod
    def check(request: ShareGroupHeartbeatRequest) -> ShareHeartbeatResult | None:
        """Return the error for a request with invalid fields, or None if they are valid."""
        problem = None
        if not request.member_id.strip():
            problem = "MemberId can't be empty."
        elif not request.group_id.strip():
            problem = "GroupId can't be empty."
        elif request.rack_id is not None and not request.rack_id.strip():
            problem = "RackId can't be empty."
        elif request.member_epoch == 0 and not request.subscribed_topic_names:
            problem = "SubscribedTopicNames must be set in first request."
        elif request.member_epoch < LEAVE_EPOCH:
            problem = "MemberEpoch is invalid."
        return None if problem is None else ShareHeartbeatResult(InvalidRequestError.errno, problem)

    def heartbeat(
        self,
        request: ShareGroupHeartbeatRequest,
        reply: Deferred[ShareHeartbeatResult],
        *,
        client_id: str,
        client_host: str,
    ) -> None:
        """Serve one ShareGroupHeartbeat."""
        try:
            if request.member_epoch == LEAVE_EPOCH:
                self._leave(request, reply)
            else:
                self._heartbeat(request, reply, client_id, client_host)
        except BrokerResponseError as error:
            text = str(error.args[0]) if error.args else None
            self._replies.put(reply, ShareHeartbeatResult(error.errno, text))

    def _heartbeat(
        self,
        request: ShareGroupHeartbeatRequest,
        reply: Deferred[ShareHeartbeatResult],
        client_id: str,
        client_host: str,
    ) -> None:
        joins = request.member_epoch == 0
        group = self.get_or_new(request.group_id) if joins else self.get(request.group_id)
        before = group.members.get(request.member_id)
        if before is None and len(group.members) >= self._max_size:
            raise GroupMaxSizeReachedError(
                f"The share group has reached its maximum capacity of {self._max_size} members."
            )
        if before is None and not joins:
            raise UnknownMemberIdError(f"Member {request.member_id} is not a member of group {request.group_id}.")
        member = before or ShareGroupMember(request.member_id)
        _check_epoch(member, request.member_epoch)
        names = request.subscribed_topic_names
        after = member.replace(
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            client_id=client_id,
            client_host=client_host,
            topic_names=member.topic_names if names is None else frozenset(names),
        )
        change = ShareChange(group)
        epoch, is_bumped = self._update_epoch(change, before, after)
        target_epoch, target = self._update_target(change, epoch, after)
        after = self._next_member(change, after, target_epoch, target, is_bumped)
        begun = self._find_new_partitions(group, before, after)
        if begun:
            change.records.append(group.partitions.begin(begun).as_record())
        result = ShareHeartbeatResult(
            Errors.NONE,
            None,
            after.member_id,
            after.member_epoch,
            self._times.heartbeat_interval_ms(group.group_id),
            after.assigned if joins or names is not None or after.assigned != member.assigned else None,
        )
        change.on_accepted.append(partial(self.manager.add_share_group, group))
        change.on_accepted.append(partial(self._start_session, group, after.member_id))
        on_stored = partial(self._begin_states, group, epoch, begun) if begun else None
        self.write(change, reply, result, ShareHeartbeatResult, on_stored)

    def _update_epoch(
        self, change: ShareChange, before: ShareGroupMember | None, after: ShareGroupMember
    ) -> tuple[int, bool]:
        """Record the member's metadata. Raise the group epoch if anything has changed. Return it, and if it has."""
        group = change.group
        if before is None or after != before:
            change.records.append(after.metadata_record())
        is_bumped = before is None or after.topic_names != before.topic_names
        if group.assignment_epoch >= group.group_epoch and group.has_unassigned(self.image.topic_name):
            is_bumped = True
        if not is_bumped and not group.metadata_expired:
            return group.group_epoch, False
        metadata_hash = self._hasher.of_topics(_subscribed_with(group, before, after))
        if is_bumped or metadata_hash != group.metadata_hash:
            is_bumped = True
            value = wire.ShareGroupMetadataValue(epoch=group.group_epoch + 1, metadata_hash=metadata_hash)
            change.records.append(ShareRecord(ShareRecordType.GROUP_METADATA, None, value))
        change.on_accepted.append(group.note_fresh_metadata)
        return group.group_epoch + is_bumped, is_bumped

    def _update_target(self, change: ShareChange, epoch: int, after: ShareGroupMember) -> tuple[int, Target]:
        """Compute the target assignment if it is behind. Return its epoch, and the member's target."""
        group = change.group
        now_ms = self._clock.wall_ms()
        interval_ms = self._times.assignment_interval_ms(group.group_id)
        due = group.assignment_timestamp == 0 or interval_ms == 0 or now_ms >= group.assignment_timestamp + interval_ms
        if group.assignment_epoch >= epoch or not due:
            return group.assignment_epoch, group.targets.get(after.member_id, NO_TARGET)
        members = group.members | {after.member_id: after}
        subscriptions = {}
        for member_id, member in members.items():
            ids = (self.image.topic_id(name) for name in sorted(member.topic_names))
            subscriptions[member_id] = [one for one in ids if one is not None]
        assignable = {topic: one.partitions for topic, one in group.partitions.initialized.items()}
        targets = assign(subscriptions, assignable, group.targets)
        for member_id, target in targets.items():
            if target != group.targets.get(member_id):
                listed = [
                    wire.TopicPartition(topic_id=topic, partitions=sorted(indexes)) for topic, indexes in target.items()
                ]
                value = wire.ShareGroupTargetAssignmentMemberValue(topic_partitions=listed)
                change.records.append(ShareRecord(ShareRecordType.TARGET_ASSIGNMENT_MEMBER, member_id, value))
        metadata = wire.ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
        change.records.append(ShareRecord(ShareRecordType.TARGET_ASSIGNMENT_METADATA, None, metadata))
        return epoch, targets[after.member_id]

    def _next_member(
        self, change: ShareChange, member: ShareGroupMember, epoch: int, target: Target, is_bumped: bool
    ) -> ShareGroupMember:
        after = member
        if epoch != member.member_epoch or is_bumped:
            after = member.replace(
                assigned={
                    topic: indexes
                    for topic, indexes in target.items()
                    if self.image.topic_name(topic) in member.topic_names
                }
            )
        if epoch != member.member_epoch:
            after = after.replace(member_epoch=epoch, previous_member_epoch=member.member_epoch)
        if after != member:
            change.records.append(after.assignment_record())
        return after

    # Initialization

    def _find_new_partitions(
        self, group: ShareGroup, before: ShareGroupMember | None, after: ShareGroupMember
    ) -> dict[bytes, InitTopic]:
        """Return the partitions of subscribed topics that have no state, and are not being initialized."""
        now_ms = self._clock.wall_ms()
        found = {}
        for name in _subscribed_with(group, before, after):
            topic, count = self.image.topic_id(name), self.image.partition_count(name)
            if topic is None or count is None:
                continue
            known: frozenset[int] = frozenset()
            initialized, initializing = (
                group.partitions.initialized.get(topic),
                group.partitions.initializing.get(topic),
            )
            if initialized is not None:
                known |= initialized.partitions
            if initializing is not None and now_ms - initializing.timestamp < self._retry_ms:
                known |= initializing.partitions
            missing = frozenset(range(count)) - known
            if missing:
                found[topic] = InitTopic(name, missing, now_ms)
        return found

    def _begin_states(self, group: ShareGroup, state_epoch: int, topics: Mapping[bytes, InitTopic]) -> None:
        """Begin the states of share partitions, when the work before has ended."""
        no_results: dict[tuple[bytes, int], int] = {}
        self.turns.run(group.group_id, partial(self.initialize, group, state_epoch, topics), no_results)

    def initialize(
        self,
        group: ShareGroup,
        state_epoch: int,
        topics: Mapping[bytes, InitTopic],
        offsets: Mapping[tuple[bytes, int], int] = {},
    ) -> Deferred[dict[tuple[bytes, int], int]]:
        """Ask the share coordinators to begin the states of share partitions. Then note the result of each.

        Call it in turn (:attr:`turns`).

        Args:
            topics: partitions that were noted as initializing. Those that are so no longer are left out.
            offsets: where partitions begin. For others the leader chooses.

        Returns:
            An error code for each partition.
        """
        everything = {(topic, index) for topic, one in topics.items() for index in one.partitions}
        if not self.is_current(group):
            return Deferred.of(dict.fromkeys(everything, int(Errors.NOT_COORDINATOR)))
        left_out = dict.fromkeys(everything, int(Errors.UNKNOWN_TOPIC_OR_PARTITION))
        begun = group.partitions.begun_of(topics)
        if not begun:
            return Deferred.of(left_out)
        wanted = [(topic, index) for topic, one in begun.items() for index in sorted(one.partitions)]
        calls = {
            (topic, index): self.states.initialize(
                group.group_id, topic, index, state_epoch, offsets.get((topic, index), -1)
            )
            for topic, index in wanted
        }
        done: Deferred[dict[tuple[bytes, int], int]] = Deferred()

        def on_results(codes: dict[tuple[bytes, int], int]) -> None:
            failed = {code for code in codes.values() if code != Errors.NONE}
            if failed:
                _log.warning("Group %s: share partitions could not be initialized: %s", group.group_id, sorted(failed))
            info = group.partitions
            for successful in (True, False):
                ended: dict[bytes, InitTopic] = {}
                for topic, one in info.begun_of(begun).items():  # a topic may have been deleted in the meantime
                    indexes = [index for index in one.partitions if (codes[topic, index] == Errors.NONE) is successful]
                    if indexes:
                        ended[topic] = one._replace(partitions=frozenset(indexes))
                info = info.end(ended, successful=successful)
            self.note_partitions(group, info).on_done(
                lambda code: done.set(left_out | (codes if code == Errors.NONE else dict.fromkeys(codes, code)))
            )

        for_each(calls).on_done(on_results)
        return done

    def note_partitions(self, group: ShareGroup, info: SharePartitionsInfo) -> Deferred[int]:
        """Write which share partitions are in which state. The result is an error code.

        If the group was deleted or has moved in the meantime, nothing is written.
        """
        if not self.is_current(group):
            return Deferred.of(int(Errors.NOT_COORDINATOR))
        written: Deferred[int] = Deferred()
        with self._replies:
            self.write(ShareChange(group, [info.as_record()]), written, int(Errors.NONE), lambda code: code)
        return written

    def begin(self, group: ShareGroup, topics: Mapping[bytes, InitTopic]) -> Deferred[int]:
        """Note that share partitions are being initialized. The result is an error code."""
        now_ms = self._clock.wall_ms()
        stamped = {topic: one._replace(timestamp=now_ms) for topic, one in topics.items()}
        return self.note_partitions(group, group.partitions.begin(stamped))

    def delete(self, change: ShareChange) -> Deferred[int]:
        """Write the tombstones of a group, and forget it. The result is an error code."""
        group = change.group
        change.on_accepted.append(partial(self.manager.remove_share_group, group))
        change.on_accepted.append(partial(self.timers.cancel_group, group.group_id))
        written: Deferred[int] = Deferred()
        with self._replies:
            self.write(change, written, int(Errors.NONE), lambda code: code)
        return written

    # Deadlines and leaving

    def _start_session(self, group: ShareGroup, member_id: str) -> None:
        timeout_ms = self._times.session_timeout_ms(group.group_id)
        action = partial(self._expire, group, member_id)
        self.timers.set(group.group_id, member_id, Deadline.SESSION, timeout_ms, action)

    def _expire(self, group: ShareGroup, member_id: str) -> bool | None:
        if group.is_dead or member_id not in group.members:
            return None
        _log.info("Group %s: member %s is removed: its session has timed out", group.group_id, member_id)
        no_reply: Deferred[int] | None = None
        return self._remove(group, member_id, no_reply, int(Errors.NONE), lambda code: code)

    def _leave(self, request: ShareGroupHeartbeatRequest, reply: Deferred[ShareHeartbeatResult]) -> None:
        group = self.get(request.group_id)
        if request.member_id not in group.members:
            raise UnknownMemberIdError(f"Member {request.member_id} is not a member of group {request.group_id}.")
        _log.info("Group %s: member %s left", group.group_id, request.member_id)
        result = ShareHeartbeatResult(Errors.NONE, None, request.member_id, request.member_epoch)
        self._remove(group, request.member_id, reply, result, ShareHeartbeatResult)

    def _remove(
        self,
        group: ShareGroup,
        member_id: str,
        reply: Deferred[T] | None,
        result: T,
        failed: Callable[[int], T],
    ) -> bool:
        leaving = group.members[member_id]
        topics = +(group.subscribed - Counter(leaving.topic_names))
        value = wire.ShareGroupMetadataValue(epoch=group.group_epoch + 1, metadata_hash=self._hasher.of_topics(topics))
        types = ShareRecordType
        change = ShareChange(
            group,
            [
                ShareRecord(types.CURRENT_MEMBER_ASSIGNMENT, member_id, None),
                ShareRecord(types.TARGET_ASSIGNMENT_MEMBER, member_id, None),
                ShareRecord(types.MEMBER_METADATA, member_id, None),
                ShareRecord(types.GROUP_METADATA, None, value),
            ],
            [partial(self.timers.cancel, group.group_id, member_id)],
        )
        return self.write(change, reply, result, failed)

    # Writing

    def write(
        self,
        change: ShareChange,
        reply: Deferred[T] | None,
        result: T,
        failed: Callable[[int], T],
        on_stored: Callable[[], object] | None = None,
    ) -> bool:
        """Append a change to the log, replay it onto the group, and set the reply when the append has ended.

        The order is that of groups of the consumer protocol (:mod:`..consumer.writer`).

        Returns:
            False if the append failed at once. In that case the group is unchanged.
        """
        group = change.group

        def finish(code: int) -> None:
            with self._replies:
                self._replies.put(reply, result if code == Errors.NONE else failed(code))
                if code == Errors.NONE and on_stored is not None:
                    on_stored()

        if not change.records:
            self._accept(change)
            if group.last_write is None or group.last_write.done:
                finish(Errors.NONE)
            else:
                group.last_write.on_done(finish)
            return True
        records = [record.encode(group.group_id) for record in change.records]
        appended = self.manager.append(self.manager.partition_for(group.group_id), records)
        if appended.done and appended.value.error_code != Errors.NONE:
            finish(from_append(appended.value.error_code))
            return False
        now_ms = self._clock.wall_ms()
        for record in change.records:
            group.replay(record, now_ms)
        self._accept(change)
        write: Deferred[int] = Deferred()
        group.note_write(write)
        write.on_done(finish)
        appended.on_done(lambda stored: write.set(from_append(stored.error_code)))
        return True

    @staticmethod
    def _accept(change: ShareChange) -> None:
        for call in change.on_accepted:
            call()


def _check_epoch(member: ShareGroupMember, epoch: int) -> None:
    """Raise ``FencedMemberEpochError`` unless the epoch is the member's, its previous one, or 0."""
    if epoch == 0 or (epoch in (member.member_epoch, member.previous_member_epoch) and epoch <= member.member_epoch):
        return
    relation = "greater" if epoch > member.member_epoch else "smaller"
    raise FencedMemberEpochError(
        f"The share group member has a {relation} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.member_epoch}). The member must abandon all its partitions and rejoin."
    )


def _subscribed_with(group: ShareGroup, before: ShareGroupMember | None, after: ShareGroupMember) -> Iterable[str]:
    """Return the topics of all subscriptions, after the member has changed."""
    topics = group.subscribed - Counter(() if before is None else before.topic_names)
    return sorted({*topics, *after.topic_names})
