"""The committed offsets of one group: what is in the log, what is on its way there, and what has expired.

Three places hold an offset:

* ``committed``: its record is in the log and it is what OffsetFetch answers.
* ``pending``: plain commits whose appends have not ended. Nobody sees them. Each ends by itself: one that fails takes
  nothing but itself away.
* ``pending_transactional``: committed in a transaction that is still open, for each producer. Nobody sees it.

Which of two commits is the later one is decided by where their batches are in the log, because appends may end in any
order and a transaction may end long after a plain commit was made. The same goes for a commit and a tombstone: what was
on its way when the tombstone was written and is before it in the log is not taken over when it ends.
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
    """The value of a commit.

    ``leader_epoch`` is -1 if unknown. Times are milliseconds since the epoch; ``expire_timestamp`` is None unless the
    client asked for a retention of its own (OffsetCommit up to version 4).
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = -1
    expire_timestamp: int | None = None
    topic_id: bytes = ZERO_UUID


class CommitRecord(NamedTuple):
    """A commit and where it is in the log: ``appended_batch_offset``, or None as long as the append has not ended."""

    appended_batch_offset: int | None
    value: CommittedOffset

    def older_than(self, other: CommitRecord) -> bool:
        """Return whether this one is strictly before ``other`` in the log; all commits of one batch are equally old."""
        if self.appended_batch_offset is None or other.appended_batch_offset is None:
            raise IllegalStateError("a commit that was not appended has no age")
        return self.appended_batch_offset < other.appended_batch_offset


