"""The transaction coordinator of a broker: one method for each kind of request about transactional ids.

A method works in these steps:

* It checks that this broker coordinates the id and that the id's state allows the request.
* It prepares a transition (:mod:`.metadata`).
* It writes the transition by :mod:`.state_manager`, which owns the ids.
* At the end of a transaction it sends the markers (:mod:`.markers`).

The coordinator's only state is that it is started. No method waits: a result that takes time is a :class:`Deferred`,
which is set exactly once.

Rules and error codes are those of Apache Kafka 4.3 (KIP-98, KIP-360, KIP-664, KIP-890):

1. While a transition or the markers of a transaction are being written, other requests get CONCURRENT_TRANSACTIONS.
   Requests that add partitions first wait for its end, at most ``add.partitions.to.txn.retry.backoff.max.ms``. (In
   Kafka the partition's leader asks again every 20 ms, and a client's AddPartitionsToTxn does not wait.)
2. If an earlier producer has left a transaction open, InitProducerId fences it by a raised epoch and aborts the
   transaction. The new producer gets CONCURRENT_TRANSACTIONS and sends its request again.
3. The response to EndTxn is sent when the decision is in the log. The markers are written afterwards.
4. Under version 2, an EndTxn with the previous epoch repeats a completed one. It succeeds if the outcome is the same.
   An abort without an open transaction raises the epoch.
5. A transaction that is open for longer than its timeout is aborted, and its producer is fenced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from pyconsumer.background_log import Log
from pyconsumer.broker.deferred import Deferred
from pyconsumer.broker.group.common.storage import GroupStorage
from pyconsumer.broker.timer import Timer
from pyconsumer.broker.transaction.config import TransactionConfig
from pyconsumer.broker.transaction.markers import MarkerChannel, MarkerSender
from pyconsumer.broker.transaction.metadata import (
    MAX_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    PREPARED_STATES,
    TV_2,
    TransactionMetadata,
    TransactionRecord,
    TransactionState,
    Waiter,
    is_exhausted,
)
from pyconsumer.broker.transaction.state_manager import TransactionStateManager
from pyconsumer.clock import Clock
from pyconsumer.errors import BrokerResponseError, CoordinatorNotAvailableError, Errors
from pyconsumer.structs import TopicPartition

__all__ = ["EndResult", "InitResult", "TransactionCluster", "TransactionCoordinator"]

_log = Log(__name__)


class InitResult(NamedTuple):
    """Response to InitProducerId."""

    error_code: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


class EndResult(NamedTuple):
    """Response to EndTxn. In transaction version 2 the client continues with this producer id and epoch."""

    error_code: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


class TransactionCluster(MarkerChannel, Protocol):
    """The part of a cluster that a transaction coordinator needs."""

    @property
    def transaction_version(self) -> int:
        """Return the finalized feature ``transaction.version``: 0, 1 or 2."""

    def next_producer_id(self) -> int:
        """Return a producer id that was never used. Raises ``OSError`` if the cluster's file cannot be written."""


