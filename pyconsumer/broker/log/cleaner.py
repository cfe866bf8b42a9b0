"""Log compaction: only the last record of each key is kept (KIP-58, KIP-354, KIP-534).

Only closed segments are compacted. The records after the last compaction are dirty. A log is compacted when the dirty
share of its bytes is large enough (``min.cleanable.dirty.ratio``). Batches are rewritten record by record, and the
bytes of a record are copied unchanged, so records of a newer version stay as they are. A batch keeps its base offset
and last offset, and its records keep their offsets. If a batch cannot be read, compaction of the log is disabled until
it is truncated or the broker restarts.

A tombstone is kept until ``delete.retention.ms`` after the compaction that first read it, so that readers get it. The
batch header holds the end of that time (the delete horizon).

Transactions: aborted records are removed, and are never the last record of their key. Committed records count only
after their marker, so compaction ends where the oldest open transaction begins. The first compaction that finds no
batch of a marker's transaction treats the marker as a tombstone: it is kept for ``delete.retention.ms`` more, for
readers in the middle of the transaction. A marker is also kept while it is the last batch of its producer.

State: :class:`LogCleaner` has, for each log, the offset up to which it is compacted (in memory only, so a restarted
broker compacts from the start), and the pass that is running. A pass first reads the keys of the dirty part, then
rewrites the segments in groups. Each group is replaced by one new segment (:meth:`PartitionLog.replace`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from pyconsumer.background_log import Log
from pyconsumer.broker.log.partition_log import PartitionLog
from pyconsumer.broker.log.segment import Segment
from pyconsumer.broker.log.validation import rebuild_batch
from pyconsumer.clock import Clock
from pyconsumer.errors import CorruptRecordError, KafkaError
from pyconsumer.protocol.primitives import Buffer, encode_varint, read_varint
from pyconsumer.protocol.records import CREATE_TIME, ControlRecordType, compression, decode_control_type
from pyconsumer.protocol.records._varint import DamageError
from pyconsumer.protocol.records.batch import BATCH_OVERHEAD, DELETE_HORIZON_FLAG, BatchInfo, scan
from pyconsumer.structs import TopicPartition

__all__ = ["LogCleaner", "cleaning"]

_log = Log(__name__)

#: Runs a function in another thread.
RunInThread: TypeAlias = Callable[[Callable[[], None]], "Future[None]"]
#: The value yielded between two steps: None, or a future that must be done before the next one.
Step: TypeAlias = "Future[None] | None"

#: The number of keys after which a pass reads no further segment. The next pass compacts the rest.
MAX_KEYS: Final = 2_000_000
_RECORDS_AT_A_TIME: Final = 1000
_NO_BOUND: Final = 2**63 - 1
_ATTRIBUTES: Final = 21
_BASE_TIMESTAMP: Final = 27
_MAX_TIMESTAMP: Final = 35
_RECORD_COUNT: Final = 57


@dataclass(slots=True)
class _Progress:
    """The progress of compaction in a log, valid until the log is truncated.

    ``stuck``: the last pass failed or made no progress, so other logs come first. ``unreadable``: a batch cannot be
    read, so compaction of the log is disabled.
    """

    truncations: int
    cleaned_to: int = 0
    stuck: bool = False
    unreadable: bool = False

    def reached(self, offset: int) -> None:
        """Record the offset up to which a pass has compacted the log."""
        self.stuck = offset <= self.cleaned_to
        self.cleaned_to = offset

    def failed(self) -> None:
        """Record that a pass failed for a reason that may be temporary."""
        self.stuck = True

    def mark_unreadable(self) -> None:
        """Record that a batch cannot be read."""
        self.unreadable = True


class Compactable(Protocol):
    """The part of a partition's replica that compaction needs."""

    @property
    def log(self) -> PartitionLog: ...
    @property
    def high_watermark(self) -> int: ...


