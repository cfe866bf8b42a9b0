"""Every error that pyconsumer raises.

Three questions that a caller has, and what answers them:

* *May I try again?* ``error.retriable``.
* *Whose fault is it?* Errors of the broker are :class:`BrokerResponseError` with Kafka's code in ``errno``; wrong
  arguments and settings are :class:`ConfigurationError`, ``ValueError`` or ``TypeError``; calls at the wrong moment
  are :class:`IllegalStateError`; bytes that make no sense are :class:`ProtocolError`.
* *What should I change?* The message says it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyconsumer.error_codes import (
    BY_CODE,
    BrokerIdNotRegisteredError,
    BrokerNotAvailableError,
    BrokerResponseError,
    ClusterAuthorizationFailedError,
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
    DuplicateBrokerRegistrationError,
    DuplicateResourceError,
    DuplicateSequenceNumberError,
    DuplicateVoterError,
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    FeatureUpdateFailedError,
    FencedInstanceIdError,
    FencedLeaderEpochError,
    FencedMemberEpochError,
    FencedStateEpochError,
    FetchSessionIdNotFoundError,
    FetchSessionTopicIdError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    GroupSubscribedToTopicError,
    IllegalGenerationError,
    IllegalSaslStateError,
    InconsistentClusterIdError,
    InconsistentGroupProtocolError,
    InconsistentTopicIdError,
    InconsistentVoterSetError,
    IneligibleReplicaError,
    InvalidCommitOffsetSizeError,
    InvalidConfigError,
    InvalidFetchSessionEpochError,
    InvalidFetchSizeError,
    InvalidGroupIdError,
    InvalidMetadataError,
    InvalidPartitionsError,
    InvalidPrincipalTypeError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidRecordError,
    InvalidRecordStateError,
    InvalidRegistrationError,
    InvalidRegularExpressionError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    InvalidSessionTimeoutError,
    InvalidShareSessionEpochError,
    InvalidTimestampError,
    InvalidTopicError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    InvalidUpdateVersionError,
    InvalidVoterKeyError,
    KafkaError,
    KafkaStorageError,
    LeaderNotAvailableError,
    ListenerNotFoundError,
    LogDirNotFoundError,
    MemberIdRequiredError,
    MessageTooLargeError,
    MismatchedEndpointTypeError,
    NetworkExceptionError,
    NewLeaderElectedError,
    NonEmptyGroupError,
    NoReassignmentInProgressError,
    NotControllerError,
    NotCoordinatorError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetMetadataTooLargeError,
    OffsetMovedToTieredStorageError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    OperationNotAttemptedError,
    OutOfOrderSequenceNumberError,
    PolicyViolationError,
    PositionOutOfRangeError,
    PreferredLeaderNotAvailableError,
    PrincipalDeserializationError,
    ProducerFencedError,
    ReassignmentInProgressError,
    RebalanceInProgressError,
    RebootstrapRequiredError,
    RecordListTooLargeError,
    ReplicaNotAvailableError,
    RequestTimedOutError,
    ResourceNotFoundError,
    RetriableError,
    SaslAuthenticationFailedError,
    SecurityDisabledError,
    ShareSessionLimitReachedError,
    ShareSessionNotFoundError,
    SnapshotNotFoundError,
    StaleBrokerEpochError,
    StaleControllerEpochError,
    StaleMemberEpochError,
    StreamsInvalidTopologyEpochError,
    StreamsInvalidTopologyError,
    StreamsTopologyFencedError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    TopicDeletionDisabledError,
    TransactionAbortableError,
    TransactionalIdAuthorizationFailedError,
    TransactionalIdNotFoundError,
    TransactionCoordinatorFencedError,
    UnacceptableCredentialError,
    UnknownControllerIdError,
    UnknownLeaderEpochError,
    UnknownMemberIdError,
    UnknownProducerIdError,
    UnknownServerError,
    UnknownSubscriptionIdError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnreleasedInstanceIdError,
    UnstableOffsetCommitError,
    UnsupportedAssignorError,
    UnsupportedCompressionTypeError,
    UnsupportedEndpointTypeError,
    UnsupportedForMessageFormatError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
    VoterNotFoundError,
    for_code,
)
from pyconsumer.structs import TopicPartition

__all__ = [
    "BY_CODE",
    "AuthenticationError",
    "BrokerIdNotRegisteredError",
    "BrokerNotAvailableError",
    "BrokerResponseError",
    "BrokerStartError",
    "BufferExhaustedError",
    "ClusterAuthorizationFailedError",
    "CommitFailedError",
    "ConcurrentAccessError",
    "ConcurrentTransactionsError",
    "ConfigurationError",
    "CoordinatorLoadInProgressError",
    "CoordinatorNotAvailableError",
    "CorruptMessageError",
    "CorruptRecordError",
    "DelegationTokenAuthDisabledError",
    "DelegationTokenAuthorizationFailedError",
    "DelegationTokenExpiredError",
    "DelegationTokenNotFoundError",
    "DelegationTokenOwnerMismatchError",
    "DelegationTokenRequestNotAllowedError",
    "DuplicateBrokerRegistrationError",
    "DuplicateResourceError",
    "DuplicateSequenceNumberError",
    "DuplicateVoterError",
    "ElectionNotNeededError",
    "EligibleLeadersNotAvailableError",
    "FeatureUpdateFailedError",
    "FencedInstanceIdError",
    "FencedLeaderEpochError",
    "FencedMemberEpochError",
    "FencedStateEpochError",
    "FetchSessionIdNotFoundError",
    "FetchSessionTopicIdError",
    "GroupAuthorizationFailedError",
    "GroupIdNotFoundError",
    "GroupMaxSizeReachedError",
    "GroupSubscribedToTopicError",
    "IllegalGenerationError",
    "IllegalSaslStateError",
    "IllegalStateError",
    "InconsistentClusterIdError",
    "InconsistentGroupProtocolError",
    "InconsistentTopicIdError",
    "InconsistentVoterSetError",
    "IneligibleReplicaError",
    "InvalidCommitOffsetSizeError",
    "InvalidConfigError",
    "InvalidFetchSessionEpochError",
    "InvalidFetchSizeError",
    "InvalidGroupIdError",
    "InvalidMetadataError",
    "InvalidOffsetError",
    "InvalidPartitionsError",
    "InvalidPrincipalTypeError",
    "InvalidProducerEpochError",
    "InvalidProducerIdMappingError",
    "InvalidRecordError",
    "InvalidRecordStateError",
    "InvalidRegistrationError",
    "InvalidRegularExpressionError",
    "InvalidReplicaAssignmentError",
    "InvalidReplicationFactorError",
    "InvalidRequestError",
    "InvalidRequiredAcksError",
    "InvalidSessionTimeoutError",
    "InvalidShareSessionEpochError",
    "InvalidTimestampError",
    "InvalidTopicError",
    "InvalidTransactionTimeoutError",
    "InvalidTxnStateError",
    "InvalidUpdateVersionError",
    "InvalidVoterKeyError",
    "KafkaConnectionError",
    "KafkaError",
    "KafkaStorageError",
    "KafkaTimeoutError",
    "LeaderNotAvailableError",
    "ListenerNotFoundError",
    "LogDirNotFoundError",
    "LogTruncationError",
    "MemberIdRequiredError",
    "MessageTooLargeError",
    "MismatchedEndpointTypeError",
    "NetworkExceptionError",
    "NewLeaderElectedError",
    "NoBrokersAvailableError",
    "NoOffsetForPartitionError",
    "NoReassignmentInProgressError",
    "NodeNotReadyError",
    "NonEmptyGroupError",
    "NotControllerError",
    "NotCoordinatorError",
    "NotEnoughReplicasAfterAppendError",
    "NotEnoughReplicasError",
    "NotLeaderOrFollowerError",
    "OffsetMetadataTooLargeError",
    "OffsetMovedToTieredStorageError",
    "OffsetNotAvailableError",
    "OffsetOutOfRangeError",
    "OffsetsOutOfRangeError",
    "OperationNotAttemptedError",
    "OutOfOrderSequenceNumberError",
    "PolicyViolationError",
    "PositionOutOfRangeError",
    "PreferredLeaderNotAvailableError",
    "PrincipalDeserializationError",
    "ProducerFencedError",
    "ProtocolError",
    "ReassignmentInProgressError",
    "RebalanceInProgressError",
    "RebootstrapRequiredError",
    "RecordDeserializationError",
    "RecordListTooLargeError",
    "RecordTooLargeError",
    "ReplicaNotAvailableError",
    "RequestCancelledError",
    "RequestTimedOutError",
    "ResourceNotFoundError",
    "RetriableCommitFailedError",
    "RetriableError",
    "SaslAuthenticationFailedError",
    "SecurityDisabledError",
    "SerializationError",
    "ShareSessionLimitReachedError",
    "ShareSessionNotFoundError",
    "SnapshotNotFoundError",
    "StaleBrokerEpochError",
    "StaleControllerEpochError",
    "StaleMemberEpochError",
    "StreamsInvalidTopologyEpochError",
    "StreamsInvalidTopologyError",
    "StreamsTopologyFencedError",
    "TelemetryTooLargeError",
    "ThrottlingQuotaExceededError",
    "TopicAlreadyExistsError",
    "TopicAuthorizationFailedError",
    "TopicDeletionDisabledError",
    "TransactionAbortableError",
    "TransactionCoordinatorFencedError",
    "TransactionalIdAuthorizationFailedError",
    "TransactionalIdNotFoundError",
    "UnacceptableCredentialError",
    "UnknownControllerIdError",
    "UnknownLeaderEpochError",
    "UnknownMemberIdError",
    "UnknownProducerIdError",
    "UnknownServerError",
    "UnknownSubscriptionIdError",
    "UnknownTopicIdError",
    "UnknownTopicOrPartitionError",
    "UnreleasedInstanceIdError",
    "UnstableOffsetCommitError",
    "UnsupportedAssignorError",
    "UnsupportedCodecError",
    "UnsupportedCompressionTypeError",
    "UnsupportedEndpointTypeError",
    "UnsupportedForMessageFormatError",
    "UnsupportedSaslMechanismError",
    "UnsupportedVersionError",
    "VoterNotFoundError",
    "WakeupError",
    "for_code",
]


class ConfigurationError(KafkaError, ValueError):
    """A setting is unknown, of the wrong type, out of range, or contradicts another one."""


class IllegalStateError(KafkaError):
    """The call makes no sense now: after ``close()``, for a partition not assigned, inside a callback, ..."""


class ConcurrentAccessError(IllegalStateError):
    """Two threads used one consumer at a time. Only ``wakeup()`` may be called from another thread."""


class WakeupError(KafkaError):
    """``wakeup()`` interrupted a blocking call."""


class KafkaTimeoutError(RetriableError, TimeoutError):
    """A call did not finish within its ``timeout_ms``. The message names what it was waiting for."""


class RequestCancelledError(RetriableError):
    """A request was given up before its answer came, because its owner closed or lost interest."""


class KafkaConnectionError(InvalidMetadataError):
    """A broker could not be reached, or the connection broke.

    Args:
        message: what happened, with the last cause.
        stage: where: ``DNS``, ``TCP``, ``TLS``, ``SASL``, ``ApiVersions`` or ``established``.
        address: ``host:port``.
    """

    def __init__(self, message: str = "", *, stage: str = "established", address: str = "") -> None:
        super().__init__(message)
        self.stage = stage
        self.address = address

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.args, {"stage": self.stage, "address": self.address}))


class AuthenticationError(KafkaConnectionError):
    """TLS or SASL refused us. Trying again with the same settings will not help."""

    retriable = False
    invalid_metadata = False


class NoBrokersAvailableError(KafkaConnectionError):
    """None of the bootstrap addresses could be reached; the message lists each with its cause."""


class ProtocolError(KafkaError):
    """Bytes that do not follow Kafka's protocol, or a value that cannot be put into it."""


