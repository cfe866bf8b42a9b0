"""Compaction: only the last record of each key stays (KIP-58, KIP-354, KIP-534 for tombstones).

Only closed segments are touched. What was written since the last compaction is dirty; a log is compacted when the dirty
share of its bytes is large enough (``min.cleanable.dirty.ratio``). Batches are rewritten record by record, and the
bytes of a record are copied unchanged, so record types of a newer version survive. A batch keeps its base offset and
last offset, and its records keep theirs. A log with a batch that cannot be read is left as it is, until it is truncated
or the broker starts again.

A tombstone stays until ``delete.retention.ms`` after the compaction that first saw it, so that readers notice it; the
batch carries the time when it may go.

Transactions: aborted records are removed, and never count as the last record of their key. Committed records count from
their marker on, so compaction ends where the oldest open transaction begins. A marker is treated like a tombstone by
the first compaction that finds no batch of its transaction any more: it stays for ``delete.retention.ms`` from then on,
for readers that are in the middle of the transaction. It also stays while nothing else is known of its producer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol, TypeAlias
from weakref import WeakKeyDictionary

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

__all__ = ["LogCleaner", "clean_log"]

_log = logging.getLogger(__name__)


#: Runs a call in another thread.
Elsewhere: TypeAlias = Callable[[Callable[[], None]], "Future[None]"]
#: The value yielded between two steps: None, or a job that has to end before the next one.
Step: TypeAlias = "Future[None] | None"

#: Keys that are remembered in one run; the rest of the dirty part waits for the next.
MAX_KEYS: Final = 2_000_000
_RECORDS_AT_A_TIME: Final = 1000
_NO_BOUND: Final = 2**63 - 1
_ATTRIBUTES: Final = 21
_BASE_TIMESTAMP: Final = 27
_MAX_TIMESTAMP: Final = 35
_RECORD_COUNT: Final = 57


@dataclass(slots=True)
class _Progress:
    """The compacted part of a log, valid until the log is truncated.

    ``stuck``: the last compaction failed or made no progress, so other logs go first. ``unreadable``: a batch is
    damaged, so the log is left alone.
    """

    cuts: int
    cleaned_to: int = 0
    stuck: bool = False
    unreadable: bool = False

    def reached(self, offset: int) -> None:
        """Record how far a pass has come."""
        self.stuck = offset <= self.cleaned_to
        self.cleaned_to = offset

    def failed(self) -> None:
        """Record that a pass failed for a reason that may pass."""
        self.stuck = True

    def give_up(self) -> None:
        """Record that a batch is damaged."""
        self.unreadable = True


class Compactable(Protocol):
    """A replica of a partition, as far as compaction needs it."""

    @property
    def log(self) -> PartitionLog: ...
    @property
    def high_watermark(self) -> int: ...


class LogCleaner:
    """Compacts the logs of a broker, the dirtiest first, in small steps between which requests are served.

    Args:
        elsewhere: forces files to disk in another thread; without it a step does so itself.
    """

    def __init__(self, clock: Clock, elsewhere: Elsewhere | None = None) -> None:
        self._clock = clock
        self._elsewhere = elsewhere
        self._known: WeakKeyDictionary[PartitionLog, _Progress] = WeakKeyDictionary()
        self._work: Generator[Step, None, int] | None = None
        self._log: PartitionLog | None = None
        self._awaited: Step = None

    def _progress(self, log: PartitionLog) -> _Progress:
        found = self._known.get(log)
        if found is None or found.cuts != log.cuts:
            found = self._known[log] = _Progress(log.cuts)
        return found

    @property
    def busy(self) -> bool:
        """A log is being compacted: call :meth:`step` again."""
        return self._work is not None

    def choose(self, partitions: Iterable[Compactable]) -> TopicPartition | None:
        """Begin with the log that needs it most; return which, None if none does."""
        best: tuple[tuple[bool, float], Compactable] | None = None
        for partition in partitions:
            progress = self._progress(partition.log)
            if partition.log.config.compact and not progress.unreadable:
                ratio = self._dirty_ratio(partition, progress.cleaned_to)
                rank = not progress.stuck, ratio
                if ratio > 0 and (best is None or rank > best[0]):
                    best = rank, partition
        if best is None:
            return None
        log = self._log = best[1].log
        first_dirty, end = self._progress(log).cleaned_to, best[1].high_watermark
        self._work = cleaning(log, self._clock.wall_ms(), first_dirty, end, self._elsewhere)
        return log.topic_partition

    def step(self, budget_s: float) -> None:
        """Continue the pass that was begun, for about ``budget_s`` seconds."""
        if self._work is None or self._log is None:
            return
        until = self._clock.now() + budget_s
        progress = self._progress(self._log)
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
            _log.warning("%s is not compacted: %s", self._log.topic_partition, error)
        except Exception as error:
            progress.give_up()
            known = isinstance(error, KafkaError)
            tp = self._log.topic_partition
            _log.error("%s is not compacted any more: %s", tp, error, exc_info=None if known else error)
        self._work = self._log = self._awaited = None

    def run(self, partitions: Iterable[Compactable]) -> TopicPartition | None:
        """Compact the log that needs it most, all of it; return which."""
        tp = self.choose(partitions)
        while self.busy:
            self.step(1.0)
        return tp

    def cancel(self) -> None:
        """Abandon what was begun."""
        if self._work is not None:
            self._work.close()
            self._work = self._log = self._awaited = None

    def _dirty_ratio(self, partition: Compactable, first_dirty: int) -> float:
        """Share of the closed segments that was not compacted; 0 if there is nothing to do yet."""
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
    """The closed segments, up to the first that is younger than ``min.compaction.lag.ms``.

    Args:
        end_offset: the high watermark: what is behind it may be cut off yet, and must not have displaced anything.
    """
    limit = now_ms - log.config.min_compaction_lag_ms
    found = []
    for segment in log.segments[:-1]:
        young = log.config.min_compaction_lag_ms and segment.max_timestamp > limit
        if young or segment.next_offset > end_offset:
            break
        found.append(segment)
    return found


def clean_log(log: PartitionLog, now_ms: int, first_dirty: int = 0) -> int:
    """Compact the closed segments; return up to which offset the log is compacted now. Errors as :func:`cleaning`."""
    work = cleaning(log, now_ms, first_dirty)
    while True:
        try:
            next(work)
        except StopIteration as stop:
            return int(stop.value)


def cleaning(
    log: PartitionLog,
    now_ms: int,
    first_dirty: int,
    end_offset: int = _NO_BOUND,
    elsewhere: Elsewhere | None = None,
) -> Generator[Step, None, int]:
    """The steps of a compaction; the result is the offset up to which the log is compacted then.

    Between two steps segments may be removed by others, or the log cut back; then this ends, and begins again some
    other time.

    Raises:
        KafkaError: a batch cannot be read: it is damaged, or of a compression without a library.
        OSError: the disk refused, or the log was removed.
    """
    cuts = log.cuts
    segments = cleanable_segments(log, now_ms, end_offset)
    found = _Latest()
    end = first_dirty
    for segment in segments:
        if segment.next_offset > first_dirty:
            yield from _collect(segment, first_dirty, found)
            end = segment.next_offset
            if len(found.last_of) > MAX_KEYS and not found.open:
                break
    if found.open:
        end = min(records[0][1] for records in found.open.values())
    if end <= first_dirty:
        return first_dirty
    found.stop_at(end)
    group: list[Segment] = []
    size = 0
    for segment in segments:
        if segment.base_offset >= end:
            break
        too_large = size + segment.size_bytes > log.config.segment_bytes
        too_far = bool(group) and segment.next_offset - group[0].base_offset > 0x7FFFFFFF
        if group and (too_large or too_far):
            if not (yield from _rewrite(log, group, found, now_ms, cuts, elsewhere)):
                return first_dirty
            group, size = [], 0
        group.append(segment)
        size += segment.size_bytes
    if group and not (yield from _rewrite(log, group, found, now_ms, cuts, elsewhere)):
        return first_dirty
    return end


class _Latest:
    """The offset of each key's last record.

    Attributes:
        open: keys and offsets of transactions without a marker so far, by producer id; none of them is empty.
        aborted: base offsets of batches that do not count.
        limit: batches from this offset on stay as they are.
        with_data: producers that have batches since their last marker, as the log is rewritten from its start.
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
            # The base offset stands for a batch of which nothing is left.
            self.open.setdefault(info.producer_id, [(None, info.base_offset)]).extend(records)
            self._open_batches.setdefault(info.producer_id, []).append(info.base_offset)
        else:
            self.last_of.update((key, offset) for key, offset in records if key is not None)

    def end(self, producer_id: int, *, committed: bool) -> None:
        """A producer's transaction ends."""
        records = self.open.pop(producer_id, [])
        batches = self._open_batches.pop(producer_id, [])
        if not committed:
            self.aborted.update(batches)
            return
        for key, offset in records:
            if key is not None and self.last_of.get(key, -1) < offset:
                self.last_of[key] = offset


