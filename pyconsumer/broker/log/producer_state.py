"""Producers of a log: rejects duplicate and out-of-order batches, and tracks transactions (KIP-98).

Rules, per producer id and partition:

1. A batch with an epoch below the known one is rejected: INVALID_PRODUCER_EPOCH.
2. A batch of the known epoch whose first and last sequence equal those of one of the last five batches is a duplicate.
   It is not stored, and the response has the offset and timestamp of the original.
3. A batch of a new epoch must begin with sequence 0.
4. Otherwise the first sequence of a batch must follow the last one (0 follows 2147483647). Any other is rejected:
   OUT_OF_ORDER_SEQUENCE_NUMBER.
5. From an unknown producer any sequence is accepted, because its state may have expired (KIP-360). But the first batch
   of a producer that adds partitions by producing (transaction version 2) must begin with sequence 0 (KIP-890).
6. The first transactional batch opens a transaction, and its end marker ends it. In between, the producer's batches
   outside the transaction are rejected: INVALID_TXN_STATE. A transaction may only be opened with a verification guard,
   which is created before the coordinator is asked whether the partition belongs to the transaction. A marker
   invalidates it (KIP-890).
7. An end marker with an older producer epoch is rejected: INVALID_PRODUCER_EPOCH. Under transaction version 2 so is one
   with the same epoch while the transaction is open (KIP-1228). One with an older coordinator epoch is rejected:
   TRANSACTION_COORDINATOR_FENCED.
8. The first offset of a transaction is unstable until its end marker is below the high watermark.

Batches that the group coordinator writes have no sequences: only rule 1 is checked for them, and they open transactions
like others. Batches that are replicated, or read from the log, are added without checks.

The state is owned by its log and derived from the batches. It is written as a snapshot when a segment begins, after
every 16 MiB or so, and when the log is closed. It is rebuilt from the last snapshot and the batches after it, see
:mod:`.replay`. Snapshots have Kafka's format and contain the last batch of each producer. The four before it are read
from the tail of the log when a producer sends a batch that does not follow its last one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from pyconsumer.background_log import Log
from pyconsumer.broker.log.storage import Storage, segment_name
from pyconsumer.broker.log.transaction_index import AbortedTransaction
from pyconsumer.errors import (
    CorruptRecordError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceNumberError,
    TransactionCoordinatorFencedError,
)
from pyconsumer.protocol.records import ControlRecordType, EndTransactionMarker
from pyconsumer.protocol.records.batch import BatchInfo
from pyconsumer.protocol.records.crc import crc32c
from pyconsumer.protocol.records.log_scan import ScannedBatch, ScannedProducer

__all__ = [
    "BatchMetadata",
    "ProducerEntry",
    "ProducerState",
    "VerificationGuard",
    "newest_snapshot",
    "remove_snapshots",
    "snapshot_offsets",
]

_log = Log(__name__)

#: The number of batches of a producer that are kept: as many as it may have in flight.
_KEPT_BATCHES: Final = 5

_NO_EPOCH: Final = -1
_SNAPSHOT_VERSION: Final = 1
_HEADER: Final = Struct(">hIi")
_ENTRY: Final = Struct(">qhiqiqiq")


class BatchMetadata(NamedTuple):
    """A stored batch of a producer: its last sequence number, its last offset, and its timestamp in ms.

    ``offset_delta`` is the last offset minus the first offset.
    """

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
    """The permission to open a transaction in a partition. It is valid as long as the partition keeps it (rule 6).

    Args:
        lowest_sequence: the lowest sequence number of the batches that are being verified.
        is_strict: True if the producer's first sequence number must be 0 (rule 5).
    """

    epoch: int
    lowest_sequence: int
    timestamp_ms: int
    is_strict: bool

    def lower(self, sequence: int) -> None:
        """Record another batch that is being verified."""
        self.lowest_sequence = min(self.lowest_sequence, sequence)


class ProducerEntry:
    """The state of one producer id.

    Attributes:
        batches: the last five batches of the producer in its present epoch, the oldest first.
        last_timestamp: timestamp of the last batch or marker, in ms.
        coordinator_epoch: coordinator epoch of the last end marker.
        current_txn_first_offset: the first offset of the open transaction, or -1.
    """

    __slots__ = ("batches", "coordinator_epoch", "current_txn_first_offset", "epoch", "last_timestamp", "producer_id")

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: deque[BatchMetadata] = deque(maxlen=_KEPT_BATCHES)
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.current_txn_first_offset = -1

    def duplicate(self, batch: BatchInfo) -> BatchMetadata | None:
        """If this batch is a duplicate, return the original batch. Otherwise return None (rule 2)."""
        if batch.producer_epoch != self.epoch:
            return None
        for stored in self.batches:
            if stored.last_sequence == batch.last_sequence and stored.first_sequence == batch.base_sequence:
                return stored
        return None

    def check_epoch(self, epoch: int) -> None:
        """Raise ``InvalidProducerEpochError`` if the epoch is older than the producer's (rule 1)."""
        if epoch < self.epoch:
            raise InvalidProducerEpochError(
                f"producer {self.producer_id} used epoch {epoch}, but its latest epoch is {self.epoch}"
            )

    def check(self, batch: BatchInfo) -> None:
        """Raise an error if the batch has an invalid epoch or sequence number (rules 1, 3 and 4)."""
        self.check_epoch(batch.producer_epoch)
        if batch.producer_epoch != self.epoch:
            if batch.base_sequence != 0 and self.epoch != _NO_EPOCH:
                raise OutOfOrderSequenceNumberError(
                    f"producer {self.producer_id} began its new epoch {batch.producer_epoch} with sequence"
                    f" {batch.base_sequence} instead of 0"
                )
        elif self.batches:
            last = self.batches[-1].last_sequence
            if batch.base_sequence != (last + 1) & 0x7FFFFFFF:
                raise OutOfOrderSequenceNumberError(
                    f"producer {self.producer_id} sent sequence {batch.base_sequence} after {last}"
                )

    def add(self, batch: BatchInfo) -> None:
        """Add a batch that was stored."""
        if batch.producer_epoch != self.epoch:
            self.epoch = batch.producer_epoch
            self.batches.clear()
        self.batches.append(
            BatchMetadata(batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp)
        )
        self.last_timestamp = batch.max_timestamp

    def begin_transaction(self, offset: int) -> None:
        """Record that a transaction of the producer begins at ``offset``."""
        self.current_txn_first_offset = offset

    def check_marker(self, epoch: int, coordinator_epoch: int, transaction_version: int) -> None:
        """Raise an error if an end marker has invalid epochs (rule 7)."""
        is_open = self.current_txn_first_offset >= 0
        if epoch < self.epoch or (transaction_version >= 2 and epoch == self.epoch and is_open):
            raise InvalidProducerEpochError(
                f"the marker for producer {self.producer_id} has epoch {epoch}, but its latest epoch is {self.epoch}"
            )
        if coordinator_epoch < self.coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"the marker for producer {self.producer_id} has coordinator epoch {coordinator_epoch}, but the latest "
                f"is {self.coordinator_epoch}"
            )

    def end_transaction(self, batch: BatchInfo, coordinator_epoch: int) -> int:
        """Apply an end marker. Return the first offset of the transaction that it ends, or -1 if none was open."""
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
        """Create an entry with the fields of a snapshot. It has no batches."""
        entry = cls(producer_id, epoch)
        entry._restore(timestamp, coordinator_epoch, txn_first_offset)
        return entry

    def _restore(self, timestamp: int, coordinator_epoch: int, txn_first_offset: int) -> None:
        self.last_timestamp = timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = txn_first_offset

    def follows(self, batch: BatchInfo) -> bool:
        """Return whether the batch continues the sequence, or has another epoch."""
        last = self.batches[-1].last_sequence if self.batches else -1
        return batch.producer_epoch != self.epoch or batch.base_sequence == (last + 1) & 0x7FFFFFFF

    def extend(self, batches: Iterable[ScannedBatch]) -> None:
        """Add batches that were read from the log or a snapshot."""
        self.batches.extend(BatchMetadata(*batch) for batch in batches)

    def refill(self, history: Sequence[ScannedBatch]) -> None:
        """Add older batches, which a snapshot does not contain.

        They are added if ``history`` ends with the oldest known batch.
        """
        if self.batches and history and history[-1][1] == self.batches[0].last_offset:
            known = list(self.batches)[1:]
            self.batches.clear()
            self.extend([*history, *known])


