"""The group coordinator: what a broker does when a client asks something about a group.

Each method is one request. It checks whether this broker is to answer at all, then calls the modules that know the
rules: :mod:`join` who may join, :mod:`rebalance` how a rebalance goes, :mod:`manager` what is stored,
:mod:`offset_expiration` what is removed. No method waits: what takes time is a :class:`Deferred`, which is set exactly
once. An error inside is logged and answered with UNKNOWN_SERVER_ERROR, so that no client is left without an answer.

:class:`GroupBroker` is the part of a broker that the handlers of group requests need.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

from pyconsumer.broker.context import RequestContext
from pyconsumer.broker.deferred import Deferred, PendingReplies
from pyconsumer.broker.group.config import GroupConfig
from pyconsumer.broker.group.group_metadata import GroupMetadata, GroupState, MemberMetadata
from pyconsumer.broker.group.join import JoinHandler, JoinRequest, check_member
from pyconsumer.broker.group.manager import GroupMetadataManager, Offsets
from pyconsumer.broker.group.offset_expiration import OffsetExpiration
from pyconsumer.broker.group.offsets import CommittedOffset
from pyconsumer.broker.group.rebalance import GroupRebalancer
from pyconsumer.broker.group.results import (
    GroupOverview,
    GroupSummary,
    JoinResult,
    LeaveResult,
    LeavingMember,
    SyncResult,
)
from pyconsumer.broker.group.storage import GroupStorage
from pyconsumer.broker.timer import Timer
from pyconsumer.clock import Clock
from pyconsumer.errors import Errors, error_name
from pyconsumer.structs import BrokerMetadata, TopicPartition

__all__ = ["CLASSIC_TYPE", "GroupBroker", "GroupCoordinator", "PartitionErrors"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: Error code for each partition.
PartitionErrors = dict[TopicPartition, int]

#: The kind of all groups here, as ListGroups names it from version 5 on.
CLASSIC_TYPE = "classic"

#: The end of time: milliseconds are 64 bits with a sign in a record.
_LATEST_MS = 2**63 - 1


class GroupBroker(Protocol):
    """One broker, as its group handlers see it."""

    @property
    def group_coordinator(self) -> GroupCoordinator: ...

    def topic_id(self, name: str) -> bytes | None:
        """The id of a topic, 16 bytes; None if there is no such topic."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of the topic with this id."""

    def partition_count(self, topic: str) -> int | None:
        """The number of partitions of a topic; None if there is no such topic."""

    def coordinator_node(self, topic_name: str, partition: int, context: RequestContext) -> BrokerMetadata | None:
        """The leader of a partition of an internal topic under the address that the client's listener has.

        None while the partition has no leader.
        """


_DEAD_SUMMARY = GroupSummary(GroupState.DEAD.value, "", "", ())


