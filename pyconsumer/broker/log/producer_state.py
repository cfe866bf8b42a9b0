"""The state of producers in a log: a batch that is sent twice is stored once, and open transactions are known (KIP-98).

Rules, per producer id and partition:

1. A batch with an epoch below the known one is refused: INVALID_PRODUCER_EPOCH.
2. A batch of the known epoch whose first and last sequence equal those of one of the last five batches is a duplicate:
   it is not stored, and is answered with the offset and timestamp of the original.
3. A batch of a new epoch must begin with sequence 0.
4. Else its first sequence must follow the last one (after 2147483647 comes 0). Anything else is refused:
   OUT_OF_ORDER_SEQUENCE_NUMBER.
5. From an unknown producer any sequence is accepted: its state may have expired (KIP-360). But the first batch of a
   producer that adds partitions by producing (transaction version 2) begins with sequence 0 (KIP-890).
6. The first transactional batch opens a transaction, and its end marker closes it. In between other batches of the
   producer are refused: INVALID_TXN_STATE. A transaction may only be opened with the guard that was given out before
   the coordinator was asked whether the partition belongs to the transaction; a marker makes it invalid (KIP-890).
7. An end marker of an older producer epoch is refused: INVALID_PRODUCER_EPOCH; under transaction version 2 one of the
   same epoch as well, unless the transaction is over (KIP-1228). One of an older coordinator epoch is refused:
   TRANSACTION_COORDINATOR_FENCED.
8. A transaction makes its first offset unstable until its end marker is below the high watermark.

Batches that the group coordinator writes have no sequences: of them only rules 1 and 6 hold. What is replicated, or
found in the log, is taken over as it is.

The state is derived from the log: it is written as a snapshot when a segment begins and when the log is closed, and
rebuilt from the batches after the last snapshot. Snapshots have Kafka's format and hold the last batch of each
producer; the four before it are found again in the log's tail.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from pyconsumer.broker.log.segment import Segment
from pyconsumer.broker.log.storage import Storage, segment_name
from pyconsumer.broker.log.transaction_index import AbortedTransaction
from pyconsumer.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceNumberError,
    TransactionCoordinatorFencedError,
)
from pyconsumer.protocol.records import ControlRecordType, EndTransactionMarker
from pyconsumer.protocol.records.batch import BatchInfo
from pyconsumer.protocol.records.crc import crc32c

__all__ = [
    "BatchMetadata",
    "ProducerEntry",
    "ProducerState",
    "VerificationGuard",
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


@dataclass(slots=True, eq=False)
class VerificationGuard:
    """Permission to open a transaction in a partition, which counts as long as the partition remembers it (rule 6).

    Args:
        lowest_sequence: of the batches that wait for it.
        is_strict: the producer's first sequence must be 0 (rule 5).
    """

    epoch: int
    lowest_sequence: int
    timestamp_ms: int
    is_strict: bool

    def lower(self, sequence: int) -> None:
        """Note another batch that waits for the same permission."""
        self.lowest_sequence = min(self.lowest_sequence, sequence)


class ProducerEntry:
    """One producer id: its epoch, its last batches (oldest first) and the time of its last batch, in ms.

    ``current_txn_first_offset``: of its open transaction, -1 without one.
    """

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

    def check_epoch(self, epoch: int) -> None:
        """Raise if the epoch is over (rule 1)."""
        if epoch < self.epoch:
            raise InvalidProducerEpochError(
                f"epoch {epoch} of producer {self.producer_id} is below the last known {self.epoch}"
            )

    def check(self, batch: BatchInfo) -> None:
        """Raise unless the batch may follow."""
        self.check_epoch(batch.producer_epoch)
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

    def begin_transaction(self, offset: int) -> None:
        """Note that its transaction begins with the record at ``offset``."""
        self.current_txn_first_offset = offset

    def check_marker(self, epoch: int, coordinator_epoch: int, transaction_version: int) -> None:
        """Raise unless an end marker may follow (rule 7)."""
        is_open = self.current_txn_first_offset >= 0
        if epoch < self.epoch or (transaction_version >= 2 and epoch == self.epoch and is_open):
            raise InvalidProducerEpochError(
                f"a marker of epoch {epoch} of producer {self.producer_id} came after epoch {self.epoch}"
            )
        if coordinator_epoch < self.coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"a marker of coordinator epoch {coordinator_epoch} came after one of {self.coordinator_epoch}"
            )

    def end_transaction(self, batch: BatchInfo, coordinator_epoch: int) -> int:
        """Take in an end marker; return the first offset of the transaction that it ends, -1 if none was open."""
        if batch.producer_epoch != self.epoch:
            self.epoch = batch.producer_epoch
            self.batches.clear()
        first_offset, self.current_txn_first_offset = self.current_txn_first_offset, -1
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = batch.max_timestamp
        return first_offset

    @classmethod
    def restored(
        cls, producer_id: int, epoch: int, timestamp: int, coordinator_epoch: int, txn_first_offset: int
    ) -> ProducerEntry:
        """An entry as a snapshot has it, without its batches."""
        entry = cls(producer_id, epoch)
        entry._restore(timestamp, coordinator_epoch, txn_first_offset)
        return entry

    def _restore(self, timestamp: int, coordinator_epoch: int, txn_first_offset: int) -> None:
        self.last_timestamp = timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = txn_first_offset

    def refill(self, history: deque[BatchMetadata]) -> None:
        """Take the batches before the last one, which a snapshot does not hold, if they end with that one."""
        if self.batches and history[-1].last_offset == self.batches[-1].last_offset:
            self.batches = history


#: Reads the end marker of a control batch; None for another control batch, or one that compaction has emptied.
MarkerReader = Callable[[BatchInfo], EndTransactionMarker | None]


class ProducerState:
    """The producers of one partition, from the batches before ``next_offset``."""

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self._guards: dict[int, VerificationGuard] = {}
        #: Producers with an open transaction, by its first offset, in the order of offsets.
        self._open: dict[int, int] = {}
        #: First offset -> offset of the marker, of transactions that have ended behind the high watermark.
        self._unreplicated: dict[int, int] = {}
        self.next_offset = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def set_next_offset(self, offset: int) -> None:
        """Note that the log ends at ``offset``, which no batch of a producer has changed."""
        self.next_offset = offset

    # --- transactions

    @property
    def first_unstable_offset(self) -> int:
        """The first offset of a transaction that is open or whose end is behind the high watermark; -1 without one."""
        first = next(iter(self._open), -1)
        if self._unreplicated:
            oldest = min(self._unreplicated)
            return oldest if first < 0 else min(first, oldest)
        return first

    def on_high_watermark(self, offset: int) -> bool:
        """Forget transactions whose markers are below the high watermark; return whether there were any (rule 8)."""
        if not self._unreplicated:
            return False
        done = [first for first, last in self._unreplicated.items() if last < offset]
        for first in done:
            del self._unreplicated[first]
        return bool(done)

    def is_open(self, producer_id: int, epoch: int = -1) -> bool:
        """Return whether the producer has an open transaction; ``epoch``: only if it is of this epoch."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.current_txn_first_offset >= 0 and epoch in (-1, entry.epoch)

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, is_strict: bool
    ) -> VerificationGuard:
        """Give out the guard with which the producer may open a transaction, if the coordinator agrees (rule 6)."""
        guard = self._guards.get(producer_id)
        if guard is None or guard.epoch < epoch:
            guard = VerificationGuard(epoch, sequence, now_ms, is_strict)
            self._guards[producer_id] = guard
        else:
            guard.lower(sequence)
        return guard

    def is_verified(self, producer_id: int, guard: VerificationGuard | None) -> bool:
        """Return whether a transaction may be opened with this guard."""
        return guard is not None and self._guards.get(producer_id) is guard

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int) -> None:
        """Raise ``InvalidProducerEpochError`` or ``TransactionCoordinatorFencedError`` by rule 7."""
        entry = self._entries.get(producer_id)
        if entry is not None:
            entry.check_marker(epoch, coordinator_epoch, transaction_version)

    # --- batches

    def check_epochs(self, batches: Iterable[BatchInfo]) -> None:
        """Check batches of the group coordinator: ``InvalidProducerEpochError`` if a producer's epoch is over."""
        for batch in batches:
            entry = self._entries.get(batch.producer_id)
            if entry is not None and batch.producer_id >= 0:
                entry.check_epoch(batch.producer_epoch)

    def check(
        self, batches: Iterable[BatchInfo], guard: VerificationGuard | None = None, *, verify: bool = False
    ) -> BatchMetadata | None:
        """Check batches that a client wants to append.

        Args:
            guard: what :meth:`begin_verification` gave for them; ``verify``: a transaction is not opened without it.

        Returns:
            what is known of the original if one of them is a duplicate, else None: they may be appended.

        Raises:
            InvalidProducerEpochError, OutOfOrderSequenceNumberError, InvalidTxnStateError: see the rules of this
                module.
        """
        trial: dict[int, ProducerEntry] = {}
        several = not isinstance(batches, list) or len(batches) > 1
        for batch in batches:
            if batch.producer_id < 0:
                continue
            entry = trial.get(batch.producer_id) or self._entries.get(batch.producer_id)
            if entry is not None:
                duplicate = entry.duplicate(batch)
                if duplicate is not None:
                    return duplicate
            if batch.is_transactional and verify:
                self._check_verified(batch, entry, guard)
            if entry is None:
                continue
            entry.check(batch)
            if not batch.is_transactional and entry.current_txn_first_offset >= 0:
                raise InvalidTxnStateError(
                    f"producer {batch.producer_id} sent a batch outside its transaction, which is open here"
                )
            if several:  # the next batch of the same request must follow this one
                copy = ProducerEntry(entry.producer_id, entry.epoch)
                copy.batches.extend(entry.batches)
                copy.add(batch)
                trial[batch.producer_id] = copy
        return None

    def _check_verified(self, batch: BatchInfo, entry: ProducerEntry | None, guard: VerificationGuard | None) -> None:
        """Raise unless a transactional batch belongs to an open transaction or may open one (rules 5 and 6)."""
        if entry is not None and entry.current_txn_first_offset >= 0 and entry.epoch == batch.producer_epoch:
            return
        if guard is None or self._guards.get(batch.producer_id) is not guard:
            raise InvalidTxnStateError(f"the batch of producer {batch.producer_id} is not part of an open transaction")
        expected = 0 if guard.is_strict and (entry is None or not entry.batches) else guard.lowest_sequence
        if batch.base_sequence > expected:
            raise OutOfOrderSequenceNumberError(
                f"producer {batch.producer_id} begins its transaction here with sequence {batch.base_sequence} instead"
                f" of {expected}"
            )

    def add(self, batches: Iterable[BatchInfo], read_marker: MarkerReader | None = None) -> list[AbortedTransaction]:
        """Take in batches that were stored, or that are found in the log.

        Args:
            read_marker: None if there are no control batches among them.

        Returns:
            the transactions that were aborted by markers among them.
        """
        aborted: list[AbortedTransaction] = []
        for batch in batches:
            if batch.producer_id >= 0:
                if not batch.is_control:
                    self._add_data(batch)
                elif read_marker is not None:
                    marker = read_marker(batch)
                    if marker is not None:
                        aborted += self._end(batch, marker)
            self.next_offset = batch.last_offset + 1
        return aborted

    def _entry(self, batch: BatchInfo) -> ProducerEntry:
        entry = self._entries.get(batch.producer_id)
        if entry is None:
            entry = self._entries[batch.producer_id] = ProducerEntry(batch.producer_id, batch.producer_epoch)
        return entry

    def _add_data(self, batch: BatchInfo) -> None:
        entry = self._entry(batch)
        entry.add(batch)
        if batch.is_transactional and entry.current_txn_first_offset < 0:
            entry.begin_transaction(batch.base_offset)
            self._open[batch.base_offset] = batch.producer_id
            self._guards.pop(batch.producer_id, None)

    def _end(self, batch: BatchInfo, marker: EndTransactionMarker) -> list[AbortedTransaction]:
        """Take in an end marker; return the transaction if it was aborted."""
        first = self._entry(batch).end_transaction(batch, marker.coordinator_epoch)
        self._guards.pop(batch.producer_id, None)
        if first < 0:
            return []
        self._open.pop(first, None)
        last = batch.last_offset
        self._unreplicated[first] = last
        if marker.type is ControlRecordType.COMMIT:
            return []
        return [AbortedTransaction(batch.producer_id, first, last, next(iter(self._open), last + 1))]

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._guards.clear()
        self._open.clear()
        self._unreplicated.clear()
        self.next_offset = 0

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that have been idle for longer than ``producer.id.expiration.ms``."""
        limit = now_ms - expiration_ms
        idle = [
            entry.producer_id for entry in self if entry.last_timestamp < limit and entry.current_txn_first_offset < 0
        ]
        for producer_id in idle:
            del self._entries[producer_id]
        for producer_id in [one for one, guard in self._guards.items() if guard.timestamp_ms < limit]:
            del self._guards[producer_id]

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
            entry = ProducerEntry.restored(producer_id, epoch, timestamp, coordinator_epoch, txn_offset)
            if last_sequence >= 0:
                entry.batches.append(BatchMetadata(last_sequence, last_offset, delta, timestamp))
            self._entries[producer_id] = entry
        opened = sorted((entry.current_txn_first_offset, entry.producer_id) for entry in self)
        self._open = {offset: producer_id for offset, producer_id in opened if offset >= 0}
        self.next_offset = next_offset

    def refill(self, batches: Iterable[BatchInfo]) -> None:
        """Find the batches before each producer's last one again, in the tail of the log that the state describes."""
        found: dict[int, deque[BatchMetadata]] = {}
        for batch in batches:
            entry = self._entries.get(batch.producer_id)
            if entry is None or batch.producer_epoch != entry.epoch or batch.is_control:
                continue
            history = found.setdefault(batch.producer_id, deque(maxlen=REMEMBERED))
            history.append(
                BatchMetadata(batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp)
            )
        for producer_id, history in found.items():
            self._entries[producer_id].refill(history)

    def reach(self, offset: int) -> None:
        """Record that the state describes the log up to an offset."""
        self.next_offset = offset


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


def load_producers(
    storage: Storage, segments: Sequence[Segment], end: int, *, clean: bool = False, trusted: int | None = None
) -> ProducerState:
    """The newest good snapshot, brought up to the end of the log.

    The transaction indexes of the segments are made again from there on.

    Args:
        end: the log end offset; snapshots behind it are removed.
        clean: the log was closed in good order, so that a snapshot is missing only if there were no producers.
        trusted: snapshots and transaction indexes behind this offset are not used, after a crash.
    """
    state = ProducerState()
    offsets = _snapshots(storage)
    remove_snapshots(storage, end)
    limit = end if trusted is None else min(end, trusted)
    damaged = [segment.base_offset for segment in segments if segment.transaction_index.damaged]
    if damaged:
        _log.warning("transaction indexes of the segments at %s are made again", damaged)
        limit, clean = min(limit, damaged[0]), False
    usable = [offset for offset in offsets if offset <= limit]
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
            segment.transaction_index.truncate(known)
            found = (info for info in segment.headers() if info.last_offset >= known)
            segment.transaction_index.append(state.add(found, segment.end_marker))
    state.reach(end)
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
