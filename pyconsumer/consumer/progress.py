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
from collections import deque
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

__all__ = ["RecordProgress"]


@dataclass(slots=True)
class _Partition:
    """Records of one partition: those from the oldest unfinished one on, and which of them are unfinished."""

    queue: deque[tuple[int, int]] = field(default_factory=deque)  #: offset and leader epoch
    unfinished: set[int] = field(default_factory=set)
    after: OffsetAndMetadata | None = None  #: the offset below which all is finished
    changed: bool = False  #: since the last ``take``
    taken: OffsetAndMetadata | None = None  #: by the last ``take``
    restored_from: int = -1  #: the offset with whose metadata finished records came
    restored: deque[FinishedRun] = field(default_factory=deque)

    def add(self, offset: int, epoch: int) -> bool:
        """Return True if the record must be processed, False if it is finished already."""
        while self.queue and self.queue[-1][0] >= offset:
            self.unfinished.discard(self.queue.pop()[0])
        self.queue.append((offset, epoch))
        if self.restored and self._is_restored(offset):
            self._move()
            return False
        self.unfinished.add(offset)
        return True

    def finish(self, offset: int) -> bool:
        if offset not in self.unfinished:
            return False
        self.unfinished.remove(offset)
        self._move()
        return True

    def end(self, next_offset: OffsetAndMetadata) -> None:
        """Note where the records read so far end, which may be after offsets without records."""
        if not self.queue and (self.after is None or self.after.offset < next_offset.offset):
            self.after, self.changed = next_offset, True
        elif self.queue and self.queue[-1][0] < next_offset.offset - 1:
            self.queue.append((next_offset.offset - 1, next_offset.leader_epoch))

    def _move(self) -> None:
        self.changed = True
        queue, unfinished = self.queue, self.unfinished
        oldest = -1
        while queue and queue[0][0] not in unfinished:
            oldest, epoch = queue.popleft()
        if oldest >= 0:
            self.after = make_tuple(OffsetAndMetadata, (oldest + 1, "", epoch))

    def _is_restored(self, offset: int) -> bool:
        if offset < self.restored_from:
            self.restored.clear()
            return False
        while self.restored and self.restored[0][1] <= offset:
            self.restored.popleft()
        return bool(self.restored) and self.restored[0][0] <= offset

    def take(self, limit: int, *, again: bool) -> OffsetAndMetadata | None:
        """Return what to commit, if it has changed. With a ``limit``, its metadata names what is finished above it."""
        if not (self.changed or again):
            return None
        self.changed = False
        found = self.after
        if limit and self.queue and len(self.unfinished) < len(self.queue):
            oldest, epoch = self.queue[0]
            found = found or OffsetAndMetadata(oldest, "", epoch)
            found = found._replace(metadata=encode_finished(found.offset, self._finished_runs(), limit))
        if found == self.taken and not again:
            return None
        self.taken = found
        return found

    def _finished_runs(self) -> Iterator[FinishedRun]:
        start = end = -1
        for offset, _ in self.queue:
            if offset not in self.unfinished:
                start, end = (offset if start < 0 else start), offset + 1
            elif start >= 0:
                yield start, end
                start = -1
        if start >= 0:
            yield start, end


class RecordProgress:
    """Keeps track of records that are being processed and records that are finished, for each partition.

    For programs that pass records to threads or tasks and commit the finished ones::

        progress = RecordProgress()
        for record in consumer.poll(timeout_ms=1000).records():
            progress.add(record)
            pool.submit(work, record)              # which ends with progress.finish(record)
        consumer.store_offsets(progress.take())    # all that are finished without a gap

    In a group, use a rebalance listener that waits for unfinished records (:meth:`wait`), stores and commits them, and
    drops the partitions (:meth:`drop`). ``examples/worker_pool.py`` is a complete program.

    All methods may be called from any thread. ``len(progress)`` is the number of records that are being processed. A
    program can use it to stop reading when it has enough records.

    Args:
        gaps: also keep the records that are finished above the offset to commit. Their offsets are in the metadata of
            the offsets that :meth:`take` returns, for :meth:`restore`. Do not use it with metadata of your own.
        metadata_limit: longest metadata, in characters. Records that do not fit are processed again after a crash.
    """

    def __init__(self, *, gaps: bool = False, metadata_limit: int = DEFAULT_METADATA_LIMIT) -> None:
        self._limit = metadata_limit if gaps else 0
        self._partitions: dict[TopicPartition, _Partition] = {}
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
        todo = []
        given: Any = records
        ends: Any = ()
        if isinstance(given, ConsumerRecords):
            given, ends = given.records(), given.next_offsets().items()
        elif hasattr(given, "leader_epoch"):  # a record, which is a tuple in compat.kafka
            given = (given,)
        with self._changed:
            for record in given:
                tp = TopicPartition(record.topic, record.partition)
                found = self._partitions.get(tp)
                if found is None:
                    found = self._partitions[tp] = _Partition()
                if found.add(record.offset, record.leader_epoch):
                    todo.append(record)
            for tp, next_offset in ends:
                self._partitions.setdefault(tp, _Partition()).end(next_offset)
        return todo

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
            made = _Partition(restored_from=committed.offset if committed else -1, restored=deque(runs))
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

    def unfinished(self) -> dict[TopicPartition, int]:
        """Return the offset of the oldest record that is under way, for each partition that has one.

        A consumer that seeks there reads again what is not finished.
        """
        with self._changed:
            return {tp: min(one.unfinished) for tp, one in self._partitions.items() if one.unfinished}

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
