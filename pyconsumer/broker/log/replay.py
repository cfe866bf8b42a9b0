"""Recovery of a log's batches and of the producers' state after a crash.

The functions are generators. Each step reads 1 MiB at most and yields its size, and other work runs between steps. They
have no state.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final, NamedTuple

from pyconsumer.background_log import Log
from pyconsumer.broker.log.producer_state import ProducerState, newest_snapshot, remove_snapshots
from pyconsumer.broker.log.segment import Segment
from pyconsumer.broker.log.storage import Storage
from pyconsumer.errors import CorruptRecordError
from pyconsumer.protocol.records import LogScan, ScanStop
from pyconsumer.protocol.records.log_scan import ScannedProducer
from pyconsumer.structs import TopicPartition

__all__ = ["Replayed", "recovering", "replaying", "tail_before"]

_log = Log(__name__)

#: The bytes at the end of the log that are searched for the batches that a snapshot does not contain.
_TAIL_BYTES: Final = 4 << 20
_LARGE_BYTES: Final = 4 << 20


class Replayed(NamedTuple):
    """The result of reading a log again.

    Attributes:
        producers: the state of all producers.
        snapshot_offset: offset of the snapshot that was loaded, or 0 if there was none.
        epochs: the leader epochs of the batches that were read, and their start offsets.
    """

    producers: ProducerState
    snapshot_offset: int
    epochs: list[tuple[int, int]]


def replaying(
    storage: Storage, segments: Sequence[Segment], snapshots: Sequence[int], end: int, *, clean: bool = False
) -> Generator[int, None, Replayed]:
    """Rebuild the producers' state and the transaction indexes, starting with the newest snapshot.

    Args:
        snapshots: the offsets of the snapshots, in order.
        end: the log end offset. Snapshots with a later offset are removed.
        clean: True if the log was closed in a clean shutdown. If it then has no snapshot, there were no producers.

    Raises:
        CorruptRecordError: a header is damaged.
    """
    remove_snapshots(storage, snapshots, end)
    damaged = _damaged_index(segments)
    producers = newest_snapshot(storage, snapshots, end if damaged is None else min(end, damaged))
    since = producers.next_offset
    if since == end or (clean and damaged is None and not snapshots):
        producers.set_next_offset(end)
        return Replayed(producers, since, [])
    log_scan = _scan(segments, producers)
    for segment in segments:
        if segment.next_offset > since:
            yield from _pass_over(segment, log_scan, since, since)
    _finish(producers, log_scan, end)
    return Replayed(producers, since, log_scan.epochs())


def recovering(
    storage: Storage,
    segments: list[Segment],
    snapshots: Sequence[int],
    recovery_point: int,
    tp: TopicPartition,
    *,
    all_epochs: bool,
) -> Generator[int, None, Replayed]:
    """Check the batches after the recovery point, and truncate the log at the first damage.

    The derived state is rebuilt.

    The segment that contains the recovery point is read from the last index entry before that point. Earlier segments
    are read only if they end after the newest snapshot of producers.

    Args:
        segments: the segments of the log. Those after the damage are removed from this list.
        snapshots: the offsets of the snapshots of producers, in order.
        all_epochs: True if no leader epochs are known, so that all batches must be read.

    Raises:
        CorruptRecordError: a header is damaged in a segment that was flushed before the crash.
    """
    damaged = _damaged_index(segments)
    limit = recovery_point if damaged is None else min(recovery_point, damaged)
    producers = newest_snapshot(storage, snapshots, limit)
    snapshot_offset = producers.next_offset
    since = 0 if all_epochs else snapshot_offset
    log_scan = _scan(segments, producers)
    for index, segment in enumerate(segments):
        following = segments[index + 1].base_offset if index + 1 < len(segments) else None
        if following is not None and following <= recovery_point:
            _load_flushed(segment)
            if following > since:
                yield from _pass_over(segment, log_scan, since, snapshot_offset)
            continue
        segment.begin_scan(log_scan, min(recovery_point, since))
        start, size = log_scan.position, segment.size_bytes
        yield from segment.scanning(log_scan, check_crcs=True)
        segment.adopt(log_scan, start)
        segment.set_aborted(snapshot_offset, log_scan.aborted())
        if log_scan.position < size:
            _remove_after(segments, index, size - log_scan.position, tp, log_scan.stop)
            break
    remove_snapshots(storage, snapshots, segments[-1].next_offset)
    _finish(producers, log_scan, segments[-1].next_offset)
    return Replayed(producers, snapshot_offset, log_scan.epochs())


def _damaged_index(segments: Sequence[Segment]) -> int | None:
    """Return the base offset of the first segment with a damaged transaction index, or None if there is none."""
    damaged = [segment.base_offset for segment in segments if segment.transaction_index.damaged]
    if not damaged:
        return None
    _log.warning("rebuilding the damaged transaction indexes of the segments at %s", damaged)
    return damaged[0]


def _scan(segments: Sequence[Segment], producers: ProducerState) -> LogScan:
    log_scan = LogScan(segments[-1].index_interval_bytes, -1, producers.next_offset)
    for producer in producers.scanned():
        log_scan.add_producer(*producer)
    return log_scan


def _pass_over(segment: Segment, log_scan: LogScan, since: int, snapshot_offset: int) -> Generator[int, None, None]:
    """Read the batches of a flushed segment from an offset on without checksums. Its other indexes stay."""
    segment.begin_scan(log_scan, since)
    yield from segment.scanning(log_scan, check_crcs=False)
    if log_scan.stop not in (ScanStop.NONE, ScanStop.INCOMPLETE):
        raise segment.damage_at(log_scan.position)
    segment.set_aborted(snapshot_offset, log_scan.aborted())


def _finish(producers: ProducerState, log_scan: LogScan, end: int) -> None:
    producers.become(log_scan.producers(), log_scan.ended(), end)


def _load_flushed(segment: Segment) -> None:
    """Load the bounds of a segment that was flushed before the crash. Only its indexes may be missing."""
    try:
        if not len(segment.offset_index) and segment.size_bytes > _LARGE_BYTES:
            segment.rebuild_indexes()
        else:
            segment.load_bounds()
    except CorruptRecordError:
        segment.rebuild_indexes()


def _remove_after(segments: list[Segment], index: int, invalid: int, tp: TopicPartition, stop: int) -> None:
    """Remove the segments after one that ends with damage."""
    lost = segments[index + 1 :]
    _log.warning(
        "%s: removed %d bytes after the last complete batch (%s)%s, so the log now ends at offset %d",
        tp,
        invalid,
        ScanStop(stop).name.lower(),
        f" and {len(lost)} segments after it" if lost else "",
        segments[index].next_offset,
    )
    for later in lost:
        later.remove()
    del segments[index + 1 :]


def tail_before(segments: Sequence[Segment], offset: int) -> list[ScannedProducer]:
    """Return the producers in the last few MiB of a log before an offset, with their last batches.

    Raises:
        OSError: the log cannot be read.
    """
    room = _TAIL_BYTES
    pieces: list[tuple[Segment, int, int]] = []
    for segment in reversed(segments):
        if room <= 0:
            break
        if segment.base_offset >= offset:
            continue
        found = segment.locate(offset)
        end = found[0] if found is not None else segment.size_bytes
        start = segment.offset_index.position_at_or_before(end - room) if end > room else 0
        pieces.append((segment, start, end))
        room -= end - start
    log_scan = LogScan(1 << 40)
    for segment, start, end in reversed(pieces):
        log_scan.resume_segment(segment.base_offset, segment.base_offset, start, -1, segment.base_offset, -1)
        for _ in segment.scanning(log_scan, check_crcs=False, end=end):
            pass
    return log_scan.producers()