class LogCleaner:
    """Compacts the logs of a broker, the dirtiest log first.

    It works in small steps, between which requests are served.

    Args:
        run_in_thread: a function that runs the flush of a new segment in another thread. If it is not given, a step
            flushes.
    """

    def __init__(self, clock: Clock, run_in_thread: RunInThread | None = None) -> None:
        self._clock = clock
        self._run_in_thread = run_in_thread
        self._progress: WeakKeyDictionary[PartitionLog, _Progress] = WeakKeyDictionary()
        self._work: Generator[Step, None, int] | None = None
        self._log: PartitionLog | None = None
        self._awaited: Step = None

    def _progress_of(self, log: PartitionLog) -> _Progress:
        found = self._progress.get(log)
        if found is None or found.truncations != log.truncations:
            found = self._progress[log] = _Progress(log.truncations)
        return found

    @property
    def busy(self) -> bool:
        """Return whether a pass is in progress. :meth:`step` continues it."""
        return self._work is not None

    def begin(self, partitions: Iterable[Compactable]) -> TopicPartition | None:
        """Start a pass over the log that needs compaction most. Return its partition, or None if no log needs it."""
        best: tuple[tuple[bool, float], Compactable] | None = None
        for partition in partitions:
            progress = self._progress_of(partition.log)
            if partition.log.config.compact and not progress.unreadable:
                ratio = self._dirty_ratio(partition, progress.cleaned_to)
                rank = not progress.stuck, ratio
                if ratio > 0 and (best is None or rank > best[0]):
                    best = rank, partition
        if best is None:
            return None
        log = self._log = best[1].log
        first_dirty, end = self._progress_of(log).cleaned_to, best[1].high_watermark
        self._work = cleaning(log, self._clock.wall_ms(), first_dirty, end, self._run_in_thread)
        return log.topic_partition

    def step(self, budget_s: float) -> None:
        """Continue the current pass for about ``budget_s`` seconds."""
        if self._work is None or self._log is None:
            return
        until = self._clock.now() + budget_s
        progress = self._progress_of(self._log)
        try:
            while self._awaited is None or self._awaited.done():
                self._awaited = next(self._work)
                if self._clock.now() >= until:
                    return
            return
        except StopIteration as stop:
            progress.reached(stop.value)
        except OSError as error:  # its topic was deleted, or the disk is full
            progress.failed()
            _log.warning("%s could not be compacted: %s", self._log.topic_partition, error)
        except Exception as error:
            progress.mark_unreadable()
            known = isinstance(error, KafkaError)
            tp = self._log.topic_partition
            _log.error("%s: compaction is disabled after an error: %s", tp, error, exc_info=None if known else error)
        self._work = self._log = self._awaited = None

    def run(self, partitions: Iterable[Compactable]) -> TopicPartition | None:
        """Run a whole pass over the log that needs compaction most. Return its partition."""
        tp = self.begin(partitions)
        while self.busy:
            self.step(1.0)
        return tp

    def cancel(self) -> None:
        """Abandon the current pass."""
        if self._work is not None:
            self._work.close()
            self._work = self._log = self._awaited = None

    def _dirty_ratio(self, partition: Compactable, first_dirty: int) -> float:
        """Return the dirty share of the closed segments, or 0 if the log does not need compaction yet."""
        log = partition.log
        closed = cleanable_segments(log, self._clock.wall_ms(), partition.high_watermark)
        total = sum(segment.size_bytes for segment in closed)
        dirty = sum(segment.size_bytes for segment in closed if segment.next_offset > first_dirty)
        if not dirty:
            return 0.0
        ratio = dirty / total
        oldest = min(segment.first_timestamp for segment in closed if segment.next_offset > first_dirty)
        overdue = self._clock.wall_ms() - oldest > log.config.max_compaction_lag_ms
        return ratio if overdue or ratio >= log.config.min_cleanable_dirty_ratio else 0.0


