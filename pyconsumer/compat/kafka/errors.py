"""The errors of ``kafka.errors``: all of ours, and those whose name is another one there.

An ``except`` for a name of this module catches what our clients raise in that situation. A few errors never occur. They
exist so that programs that name them still run.
"""

from __future__ import annotations

from typing import Any, Final

from pyconsumer import errors as _ours
from pyconsumer.errors import (
    BY_CODE,
    BrokerResponseError,
    ClusterAuthorizationFailedError,
    ConfigurationError,
    CorruptMessageError,
    DelegationTokenAuthorizationFailedError,
    GroupAuthorizationFailedError,
    InvalidConfigError,
    InvalidFetchSizeError,
    InvalidMetadataError,
    InvalidReplicaAssignmentError,
    KafkaError,
    MessageTooLargeError,
    NoBrokersAvailableError,
    NotLeaderOrFollowerError,
    PrincipalDeserializationError,
    ProtocolError,
    RecordTooLargeError,
    RequestCancelledError,
    RetriableError,
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
    "CorruptRecordError",
    "CorruptRecordException",
    "IllegalArgumentError",
    "IncompatibleBrokerVersion",
    "InvalidConfigurationError",
    "InvalidFetchRequestError",
    "InvalidReceiveError",
    "InvalidReplicationAssignmentError",
    "KafkaConfigurationError",
    "KafkaProtocolError",
    "MessageSizeTooLargeError",
    "MetadataEmptyBrokerList",
    "NoBrokersAvailable",
    "NoError",
    "NotLeaderForPartitionError",
    "OffsetOutOfRangeError",
    "PrincipalDeserializationFailureError",
    "QuotaViolationError",
    "StaleMetadata",
    "TooManyInFlightRequests",
    "UnknownBrokerIdError",
    "UnknownError",
    "UnrecognizedBrokerVersion",
    "for_code",
    "kafka_errors",
]

Cancelled = RequestCancelledError
CorrelationIdError = ProtocolError
IncompatibleBrokerVersion = UnsupportedVersionError
InvalidConfigurationError = InvalidConfigError
InvalidFetchRequestError = InvalidFetchSizeError
InvalidReceiveError = ProtocolError
InvalidReplicationAssignmentError = InvalidReplicaAssignmentError
KafkaConfigurationError = ConfigurationError
KafkaProtocolError = ProtocolError
MetadataEmptyBrokerList = NoBrokersAvailableError
NoBrokersAvailable = NoBrokersAvailableError
NotLeaderForPartitionError = NotLeaderOrFollowerError
PrincipalDeserializationFailureError = PrincipalDeserializationError
QuotaViolationError = ThrottlingQuotaExceededError
StaleMetadata = InvalidMetadataError
UnknownError = UnknownServerError
#: Our clients raise Python's own errors instead: ``except`` catches both.
IllegalArgumentError = (ValueError, TypeError)
#: Found by the broker, or by the client: ``except`` catches both.
CorruptRecordError = CorruptRecordException = (CorruptMessageError, _ours.CorruptRecordError)
#: An error of the broker, or of a consumer without a reset policy: ``except`` catches both.
OffsetOutOfRangeError = (_ours.OffsetOutOfRangeError, _ours.OffsetsOutOfRangeError)
#: Too large for the broker, or for the limits of the producer: ``except`` catches both.
MessageSizeTooLargeError = (MessageTooLargeError, RecordTooLargeError)
#: Our clients have one class for each kind of resource: ``except`` catches all of them.
AuthorizationError = (
    ClusterAuthorizationFailedError,
    DelegationTokenAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)


class NoError(BrokerResponseError):
    """Success, in results of the admin client that are classes of errors."""

    errno = 0
    code_name = "NO_ERROR"


class TooManyInFlightRequests(RetriableError):
    """Never raised: requests are queued."""


class UnknownBrokerIdError(KafkaError):
    """Never raised: a node that is not known any more is a ``KafkaConnectionError``."""


class UnrecognizedBrokerVersion(KafkaError):
    """Never raised: versions are negotiated for each API."""


#: The class of each error code.
kafka_errors: Final[dict[int, type[BrokerResponseError]]] = {0: NoError, **BY_CODE}


def for_code(error_code: int) -> type[BrokerResponseError]:
    """Return the class of an error code: :class:`NoError` for 0, ``UnknownError`` for an unknown code."""
    return kafka_errors.get(error_code, UnknownServerError)


def __getattr__(name: str) -> Any:
    try:
        return getattr(_ours, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no error {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_ours)})
