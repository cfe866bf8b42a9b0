"""All groups of this broker in memory, and the writing of their records and offsets to the log.

A change that must survive is appended to the log first. The group protocols are not here: who may join, and when a
rebalance ends, is decided in :mod:`.classic` and :mod:`.consumer`.

A partition of ``__consumer_offsets`` is *loading* while its records are read, then *owned*. Its groups are served only
while it is owned. If the load fails, its groups have no coordinator until the leader changes again: serving half of
what was committed would lose offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyconsumer.background_log import Log
from pyconsumer.broker.deferred import Deferred, PendingReplies
from pyconsumer.broker.group.classic.group_metadata import GroupMetadata, GroupState
from pyconsumer.broker.group.classic.records import group_record
from pyconsumer.broker.group.common.config import GroupConfig
from pyconsumer.broker.group.common.load_steps import PAUSE_S
from pyconsumer.broker.group.common.offset_records import offset_record, partition_for, utf16_length
from pyconsumer.broker.group.common.offsets import CommitRecord, CommittedOffset
from pyconsumer.broker.group.common.results import NO_OFFSET, FetchedOffset
from pyconsumer.broker.group.common.storage import GroupStorage, KeyValue, StoreResult, from_append
from pyconsumer.broker.group.consumer.group import Group
from pyconsumer.broker.group.loading import PartitionLoader
from pyconsumer.broker.group.share.group import ShareGroup
from pyconsumer.broker.timer import Timer, TimerHandle
from pyconsumer.clock import Clock
from pyconsumer.errors import Errors, IllegalStateError, error_name
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.structs import TopicPartition

__all__ = ["CoordinatorMetrics", "GroupMetadataManager", "Offsets"]

_log = Log(__name__)

#: The result of an OffsetFetch: an error code for the whole group, and the offset of each partition.
Offsets = tuple[int, dict[TopicPartition, FetchedOffset]]


@dataclass(slots=True)
class CoordinatorMetrics:
    """Counters since the start. ``load_time_ms`` is the duration of the last load."""

    committed_offsets: int = 0
    completed_rebalances: int = 0
    expired_offsets: int = 0
    deleted_offsets: int = 0
    load_time_ms: int = 0

    def committed(self, count: int) -> None:
        """Count offsets that were committed."""
        self.committed_offsets += count

    def rebalanced(self) -> None:
        """Count a rebalance that was completed."""
        self.completed_rebalances += 1

    def expired(self, count: int) -> None:
        """Count offsets that expired."""
        self.expired_offsets += count

    def deleted(self, count: int) -> None:
        """Count offsets that were deleted."""
        self.deleted_offsets += count

    def loaded(self, seconds: float) -> None:
        """Record how long a load took."""
        self.load_time_ms = round(seconds * 1000)


@dataclass(slots=True)
class _Partition:
    """A partition of the internal topic that this broker leads: loading, owned, or failed."""

    epoch: int
    loader: PartitionLoader | None = None
    task: TimerHandle | None = None
    failed: bool = False

    def see_epoch(self, epoch: int) -> None:
        """Adopt the leader epoch if it is newer."""
        self.epoch = max(self.epoch, epoch)

    def schedule(self, task: TimerHandle) -> None:
        """Keep the handle of the next step of the load."""
        self.task = task

    def end_load(self, *, failed: bool = False) -> None:
        """Drop the loader, which has read everything or has failed."""
        self.loader, self.failed = None, failed


class GroupMetadataManager:
    """All groups of this broker.

    Args:
        timer: schedules the loading and unloading of partitions, and serves nothing else.
        replies: collects the replies to clients.
    """

    def __init__(
        self, config: GroupConfig, storage: GroupStorage, timer: Timer, clock: Clock, replies: PendingReplies
    ) -> None:
        self.config = config
        self.metrics = CoordinatorMetrics()
        self._storage = storage
        self._timer = timer
        self._clock = clock
        self._replies = replies
        self._groups: dict[str, Group] = {}
        self._share_groups: dict[str, ShareGroup] = {}
        self._partitions: dict[int, _Partition] = {}
        self._partition_count = 0
        self._open_transactions: dict[int, set[str]] = {}
        self._shutting_down = False

    def shutdown(self) -> None:
        """Stop running loads."""
        self._shutting_down = True
        for partition in self._partitions.values():
            if partition.task is not None:
                partition.task.cancel()

    # Which groups this broker coordinates

    def partition_for(self, group_id: str) -> int:
        """Return the partition of ``__consumer_offsets`` in which a group is stored.

        The topic's partition count is read only once. If it changed, groups would move to other partitions.
        """
        if self._partition_count == 0:
            self._partition_count = self._storage.partition_count()
        return partition_for(group_id, self._partition_count)

    @property
    def loading_partitions(self) -> set[int]:
        return {number for number, state in self._partitions.items() if state.loader is not None}

    @property
    def owned_partitions(self) -> set[int]:
        return {number for number, state in self._partitions.items() if state.loader is None and not state.failed}

    def is_loading(self, group_id: str) -> bool:
        state = self._partitions.get(self.partition_for(group_id))
        return state is not None and state.loader is not None

    def is_local(self, group_id: str) -> bool:
        """Return whether this broker serves the group."""
        state = self._partitions.get(self.partition_for(group_id))
        return state is not None and state.loader is None and not state.failed

    # The cache

    @property
    def groups(self) -> list[Group]:
        return list(self._groups.values())

    @property
    def offset_count(self) -> int:
        """The number of committed offsets in the cache."""
        return sum(len(group.offsets.committed) for group in self._groups.values())

    def get_group(self, group_id: str) -> Group | None:
        """Return the cached group. None means that this broker does not have it. Another broker may have it."""
        return self._groups.get(group_id)

    @property
    def share_groups(self) -> list[ShareGroup]:
        """The share groups. They have ids of their own: no other group has the same."""
        return list(self._share_groups.values())

    def get_share_group(self, group_id: str) -> ShareGroup | None:
        """Return the cached share group, or None if this broker does not have it."""
        return self._share_groups.get(group_id)

    def add_share_group(self, group: ShareGroup) -> None:
        """Cache a share group."""
        self._share_groups[group.group_id] = group

    def remove_share_group(self, group: ShareGroup) -> None:
        """Remove a share group from the cache."""
        if self._share_groups.get(group.group_id) is group:
            del self._share_groups[group.group_id]

    def get_or_maybe_create_group(self, group_id: str, create: bool) -> Group | None:
        """Return the cached group. If there is none and ``create`` is True, create an Empty classic group."""
        group = self._groups.get(group_id)
        if group is None and create:
            group = self.add_group(GroupMetadata(group_id, GroupState.EMPTY, self._clock))
        return group

    def add_group(self, group: Group) -> Group:
        """Cache the group, unless a group with the same id is cached. Return the group that is cached then."""
        return self._groups.setdefault(group.group_id, group)

    def replace_group(self, group: Group) -> None:
        """Cache a group in place of the group with the same id, whose offsets it has taken over."""
        self._groups[group.group_id] = group

    def remove_group(self, group: Group) -> None:
        """Remove the group from the cache, and from all open transactions.

        If another group with the same id is cached, that one stays.
        """
        if self._groups.get(group.group_id) is group:
            del self._groups[group.group_id]
        for producer_id in list(self._open_transactions):
            self._forget_transaction(producer_id, group.group_id)

    def groups_of_producer(self, producer_id: int) -> set[str]:
        """Return the ids of the groups that have offsets of the producer's open transaction."""
        return set(self._open_transactions.get(producer_id, ()))

    def _forget_transaction(self, producer_id: int, group_id: str) -> None:
        groups = self._open_transactions.get(producer_id)
        if groups is not None:
            groups.discard(group_id)
            if not groups:
                del self._open_transactions[producer_id]

    # Loading and unloading

    def schedule_load(self, partition: int, epoch: int, on_group_loaded: Callable[[Group | ShareGroup], None]) -> None:
        """Load a partition that this broker now leads. Afterwards serve its groups.

        Args:
            epoch: the leader epoch. Nothing is loaded if the epoch is not newer than the last one or the partition is
                owned already, unless the last load failed.
            on_group_loaded: called for each group that was added to the cache.
        """
        state = self._partitions.get(partition)
        if state is not None and not state.failed and (epoch <= state.epoch or state.loader is None):
            state.see_epoch(epoch)
            return
        if state is not None and state.task is not None:
            state.task.cancel()
        state = _Partition(epoch, PartitionLoader(partition, self._storage.read(partition), self._clock))
        self._partitions[partition] = state
        started = self._clock.now()
        state.schedule(self._timer.schedule(started, lambda: self._load(partition, state, started, on_group_loaded)))
        _log.info("Scheduling the load of __consumer_offsets-%d at epoch %d", partition, epoch)

    def _load(
        self,
        partition: int,
        state: _Partition,
        started: float,
        on_group_loaded: Callable[[Group | ShareGroup], None],
    ) -> None:
        loader = state.loader
        if loader is None or self._shutting_down or self._partitions.get(partition) is not state:
            return
        try:
            if loader.read(self.config.offsets_load_buffer_size):
                again_at = self._clock.now() + PAUSE_S
                state.schedule(
                    self._timer.schedule(again_at, lambda: self._load(partition, state, started, on_group_loaded))
                )
                return
            groups = loader.groups()
            self._check_removed(loader, groups)
        except Exception:
            _log.exception(
                "Loading __consumer_offsets-%d failed; its groups have no coordinator until the leader changes",
                partition,
            )
            state.end_load(failed=True)
            return
        state.end_load()
        self.metrics.loaded(self._clock.now() - started)
        with self._replies:
            for group in groups:
                if self.load_group(group):
                    on_group_loaded(group)
            for share_group in loader.share_groups():
                self.add_share_group(share_group)
                on_group_loaded(share_group)
        _log.info(
            "Loaded __consumer_offsets-%d: %d groups from %d records (%d of unknown types) in %d ms",
            partition,
            len(groups),
            loader.record_count,
            loader.unknown_count,
            self.metrics.load_time_ms,
        )

    def _check_removed(self, loader: PartitionLoader, groups: list[Group]) -> None:
        loaded = {group.group_id for group in groups}
        for group_id in loader.removed_groups - loaded:
            if group_id in self._groups:
                raise IllegalStateError(f"group {group_id} is removed in the log, but it is cached")

    def load_group(self, group: Group) -> bool:
        """Cache a loaded group with its offsets.

        If a group with the same id is cached, keep that one and return False.
        """
        present = self.add_group(group)
        if present is not group:
            _log.debug("%r was loaded, but %r is cached already and stays", group, present)
            return False
        for producer_id in group.offsets.pending_transactional:
            self._open_transactions.setdefault(producer_id, set()).add(group.group_id)
        _log.debug("Loaded %r with %d offsets", group, len(group.offsets.committed))
        return True

    def schedule_unload(
        self, partition: int, epoch: int | None, on_group_unloaded: Callable[[Group | ShareGroup], None]
    ) -> None:
        """Drop the groups of a partition that this broker no longer leads. The log is not changed.

        Args:
            epoch: the new leader epoch. If a newer epoch is known, the call has no effect. None always has an effect.
            on_group_unloaded: called for each group before it is removed from the cache.
        """
        state = self._partitions.get(partition)
        if state is None or (epoch is not None and epoch < state.epoch):
            return
        # From now on requests get NOT_COORDINATOR; a load that is scheduled next runs after the groups are removed.
        del self._partitions[partition]
        if state.task is not None:
            state.task.cancel()
        _log.info("Scheduling the unload of __consumer_offsets-%d", partition)
        self._timer.schedule(self._clock.now(), lambda: self._unload(partition, on_group_unloaded))

    def _unload(self, partition: int, on_group_unloaded: Callable[[Group | ShareGroup], None]) -> None:
        group_count = offset_count = 0
        with self._replies:
            for group in self.groups:
                if self.partition_for(group.group_id) != partition:
                    continue
                on_group_unloaded(group)
                self.remove_group(group)
                group_count += 1
                offset_count += len(group.offsets.committed)
                group.offsets.settle_all()
            for share_group in self.share_groups:
                if self.partition_for(share_group.group_id) == partition:
                    on_group_unloaded(share_group)
                    self.remove_share_group(share_group)
                    group_count += 1
        _log.info(
            "Unloaded __consumer_offsets-%d: removed %d cached offsets and %d groups",
            partition,
            offset_count,
            group_count,
        )

    # Storing

    def append(
        self, partition: int, records: Sequence[KeyValue], producer_id: int = -1, producer_epoch: int = -1
    ) -> Deferred[StoreResult]:
        """Append a batch. If the storage raises an exception, it is logged, and the result is UNKNOWN_SERVER_ERROR."""
        try:
            return self._storage.append(
                partition, records, self._clock.wall_ms(), producer_id=producer_id, producer_epoch=producer_epoch
            )
        except Exception:
            _log.exception("Appending to __consumer_offsets-%d failed", partition)
            return Deferred.of(StoreResult(Errors.UNKNOWN_SERVER_ERROR))

    def store_group(self, group: GroupMetadata, assignments: Mapping[str, bytes]) -> Deferred[int]:
        """Write the group's record with these assignments. The result is an error code for clients.

        Raises:
            IllegalStateError: a member has no assignment, or the group has no protocol.
        """
        if not self.is_local(group.group_id):
            return Deferred.of(Errors.NOT_COORDINATOR)
        stored: Deferred[int] = Deferred()
        appended = self.append(self.partition_for(group.group_id), [group_record(group, assignments)])
        appended.on_done(lambda result: stored.set(from_append(result.error_code)))
        return stored

    def store_offsets(
        self,
        group: Group,
        member_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> Deferred[dict[TopicPartition, int]]:
        """Write offsets to the log. They become visible when they are in the log.

        If they belong to a transaction, they become visible when it commits.

        Args:
            member_id: the member's id. It is used only in log lines.
            producer_id, producer_epoch: the producer of the transaction to which the commit belongs. Both are -1
                outside a transaction.

        Returns:
            An error code for each partition. It is OFFSET_METADATA_TOO_LARGE for an offset that is not written.
        """
        limit = self.config.offset_metadata_max_bytes
        kept = {partition: value for partition, value in offsets.items() if utf16_length(value.metadata) <= limit}
        if not kept:
            return Deferred.of(dict.fromkeys(offsets, Errors.OFFSET_METADATA_TOO_LARGE))
        if not self.is_local(group.group_id):
            return Deferred.of(dict.fromkeys(offsets, Errors.NOT_COORDINATOR))
        records = [offset_record(group.group_id, partition, value) for partition, value in kept.items()]
        if producer_id >= 0:
            self._open_transactions.setdefault(producer_id, set()).add(group.group_id)
            group.offsets.prepare_transactional(producer_id, kept)
            group.note_commits(transactional=True)
        else:
            group.offsets.prepare(kept)
            group.note_commits(transactional=False)
        if group.received_consumer_commits and group.received_transactional_commits:
            _log.warning("Group %s has received both plain and transactional commits", group.group_id)
        reply: Deferred[dict[TopicPartition, int]] = Deferred()

        def on_appended(result: StoreResult) -> None:
            with self._replies:
                if self._is_alive(group):
                    self._after_commit(group, kept, result, producer_id)
                error_code = from_append(result.error_code)
                if error_code == Errors.NONE:
                    self.metrics.committed(len(kept))
                else:
                    _log.debug(
                        "Group %s: the commit of member %s failed: %s",
                        group.group_id,
                        member_id,
                        error_name(error_code),
                    )
                self._replies.put(
                    reply,
                    {
                        partition: error_code if partition in kept else Errors.OFFSET_METADATA_TOO_LARGE
                        for partition in offsets
                    },
                )

        self.append(self.partition_for(group.group_id), records, producer_id, producer_epoch).on_done(on_appended)
        return reply

    def _is_alive(self, group: Group) -> bool:
        """Return whether the group, or the one that it was converted to, is not dead."""
        if not group.is_dead:
            return True
        present = self._groups.get(group.group_id)
        return present is not None and not present.is_dead and present.offsets is group.offsets

    def _after_commit(
        self,
        group: Group,
        kept: Mapping[TopicPartition, CommittedOffset],
        result: StoreResult,
        producer_id: int,
    ) -> None:
        cache = group.offsets
        for partition, value in kept.items():
            record = CommitRecord(result.base_offset, value)
            if result.error_code == Errors.NONE:
                if producer_id >= 0:
                    cache.on_transactional_appended(producer_id, partition, record)
                else:
                    cache.on_commit_appended(partition, record)
            elif producer_id >= 0:
                cache.fail_transactional(producer_id, partition, value)
            else:
                cache.fail_pending(partition, value)
        if producer_id >= 0 and producer_id not in cache.pending_transactional:
            self._forget_transaction(producer_id, group.group_id)

    def complete_transaction(self, producer_id: int, partitions: Iterable[int], *, commit: bool) -> None:
        """Apply or drop the offsets of a transaction that has its end marker in these partitions.

        They are partitions of ``__consumer_offsets``.
        """
        marked = set(partitions)
        for group_id in self.groups_of_producer(producer_id):
            if self.partition_for(group_id) in marked:
                group = self._groups.get(group_id)
                if group is not None and not group.is_dead:
                    group.offsets.complete_transaction(producer_id, commit=commit)
                self._forget_transaction(producer_id, group_id)

    # Fetching

    def get_offsets(
        self,
        group_id: str,
        partitions: Sequence[TopicPartition] | None,
        *,
        require_stable: bool,
        topic_ids: Mapping[str, bytes] | None = None,
    ) -> Deferred[Offsets]:
        """Return committed offsets from the cache.

        Args:
            partitions: the partitions. None means all that have an offset. An empty list means none.
            require_stable: True waits for pending commits without a transaction. A partition with commits of an open
                transaction gets UNSTABLE_OFFSET_COMMIT (KIP-447).
            topic_ids: the current ids of the topics. If an offset was committed for an earlier topic of the same name,
                it is not returned.
        """
        group = self._groups.get(group_id)
        if group is None or group.is_dead:
            return Deferred.of((Errors.NONE, dict.fromkeys(partitions or (), NO_OFFSET)))
        reply: Deferred[Offsets] = Deferred()

        def read() -> None:
            if not self.is_local(group_id):
                self._replies.put(reply, (Errors.NOT_COORDINATOR, {}))
                return
            cache = group.offsets
            wanted = list(cache.committed) if partitions is None else partitions
            found = {}
            for partition in wanted:
                record = cache.committed.get(partition)
                if require_stable and cache.has_pending_transactional(partition):
                    found[partition] = FetchedOffset(error_code=Errors.UNSTABLE_OFFSET_COMMIT)
                elif record is None or _of_another_topic(record.value, (topic_ids or {}).get(partition.topic)):
                    found[partition] = NO_OFFSET
                else:
                    found[partition] = FetchedOffset(
                        record.value.offset, record.value.leader_epoch, record.value.metadata
                    )
            self._replies.put(reply, (Errors.NONE, found))

        with self._replies:
            if require_stable:
                group.offsets.when_settled(list(group.offsets.pending) if partitions is None else partitions, read)
            else:
                read()
        return reply


def _of_another_topic(value: CommittedOffset, topic_id: bytes | None) -> bool:
    """Return whether the offset was committed for an earlier topic of the same name, as far as both ids are known."""
    return topic_id is not None and ZERO_UUID not in (topic_id, value.topic_id) and value.topic_id != topic_id