class CorruptRecordError(ProtocolError):
    """A record batch is damaged or not legal.

    Args:
        message: what is wrong with it.
        topic_partition: where it came from, if known.
        offset: base offset of the batch, or offset of the record, -1 if unknown.
        next_offset: offset after the damaged batch, as far as its header can be read, otherwise ``offset + 1``; -1 if
            unknown. ``seek(error.topic_partition, error.next_offset)`` skips the whole batch.
    """

    def __init__(
        self,
        message: str = "",
        *,
        topic_partition: TopicPartition | None = None,
        offset: int = -1,
        next_offset: int = -1,
    ) -> None:
        super().__init__(message)
        self.topic_partition = topic_partition
        self.offset = offset
        self.next_offset = max(next_offset, offset + 1) if offset >= 0 else next_offset

    def __str__(self) -> str:
        text = super().__str__()
        if self.topic_partition is None:
            return text
        return f"{self.topic_partition} at offset {self.offset}: {text}"

    def __reduce__(self) -> tuple[Any, ...]:
        state = {"topic_partition": self.topic_partition, "offset": self.offset, "next_offset": self.next_offset}
        return (_rebuild, (type(self), self.args, state))


class UnsupportedCodecError(KafkaError):
    """A compression type is unknown, or its library is not installed; the message says which."""


