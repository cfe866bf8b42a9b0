"""The group coordinator of a broker: one method for each kind of group request.

A method first checks that this broker coordinates the group, and then calls the modules that have the rules:
:mod:`.classic` for the classic protocol, :mod:`.consumer` for the consumer protocol (KIP-848), :mod:`.share` for share
groups (KIP-932), :mod:`.manager` for the groups' cache and their records, :mod:`.offset_expiration` for removal. The
manager owns the groups. The only state of the coordinator itself is whether it has been started. A group has one of the
protocols at a time, and keeps its offsets when it is converted. A share group is never converted.

No method waits: a result that takes time is a :class:`Deferred`, which is set exactly once. An unexpected exception is
logged and reported to the client as UNKNOWN_SERVER_ERROR, so that every request gets a response.

:class:`GroupBroker` is the part of a broker that the handlers of group requests need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

from pyconsumer.background_log import Log
from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import Deferred, PendingReplies
from pyconsumer.broker.group.classic.admission import JoinHandler, JoinRequest, check_member
from pyconsumer.broker.group.classic.group_metadata import GroupMetadata, GroupState, MemberMetadata
from pyconsumer.broker.group.classic.rebalance import GroupRebalancer
from pyconsumer.broker.group.common.config import GroupConfig
from pyconsumer.broker.group.common.offsets import CommittedOffset
from pyconsumer.broker.group.common.results import (
    GroupOverview,
    GroupSummary,
    JoinResult,
    LeaveResult,
    LeavingMember,
    SyncResult,
)
from pyconsumer.broker.group.common.storage import GroupStorage, from_append
from pyconsumer.broker.group.consumer.classic_members import ClassicMembers
from pyconsumer.broker.group.consumer.group import ConsumerGroup, Group
from pyconsumer.broker.group.consumer.group_settings import GroupSettings
from pyconsumer.broker.group.consumer.membership import ConsumerGroups, HeartbeatResult
from pyconsumer.broker.group.consumer.rules import check_commit, check_fetch
from pyconsumer.broker.group.consumer.topics import NoTopics, TopicImage
from pyconsumer.broker.group.manager import GroupMetadataManager, Offsets
from pyconsumer.broker.group.offset_expiration import OffsetExpiration
from pyconsumer.broker.group.share.group import ShareGroup
from pyconsumer.broker.group.share.membership import ShareGroups, ShareHeartbeatResult
from pyconsumer.broker.group.share.offsets import ShareOffsets
from pyconsumer.broker.group.share.states import NoShareStates, ShareStates, for_each
from pyconsumer.broker.group.share.times import DefaultShareTimes, ShareTimes
from pyconsumer.broker.timer import Timer
from pyconsumer.clock import Clock
from pyconsumer.errors import BrokerResponseError, Errors, error_name
from pyconsumer.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pyconsumer.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from pyconsumer.protocol.messages.txn_offset_commit import FIRST_VERSION_WITH_GROUP_ERRORS
from pyconsumer.structs import BrokerMetadata, TopicPartition

__all__ = ["GroupBroker", "GroupCoordinator", "PartitionErrors"]

_log = Log(__name__)

T = TypeVar("T")

#: The error code of each partition.
PartitionErrors = dict[TopicPartition, int]

#: The latest time that a record can have: a signed 64-bit number of milliseconds.
_LATEST_MS = 2**63 - 1


class GroupBroker(Protocol):
    """One broker, as the handlers of group requests see it."""

    @property
    def group_coordinator(self) -> GroupCoordinator: ...

    def topic_id(self, name: str) -> bytes | None:
        """Return the id of a topic, 16 bytes, or None if there is no such topic."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id, or None."""

    def partition_count(self, topic: str) -> int | None:
        """Return the number of a topic's partitions, or None if there is no such topic."""

    def coordinator_node(self, topic_name: str, partition: int, context: RequestContext) -> BrokerMetadata | None:
        """Return the leader of a partition of an internal topic, with its address on the client's listener.

        Return None if the partition has no leader.
        """


_DEAD_SUMMARY = GroupSummary(GroupState.DEAD.value, "", "", ())


