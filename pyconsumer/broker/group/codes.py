"""Kafka's error codes that the coordinator answers with, as plain numbers, and how append errors become them."""

from __future__ import annotations

from typing import Final

from pyconsumer import errors as _errors

NONE: Final = 0
UNKNOWN_SERVER_ERROR: Final = _errors.UnknownServerError.errno
OFFSET_METADATA_TOO_LARGE: Final = _errors.OffsetMetadataTooLargeError.errno
COORDINATOR_LOAD_IN_PROGRESS: Final = _errors.CoordinatorLoadInProgressError.errno
COORDINATOR_NOT_AVAILABLE: Final = _errors.CoordinatorNotAvailableError.errno
NOT_COORDINATOR: Final = _errors.NotCoordinatorError.errno
ILLEGAL_GENERATION: Final = _errors.IllegalGenerationError.errno
INCONSISTENT_GROUP_PROTOCOL: Final = _errors.InconsistentGroupProtocolError.errno
INVALID_REQUEST: Final = _errors.InvalidRequestError.errno
INVALID_GROUP_ID: Final = _errors.InvalidGroupIdError.errno
UNKNOWN_MEMBER_ID: Final = _errors.UnknownMemberIdError.errno
INVALID_SESSION_TIMEOUT: Final = _errors.InvalidSessionTimeoutError.errno
REBALANCE_IN_PROGRESS: Final = _errors.RebalanceInProgressError.errno
NON_EMPTY_GROUP: Final = _errors.NonEmptyGroupError.errno
GROUP_ID_NOT_FOUND: Final = _errors.GroupIdNotFoundError.errno
MEMBER_ID_REQUIRED: Final = _errors.MemberIdRequiredError.errno
GROUP_MAX_SIZE_REACHED: Final = _errors.GroupMaxSizeReachedError.errno
FENCED_INSTANCE_ID: Final = _errors.FencedInstanceIdError.errno
GROUP_SUBSCRIBED_TO_TOPIC: Final = _errors.GroupSubscribedToTopicError.errno
UNSTABLE_OFFSET_COMMIT: Final = _errors.UnstableOffsetCommitError.errno

_FROM_APPEND: Final = {
    _errors.UnknownTopicOrPartitionError.errno: COORDINATOR_NOT_AVAILABLE,
    _errors.NotEnoughReplicasError.errno: COORDINATOR_NOT_AVAILABLE,
    _errors.NotEnoughReplicasAfterAppendError.errno: COORDINATOR_NOT_AVAILABLE,
    _errors.RequestTimedOutError.errno: COORDINATOR_NOT_AVAILABLE,
    _errors.NotLeaderOrFollowerError.errno: NOT_COORDINATOR,
    _errors.KafkaStorageError.errno: NOT_COORDINATOR,
    _errors.MessageTooLargeError.errno: UNKNOWN_SERVER_ERROR,
    _errors.RecordListTooLargeError.errno: UNKNOWN_SERVER_ERROR,
    _errors.InvalidFetchSizeError.errno: UNKNOWN_SERVER_ERROR,
}


def from_append(error_code: int) -> int:
    """What a client is told when the append to ``__consumer_offsets`` ended with this code.

    The log's own errors would say nothing to a client of a group. The table is Kafka 4's, the same for offsets and for
    registrations; what is not in it is passed on.
    """
    return _FROM_APPEND.get(error_code, error_code)


def name_of(error_code: int) -> str:
    """Kafka's name of a code, for messages."""
    if error_code == NONE:
        return "NONE"
    known = _errors.BY_CODE.get(error_code)
    return known.code_name if known is not None else str(error_code)
