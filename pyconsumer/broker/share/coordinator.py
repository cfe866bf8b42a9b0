"""The share coordinator of a broker: keeps the state of share partitions in ``__share_group_state`` (KIP-932).

A share partition belongs to a partition of this topic, whose leader is its share coordinator. A partition is *loading*
while its records are read, then *served*. If its load fails, its share partitions have no coordinator until the leader
changes again. As in the transaction coordinator, a load ends when all in-sync replicas have every record that was read.

Order of a change
-----------------
1. The epochs are compared. A request of a leader, or about a state, that has been replaced is refused.
2. The record is appended. If that fails at once, nothing changes.
3. Otherwise it is applied at once, so that the next request sees it. The answer is sent when all in-sync replicas have
   the record. If they take too long, the record may be in the log all the same. The leader asks again, and a repeated
   change changes nothing.

After :attr:`~.ShareConfig.share_coordinator_snapshot_update_records_per_snapshot` updates of a share partition, its
next record is a snapshot. What is before the oldest snapshot that is needed is removed from the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from pyconsumer.background_log import Log
from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.common.load_steps import PAUSE_S, read_step
from pyconsumer.broker.group.common.offset_records import partition_for
from pyconsumer.broker.group.common.storage import GroupStorage, KeyValue, StoreResult, from_append
from pyconsumer.broker.share.config import ShareConfig
from pyconsumer.broker.share.state import NO_OFFSET, ShareState, StateChange, state_tombstones
from pyconsumer.broker.timer import Timer, TimerHandle
from pyconsumer.clock import Clock
from pyconsumer.errors import Errors
from pyconsumer.protocol.primitives import uuid_to_str
from pyconsumer.protocol.records import SimpleRecord
from pyconsumer.protocol.share_state_topic import (
    SNAPSHOT,
    ShareSnapshotValue,
    ShareStateKey,
    ShareUpdateValue,
    decode_state_key,
    decode_state_value,
)

__all__ = ["ShareCoordinator", "StateResult", "StateTopics", "state_partition_for"]

_log = Log(__name__)


class StateTopics(Protocol):
    """The part of a cluster that the share coordinator needs."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id, or None."""

    def partition_count(self, topic: str) -> int | None:
        """Return the number of a topic's partitions, or None if there is no such topic."""

    def remove_before(self, partition: int, offset: int) -> None:
        """Remove the records of a partition of ``__share_group_state`` before an offset."""


class StateResult(NamedTuple):
    """The answer to one request about one share partition. ``state`` is set only by reads."""

    error_code: int = 0
    error_message: str | None = None
    state: ShareState | None = None


def state_partition_for(key: ShareStateKey, count: int) -> int:
    """Return the partition of ``__share_group_state`` for a share partition."""
    return partition_for(f"{key.group_id}:{uuid_to_str(key.topic_id)}:{key.partition}", count)


@dataclass(slots=True)
class _Kept:
    """A share partition: its state, the number of updates since the snapshot, and where the snapshot is."""

    state: ShareState
    update_count: int = 0
    snapshot_offset: int = -1

    def become(self, state: ShareState, update_count: int) -> None:
        self.state, self.update_count = state, update_count

    def found_at(self, offset: int) -> None:
        """Note where the snapshot is."""
        self.snapshot_offset = max(self.snapshot_offset, offset)


@dataclass(slots=True)
class _Partition:
    """A partition of ``__share_group_state`` that this broker leads: loading, served, or failed."""

    epoch: int
    #: The unread part of its log, while it is loading.
    pieces: Iterator[bytes | memoryview] | None = None
    kept: dict[ShareStateKey, _Kept] = field(default_factory=dict)
    task: TimerHandle | None = None
    failed: bool = False
    pruned_to: int = 0

    @property
    def is_served(self) -> bool:
        return self.pieces is None and not self.failed

    def schedule(self, task: TimerHandle) -> None:
        """Keep the handle of the next step of the load."""
        self.task = task

    def end_load(self, *, failed: bool = False) -> None:
        """End the load: serve the share partitions, or forget them if the load failed."""
        self.pieces, self.failed = None, failed
        if failed:
            self.kept.clear()

    def cancel(self) -> None:
        """Stop loading."""
        if self.task is not None:
            self.task.cancel()

    def note_pruned(self, offset: int) -> None:
        """Record that the log begins at an offset."""
        self.pruned_to = offset

    def replay(self, kind: int, key: ShareStateKey, value: ShareSnapshotValue | ShareUpdateValue | None) -> None:
        """Apply one record."""
        if value is None:
            self.kept.pop(key, None)
        elif isinstance(value, ShareSnapshotValue):
            before = self.kept.get(key)
            state = ShareState.of_snapshot(value)
            if before is None:
                self.kept[key] = _Kept(state)
            else:
                before.become(state._replace(leader_epoch=max(state.leader_epoch, before.state.leader_epoch)), 0)
        elif key in self.kept:
            kept = self.kept[key]
            kept.become(kept.state.changed_by(value), kept.update_count + 1)


