"""The log of one partition: appends, reads, rolling, retention, truncation.

The log owns its segments, its leader epochs and its producers' state. The high watermark belongs to the partition's
replicas: callers pass the offset up to which the log may be read or deleted. A log is opened by
:func:`~.recovery.open_log`, then used in any order by one thread, and closed once. Only the calls that
:meth:`PartitionLog.flushers` returns may run in other threads.
"""

from __future__ import annotations

import itertools
import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from pyconsumer.background_log import Log
from pyconsumer.broker.config import TopicConfig
from pyconsumer.broker.log.checkpoints import LeaderEpochs
from pyconsumer.broker.log.file_records import FileRecords
from pyconsumer.broker.log.producer_state import ProducerState, VerificationGuard, remove_snapshots, snapshot_offsets
from pyconsumer.broker.log.replay import replaying, tail_before
from pyconsumer.broker.log.segment import Segment
from pyconsumer.broker.log.storage import Storage, segment_name
from pyconsumer.broker.log.transaction_index import AbortedTransaction
from pyconsumer.broker.log.validation import (
    assign_offsets,
    check_batches,
    correct_timestamps,
    recompress,
    record_columns,
)
from pyconsumer.clock import Clock
from pyconsumer.errors import CorruptRecordError, OffsetOutOfRangeError
from pyconsumer.protocol.primitives import Buffer
from pyconsumer.protocol.records import (
    ControlRecordType,
    EndTransactionMarker,
    build_end_transaction_marker,
    read_end_transaction_marker,
)
from pyconsumer.protocol.records.batch import BatchInfo, check_crc, scan
from pyconsumer.structs import TopicPartition

__all__ = ["AppendResult", "FoundOffset", "PartitionLog"]


_log = Log(__name__)

_MAX_RELATIVE_OFFSET = 2**31 - 1
#: A snapshot of the producers is written after this many bytes, or this many times its own size if that is more.
_SNAPSHOT_BYTES: Final = 16 << 20
_SNAPSHOT_RATIO: Final = 64
_SNAPSHOT_ENTRY_BYTES: Final = 52
#: The number of snapshots that are kept inside segments. Snapshots at their beginnings are kept as long as the
#: segments.
_KEPT_SNAPSHOTS: Final = 2
_TIME_INDEX_ENTRY = 12
_OFFSET_INDEX_ENTRY = 8


class AppendResult(NamedTuple):
    """The result of an append: offsets of the first and last record, and log append time in ms (-1 with CreateTime).

    If ``duplicate`` is True, the batch was not stored, and the other fields describe the original batch (KIP-98).
    ``size_bytes`` is the number of bytes that were stored.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    duplicate: bool
    size_bytes: int


class FoundOffset(NamedTuple):
    """A record that was found by time. It has the record's offset, timestamp in ms and leader epoch."""

    offset: int
    timestamp: int
    leader_epoch: int


