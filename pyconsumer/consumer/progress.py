"""``RecordProgress``: which offsets may be committed if threads finish records in any order.

Rules

1. Only offsets below which every record is finished may be committed: a crash then repeats records and loses none.
2. Records are added in the order in which ``poll`` returned them. One that is added again (after a ``seek`` back, or
   when the partition came back) replaces itself and all behind it.
3. A record that is not known, because its partition was dropped, has no effect when it is finished.
4. With ``gaps``, the metadata of an offset names the records above it that are finished (:mod:`.finished_gaps`). The
   next owner of the partition restores them (:meth:`RecordProgress.restore`), and does not process them again.
5. A record below the restored offset means that somebody has sought back. Then nothing counts as restored.

There is no I/O here. Every method may be called from any thread.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyconsumer.clock import seconds_of
from pyconsumer.consumer.arguments import as_partition
from pyconsumer.consumer.finished_gaps import (
    DEFAULT_METADATA_LIMIT,
    FinishedRun,
    decode_finished,
    encode_finished,
)
from pyconsumer.consumer.records import ConsumerRecords
from pyconsumer.generic import K, V
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import OffsetAndMetadata, TopicPartition, make_tuple

__all__ = ["PartitionProgress", "RecordProgress", "SharedProgress"]


_Position = tuple[int, int]  # the next offset to read, and the leader epoch of the record before it


@dataclass(slots=True)
class PartitionProgress:
    """The unfinished records of one partition. All other records up to the end of those that were read are finished."""

    unfinished: OrderedDict[int, _Position | None] = field(default_factory=OrderedDict)
    """By offset, in ascending order, with the position before each. That is None if no record came before."""
    end: _Position | None = None  #: where the records end that were read
    changed: bool = False  #: since the last ``take``
    taken: OffsetAndMetadata | None = None  #: by the last ``take``
    restored_from: int = -1  #: the offset with whose metadata finished records came
    restored: deque[FinishedRun] = field(default_factory=deque)

    def add_all(self, records: Iterable[ConsumerRecord[K, V]], todo: list[ConsumerRecord[K, V]]) -> None:
        """Add records of this partition, and append those that must be processed to a list."""
        unfinished, end = self.unfinished, self.end
        for record in records:
            offset = record.offset
            if self.restored or end is None or end[0] > offset:
                self.end = end
                if self.add(offset, record.leader_epoch):
                    todo.append(record)
                end = self.end
                continue
            unfinished[offset] = end
            end = (offset + 1, record.leader_epoch)
            todo.append(record)
        self.end = end

    def add(self, offset: int, epoch: int) -> bool:
        """Return True if the record must be processed, False if it is finished already."""
        before = self.end
        if before is not None and before[0] > offset:  # the position went back
            while self.unfinished and next(reversed(self.unfinished)) >= offset:
                self.unfinished.popitem()
            before = (offset, epoch)
            self.changed = True
        self.end = (offset + 1, epoch)
        if self.restored and self._is_restored(offset):
            self.changed = True
            return False
        self.unfinished[offset] = before
        return True

    def finish(self, offset: int) -> bool:
        if offset not in self.unfinished:
            return False
        del self.unfinished[offset]
        self.changed = True
        return True

    def note_end(self, offset: int, epoch: int) -> None:
        """Note where the records read so far end, which may be after offsets without records."""
        if self.end is None or self.end[0] < offset:
            self.end = (offset, epoch)
            self.changed = True

    def _is_restored(self, offset: int) -> bool:
        if offset < self.restored_from:
            self.restored.clear()
            return False
        while self.restored and self.restored[0][1] <= offset:
            self.restored.popleft()
        return bool(self.restored) and self.restored[0][0] <= offset

    def take(self, limit: int, *, again: bool) -> OffsetAndMetadata | None:
        """Return the offset to commit, if it has changed. With a ``limit``, its metadata names records above it."""
        if not (self.changed or again) or self.end is None:
            return None
        self.changed = False
        position = next(iter(self.unfinished.values())) if self.unfinished else self.end
        text = ""
        if limit and (self.unfinished or self.restored):
            start = position[0] if position is not None else next(iter(self.unfinished))
            text = encode_finished(start, self._finished_runs(), limit)
            if text and position is None:
                position = (start, -1)
        if position is None:
            return None
        found = OffsetAndMetadata(position[0], text, position[1])
        if found == self.taken and not again:
            return None
        self.taken = found
        return found

    def _finished_runs(self) -> Iterator[FinishedRun]:
        assert self.end is not None
        offsets = iter(self.unfinished)
        last = next(offsets, self.end[0] - 1)
        for offset in offsets:
            if offset > last + 1:
                yield last + 1, offset
            last = offset
        if self.end[0] > last + 1:
            yield last + 1, self.end[0]
        for start, end in self.restored:  # those that were not read yet
            if end > self.end[0]:
                yield max(start, self.end[0]), end


class RecordProgress:
    """Keeps track of records that are being processed and records that are finished, for each partition.

    For programs that pass records to threads or tasks and commit the finished ones::

        progress = RecordProgress()
        for record in consumer.poll(timeout_ms=1000).records():
            progress.add(record)
            pool.submit(work, record)              # which ends with progress.finish(record)
        consumer.store_offsets(progress.take())    # all that are finished without a gap

    In a group, use a rebalance listener that waits for unfinished records (:meth:`wait`), stores and commits them, and
    drops the partitions (:meth:`drop`). :class:`pyconsumer.workers.Workers` do all of that.

    All methods may be called from any thread. ``len(progress)`` is the number of records that are being processed. A
    program can use it to stop reading when it has enough records.

    Args:
        gaps: also keep the records that are finished above the offset to commit. Their offsets are in the metadata of
            the offsets that :meth:`take` returns, for :meth:`restore`. Do not use it with metadata of your own.
        metadata_limit: longest metadata, in characters. Records that do not fit are processed again after a crash.
    """

    def __init__(self, *, gaps: bool = False, metadata_limit: int = DEFAULT_METADATA_LIMIT) -> None:
        self._limit = metadata_limit if gaps else 0
        self._partitions: dict[TopicPartition, PartitionProgress] = {}
        self._changed = threading.Condition()
        self._waiting = 0

    def add(
        self, records: ConsumerRecord[K, V] | Iterable[ConsumerRecord[K, V]] | ConsumerRecords[K, V]
    ) -> list[ConsumerRecord[K, V]]:
        """Add records that are about to be processed, in the order in which they were read.

        Args:
            records: a record, several, or the result of a ``poll``. With the latter, offsets without records after
                them, such as those of transaction markers, count as finished together with them.

        Returns:
            The records to process: all but those that :meth:`restore` knows to be finished.
        """
        todo: list[ConsumerRecord[K, V]] = []
        given: Any = records
        if isinstance(given, ConsumerRecords):
            with self._changed:
                for _, several in self._added(given):
                    todo += several
            return todo
        if hasattr(given, "leader_epoch"):  # a record, which is a tuple in compat.kafka
            given = (given,)
        with self._changed:
            for record in given:
                found = self._of(TopicPartition(record.topic, record.partition))
                if found.add(record.offset, record.leader_epoch):
                    todo.append(record)
        return todo

    def _of(self, tp: TopicPartition) -> PartitionProgress:
        found = self._partitions.get(tp)
        if found is None:
            found = self._partitions[tp] = PartitionProgress()
        return found

    def _added(self, records: ConsumerRecords[K, V]) -> list[tuple[TopicPartition, list[ConsumerRecord[K, V]]]]:
        """Add the result of a poll. Return the records to process, by partition."""
        added = []
        for tp, several in records.items():
            todo: list[ConsumerRecord[K, V]] = []
            self._of(tp).add_all(several, todo)
            added.append((tp, todo))
        for tp, end in records.next_offsets().items():
            self._of(tp).note_end(end.offset, end.leader_epoch)
        return added

    def restore(self, partition: TopicPartition, committed: OffsetAndMetadata | None) -> None:
        """Take over a partition, and the records above its committed offset that are finished already.

        Args:
            partition: one that was assigned. What was known of it before is dropped.
            committed: what ``consumer.committed(partition, metadata=True)`` returned. Metadata that is not of
                :meth:`take` is ignored.
        """
        with self._changed:
            runs: list[FinishedRun] = []
            if committed is not None:
                runs = decode_finished(committed.offset, committed.metadata)
            made = PartitionProgress(restored_from=committed.offset if committed else -1, restored=deque(runs))
            self._partitions[as_partition(partition)] = made

    def finish(self, record: Any) -> bool:
        """Mark a record as finished.

        Args:
            record: a record that was added. Any object with ``topic``, ``partition`` and ``offset`` will do.

        Returns:
            False if the record is not being processed: its partition was dropped, or it was finished before.
        """
        with self._changed:
            found = self._partitions.get(make_tuple(TopicPartition, (record.topic, record.partition)))
            if found is None or not found.finish(record.offset):
                return False
            if self._waiting:
                self._changed.notify_all()
            return True

    def take(self, *, again: bool = False) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to store or commit that are new since the last call. All records before them are finished.

        Args:
            again: also return those that have not changed, as after a commit that failed.

        Returns:
            The next offset to read by partition, with leader epoch, in the form for ``store_offsets`` and
            ``commit``. With ``gaps``, a partition is also returned if only records above its offset were finished.
        """
        with self._changed:
            taken = {tp: one.take(self._limit, again=again) for tp, one in self._partitions.items()}
            return {tp: after for tp, after in taken.items() if after is not None}

    def drop_metadata(self) -> None:
        """Write no metadata from now on, for a broker that takes less than ``metadata_limit``."""
        self._limit = 0

    def unfinished(self) -> dict[TopicPartition, int]:
        """Return the offset of the oldest record that is under way, for each partition that has one.

        A consumer that seeks there reads again what is not finished.
        """
        with self._changed:
            return {tp: next(iter(one.unfinished)) for tp, one in self._partitions.items() if one.unfinished}

    def wait(self, partitions: Iterable[TopicPartition] | None = None, timeout_ms: float | None = None) -> bool:
        """Wait until no record of these partitions is being processed.

        Args:
            partitions: the partitions. By default all.
            timeout_ms: longest time to wait, in ms. None waits without limit.

        Returns:
            False if the time was up before that.
        """
        wanted = None if partitions is None else [as_partition(tp) for tp in partitions]
        until = math.inf if timeout_ms is None else time.monotonic() + seconds_of(timeout_ms)
        with self._changed:
            self._waiting += 1
            try:
                while self._unfinished(wanted):
                    left = until - time.monotonic()
                    if left <= 0:
                        return False
                    self._changed.wait(None if left == math.inf else left)
            finally:
                self._waiting -= 1
            return True

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that were revoked or lost, including their unfinished records."""
        with self._changed:
            for tp in partitions:
                self._partitions.pop(as_partition(tp), None)
            self._changed.notify_all()

    def __len__(self) -> int:
        with self._changed:
            return self._unfinished(None)

    def _unfinished(self, wanted: Iterable[TopicPartition] | None) -> int:
        found = self._partitions.values() if wanted is None else [self._partitions.get(tp) for tp in wanted]
        return sum(len(one.unfinished) for one in found if one is not None)


class SharedProgress(RecordProgress):
    """A ``RecordProgress`` with the lock of its owner, who finishes records while holding that lock anyway.

    Args:
        lock: the owner's lock. It need not be reentrant.
    """

    def __init__(self, lock: threading.Lock) -> None:
        super().__init__(gaps=True)
        self._changed = threading.Condition(lock)

    def added(self, records: ConsumerRecords[K, V]) -> list[tuple[TopicPartition, list[ConsumerRecord[K, V]]]]:
        """Add the result of a poll. Return the records to process, by partition. The caller holds the lock."""
        return self._added(records)

    def of(self, tp: TopicPartition) -> PartitionProgress:
        """Return a partition, for an owner that holds the lock."""
        return self._of(tp)
