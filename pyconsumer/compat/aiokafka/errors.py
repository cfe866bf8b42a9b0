"""``aiokafka.errors``: all of our errors, those of kafka-python, and those that have another name in aiokafka."""

from __future__ import annotations

from typing import Any

from pyconsumer.compat.kafka import errors as _known
from pyconsumer.errors import (
    AuthenticationError,
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    CorruptMessageError,
    DelegationTokenAuthDisabledError,
    DelegationTokenAuthorizationFailedError,
    DelegationTokenExpiredError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    DelegationTokenRequestNotAllowedError,
    DuplicateSequenceNumberError,
    FetchSessionIdNotFoundError,
    GroupIdNotFoundError,
    IllegalStateError,
    InvalidFetchSessionEpochError,
    InvalidGroupIdError,
    InvalidPrincipalTypeError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    KafkaConnectionError,
    ListenerNotFoundError,
    LogDirNotFoundError,
    MemberIdRequiredError,
    NetworkExceptionError,
    NonEmptyGroupError,
    NotCoordinatorError,
    OperationNotAttemptedError,
    OutOfOrderSequenceNumberError,
    ProducerFencedError,
    ReassignmentInProgressError,
    SaslAuthenticationFailedError,
    SecurityDisabledError,
    TransactionalIdAuthorizationFailedError,
    TransactionCoordinatorFencedError,
    UnknownProducerIdError,
    UnsupportedSaslMechanismError,
)

__all__ = [
    "AuthenticationFailedError",
    "AuthenticationMethodNotSupported",
    "ConcurrentTransactions",
    "ConsumerStoppedError",
    "DelegationTokenAuthDisabled",
    "DelegationTokenAuthorizationFailed",
    "DelegationTokenExpired",
    "DelegationTokenNotFound",
    "DelegationTokenOwnerMismatch",
    "DelegationTokenRequestNotAllowed",
    "DuplicateSequenceNumber",
    "FetchSessionIdNotFound",
    "GroupCoordinatorNotAvailableError",
    "GroupIdNotFound",
    "GroupLoadInProgressError",
    "IllegalOperation",
    "InvalidFetchSessionEpoch",
    "InvalidMessageError",
    "InvalidPrincipalType",
    "InvalidProducerEpoch",
    "InvalidProducerIdMapping",
    "InvalidTransactionTimeout",
    "InvalidTxnState",
    "KafkaUnavailableError",
    "ListenerNotFound",
    "LogDirNotFound",
    "MemberIdRequired",
    "NonEmptyGroup",
    "NotCoordinatorForGroupError",
    "OperationNotAttempted",
    "OutOfOrderSequenceNumber",
    "ProducerClosed",
    "ProducerFenced",
    "ReassignmentInProgress",
    "SaslAuthenticationFailed",
    "SecurityDisabled",
    "StaleLeaderEpochCodeError",
    "TransactionCoordinatorFenced",
    "TransactionalIdAuthorizationFailed",
    "UnknownProducerId",
]

AuthenticationFailedError = AuthenticationError
AuthenticationMethodNotSupported = UnsupportedSaslMechanismError
ConcurrentTransactions = ConcurrentTransactionsError
DelegationTokenAuthDisabled = DelegationTokenAuthDisabledError
DelegationTokenAuthorizationFailed = DelegationTokenAuthorizationFailedError
DelegationTokenExpired = DelegationTokenExpiredError
DelegationTokenNotFound = DelegationTokenNotFoundError
DelegationTokenOwnerMismatch = DelegationTokenOwnerMismatchError
DelegationTokenRequestNotAllowed = DelegationTokenRequestNotAllowedError
DuplicateSequenceNumber = DuplicateSequenceNumberError
FetchSessionIdNotFound = FetchSessionIdNotFoundError
GroupCoordinatorNotAvailableError = CoordinatorNotAvailableError
GroupIdNotFound = GroupIdNotFoundError
GroupLoadInProgressError = CoordinatorLoadInProgressError
InvalidFetchSessionEpoch = InvalidFetchSessionEpochError
InvalidMessageError = CorruptMessageError
InvalidPrincipalType = InvalidPrincipalTypeError
InvalidProducerEpoch = InvalidProducerEpochError
InvalidProducerIdMapping = InvalidProducerIdMappingError
InvalidTransactionTimeout = InvalidTransactionTimeoutError
InvalidTxnState = InvalidTxnStateError
KafkaUnavailableError = KafkaConnectionError
ListenerNotFound = ListenerNotFoundError
LogDirNotFound = LogDirNotFoundError
MemberIdRequired = MemberIdRequiredError
NonEmptyGroup = NonEmptyGroupError
NotCoordinatorForGroupError = NotCoordinatorError
OperationNotAttempted = OperationNotAttemptedError
OutOfOrderSequenceNumber = OutOfOrderSequenceNumberError
ProducerClosed = IllegalStateError
#: A newer producer has the same transactional id. Brokers have two error codes for that; ``except`` catches both.
ProducerFenced = (ProducerFencedError, InvalidProducerEpochError)
ReassignmentInProgress = ReassignmentInProgressError
SaslAuthenticationFailed = SaslAuthenticationFailedError
SecurityDisabled = SecurityDisabledError
StaleLeaderEpochCodeError = NetworkExceptionError
TransactionCoordinatorFenced = TransactionCoordinatorFencedError
TransactionalIdAuthorizationFailed = TransactionalIdAuthorizationFailedError
UnknownProducerId = UnknownProducerIdError
#: A call that is not allowed in this state, or not without a group: ``except`` catches both.
IllegalOperation = (IllegalStateError, InvalidGroupIdError)


class ConsumerStoppedError(IllegalStateError):
    """Raised by ``getone`` and ``getmany`` of a consumer that was stopped."""


def __getattr__(name: str) -> Any:
    try:
        return getattr(_known, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no error {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_known)})
