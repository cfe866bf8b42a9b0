"""``RecordProgress``: which offsets may be committed if threads finish records in any order.

Rules

1. Only offsets below which every record is finished may be committed: a crash then repeats records and loses none.
2. Records are added in the order in which ``poll`` returned them. One that is added again (after a ``seek`` back, or
   when the partition came back) replaces itself and all behind it.
3. A record that is not known, because its partition was dropped, has no effect when it is finished.

There is no I/O here. Every method may be called from any thread.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pyconsumer.clock import seconds_of
from pyconsumer.consumer.arguments import as_partition
from pyconsumer.protocol.records import ConsumerRecord
from pyconsumer.structs import OffsetAndMetadata, TopicPartition

__all__ = ["RecordProgress"]


@dataclass(slots=True)
class _Partition:
    """Records of one partition: those from the oldest unfinished one on, and which of them are unfinished."""

    queue: deque[tuple[int, int]] = field(default_factory=deque)  #: offset and leader epoch
    unfinished: set[int] = field(default_factory=set)
    after: OffsetAndMetadata | None = None  #: what may be committed and was not taken

    def add(self, offset: int, epoch: int) -> None:
        while self.queue and self.queue[-1][0] >= offset:
            self.unfinished.discard(self.queue.pop()[0])
        self.queue.append((offset, epoch))
        self.unfinished.add(offset)

    def finish(self, offset: int) -> bool:
        if offset not in self.unfinished:
            return False
        self.unfinished.remove(offset)
        while self.queue and self.queue[0][0] not in self.unfinished:
            oldest, epoch = self.queue.popleft()
            self.after = OffsetAndMetadata(oldest + 1, "", epoch)
        return True

    def take(self) -> OffsetAndMetadata | None:
        taken, self.after = self.after, None
        return taken


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
    """

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._changed = threading.Condition()

    def add(self, records: ConsumerRecord[Any, Any] | Iterable[ConsumerRecord[Any, Any]]) -> None:
        """Add records that are about to be processed, in the order in which they were read."""
        with self._changed:
            # A record of compat.kafka is a tuple, too.
            each: Any = (records,) if hasattr(records, "leader_epoch") else records
            for record in each:
                tp = TopicPartition(record.topic, record.partition)
                self._partitions.setdefault(tp, _Partition()).add(record.offset, record.leader_epoch)

    def finish(self, record: Any) -> bool:
        """Mark a record as finished.

        Args:
            record: a record that was added. Any object with ``topic``, ``partition`` and ``offset`` will do.

        Returns:
            False if the record is not being processed: its partition was dropped, or it was finished before.
        """
        with self._changed:
            found = self._partitions.get(TopicPartition(record.topic, record.partition))
            if found is None or not found.finish(record.offset):
                return False
            self._changed.notify_all()
            return True

    def take(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to store or commit that are new since the last call. All records before them are finished.

        Returns:
            The next offset to read by partition, with leader epoch, in the form for ``store_offsets`` and ``commit``.
        """
        with self._changed:
            taken = {tp: one.take() for tp, one in self._partitions.items()}
            return {tp: after for tp, after in taken.items() if after is not None}

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
            while self._unfinished(wanted):
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(None if left == math.inf else left)
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