class SerializationError(KafkaError):
    """A serializer or deserializer of the user's raised; it is the ``__cause__``."""


class RecordDeserializationError(SerializationError):
    """A record's key or value could not be deserialized (KIP-1036).

    The position stays at the record: ``seek(error.topic_partition, error.offset + 1)`` steps over it.

    Attributes:
        origin: ``"key"`` or ``"value"``.
        timestamp: in ms since the epoch.
        key, value: the raw bytes. headers: list of ``(str, bytes | None)``.
    """

    def __init__(
        self,
        message: str = "",
        *,
        topic_partition: TopicPartition,
        offset: int,
        origin: str = "value",
        timestamp: int = -1,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        super().__init__(message)
        self.topic_partition = topic_partition
        self.offset = offset
        self.origin = origin
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = list(headers)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {k: v for k, v in self.__dict__.items() if not k.startswith("__")}
        return (_rebuild, (type(self), self.args, state))


class InvalidOffsetError(KafkaError):
    """No offset to read from: none is committed, or it is out of range, and ``auto_offset_reset`` is ``none``.

    Attributes:
        partitions: the partitions concerned; the value is the offset that was out of range, or None.
    """

    def __init__(self, message: str = "", *, partitions: Mapping[TopicPartition, int | None] | None = None) -> None:
        super().__init__(message)
        self.partitions: dict[TopicPartition, int | None] = dict(partitions or {})

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.args, {"partitions": self.partitions}))


