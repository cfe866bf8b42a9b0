"""The state machine of one transactional id: its state and the legal transitions.

A :class:`TransactionMetadata` is owned by the state manager. Rules:

1. A transition is prepared and written to ``__transaction_state``. It takes effect when all in-sync replicas have the
   record. In between it is pending, and no other transition may be prepared.
2. A state may only follow those of :data:`PREDECESSORS`.
3. Fencing is the exception: PREPARE_EPOCH_FENCE is never written. The abort of the open transaction, whose record has
   the raised epoch, replaces it at once. If that record cannot be written, the next attempt does not raise the epoch
   again.
4. Under transaction version 2, every end of a transaction raises the epoch. A client never gets the last epoch of a
   producer id: it gets a new producer id with epoch 0 when the transaction is complete.

5. Requests that add partitions wait while a transition is pending or markers are written, and get their turns in order.
   The first one also adds the partitions of those waiting behind it, in one record instead of one for each.

Names are those of Java's ``TransactionMetadata``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple

from pyconsumer.errors import IllegalStateError, ProducerFencedError
from pyconsumer.structs import TopicPartition

__all__ = [
    "IDLE_STATES",
    "MAX_EPOCH",
    "NO_EPOCH",
    "NO_PRODUCER_ID",
    "PREDECESSORS",
    "PREPARED_STATES",
    "TV_2",
    "TransactionMetadata",
    "TransactionRecord",
    "TransactionState",
    "Waiter",
]

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
#: The last epoch of a producer id. Clients only get lower ones, so that the coordinator can always fence them.
MAX_EPOCH: Final = 2**15 - 1
#: Transaction version 2 (KIP-890): producing adds partitions to a transaction, and every end of one raises the epoch.
TV_2: Final = 2


class TransactionState(IntEnum):
    """The state of a transactional id. The values are those in ``__transaction_state``."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name of the state in requests and tools, such as ``CompleteCommit``."""
        return "".join(word.capitalize() for word in self.name.split("_"))


_S = TransactionState
#: The states without a transaction.
IDLE_STATES: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
#: The states in which the outcome is decided, and the markers are being written.
PREPARED_STATES: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})

#: The states that each state may follow.
PREDECESSORS: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    _S.EMPTY: IDLE_STATES,
    _S.ONGOING: IDLE_STATES | {_S.ONGOING},
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    _S.PREPARE_ABORT: IDLE_STATES | {_S.ONGOING, _S.PREPARE_EPOCH_FENCE},
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
    _S.DEAD: IDLE_STATES,
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.ONGOING}),
}


def is_exhausted(epoch: int) -> bool:
    """Return whether no client may get a greater epoch than this one, because the numbers are used up."""
    return epoch >= MAX_EPOCH - 1


class TransactionRecord(NamedTuple):
    """The state of a transactional id in the form for the log. Times are in ms since 1970.

    Attributes:
        producer_id, producer_epoch: the producer of the id.
        last_producer_epoch: the previous epoch, or -1. It is not written to the log, so a new coordinator does not know
            it.
        previous_producer_id: the producer id before the last transition.
        next_producer_id: the producer id after the transaction is complete. -1 if it stays the same.
        timeout_ms: the transaction timeout.
        partitions: the partitions of the transaction. In a prepared state, only those without an end marker.
        start_ms: the time when the transaction began, or -1 if there is none.
        last_update_ms: the time when this state was prepared.
        client_version: the transaction version of the client that caused the transition.
    """

    producer_id: int
    producer_epoch: int = NO_EPOCH
    last_producer_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    last_update_ms: int = -1
    client_version: int = 0


class Waiter(NamedTuple):
    """A request that waits until it may add partitions.

    Attributes:
        resume: called once, when it is the request's turn, or when the id is no longer served.
    """

    producer: tuple[int, int]
    partitions: frozenset[TopicPartition]
    resume: Callable[[], None]