def _collect(segment: Segment, first_dirty: int, found: _Latest) -> Generator[Step, None, None]:
    for info, data in segment.batches():
        if info.last_offset < first_dirty:
            continue
        records = iter(_records(info, _plain(info, data)))
        if info.is_control:
            for _, key, *_ in records:
                kind = decode_control_type(key)
                if kind in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
                    found.end(info.producer_id, committed=kind is ControlRecordType.COMMIT)
            yield None
            continue
        while True:
            piece = [(key, offset) for offset, key, _, _, _ in islice(records, _RECORDS_AT_A_TIME)]
            found.add(info, piece)
            yield None
            if len(piece) < _RECORDS_AT_A_TIME:
                break


def _plain(info: BatchInfo, data: Buffer) -> bytes:
    try:
        return compression.decompress(info.codec, memoryview(data)[BATCH_OVERHEAD:])
    except DamageError as error:
        raise CorruptRecordError(
            f"the batch at offset {info.base_offset} cannot be decompressed: {error}", offset=info.base_offset
        ) from None


def _records(info: BatchInfo, plain: bytes) -> Iterable[tuple[int, bytes | None, bool, int, bytes]]:
    """Offset, key, whether it is a tombstone, timestamp in ms, and all bytes of each record."""
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
    log: PartitionLog, group: list[Segment], latest: _Latest, now_ms: int, cuts: int, elsewhere: Elsewhere | None
) -> Generator[Step, None, bool]:
    """Put one segment with what is still wanted in the place of a group of them; False if they are not there now."""
    fresh = Segment(log.storage, group[0].base_offset, log.config.index_interval_bytes, group[0].created_ms, ".cleaned")
    try:
        keep_last = {entry.batches[-1].last_offset for entry in log.producers if entry.batches}
        only_markers = {(entry.producer_id, entry.epoch) for entry in log.producers if not entry.batches}
        gone = set()
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
                    gone.add(info.last_offset)
                else:
                    fresh.append([found._replace(position=0) for found in scan(kept)], (kept,))
                yield None
        for segment in group:
            entries = segment.transaction_index.entries
            fresh.transaction_index.append(entry for entry in entries if entry.last_offset not in gone)
        fresh.seal()
        yield from _force(fresh, elsewhere)
        # The last one is appended to. After a cut that may be one that was closed before.
        present = log.segments[:-1]
        if log.cuts != cuts or not all(segment in present for segment in group):
            return False
        # The first one keeps the log's start, even if it is empty.
        log.replace(group, fresh if fresh.size_bytes or group[0] is present[0] else None)
        return True
    finally:
        if fresh not in log.segments:
            fresh.remove()


