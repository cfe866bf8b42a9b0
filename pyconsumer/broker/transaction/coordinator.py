"""The transaction coordinator: what a broker does when a client asks something about a transactional id.

Each method is one request. It checks whether this broker is to answer, and in which state the id is, prepares a move
(:mod:`.metadata`), writes it (:mod:`.state_manager`) and, at the end of a transaction, lets the markers be written
(:mod:`.markers`). No method waits: what takes time is a :class:`Deferred`, which is set exactly once.

Rules and error codes are those of Apache Kafka 4.3 (KIP-98, KIP-360, KIP-664, KIP-890), in whose tables they stand:

1. A move that is being written, or markers that are, make everything else wait: CONCURRENT_TRANSACTIONS.
2. InitProducerId ends what an earlier producer has left open: that one is fenced by a raised epoch, its transaction is
   aborted, and the new one has to ask again.
3. EndTxn is answered as soon as its decision is in the log. The markers come later.
4. Under version 2 an EndTxn with the epoch before the present one repeats one that was carried out: it succeeds, if the
   outcome is the same. An abort without an open transaction raises the epoch.
5. A transaction that has outlived its timeout is aborted, and its producer fenced.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.storage import GroupStorage
from pyconsumer.broker.timer import Timer
from pyconsumer.broker.transaction.config import TransactionConfig
from pyconsumer.broker.transaction.markers import MarkerChannel, MarkerSender
from pyconsumer.broker.transaction.metadata import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
    TransactionRecord,
    TransactionState,
    is_exhausted,
)
from pyconsumer.broker.transaction.state_manager import TransactionStateManager
from pyconsumer.clock import Clock
from pyconsumer.errors import BrokerResponseError, CoordinatorNotAvailableError, Errors
from pyconsumer.structs import TopicPartition

__all__ = ["EndResult", "InitResult", "TransactionCluster", "TransactionCoordinator"]

_log = logging.getLogger(__name__)

_EPOCH_BUMP: Final = 2
_MAX_EPOCH: Final = 2**15 - 1
_PREPARED: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
_IDLE: Final = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


class InitResult(NamedTuple):
    """The answer to InitProducerId."""

    error_code: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


class EndResult(NamedTuple):
    """The answer to EndTxn. Under version 2 the client continues with this id and epoch."""

    error_code: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


class TransactionCluster(MarkerChannel, Protocol):
    """The cluster, as far as a coordinator needs it."""

    @property
    def transaction_version(self) -> int:
        """The finalized feature ``transaction.version``: 0, 1 or 2."""

    def next_producer_id(self) -> int:
        """A producer id that no producer has had. ``OSError`` if the cluster's file cannot be written."""