class PartitionLog:
    """The log of one partition. :func:`~.recovery.open_log` has opened its segments and recovered them if necessary.

    Attributes:
        config: the topic's settings.
        log_start_offset: the first offset that can be read.
        recovery_point: all records before this offset have been flushed to disk.
        truncations: how often the log was truncated.
        producers, epochs: the state of producers and the leader epochs. Both are derived from the batches.
    """

    def __init__(
        self,
        storage: Storage,
        topic_partition: TopicPartition,
        config: TopicConfig,
        clock: Clock,
        *,
        segments: list[Segment],
        producers: ProducerState,
        snapshot_offset: int,
        epochs: LeaderEpochs,
        log_start_offset: int,
        recovery_point: int,
    ) -> None:
        self.storage = storage
        self.topic_partition = topic_partition
        self.config = config
        self.epochs = epochs
        self.log_start_offset = log_start_offset
        self.recovery_point = recovery_point
        self.truncations = 0
        self._clock = clock
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._active = segments[-1]
        self._last_flush = clock.now()
        self._jitter_ms = self._choose_jitter()
        self._since_snapshot = 0
        self._adopt_producers(producers, snapshot_offset)

    def _adopt_producers(self, producers: ProducerState, snapshot_offset: int) -> None:
        self.producers = producers
        self._last_snapshot = snapshot_offset
        if len(producers) and snapshot_offset:
            producers.refill_later(lambda: tail_before(self._segments, snapshot_offset))

    def configure(self, config: TopicConfig) -> None:
        """Replace the topic's settings."""
        self.config = config

    def confirm_flush(self, offset: int) -> None:
        """Record that all records before an offset have been flushed to disk."""
        self.recovery_point = max(self.recovery_point, min(offset, self.log_end_offset))

    # --- size and segments

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will get."""
        return self._active.next_offset

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def segments(self) -> list[Segment]:
        """Return all segments, the oldest first. Records are appended to the last segment."""
        return list(self._segments)

    # --- appending

    def append(
        self,
        records: Buffer,
        leader_epoch: int,
        *,
        from_client: bool = True,
        guard: VerificationGuard | None = None,
        verify: bool = False,
    ) -> AppendResult:
        """Check batches, assign their offsets, and write them.

        The batches are not flushed to disk. If the flush fails, the records stay in the log. So the caller first
        updates its own state, and then calls :meth:`flush_if_many`.

        Args:
            records: whole batches. From a client it is exactly one batch. A ``bytearray`` or a writable view is changed
                in place.
            leader_epoch: the leader epoch to write into the batches.
            from_client: False for batches of a coordinator, which have no sequence numbers.
            guard, verify: see :meth:`ProducerState.check`.

        Raises:
            KafkaError: a batch is invalid (see :mod:`.validation` and :mod:`.producer_state`). Nothing was stored.
            OSError: the batches could not be written. Nothing was stored.
        """
        config, now_ms = self.config, self._clock.wall_ms()
        batches = check_batches(records, config, now_ms, from_client=from_client)
        if batches[0].producer_id >= 0 or len(batches) > 1:
            if not from_client:
                self.producers.check_epochs(batches)
            elif (original := self.producers.check(batches, guard, verify=verify)) is not None:
                append_time = original.timestamp if config.log_append_time else -1
                return AppendResult(original.first_offset, original.last_offset, append_time, True, 0)
        if isinstance(records, bytes) or (isinstance(records, memoryview) and records.readonly):
            records = bytearray(records)
        if from_client and not config.log_append_time:
            batches = correct_timestamps(records, batches)
        if config.compression_type != "producer":
            recompressed = recompress(records, batches, config)
            if recompressed is not None:
                records = recompressed
                batches = check_batches(records, config, now_ms, from_client=False)
        first_offset = self.log_end_offset
        append_time_ms = now_ms if config.log_append_time else None
        batches = assign_offsets(records, batches, first_offset, leader_epoch, append_time_ms)
        self._write(batches, records, now_ms)
        self.producers.add(batches)
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, first_offset)
        return AppendResult(
            first_offset, batches[-1].last_offset, -1 if append_time_ms is None else append_time_ms, False, len(records)
        )

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        leader_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
    ) -> AppendResult:
        """Write the marker that ends a producer's transaction.

        Args:
            transaction_version: version of the transaction. From version 2 on, the marker has a greater epoch than the
                records.

        Raises:
            InvalidProducerEpochError, TransactionCoordinatorFencedError: the log has a newer epoch (rule 7 of
                :mod:`.producer_state`). Nothing was stored.
            OSError: the marker could not be written. Nothing was stored.
        """
        self.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        now_ms, first_offset = self._clock.wall_ms(), self.log_end_offset
        marker_type = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
        records = build_end_transaction_marker(
            marker_type,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=now_ms,
            base_offset=first_offset,
            leader_epoch=leader_epoch,
        )
        batches = scan(records)
        self._write(batches, records, now_ms)
        marker = EndTransactionMarker(marker_type, coordinator_epoch)
        self._active.transaction_index.append(self.producers.add(batches, lambda _: marker))
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, first_offset)
        return AppendResult(first_offset, first_offset, -1, False, len(records))

    def append_as_follower(self, records: Buffer) -> int:
        """Append batches that were read from the leader's log. They keep their offsets and leader epochs.

        The caller calls :meth:`flush_if_many` afterwards.

        Returns:
            The number of bytes that were stored. An incomplete batch at the end is left out.

        Raises:
            CorruptRecordError: a batch is damaged, or it does not follow the last batch of the log. Nothing was stored.
            OSError: the batches could not be written. Batches in earlier segments than the failed one were stored.
        """
        now_ms, stored = self._clock.wall_ms(), 0
        batches = scan(records)
        view = memoryview(records)
        expected = self.log_end_offset
        for batch in batches:
            if batch.base_offset < expected or not check_crc(records, batch):
                raise CorruptRecordError(
                    f"the batch at offset {batch.base_offset} of {self.topic_partition} is damaged, or does not follow "
                    f"the log end offset {expected}",
                    offset=batch.base_offset,
                )
            expected = batch.next_offset
        start = 0
        while start < len(batches):
            end = self._end_of_write(batches, start, now_ms)
            part = batches[start:end]
            first, last = part[0], part[-1]
            self._write(part, view[first.position : last.end_position], now_ms)
            aborted = self.producers.add(part, lambda batch: read_end_transaction_marker(view, batch))
            self._active.transaction_index.append(aborted)
            for batch in part:
                if batch.partition_leader_epoch > self.epochs.latest:
                    self.epochs.assign(batch.partition_leader_epoch, batch.base_offset)
            stored += last.end_position - first.position
            start = end
        return stored

    def _end_of_write(self, batches: list[BatchInfo], start: int, now_ms: int) -> int:
        """Return the index after the last batch that fits into one segment with ``batches[start]``.

        That is the active segment, or a new one if the first batch does not fit into it.
        """
        limit, active = self.config.segment_bytes, self._active
        first = batches[start]
        rolls = self._must_roll(first.size_bytes, first.last_offset, first.max_timestamp, now_ms)
        base, size = (first.base_offset, 0) if rolls else (active.base_offset, active.size_bytes)
        end = start
        for batch in batches[start:]:
            size += batch.size_bytes
            if end > start and (size > limit or batch.last_offset - base > _MAX_RELATIVE_OFFSET):
                break
            end += 1
        return end

    def _write(self, batches: list[BatchInfo], records: Buffer, now_ms: int) -> None:
        if self._since_snapshot >= _SNAPSHOT_BYTES:
            self._maybe_write_snapshot()
        self._since_snapshot += len(records)
        if self._must_roll(len(records), batches[-1].last_offset, batches[0].max_timestamp, now_ms):
            self.roll()
        active = self._active
        if not active.size_bytes:
            active.begin(now_ms)
        active.append(batches, (records,))

    def _must_roll(self, size: int, last_offset: int, timestamp: int, now_ms: int) -> bool:
        active, config = self._active, self.config
        if not active.size_bytes:
            return False
        if active.first_timestamp >= 0 and timestamp >= 0:
            age_ms = timestamp - active.first_timestamp
        else:
            age_ms = now_ms - active.created_ms
        return (
            active.size_bytes + size > config.segment_bytes
            or age_ms > self._max_segment_ms - self._jitter_ms
            or last_offset - active.base_offset > _MAX_RELATIVE_OFFSET
            or active.offset_index.size_bytes + _OFFSET_INDEX_ENTRY > config.segment_index_bytes
            or active.time_index.size_bytes + 2 * _TIME_INDEX_ENTRY > config.segment_index_bytes
        )

    @property
    def _max_segment_ms(self) -> int:
        """The longest time before a roll. Only closed segments are compacted, so ``max.compaction.lag.ms`` counts too.

        See KIP-354.
        """
        config = self.config
        return min(config.segment_ms, config.max_compaction_lag_ms) if config.compact else config.segment_ms

    def _choose_jitter(self) -> int:
        most = min(self.config.segment_jitter_ms, self._max_segment_ms)
        return random.randrange(most) if most > 0 else 0

    def roll(self) -> None:
        """Begin a new segment at the log end offset, with a snapshot of the producers."""
        offset = self.log_end_offset
        self._active.seal()
        self.write_snapshot()
        self._active = Segment(self.storage, offset, self.config.index_interval_bytes, self._clock.wall_ms())
        self._segments.append(self._active)
        self._bases.append(offset)
        self._jitter_ms = self._choose_jitter()

    def write_snapshot(self) -> None:
        """Write the producers' state as of the log end offset.

        This is done even if there are no producers, because replay starts there.
        """
        end = self.log_end_offset
        if self.storage.durable and end > self._bases[0] and end != self._last_snapshot:
            self.storage.write_small(segment_name(end, "snapshot"), self.producers.snapshot(), sync=False)
            self._last_snapshot = end
        self._since_snapshot = 0

    def _maybe_write_snapshot(self) -> None:
        """Write a snapshot inside a segment and remove older ones, unless it is large beside the appended bytes."""
        if self._since_snapshot < _SNAPSHOT_RATIO * _SNAPSHOT_ENTRY_BYTES * len(self.producers):
            return
        try:
            self.write_snapshot()
            inside = [offset for offset in snapshot_offsets(self.storage.names()) if offset not in self._bases]
            for offset in inside[:-_KEPT_SNAPSHOTS]:
                self.storage.remove(segment_name(offset, "snapshot"))
        except OSError as error:
            self._since_snapshot = 0
            _log.warning("%s: no snapshot of its producers could be written: %s", self.topic_partition, error)

    # --- reading

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool) -> bytes:
        """Return the bytes of batches, from the batch with ``offset`` to the end of its segment.

        Args:
            max_bytes: the most bytes to return. This may cut off the last batch, but never the first.
            end_offset: batches that begin at or after this offset are not returned. It is the high watermark or the
                last stable offset.
            at_least_one: True returns the first batch even if it is larger than ``max_bytes`` (KIP-74).

        Returns:
            The bytes. Empty if there are no batches to read.

        Raises:
            OffsetOutOfRangeError: the offset is before the log start offset or after the log end offset.
        """
        found = self._find(offset, max_bytes, end_offset, at_least_one=at_least_one)
        return b"" if found is None else found[0].read(found[1], found[2])

    def records(
        self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool, most_read: int
    ) -> bytes | FileRecords:
        """Return the batches of :meth:`read`. If they have more than ``most_read`` bytes, they are read later.

        Arguments and errors are those of :meth:`read`.
        """
        found = self._find(offset, max_bytes, end_offset, at_least_one=at_least_one)
        if found is None:
            return b""
        segment, position, size = found
        size = min(size, segment.size_bytes - position)
        return segment.read(position, size) if size <= most_read else segment.records(position, size)

    def _find(
        self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool
    ) -> tuple[Segment, int, int] | None:
        """Return the segment, position and size of the batches to read, or None if there are none."""
        if offset >= end_offset and self.log_start_offset <= offset <= self.log_end_offset:
            return None
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(
                f"offset {offset} of {self.topic_partition} is not between {self.log_start_offset} and"
                f" {self.log_end_offset}"
            )
        index = max(0, bisect_right(self._bases, offset) - 1)
        while index < len(self._segments):
            segment = self._segments[index]
            found = segment.locate(offset)
            if found is None:
                if offset < segment.next_offset:
                    segment.log_damage(self.topic_partition, offset)
            else:
                position, first_size = found
                room = self._end_position(segment, end_offset) - position
                if room <= 0:
                    return None
                if first_size > segment.size_bytes - position:
                    segment.log_damage(self.topic_partition, offset)
                    first_size = 0
                if max_bytes < first_size and not at_least_one:
                    return None  # with an incomplete first batch alone, the reader could make no progress
                return segment, position, min(max(max_bytes, first_size), room)
            index += 1
        return None

    def is_readable(self, offset: int, end_offset: int) -> bool:
        """Return whether a batch before ``end_offset`` is found for ``offset``. In an undamaged log it always is."""
        for segment in self._segments[max(0, bisect_right(self._bases, offset) - 1) :]:
            found = segment.locate(offset)
            if found is not None:
                return found[0] < self._end_position(segment, end_offset)
        return False

    @staticmethod
    def _end_position(segment: Segment, end_offset: int) -> int:
        if end_offset >= segment.next_offset:
            return segment.size_bytes
        found = segment.locate(end_offset)
        return segment.size_bytes if found is None else found[0]

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in a range of offsets, in the order of their markers.

        Args:
            offset: the first offset of the range.
            end_offset: the offset after the range. It must not be above the last stable offset.
        """
        found: list[AbortedTransaction] = []
        for segment in self._segments[max(0, bisect_right(self._bases, offset) - 1) :]:
            for entry in segment.transaction_index.entries if len(segment.transaction_index) else ():
                if entry.last_offset >= offset and entry.first_offset < end_offset:
                    found.append(entry)
                if entry.last_stable_offset >= end_offset:
                    return found
        return found

    def upper_bound(self, offset: int, size_bytes: int) -> int:
        """Return an offset above all records in the ``size_bytes`` that start with the batch of ``offset``.

        The bound comes from the index, so it may be the offset of a later batch.
        """
        segment = self._segments[max(0, bisect_right(self._bases, offset) - 1)]
        found = segment.locate(offset)
        if found is None:
            return self.log_end_offset
        after = segment.offset_index.offset_at_or_after(found[0] + size_bytes)
        return segment.next_offset if after is None else after + 1

    def raw(self, piece_bytes: int = 1 << 20) -> Iterator[bytes]:
        """Yield all batches from the log start offset to the end. Each piece has whole batches."""
        offset = self.log_start_offset
        while offset < self.log_end_offset:
            data = self.read(offset, piece_bytes, self.log_end_offset, at_least_one=True)
            batches = scan(data)
            if not batches:
                return
            yield data[: batches[-1].end_position]
            offset = batches[-1].next_offset

    # --- lookups by time

    def offset_for_timestamp(self, timestamp: int) -> FoundOffset | None:
        """Return the first record whose timestamp (ms) is ``timestamp`` or greater, or None."""
        for segment in self._segments:
            if segment.max_timestamp < timestamp or segment.next_offset <= self.log_start_offset:
                continue
            start = segment.locate(segment.time_index.offset_before(timestamp))
            for info in segment.headers(start[0] if start is not None else 0):
                if info.max_timestamp >= timestamp and info.last_offset >= self.log_start_offset:
                    found = self._first_record(segment, info, timestamp)
                    if found is not None:
                        return found
        return None

    def offset_of_max_timestamp(self) -> FoundOffset | None:
        """Return the first record with the greatest timestamp in the log, or None if the log is empty (KIP-734).

        Records before the log start offset are left out. (Java's broker looks only at whole segments. It may return
        such a record, although it cannot be read.)
        """
        readable = [
            segment for segment in self._segments if segment.next_offset > self.log_start_offset and segment.size_bytes
        ]
        best: FoundOffset | None = None
        # The sort is stable, so the first of equals wins. Another segment is read only if the greatest timestamp of the
        # one before is that of a record before the log start offset.
        for segment in sorted(readable, key=lambda each: each.max_timestamp, reverse=True):
            if best is not None and segment.max_timestamp <= best.timestamp:
                break
            found = self._latest_record(segment)
            if found is not None and (best is None or found.timestamp > best.timestamp):
                best = found
        return best

    def _latest_record(self, segment: Segment) -> FoundOffset | None:
        """Return the first record with the greatest timestamp of those in ``segment`` that can be read."""
        is_deleted = segment.max_timestamp_offset < self.log_start_offset
        start = segment.locate(self.log_start_offset if is_deleted else segment.max_timestamp_offset)
        best: FoundOffset | None = None
        for info in segment.headers(start[0] if start is not None else 0):
            if not info.record_count or info.last_offset < self.log_start_offset:
                continue
            if best is not None and info.max_timestamp <= best.timestamp:
                continue
            # The record with the header's timestamp may be before the log start offset while others are not.
            found = self._first_record(segment, info, info.max_timestamp) or self._greatest_record(segment, info)
            if found is not None and (best is None or found.timestamp > best.timestamp):
                best = found
            if best is not None and best.timestamp >= segment.max_timestamp:
                break
        return best

    def _first_record(self, segment: Segment, info: BatchInfo, timestamp: int) -> FoundOffset | None:
        """Return the first record of a batch that can be read and has ``timestamp`` or a greater one."""
        try:
            for offset, found in self._records(segment, info):
                if found >= timestamp:
                    return FoundOffset(offset, found, info.partition_leader_epoch)
        except CorruptRecordError:
            # The header says that the batch has such a record. A client that reads there finds the damage.
            return FoundOffset(max(info.base_offset, self.log_start_offset), timestamp, info.partition_leader_epoch)
        return None

    def _greatest_record(self, segment: Segment, info: BatchInfo) -> FoundOffset | None:
        found = max(self._records(segment, info), key=lambda record: record[1], default=None)
        return None if found is None else FoundOffset(*found, info.partition_leader_epoch)

    def _records(self, segment: Segment, info: BatchInfo) -> Iterator[tuple[int, int]]:
        """Yield offset and timestamp of each record of a batch that can be read. ``CorruptRecordError`` if damaged."""
        if info.is_control:  # a control batch has one record
            records: Iterable[tuple[int, int]] = [(info.base_offset, info.max_timestamp)]
        else:
            data = segment.read(info.position, info.size_bytes)
            records = itertools.chain.from_iterable(
                zip(columns.offsets, columns.timestamps, strict=True)
                for columns in record_columns(data, info.base_offset, with_keys=False, check_crc=True)
            )
        return ((offset, timestamp) for offset, timestamp in records if offset >= self.log_start_offset)

    # --- deletion and replacement

    def advance_log_start_offset(self, offset: int) -> None:
        """Delete the records before ``offset``. They become unreadable, and segments before it are removed."""
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        count = 0
        while count < len(self._segments) - 1 and self._bases[count + 1] <= offset:
            count += 1
        self._drop(count)

    def delete_old_segments(self, end_offset: int) -> int:
        """Remove segments before ``end_offset`` according to ``retention.ms`` and ``retention.bytes``.

        Return their number.
        """
        removed = 0
        config = self.config
        if config.delete:
            if config.retention_ms >= 0:
                limit = self._clock.wall_ms() - config.retention_ms
                removed += self._remove_while(end_offset, lambda segment: self._retention_timestamp(segment) < limit)
            if config.retention_bytes >= 0:
                excess = self.size_bytes - config.retention_bytes

                def is_excess(segment: Segment) -> bool:
                    nonlocal excess
                    if excess < segment.size_bytes:
                        return False
                    excess -= segment.size_bytes
                    return True

                removed += self._remove_while(end_offset, is_excess)
        return removed

    @staticmethod
    def _retention_timestamp(segment: Segment) -> int:
        return segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_ms

    def _remove_while(self, end_offset: int, condition: Callable[[Segment], bool]) -> int:
        """Remove the oldest segments while the condition holds. Return their number."""
        count = 0
        for segment in self._segments:
            is_new = segment is self._active and not segment.size_bytes
            if is_new or segment.next_offset > end_offset or not condition(segment):
                break
            count += 1
        if count and count == len(self._segments):
            self.roll()  # the active segment is removed too, and a log always has one
        if count:
            self.log_start_offset = max(self.log_start_offset, self._bases[count])
            self.epochs.truncate_from_start(self.log_start_offset)
            self._drop(count)
        return count

    def _drop(self, count: int) -> None:
        removed, self._segments = self._segments[:count], self._segments[count:]
        del self._bases[:count]
        for segment in removed:
            segment.remove()
        if removed:
            for offset in snapshot_offsets(self.storage.names()):
                if offset < self._bases[0] and offset != self.log_end_offset:
                    self.storage.remove(segment_name(offset, "snapshot"))

    def replace(self, old: list[Segment], new: Segment | None) -> None:
        """Replace adjacent segments by a compacted segment, which was written with the suffix ``.cleaned``.

        After a crash, recovery finds either the old segments or the new one. The rename to ``.swap`` decides which.

        Raises:
            OSError: a file could not be renamed or removed. If ``new`` is among the segments, the old segments were
                replaced. Otherwise they were not.
        """
        start = self._segments.index(old[0])
        if new is not None:
            new.rename(".swap")
            self.storage.sync()
        self._segments[start : start + len(old)] = [new] if new is not None else []
        self._bases = [segment.base_offset for segment in self._segments]
        for segment in old:
            segment.remove()
        if new is not None:
            new.rename("")
            self.storage.sync()

    def truncate_to(self, offset: int) -> None:
        """Truncate the log so that it ends at ``offset``, or before the batch that contains it."""
        self.truncations += 1
        if offset < self._bases[0]:
            self.restart_at(offset)
            return
        while len(self._segments) > 1 and self._bases[-1] >= offset:
            self._segments.pop().remove()
            self._bases.pop()
        self._active = self._segments[-1]
        found = self._active.locate(offset)
        if found is not None:
            self._active.truncate_to_position(found[0])
        end = self.log_end_offset
        self._active.transaction_index.truncate(end)
        self.epochs.truncate_from_end(end)
        self.recovery_point = min(self.recovery_point, end)
        self.log_start_offset = min(self.log_start_offset, end)
        # Later snapshots must be removed even if no producer is known now: the log may become as long again.
        remove_snapshots(self.storage, snapshot_offsets(self.storage.names()), end)
        self._last_snapshot = 0
        if len(self.producers):
            self._replay(end)
        self.producers.set_next_offset(end)

    def _replay(self, end: int) -> None:
        steps = replaying(self.storage, self._segments, snapshot_offsets(self.storage.names()), end)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                self._adopt_producers(stop.value.producers, stop.value.snapshot_offset)
                return

    def restart_at(self, offset: int) -> None:
        """Remove all records, so that the log starts and ends at ``offset`` (Java: ``truncateFullyAndStartAt``)."""
        self.truncations += 1
        for segment in self._segments:
            segment.remove()
        remove_snapshots(self.storage, snapshot_offsets(self.storage.names()), -1)
        self._active = Segment(self.storage, offset, self.config.index_interval_bytes, self._clock.wall_ms())
        self._segments, self._bases = [self._active], [offset]
        self.log_start_offset = self.recovery_point = offset
        self._last_snapshot = 0
        self.epochs.rebuild([])
        self.producers.clear()
        self.producers.set_next_offset(offset)

    # --- flushing and closing

    def flush(self) -> None:
        """Flush everything to disk."""
        for segment in self._segments:
            if segment.next_offset > self.recovery_point or segment is self._active:
                segment.flush()
        self.recovery_point = self.log_end_offset
        self._last_flush = self._clock.now()

    def flush_if_many(self) -> None:
        """Flush everything to disk if ``flush.messages`` records are not flushed yet.

        Raises ``OSError`` if that fails.
        """
        limit = self.config.flush_messages
        if limit < _MAX_RELATIVE_OFFSET and self.log_end_offset - self.recovery_point >= limit:
            self.flush()

    def flush_if_due(self) -> None:
        """Flush everything to disk if ``flush.ms`` has passed since the last flush."""
        unflushed = self.log_end_offset > self.recovery_point
        if unflushed and (self._clock.now() - self._last_flush) * 1000 >= self.config.flush_ms:
            self.flush()

    def flushers(self) -> tuple[int, list[Callable[[], None]]]:
        """Return the calls that flush all closed segments, and the recovery point after that.

        Any thread may run these calls.
        """
        point = self._active.base_offset
        calls = [segment.flusher() for segment in self._segments if segment is not self._active]
        return point, [call for call in calls if call is not None]

    def close(self, *, flush: bool = True) -> list[list[int]]:
        """Write the snapshot, leader epochs and indexes, and close the files.

        Only with ``flush`` are they flushed to disk.

        Returns:
            The marks of the segments (see :meth:`Segment.mark`).
        """
        self.write_snapshot()
        self.epochs.write()
        for segment in self._segments:
            segment.seal()
        if flush:
            self.flush()
        marks = [segment.mark() for segment in self._segments]
        for segment in self._segments:
            segment.close()
        return marks

    def abandon(self) -> None:
        """Close the files without writing anything, as if the process had been killed."""
        for segment in self._segments:
            segment.abandon()
