"""The committed offsets of one group: those in the log, and those whose append has not ended.

An offset is in one of three places:

* ``committed``: its record is in the log, and OffsetFetch returns it.
* ``pending``: plain commits whose appends have not ended. OffsetFetch does not return them. Each ends separately: one
  that fails does not affect the others.
* ``pending_transactional``: by producer, the commits of a transaction that is still open. OffsetFetch does not return
  them.

The later of two commits is the one whose batch is later in the log, because appends may end in any order, and a
transaction may end long after a plain commit. The same holds for a commit and a tombstone: a commit whose append had
not ended when the tombstone was written, and which is before it in the log, is dropped when its append ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from pyconsumer.errors import IllegalStateError
from pyconsumer.protocol.primitives import ZERO_UUID
from pyconsumer.structs import TopicPartition

__all__ = ["CommitRecord", "CommittedOffset", "GroupOffsets"]


class CommittedOffset(NamedTuple):
    """A committed offset with its metadata.

    ``leader_epoch`` is -1 if unknown. Times are in ms since the epoch. ``expire_timestamp`` is None unless the client
    requested a retention of its own (OffsetCommit up to version 4).
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = -1
    expire_timestamp: int | None = None
    topic_id: bytes = ZERO_UUID


class CommitRecord(NamedTuple):
    """A commit, and the base offset of its batch in the log. The base offset is None until the append has ended."""

    appended_batch_offset: int | None
    value: CommittedOffset

    def older_than(self, other: CommitRecord) -> bool:
        """Return whether the batch of this commit is before the batch of ``other``.

        Commits of the same batch are not older than each other.
        """
        if self.appended_batch_offset is None or other.appended_batch_offset is None:
            raise IllegalStateError("commits cannot be compared before both are appended")
        return self.appended_batch_offset < other.appended_batch_offset