class NoOffsetForPartitionError(InvalidOffsetError):
    """There is no committed offset and ``auto_offset_reset`` is ``none``: seek, or choose a reset policy."""


class OffsetsOutOfRangeError(InvalidOffsetError):
    """A position is not in the log any more and ``auto_offset_reset`` is ``none``: seek, or choose a reset policy."""


class LogTruncationError(OffsetsOutOfRangeError):
    """Records that were read have been replaced after a leader change (KIP-320)."""


class CommitFailedError(KafkaError):
    """Offsets could not be committed because the member is no longer part of the group's current generation.

    The records since the last commit will be processed again by whoever owns the partitions now.
    """


class RetriableCommitFailedError(RetriableError):
    """An asynchronous commit failed for a passing reason; its cause is attached. Commit again."""


class NodeNotReadyError(RetriableError):
    """No connection to the node is ready at the moment."""


class BufferExhaustedError(KafkaTimeoutError):
    """The producer's ``buffer_memory`` stayed full for ``max_block_ms``."""


class RecordTooLargeError(KafkaError):
    """A record is larger than ``max_request_size`` or ``buffer_memory`` allows, so it can never be sent."""


class BrokerStartError(KafkaError):
    """The embedded broker did not start; the message holds what it said."""


def _rebuild(cls: type[KafkaError], args: tuple[Any, ...], state: dict[str, Any]) -> KafkaError:
    """Unpickle an error that has keyword arguments."""
    error: KafkaError = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error
