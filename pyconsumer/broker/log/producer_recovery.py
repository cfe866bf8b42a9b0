"""What a log remembers of producers, found again after a start or a cut: from a snapshot and the batches after it."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pyconsumer.broker.log.producer_state import ProducerState
from pyconsumer.broker.log.segment import Segment
from pyconsumer.broker.log.storage import Storage, segment_name
from pyconsumer.protocol.records.batch import BatchInfo

__all__ = ["load_producers", "remove_snapshots"]

_log = logging.getLogger(__name__)

#: How much of the tail is searched for the batches that a snapshot does not hold.
_REFILL_BYTES = 4 << 20


def _snapshots(storage: Storage) -> list[int]:
    """Offsets of the snapshots that are there, in order."""
    names = (name for name in storage.names() if name.endswith(".snapshot"))
    return sorted(int(name[:20]) for name in names if name[:20].isdigit())


def remove_snapshots(storage: Storage, end: int) -> None:
    """Remove those of offsets after ``end``."""
    for offset in _snapshots(storage):
        if offset > end:
            storage.remove(segment_name(offset, "snapshot"))


def load_producers(storage: Storage, segments: Sequence[Segment], end: int, *, clean: bool = False) -> ProducerState:
    """The newest good snapshot, brought up to the end of the log.

    Args:
        end: the log end offset; snapshots behind it are removed.
        clean: the log was closed in good order, so that a snapshot is missing only if there were no producers.
    """
    state = ProducerState()
    offsets = _snapshots(storage)
    remove_snapshots(storage, end)
    usable = [offset for offset in offsets if offset <= end]
    while usable:
        offset = usable.pop()
        content = storage.read_small(segment_name(offset, "snapshot"))
        try:
            state.load(content or b"", offset)
            break
        except ValueError as error:
            _log.warning("producer snapshot at offset %d is not used: %s", offset, error)
            storage.remove(segment_name(offset, "snapshot"))
            state.clear()
    if clean and state.next_offset == 0 and not offsets:
        return state  # closed in good order without a snapshot: there were no producers
    known = state.next_offset
    if len(state):
        state.refill(info for info in _tail(segments, known) if info.last_offset < known)
    for segment in segments:
        if segment.next_offset > known:
            state.add(info for info in segment.headers() if info.last_offset >= known)
    state.next_offset = end
    return state


def _tail(segments: Sequence[Segment], offset: int) -> list[BatchInfo]:
    """Headers of the last few MiB before an offset."""
    room = _REFILL_BYTES
    pieces: list[list[BatchInfo]] = []
    for segment in reversed(segments):
        if room <= 0:
            break
        if segment.base_offset >= offset:
            continue
        found = segment.locate(offset)
        end = found[0] if found is not None else segment.size_bytes
        start = segment.offset_index.position_at_or_before(end - room) if end > room else 0
        pieces.append(list(segment.headers(start)))
        room -= end - start
    return [info for piece in reversed(pieces) for info in piece]
