"""The action for each error code in a transaction's responses, as tables.

They follow Java's ``TransactionManager`` 4.3, whose behaviour ``tests/vectors/transactions.tsv.gz`` records.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from pyconsumer.errors import (
    ClusterAuthorizationFailedError,
    Errors,
    InvalidProducerIdMappingError,
    KafkaError,
    ProducerFencedError,
    TransactionalIdAuthorizationFailedError,
    UnsupportedVersionError,
    for_code,
)

__all__ = ["RequestKind", "TransactionErrorAction", "ends_producer", "transaction_error_action"]


class RequestKind(Enum):
    """The kinds of request that belong to a transaction."""

    FIND_COORDINATOR = "FindCoordinator"
    INIT_PRODUCER_ID = "InitProducerId"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    COMMIT_OFFSETS = "TxnOffsetCommit"
    END = "EndTxn"


class TransactionErrorAction(Enum):
    """The action to take for an error code. The log shows the error followed by the text of the action."""

    REPEAT = "sending it again after a pause"
    REPEAT_SOON = "sending it again after 20 ms: the transaction before it is about to end"
    REDISCOVER = "looking for the coordinator, then sending it again"
    ABORT = "the transaction has to be aborted"
    RAISE_EPOCH = "the transaction has to be aborted, and the epoch raised if the broker can do that"
    FAIL = "the producer cannot be used any more"


_A = TransactionErrorAction

_FENCED: Final = (Errors.INVALID_PRODUCER_EPOCH, Errors.PRODUCER_FENCED)
_Table = dict[int, TransactionErrorAction]
_MOVED: Final[_Table] = dict.fromkeys((Errors.NOT_COORDINATOR, Errors.COORDINATOR_NOT_AVAILABLE), _A.REDISCOVER)
_ABORTABLE: Final[_Table] = {Errors.TRANSACTION_ABORTABLE: _A.ABORT}
_NO_GROUP: Final[_Table] = {Errors.GROUP_AUTHORIZATION_FAILED: _A.ABORT}
_NO_STATE: Final[_Table] = {Errors.UNKNOWN_PRODUCER_ID: _A.RAISE_EPOCH}

_ERROR_ACTIONS: Final[dict[RequestKind, _Table]] = {
    RequestKind.FIND_COORDINATOR: {**_ABORTABLE, **_NO_GROUP},
    RequestKind.INIT_PRODUCER_ID: {
        **_MOVED,
        **_ABORTABLE,
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _A.ABORT,
        Errors.CLUSTER_AUTHORIZATION_FAILED: _A.ABORT,
    },
    RequestKind.ADD_PARTITIONS: {
        **_MOVED,
        **_NO_STATE,
        Errors.CONCURRENT_TRANSACTIONS: _A.REPEAT_SOON,
        **dict.fromkeys(
            (
                *_FENCED,
                Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                Errors.INVALID_TXN_STATE,
                Errors.INVALID_PRODUCER_ID_MAPPING,
            ),
            _A.FAIL,
        ),
    },
    RequestKind.ADD_OFFSETS: {**_MOVED, **_NO_STATE, **_ABORTABLE, **_NO_GROUP},
    RequestKind.COMMIT_OFFSETS: {
        **_MOVED,
        **_ABORTABLE,
        **_NO_GROUP,
        Errors.REQUEST_TIMED_OUT: _A.REDISCOVER,
        Errors.FENCED_INSTANCE_ID: _A.ABORT,
        Errors.UNKNOWN_MEMBER_ID: _A.ABORT,
        Errors.ILLEGAL_GENERATION: _A.ABORT,
        Errors.STALE_MEMBER_EPOCH: _A.ABORT,
        Errors.GROUP_ID_NOT_FOUND: _A.ABORT,
    },
    RequestKind.END: {**_MOVED, **_NO_STATE, **_ABORTABLE},
}
#: For codes that the table does not name and that are not retriable.
_OTHERWISE: Final = {RequestKind.ADD_PARTITIONS: _A.ABORT}

#: After a batch failed with one of these there is no way to abort; after any other error there is.
_FATAL: Final = (
    ClusterAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    ProducerFencedError,
    UnsupportedVersionError,
    InvalidProducerIdMappingError,
)


def transaction_error_action(kind: RequestKind, error_code: int, *, aborting: bool = False) -> TransactionErrorAction:
    """Return the action for an error code in the response to a request.

    Args:
        aborting: True if the transaction is being aborted. If the abort fails, the producer must be closed. (After
            UNKNOWN_PRODUCER_ID, which brokers do not send in this case, Java's producer stays in its aborting state.)
    """
    if aborting and kind is RequestKind.END and error_code in (*_ABORTABLE, *_NO_STATE):
        return _A.FAIL
    known = _ERROR_ACTIONS[kind].get(error_code)
    if known is not None:
        return known
    if for_code(error_code).retriable:
        return _A.REPEAT
    return _OTHERWISE.get(kind, _A.FAIL)


def ends_producer(error: KafkaError) -> bool:
    """Return whether a batch that failed with this error makes the producer unusable, and not only its transaction."""
    return isinstance(error, _FATAL)