class TransactionMetadata:
    """One transactional id, in the memory of its coordinator.

    Attributes:
        record: the present state.
        pending_state: the state of a transition that is being written to the log, or None.
        has_failed_fence: True if the abort with the raised epoch could not be written (rule 3).
        waiters: requests that wait until the id is settled, in the order in which they arrived (rule 5).
    """

    __slots__ = ("has_failed_fence", "pending_state", "record", "transactional_id", "waiters")

    def __init__(self, transactional_id: str, record: TransactionRecord) -> None:
        self.transactional_id = transactional_id
        self.record = record
        self.pending_state: TransactionState | None = None
        self.has_failed_fence = False
        self.waiters: dict[Waiter, None] = {}

    def __repr__(self) -> str:
        return f"TransactionMetadata({self.transactional_id!r}, {self.record}, pending {self.pending_state})"

    @property
    def state(self) -> TransactionState:
        return self.record.state

    @property
    def is_settled(self) -> bool:
        """Return whether no transition is pending and no transaction waits for its markers."""
        return self.pending_state is None and self.state not in PREPARED_STATES

    def wake(self, *, all_waiters: bool = False) -> None:
        """Resume the waiting requests one by one, until one of them begins a transition.

        Args:
            all_waiters: True resumes all requests, because the id is no longer served.
        """
        while self.waiters and (all_waiters or self.is_settled):
            waiter = next(iter(self.waiters))
            del self.waiters[waiter]
            waiter.resume()

    # --- preparing transitions

    def _prepare(self, record: TransactionRecord) -> TransactionRecord:
        if self.pending_state is not None:
            raise IllegalStateError(f"{self!r} cannot move to {record.state.name} while a transition is pending")
        if self.state not in PREDECESSORS[record.state]:
            raise IllegalStateError(f"{self!r} cannot move to {record.state.name}")
        self.pending_state = record.state
        return record._replace(previous_producer_id=self.record.producer_id)

    def prepare_increment_epoch(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> TransactionRecord:
        """Raise the epoch for InitProducerId. If the client repeats its request, keep the epoch (KIP-360).

        Args:
            expected_epoch: the client's epoch, or None if it has none.

        Raises:
            ProducerFencedError: the client's epoch is neither the present nor the previous one.
        """
        known = self.record
        epoch, last = known.producer_epoch + 1, NO_EPOCH
        if expected_epoch is not None:
            if expected_epoch == known.producer_epoch or known.producer_epoch == NO_EPOCH:
                last = known.producer_epoch
            elif expected_epoch == known.last_producer_epoch:
                epoch, last = known.producer_epoch, known.last_producer_epoch
            else:
                raise ProducerFencedError(
                    f"the producer with transactional id {self.transactional_id!r} has epoch {expected_epoch}, but"
                    f" {known.producer_epoch} is the latest"
                )
        return self._restart(known.producer_id, epoch, last, timeout_ms, now_ms)

    def prepare_new_producer_id(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, keep_last_epoch: bool
    ) -> TransactionRecord:
        """Change the producer id for InitProducerId, because its epochs are used up. The epoch becomes 0."""
        last = self.record.producer_epoch if keep_last_epoch else NO_EPOCH
        return self._restart(producer_id, 0, last, timeout_ms, now_ms)

    def _restart(self, producer_id: int, epoch: int, last: int, timeout_ms: int, now_ms: int) -> TransactionRecord:
        return self._prepare(
            self.record._replace(
                producer_id=producer_id,
                producer_epoch=epoch,
                last_producer_epoch=last,
                timeout_ms=timeout_ms,
                state=TransactionState.EMPTY,
                partitions=frozenset(),
                start_ms=-1,
                last_update_ms=now_ms,
            )
        )

    def prepare_fence(self) -> int:
        """Start to fence the producer of the open transaction. Return the raised epoch (rule 3)."""
        self._prepare(self.record._replace(state=TransactionState.PREPARE_EPOCH_FENCE))
        return self.record.producer_epoch if self.has_failed_fence else self.record.producer_epoch + 1

    def prepare_add_partitions(
        self, partitions: frozenset[TopicPartition], now_ms: int, client_version: int
    ) -> TransactionRecord:
        """Start a transaction with these partitions, or add them to the open transaction (rule 5)."""
        known = self.record
        producer = known.producer_id, known.producer_epoch
        partitions = partitions.union(*(one.partitions for one in self.waiters if one.producer == producer))
        return self._prepare(
            known._replace(
                state=TransactionState.ONGOING,
                partitions=known.partitions | partitions,
                start_ms=now_ms if known.state in IDLE_STATES else known.start_ms,
                last_update_ms=now_ms,
                client_version=client_version,
            )
        )

    def prepare_end(
        self, state: TransactionState, client_version: int, next_producer_id: int, now_ms: int, *, is_empty: bool
    ) -> TransactionRecord:
        """Start to commit or abort.

        Args:
            state: the next state, PREPARE_COMMIT or PREPARE_ABORT.
            client_version: the client's transaction version. From version 2 on the epoch is raised (rule 4).
            next_producer_id: the producer id after the transaction is complete. -1 if it stays the same.
            is_empty: True if there is no open transaction. An abort in version 2 then only raises the epoch.
        """
        known = self.record
        epoch, last = known.producer_epoch, known.last_producer_epoch
        if client_version >= TV_2 and epoch < MAX_EPOCH:
            epoch, last = epoch + 1, epoch
        return self._prepare(
            known._replace(
                producer_epoch=epoch,
                last_producer_epoch=last,
                next_producer_id=next_producer_id,
                state=state,
                start_ms=now_ms if is_empty else known.start_ms,
                last_update_ms=now_ms,
                client_version=client_version,
            )
        )

    def prepare_fenced_abort(self, fenced_epoch: int, client_version: int, now_ms: int) -> TransactionRecord:
        """Start to abort the open transaction of a producer that is being fenced. See :meth:`prepare_fence`."""
        self.pending_state = None
        self.record = self.record._replace(producer_epoch=fenced_epoch, last_producer_epoch=NO_EPOCH)
        return self.prepare_end(TransactionState.PREPARE_ABORT, client_version, NO_PRODUCER_ID, now_ms, is_empty=False)

    def prepare_complete(self, now_ms: int) -> TransactionRecord:
        """Start to complete a transaction whose markers were written."""
        self.has_failed_fence = False
        known = self.record
        committed = known.state is TransactionState.PREPARE_COMMIT
        record = known._replace(
            state=TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            last_update_ms=now_ms,
        )
        if known.client_version >= TV_2 and known.next_producer_id != NO_PRODUCER_ID:
            record = record._replace(producer_id=known.next_producer_id, producer_epoch=0)
        return self._prepare(record)

    def prepare_dead(self) -> None:
        """Start to remove the id, because it has expired."""
        self._prepare(self.record._replace(state=TransactionState.DEAD))

    # --- ending transitions

    def complete(self, record: TransactionRecord) -> None:
        """Complete a transition whose record was written.

        Raises:
            IllegalStateError: another transition is pending, or no transition is pending.
        """
        if self.pending_state is not record.state:
            raise IllegalStateError(f"{self!r} cannot complete a transition to {record.state.name}")
        self.record = record
        self.pending_state = None

    def cancel(self) -> None:
        """Cancel the pending transition, because its record could not be written."""
        self.pending_state = None

    def cancel_fence(self) -> None:
        """Record that the abort for fencing a producer could not be written (rule 3)."""
        self.has_failed_fence = True

    def marker_written(self, partition: TopicPartition) -> None:
        """Record that a partition has the transaction's end marker."""
        self.record = self.record._replace(partitions=self.record.partitions - {partition})