class GroupCoordinator:
    """The coordinator of one broker.

    Args:
        storage: the internal topic.
        timer: runs all deadlines; whoever owns it decides when time passes.
        clock: its monotonic time is the timer's, its wall time goes into records.
    """

    def __init__(self, config: GroupConfig, storage: GroupStorage, timer: Timer, clock: Clock) -> None:
        self.config = config
        self._clock = clock
        self._answers = PendingReplies()
        self.manager = GroupMetadataManager(config, storage, timer, clock, self._answers)
        self._rebalancer = GroupRebalancer(config, self.manager, timer, clock, self._answers)
        self._joins = JoinHandler(config, self.manager, self._rebalancer, self._answers)
        self._cleaner = OffsetExpiration(self.manager, timer, clock, self._answers)
        self._active = False

    # Life

    def start(self) -> None:
        """Begin to answer, and to look for expired offsets."""
        self._cleaner.start()
        self._active = True

    def shutdown(self) -> None:
        """Answer no request any more, send away those that wait, and stop all timers."""
        self._active = False
        self._cleaner.stop()
        self.manager.shutdown()
        with self._answers:
            for group in self.manager.groups:
                self._rebalancer.abandon(group)

    def on_become_leader(self, partition: int, epoch: int) -> None:
        """This broker leads a partition of ``__consumer_offsets`` from now on: load its groups."""
        self.manager.schedule_load(partition, epoch, self._on_group_loaded)

    def on_resign(self, partition: int, epoch: int | None) -> None:
        """It does not lead the partition any more: forget its groups."""
        self.manager.schedule_unload(partition, epoch, self._rebalancer.abandon)

    def _on_group_loaded(self, group: GroupMetadata) -> None:
        _log.info("Loading group %s: generation %d, %s", group.group_id, group.generation_id, group.state)
        group.remember_members()
        self._rebalancer.start_sessions(group)
        if group.size > self.config.group_max_size:
            self._rebalancer.prepare(group, f"the group is over its limit of {self.config.group_max_size} members")

    def partition_for(self, group_id: str) -> int:
        """The partition of ``__consumer_offsets`` whose leader coordinates the group."""
        return self.manager.partition_for(group_id)

    def _validate(self, group_id: str | None, *, may_be_empty: bool = False) -> int:
        """Return whether this broker is to answer for the group: an error code, 0 if so."""
        if group_id is None or not (group_id or may_be_empty):
            return Errors.INVALID_GROUP_ID
        if not self._active:
            return Errors.COORDINATOR_NOT_AVAILABLE
        if self.manager.is_loading(group_id):
            return Errors.COORDINATOR_LOAD_IN_PROGRESS
        return Errors.NONE if self.manager.is_local(group_id) else Errors.NOT_COORDINATOR

    def _guard(self, answer: Deferred[T], failed: T, work: Callable[[], None]) -> Deferred[T]:
        """Do the work of one request; if it breaks, say so to its client."""
        try:
            with self._answers:
                work()
        except Exception:
            _log.exception("A request to the group coordinator failed")
            if not answer.done:
                answer.set(failed)
        return answer

    # Membership

    def join_group(self, request: JoinRequest) -> Deferred[JoinResult]:
        """JoinGroup. The answer comes when the join phase is over, unless it is an error or nothing changes."""

        def fail(error_code: int) -> Deferred[JoinResult]:
            return Deferred.of(JoinResult(error_code, request.member_id))

        error_code = self._validate(request.group_id)
        if error_code != Errors.NONE:
            return fail(error_code)
        low, high = self.config.group_min_session_timeout_ms, self.config.group_max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            return fail(Errors.INVALID_SESSION_TIMEOUT)
        group = self.manager.get_or_maybe_create_group(request.group_id, create=not request.member_id)
        if group is None:
            return fail(Errors.UNKNOWN_MEMBER_ID)
        answer: Deferred[JoinResult] = Deferred()
        failed = JoinResult(Errors.UNKNOWN_SERVER_ERROR, request.member_id)
        return self._guard(answer, failed, partial(self._joins.join, group, request, answer))

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
        """SyncGroup. Answered when the leader's assignment is stored.

        Args:
            assignments: member id -> assignment; empty from all but the leader.
            protocol_type, protocol_name: what JoinGroup answered, or None in versions that do not send it back.
        """
        error_code = self._validate(group_id)
        if error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS:
            # The rebalance that it belongs to is lost with the old coordinator's memory: joining again is safe.
            error_code = Errors.REBALANCE_IN_PROGRESS
        if error_code != Errors.NONE:
            return Deferred.of(SyncResult(error_code))
        group = self.manager.get_group(group_id)
        if group is None:
            return Deferred.of(SyncResult(Errors.UNKNOWN_MEMBER_ID))
        error_code = self._check_sync(group, generation_id, member_id, group_instance_id, protocol_type, protocol_name)
        if error_code != Errors.NONE:
            return Deferred.of(SyncResult(error_code))
        answer: Deferred[SyncResult] = Deferred()
        work = partial(self._sync, group, member_id, assignments, answer)
        return self._guard(answer, SyncResult(Errors.UNKNOWN_SERVER_ERROR), work)

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
        self, group: GroupMetadata, member_id: str, assignments: Mapping[str, bytes], answer: Deferred[SyncResult]
    ) -> None:
        member = group.get(member_id)
        self._rebalancer.note_sync(group, member_id)
        if group.is_(GroupState.STABLE):
            result = SyncResult(Errors.NONE, member.assignment, group.protocol_type, group.protocol_name)
            self._answers.put(answer, result)
            self._rebalancer.restart_session(group, member)
            return
        # A request that it sent before must not stay open for ever.
        self._answers.put(member.take_sync_waiter(), SyncResult(Errors.REBALANCE_IN_PROGRESS))
        member.wait_for_sync(answer)
        if not group.is_leader(member_id):
            return
        _log.info(
            "Group %s: the assignment of generation %d came from leader %s for %d members, %d of them static",
            group.group_id,
            group.generation_id,
            member_id,
            group.size,
            len(group.static_members),
        )
        missing = [one for one in group.members if one not in assignments]
        if missing:
            _log.warning(
                "Group %s: empty assignments in generation %d for members that the leader left out: %s",
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
        with self._answers:
            # Somebody may have joined while the record was written: then the pending requests are answered already.
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
        """Heartbeat: an error code. REBALANCE_IN_PROGRESS makes a member join again."""
        error_code = self._validate(group_id)
        if error_code != Errors.NONE:
            # While its group is loaded nobody can say more than that it is not forgotten.
            return Errors.NONE if error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS else error_code
        group = self.manager.get_group(group_id)
        if group is None:
            return Errors.UNKNOWN_MEMBER_ID
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

    def leave_group(self, group_id: str, members: Sequence[LeavingMember]) -> LeaveResult:
        """LeaveGroup: takes members out, and rebalances once for all of them.

        Args:
            members: static ones may be named by their instance id alone, with an empty member id.
        """
        error_code = self._validate(group_id)
        if error_code != Errors.NONE:
            return LeaveResult(error_code)
        group = self.manager.get_group(group_id)
        if group is None:
            refused = (member._replace(error_code=Errors.UNKNOWN_MEMBER_ID) for member in members)
            return LeaveResult(Errors.NONE, tuple(refused))
        if group.is_(GroupState.DEAD):
            return LeaveResult(Errors.COORDINATOR_NOT_AVAILABLE)
        with self._answers:
            results = tuple(member._replace(error_code=self._leave(group, member)) for member in members)
            gone = [one.member_id or one.group_instance_id or "" for one in results if one.error_code == Errors.NONE]
            if gone:
                self._rebalancer.after_removal(group, f"LeaveGroup of {', '.join(gone)}")
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
        knows_missing_groups: bool = True,
    ) -> Deferred[PartitionErrors]:
        """OffsetCommit: an error code for each partition, once the offsets are in the log.

        Args:
            offsets: their timestamps are set here.
            generation_id, member_id: -1 and empty for a consumer that only stores offsets.
            retention_ms: -1 for the broker's; otherwise the offsets expire so much later, whatever the group does.
            knows_missing_groups: it understands GROUP_ID_NOT_FOUND (OffsetCommit from version 9).
        """
        error_code = self._validate(group_id, may_be_empty=True)
        group = self.manager.get_or_maybe_create_group(group_id, generation_id < 0) if not error_code else None
        if error_code == Errors.NONE:
            if group is None:
                error_code = Errors.GROUP_ID_NOT_FOUND if knows_missing_groups else Errors.ILLEGAL_GENERATION
            else:
                error_code = self._check_commit(group, generation_id, member_id, group_instance_id, False)
        if error_code != Errors.NONE or group is None:
            return Deferred.of(dict.fromkeys(offsets, error_code))
        if group.is_(GroupState.STABLE, GroupState.PREPARING_REBALANCE):
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
    ) -> Deferred[PartitionErrors]:
        """TxnOffsetCommit: like :meth:`commit_offsets`, but nobody sees the offsets before the transaction commits."""
        error_code = self._validate(group_id)
        group = self.manager.get_or_maybe_create_group(group_id, generation_id < 0) if not error_code else None
        if error_code == Errors.NONE:
            if group is None:
                error_code = Errors.ILLEGAL_GENERATION
            else:
                error_code = self._check_commit(group, generation_id, member_id, group_instance_id, True)
        if error_code != Errors.NONE or group is None:
            return Deferred.of(dict.fromkeys(offsets, error_code))
        return self._store_offsets(group, offsets, member_id, producer_id=producer_id, producer_epoch=producer_epoch)

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
            # It knows the new generation but not its assignment: it cannot have read anything in it.
            return Errors.REBALANCE_IN_PROGRESS
        return Errors.NONE

    def _store_offsets(
        self,
        group: GroupMetadata,
        offsets: Mapping[TopicPartition, CommittedOffset],
        member_id: str,
        *,
        retention_ms: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> Deferred[PartitionErrors]:
        now_ms = self._clock.wall_ms()
        expires = None if retention_ms < 0 else min(now_ms + retention_ms, _LATEST_MS)
        stamped = {
            partition: value._replace(commit_timestamp=now_ms, expire_timestamp=expires)
            for partition, value in offsets.items()
        }
        answer: Deferred[PartitionErrors] = Deferred()

        def work() -> None:
            stored = self.manager.store_offsets(group, member_id, stamped, producer_id, producer_epoch)
            stored.on_done(lambda result: self._answers.put(answer, result))

        return self._guard(answer, dict.fromkeys(offsets, Errors.UNKNOWN_SERVER_ERROR), work)

    def on_transaction_completed(self, producer_id: int, partitions: Iterable[int], *, commit: bool) -> None:
        """The end marker of a transaction was written to these partitions of ``__consumer_offsets``."""
        self.manager.complete_transaction(producer_id, partitions, commit=commit)

    def fetch_offsets(
        self,
        group_id: str,
        partitions: Sequence[TopicPartition] | None,
        *,
        require_stable: bool = False,
        topic_ids: Mapping[str, bytes] | None = None,
    ) -> Deferred[Offsets]:
        """OffsetFetch for one group: its error code and each partition's answer; see the manager's ``get_offsets``."""
        error_code = self._validate(group_id, may_be_empty=True)
        if error_code != Errors.NONE:
            return Deferred.of((error_code, {}))
        return self.manager.get_offsets(group_id, partitions, require_stable=require_stable, topic_ids=topic_ids)

    def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> Deferred[tuple[int, PartitionErrors]]:
        """OffsetDelete: an error code for the group, else one for each partition (KIP-496)."""
        error_code = self._validate(group_id)
        if error_code != Errors.NONE:
            return Deferred.of((error_code, {}))
        return self._cleaner.delete_offsets(group_id, partitions)

    def on_partitions_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        """Topics were deleted: no group has offsets of them any more."""
        self._cleaner.on_partitions_deleted(partitions)

    # Administration

    def describe_group(self, group_id: str) -> tuple[int, GroupSummary]:
        """DescribeGroups for one group. GROUP_ID_NOT_FOUND comes with the summary of a Dead group."""
        error_code = self._validate(group_id, may_be_empty=True)
        if error_code != Errors.NONE:
            return error_code, GroupSummary("", "", "", ())
        group = self.manager.get_group(group_id)
        if group is None:
            return Errors.GROUP_ID_NOT_FOUND, _DEAD_SUMMARY
        return Errors.NONE, group.summary()

    def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> tuple[int, list[GroupOverview]]:
        """ListGroups: an error code and the groups of this broker.

        Args:
            states, types: names in any case; without any, all are meant.
        """
        if not self._active:
            return Errors.COORDINATOR_NOT_AVAILABLE, []
        if self.manager.loading_partitions:
            return Errors.COORDINATOR_LOAD_IN_PROGRESS, []
        wanted = {state.lower() for state in states}
        kinds = {kind.lower() for kind in types}
        if kinds and CLASSIC_TYPE not in kinds:
            return Errors.NONE, []
        found = [group.overview() for group in self.manager.groups]
        return Errors.NONE, [one for one in found if not wanted or one.state.lower() in wanted]

    def delete_groups(self, group_ids: Iterable[str]) -> Deferred[dict[str, int]]:
        """DeleteGroups: an error code for each group, once the tombstones are in the log."""
        refused: dict[str, int] = {}
        eligible = []
        for group_id in dict.fromkeys(group_ids):
            refused[group_id] = self._validate(group_id, may_be_empty=True)
            if refused[group_id] == Errors.NONE:
                eligible.append(group_id)
        return self._cleaner.delete_groups(eligible, refused)
