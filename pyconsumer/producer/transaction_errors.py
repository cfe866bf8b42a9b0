"""The meaning of error codes for a transaction: one table, by the request that it answers.

It is that of Java's ``TransactionManager`` 4.3; ``tests/vectors/transactions.tsv.gz`` holds what that one does.
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

__all__ = ["Reaction", "RequestKind", "ends_producer", "reaction_to"]


class RequestKind(Enum):
    """A request of a transaction."""

    FIND_COORDINATOR = "FindCoordinator"
    INIT_PRODUCER_ID = "InitProducerId"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    COMMIT_OFFSETS = "TxnOffsetCommit"
    END = "EndTxn"


class Reaction(Enum):
    """The consequence of an error."""

    REPEAT = "the request is sent again after a pause"
    REPEAT_SOON = "the same after 20 ms: the transaction before is about to end"
    LOOK_UP = "the coordinator is looked up, and the request sent again"
    ABORT = "the transaction has to be aborted"
    RAISE_EPOCH = "the same, and the epoch is raised, if the broker can do that"
    FAIL = "the producer cannot be used any more"


_FENCED: Final = (Errors.INVALID_PRODUCER_EPOCH, Errors.PRODUCER_FENCED)
_Table = dict[int, Reaction]
_MOVED: Final[_Table] = dict.fromkeys((Errors.NOT_COORDINATOR, Errors.COORDINATOR_NOT_AVAILABLE), Reaction.LOOK_UP)
_ABORTABLE: Final[_Table] = {Errors.TRANSACTION_ABORTABLE: Reaction.ABORT}
_NO_GROUP: Final[_Table] = {Errors.GROUP_AUTHORIZATION_FAILED: Reaction.ABORT}
_NO_STATE: Final[_Table] = {Errors.UNKNOWN_PRODUCER_ID: Reaction.RAISE_EPOCH}

_REACTIONS: Final[dict[RequestKind, _Table]] = {
    RequestKind.FIND_COORDINATOR: {**_ABORTABLE, **_NO_GROUP},
    RequestKind.INIT_PRODUCER_ID: {
        **_MOVED,
        **_ABORTABLE,
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Reaction.ABORT,
        Errors.CLUSTER_AUTHORIZATION_FAILED: Reaction.ABORT,
    },
    RequestKind.ADD_PARTITIONS: {
        **_MOVED,
        **_NO_STATE,
        Errors.CONCURRENT_TRANSACTIONS: Reaction.REPEAT_SOON,
        **dict.fromkeys(
            (
                *_FENCED,
                Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                Errors.INVALID_TXN_STATE,
                Errors.INVALID_PRODUCER_ID_MAPPING,
            ),
            Reaction.FAIL,
        ),
    },
    RequestKind.ADD_OFFSETS: {**_MOVED, **_NO_STATE, **_ABORTABLE, **_NO_GROUP},
    RequestKind.COMMIT_OFFSETS: {
        **_MOVED,
        **_ABORTABLE,
        **_NO_GROUP,
        Errors.REQUEST_TIMED_OUT: Reaction.LOOK_UP,
        Errors.FENCED_INSTANCE_ID: Reaction.ABORT,
        Errors.UNKNOWN_MEMBER_ID: Reaction.ABORT,
        Errors.ILLEGAL_GENERATION: Reaction.ABORT,
    },
    RequestKind.END: {**_MOVED, **_NO_STATE, **_ABORTABLE},
}
#: For codes that the table does not name and that are not retriable.
_OTHERWISE: Final = {RequestKind.ADD_PARTITIONS: Reaction.ABORT}

#: A batch that failed so leaves no way to abort; after any other error the transaction can be aborted.
_FATAL: Final = (
    ClusterAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    ProducerFencedError,
    UnsupportedVersionError,
    InvalidProducerIdMappingError,
)


def reaction_to(kind: RequestKind, error_code: int, *, aborting: bool = False) -> Reaction:
    """Return what an error code in the answer to a request leads to.

    Args:
        aborting: the transaction is being aborted. If that fails, there is nothing left to do. (After
            UNKNOWN_PRODUCER_ID, which brokers do not send here, Java's producer stays in that state.)
    """
    if aborting and kind is RequestKind.END and error_code in (*_ABORTABLE, *_NO_STATE):
        return Reaction.FAIL
    known = _REACTIONS[kind].get(error_code)
    if known is not None:
        return known
    if for_code(error_code).retriable:
        return Reaction.REPEAT
    return _OTHERWISE.get(kind, Reaction.FAIL)


def ends_producer(error: KafkaError) -> bool:
    """Return whether a batch that failed with this error makes its producer useless, instead of its transaction."""
    return isinstance(error, _FATAL)
