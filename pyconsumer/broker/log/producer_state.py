"""The state of idempotent producers in a log: with it, a batch that is sent twice is stored once (KIP-98).

Rules, per producer id and partition:

1. A batch with an epoch below the known one is refused: INVALID_PRODUCER_EPOCH.
2. A batch of the known epoch whose first and last sequence equal those of one of the last five batches is a duplicate:
   it is not stored, and is answered with the offset and timestamp of the original.
3. A batch of a new epoch must begin with sequence 0.
4. Else its first sequence must follow the last one (after 2147483647 comes 0). Anything else is refused:
   OUT_OF_ORDER_SEQUENCE_NUMBER.
5. From an unknown producer any sequence is accepted: its state may have expired (KIP-360).

The state is derived from the log: it is written as a snapshot when a segment begins and when the log is closed, and
rebuilt from the batches after the last snapshot. Snapshots have Kafka's format and hold the last batch of each
producer; the four before it are found again in the log's tail.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from pyconsumer.broker.log.segment import Segment
from pyconsumer.broker.log.storage import Storage, segment_name
from pyconsumer.errors import InvalidProducerEpochError, OutOfOrderSequenceNumberError
from pyconsumer.protocol.records.batch import BatchInfo
from pyconsumer.protocol.records.crc import crc32c

__all__ = [
    "BatchMetadata",
    "ProducerEntry",
    "ProducerState",
    "load_producers",
    "remove_snapshots",
]

#: Batches of a producer that are remembered: as many as may be in flight.
REMEMBERED: Final = 5

_NO_EPOCH: Final = -1

_SNAPSHOT_VERSION: Final = 1

_HEADER: Final = Struct(">hIi")

_ENTRY: Final = Struct(">qhiqiqiq")


class BatchMetadata(NamedTuple):
    """One remembered batch: last sequence, last offset, records before its last one, and its timestamp in ms."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & 0x7FFFFFFF

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """One producer id: its epoch, its last batches (oldest first) and the time of its last batch, in ms."""

    __slots__ = ("batches", "coordinator_epoch", "current_txn_first_offset", "epoch", "last_timestamp", "producer_id")

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: deque[BatchMetadata] = deque(maxlen=REMEMBERED)
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.current_txn_first_offset = -1

    def duplicate(self, batch: BatchInfo) -> BatchMetadata | None:
        """The remembered batch that this one repeats."""
        if batch.producer_epoch != self.epoch:
            return None
        for known in self.batches:
            if known.last_sequence == batch.last_sequence and known.first_sequence == batch.base_sequence:
                return known
        return None

    def check(self, batch: BatchInfo) -> None:
        """Raise unless the batch may follow."""
        if batch.producer_epoch < self.epoch:
            raise InvalidProducerEpochError(
                f"epoch {batch.producer_epoch} of producer {self.producer_id} is below the last known {self.epoch}"
            )
        if batch.producer_epoch != self.epoch:
            if batch.base_sequence != 0 and self.epoch != _NO_EPOCH:
                raise OutOfOrderSequenceNumberError(
                    f"producer {self.producer_id} begins its new epoch {batch.producer_epoch} with sequence"
                    f" {batch.base_sequence} instead of 0"
                )
        elif self.batches:
            last = self.batches[-1].last_sequence
            if batch.base_sequence != (last + 1) & 0x7FFFFFFF:
                raise OutOfOrderSequenceNumberError(
                    f"producer {self.producer_id} sent sequence {batch.base_sequence} after {last}"
                )

    def add(self, batch: BatchInfo) -> None:
        """Remember a batch that was stored."""
        if batch.producer_epoch != self.epoch:
            self.epoch = batch.producer_epoch
            self.batches.clear()
        self.batches.append(
            BatchMetadata(batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp)
        )
        self.last_timestamp = batch.max_timestamp