class ShareCoordinator:
    """The share coordinator of one broker. See the module.

    Args:
        storage: the internal topic ``__share_group_state``.
        topics: the topics of the cluster.
    """

    def __init__(
        self, config: ShareConfig, storage: GroupStorage, timer: Timer, clock: Clock, topics: StateTopics
    ) -> None:
        self.config = config
        self._storage = storage
        self._timer = timer
        self._clock = clock
        self._topics = topics
        self._partitions: dict[int, _Partition] = {}
        self._partition_count = 0
        self._tasks: list[TimerHandle] = []

    # --- life

    def start(self) -> None:
        """From now on, remove what is not needed from the logs."""
        self._every(self.config.share_coordinator_state_topic_prune_interval_ms, self.prune)
        self._every(self.config.share_coordinator_cold_partition_snapshot_interval_ms, self.snapshot_cold)

    def _every(self, interval_ms: int, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except Exception:
                _log.exception("A periodic task of the share coordinator failed")
            self._tasks = [task for task in self._tasks if task.active]
            self._tasks.append(self._timer.schedule(self._clock.now() + interval_ms / 1000, run))

        self._tasks.append(self._timer.schedule(self._clock.now() + interval_ms / 1000, run))

    def shutdown(self) -> None:
        """Stop loading, and stop serving."""
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        for number in list(self._partitions):
            self.on_resign(number, None)

    def partition_for(self, key: ShareStateKey) -> int:
        """Return the partition of ``__share_group_state`` for a share partition.

        If the topic does not exist, it is created.

        Raises:
            CoordinatorNotAvailableError: the topic cannot be created, because too few brokers are alive.
        """
        if self._partition_count == 0:
            self._partition_count = self._storage.partition_count()
        return state_partition_for(key, self._partition_count)

    # --- loading and unloading

    def on_become_leader(self, number: int, epoch: int) -> None:
        """Load a partition that this broker now leads. Afterwards serve its share partitions."""
        known = self._partitions.get(number)
        if known is not None:
            if epoch < known.epoch:
                return
            known.cancel()
        partition = self._partitions[number] = _Partition(epoch, self._storage.read(number))
        _log.debug("Loading __share_group_state-%d at epoch %d", number, epoch)
        partition.schedule(self._timer.schedule(self._clock.now(), partial(self._load, number, partition)))

    def _load(self, number: int, partition: _Partition) -> None:
        if partition.pieces is None or self._partitions.get(number) is not partition:
            return
        try:
            most = self.config.share_coordinator_load_buffer_size
            if read_step(partition.pieces, self._clock, most, partial(self._take, partition)):
                at = self._clock.now() + PAUSE_S
                partition.schedule(self._timer.schedule(at, partial(self._load, number, partition)))
                return
        except Exception:
            _log.exception(
                "Loading __share_group_state-%d failed; its share partitions have no coordinator until the leader "
                "changes",
                number,
            )
            partition.end_load(failed=True)
            return
        partition.end_load()
        _log.info("Loaded __share_group_state-%d: %d share partitions", number, len(partition.kept))
        self._forget_deleted_topics(number, partition)

    @staticmethod
    def _take(partition: _Partition, record: SimpleRecord) -> None:
        found = decode_state_key(record.key or b"")
        if found is None:
            return  # of a later version
        kind, key = found
        value = None if record.value is None else decode_state_value(kind, record.value)
        partition.replay(kind, key, value)
        if kind == SNAPSHOT and key in partition.kept:
            partition.kept[key].found_at(record.offset)

    def on_resign(self, number: int, epoch: int | None) -> None:
        """Forget a partition that this broker no longer leads.

        Args:
            epoch: the new leader epoch. If a newer epoch is known, the call has no effect. None always has an effect.
        """
        partition = self._partitions.get(number)
        if partition is not None and (epoch is None or epoch >= partition.epoch):
            del self._partitions[number]
            partition.cancel()

    # --- requests

    def _find(self, key: ShareStateKey) -> tuple[int, _Partition] | StateResult:
        """Return the partition that keeps a share partition, or the error of a request about it."""
        if key.partition < 0:
            return StateResult(Errors.INVALID_REQUEST, "The partition id must not be negative.")
        number = self.partition_for(key)
        partition = self._partitions.get(number)
        if partition is None or partition.failed:
            return StateResult(Errors.NOT_COORDINATOR)
        if not partition.is_served:
            return StateResult(Errors.COORDINATOR_LOAD_IN_PROGRESS)
        return number, partition

    def _check_topic(self, key: ShareStateKey) -> StateResult | None:
        name = self._topics.topic_name(key.topic_id)
        count = None if name is None else self._topics.partition_count(name)
        if count is None or key.partition >= count:
            return StateResult(Errors.UNKNOWN_TOPIC_OR_PARTITION)
        return None

    def initialize(self, key: ShareStateKey, state_epoch: int, start_offset: int) -> Deferred[StateResult]:
        """Serve InitializeShareGroupState for one share partition: give it a new state.

        Args:
            start_offset: -1 lets the leader choose it by ``share.auto.offset.reset``.
        """
        found = self._find(key)
        if isinstance(found, StateResult):
            return Deferred.of(found)
        number, partition = found
        kept = partition.kept.get(key)
        if kept is not None and -1 < state_epoch < kept.state.state_epoch:
            return Deferred.of(StateResult(Errors.FENCED_STATE_EPOCH))
        refused = self._check_topic(key)
        if refused is not None:
            return Deferred.of(refused)
        now_ms = self._clock.wall_ms()
        state = ShareState(
            0 if kept is None else kept.state.snapshot_epoch + 1,
            state_epoch,
            0,
            start_offset,
            -1 if start_offset == NO_OFFSET else 0,
            now_ms,
            now_ms,
        )
        record, value = state.snapshot_record(key)
        return self._store(number, partition, [(key, SNAPSHOT, record, value)])

    def read(self, key: ShareStateKey, leader_epoch: int) -> Deferred[StateResult]:
        """Serve ReadShareGroupState for one share partition. A newer leader epoch is stored."""
        found = self._find(key)
        if isinstance(found, StateResult):
            return Deferred.of(found)
        number, partition = found
        kept = partition.kept.get(key)
        if kept is None:
            return Deferred.of(StateResult(Errors.INVALID_REQUEST, "Read operation on uninitialized share partition."))
        if -1 < leader_epoch < kept.state.leader_epoch:
            return Deferred.of(StateResult(Errors.FENCED_LEADER_EPOCH))
        refused = self._check_topic(key)
        if refused is not None:
            return Deferred.of(refused)
        state = kept.state
        if leader_epoch in (-1, state.leader_epoch):
            return Deferred.of(StateResult(state=state))
        change = StateChange(state.state_epoch, leader_epoch, state.start_offset, state.complete_count, ())
        return self._change(number, partition, key, change, state)

    def write(self, key: ShareStateKey, change: StateChange) -> Deferred[StateResult]:
        """Serve WriteShareGroupState for one share partition."""
        found = self._find(key)
        if isinstance(found, StateResult):
            return Deferred.of(found)
        number, partition = found
        kept = partition.kept.get(key)
        if kept is None:
            return Deferred.of(StateResult(Errors.INVALID_REQUEST, "Write operation on uninitialized share partition."))
        if -1 < change.leader_epoch < kept.state.leader_epoch:
            return Deferred.of(StateResult(Errors.FENCED_LEADER_EPOCH))
        if -1 < change.state_epoch < kept.state.state_epoch:
            return Deferred.of(StateResult(Errors.FENCED_STATE_EPOCH))
        refused = self._check_topic(key)
        if refused is not None:
            return Deferred.of(refused)
        start = change.start_offset
        if start != NO_OFFSET:
            start = max(start, kept.state.start_offset)  # a request that comes late does not bring records back
        return self._change(number, partition, key, change._replace(leader_epoch=-1, start_offset=start), None)

    def read_summary(self, key: ShareStateKey) -> StateResult:
        """Serve ReadShareGroupStateSummary for one share partition. Without a state, the start offset is -1."""
        found = self._find(key)
        if isinstance(found, StateResult):
            return found
        refused = self._check_topic(key)
        if refused is not None:
            return refused
        kept = found[1].kept.get(key)
        return StateResult(state=ShareState() if kept is None else kept.state)

    def delete(self, key: ShareStateKey) -> Deferred[StateResult]:
        """Serve DeleteShareGroupState for one share partition. Without a state, there is nothing to do."""
        found = self._find(key)
        if isinstance(found, StateResult):
            return Deferred.of(found)
        number, partition = found
        refused = self._check_topic(key)
        if refused is not None:
            return Deferred.of(refused)
        if key not in partition.kept:
            return Deferred.of(StateResult())
        (record,) = state_tombstones(key)
        return self._store(number, partition, [(key, SNAPSHOT, record, None)])

    def forget_deleted_topics(self) -> None:
        """Remove the states of share partitions whose topic was deleted. At the end of a load, that is done, too."""
        for number, partition in list(self._partitions.items()):
            self._forget_deleted_topics(number, partition)

    def _forget_deleted_topics(self, number: int, partition: _Partition) -> None:
        if partition.is_served:
            gone = [key for key in partition.kept if self._topics.topic_name(key.topic_id) is None]
            if gone:
                self._store(number, partition, [(key, SNAPSHOT, state_tombstones(key)[0], None) for key in gone])

    # --- writing

    def _change(
        self, number: int, partition: _Partition, key: ShareStateKey, change: StateChange, answer: ShareState | None
    ) -> Deferred[StateResult]:
        kept = partition.kept[key]
        if kept.update_count >= self.config.share_coordinator_snapshot_update_records_per_snapshot:
            snapshot = kept.state.snapshot_after(change, self._clock.wall_ms())
            record, value = snapshot.snapshot_record(key)
            return self._store(number, partition, [(key, SNAPSHOT, record, value)], answer)
        update, changes = kept.state.update_record(key, change)
        return self._store(number, partition, [(key, SNAPSHOT + 1, update, changes)], answer)

    def _store(
        self,
        number: int,
        partition: _Partition,
        records: Sequence[tuple[ShareStateKey, int, KeyValue, ShareSnapshotValue | ShareUpdateValue | None]],
        answer: ShareState | None = None,
    ) -> Deferred[StateResult]:
        """Append records, and apply them. The result is set when all in-sync replicas have them."""
        stored: Deferred[StateResult] = Deferred()
        appended = self._storage.append(number, [record for _, _, record, _ in records], self._clock.wall_ms())
        if appended.done and appended.value.error_code != Errors.NONE:
            return Deferred.of(StateResult(from_append(appended.value.error_code)))
        for key, kind, _, value in records:
            partition.replay(kind, key, value)

        def on_appended(result: StoreResult) -> None:
            if result.error_code == Errors.NONE:
                for index, (key, kind, _, _) in enumerate(records):
                    if kind == SNAPSHOT and key in partition.kept:
                        partition.kept[key].found_at(result.base_offset + index)
            stored.set(StateResult(from_append(result.error_code), None, answer))

        appended.on_done(on_appended)
        return stored

    # --- the log's beginning

    def prune(self) -> None:
        """Remove the records before the oldest snapshot that is needed, in each partition."""
        for number, partition in self._partitions.items():
            if not partition.is_served or not partition.kept:
                continue
            oldest = min(kept.snapshot_offset for kept in partition.kept.values())
            if oldest > partition.pruned_to:
                self._topics.remove_before(number, oldest)
                partition.note_pruned(oldest)

    def snapshot_cold(self) -> None:
        """Write snapshots of share partitions whose last one is old, so that :meth:`prune` can go on."""
        now_ms = self._clock.wall_ms()
        least_ms = self.config.share_coordinator_cold_partition_snapshot_interval_ms
        for number, partition in self._partitions.items():
            states = {key: kept.state for key, kept in partition.kept.items()}
            if not partition.is_served or all(state.created_ms != state.written_ms for state in states.values()):
                continue  # all is quiet, and nothing would be won
            records = []
            for key, state in states.items():
                if now_ms - state.written_ms >= least_ms:
                    fresh = state._replace(snapshot_epoch=state.snapshot_epoch + 1, written_ms=now_ms)
                    record, value = fresh.snapshot_record(key)
                    records.append((key, SNAPSHOT, record, value))
            if records:
                self._store(number, partition, records)