class GroupCoordinator:
    """The group coordinator of one broker.

    Args:
        storage: the internal topic ``__consumer_offsets``.
        timer: runs all deadlines. Its owner moves the time.
        clock: the source of time. Its monotonic time must be the timer's. Its wall time is written into records.
        topics: the topics of the cluster.
        group_config: returns the dynamic settings of a group.
        share_times: the settings of share groups.
        share_states: the states of share partitions.
    """

    def __init__(
        self,
        config: GroupConfig,
        storage: GroupStorage,
        timer: Timer,
        clock: Clock,
        topics: TopicImage | None = None,
        group_config: Callable[[str], Mapping[str, str]] = lambda group_id: {},
        share_times: ShareTimes | None = None,
        share_states: ShareStates | None = None,
    ) -> None:
        self.config = config
        self._clock = clock
        self._replies = PendingReplies()
        self.manager = GroupMetadataManager(config, storage, timer, clock, self._replies)
        self._rebalancer = GroupRebalancer(config, self.manager, timer, clock, self._replies)
        self._joins = JoinHandler(config, self.manager, self._rebalancer, self._replies)
        self.consumer_groups = ConsumerGroups(
            config,
            self.manager,
            self._rebalancer,
            timer,
            clock,
            self._replies,
            topics or NoTopics(),
            GroupSettings(config, group_config),
        )
        self._classic_members = ClassicMembers(config, self.consumer_groups, self._replies)
        self.share_groups = ShareGroups(
            self.manager,
            timer,
            clock,
            self._replies,
            topics or NoTopics(),
            share_times or DefaultShareTimes(),
            share_states or NoShareStates(),
            max_size=config.group_share_max_size,
            retry_ms=config.group_share_initialize_retry_interval_ms,
        )
        self.share_offsets = ShareOffsets(self.share_groups)
        self._expiration = OffsetExpiration(self.manager, timer, clock, self._replies)
        self._active = False

    # Lifecycle

    def start(self) -> None:
        """Start to serve requests, and to look for expired offsets."""
        self._expiration.start()
        self._active = True

    def shutdown(self) -> None:
        """Stop serving requests. Pending requests get an error, and all timers are stopped."""
        self._active = False
        self._expiration.stop()
        self.manager.shutdown()
        with self._replies:
            for group in self.manager.groups:
                self._abandon(group)
            for share_group in self.manager.share_groups:
                self._abandon(share_group)

    def on_become_leader(self, partition: int, epoch: int) -> None:
        """Load the groups of a partition of ``__consumer_offsets``, because this broker leads it from now on."""
        self.manager.schedule_load(partition, epoch, self._on_group_loaded)

    def on_resign(self, partition: int, epoch: int | None) -> None:
        """Forget the groups of a partition that this broker no longer leads. Pending requests get NOT_COORDINATOR."""
        self.manager.schedule_unload(partition, epoch, self._abandon)

    def _abandon(self, group: Group | ShareGroup) -> None:
        if isinstance(group, ShareGroup):
            self.share_groups.abandon(group)
        elif isinstance(group, ConsumerGroup):
            self.consumer_groups.abandon(group)
        else:
            self._rebalancer.abandon(group)

    def on_topic_changed(self, topic: str, *, created: bool) -> None:
        """Update groups, because a topic was created, changed or deleted."""
        self.consumer_groups.on_topic_changed(topic, created=created)
        self.share_groups.on_topic_changed(topic)

    def _on_group_loaded(self, group: Group | ShareGroup) -> None:
        if isinstance(group, ShareGroup):
            self.share_groups.on_loaded(group)
            return
        if isinstance(group, ConsumerGroup):
            self.consumer_groups.on_loaded(group)
            return
        _log.info("Loading group %s: generation %d, %s", group.group_id, group.generation_id, group.state)
        group.remember_members()
        self._rebalancer.start_sessions(group)
        if group.size > self.config.group_max_size:
            self._rebalancer.prepare(group, f"the group has more than {self.config.group_max_size} members")
        elif group.rebalance_is_due:
            self._rebalancer.prepare(group, "the coordinator changed before the rebalance after a downgrade had begun")

    def partition_for(self, group_id: str) -> int:
        """Return the partition of ``__consumer_offsets`` whose leader coordinates the group."""
        return self.manager.partition_for(group_id)

    def _validate(self, group_id: str | None, *, may_be_empty: bool = False) -> int:
        """Check that this broker coordinates the group and return an error code."""
        if group_id is None or not (group_id or may_be_empty):
            return Errors.INVALID_GROUP_ID
        if not self._active:
            return Errors.COORDINATOR_NOT_AVAILABLE
        if self.manager.is_loading(group_id):
            return Errors.COORDINATOR_LOAD_IN_PROGRESS
        return Errors.NONE if self.manager.is_local(group_id) else Errors.NOT_COORDINATOR

    def _is_shared(self, group_id: str) -> bool:
        """Return whether a share group has this id, so that no other group can."""
        group = self.manager.get_share_group(group_id)
        return group is not None and not group.is_dead

    def _guard(self, reply: Deferred[T], failed: T, work: Callable[[], None]) -> Deferred[T]:
        """Do the work of one request. If it raises, reply with ``failed``."""
        try:
            with self._replies:
                work()
        except Exception:
            _log.exception("Handling a request to the group coordinator failed")
            if not reply.done:
                reply.set(failed)
        return reply

    # Membership

    def join_group(self, request: JoinRequest) -> Deferred[JoinResult]:
        """Serve JoinGroup. The reply is set when the join phase ends.

        After an error, or if the join changes nothing, it is set at once.
        """

        def fail(error_code: int) -> Deferred[JoinResult]:
            return Deferred.of(JoinResult(error_code, request.member_id))

        error_code = self._validate(request.group_id)
        if error_code == Errors.NONE and self._is_shared(request.group_id):
            error_code = Errors.INCONSISTENT_GROUP_PROTOCOL
        if error_code != Errors.NONE:
            return fail(error_code)
        low, high = self.config.group_min_session_timeout_ms, self.config.group_max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            return fail(Errors.INVALID_SESSION_TIMEOUT)
        reply: Deferred[JoinResult] = Deferred()
        failed = JoinResult(Errors.UNKNOWN_SERVER_ERROR, request.member_id)
        group = self.manager.get_group(request.group_id)
        if isinstance(group, ConsumerGroup):
            if not group.is_empty:
                return self._guard(reply, failed, partial(self._classic_members.join, group, request, reply))
            error_code = self._make_classic(group)
            if error_code != Errors.NONE:
                return fail(error_code)
        group = self.manager.get_or_maybe_create_group(request.group_id, create=not request.member_id)
        if not isinstance(group, GroupMetadata):
            return fail(Errors.UNKNOWN_MEMBER_ID)
        return self._guard(reply, failed, partial(self._joins.join, group, request, reply))

    def _make_classic(self, group: ConsumerGroup) -> int:
        """Replace an empty consumer group with a classic one that has its offsets and return an error code."""
        tombstones = [record.encode(group.group_id) for record in group.tombstones()]
        stored = self.manager.append(self.manager.partition_for(group.group_id), tombstones)
        if stored.done and stored.value.error_code != Errors.NONE:
            return from_append(stored.value.error_code)
        _log.info("Group %s: the empty consumer group becomes a classic group", group.group_id)
        classic = GroupMetadata(group.group_id, GroupState.EMPTY, self._clock)
        classic.adopt(group.offsets)
        self.consumer_groups.abandon(group)
        self.manager.replace_group(classic)
        return Errors.NONE

    def sync_group(
        self,
        group_id: str,
        generation_id: int,
        member_id: str,
        assignments: Mapping[str, bytes],
        *,
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Deferred[SyncResult]:
        """Serve SyncGroup. The reply is set when the leader's assignment is in the log.

        Args:
            assignments: the assignments by member id. Only the leader sends them.
            protocol_type, protocol_name: the values of the JoinGroup response. None in versions that do not send them.
        """
        error_code = self._validate(group_id)
        if error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS:
            # The rebalance was lost with the previous coordinator's memory, so the member has to join again.
            error_code = Errors.REBALANCE_IN_PROGRESS
        if error_code != Errors.NONE:
            return Deferred.of(SyncResult(error_code))
        group = self.manager.get_group(group_id)
        if group is None:
            return Deferred.of(SyncResult(Errors.UNKNOWN_MEMBER_ID))
        reply: Deferred[SyncResult] = Deferred()
        failed = SyncResult(Errors.UNKNOWN_SERVER_ERROR)
        if isinstance(group, ConsumerGroup):
            members = self._classic_members
            sync = partial(members.sync, group, generation_id, member_id, group_instance_id, protocol_type)
            return self._guard(reply, failed, partial(sync, protocol_name, reply))
        error_code = self._check_sync(group, generation_id, member_id, group_instance_id, protocol_type, protocol_name)
        if error_code != Errors.NONE:
            return Deferred.of(SyncResult(error_code))
        return self._guard(reply, failed, partial(self._sync, group, member_id, assignments, reply))

    @staticmethod
    def _check_sync(
        group: GroupMetadata,
        generation_id: int,
        member_id: str,
        group_instance_id: str | None,
        protocol_type: str | None,
        protocol_name: str | None,
    ) -> int:
        if group.is_(GroupState.DEAD):
            return Errors.COORDINATOR_NOT_AVAILABLE
        error_code = check_member(group, member_id, group_instance_id)
        if error_code != Errors.NONE:
            return error_code
        if generation_id != group.generation_id:
            return Errors.ILLEGAL_GENERATION
        if protocol_type not in (None, group.protocol_type) or protocol_name not in (None, group.protocol_name):
            return Errors.INCONSISTENT_GROUP_PROTOCOL
        if group.is_(GroupState.PREPARING_REBALANCE):
            return Errors.REBALANCE_IN_PROGRESS
        return Errors.UNKNOWN_MEMBER_ID if group.is_(GroupState.EMPTY) else Errors.NONE

    def _sync(
        self, group: GroupMetadata, member_id: str, assignments: Mapping[str, bytes], reply: Deferred[SyncResult]
    ) -> None:
        member = group.get(member_id)
        self._rebalancer.note_sync(group, member_id)
        if group.is_(GroupState.STABLE):
            result = SyncResult(Errors.NONE, member.assignment, group.protocol_type, group.protocol_name)
            self._replies.put(reply, result)
            self._rebalancer.restart_session(group, member)
            return
        # A SyncGroup that the member sent before must not stay pending for ever.
        self._replies.put(member.take_sync_waiter(), SyncResult(Errors.REBALANCE_IN_PROGRESS))
        member.wait_for_sync(reply)
        if not group.is_leader(member_id):
            return
        _log.info(
            "Group %s: leader %s sent the assignment of generation %d for %d members, %d of them static",
            group.group_id,
            member_id,
            group.generation_id,
            group.size,
            len(group.static_members),
        )
        missing = [one for one in group.members if one not in assignments]
        if missing:
            _log.warning(
                "Group %s: in generation %d the leader's assignment leaves out members, which get an empty one: %s",
                group.group_id,
                group.generation_id,
                ", ".join(missing),
            )
        complete = {one: assignments.get(one, b"") for one in group.members}
        stored = self.manager.store_group(group, complete)
        stored.on_done(partial(self._on_assignment_stored, group, group.generation_id, member_id, complete))

    def _on_assignment_stored(
        self,
        group: GroupMetadata,
        generation_id: int,
        leader_id: str,
        assignments: Mapping[str, bytes],
        error_code: int,
    ) -> None:
        with self._replies:
            # If a member joined while the record was written, the pending SyncGroups have got their replies already.
            if not group.is_(GroupState.COMPLETING_REBALANCE) or group.generation_id != generation_id:
                return
            if error_code != Errors.NONE:
                self._rebalancer.reset_assignment(group, error_code)
                reason = f"{error_name(error_code)} when storing the assignment that member {leader_id} synced"
                self._rebalancer.maybe_prepare(group, reason)
            else:
                self._rebalancer.set_assignment(group, assignments)
                group.transition_to(GroupState.STABLE)
                self.manager.metrics.rebalanced()

    def heartbeat(self, group_id: str, generation_id: int, member_id: str, group_instance_id: str | None = None) -> int:
        """Serve Heartbeat. Return an error code. REBALANCE_IN_PROGRESS makes the member join again."""
        error_code = self._validate(group_id)
        if error_code != Errors.NONE:
            # While the group is loading, whether it has the member is not known yet; no error keeps the member in it.
            return Errors.NONE if error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS else error_code
        group = self.manager.get_group(group_id)
        if group is None:
            return Errors.UNKNOWN_MEMBER_ID
        if isinstance(group, ConsumerGroup):
            with self._replies:
                return self._classic_members.heartbeat(group, generation_id, member_id, group_instance_id)
        if group.is_(GroupState.DEAD):
            return Errors.COORDINATOR_NOT_AVAILABLE
        error_code = check_member(group, member_id, group_instance_id)
        if error_code != Errors.NONE:
            return error_code
        if generation_id != group.generation_id:
            return Errors.ILLEGAL_GENERATION
        if group.is_(GroupState.EMPTY):
            return Errors.UNKNOWN_MEMBER_ID
        self._rebalancer.restart_session(group, group.get(member_id))
        return Errors.REBALANCE_IN_PROGRESS if group.is_(GroupState.PREPARING_REBALANCE) else Errors.NONE

    def consumer_group_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        *,
        version: int,
        client_id: str,
        client_host: str,
        visible: Callable[[str], bool] | None = None,
    ) -> Deferred[HeartbeatResult]:
        """Serve ConsumerGroupHeartbeat (KIP-848). The reply is set when its changes are in the log.

        Args:
            visible: returns whether the member may see a topic that its regular expression matches. None means all.
        """
        if not self._active:
            return Deferred.of(HeartbeatResult(Errors.COORDINATOR_NOT_AVAILABLE))
        invalid = self.consumer_groups.check(request, version)
        if invalid is not None:
            return Deferred.of(invalid)
        error_code = self._validate(request.group_id)
        if error_code != Errors.NONE:
            return Deferred.of(HeartbeatResult(error_code))
        if self._is_shared(request.group_id):
            text = f"Group {request.group_id} is not a consumer group."
            return Deferred.of(HeartbeatResult(Errors.GROUP_ID_NOT_FOUND, text))
        reply: Deferred[HeartbeatResult] = Deferred()
        self.consumer_groups.regexes.look_with(visible)
        work = partial(
            self.consumer_groups.heartbeat,
            request,
            reply,
            client_id=client_id,
            client_host=client_host,
        )
        return self._guard(reply, HeartbeatResult(Errors.UNKNOWN_SERVER_ERROR), work)

    def leave(self, group_id: str, members: Sequence[LeavingMember]) -> Deferred[LeaveResult]:
        """Serve LeaveGroup for a group of either protocol. See :meth:`leave_group`."""
        group = self.manager.get_group(group_id)
        if self._validate(group_id) != Errors.NONE or not isinstance(group, ConsumerGroup):
            return Deferred.of(self.leave_group(group_id, members))
        with self._replies:
            return self._classic_members.leave(group, members)

    def leave_group(self, group_id: str, members: Sequence[LeavingMember]) -> LeaveResult:
        """Serve LeaveGroup for a classic group. Several members are removed in one rebalance.

        Args:
            members: the members to remove. For a static member the instance id is enough, with an empty member id.
        """
        error_code = self._validate(group_id)
        if error_code != Errors.NONE:
            return LeaveResult(error_code)
        group = self.manager.get_group(group_id)
        if not isinstance(group, GroupMetadata):
            unknown = (member._replace(error_code=Errors.UNKNOWN_MEMBER_ID) for member in members)
            return LeaveResult(Errors.NONE, tuple(unknown))
        if group.is_(GroupState.DEAD):
            return LeaveResult(Errors.COORDINATOR_NOT_AVAILABLE)
        with self._replies:
            results = tuple(member._replace(error_code=self._leave(group, member)) for member in members)
            left = [one.member_id or one.group_instance_id or "" for one in results if one.error_code == Errors.NONE]
            if left:
                self._rebalancer.after_removal(group, f"LeaveGroup of {', '.join(left)}")
        return LeaveResult(Errors.NONE, results)

    def _leave(self, group: GroupMetadata, leaving: LeavingMember) -> int:
        member: MemberMetadata
        if not leaving.member_id:
            if not group.has_static_member(leaving.group_instance_id):
                return Errors.UNKNOWN_MEMBER_ID
            member = group.get(group.static_members[leaving.group_instance_id or ""])
        elif group.is_pending_member(leaving.member_id):
            group.remove_pending_member(leaving.member_id)
            _log.info("Group %s: pending member %s left", group.group_id, leaving.member_id)
            return Errors.NONE
        else:
            error_code = check_member(group, leaving.member_id, leaving.group_instance_id)
            if error_code != Errors.NONE:
                return error_code
            member = group.get(leaving.member_id)
        _log.info(
            "Group %s: member %s left; client reason: %s",
            group.group_id,
            member.member_id,
            leaving.reason or "not provided",
        )
        self._rebalancer.remove_members(group, [member])
        return Errors.NONE

    # Offsets

    def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        retention_ms: int = -1,
        version: int = 10,
    ) -> Deferred[PartitionErrors]:
        """Serve OffsetCommit. The reply has an error code for each partition.

        It is set when the offsets are in the log.

        Args:
            offsets: the offsets to commit. This method sets their timestamps.
            generation_id, member_id: -1 and empty for a consumer that only stores offsets, without being a member.
            retention_ms: the offsets expire after this time, whatever state the group is in. -1 takes
                ``offsets.retention.minutes``.
            version: version of the request. From version 9 on clients understand GROUP_ID_NOT_FOUND and member epochs.
        """
        error_code = self._validate(group_id, may_be_empty=True)
        if error_code == Errors.NONE and self._is_shared(group_id):
            error_code = Errors.GROUP_ID_NOT_FOUND
        group = self.manager.get_or_maybe_create_group(group_id, generation_id < 0) if not error_code else None
        if error_code == Errors.NONE:
            if group is None:
                error_code = Errors.GROUP_ID_NOT_FOUND if version >= 9 else Errors.ILLEGAL_GENERATION
            elif isinstance(group, ConsumerGroup):
                named = (group_instance_id, generation_id)
                error_code = self._check_epoch(group, member_id, *named, offsets, transactional=False, version=version)
            else:
                error_code = self._check_commit(group, generation_id, member_id, group_instance_id, False)
        if error_code != Errors.NONE or group is None:
            return Deferred.of(dict.fromkeys(offsets, error_code))
        if isinstance(group, GroupMetadata) and group.is_(GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            self._rebalancer.restart_session(group, group.get(member_id))
        return self._store_offsets(group, offsets, member_id, retention_ms=retention_ms)

    def commit_transactional_offsets(
        self,
        group_id: str,
        producer_id: int,
        producer_epoch: int,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        version: int = 6,
    ) -> Deferred[PartitionErrors]:
        """Serve TxnOffsetCommit.

        It is like :meth:`commit_offsets`, but the offsets become valid when the transaction commits.

        Args:
            version: version of the request. Below version 6 clients know neither GROUP_ID_NOT_FOUND nor
                STALE_MEMBER_EPOCH. They get ILLEGAL_GENERATION instead (KIP-1319).
        """
        error_code = self._validate(group_id)
        if error_code == Errors.NONE and self._is_shared(group_id):
            error_code = Errors.GROUP_ID_NOT_FOUND
        group = self.manager.get_or_maybe_create_group(group_id, generation_id < 0) if not error_code else None
        if error_code == Errors.NONE:
            if group is None:
                knows = version >= FIRST_VERSION_WITH_GROUP_ERRORS
                error_code = Errors.GROUP_ID_NOT_FOUND if knows else Errors.ILLEGAL_GENERATION
            elif isinstance(group, ConsumerGroup):
                named = (group_instance_id, generation_id)
                error_code = self._check_epoch(group, member_id, *named, offsets, transactional=True, version=version)
            else:
                error_code = self._check_commit(group, generation_id, member_id, group_instance_id, True)
        if error_code != Errors.NONE or group is None:
            return Deferred.of(dict.fromkeys(offsets, error_code))
        return self._store_offsets(group, offsets, member_id, producer_id=producer_id, producer_epoch=producer_epoch)

    def _check_epoch(
        self,
        group: ConsumerGroup,
        member_id: str,
        group_instance_id: str | None,
        epoch: int,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        transactional: bool,
        version: int,
    ) -> int:
        image = self.consumer_groups.image
        partitions = {
            (image.topic_id(one.topic) or value.topic_id, one.partition): one.topic for one, value in offsets.items()
        }
        try:
            check_commit(
                group,
                member_id,
                group_instance_id,
                epoch,
                partitions,
                transactional=transactional,
                version=version,
            )
        except BrokerResponseError as error:
            _log.debug("Group %s: rejected the commit of member %s: %s", group.group_id, member_id, error)
            return error.errno
        return Errors.NONE

    @staticmethod
    def _check_commit(
        group: GroupMetadata, generation_id: int, member_id: str, group_instance_id: str | None, transactional: bool
    ) -> int:
        if group.is_(GroupState.DEAD):
            return Errors.COORDINATOR_NOT_AVAILABLE
        if generation_id < 0 and group.is_(GroupState.EMPTY):
            return Errors.NONE
        if generation_id >= 0 or member_id or group_instance_id is not None:
            error_code = check_member(group, member_id, group_instance_id)
            if error_code != Errors.NONE:
                return error_code
            if generation_id != group.generation_id:
                return Errors.ILLEGAL_GENERATION
        elif not transactional:
            return Errors.UNKNOWN_MEMBER_ID
        if not transactional and group.is_(GroupState.COMPLETING_REBALANCE):
            # The member does not have its assignment yet, so it cannot have read anything in this generation.
            return Errors.REBALANCE_IN_PROGRESS
        return Errors.NONE

    def _store_offsets(
        self,
        group: Group,
        offsets: Mapping[TopicPartition, CommittedOffset],
        member_id: str,
        *,
        retention_ms: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> Deferred[PartitionErrors]:
        now_ms = self._clock.wall_ms()
        expires_ms = None if retention_ms < 0 else min(now_ms + retention_ms, _LATEST_MS)
        stamped = {
            partition: value._replace(commit_timestamp=now_ms, expire_timestamp=expires_ms)
            for partition, value in offsets.items()
        }
        reply: Deferred[PartitionErrors] = Deferred()

        def work() -> None:
            stored = self.manager.store_offsets(group, member_id, stamped, producer_id, producer_epoch)
            stored.on_done(lambda result: self._replies.put(reply, result))

        return self._guard(reply, dict.fromkeys(offsets, Errors.UNKNOWN_SERVER_ERROR), work)

    def on_transaction_completed(self, producer_id: int, partitions: Iterable[int], *, commit: bool) -> None:
        """Apply or drop the offsets of a transaction that has its end marker in these partitions.

        They are partitions of ``__consumer_offsets``.
        """
        self.manager.complete_transaction(producer_id, partitions, commit=commit)

    def fetch_offsets(
        self,
        group_id: str,
        partitions: Sequence[TopicPartition] | None,
        *,
        require_stable: bool = False,
        topic_ids: Mapping[str, bytes] | None = None,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> Deferred[Offsets]:
        """Serve OffsetFetch for one group. Return its error code, and that of each partition.

        See the manager's ``get_offsets``.

        Args:
            member_id, member_epoch: the member that sent the request. None and -1 if it was not a member.
        """
        error_code = self._validate(group_id, may_be_empty=True)
        if error_code == Errors.NONE and self._is_shared(group_id):
            error_code = Errors.GROUP_ID_NOT_FOUND
        group = self.manager.get_group(group_id)
        if error_code == Errors.NONE and isinstance(group, ConsumerGroup):
            try:
                check_fetch(group, member_id, member_epoch)
            except BrokerResponseError as error:
                error_code = error.errno
        if error_code != Errors.NONE:
            return Deferred.of((error_code, {}))
        return self.manager.get_offsets(group_id, partitions, require_stable=require_stable, topic_ids=topic_ids)

    def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> Deferred[tuple[int, PartitionErrors]]:
        """Serve OffsetDelete (KIP-496). Return an error code for the group, or if that is 0 one for each partition."""
        error_code = self._validate(group_id)
        if error_code != Errors.NONE:
            return Deferred.of((error_code, {}))
        return self._expiration.delete_offsets(group_id, partitions)

    def on_partitions_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        """Remove the offsets of deleted partitions from all groups."""
        self._expiration.on_partitions_deleted(partitions)

    # Administration

    def describe_group(self, group_id: str) -> tuple[int, GroupSummary]:
        """Serve DescribeGroups for one group. With GROUP_ID_NOT_FOUND the summary is that of a Dead group."""
        error_code = self._validate(group_id, may_be_empty=True)
        if error_code != Errors.NONE:
            return error_code, GroupSummary("", "", "", ())
        group = self.manager.get_group(group_id)
        if not isinstance(group, GroupMetadata):
            return Errors.GROUP_ID_NOT_FOUND, _DEAD_SUMMARY
        return Errors.NONE, group.summary()

    def describe_consumer_group(self, group_id: str) -> tuple[int, ConsumerGroup | None]:
        """Serve ConsumerGroupDescribe for one group. Return an error code, and the group if there is no error."""
        error_code = self._validate(group_id)
        if error_code != Errors.NONE:
            return error_code, None
        group = self.manager.get_group(group_id)
        return (Errors.NONE, group) if isinstance(group, ConsumerGroup) else (Errors.GROUP_ID_NOT_FOUND, None)

    def share_group_heartbeat(
        self, request: ShareGroupHeartbeatRequest, *, client_id: str, client_host: str
    ) -> Deferred[ShareHeartbeatResult]:
        """Serve ShareGroupHeartbeat. The reply is set when the changes are in the log."""
        if not self._active:
            return Deferred.of(ShareHeartbeatResult(Errors.COORDINATOR_NOT_AVAILABLE))
        invalid = self.share_groups.check(request)
        if invalid is not None:
            return Deferred.of(invalid)
        error_code = self._validate(request.group_id)
        if error_code != Errors.NONE:
            return Deferred.of(ShareHeartbeatResult(error_code))
        reply: Deferred[ShareHeartbeatResult] = Deferred()
        work = partial(self.share_groups.heartbeat, request, reply, client_id=client_id, client_host=client_host)
        return self._guard(reply, ShareHeartbeatResult(Errors.UNKNOWN_SERVER_ERROR), work)

    def find_share_group(self, group_id: str) -> tuple[int, str | None, ShareGroup | None]:
        """Return an error code and its text, or the share group if there is no error."""
        error_code = self._validate(group_id)
        if error_code != Errors.NONE:
            return error_code, None, None
        try:
            return Errors.NONE, None, self.share_groups.get(group_id)
        except BrokerResponseError as error:
            return error.errno, str(error.args[0]), None

    def check_share_group(self, group_id: str) -> int:
        """Return the error code of a request about the offsets of a share group."""
        return self._validate(group_id)

    def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> tuple[int, list[GroupOverview]]:
        """Serve ListGroups. Return an error code and the groups of this coordinator.

        Args:
            states, types: names of states and types, in upper or lower case. Empty for all.
        """
        if not self._active:
            return Errors.COORDINATOR_NOT_AVAILABLE, []
        if self.manager.loading_partitions:
            return Errors.COORDINATOR_LOAD_IN_PROGRESS, []
        wanted_states = {name.lower() for name in states}
        wanted_types = {name.lower() for name in types}
        groups: list[Group | ShareGroup] = [*self.manager.groups, *self.manager.share_groups]
        found = [group.overview() for group in groups if not wanted_types or group.group_type in wanted_types]
        return Errors.NONE, [one for one in found if not wanted_states or one.state.lower() in wanted_states]

    def delete_groups(self, group_ids: Iterable[str]) -> Deferred[dict[str, int]]:
        """Serve DeleteGroups. The reply has an error code for each group.

        It is set when the tombstones are in the log.
        """
        results: dict[str, int] = {}
        valid = []
        shared: dict[str, Deferred[int]] = {}
        for group_id in dict.fromkeys(group_ids):
            results[group_id] = self._validate(group_id, may_be_empty=True)
            if results[group_id] == Errors.NONE:
                if self._is_shared(group_id):
                    shared[group_id] = self.share_offsets.delete_group(group_id)
                else:
                    valid.append(group_id)
        others = self._expiration.delete_groups(valid, results)
        if not shared:
            return others
        done: Deferred[dict[str, int]] = Deferred()
        for_each(shared).on_done(lambda codes: others.on_done(lambda rest: done.set(rest | codes)))
        return done