def cleanable_segments(log: PartitionLog, now_ms: int, end_offset: int = _NO_BOUND) -> list[Segment]:
    """Return the closed segments, up to the first one that is younger than ``min.compaction.lag.ms``.

    Args:
        end_offset: the high watermark. Records after it may still be truncated, so they must not replace other records.
    """
    limit = now_ms - log.config.min_compaction_lag_ms
    found = []
    for segment in log.segments[:-1]:
        too_young = log.config.min_compaction_lag_ms and segment.max_timestamp > limit
        if too_young or segment.next_offset > end_offset:
            break
        found.append(segment)
    return found


def cleaning(
    log: PartitionLog,
    now_ms: int,
    first_dirty: int,
    end_offset: int = _NO_BOUND,
    run_in_thread: RunInThread | None = None,
) -> Generator[Step, None, int]:
    """Run a pass in steps. The result is the offset up to which the log is compacted.

    Between two steps, segments may be removed or the log may be truncated. The pass then ends without a change, and a
    later pass starts again.

    Raises:
        KafkaError: a batch cannot be read, because it is damaged or the library for its compression is missing.
        OSError: a file cannot be read or written, or the log was removed.
    """
    truncations = log.truncations
    segments = cleanable_segments(log, now_ms, end_offset)
    latest = _LatestOffsets()
    end = first_dirty
    for segment in segments:
        if segment.next_offset > first_dirty:
            yield from _read_keys(segment, first_dirty, latest)
            end = segment.next_offset
            if len(latest.last_of) > MAX_KEYS and not latest.open:
                break
    if latest.open:
        end = min(records[0][1] for records in latest.open.values())
    if end <= first_dirty:
        return first_dirty
    latest.stop_at(end)
    group: list[Segment] = []
    size = 0
    for segment in segments:
        if segment.base_offset >= end:
            break
        too_large = size + segment.size_bytes > log.config.segment_bytes
        too_far = bool(group) and segment.next_offset - group[0].base_offset > 0x7FFFFFFF
        if group and (too_large or too_far):
            if not (yield from _rewrite(log, group, latest, now_ms, truncations, run_in_thread)):
                return first_dirty
            group, size = [], 0
        group.append(segment)
        size += segment.size_bytes
    if group and not (yield from _rewrite(log, group, latest, now_ms, truncations, run_in_thread)):
        return first_dirty
    return end


class _LatestOffsets:
    """The offset of each key's last record.

    Attributes:
        last_of: by key.
        open: by producer id, the keys and offsets of transactions without a marker so far. No list is empty.
        aborted: base offsets of batches of aborted transactions.
        limit: batches from this offset on stay as they are.
        with_data: while the log is rewritten, the producers with a batch after their last marker.
    """

    def __init__(self) -> None:
        self.last_of: dict[bytes, int] = {}
        self.open: dict[int, list[tuple[bytes | None, int]]] = {}
        self.aborted: set[int] = set()
        self.limit = 0
        self.with_data: set[int] = set()
        self._open_batches: dict[int, list[int]] = {}

    def stop_at(self, offset: int) -> None:
        """Leave batches from an offset on as they are."""
        self.limit = offset

    def add(self, info: BatchInfo, records: Iterable[tuple[bytes | None, int]]) -> None:
        if info.is_transactional:
            # With the base offset, a transaction counts as open even if its batch has no records left.
            self.open.setdefault(info.producer_id, [(None, info.base_offset)]).extend(records)
            self._open_batches.setdefault(info.producer_id, []).append(info.base_offset)
        else:
            self.last_of.update((key, offset) for key, offset in records if key is not None)

    def end(self, producer_id: int, *, committed: bool) -> None:
        """Apply or drop the records of a producer's transaction after its marker was read."""
        records = self.open.pop(producer_id, [])
        batches = self._open_batches.pop(producer_id, [])
        if not committed:
            self.aborted.update(batches)
            return
        for key, offset in records:
            if key is not None and self.last_of.get(key, -1) < offset:
                self.last_of[key] = offset