class ProducerState:
    """The producers of one partition, from the batches before ``next_offset``."""

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self.next_offset = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def check(self, batches: Iterable[BatchInfo]) -> BatchMetadata | None:
        """Check batches that a client wants to append.

        Returns:
            what is known of the original if one of them is a duplicate, else None: they may be appended.

        Raises:
            InvalidProducerEpochError, OutOfOrderSequenceNumberError: see the rules of this module.
        """
        trial: dict[int, ProducerEntry] = {}
        several = not isinstance(batches, list) or len(batches) > 1
        for batch in batches:
            if batch.producer_id < 0:
                continue
            entry = trial.get(batch.producer_id) or self._entries.get(batch.producer_id)
            if entry is None:
                continue
            duplicate = entry.duplicate(batch)
            if duplicate is not None:
                return duplicate
            entry.check(batch)
            if several:  # the next batch of the same request must follow this one
                copy = ProducerEntry(entry.producer_id, entry.epoch)
                copy.batches.extend(entry.batches)
                copy.add(batch)
                trial[batch.producer_id] = copy
        return None

    def add(self, batches: Iterable[BatchInfo]) -> None:
        """Take in batches that were stored, or that are found in the log."""
        for batch in batches:
            if batch.producer_id >= 0 and not batch.is_control:
                entry = self._entries.get(batch.producer_id)
                if entry is None:
                    entry = self._entries[batch.producer_id] = ProducerEntry(batch.producer_id, batch.producer_epoch)
                entry.add(batch)
            self.next_offset = batch.last_offset + 1

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self.next_offset = 0

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that have been idle for longer than ``producer.id.expiration.ms``."""
        limit = now_ms - expiration_ms
        idle = [
            entry.producer_id for entry in self if entry.last_timestamp < limit and entry.current_txn_first_offset < 0
        ]
        for producer_id in idle:
            del self._entries[producer_id]

    # --- snapshots

    def snapshot(self) -> bytes:
        """The state in Kafka's snapshot format."""
        body = bytearray()
        for entry in self:
            last = entry.batches[-1] if entry.batches else BatchMetadata(-1, -1, 0, entry.last_timestamp)
            body += _ENTRY.pack(
                entry.producer_id,
                entry.epoch,
                last.last_sequence,
                last.last_offset,
                last.offset_delta,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.current_txn_first_offset,
            )
        counted = len(self).to_bytes(4, "big") + body
        return _SNAPSHOT_VERSION.to_bytes(2, "big") + crc32c(counted).to_bytes(4, "big") + counted

    def load(self, content: bytes, next_offset: int) -> None:
        """Replace the state by a snapshot.

        Raises:
            ValueError: it is damaged or of a version that is not known.
        """
        if len(content) < _HEADER.size:
            raise ValueError("a producer snapshot is cut off")
        version, crc, count = _HEADER.unpack_from(content)
        if version != _SNAPSHOT_VERSION:
            raise ValueError(f"producer snapshots of version {version} are not known")
        if crc32c(memoryview(content)[6:]) != crc:
            raise ValueError("the checksum of a producer snapshot is wrong")
        if len(content) != _HEADER.size + count * _ENTRY.size:
            raise ValueError("a producer snapshot has a wrong length")
        self.clear()
        for fields in _ENTRY.iter_unpack(content[_HEADER.size :]):
            producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, txn_offset = fields
            entry = ProducerEntry(producer_id, epoch)
            entry.last_timestamp = timestamp
            entry.coordinator_epoch = coordinator_epoch
            entry.current_txn_first_offset = txn_offset
            if last_sequence >= 0:
                entry.batches.append(BatchMetadata(last_sequence, last_offset, delta, timestamp))
            self._entries[producer_id] = entry
        self.next_offset = next_offset

    def refill(self, batches: Iterable[BatchInfo]) -> None:
        """Find the batches before each producer's last one again, in the tail of the log that the state describes."""
        found: dict[int, deque[BatchMetadata]] = {}
        for batch in batches:
            entry = self._entries.get(batch.producer_id)
            if entry is None or batch.producer_epoch != entry.epoch:
                continue
            history = found.setdefault(batch.producer_id, deque(maxlen=REMEMBERED))
            history.append(
                BatchMetadata(batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp)
            )
        for producer_id, history in found.items():
            entry = self._entries[producer_id]
            if entry.batches and history[-1].last_offset == entry.batches[-1].last_offset:
                entry.batches = history


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
