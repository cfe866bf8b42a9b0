"""The errors of ``kafka.errors``: all of ours, and those whose name is another one there.

An ``except`` for a name of this module catches what our clients raise in that case. A few names stand for what does not
happen here; they exist so that programs which name them still run.
"""

from __future__ import annotations

from typing import Any

from pyconsumer import errors as _ours
from pyconsumer.errors import (
    ClusterAuthorizationFailedError,
    ConfigurationError,
    CorruptMessageError,
    GroupAuthorizationFailedError,
    InvalidFetchSizeError,
    InvalidMetadataError,
    InvalidReplicaAssignmentError,
    KafkaError,
    NoBrokersAvailableError,
    NotLeaderOrFollowerError,
    PrincipalDeserializationError,
    ProtocolError,
    RecordTooLargeError,
    RequestCancelledError,
    ThrottlingQuotaExceededError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnknownServerError,
    UnsupportedVersionError,
)

__all__ = [
    "AuthorizationError",
    "Cancelled",
    "CorrelationIdError",
    "CorruptRecordException",
    "IllegalArgumentError",
    "IncompatibleBrokerVersion",
    "InvalidFetchRequestError",
    "InvalidReceiveError",
    "InvalidReplicationAssignmentError",
    "KafkaConfigurationError",
    "KafkaProtocolError",
    "MessageSizeTooLargeError",
    "MetadataEmptyBrokerList",
    "NoBrokersAvailable",
    "NotLeaderForPartitionError",
    "PrincipalDeserializationFailureError",
    "QuotaViolationError",
    "StaleMetadata",
    "TooManyInFlightRequests",
    "UnknownBrokerIdError",
    "UnknownError",
    "UnrecognizedBrokerVersion",
]

Cancelled = RequestCancelledError
CorrelationIdError = ProtocolError
CorruptRecordException = CorruptMessageError
IncompatibleBrokerVersion = UnsupportedVersionError
InvalidFetchRequestError = InvalidFetchSizeError
InvalidReceiveError = ProtocolError
InvalidReplicationAssignmentError = InvalidReplicaAssignmentError
KafkaConfigurationError = ConfigurationError
KafkaProtocolError = ProtocolError
MessageSizeTooLargeError = RecordTooLargeError
MetadataEmptyBrokerList = NoBrokersAvailableError
NoBrokersAvailable = NoBrokersAvailableError
NotLeaderForPartitionError = NotLeaderOrFollowerError
PrincipalDeserializationFailureError = PrincipalDeserializationError
QuotaViolationError = ThrottlingQuotaExceededError
StaleMetadata = InvalidMetadataError
UnknownError = UnknownServerError
#: Python's own errors stand for it: an ``except`` catches both.
IllegalArgumentError = (ValueError, TypeError)
#: One class for each kind here: an ``except`` catches all of them.
AuthorizationError = (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)


class TooManyInFlightRequests(KafkaError):
    """Does not happen: requests queue."""


class UnknownBrokerIdError(KafkaError):
    """Does not happen: a node that is not known any more is a ``KafkaConnectionError``."""


class UnrecognizedBrokerVersion(KafkaError):
    """Does not happen: versions are negotiated for each API."""


def __getattr__(name: str) -> Any:
    try:
        return getattr(_ours, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no error {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_ours)})