def _force(segment: Segment, elsewhere: Elsewhere | None) -> Generator[Step, None, None]:
    """Force a segment to disk, its batches elsewhere: they are many."""
    call = segment.flusher()
    if call is not None:
        if elsewhere is None:
            call()
        else:
            done = elsewhere(call)
            yield done
            done.result()
        segment.offset_index.flush()
        segment.time_index.flush()


def _retain_marker(
    log: PartitionLog, info: BatchInfo, data: bytes, latest: _Latest, now_ms: int, *, is_last: bool
) -> Buffer | None:
    """Return what stays of an end marker, None if nothing does.

    Args:
        is_last: it is all that is known of its producer.
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
    """Note when a batch may go. The time takes the place of the base timestamp, which timestamps count from."""
    new_base = now_ms + log.config.delete_retention_ms
    header[_BASE_TIMESTAMP : _BASE_TIMESTAMP + 8] = new_base.to_bytes(8, "big", signed=True)
    return new_base


def _retain(
    log: PartitionLog, info: BatchInfo, data: bytes, latest: _Latest, now_ms: int, *, keep_empty: bool
) -> Generator[Step, None, Buffer | None]:
    """Return what stays of a batch, None if nothing does."""
    if info.is_transactional:
        latest.with_data.add(info.producer_id)
    if info.base_offset >= latest.limit:
        return data
    horizon = info.delete_horizon_ms
    expired = horizon is not None and now_ms >= horizon
    kept, tombstones, max_timestamp = [], False, -1
    aborted = info.base_offset in latest.aborted
    for number, (offset, key, is_tombstone, timestamp, raw) in enumerate(_records(info, _plain(info, data)), 1):
        newest = key is not None and latest.last_of.get(key, offset) <= offset and not aborted
        if newest and not (is_tombstone and expired):
            kept.append(raw)
            tombstones = tombstones or is_tombstone
            max_timestamp = max(max_timestamp, timestamp)
        if number % _RECORDS_AT_A_TIME == 0:
            yield None
    dropped = len(kept) < info.record_count
    first_seen = tombstones and horizon is None
    if not dropped and not first_seen:
        return data
    if not kept and not keep_empty:
        return None
    header = bytearray(data[:BATCH_OVERHEAD])
    header[_RECORD_COUNT : _RECORD_COUNT + 4] = len(kept).to_bytes(4, "big")
    if kept and info.timestamp_type == CREATE_TIME:
        header[_MAX_TIMESTAMP : _MAX_TIMESTAMP + 8] = max_timestamp.to_bytes(8, "big", signed=True)
    attributes = info.attributes
    if first_seen:
        new_base = _set_horizon(log, header, now_ms)
        kept = [_rebase(raw, info.first_timestamp - new_base) for raw in kept]
        attributes |= DELETE_HORIZON_FLAG
    if not kept:
        return rebuild_batch(header, b"", attributes, compression.Codec.NONE)
    return rebuild_batch(header, b"".join(kept), attributes, info.codec)


def _rebase(raw: bytes, shift_ms: int) -> bytes:
    """A record whose timestamp counts from another base."""
    _, start = read_varint(raw, 0, 5)
    delta, rest = read_varint(raw, start + 1, 10)
    body = raw[start : start + 1] + encode_varint(delta + shift_ms) + raw[rest:]
    return encode_varint(len(body)) + body
