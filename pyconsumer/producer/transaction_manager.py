"""The state machine of a producer's transactions (KIP-98, KIP-360, KIP-890).

State: where the producer stands (:data:`PREDECESSORS`), its id and epoch, the partitions of the open transaction, and
requests that wait. The caller holds the producer's lock during every call. Applications begin and end transactions. The
sender's thread fetches the requests and delivers the responses. Rules:

1. One request is in flight at a time. Those that wait are sent in this order: FindCoordinator, InitProducerId,
   additions to the transaction, EndTxn, and last the InitProducerId that raises the epoch after an abort.
2. EndTxn waits until every batch has been acknowledged or has failed.
3. Up to version 1 a partition is added by AddPartitionsToTxn before its first batch leaves, and a group's offsets by
   AddOffsetsToTxn. Under version 2 the brokers do that themselves, and each EndTxn gives the producer a new epoch.
4. The version is the cluster's finalized feature ``transaction.version``. It is read when the producer is initialized
   and when a transaction ends, never in between. A move to version 2 raises the epoch once.
5. An error either lets a request be repeated, or makes the state ABORTABLE_ERROR, which only an abort leaves, or
   FATAL_ERROR, which is final (:mod:`.transaction_errors`). While aborting, an abortable error is ignored.
6. The end of an empty transaction needs no request, and none is sent. While the end of the previous transaction is
   still being carried out, a broker could mistake it for a request of a producer that was fenced.
7. A call that timed out is still being carried out. Until that is done only the same call is accepted.
8. After a batch that may or may not have been written, the epoch is raised before the next transaction, so that
   sequence numbers begin again. With a broker that cannot do that (before 2.5), only a new producer helps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from pyconsumer.background_log import Log
from pyconsumer.errors import (
    ApplicationRecoverableError,
    BrokerResponseError,
    CommitFailedError,
    Errors,
    IllegalStateError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    ProducerFencedError,
    ProtocolError,
    TransactionAbortableError,
    TransactionAbortedError,
    for_code,
)
from pyconsumer.producer.pending_request import ADDS, PendingRequest, TransactionResult
from pyconsumer.producer.transaction_errors import (
    RequestKind,
    TransactionErrorAction,
    ends_producer,
    transaction_error_action,
)
from pyconsumer.structs import BrokerMetadata, ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = ["PREDECESSORS", "DetachedTransaction", "TransactionManager", "TransactionState"]

_log = Log(__name__, always=True)

_NO_PRODUCER: Final = (-1, -1)
_TV2: Final = 2
#: Pause while the previous transaction is about to end, seconds.
_SOON_S: Final = 0.02


class TransactionState(Enum):
    """The states of a transactional producer. The names are those of Java's client."""

    UNINITIALIZED = "UNINITIALIZED"
    INITIALIZING = "INITIALIZING"
    READY = "READY"
    IN_TRANSACTION = "IN_TRANSACTION"
    COMMITTING_TRANSACTION = "COMMITTING_TRANSACTION"
    ABORTING_TRANSACTION = "ABORTING_TRANSACTION"
    ABORTABLE_ERROR = "ABORTABLE_ERROR"
    FATAL_ERROR = "FATAL_ERROR"


_S = TransactionState

#: The states from which a state may be reached.
PREDECESSORS: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    _S.UNINITIALIZED: frozenset({_S.READY, _S.ABORTABLE_ERROR}),
    _S.INITIALIZING: frozenset({_S.UNINITIALIZED, _S.COMMITTING_TRANSACTION, _S.ABORTING_TRANSACTION}),
    _S.READY: frozenset({_S.INITIALIZING, _S.COMMITTING_TRANSACTION, _S.ABORTING_TRANSACTION}),
    _S.IN_TRANSACTION: frozenset({_S.READY}),
    _S.COMMITTING_TRANSACTION: frozenset({_S.IN_TRANSACTION}),
    _S.ABORTING_TRANSACTION: frozenset({_S.IN_TRANSACTION, _S.ABORTABLE_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.INITIALIZING, _S.IN_TRANSACTION, _S.COMMITTING_TRANSACTION, _S.ABORTABLE_ERROR}),
    _S.FATAL_ERROR: frozenset(_S),
}
_FENCED: Final = (
    "a newer producer with this id has taken over, or the broker has ended the transaction because it took longer than "
    "transaction_timeout_ms"
)
_IN_WORDS: Final = {
    _S.UNINITIALIZED: "init_transactions() was not called",
    _S.INITIALIZING: "init_transactions() has not finished",
    _S.READY: "no transaction is open; call begin_transaction() first",
    _S.IN_TRANSACTION: "a transaction is open; commit or abort it first",
    _S.COMMITTING_TRANSACTION: "a transaction is being committed",
    _S.ABORTING_TRANSACTION: "a transaction is being aborted",
}


