"""Opening a log: an empty one, after a clean shutdown, or after a crash. Functions that return a ``PartitionLog``.

After a crash, nothing after the recovery point is trusted. Batches there are read one by one, and their checksums are
verified; the log is truncated at the first that is incomplete or damaged. Batches are written to their file before they
are acknowledged, so a crash of the process alone loses none. Indexes, leader epochs, the producers' state and the
transaction indexes are rebuilt from the batches.

Files of an interrupted compaction: ``.cleaned`` is incomplete and is removed; ``.swap`` is complete and replaces the
segments that it was made from.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyconsumer.background_log import Log
from pyconsumer.broker.config import TopicConfig
from pyconsumer.broker.log.checkpoints import LeaderEpochs
from pyconsumer.broker.log.partition_log import PartitionLog
from pyconsumer.broker.log.producer_state import load_producers
from pyconsumer.broker.log.segment import Segment
from pyconsumer.broker.log.storage import Storage, segment_bases, segment_name
from pyconsumer.clock import Clock
from pyconsumer.errors import CorruptRecordError
from pyconsumer.protocol.records.batch import BATCH_OVERHEAD, BatchInfo, check_crc, scan_until_damage
from pyconsumer.structs import TopicPartition

__all__ = ["open_log"]

_log = Log(__name__)

_READ_BYTES = 4 << 20


def open_log(
    storage: Storage,
    topic_partition: TopicPartition,
    config: TopicConfig,
    clock: Clock,
    *,
    clean: bool = False,
    marks: Sequence[Sequence[int]] | None = None,
    recovery_point: int = 0,
    log_start_offset: int = 0,
) -> PartitionLog:
    """Open the log in a folder, which may be empty.

    Args:
        clean: it was closed in a clean shutdown, so nothing has to be checked.
        marks: those of its segments at the clean shutdown (:meth:`Segment.mark`). If they do not match, the log is
            recovered as after a crash.
        recovery_point, log_start_offset: from the checkpoints; 0 if there are none.

    Raises:
        OSError: a file cannot be read or written.
        CorruptRecordError: a batch that is not truncated, because it was flushed long ago, has a damaged header.
    """
    _finish_compaction(storage)
    bases = segment_bases(storage.names())
    if bases and log_start_offset > bases[-1] and _ends_before(storage, bases[-1], log_start_offset, config, clock):
        # The records that ended after the log start offset were lost with the machine: nothing is left to read.
        for base in bases:
            _open_segment(storage, base, config, clock).remove()
        bases = []
    segments = [_open_segment(storage, base, config, clock) for base in bases or [max(0, log_start_offset)]]
    epochs = LeaderEpochs(storage)
    if clean and marks is not None:
        clean = _match(segments, marks, topic_partition)
    elif clean:
        for segment in segments:
            segment.load_bounds()
    if not clean:
        _recover(segments, recovery_point, topic_partition)
    end = segments[-1].next_offset
    epochs.truncate_from_end(end)
    if not clean:
        _complete_epochs(epochs, segments, recovery_point)
    trusted = None if clean else recovery_point
    producers = load_producers(storage, segments, end, clean=clean, trusted=trusted)
    start = max(log_start_offset, segments[0].base_offset)
    return PartitionLog(
        storage,
        topic_partition,
        config,
        clock,
        segments=segments,
        producers=producers,
        epochs=epochs,
        log_start_offset=min(start, end),
        recovery_point=end if clean else min(recovery_point, end),
    )


def _open_segment(storage: Storage, base: int, config: TopicConfig, clock: Clock) -> Segment:
    return Segment(storage, base, config.index_interval_bytes, clock.wall_ms())


def _ends_before(storage: Storage, last_base: int, offset: int, config: TopicConfig, clock: Clock) -> bool:
    segment = _open_segment(storage, last_base, config, clock)
    segment.rebuild_indexes()
    segment.abandon()
    return segment.next_offset < offset


def _finish_compaction(storage: Storage) -> None:
    names = storage.names()
    for name in names:
        if name.endswith((".cleaned", ".deleted", ".tmp")):
            storage.remove(name)
    swapped_indexes = [name.removesuffix(".swap") for name in names if name.endswith(".txnindex.swap")]
    swapped = [name.removesuffix(".log.swap") for name in names if name.endswith(".log.swap")]
    for base in swapped:
        data = storage.open(f"{base}.log.swap")
        last = max((info.last_offset for info in _scan_file(data.read(0, data.size))), default=int(base))
        data.close()
        for other in segment_bases(storage.names()):
            if int(base) <= other <= last:
                for suffix in ("log", "index", "timeindex", "txnindex"):
                    storage.remove(segment_name(other, suffix))
        for suffix in ("index", "timeindex"):
            storage.remove(f"{base}.{suffix}.swap")
        if f"{base}.txnindex" in swapped_indexes:
            storage.rename(f"{base}.txnindex.swap", f"{base}.txnindex")
        storage.rename(f"{base}.log.swap", f"{base}.log")
    for name in swapped_indexes:
        storage.remove(f"{name}.swap")  # the rename was interrupted before the log's


def _scan_file(data: bytes) -> list[BatchInfo]:
    return scan_until_damage(data)[0]


# --- after a clean shutdown


def _match(segments: list[Segment], marks: Sequence[Sequence[int]], topic_partition: TopicPartition) -> bool:
    """Load the bounds of all segments; return whether they match the marks of the clean shutdown.

    In the last segment the last batch is checked too, which a file that was truncated or copied badly does not have. An
    older segment that does not match is not truncated, which would cost all records after it: only its indexes are
    rebuilt.
    """
    mark_of = {mark[0]: mark for mark in marks}
    if len(mark_of) != len(segments) or any(segment.base_offset not in mark_of for segment in segments):
        _log.warning("%s: its segments are not those of the last shutdown; recovering the log", topic_partition)
        return False
    for segment in segments:
        mark, is_last = mark_of[segment.base_offset], segment is segments[-1]
        try:
            if segment.matches(mark):
                segment.load_bounds()
                if not is_last or segment.ends_as(mark):
                    continue
        except CorruptRecordError as error:
            _log.warning("%s: the segment at offset %d is damaged: %s", topic_partition, segment.base_offset, error)
        name = segment_name(segment.base_offset)
        _log.warning(
            "%s: the files of segment %s have changed since the last shutdown; recovering it", topic_partition, name
        )
        if is_last:
            return False
        try:
            segment.rebuild_indexes()
        except CorruptRecordError as error:
            _log.warning("%s: the indexes of %s end at the damage: %s", topic_partition, name, error)
    return True


# --- after a crash


def _recover(segments: list[Segment], recovery_point: int, topic_partition: TopicPartition) -> None:
    """Check all batches after the recovery point; truncate the log at the first damage."""
    for index, segment in enumerate(segments):
        following = segments[index + 1].base_offset if index + 1 < len(segments) else None
        if following is not None and following <= recovery_point:
            _load_flushed(segment)
            continue
        valid = _valid_bytes(segment)
        invalid = segment.size_bytes - valid
        segment.truncate_to_position(valid)
        if invalid:
            lost = segments[index + 1 :]
            _log.warning(
                "%s: removed %d bytes after the last complete batch%s; the log now ends at offset %d",
                topic_partition,
                invalid,
                f" and {len(lost)} segments after it" if lost else "",
                segment.next_offset,
            )
            for later in lost:
                later.remove()
            del segments[index + 1 :]
            return


def _load_flushed(segment: Segment) -> None:
    """Load the bounds of a segment that was flushed before the crash; only its indexes may be missing."""
    try:
        if not len(segment.offset_index) and segment.size_bytes > _READ_BYTES:
            segment.rebuild_indexes()
        else:
            segment.load_bounds()
    except CorruptRecordError:
        segment.rebuild_indexes()


def _valid_bytes(segment: Segment) -> int:
    """Return how many bytes of a segment are complete batches with correct checksums and rising offsets."""
    position, next_offset = 0, segment.base_offset
    want = _READ_BYTES
    while position < segment.size_bytes:
        piece = segment.read(position, want)
        found, damage = scan_until_damage(piece)
        for info in found:
            if info.magic != 2 or info.base_offset < next_offset or not check_crc(piece, info):
                return position + info.position
            next_offset = info.last_offset + 1
        if found:
            position += found[-1].end_position
            want = _READ_BYTES
        if damage is not None:
            return position
        if not found:
            if len(piece) < BATCH_OVERHEAD:
                return position
            size = int.from_bytes(piece[8:12], "big") + 12
            if size <= len(piece) or position + size > segment.size_bytes:
                return position
            want = size
    return position


def _complete_epochs(epochs: LeaderEpochs, segments: list[Segment], recovery_point: int) -> None:
    """Add the leader epochs of batches after the recovery point; those of all batches if none are known."""
    since = recovery_point if epochs.latest >= 0 else 0
    for segment in segments:
        if segment.next_offset <= since:
            continue
        for info in segment.headers():
            if info.partition_leader_epoch > epochs.latest:
                epochs.assign(info.partition_leader_epoch, info.base_offset)