class GroupOffsets:
    """The committed and pending offsets of one group."""

    __slots__ = ("_tombstones", "_waiting", "committed", "pending", "pending_transactional")

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, CommitRecord] = {}
        self.pending: dict[TopicPartition, list[CommittedOffset]] = {}
        self.pending_transactional: dict[int, dict[TopicPartition, CommitRecord]] = {}
        self._waiting: list[tuple[set[TopicPartition], Callable[[], None]]] = []
        #: The offset of a partition's last tombstone, kept while a commit is being appended that may be before it.
        self._tombstones: dict[TopicPartition, int] = {}

    @property
    def has_offsets(self) -> bool:
        """Return whether there is any offset, committed or pending."""
        return bool(self.committed or self.pending or self.pending_transactional)

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions that have an offset, committed or pending.

        The log has a record of each, or may soon have one.
        """
        return list(dict.fromkeys(chain(self.committed, self.pending, *self.pending_transactional.values())))

    def has_pending(self, partition: TopicPartition) -> bool:
        """Return whether a commit for the partition is pending, with or without a transaction."""
        return partition in self.pending or self.has_pending_transactional(partition)

    def has_pending_transactional(self, partition: TopicPartition) -> bool:
        return any(partition in commits for commits in self.pending_transactional.values())

    def initialize(
        self,
        committed: Mapping[TopicPartition, CommitRecord],
        pending_transactional: Mapping[int, Mapping[TopicPartition, CommitRecord]],
    ) -> None:
        """Add commits that were read from the log. Other entries are kept."""
        self.committed.update(committed)
        for producer_id, commits in pending_transactional.items():
            self.pending_transactional.setdefault(producer_id, {}).update(commits)

    # Plain commits

    def prepare(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Add commits as pending. They are appended to the log next."""
        for partition, value in offsets.items():
            self.pending.setdefault(partition, []).append(value)

    def on_commit_appended(self, partition: TopicPartition, record: CommitRecord) -> None:
        """Make a pending commit visible, because it was appended. If it is no longer pending, do nothing."""
        if record.value not in self.pending.get(partition, ()):
            return
        if record.appended_batch_offset is None:
            raise IllegalStateError(f"the commit of {partition} was appended, but its offset in the log is not known")
        if not self._is_removed(partition, record):
            self._apply(partition, record)
        self._remove_pending(partition, record.value)

    def fail_pending(self, partition: TopicPartition, value: CommittedOffset) -> None:
        """Drop a pending commit whose append failed. Other commits of the partition stay."""
        if value in self.pending.get(partition, ()):
            self._remove_pending(partition, value)

    def _apply(self, partition: TopicPartition, record: CommitRecord) -> None:
        present = self.committed.get(partition)
        if present is None or present.older_than(record):
            self.committed[partition] = record

    def _remove_pending(self, partition: TopicPartition, value: CommittedOffset) -> None:
        values = self.pending[partition]
        values.remove(value)
        if not values:
            del self.pending[partition]
            self._forget_tombstone(partition)
            self._wake(partition)

    def when_settled(self, partitions: Iterable[TopicPartition], action: Callable[[], None]) -> None:
        """Call ``action()`` when no partition has a pending commit without a transaction. That may be now."""
        unsettled = {partition for partition in partitions if partition in self.pending}
        if unsettled:
            self._waiting.append((unsettled, action))
        else:
            action()

    def settle_all(self) -> None:
        """Call all waiting actions now, because the group is dead."""
        waiting, self._waiting = self._waiting, []
        for _, action in waiting:
            action()

    def _wake(self, partition: TopicPartition) -> None:
        ready = []
        for entry in self._waiting:
            entry[0].discard(partition)
            if not entry[0]:
                ready.append(entry)
        for entry in ready:
            self._waiting.remove(entry)
        for _, action in ready:
            action()

    # Commits inside transactions

    def prepare_transactional(self, producer_id: int, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Add commits of a transaction as pending. They are appended to the log next."""
        commits = self.pending_transactional.setdefault(producer_id, {})
        for partition, value in offsets.items():
            commits[partition] = CommitRecord(None, value)

    def on_transactional_appended(self, producer_id: int, partition: TopicPartition, record: CommitRecord) -> None:
        """Record the log position of a transaction's pending commit.

        If a later commit of the producer has replaced it, do nothing.
        """
        commits = self.pending_transactional.get(producer_id, {})
        pending = commits.get(partition)
        if pending is not None and pending.value == record.value:
            commits[partition] = record
            if self._is_removed(partition, record):
                self._drop_transactional(producer_id, partition)
            self._forget_tombstone(partition)

    def fail_transactional(self, producer_id: int, partition: TopicPartition, value: CommittedOffset) -> None:
        """Drop a transaction's pending commit whose append failed.

        If the producer has no other pending commit, drop the producer, too.
        """
        pending = self.pending_transactional.get(producer_id, {}).get(partition)
        if pending is not None and pending.appended_batch_offset is None and pending.value == value:
            self._drop_transactional(producer_id, partition)
            self._forget_tombstone(partition)

    def _drop_transactional(self, producer_id: int, partition: TopicPartition) -> None:
        commits = self.pending_transactional[producer_id]
        del commits[partition]
        if not commits:
            del self.pending_transactional[producer_id]

    def complete_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Apply or drop the offsets of a transaction that has ended.

        A later commit of the same partition takes precedence.
        """
        commits = self.pending_transactional.get(producer_id)
        if commits is None:
            return
        if commit and any(record.appended_batch_offset is None for record in commits.values()):
            raise IllegalStateError(f"producer {producer_id} committed a transaction before its offsets were appended")
        del self.pending_transactional[producer_id]
        for partition, record in commits.items():
            if commit:
                self._apply(partition, record)
            self._forget_tombstone(partition)

    # Removal

    def remove_before(self, partitions: Iterable[TopicPartition], position: int) -> list[TopicPartition]:
        """Drop the offsets that were removed by tombstones at this offset of the log. Later commits stay.

        A commit may still be in the middle of its append. It is dropped when that ends, if it turns out to be before
        ``position``.

        Returns:
            The partitions whose committed offset was dropped.
        """
        removed = []
        for partition in partitions:
            record = self.committed.get(partition)
            if record is not None and _is_before(record, position):
                del self.committed[partition]
                removed.append(partition)
            for producer_id in list(self.pending_transactional):
                commits = self.pending_transactional[producer_id]
                if partition in commits and _is_before(commits[partition], position):
                    self._drop_transactional(producer_id, partition)
            if self._is_being_appended(partition):
                self._tombstones[partition] = max(position, self._tombstones.get(partition, position))
        return removed

    def _is_being_appended(self, partition: TopicPartition) -> bool:
        """Return whether an append with a commit of the partition has not ended."""
        transactional = (commits.get(partition) for commits in self.pending_transactional.values())
        return partition in self.pending or any(
            record is not None and record.appended_batch_offset is None for record in transactional
        )

    def _is_removed(self, partition: TopicPartition, record: CommitRecord) -> bool:
        return partition in self._tombstones and _is_before(record, self._tombstones[partition])

    def _forget_tombstone(self, partition: TopicPartition) -> None:
        if partition in self._tombstones and not self._is_being_appended(partition):
            del self._tombstones[partition]

    def expired(
        self,
        now_ms: int,
        retention_ms: int,
        base_timestamp: Callable[[CommittedOffset], int],
        subscribed_topics: frozenset[str] = frozenset(),
    ) -> list[TopicPartition]:
        """Return the partitions whose offsets have expired (KIP-211).

        An offset may have its own time of expiry. Any other offset expires ``retention_ms`` after its
        ``base_timestamp``. Offsets do not expire if they belong to ``subscribed_topics``, or if their partition has a
        pending commit.
        """
        found = []
        for partition, (_, value) in self.committed.items():
            if partition.topic in subscribed_topics or self.has_pending(partition):
                continue
            if value.expire_timestamp is not None:
                is_expired = now_ms >= value.expire_timestamp
            else:
                is_expired = now_ms - base_timestamp(value) >= retention_ms
            if is_expired:
                found.append(partition)
        return found


def _is_before(record: CommitRecord, position: int) -> bool:
    return record.appended_batch_offset is not None and record.appended_batch_offset < position