class DetachedTransaction(NamedTuple):
    """An open transaction that its producer has detached. It has all data that EndTxn needs, so any client can send it.

    Attributes:
        producer_id, epoch: id and epoch of the producer that sent the records.
        is_v2: True if this is a transaction of version 2. The version of EndTxn depends on that (KIP-890).
    """

    transactional_id: str
    producer_id: int
    epoch: int
    is_v2: bool


class _Offsets(NamedTuple):
    """The arguments of ``send_offsets_to_transaction``. ``left`` shrinks as partitions succeed."""

    group: ConsumerGroupMetadata
    left: dict[TopicPartition, OffsetAndMetadata]


class TransactionManager:
    """The transactions of one producer. See the module.

    Args:
        transactional_id: the id that stays the same when a producer is replaced by another one.
        delay: returns the pause (seconds) before an attempt that follows ``n`` failures.

    Attributes:
        state: the present state.
        producer: the producer's id and epoch. Both are -1 before they are known.
        is_v2: True if transaction version 2 is used.
        last_error: the reason for an error state.
        is_open: True if a transaction is open and records may be added.
    """

    def __init__(self, transactional_id: str, delay: Callable[[int], float]) -> None:
        self.transactional_id = transactional_id
        self.state = TransactionState.UNINITIALIZED
        self.producer = _NO_PRODUCER
        self.is_v2 = False
        self.last_error: KafkaError | None = None
        self.is_open = False
        self.supports_bump = False
        self._delay = delay
        self._features = (-1, 0)  # epoch and transaction.version, as last seen
        self._used_features = -1
        self._needs_bump = False
        self._started = False
        self._new: set[TopicPartition] = set()
        self._adding: set[TopicPartition] = set()
        self._partitions: set[TopicPartition] = set()
        self._waiting: list[PendingRequest] = []
        self._in_flight: PendingRequest | None = None
        self._pending: TransactionResult | None = None
        self._coordinators: dict[bool, tuple[str, BrokerMetadata] | None] = {False: None, True: None}

    def __repr__(self) -> str:
        return f"<TransactionManager {self.transactional_id!r} {self.state.name} {self.producer}>"

    # --- what applications call

    def initialize(self) -> TransactionResult:
        """Start ``init_transactions``: request a producer id.

        This also ends the open transaction of an earlier producer.
        """

        def begin(result: TransactionResult) -> None:
            self._raise_error()
            self._check_state("init_transactions", _S.UNINITIALIZED)
            self._move(_S.INITIALIZING)
            self._enqueue(PendingRequest(RequestKind.INIT_PRODUCER_ID, result, _NO_PRODUCER))

        return self._call("init_transactions", begin)

    def begin(self) -> None:
        """Carry out ``begin_transaction``, which sends no request (TXR-04)."""
        self._check_pending("begin_transaction")
        self._raise_error()
        self._check_state("begin_transaction", _S.READY)
        self._move(_S.IN_TRANSACTION)

    def add_partition(self, tp: TopicPartition) -> None:
        """Add the partition of a record that is about to be sent. This is legal only in an open transaction."""
        if self.state is not _S.IN_TRANSACTION:
            self.check_send()
        if tp in self._partitions or tp in self._new or tp in self._adding:
            return
        if self.is_v2:
            self._partitions.add(tp)
        else:
            self._new.add(tp)

    def check_send(self) -> None:
        """Raise an error if no record may be sent now."""
        if self.state is not _S.IN_TRANSACTION:
            self._check_pending("send")
            self._raise_error()
            self._check_state("send", _S.IN_TRANSACTION)

    def add_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> TransactionResult:
        """Start ``send_offsets_to_transaction``."""

        call = "send_offsets_to_transaction"
        self._check_pending(call)
        self._raise_error()
        self._check_state(call, _S.IN_TRANSACTION)
        result = TransactionResult(call)
        kind = RequestKind.COMMIT_OFFSETS if self.is_v2 else RequestKind.ADD_OFFSETS
        self._enqueue(PendingRequest(kind, result, _Offsets(group, dict(offsets)), key=group.group_id))
        return result

    def commit(self) -> TransactionResult:
        """Start ``commit_transaction``."""

        def begin(result: TransactionResult) -> None:
            self._raise_error()
            self._check_state("commit_transaction", _S.IN_TRANSACTION)
            self._move(_S.COMMITTING_TRANSACTION)
            self._end(result, commit=True)

        return self._call("commit_transaction", begin)

    def abort(self) -> TransactionResult:
        """Start ``abort_transaction``. It is also legal after an abortable error."""

        def begin(result: TransactionResult) -> None:
            if self.state is not _S.ABORTABLE_ERROR:
                self._raise_error()
                self._check_state("abort_transaction", _S.IN_TRANSACTION)
            if self.producer == _NO_PRODUCER:  # init_transactions has failed, and may be called again
                self._move(_S.UNINITIALIZED)
                result.succeed()
                return
            self._move(_S.ABORTING_TRANSACTION)
            self._new.clear()
            for request in [one for one in self._waiting if one.order == ADDS]:
                self._give_up(request)
            self._end(result, commit=False)

        return self._call("abort_transaction", begin)

    def detach(self, *, has_incomplete: bool) -> DetachedTransaction | None:
        """Detach the open transaction, because another client is going to end it. The producer can then only be closed.

        Args:
            has_incomplete: True if there are batches without a result. It is then too early to detach.

        Returns:
            The transaction. None if it is empty, since no broker knows of it then.
        """
        call = "detach_transaction"
        self._check_pending(call)
        self._raise_error()
        self._check_state(call, _S.IN_TRANSACTION)
        if has_incomplete or self._waiting or self._in_flight is not None or self._new or self._adding:
            raise IllegalStateError(f"{call}() is not possible while records are in flight: flush first")
        found = DetachedTransaction(self.transactional_id, *self.producer, self.is_v2) if self._started else None
        self._fatal(IllegalStateError("its transaction was handed over, to be ended elsewhere"))
        return found

    def _end(self, result: TransactionResult, *, commit: bool) -> None:
        end = PendingRequest(RequestKind.END, result, commit, max_version=None if self.is_v2 else 4)
        self._use_features(initial=False)
        self._enqueue(end)
        if self._needs_bump:  # the call ends when the epoch has been raised
            end.follow(TransactionResult("EndTxn"))
            self._enqueue(PendingRequest(RequestKind.INIT_PRODUCER_ID, result, self.producer, is_bump=True))

    def _call(self, call: str, begin: Callable[[TransactionResult], None]) -> TransactionResult:
        if self._pending is not None and self._pending.call == call and not self._pending.taken:
            return self._pending  # rule 7
        self._check_pending(call)
        result = TransactionResult(call)
        begin(result)
        self._pending = result
        return result

    def _check_pending(self, call: str) -> None:
        if self._pending is not None and self._pending.taken:
            self._pending = None
        if self._pending is not None:
            raise IllegalStateError(
                f"{call}() is not possible: {self._pending.call}() has not finished: call {self._pending.call}() again "
                "to wait for it"
            )

    def _check_state(self, call: str, wanted: TransactionState) -> None:
        if self.state is not wanted:
            if wanted is _S.UNINITIALIZED:
                raise IllegalStateError(f"{call}() was called before: call it once for each producer")
            raise IllegalStateError(f"{call}() is not possible: {_IN_WORDS[self.state]}")

    def _raise_error(self) -> None:
        if self.state is _S.ABORTABLE_ERROR:
            raise TransactionAbortableError(
                f"the transaction of {self.transactional_id!r} has failed: call abort_transaction(), then repeat it. "
                f"The reason: {self.last_error}"
            ) from self.last_error
        if self.state is _S.FATAL_ERROR:
            raise self.final_error() from self.last_error

    def final_error(self) -> KafkaError:
        """The error that every call raises in the state FATAL_ERROR."""
        cause = self.last_error
        reason = cause.args[0] if cause is not None and cause.args else " ".join((type(cause).__doc__ or "").split())
        text = f"the producer with transactional id {self.transactional_id!r} cannot be used any more: {reason}"
        repeat = isinstance(cause, ApplicationRecoverableError | InvalidTxnStateError)
        text += "; close it, make a new one and repeat the transaction" if repeat else "; close it"
        if isinstance(cause, BrokerResponseError):
            return type(cause)(text)
        return KafkaError(text)

    # --- what the sender asks

    @property
    def is_completing(self) -> bool:
        """Return whether a transaction is being ended."""
        return self.state in (_S.COMMITTING_TRANSACTION, _S.ABORTING_TRANSACTION)

    @property
    def may_abort(self) -> bool:
        """Return whether ``abort_transaction`` is possible now."""
        return self.state in (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR)

    @property
    def has_open_transaction(self) -> bool:
        """Return whether there is a transaction that must be ended when the producer is closed.

        There is none if ``init_transactions`` has failed: no coordinator knows of this producer.
        """
        if self.is_completing or self.state is _S.IN_TRANSACTION:
            return True
        return self.state is _S.ABORTABLE_ERROR and self.producer != _NO_PRODUCER

    @property
    def drop_reason(self) -> tuple[KafkaError, bool] | None:
        """Return the error with which to drop waiting batches, or None if they are kept.

        The second value says whether batches that wait to be sent again are dropped, too.
        """
        if self.state is _S.FATAL_ERROR:
            return self.final_error(), True
        if self.state is _S.ABORTABLE_ERROR:
            assert self.last_error is not None
            return self.last_error, False
        if self.state is _S.ABORTING_TRANSACTION:
            return _aborted("send"), False
        return None

    def may_send(self, tp: TopicPartition) -> bool:
        """Return whether batches of a partition may be sent, because the partition is part of the transaction."""
        return tp in self._partitions and self.state is not _S.FATAL_ERROR

    def next_request(self, now: float, *, has_incomplete: bool) -> PendingRequest | None:
        """Return the request that must be sent now. It then counts as in flight.

        Args:
            now: monotonic seconds.
            has_incomplete: True if there are batches without a result (rule 2 of this module).
        """
        if self._in_flight is not None:
            return None
        if self._new and self.state is not _S.FATAL_ERROR:
            self._enqueue(PendingRequest(RequestKind.ADD_PARTITIONS, TransactionResult("send"), frozenset(self._new)))
            self._adding |= self._new
            self._new.clear()
        while self._waiting:
            first = self._waiting[0]
            if first.kind is RequestKind.END and has_incomplete:
                return None
            if self._is_refused(first):
                self._waiting.pop(0)
                continue
            if first.kind is RequestKind.END and not self._started:  # rule 6
                self._waiting.pop(0)
                self._reset()
                first.result.succeed()
                continue
            if first.kind is not RequestKind.FIND_COORDINATOR and self.coordinator(first) is None:
                self._find_coordinator(first)
                continue
            if first.retry_at > now:
                return None
            self._in_flight = self._waiting.pop(0)
            return self._in_flight
        return None

    def on_sent(self) -> None:
        """Record that a batch was sent. The broker may have opened the transaction."""
        self._started = True

    def wake_at(self) -> float | None:
        """Return when the first waiting request may be sent (monotonic seconds).

        None if no request waits for a time.
        """
        if self._in_flight is not None or not self._waiting:
            return None
        return self._waiting[0].retry_at or None

    def coordinator(self, request: PendingRequest) -> BrokerMetadata | None:
        """Return the node to which a request goes, or None if it is unknown."""
        found = self._coordinators[request.of_group]
        key = request.key if request.of_group else self.transactional_id
        return found[1] if found is not None and found[0] == key else None

    def _is_refused(self, request: PendingRequest) -> bool:
        """Fail a request if this is an error state, and return whether it was failed.

        In ABORTABLE_ERROR a coordinator may still be looked up, for the abort.
        """
        if self.state is _S.ABORTABLE_ERROR:
            if request.kind is RequestKind.FIND_COORDINATOR:
                return False
            self._fail_request(request)
            return True
        if self.state is _S.FATAL_ERROR:
            self._fail_request(request)
            return True
        return False

    def _fail_request(self, request: PendingRequest) -> None:
        error = self.last_error
        if self.state is _S.FATAL_ERROR:
            error = self.final_error()
        elif not isinstance(error, TransactionAbortableError):
            error = TransactionAbortableError(
                f"{request.result.call}() failed: call abort_transaction(), then repeat the transaction; the reason: "
                f"{self.last_error}"
            )
            error.__cause__ = self.last_error
        assert error is not None
        request.result.fail(error)

    # --- responses

    def on_features(self, epoch: int, version: int) -> None:
        """Store the cluster's finalized ``transaction.version``, and the epoch of its features."""
        if epoch > self._features[0]:
            self._features = (epoch, version)

    def on_lost(self, request: PendingRequest, error: KafkaError, now: float) -> None:
        """Look up the node of a request again and repeat the request, because the node was lost or did not respond."""
        self._in_flight = None
        request.result.note(error)
        self._started = self._started or request.kind is RequestKind.COMMIT_OFFSETS
        self._repeat(request, now, rediscover=request.kind is not RequestKind.FIND_COORDINATOR)

    def on_refused(self, request: PendingRequest, error: KafkaError) -> None:
        """End in FATAL_ERROR, because a request is impossible: the broker is too old, or it rejects this client."""
        self._in_flight = None
        self._fatal(error)
        self._fail_request(request)

    def on_coordinator(self, request: PendingRequest, node: BrokerMetadata) -> None:
        """Handle the response to FindCoordinator, which has named a node."""
        self._in_flight = None
        self._coordinators[request.details] = (request.key, node)
        request.result.succeed()

    def on_producer(self, request: PendingRequest, producer: tuple[int, int], *, supports_bump: bool) -> None:
        """Handle the response to InitProducerId, which has given an id and an epoch.

        Args:
            supports_bump: True if the broker can raise the epoch of a producer that asks for it (KIP-360).
        """
        self._in_flight = None
        self._use_features(initial=True)
        self.supports_bump = supports_bump
        self.producer = producer
        self._needs_bump = False
        self.last_error = None
        _log.info("transactional id %s: producer id %d, epoch %d", self.transactional_id, *producer)
        if self.is_completing:
            self._reset()
        elif self.state is _S.INITIALIZING:
            self._move(_S.READY)
        request.result.succeed()

    def on_partitions_added(self, request: PendingRequest, errors: Mapping[TopicPartition, int], now: float) -> None:
        """Handle the response to AddPartitionsToTxn. It adds all of the partitions or none."""
        failed = {tp: code for tp, code in errors.items() if code != Errors.NONE}
        causes = {tp: code for tp, code in failed.items() if code != Errors.OPERATION_NOT_ATTEMPTED} or failed
        if causes:
            worst = max(causes.values(), key=lambda code: self._severity(request, code))
            names = ", ".join(sorted(str(tp) for tp, code in causes.items() if code == worst))
            self.on_error(request, worst, now, for_code(worst, f"cannot add {names} to the transaction"))
            return
        if not request.details <= errors.keys():
            self.on_refused(request, ProtocolError("the response to AddPartitionsToTxn leaves out partitions"))
            return
        self._in_flight = None
        self._adding -= request.details
        self._partitions |= request.details
        self._started = True
        request.result.succeed()

    def on_offsets_added(self, request: PendingRequest) -> None:
        """Handle the success of AddOffsetsToTxn. Next, the offsets are sent to the group's coordinator."""
        self._in_flight = None
        self._started = True
        self._enqueue(PendingRequest(RequestKind.COMMIT_OFFSETS, request.result, request.details, key=request.key))

    def on_offsets_committed(self, request: PendingRequest, errors: Mapping[TopicPartition, int], now: float) -> None:
        """Handle the response to TxnOffsetCommit. If partitions have failed, repeat the request for them."""
        left = request.details.left
        if any(code != Errors.CONCURRENT_TRANSACTIONS for code in errors.values()):
            self._started = True
        worst: int = Errors.NONE
        for tp in list(left):
            code = errors.get(tp)
            if code is None:
                self.on_refused(request, ProtocolError(f"the response to TxnOffsetCommit leaves out {tp}"))
                return
            if code == Errors.NONE:
                del left[tp]
            elif worst == Errors.NONE or self._severity(request, code) > self._severity(request, worst):
                worst = code
        if worst == Errors.NONE:
            self._in_flight = None
            request.result.succeed()
        else:
            self.on_error(request, worst, now)

    def on_ended(self, request: PendingRequest, producer: tuple[int, int]) -> None:
        """Handle the success of EndTxn.

        Args:
            producer: id and epoch for the next transaction. Both are -1 up to version 4 of the request.
        """
        self._in_flight = None
        if producer[0] >= 0:
            self.producer = producer
        self._reset()
        request.result.succeed()

    def on_error(self, request: PendingRequest, error_code: int, now: float, error: KafkaError | None = None) -> None:
        """Handle an error code in the response to a request.

        Args:
            error: an error whose message says more than the code. None if there is no such error.
        """
        self._in_flight = None
        action = self._action_for(request, error_code)
        error = error or for_code(error_code)
        _log.log(
            logging.DEBUG if action in _RETRIED else logging.INFO,
            "transactional id %s: %s failed: %s, so %s",
            self.transactional_id,
            request.kind.value,
            error,
            action.value,
        )
        if action in _RETRIED:
            request.result.note(error)
            soon = action is TransactionErrorAction.REPEAT_SOON and not self._partitions
            self._repeat(
                request, now, rediscover=action is TransactionErrorAction.REDISCOVER, pause=_SOON_S if soon else None
            )
            return
        if request.kind is RequestKind.ADD_PARTITIONS:
            self._adding -= request.details
        if error_code in (Errors.INVALID_PRODUCER_EPOCH, Errors.PRODUCER_FENCED):
            error = ProducerFencedError(_FENCED)
        elif request.kind is RequestKind.END and error_code == Errors.INVALID_TXN_STATE:
            error = InvalidTxnStateError(
                "the broker has ended the transaction already; as a rule because it took longer than "
                "transaction_timeout_ms"
            )
        elif request.kind is RequestKind.COMMIT_OFFSETS and error_code in (
            Errors.UNKNOWN_MEMBER_ID,
            Errors.ILLEGAL_GENERATION,
            Errors.STALE_MEMBER_EPOCH,
            Errors.GROUP_ID_NOT_FOUND,
        ):
            error = CommitFailedError(
                "the consumer is not a member of the group any more, or of an older generation: its partitions may "
                f"belong to another member ({error})"
            )
        if action is TransactionErrorAction.FAIL:
            self._fatal(error)
        else:
            if action is TransactionErrorAction.RAISE_EPOCH:
                if not self.is_v2 and not self.supports_bump:
                    self._fatal(error)
                self._needs_bump = self._needs_bump or not self.is_v2
            self._abortable(error)
        self._fail_request(request)

    def on_batch_failed(self, error: KafkaError, *, uncertain: bool) -> None:
        """Handle the failure of a batch of the transaction.

        Args:
            uncertain: True if the batch may have been written all the same (rule 8).
        """
        if self.state in (_S.FATAL_ERROR, _S.READY, _S.UNINITIALIZED, _S.INITIALIZING):
            return
        if ends_producer(error):
            self._fatal(ProducerFencedError(_FENCED) if isinstance(error, ProducerFencedError) else error)
            return
        if uncertain and not self.is_v2 and not self.supports_bump:
            self._fatal(error)
            return
        if isinstance(error, InvalidProducerEpochError):
            error = InvalidProducerEpochError(_FENCED)
        elif error.retriable or isinstance(error, InvalidTxnStateError):
            cause, error = error, TransactionAbortableError(f"records could not be delivered in time: {error}")
            error.__cause__ = cause
        if self.supports_bump and not self.is_v2 and (uncertain or not self.is_completing):
            self._needs_bump = True
        self._abortable(error)

    def abandon(self) -> None:
        """Abort the open transaction, even if a call has not ended, because the producer is being closed."""
        self._pending = None
        self.abort()

    def close(self, error: KafkaError) -> None:
        """Let all waiting calls fail with ``error``, because the producer ends."""
        requests = [*self._waiting, *([self._in_flight] if self._in_flight is not None else [])]
        self._waiting.clear()
        for request in requests:
            request.result.fail(error)
        if self._pending is not None:
            self._pending.fail(error)
        self._fatal(error)

    # --- inside

    def _action_for(self, request: PendingRequest, error_code: int) -> TransactionErrorAction:
        return transaction_error_action(request.kind, error_code, aborting=self.state is _S.ABORTING_TRANSACTION)

    def _severity(self, request: PendingRequest, error_code: int) -> int:
        return _SEVERITY[self._action_for(request, error_code)]

    def _move(self, state: TransactionState) -> None:
        if self.state not in PREDECESSORS[state]:
            raise IllegalStateError(
                f"transactional id {self.transactional_id!r}: {self.state.name} cannot become {state.name}"
            )
        _log.debug("transactional id %s: %s -> %s", self.transactional_id, self.state.name, state.name)
        self.state = state
        self.is_open = state is _S.IN_TRANSACTION

    def _abortable(self, error: KafkaError) -> None:
        if self.state in (_S.ABORTING_TRANSACTION, _S.FATAL_ERROR):
            return
        if self.state is not _S.ABORTABLE_ERROR:  # the first reason is the one to name
            self.last_error = error
        self._move(_S.ABORTABLE_ERROR)

    def _fatal(self, error: KafkaError) -> None:
        if self.state is not _S.FATAL_ERROR:
            self.last_error = error
            self._move(_S.FATAL_ERROR)

    def _reset(self) -> None:
        """The transaction has ended."""
        self._move(_S.INITIALIZING if self._needs_bump else _S.READY)
        self.last_error = None
        self._started = False
        self._new.clear()
        self._adding.clear()
        self._partitions.clear()

    def _use_features(self, *, initial: bool) -> None:
        """Adopt the version that was seen last (rule 4)."""
        epoch, version = self._features
        if epoch <= self._used_features:
            return
        before, self.is_v2 = self.is_v2, version >= _TV2
        self._used_features = epoch
        if self.is_v2 and not before and not initial:
            self._needs_bump = True

    def _enqueue(self, request: PendingRequest) -> None:
        self._waiting.append(request)
        self._waiting.sort(key=lambda one: one.order)  # stable: equal ones stay in their order

    def _give_up(self, request: PendingRequest) -> None:
        self._waiting.remove(request)
        request.result.fail(_aborted(request.result.call))

    def _find_coordinator(self, request: PendingRequest) -> None:
        """Put FindCoordinator for a request's coordinator before it, unless it is there already."""
        key = request.key if request.of_group else self.transactional_id
        if not any(one.kind is RequestKind.FIND_COORDINATOR and one.key == key for one in self._waiting):
            result = TransactionResult("FindCoordinator")
            find = PendingRequest(RequestKind.FIND_COORDINATOR, result, request.of_group, key=key)
            self._enqueue(find)

    def _repeat(self, request: PendingRequest, now: float, *, rediscover: bool, pause: float | None = None) -> None:
        if self.state is _S.ABORTING_TRANSACTION and request.order == ADDS:  # it would only hold up the end
            request.result.fail(_aborted(request.result.call))
            return
        request.repeat_at(now + (self._delay(request.attempts) if pause is None else pause))
        if rediscover:
            self._coordinators[request.of_group] = None
        self._enqueue(request)


def _aborted(call: str) -> TransactionAbortedError:
    return TransactionAbortedError(f"{call}() was not carried out: the transaction was aborted first")


_RETRIED: Final = (
    TransactionErrorAction.REPEAT,
    TransactionErrorAction.REPEAT_SOON,
    TransactionErrorAction.REDISCOVER,
)
_SEVERITY: Final = {
    TransactionErrorAction.REPEAT: 0,
    TransactionErrorAction.REPEAT_SOON: 0,
    TransactionErrorAction.REDISCOVER: 1,
    TransactionErrorAction.ABORT: 2,
    TransactionErrorAction.RAISE_EPOCH: 2,
    TransactionErrorAction.FAIL: 3,
}