class TransactionCoordinator:
    """The transaction coordinator of one broker.

    Args:
        storage: the internal topic ``__transaction_state``.
        timer: runs all deadlines. Its owner moves the time.
        clock: the source of time. The timer uses its monotonic time, and records contain its wall time.
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

    # --- lifecycle

    def start(self) -> None:
        """Start to serve requests, to abort transactions that time out, and to remove expired ids."""
        self._active = True
        self._every(self.config.transaction_abort_timed_out_transaction_cleanup_interval_ms, self.abort_timed_out)
        self._every(self.config.transaction_remove_expired_transaction_cleanup_interval_ms, self._manager.expire)

    def shutdown(self) -> None:
        """Stop serving requests and sending markers."""
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
        """Load the ids of a partition of ``__transaction_state``, because this broker leads it from now on."""
        self._manager.load(partition, epoch, self._on_loaded)

    def on_resign(self, partition: int, epoch: int | None) -> None:
        """Forget the ids of a partition, because this broker no longer leads it."""
        self._manager.unload(partition, epoch)

    def _on_loaded(self, epoch: int, loaded: list[TransactionMetadata]) -> None:
        for metadata in loaded:
            if metadata.state in PREPARED_STATES:
                self._markers.send(metadata, epoch)

    def partition_for(self, transactional_id: str) -> int:
        """Return the partition of ``__transaction_state`` whose leader coordinates the id."""
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
        """Serve InitProducerId with a transactional id.

        Return the producer id of this transactional id. Its new epoch fences earlier producers.

        Args:
            timeout_ms: the timeout for the id's transactions.
            producer_id, producer_epoch: given by a client that recovers from an error. -1 for a client that starts.
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
        if metadata.state in PREPARED_STATES:
            return Deferred.of(InitResult(Errors.CONCURRENT_TRANSACTIONS))
        reply: Deferred[InitResult] = Deferred()
        if metadata.state is TransactionState.ONGOING:

            def on_fenced(result: EndResult) -> None:
                error_code = result.error_code
                reply.set(InitResult(Errors.CONCURRENT_TRANSACTIONS if error_code == Errors.NONE else error_code))

            self._fence(metadata, epoch).on_done(on_fenced)
            return reply
        now_ms = self._clock.wall_ms()
        if is_exhausted(known.producer_epoch) and expected in (None, known.producer_epoch):
            fresh = self._cluster.next_producer_id()
            record = metadata.prepare_new_producer_id(fresh, timeout_ms, now_ms, keep_last_epoch=expected is not None)
        else:
            record = metadata.prepare_increment_epoch(timeout_ms, expected, now_ms)

        def on_written(error_code: int) -> None:
            if error_code == Errors.NONE:
                reply.set(InitResult(Errors.NONE, record.producer_id, record.producer_epoch))
            else:
                reply.set(InitResult(error_code))

        self._manager.write(metadata, epoch, record).on_done(on_written)
        return reply

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
        """Serve AddPartitionsToTxn and AddOffsetsToTxn. The result is an error code.

        It is set when the partitions are in the log.

        If another transition of the id is in progress (rule 1), this does not wait for it. See :meth:`when_settled`.

        Args:
            client_version: the client's transaction version. It is 2 if a broker adds the partitions for the client.
        """
        error_code, epoch, metadata = self._check_producer(transactional_id, producer_id, producer_epoch)
        if error_code != Errors.NONE or metadata is None:
            return Deferred.of(error_code)
        added = frozenset(partitions)
        if not metadata.is_settled:
            return Deferred.of(Errors.CONCURRENT_TRANSACTIONS)
        if metadata.state is TransactionState.ONGOING and added <= metadata.record.partitions:
            return Deferred.of(Errors.NONE)
        record = metadata.prepare_add_partitions(added, self._clock.wall_ms(), client_version)
        return self._manager.write(metadata, epoch, record)

    def verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Serve AddPartitionsToTxn with VerifyOnly (KIP-890). Return an error code for each partition.

        The code is TRANSACTION_ABORTABLE if a partition is not part of the open transaction.
        """
        wanted = list(partitions)
        error_code, _, metadata = self._check_producer(transactional_id, producer_id, producer_epoch)
        if error_code == Errors.NONE and metadata is not None and metadata.state in PREPARED_STATES:
            error_code = Errors.CONCURRENT_TRANSACTIONS
        if error_code != Errors.NONE or metadata is None:
            return dict.fromkeys(wanted, error_code)
        known = metadata.record.partitions if metadata.state is TransactionState.ONGOING else frozenset()
        return {tp: Errors.NONE if tp in known else Errors.TRANSACTION_ABORTABLE for tp in wanted}

    def adding_ends_at(self) -> float:
        """Return how long a request that begins now may wait to add its partitions (a monotonic time, rule 1)."""
        config = self.config
        wait_ms = min(config.add_partitions_to_txn_retry_backoff_max_ms, config.request_timeout_ms)
        return self._clock.now() + wait_ms / 1000

    def when_settled(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        until: float,
    ) -> Deferred[bool]:
        """Let a request that got CONCURRENT_TRANSACTIONS wait until it may add its partitions.

        Args:
            until: the latest end of the wait, in monotonic seconds (see :meth:`adding_ends_at`).

        Returns:
            True if the caller must try the request again at once. False if the time is up.
        """
        _, _, metadata = self._find(transactional_id)
        if metadata is None or metadata.is_settled:
            return Deferred.of(True)
        if self._clock.now() >= until:
            return Deferred.of(False)
        settled: Deferred[bool] = Deferred()

        def on_settled() -> None:
            timeout.cancel()
            settled.set(True)

        def on_timeout() -> None:
            metadata.waiters.pop(waiter, None)
            settled.set(False)

        waiter = Waiter((producer_id, producer_epoch), frozenset(partitions), on_settled)
        metadata.waiters[waiter] = None
        timeout = self._timer.schedule(until, on_timeout)
        return settled

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
        """Serve EndTxn, which commits or aborts a transaction (rules 3 and 4).

        Args:
            client_version: the client's transaction version. It is 2 from version 5 of the request on.
        """
        if not transactional_id:
            return Deferred.of(EndResult(Errors.INVALID_REQUEST))
        error_code, epoch, metadata = self._find(transactional_id)
        if error_code != Errors.NONE:
            return Deferred.of(EndResult(error_code))
        if metadata is None:
            return Deferred.of(EndResult(Errors.INVALID_PRODUCER_ID_MAPPING))
        if client_version >= TV_2:
            result = self._check_end(metadata, producer_id, producer_epoch, commit=commit)
        else:
            result = self._check_old_end(metadata, producer_id, producer_epoch, commit=commit)
        if result is not None:
            return Deferred.of(result)
        next_id = NO_PRODUCER_ID
        if client_version >= TV_2 and is_exhausted(producer_epoch):
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
        """Return the response under version 2, or None if the transaction must be ended now (rule 4)."""
        known, state = metadata.record, metadata.state
        is_repeated = known.producer_epoch == producer_epoch + 1
        # The epochs were exhausted, so the EndTxn that this one repeats has changed the producer id.
        is_overflow = (
            known.previous_producer_id == producer_id and producer_epoch == MAX_EPOCH - 1 and known.producer_epoch == 0
        )
        if known.producer_id != producer_id and not is_overflow:
            return EndResult(Errors.INVALID_PRODUCER_ID_MAPPING)
        if state in (TransactionState.ONGOING, TransactionState.EMPTY):
            is_valid = producer_epoch == known.producer_epoch
        else:
            is_valid = is_repeated or is_overflow or producer_epoch == known.producer_epoch
        if not is_valid:
            return EndResult(Errors.PRODUCER_FENCED)
        if metadata.pending_state is not None and state not in PREPARED_STATES:
            return EndResult(Errors.CONCURRENT_TRANSACTIONS)
        if state is TransactionState.ONGOING:
            return None
        committed = state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
        if state in PREPARED_STATES:
            if producer_epoch == known.producer_epoch:  # it ends the next transaction, which has to wait for this one
                return EndResult(Errors.CONCURRENT_TRANSACTIONS)
            is_same = committed is commit
            return EndResult(Errors.CONCURRENT_TRANSACTIONS if is_same else Errors.INVALID_TXN_STATE)
        if state is not TransactionState.EMPTY and known.producer_epoch == MAX_EPOCH:
            # The transaction timed out. No client may use this epoch: it must get another producer id.
            return EndResult(Errors.PRODUCER_FENCED)
        if state is not TransactionState.EMPTY and (is_repeated or is_overflow):
            if committed is commit:
                return EndResult(Errors.NONE, known.producer_id, known.producer_epoch)
            return EndResult(Errors.INVALID_TXN_STATE)
        return EndResult(Errors.INVALID_TXN_STATE) if commit else None

    def _check_old_end(
        self, metadata: TransactionMetadata, producer_id: int, producer_epoch: int, *, commit: bool
    ) -> EndResult | None:
        """Return the response below version 2, or None if the transaction must be ended now."""
        known, state = metadata.record, metadata.state
        if known.producer_id != producer_id:
            return EndResult(Errors.INVALID_PRODUCER_ID_MAPPING)
        if producer_epoch != known.producer_epoch:
            return EndResult(Errors.PRODUCER_FENCED)
        if metadata.pending_state is not None and state not in PREPARED_STATES:
            return EndResult(Errors.CONCURRENT_TRANSACTIONS)
        if state is TransactionState.ONGOING:
            return None
        committed = state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
        if state is TransactionState.EMPTY or committed is not commit:
            return EndResult(Errors.INVALID_TXN_STATE)
        if state in PREPARED_STATES:
            return EndResult(Errors.CONCURRENT_TRANSACTIONS)
        return EndResult(Errors.NONE, known.producer_id, known.producer_epoch)

    def _end(self, metadata: TransactionMetadata, epoch: int, record: TransactionRecord) -> Deferred[EndResult]:
        """Write the decision, reply, and send the markers."""
        reply: Deferred[EndResult] = Deferred()

        def on_written(error_code: int) -> None:
            if error_code != Errors.NONE:
                reply.set(EndResult(error_code))
                return
            next_id = record.next_producer_id
            if next_id == NO_PRODUCER_ID:
                result = EndResult(Errors.NONE, record.producer_id, record.producer_epoch)
            else:
                result = EndResult(Errors.NONE, next_id, 0)
            reply.set(result)
            self._markers.send(metadata, epoch)

        self._manager.write(metadata, epoch, record).on_done(on_written)
        return reply

    def _fence(self, metadata: TransactionMetadata, epoch: int) -> Deferred[EndResult]:
        """Abort the open transaction with a raised epoch, which fences its producer."""
        fenced_epoch = metadata.prepare_fence()
        record = metadata.prepare_fenced_abort(fenced_epoch, self._cluster.transaction_version, self._clock.wall_ms())
        ended = self._end(metadata, epoch, record)

        def on_ended(result: EndResult) -> None:
            if result.error_code != Errors.NONE:
                metadata.cancel_fence()

        ended.on_done(on_ended)
        return ended

    def abort_timed_out(self) -> None:
        """Abort transactions that have been open for longer than their timeout (rule 5)."""
        for epoch, metadata in self._manager.timed_out():
            _log.info("%s: aborting its transaction, which has timed out", metadata.transactional_id)
            self._fence(metadata, epoch)

    # --- tools

    def describe(self, transactional_id: str) -> tuple[int, TransactionRecord | None]:
        """Serve DescribeTransactions. Return the state of an id, or TRANSACTIONAL_ID_NOT_FOUND if it is unknown."""
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
        """Serve ListTransactions. Return the ids that this broker coordinates.

        Args:
            states: names of states, such as ``Ongoing``. Empty for all.
            producer_ids: return only ids with these producer ids. Empty for all.
            duration_ms: return only transactions that have been open for longer than this. -1 for all.
            pattern: a regular expression that the whole id must match. None or empty for all.

        Returns:
            An error code, the names of unknown states, and the ids. The error code is INVALID_REGULAR_EXPRESSION if the
            pattern is invalid.
        """
        if not self._active:
            return Errors.COORDINATOR_NOT_AVAILABLE, [], []
        error_code, known = self._manager.all()
        if error_code != Errors.NONE:
            return error_code, [], []
        known_labels = {state.label for state in TransactionState}
        unknown = [name for name in states if name not in known_labels]
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