def _read_keys(segment: Segment, first_dirty: int, latest: _LatestOffsets) -> Generator[Step, None, None]:
    for info, data in segment.batches():
        if info.last_offset < first_dirty:
            continue
        records = iter(_records(info, _plain(info, data)))
        if info.is_control:
            for _, key, *_ in records:
                marker = decode_control_type(key)
                if marker in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
                    latest.end(info.producer_id, committed=marker is ControlRecordType.COMMIT)
            yield None
            continue
        while True:
            chunk = [(key, offset) for offset, key, _, _, _ in islice(records, _RECORDS_AT_A_TIME)]
            latest.add(info, chunk)
            yield None
            if len(chunk) < _RECORDS_AT_A_TIME:
                break


def _plain(info: BatchInfo, data: Buffer) -> bytes:
    try:
        return compression.decompress(info.codec, memoryview(data)[BATCH_OVERHEAD:])
    except DamageError as error:
        raise CorruptRecordError(
            f"the batch at offset {info.base_offset} cannot be decompressed: {error}", offset=info.base_offset
        ) from None


def _records(info: BatchInfo, plain: bytes) -> Iterable[tuple[int, bytes | None, bool, int, bytes]]:
    """Yield each record's offset, key, whether it is a tombstone, its timestamp in ms, and its bytes."""
    position = 0
    for _ in range(info.record_count):
        length, start = read_varint(plain, position, 5)
        end = start + length
        if length < 0 or end > len(plain):
            raise CorruptRecordError("a record is longer than its batch", offset=info.base_offset)
        age, at = read_varint(plain, start + 1, 10)
        delta, at = read_varint(plain, at, 5)
        key_length, at = read_varint(plain, at, 5)
        key = plain[at : at + key_length] if key_length >= 0 else None
        value_length, _ = read_varint(plain, at + max(key_length, 0), 5)
        yield info.base_offset + delta, key, value_length < 0, info.first_timestamp + age, plain[position:end]
        position = end


def _rewrite(
    log: PartitionLog,
    group: list[Segment],
    latest: _LatestOffsets,
    now_ms: int,
    truncations: int,
    run_in_thread: RunInThread | None,
) -> Generator[Step, None, bool]:
    """Replace a group of segments with one that has the retained records.

    Returns:
        False, without a change, if the log was truncated or the segments were removed in the meantime.
    """
    fresh = Segment(log.storage, group[0].base_offset, log.config.index_interval_bytes, group[0].created_ms, ".cleaned")
    try:
        keep_last = {entry.batches[-1].last_offset for entry in log.producers if entry.batches}
        only_markers = {(entry.producer_id, entry.epoch) for entry in log.producers if not entry.batches}
        removed = set()
        for segment in group:
            for info, data in segment.batches():
                keep_empty = info.last_offset in keep_last
                kept: Buffer | None
                if info.is_control:
                    is_last = (info.producer_id, info.producer_epoch) in only_markers
                    kept = _retain_marker(log, info, data, latest, now_ms, is_last=is_last)
                else:
                    kept = yield from _retain(log, info, data, latest, now_ms, keep_empty=keep_empty)
                if kept is None:
                    removed.add(info.last_offset)
                else:
                    fresh.append([found._replace(position=0) for found in scan(kept)], (kept,))
                yield None
        for segment in group:
            entries = segment.transaction_index.entries
            fresh.transaction_index.append(entry for entry in entries if entry.last_offset not in removed)
        fresh.seal()
        yield from _flush(fresh, run_in_thread)
        # Without the active segment, which after a truncation may be one that was closed before.
        present = log.segments[:-1]
        if log.truncations != truncations or not all(segment in present for segment in group):
            return False
        # The first segment stays even if it is empty, because the log begins with it.
        log.replace(group, fresh if fresh.size_bytes or group[0] is present[0] else None)
        return True
    finally:
        if fresh not in log.segments:
            fresh.remove()


def _flush(segment: Segment, run_in_thread: RunInThread | None) -> Generator[Step, None, None]:
    """Flush a segment to disk. Its batches, which may take long, are flushed in another thread."""
    call = segment.flusher()
    if call is not None:
        if run_in_thread is None:
            call()
        else:
            flushed = run_in_thread(call)
            yield flushed
            flushed.result()
        segment.offset_index.flush()
        segment.time_index.flush()