class GroupOffsets:
    """The offset cache of one group."""

    __slots__ = ("_tombstones", "_waiting", "committed", "pending", "pending_transactional")

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, CommitRecord] = {}
        self.pending: dict[TopicPartition, list[CommittedOffset]] = {}
        self.pending_transactional: dict[int, dict[TopicPartition, CommitRecord]] = {}
        self._waiting: list[tuple[set[TopicPartition], Callable[[], None]]] = []
        #: Where the last tombstone is in the log, of partitions with a commit that was on its way when it was written.
        self._tombstones: dict[TopicPartition, int] = {}

    @property
    def has_offsets(self) -> bool:
        """Return whether there is any offset, also one that nobody may see yet."""
        return bool(self.committed or self.pending or self.pending_transactional)

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions with any offset, also one that nobody may see yet: the log has, or will have, each."""
        return list(dict.fromkeys(chain(self.committed, self.pending, *self.pending_transactional.values())))

    def has_pending(self, partition: TopicPartition) -> bool:
        """Return whether a plain or a transactional commit of the partition is on its way."""
        return partition in self.pending or self.has_pending_transactional(partition)

    def has_pending_transactional(self, partition: TopicPartition) -> bool:
        return any(partition in commits for commits in self.pending_transactional.values())

    def initialize(
        self,
        committed: Mapping[TopicPartition, CommitRecord],
        pending_transactional: Mapping[int, Mapping[TopicPartition, CommitRecord]],
    ) -> None:
        """Add what was read from the log; other entries stay."""
        self.committed.update(committed)
        for producer_id, commits in pending_transactional.items():
            self.pending_transactional.setdefault(producer_id, {}).update(commits)

    # Plain commits

    def prepare(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Stage commits before they are appended."""
        for partition, value in offsets.items():
            self.pending.setdefault(partition, []).append(value)

    def on_commit_appended(self, partition: TopicPartition, record: CommitRecord) -> None:
        """A staged commit is in the log. Changes nothing if it is not staged."""
        if record.value not in self.pending.get(partition, ()):
            return
        if record.appended_batch_offset is None:
            raise IllegalStateError(f"the commit of {partition} ended without a place in the log")
        if not self._is_removed(partition, record):
            self._take_over(partition, record)
        self._release(partition, record.value)

    def fail_pending(self, partition: TopicPartition, value: CommittedOffset) -> None:
        """The append failed: forget this commit; others of the partition stay."""
        if value in self.pending.get(partition, ()):
            self._release(partition, value)

    def _take_over(self, partition: TopicPartition, record: CommitRecord) -> None:
        present = self.committed.get(partition)
        if present is None or present.older_than(record):
            self.committed[partition] = record

    def _release(self, partition: TopicPartition, value: CommittedOffset) -> None:
        staged = self.pending[partition]
        staged.remove(value)
        if not staged:
            del self.pending[partition]
            self._forget_tombstone(partition)
            self._wake(partition)

    def when_settled(self, partitions: Iterable[TopicPartition], action: Callable[[], None]) -> None:
        """Call ``action()`` once none of the partitions has a plain commit on its way; that may be now."""
        open_ones = {partition for partition in partitions if partition in self.pending}
        if open_ones:
            self._waiting.append((open_ones, action))
        else:
            action()

    def settle_all(self) -> None:
        """Wake all that wait: the group is dead."""
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
        """Stage commits of a transaction before they are appended."""
        commits = self.pending_transactional.setdefault(producer_id, {})
        for partition, value in offsets.items():
            commits[partition] = CommitRecord(None, value)

    def on_transactional_appended(self, producer_id: int, partition: TopicPartition, record: CommitRecord) -> None:
        """A staged commit is in the log: note where, if it still is the staged one."""
        commits = self.pending_transactional.get(producer_id, {})
        staged = commits.get(partition)
        if staged is not None and staged.value == record.value:
            commits[partition] = record
            if self._is_removed(partition, record):
                self._drop_transactional(producer_id, partition)
            self._forget_tombstone(partition)

    def fail_transactional(self, producer_id: int, partition: TopicPartition, value: CommittedOffset) -> None:
        """The append failed: forget the partition, and the producer with its last one."""
        staged = self.pending_transactional.get(producer_id, {}).get(partition)
        if staged is not None and staged.appended_batch_offset is None and staged.value == value:
            self._drop_transactional(producer_id, partition)
            self._forget_tombstone(partition)

    def _drop_transactional(self, producer_id: int, partition: TopicPartition) -> None:
        commits = self.pending_transactional[producer_id]
        del commits[partition]
        if not commits:
            del self.pending_transactional[producer_id]

    def complete_transaction(self, producer_id: int, *, commit: bool) -> None:
        """A transaction ended: its offsets become visible, unless later ones are there already, or are dropped."""
        commits = self.pending_transactional.get(producer_id)
        if commits is None:
            return
        if commit and any(record.appended_batch_offset is None for record in commits.values()):
            raise IllegalStateError(f"producer {producer_id} ended a transaction before its offsets were appended")
        del self.pending_transactional[producer_id]
        for partition, record in commits.items():
            if commit:
                self._take_over(partition, record)
            self._forget_tombstone(partition)

    # Removal

    def remove_before(self, partitions: Iterable[TopicPartition], position: int) -> list[TopicPartition]:
        """Drop what a tombstone at this position of the log covers, also what is on its way; commits after it stay.

        Returns:
            Those that had a committed offset.
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
            if self._is_on_its_way(partition):
                self._tombstones[partition] = max(position, self._tombstones.get(partition, position))
        return removed

    def _is_on_its_way(self, partition: TopicPartition) -> bool:
        """Return whether an append with a commit of the partition has not ended."""
        transactional = (commits.get(partition) for commits in self.pending_transactional.values())
        return partition in self.pending or any(
            record is not None and record.appended_batch_offset is None for record in transactional
        )

    def _is_removed(self, partition: TopicPartition, record: CommitRecord) -> bool:
        return partition in self._tombstones and _is_before(record, self._tombstones[partition])

    def _forget_tombstone(self, partition: TopicPartition) -> None:
        if partition in self._tombstones and not self._is_on_its_way(partition):
            del self._tombstones[partition]

    def expired(
        self,
        now_ms: int,
        retention_ms: int,
        base_timestamp: Callable[[CommittedOffset], int],
        subscribed_topics: frozenset[str] = frozenset(),
    ) -> list[TopicPartition]:
        """The partitions whose offsets have outlived their time (KIP-211).

        An offset that carries its own expiry is over at that moment; any other when ``retention_ms`` have passed since
        ``base_timestamp`` of it. Never over: topics in ``subscribed_topics``, and partitions with a commit on its way.
        """
        found = []
        for partition, (_, value) in self.committed.items():
            if partition.topic in subscribed_topics or self.has_pending(partition):
                continue
            if value.expire_timestamp is not None:
                over = now_ms >= value.expire_timestamp
            else:
                over = now_ms - base_timestamp(value) >= retention_ms
            if over:
                found.append(partition)
        return found


def _is_before(record: CommitRecord, position: int) -> bool:
    return record.appended_batch_offset is not None and record.appended_batch_offset < position