class TransactionCoordinator:
    """The coordinator of one broker.

    Args:
        storage: the internal topic ``__transaction_state``.
        timer: runs all deadlines; whoever owns it decides when time passes.
        clock: its monotonic time is the timer's, its wall time goes into records.
    """

    def __init__(
        self, config: TransactionConfig, storage: GroupStorage, cluster: TransactionCluster, timer: Timer, clock: Clock
    ) -> None:
        self.config = config
        self._cluster = cluster
        self._timer = timer
        self._clock = clock
        self._manager = TransactionStateManager(config, storage, timer, clock, lambda: cluster.transaction_version)
        self._markers = MarkerSender(self._manager, cluster, timer, clock)
        self._active = False

    # --- life

    def start(self) -> None:
        """Begin to answer, and to look for transactions that have timed out."""
        self._active = True
        self._every(self.config.transaction_abort_timed_out_transaction_cleanup_interval_ms, self.abort_timed_out)
        self._every(self.config.transaction_remove_expired_transaction_cleanup_interval_ms, self._manager.expire)

    def shutdown(self) -> None:
        """Answer no request any more, and send no markers."""
        self._active = False
        self._markers.stop()
        self._manager.shutdown()

    def _every(self, interval_ms: int, action: Callable[[], None]) -> None:
        def run() -> None:
            if self._active:
                try:
                    action()
                except Exception:
                    _log.exception("Periodic work of the transaction coordinator failed")
                self._timer.schedule(self._clock.now() + interval_ms / 1000, run)

        self._timer.schedule(self._clock.now() + interval_ms / 1000, run)

    def on_become_leader(self, partition: int, epoch: int) -> None:
        """This broker leads a partition of ``__transaction_state`` from now on: load its ids."""
        self._manager.load(partition, epoch, self._on_loaded)

    def on_resign(self, partition: int, epoch: int | None) -> None:
        """It does not lead the partition any more: forget its ids."""
        self._manager.unload(partition, epoch)

    def _on_loaded(self, epoch: int, loaded: list[TransactionMetadata]) -> None:
        for metadata in loaded:
            if metadata.state in _PREPARED:
                self._markers.send(metadata, epoch)

    def partition_for(self, transactional_id: str) -> int:
        """The partition of ``__transaction_state`` whose leader coordinates the id."""
        return self._manager.partition_for(transactional_id)

    def _find(self, transactional_id: str) -> tuple[int, int, TransactionMetadata | None]:
        if not self._active:
            return Errors.COORDINATOR_NOT_AVAILABLE, -1, None
        try:
            return self._manager.find(transactional_id)
        except CoordinatorNotAvailableError:
            return Errors.COORDINATOR_NOT_AVAILABLE, -1, None

    # --- InitProducerId

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, producer_id: int = NO_PRODUCER_ID, producer_epoch: int = NO_EPOCH
    ) -> Deferred[InitResult]:
        """InitProducerId with a transactional id: its producer id, under an epoch that fences all earlier producers.

        Args:
            timeout_ms: longest life of its transactions.
            producer_id, producer_epoch: what a client has that recovers from an error; -1 from one that begins.
        """
        if not transactional_id:
            return Deferred.of(InitResult(Errors.INVALID_REQUEST))
        if not 0 < timeout_ms <= self.config.transaction_max_timeout_ms:
            return Deferred.of(InitResult(Errors.INVALID_TRANSACTION_TIMEOUT))
        error_code, epoch, metadata = self._find(transactional_id)
        if error_code != Errors.NONE:
            return Deferred.of(InitResult(error_code))
        try:
            if metadata is None:
                record = TransactionRecord(
                    producer_id=self._cluster.next_producer_id(),
                    timeout_ms=timeout_ms,
                    last_update_ms=self._clock.wall_ms(),
                )
                metadata = TransactionMetadata(transactional_id, record)
                self._manager.add(metadata)
            return self._init(metadata, epoch, timeout_ms, producer_id, producer_epoch)
        except BrokerResponseError as error:
            return Deferred.of(InitResult(error.errno))
        except OSError as error:
            _log.error("No producer id for %s: %s", transactional_id, error)
            return Deferred.of(InitResult(Errors.COORDINATOR_NOT_AVAILABLE))

    def _init(
        self, metadata: TransactionMetadata, epoch: int, timeout_ms: int, producer_id: int, producer_epoch: int
    ) -> Deferred[InitResult]:
        known = metadata.record
        if metadata.pending_state is not None:
            return Deferred.of(InitResult(Errors.CONCURRENT_TRANSACTIONS))
        expected = None if producer_id == NO_PRODUCER_ID else producer_epoch
        is_repeated = producer_id == known.previous_producer_id and is_exhausted(producer_epoch)
        is_new = known.producer_epoch == NO_EPOCH
        if expected is not None and not (is_new or producer_id == known.producer_id or is_repeated):
            return Deferred.of(InitResult(Errors.PRODUCER_FENCED))
        if metadata.state in _PREPARED:
            return Deferred.of(InitResult(Errors.CONCURRENT_TRANSACTIONS))
        answer: Deferred[InitResult] = Deferred()
        if metadata.state is TransactionState.ONGOING:

            def on_fenced(result: EndResult) -> None:
                error_code = result.error_code
                answer.set(InitResult(Errors.CONCURRENT_TRANSACTIONS if error_code == Errors.NONE else error_code))

            self._fence(metadata, epoch).on_done(on_fenced)
            return answer
        now_ms = self._clock.wall_ms()
        if is_exhausted(known.producer_epoch) and expected in (None, known.producer_epoch):
            fresh = self._cluster.next_producer_id()
            record = metadata.prepare_new_producer_id(fresh, timeout_ms, now_ms, keep_last_epoch=expected is not None)
        else:
            record = metadata.prepare_increment_epoch(timeout_ms, expected, now_ms)

        def on_written(error_code: int) -> None:
            if error_code == Errors.NONE:
                answer.set(InitResult(Errors.NONE, record.producer_id, record.producer_epoch))
            else:
                answer.set(InitResult(error_code))

        self._manager.write(metadata, epoch, record).on_done(on_written)
        return answer

    # --- partitions

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        client_version: int = 0,
    ) -> Deferred[int]:
        """AddPartitionsToTxn and AddOffsetsToTxn: an error code, once the partitions are in the log.

        Args:
            client_version: transaction version of the client; 2 where a broker adds what was produced to.
        """
        error_code, epoch, metadata = self._check_producer(transactional_id, producer_id, producer_epoch)
        if error_code != Errors.NONE or metadata is None:
            return Deferred.of(error_code)
        added = frozenset(partitions)
        if metadata.pending_state is not None or metadata.state in _PREPARED:
            return Deferred.of(Errors.CONCURRENT_TRANSACTIONS)
        if metadata.state is TransactionState.ONGOING and added <= metadata.record.partitions:
            return Deferred.of(Errors.NONE)
        record = metadata.prepare_add_partitions(added, self._clock.wall_ms(), client_version)
        return self._manager.write(metadata, epoch, record)

    def verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """AddPartitionsToTxn with VerifyOnly: whether partitions belong to the open transaction (KIP-890)."""
        wanted = list(partitions)
        error_code, _, metadata = self._check_producer(transactional_id, producer_id, producer_epoch)
        if error_code == Errors.NONE and metadata is not None and metadata.state in _PREPARED:
            error_code = Errors.CONCURRENT_TRANSACTIONS
        if error_code != Errors.NONE or metadata is None:
            return dict.fromkeys(wanted, error_code)
        known = metadata.record.partitions if metadata.state is TransactionState.ONGOING else frozenset()
        return {tp: Errors.NONE if tp in known else Errors.TRANSACTION_ABORTABLE for tp in wanted}

    def _check_producer(
        self, transactional_id: str, producer_id: int, producer_epoch: int
    ) -> tuple[int, int, TransactionMetadata | None]:
        if not transactional_id:
            return Errors.INVALID_REQUEST, -1, None
        error_code, epoch, metadata = self._find(transactional_id)
        if error_code == Errors.NONE:
            if metadata is None or metadata.record.producer_id != producer_id:
                error_code = Errors.INVALID_PRODUCER_ID_MAPPING
            elif metadata.record.producer_epoch != producer_epoch:
                error_code = Errors.PRODUCER_FENCED
        return error_code, epoch, metadata

    # --- EndTxn

    def end_transaction(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool, client_version: int = 0
    ) -> Deferred[EndResult]:
        """EndTxn: commit or abort (rules 3 and 4).

        Args:
            client_version: transaction version of the client: 2 from version 5 of the request on.
        """
        if not transactional_id:
            return Deferred.of(EndResult(Errors.INVALID_REQUEST))
        error_code, epoch, metadata = self._find(transactional_id)
        if error_code != Errors.NONE:
            return Deferred.of(EndResult(error_code))
        if metadata is None:
            return Deferred.of(EndResult(Errors.INVALID_PRODUCER_ID_MAPPING))
        if client_version >= _EPOCH_BUMP:
            outcome = self._check_end(metadata, producer_id, producer_epoch, commit=commit)
        else:
            outcome = self._check_old_end(metadata, producer_id, producer_epoch, commit=commit)
        if outcome is not None:
            return Deferred.of(outcome)
        next_id = NO_PRODUCER_ID
        if client_version >= _EPOCH_BUMP and is_exhausted(producer_epoch):
            try:
                next_id = self._cluster.next_producer_id()
            except OSError as error:
                _log.error("No producer id for %s: %s", transactional_id, error)
                return Deferred.of(EndResult(Errors.COORDINATOR_NOT_AVAILABLE))
        state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
        is_empty = metadata.state is not TransactionState.ONGOING
        record = metadata.prepare_end(state, client_version, next_id, self._clock.wall_ms(), is_empty=is_empty)
        return self._end(metadata, epoch, record)

    def _check_end(
        self, metadata: TransactionMetadata, producer_id: int, producer_epoch: int, *, commit: bool
    ) -> EndResult | None:
        """Return the answer under version 2, or None if the transaction is to be ended now (rule 4)."""
        known, state = metadata.record, metadata.state
        is_repeated = known.producer_epoch == producer_epoch + 1
        is_overflown = (
            known.previous_producer_id == producer_id and producer_epoch == _MAX_EPOCH - 1 and known.producer_epoch == 0
        )
        if known.producer_id != producer_id and not is_overflown:
            return EndResult(Errors.INVALID_PRODUCER_ID_MAPPING)
        if state in (TransactionState.ONGOING, TransactionState.EMPTY):
            is_valid = producer_epoch == known.producer_epoch
        else:
            is_valid = is_repeated or is_overflown or producer_epoch == known.producer_epoch
        if not is_valid:
            return EndResult(Errors.PRODUCER_FENCED)
        if metadata.pending_state is not None and state not in _PREPARED:
            return EndResult(Errors.CONCURRENT_TRANSACTIONS)
        if state is TransactionState.ONGOING:
            return None
        committed = state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
        if state in _PREPARED:
            if producer_epoch == known.producer_epoch:  # it ends the next transaction, and has to wait for this one
                return EndResult(Errors.CONCURRENT_TRANSACTIONS)
            same = committed is commit
            return EndResult(Errors.CONCURRENT_TRANSACTIONS if same else Errors.INVALID_TXN_STATE)
        if state is not TransactionState.EMPTY and known.producer_epoch == _MAX_EPOCH:
            # Its transaction timed out. No client may have this epoch: it must begin again, with another producer id.
            return EndResult(Errors.PRODUCER_FENCED)
        if state is not TransactionState.EMPTY and (is_repeated or is_overflown):
            if committed is commit:
                return EndResult(Errors.NONE, known.producer_id, known.producer_epoch)
            return EndResult(Errors.INVALID_TXN_STATE)
        return EndResult(Errors.INVALID_TXN_STATE) if commit else None

    def _check_old_end(
        self, metadata: TransactionMetadata, producer_id: int, producer_epoch: int, *, commit: bool
    ) -> EndResult | None:
        """Return the answer below version 2, or None if the transaction is to be ended now."""
        known, state = metadata.record, metadata.state
        if known.producer_id != producer_id:
            return EndResult(Errors.INVALID_PRODUCER_ID_MAPPING)
        if producer_epoch != known.producer_epoch:
            return EndResult(Errors.PRODUCER_FENCED)
        if metadata.pending_state is not None and state not in _PREPARED:
            return EndResult(Errors.CONCURRENT_TRANSACTIONS)
        if state is TransactionState.ONGOING:
            return None
        committed = state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
        if state is TransactionState.EMPTY or committed is not commit:
            return EndResult(Errors.INVALID_TXN_STATE)
        if state in _PREPARED:
            return EndResult(Errors.CONCURRENT_TRANSACTIONS)
        return EndResult(Errors.NONE, known.producer_id, known.producer_epoch)

    def _end(self, metadata: TransactionMetadata, epoch: int, record: TransactionRecord) -> Deferred[EndResult]:
        """Write the decision, answer, and let the markers be written."""
        answer: Deferred[EndResult] = Deferred()

        def on_written(error_code: int) -> None:
            if error_code != Errors.NONE:
                answer.set(EndResult(error_code))
                return
            next_id = record.next_producer_id
            if next_id == NO_PRODUCER_ID:
                result = EndResult(Errors.NONE, record.producer_id, record.producer_epoch)
            else:
                result = EndResult(Errors.NONE, next_id, 0)
            answer.set(result)
            self._markers.send(metadata, epoch)

        self._manager.write(metadata, epoch, record).on_done(on_written)
        return answer

    def _fence(self, metadata: TransactionMetadata, epoch: int) -> Deferred[EndResult]:
        """Abort the open transaction under a raised epoch, so that its producer can do nothing more."""
        fenced_epoch = metadata.prepare_fence()
        record = metadata.prepare_fenced_abort(fenced_epoch, self._cluster.transaction_version, self._clock.wall_ms())
        ended = self._end(metadata, epoch, record)

        def on_ended(result: EndResult) -> None:
            if result.error_code != Errors.NONE:
                metadata.cancel_fence()

        ended.on_done(on_ended)
        return ended

    def abort_timed_out(self) -> None:
        """Abort transactions that have outlived their timeout (rule 5)."""
        for epoch, metadata in self._manager.timed_out():
            _log.info("%s: its transaction has timed out and is aborted", metadata.transactional_id)
            self._fence(metadata, epoch)

    # --- tools

    def describe(self, transactional_id: str) -> tuple[int, TransactionRecord | None]:
        """DescribeTransactions: the state of an id; TRANSACTIONAL_ID_NOT_FOUND for an unknown one."""
        if not transactional_id:
            return Errors.INVALID_REQUEST, None
        error_code, _, metadata = self._find(transactional_id)
        if error_code != Errors.NONE:
            return error_code, None
        if metadata is None or metadata.pending_state is TransactionState.DEAD:
            return Errors.TRANSACTIONAL_ID_NOT_FOUND, None
        return Errors.NONE, metadata.record

    def list_transactions(
        self,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
    ) -> tuple[int, list[str], list[tuple[str, TransactionRecord]]]:
        """ListTransactions: the ids of this broker.

        Args:
            states: names such as ``Ongoing``; without any, all are meant. ``producer_ids`` likewise.
            duration_ms: only transactions that have been open for longer; -1 for all.
            pattern: a regular expression for the whole id; None or empty for all.

        Returns:
            An error code (INVALID_REGULAR_EXPRESSION for a pattern that is none), names of unknown states, and the ids.
        """
        if not self._active:
            return Errors.COORDINATOR_NOT_AVAILABLE, [], []
        error_code, known = self._manager.all()
        if error_code != Errors.NONE:
            return error_code, [], []
        labels = {state.label for state in TransactionState}
        unknown = [name for name in states if name not in labels]
        try:
            wanted_id = re.compile(pattern) if pattern else None
        except re.error:
            return Errors.INVALID_REGULAR_EXPRESSION, [], []
        now_ms = self._clock.wall_ms()
        found = []
        for metadata in known:
            record = metadata.record
            if metadata.pending_state is TransactionState.DEAD:
                continue
            if states and record.state.label not in states:
                continue
            if producer_ids and record.producer_id not in producer_ids:
                continue
            if duration_ms >= 0 and (record.start_ms < 0 or now_ms - record.start_ms <= duration_ms):
                continue
            if wanted_id is not None and not wanted_id.fullmatch(metadata.transactional_id):
                continue
            found.append((metadata.transactional_id, record))
        return Errors.NONE, unknown, found