#: Returns the end marker of a control batch, or None for another control batch, or one that compaction has emptied.
MarkerReader = Callable[[BatchInfo], EndTransactionMarker | None]


class ProducerState:
    """The producers of one partition, according to the batches before ``next_offset``."""

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self._guards: dict[int, VerificationGuard] = {}
        #: Producers with an open transaction, by its first offset, in the order of offsets.
        self._open: dict[int, int] = {}
        #: First offset -> offset of the marker, of transactions whose marker is not yet below the high watermark.
        self._unreplicated: dict[int, int] = {}
        #: Reads the tail of the log before the snapshot that the state was loaded from. None if that is not needed.
        self._read_tail: Callable[[], list[ScannedProducer]] | None = None
        self.next_offset = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def set_next_offset(self, offset: int) -> None:
        """Record that the state covers the log up to ``offset``."""
        self.next_offset = offset

    # --- transactions

    @property
    def first_unstable_offset(self) -> int:
        """Return the first offset of a transaction that is open, or whose marker is at or after the high watermark.

        If there is none, return -1.
        """
        first = next(iter(self._open), -1)
        if self._unreplicated:
            oldest = min(self._unreplicated)
            return oldest if first < 0 else min(first, oldest)
        return first

    def on_high_watermark(self, offset: int) -> bool:
        """Remove transactions whose markers are below the high watermark. Return whether there were any (rule 8)."""
        if not self._unreplicated:
            return False
        replicated = [first for first, last in self._unreplicated.items() if last < offset]
        for first in replicated:
            del self._unreplicated[first]
        return bool(replicated)

    def is_open(self, producer_id: int, epoch: int = -1) -> bool:
        """Return whether the producer has an open transaction. If ``epoch`` is given, it must have this epoch."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.current_txn_first_offset >= 0 and epoch in (-1, entry.epoch)

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, is_strict: bool
    ) -> VerificationGuard:
        """Return the guard that allows the producer to open a transaction after verification (rule 6).

        Args:
            sequence: the first sequence number of the batch to verify.
            now_ms: the present time in ms, for the guard's expiry.
            is_strict: see :class:`VerificationGuard`.
        """
        guard = self._guards.get(producer_id)
        if guard is None or guard.epoch < epoch:
            guard = VerificationGuard(epoch, sequence, now_ms, is_strict)
            self._guards[producer_id] = guard
        else:
            guard.lower(sequence)
        return guard

    def is_verified(self, producer_id: int, guard: VerificationGuard | None) -> bool:
        """Return whether the guard is valid."""
        return guard is not None and self._guards.get(producer_id) is guard

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int) -> None:
        """Raise ``InvalidProducerEpochError`` or ``TransactionCoordinatorFencedError`` if an epoch is old (rule 7)."""
        entry = self._entries.get(producer_id)
        if entry is not None:
            entry.check_marker(epoch, coordinator_epoch, transaction_version)

    # --- batches

    def check_epochs(self, batches: Iterable[BatchInfo]) -> None:
        """Check batches of the group coordinator. Raises ``InvalidProducerEpochError`` if a producer's epoch is old."""
        for batch in batches:
            entry = self._entries.get(batch.producer_id)
            if entry is not None and batch.producer_id >= 0:
                entry.check_epoch(batch.producer_epoch)

    def check(
        self, batches: Iterable[BatchInfo], guard: VerificationGuard | None = None, *, verify: bool = False
    ) -> BatchMetadata | None:
        """Check a client's batches before they are appended.

        Args:
            guard: the guard that :meth:`begin_verification` returned for these batches, or None.
            verify: True allows a transaction to be opened only with a valid guard.

        Returns:
            None if the batches may be appended. If a batch is a duplicate, the original batch.

        Raises:
            InvalidProducerEpochError: the epoch is old (rule 1).
            OutOfOrderSequenceNumberError: a batch is missing before this one (rules 3 to 5).
            InvalidTxnStateError: the batch does not belong to the producer's transaction (rule 6).
        """
        checked: dict[int, ProducerEntry] = {}
        several = not isinstance(batches, list) or len(batches) > 1
        for batch in batches:
            if batch.producer_id < 0:
                continue
            entry = checked.get(batch.producer_id) or self._entries.get(batch.producer_id)
            if entry is not None:
                original = entry.duplicate(batch)
                if original is None and self._read_tail is not None and not entry.follows(batch):
                    self._refill()
                    original = entry.duplicate(batch)
                if original is not None:
                    return original
            if batch.is_transactional and verify:
                self._check_verified(batch, entry, guard)
            if entry is None:
                if batch.producer_epoch < _NO_EPOCH:
                    raise InvalidProducerEpochError(
                        f"producer {batch.producer_id} used the impossible epoch {batch.producer_epoch}"
                    )
                continue
            entry.check(batch)
            if not batch.is_transactional and entry.current_txn_first_offset >= 0:
                raise InvalidTxnStateError(
                    f"producer {batch.producer_id} sent a batch that is not part of its open transaction"
                )
            if several:  # the next batch must follow this one
                copy = ProducerEntry(entry.producer_id, entry.epoch)
                copy.batches.extend(entry.batches)
                copy.add(batch)
                checked[batch.producer_id] = copy
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
                f"producer {batch.producer_id} began its transaction in this partition with sequence "
                f"{batch.base_sequence} instead of {expected}"
            )

    def add(self, batches: Iterable[BatchInfo], read_marker: MarkerReader | None = None) -> list[AbortedTransaction]:
        """Add batches that were stored, or that were read from the log.

        Args:
            read_marker: a function that reads end markers. None if there are no control batches.

        Returns:
            The transactions that are aborted by markers among the batches.
        """
        aborted: list[AbortedTransaction] = []
        for batch in batches:
            if batch.producer_id >= 0:
                if not batch.is_control:
                    self._add_data(batch)
                elif read_marker is not None:
                    marker = read_marker(batch)
                    if marker is not None:
                        aborted += self._end_transaction(batch, marker)
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

    def _end_transaction(self, batch: BatchInfo, marker: EndTransactionMarker) -> list[AbortedTransaction]:
        """Apply an end marker. Return the transaction if it was aborted."""
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
        """Remove all producers."""
        self._entries.clear()
        self._guards.clear()
        self._open.clear()
        self._unreplicated.clear()
        self._read_tail = None
        self.next_offset = 0

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Remove guards, and producers without a transaction, if they are older than ``producer.id.expiration.ms``."""
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
        """Return the state in Kafka's snapshot format."""
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
        """Replace the state with that of a snapshot.

        Raises:
            ValueError: the snapshot is damaged, or has an unknown version.
        """
        if len(content) < _HEADER.size:
            raise ValueError("it is shorter than its header")
        version, crc, count = _HEADER.unpack_from(content)
        if version != _SNAPSHOT_VERSION:
            raise ValueError(f"its version {version} is unknown")
        if crc32c(memoryview(content)[6:]) != crc:
            raise ValueError("its checksum is wrong")
        if len(content) != _HEADER.size + count * _ENTRY.size:
            raise ValueError("its length is wrong")
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

    # --- batches that were read from the log

    def scanned(self) -> list[ScannedProducer]:
        """Return all producers for a :class:`LogScan`, in the order of their open transactions."""
        found: list[ScannedProducer] = [
            (
                entry.producer_id,
                entry.epoch,
                entry.coordinator_epoch,
                entry.last_timestamp,
                entry.current_txn_first_offset,
                list(entry.batches),
            )
            for entry in self
        ]
        found.sort(key=_first_offset)
        return found

    def become(self, producers: Iterable[ScannedProducer], ended: Mapping[int, int], next_offset: int) -> None:
        """Replace the state by the result of a scan of the log.

        Args:
            ended: the ended transactions: the offset of the marker by the first offset.
        """
        self._entries.clear()
        self._guards.clear()
        opened = []
        for producer_id, epoch, coordinator_epoch, timestamp, txn_offset, batches in producers:
            entry = ProducerEntry.restored(producer_id, epoch, timestamp, coordinator_epoch, txn_offset)
            entry.extend(batches)
            self._entries[producer_id] = entry
            if txn_offset >= 0:
                opened.append((txn_offset, producer_id))
        self._open = dict(sorted(opened))
        self._unreplicated = dict(ended)
        self.next_offset = next_offset

    def refill_later(self, read_tail: Callable[[], list[ScannedProducer]]) -> None:
        """Read the batches that a snapshot lacks from the tail of the log, but only when they are needed.

        Args:
            read_tail: returns the producers in the tail of the log, before the snapshot.
        """
        self._read_tail = read_tail

    def _refill(self) -> None:
        read_tail, self._read_tail = self._read_tail, None
        try:
            tail = read_tail() if read_tail is not None else []
        except (OSError, CorruptRecordError) as error:
            _log.warning("earlier batches of producers could not be read: %s", error)
            return
        for producer_id, epoch, _, _, _, batches in tail:
            entry = self._entries.get(producer_id)
            if entry is not None and entry.epoch == epoch:
                entry.refill(batches)


def _first_offset(producer: ScannedProducer) -> int:
    return producer[4]


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """Return the offsets of all snapshots in a list of file names, in order."""
    return sorted(int(name[:20]) for name in names if name.endswith(".snapshot") and name[:20].isdigit())


def remove_snapshots(storage: Storage, offsets: Iterable[int], end: int) -> None:
    """Remove the snapshots with offsets after ``end``."""
    for offset in offsets:
        if offset > end:
            storage.remove(segment_name(offset, "snapshot"))


def newest_snapshot(storage: Storage, offsets: Sequence[int], limit: int) -> ProducerState:
    """Return the state in the newest undamaged snapshot whose offset is at most ``limit``.

    If there is none, return an empty state.
    """
    state = ProducerState()
    for offset in reversed(offsets):
        if offset > limit:
            continue
        try:
            state.load(storage.read_small(segment_name(offset, "snapshot")) or b"", offset)
            break
        except ValueError as error:
            _log.warning("the producer snapshot at offset %d is ignored: %s", offset, error)
            storage.remove(segment_name(offset, "snapshot"))
            state.clear()
    return state