def _retain_marker(
    log: PartitionLog, info: BatchInfo, data: bytes, latest: _LatestOffsets, now_ms: int, *, is_last: bool
) -> Buffer | None:
    """Return the batch of an end marker as it is retained, or None if it is removed.

    Args:
        is_last: it is the last batch of its producer.
    """
    has_data = info.producer_id in latest.with_data
    latest.with_data.discard(info.producer_id)
    if has_data or is_last or info.base_offset >= latest.limit:
        return data
    horizon = info.delete_horizon_ms
    if horizon is not None:
        return None if now_ms >= horizon else data
    header = bytearray(data[:BATCH_OVERHEAD])
    new_base = _set_horizon(log, header, now_ms)
    kept = [_rebase(raw, info.first_timestamp - new_base) for *_, raw in _records(info, _plain(info, data))]
    return rebuild_batch(header, b"".join(kept), info.attributes | DELETE_HORIZON_FLAG, info.codec)


def _set_horizon(log: PartitionLog, header: bytearray, now_ms: int) -> int:
    """Write the delete horizon of a batch into its header, and return it in ms.

    It replaces the base timestamp, to which the records' timestamps are relative.
    """
    new_base = now_ms + log.config.delete_retention_ms
    header[_BASE_TIMESTAMP : _BASE_TIMESTAMP + 8] = new_base.to_bytes(8, "big", signed=True)
    return new_base


def _retain(
    log: PartitionLog, info: BatchInfo, data: bytes, latest: _LatestOffsets, now_ms: int, *, keep_empty: bool
) -> Generator[Step, None, Buffer | None]:
    """Return a batch with its retained records, or None if it is removed.

    Args:
        keep_empty: keep the batch without records, because it has the last sequence of its producer.
    """
    if info.is_transactional:
        latest.with_data.add(info.producer_id)
    if info.base_offset >= latest.limit:
        return data
    horizon = info.delete_horizon_ms
    expired = horizon is not None and now_ms >= horizon
    kept, tombstones, max_timestamp = [], False, -1
    aborted = info.base_offset in latest.aborted
    for number, (offset, key, is_tombstone, timestamp, raw) in enumerate(_records(info, _plain(info, data)), 1):
        is_latest = key is not None and latest.last_of.get(key, offset) <= offset and not aborted
        if is_latest and not (is_tombstone and expired):
            kept.append(raw)
            tombstones = tombstones or is_tombstone
            max_timestamp = max(max_timestamp, timestamp)
        if number % _RECORDS_AT_A_TIME == 0:
            yield None
    is_complete = len(kept) == info.record_count
    sets_horizon = tombstones and horizon is None
    if is_complete and not sets_horizon:
        return data
    if not kept and not keep_empty:
        return None
    header = bytearray(data[:BATCH_OVERHEAD])
    header[_RECORD_COUNT : _RECORD_COUNT + 4] = len(kept).to_bytes(4, "big")
    if kept and info.timestamp_type == CREATE_TIME:
        header[_MAX_TIMESTAMP : _MAX_TIMESTAMP + 8] = max_timestamp.to_bytes(8, "big", signed=True)
    attributes = info.attributes
    if sets_horizon:
        new_base = _set_horizon(log, header, now_ms)
        kept = [_rebase(raw, info.first_timestamp - new_base) for raw in kept]
        attributes |= DELETE_HORIZON_FLAG
    if not kept:
        return rebuild_batch(header, b"", attributes, compression.Codec.NONE)
    return rebuild_batch(header, b"".join(kept), attributes, info.codec)


def _rebase(raw: bytes, shift_ms: int) -> bytes:
    """Return a record with a timestamp delta that is larger by ``shift_ms``."""
    _, start = read_varint(raw, 0, 5)
    delta, rest = read_varint(raw, start + 1, 10)
    body = raw[start : start + 1] + encode_varint(delta + shift_ms) + raw[rest:]
    return encode_varint(len(body)) + body
