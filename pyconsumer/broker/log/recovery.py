"""Opening a log after a clean shutdown or after a crash. Functions that return a ``PartitionLog``.

After a clean shutdown only the end of the log is read. After a crash, the batches after the recovery point are read in
one pass and their checksums verified. The log is truncated at the first incomplete or damaged batch. Batches are
written to their file before they are acknowledged, so a crash of the process alone loses none. Indexes, leader epochs,
the producers' state and the transaction indexes are rebuilt in the same pass, see :mod:`.replay`.

Files of an interrupted compaction: ``.cleaned`` is incomplete and is removed. ``.swap`` is complete and replaces the
segments that it was made from.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence

from pyconsumer.background_log import Log
from pyconsumer.broker.config import TopicConfig
from pyconsumer.broker.log.checkpoints import LeaderEpochs
from pyconsumer.broker.log.partition_log import PartitionLog
from pyconsumer.broker.log.producer_state import snapshot_offsets
from pyconsumer.broker.log.replay import recovering, replaying
from pyconsumer.broker.log.segment import Segment
from pyconsumer.broker.log.storage import Storage, segment_bases, segment_name
from pyconsumer.clock import Clock
from pyconsumer.errors import CorruptRecordError
from pyconsumer.protocol.records.batch import BatchInfo, scan_until_damage
from pyconsumer.structs import TopicPartition

__all__ = ["open_log", "opening_log"]

_log = Log(__name__)


def open_log(
    storage: Storage,
    topic_partition: TopicPartition,
    config: TopicConfig,
    clock: Clock,
    *,
    clean: bool = False,
    marks: Sequence[Sequence[int]] | None = None,
    must_be_unchanged: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
) -> PartitionLog:
    """Open the log in a folder, which may be empty. This runs all steps of :func:`opening_log`."""
    steps = opening_log(
        storage,
        topic_partition,
        config,
        clock,
        clean=clean,
        marks=marks,
        must_be_unchanged=must_be_unchanged,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
    )
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            log: PartitionLog = stop.value
            return log


def opening_log(
    storage: Storage,
    topic_partition: TopicPartition,
    config: TopicConfig,
    clock: Clock,
    *,
    clean: bool = False,
    marks: Sequence[Sequence[int]] | None = None,
    must_be_unchanged: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
) -> Generator[int, None, PartitionLog]:
    """Open the log in a folder, which may be empty. This is done in steps. Each step yields how many bytes it has read.

    Args:
        clean: True if the log was closed in a clean shutdown, so it need not be checked.
        marks: the marks of its segments at the clean shutdown (:meth:`Segment.mark`). If they do not match, the log is
            recovered as after a crash.
        must_be_unchanged: True checks the whole log if a file was written to after the clean shutdown.
        recovery_point, log_start_offset: the values from the checkpoints. 0 if there are none.

    Raises:
        OSError: a file cannot be read or written.
        CorruptRecordError: a batch has a damaged header and cannot be truncated, because it was flushed long ago.
    """
    names = set(storage.names())
    if _finish_compaction(storage, names):
        names = set(storage.names())
    bases = segment_bases(names)
    if bases and log_start_offset > bases[-1] and _ends_before(storage, bases[-1], log_start_offset, config, clock):
        # The records after the log start offset were lost with the machine: none is left to read.
        for base in bases:
            _open_segment(storage, base, config, clock).remove()
        bases = []
    snapshots = snapshot_offsets(names)
    segments: list[Segment] = []
    try:
        for base in bases:
            segments.append(_open_segment(storage, base, config, clock, names))  # noqa: PERF401 (closed after an error)
        if not segments:
            segments.append(_open_segment(storage, max(0, log_start_offset), config, clock))
        if clean and marks is not None:
            clean = _match(segments, marks, topic_partition, must_be_unchanged=must_be_unchanged)
        elif clean:
            for segment in segments:
                segment.load_bounds()
        epochs = LeaderEpochs(storage)
        if clean:
            replayed = yield from replaying(storage, segments, snapshots, segments[-1].next_offset, clean=True)
        else:
            point = 0 if must_be_unchanged else recovery_point
            replayed = yield from recovering(
                storage, segments, snapshots, point, topic_partition, all_epochs=epochs.latest < 0
            )
        end = segments[-1].next_offset
        epochs.truncate_from_end(end, write=False)
        for epoch, start_offset in () if clean else replayed.epochs:
            epochs.assign(epoch, start_offset)
    except BaseException:
        for segment in segments:
            segment.abandon()
        raise
    return PartitionLog(
        storage,
        topic_partition,
        config,
        clock,
        segments=segments,
        producers=replayed.producers,
        snapshot_offset=replayed.snapshot_offset,
        epochs=epochs,
        log_start_offset=min(max(log_start_offset, segments[0].base_offset), end),
        recovery_point=end if clean else min(recovery_point, end),
    )


def _open_segment(
    storage: Storage, base: int, config: TopicConfig, clock: Clock, names: Collection[str] = ()
) -> Segment:
    return Segment(storage, base, config.index_interval_bytes, clock.wall_ms(), names=names)


def _ends_before(storage: Storage, last_base: int, offset: int, config: TopicConfig, clock: Clock) -> bool:
    segment = _open_segment(storage, last_base, config, clock)
    try:
        segment.rebuild_indexes()
    except CorruptRecordError:
        pass  # it ends there
    segment.abandon()
    return segment.next_offset < offset


def _finish_compaction(storage: Storage, names: Collection[str]) -> bool:
    """Finish or undo an interrupted compaction. Return whether there was one."""
    if not any(name.endswith((".cleaned", ".deleted", ".tmp", ".swap")) for name in names):
        return False
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
    return True


def _scan_file(data: bytes) -> list[BatchInfo]:
    return scan_until_damage(data)[0]


# --- after a clean shutdown


def _match(
    segments: list[Segment], marks: Sequence[Sequence[int]], topic_partition: TopicPartition, *, must_be_unchanged: bool
) -> bool:
    """Give all segments the bounds of their marks. Return whether they match the marks of the clean shutdown.

    In the last segment the last batch is checked too: a file that was truncated or copied badly lacks it. An older
    segment that does not match is not truncated, which would cost all records after it: only its indexes are rebuilt.
    """
    mark_of = {mark[0]: mark for mark in marks}
    if len(mark_of) != len(segments) or any(segment.base_offset not in mark_of for segment in segments):
        _log.warning("%s: its segments are not those of the last shutdown, so the log is recovered", topic_partition)
        return False
    for segment in segments:
        mark, is_last = mark_of[segment.base_offset], segment is segments[-1]
        if must_be_unchanged and not segment.is_unchanged(mark):
            _log.info("%s: the log was written to since the last shutdown, so it is recovered", topic_partition)
            return False
        if segment.trust(mark) and (not is_last or segment.ends_well()):
            continue
        name = segment_name(segment.base_offset)
        _log.warning(
            "%s: the files of segment %s have changed since the last shutdown, so it is recovered",
            topic_partition,
            name,
        )
        if is_last:
            segment.distrust()
            return False
        try:
            segment.rebuild_indexes()
        except CorruptRecordError as error:
            _log.warning("%s: the indexes of %s end at the damage: %s", topic_partition, name, error)
    return True
