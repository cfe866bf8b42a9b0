"""All errors that pyconsumer raises, Kafka's error codes, and ``for_code``, which makes an error of a code.

Three questions of a caller, and their answers:

* *May I try again?* ``error.retriable``.
* *Whose fault is it?* Errors of the broker are :class:`BrokerResponseError` with Kafka's code in ``errno``. Wrong
  arguments and settings are :class:`ConfigurationError`, ``ValueError`` or ``TypeError``. Calls at the wrong moment
  are :class:`IllegalStateError`. Bytes that make no sense are :class:`ProtocolError`.
* *Which change helps?* The message says it.

The order of the module: base classes, errors of pyconsumer itself, errors that a broker sends as codes, one class each.
At its end are :class:`Errors`, the codes by Kafka's names, and :func:`for_code`, the error of a code. Codes, names
and retriability are those of Apache Kafka's ``org.apache.kafka.common.protocol.Errors``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, ClassVar

from pyconsumer.structs import TopicPartition

__all__ = [
    "BY_CODE",
    "ApplicationRecoverableError",
    "AuthenticationError",
    "BootstrapResolutionError",
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
    "ControllerIdNotRegisteredError",
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
    "Errors",
    "FeatureUpdateFailedError",
    "FencedInstanceIdError",
    "FencedLeaderEpochError",
    "FencedMemberEpochError",
    "FencedStateEpochError",
    "FetchSessionIdNotFoundError",
    "FetchSessionTopicIdError",
    "GroupAuthorizationFailedError",
    "GroupDeletionFailedError",
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
    "InvalidConfigurationError",
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
    "LastDeliveryError",
    "LeaderNotAvailableError",
    "ListenerNotFoundError",
    "LogDirNotFoundError",
    "LogTruncationError",
    "MemberIdRequiredError",
    "MessageTooLargeError",
    "MismatchedEndpointTypeError",
    "MisroutedConnectionError",
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
    "RefreshRetriableError",
    "ReplicaNotAvailableError",
    "RequestCancelledError",
    "RequestTimedOutError",
    "ResourceNotFoundError",
    "RetriableCommitFailedError",
    "RetriableError",
    "SaslAuthenticationFailedError",
    "SchemaUnavailableError",
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
    "StreamsTopologyDescriptionUpdateFailedError",
    "StreamsTopologyFencedError",
    "TelemetryTooLargeError",
    "ThrottlingQuotaExceededError",
    "TopicAlreadyExistsError",
    "TopicAuthorizationFailedError",
    "TopicDeletionDisabledError",
    "TransactionAbortableError",
    "TransactionAbortedError",
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
    "error_name",
    "for_code",
]


class KafkaError(Exception):
    """Base class of all errors that pyconsumer raises deliberately.

    Attributes:
        retriable: True if the same call may succeed later, without a change.
        invalid_metadata: True if the client's metadata of the cluster may be out of date. Clients refresh it by
            themselves.
    """

    retriable: ClassVar[bool] = False
    invalid_metadata: ClassVar[bool] = False


class RetriableError(KafkaError):
    """Mixin: the same call may succeed later."""

    retriable: ClassVar[bool] = True


class RefreshRetriableError(RetriableError):
    """Mixin: the leader or coordinator must be looked up again before another attempt.

    Clients do that by themselves (KIP-1050).
    """


class InvalidMetadataError(RefreshRetriableError):
    """Mixin: metadata must be refreshed before another attempt."""

    invalid_metadata: ClassVar[bool] = True


class ApplicationRecoverableError(KafkaError):
    """Mixin: this client cannot continue. Close it, create a new one, and repeat the work (KIP-1050)."""


class InvalidConfigurationError(KafkaError):
    """Mixin: a setting, a permission or the data must be changed first (KIP-1050)."""


class BrokerResponseError(KafkaError):
    """A broker responded with an error code.

    Attributes:
        errno: the code on the wire.
        code_name: Kafka's name of the code, such as ``NOT_COORDINATOR``.
        message: the same as ``code_name``. This is kafka-python's name for it.
    """

    errno: ClassVar[int] = -1
    code_name: ClassVar[str] = "UNKNOWN_SERVER_ERROR"
    message: ClassVar[str] = code_name

    def __init_subclass__(cls) -> None:
        cls.message = cls.code_name

    def __str__(self) -> str:
        detail = super().__str__()
        text = f"{self.code_name} (error code {self.errno})"
        if detail:
            return f"{text}: {detail}"
        return f"{text}: {' '.join(self.__doc__.split())}" if self.__doc__ else text


# ------------------------------------------------------------ errors of pyconsumer itself


class ConfigurationError(KafkaError, ValueError):
    """A setting is unknown, missing, of the wrong type, out of range, or contradicts another one."""


class IllegalStateError(KafkaError):
    """The call is not possible now, for example after ``close()``, or inside a callback.

    Or it needs a partition that is not assigned.
    """


class ConcurrentAccessError(IllegalStateError):
    """Two threads used one consumer at the same time. Give each thread its own.

    Only ``wakeup()`` is safe from any thread.
    """


class WakeupError(KafkaError):
    """A blocking call was interrupted by ``wakeup()``. No record is lost. Call again, or close the consumer."""


class KafkaTimeoutError(RetriableError, TimeoutError):
    """A call did not finish in time. The message has the cause. Try again, or allow more time."""


class TransactionAbortedError(KafkaError):
    """The record or the offsets were not sent, because their transaction was aborted first."""


class RequestCancelledError(RetriableError):
    """The client cancelled a request before its response arrived, because it closed or no longer needs the response."""


class KafkaConnectionError(InvalidMetadataError):
    """A broker could not be reached, or the connection broke.

    Args:
        message: the event, with the last cause.
        stage: the stage at which it failed: ``DNS``, ``TCP``, ``TLS``, ``SASL``, ``ApiVersions`` or ``established``.
        address: ``host:port``.
    """

    def __init__(self, message: str = "", *, stage: str = "established", address: str = "") -> None:
        super().__init__(message)
        self.stage = stage
        self.address = address

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.args, {"stage": self.stage, "address": self.address}))


class AuthenticationError(KafkaConnectionError, InvalidConfigurationError):
    """The broker rejected the connection during TLS or SASL. Correct the credentials or certificates.

    A retry does not help.
    """

    retriable = False
    invalid_metadata = False


class MisroutedConnectionError(KafkaConnectionError):
    """The address of a broker leads to another broker, or to another cluster (KIP-1242). The client starts over with
    ``bootstrap_servers``."""


class NoBrokersAvailableError(KafkaConnectionError):
    """None of the bootstrap addresses could be reached. The message lists the cause for each.

    Check ``bootstrap_servers``.
    """


class BootstrapResolutionError(NoBrokersAvailableError):
    """No name in ``bootstrap_servers`` could be looked up within ``bootstrap_resolve_timeout_ms`` (KIP-909). Check the
    names and the name servers."""


class ProtocolError(KafkaError):
    """Bytes do not follow Kafka's protocol, or a value cannot be encoded in it."""


class CorruptRecordError(ProtocolError):
    """A record batch is damaged or illegal.

    Args:
        message: the fault in words.
        topic_partition: the partition of the batch, if known.
        offset: base offset of the batch, or offset of the record. -1 if unknown.
        next_offset: the offset after the damaged batch. If the batch's header cannot be read, it is ``offset + 1``. -1
            if unknown. ``seek(error.topic_partition, error.next_offset)`` skips the batch.
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
    """A compression type is unknown, or its library is not installed. The message names the type."""


class SerializationError(KafkaError):
    """A serializer or deserializer of the user raised an exception. That exception is the ``__cause__``."""


class RecordDeserializationError(SerializationError):
    """A record's key or value could not be deserialized (KIP-1036).

    The position stays at the record. To skip it: ``seek(error.topic_partition, error.offset + 1)``.

    Attributes:
        origin: ``"key"`` or ``"value"``.
        timestamp: timestamp of the record, in ms since the epoch.
        key, value: the bytes of key and value.
        headers: the headers, a list of ``(str, bytes | None)``.
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


class LastDeliveryError(RecordDeserializationError):
    """A record of a share group was released in its last delivery.

    It is not raised. A dead-letter sink gets it, in the form in which it gets records that cannot be deserialized.

    Attributes:
        delivery_count: how often the record was delivered.
    """

    def __init__(self, message: str = "", *, delivery_count: int = 0, **record: Any) -> None:
        super().__init__(message, **record)
        self.delivery_count = delivery_count


class SchemaUnavailableError(SerializationError):
    """The schema of a record could not be fetched from the registry. Nothing is wrong with the record.

    It comes out of ``poll`` itself and never goes to ``on_record_error``. The position stays at the record.

    Args:
        message: the cause, with the schema's id.
        retriable: False if a setting or a permission has to be changed first.
    """

    def __init__(self, message: str = "", *, retriable: bool = True) -> None:
        super().__init__(message)
        self.retriable = retriable  # type: ignore[misc]

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.args, {"retriable": self.retriable}))


class InvalidOffsetError(KafkaError):
    """There is no offset to read from, and ``auto_offset_reset`` is ``none``.

    Either no offset is committed, or the position is out of range.

    Attributes:
        partitions: the affected partitions. The values are the offsets that were out of range, or None.
    """

    def __init__(self, message: str = "", *, partitions: Mapping[TopicPartition, int | None] | None = None) -> None:
        super().__init__(message)
        self.partitions: dict[TopicPartition, int | None] = dict(partitions or {})

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.args, {"partitions": self.partitions}))


class NoOffsetForPartitionError(InvalidOffsetError):
    """There is no committed offset, and ``auto_offset_reset`` is ``none``. Seek, or choose a reset policy.

    This is also raised if a topic was deleted and created again, because the position belonged to the old topic.
    """


class OffsetsOutOfRangeError(InvalidOffsetError):
    """A position is no longer in the log, and ``auto_offset_reset`` is ``none``. Seek, or choose a reset policy."""


class LogTruncationError(OffsetsOutOfRangeError):
    """Records that were read have been replaced after a change of leader (KIP-320). Seek, or choose a reset policy."""


class CommitFailedError(KafkaError):
    """Offsets could not be committed, because the member is no longer in the group's current generation.

    The present owners of the partitions will process the records since the last commit again.
    """


class RetriableCommitFailedError(RetriableError):
    """An asynchronous commit failed, but may succeed later. The ``__cause__`` is the reason. Commit again."""


class NodeNotReadyError(RetriableError):
    """No connection to the node is ready at the moment. Try again."""


class BufferExhaustedError(KafkaTimeoutError):
    """The producer's ``buffer_memory`` stayed full for ``max_block_ms``.

    Send more slowly, or raise one of these settings.
    """


class RecordTooLargeError(KafkaError):
    """A record is larger than ``max_request_size`` or ``buffer_memory``, so it can never be sent."""


class BrokerStartError(KafkaError):
    """The embedded broker did not start. The message contains its output."""


def _rebuild(cls: type[KafkaError], args: tuple[Any, ...], state: dict[str, Any]) -> KafkaError:
    """Unpickle an error that has keyword arguments."""
    error: KafkaError = cls.__new__(cls, *args)  # which sets args, as for every exception
    error.__dict__.update(state)
    return error


# ------------------------------------------------------------ errors that a broker sends


class UnknownServerError(BrokerResponseError):
    """The broker failed for a reason that has no error code. The broker's log has the reason."""

    errno = -1
    code_name = "UNKNOWN_SERVER_ERROR"


class OffsetOutOfRangeError(BrokerResponseError):
    """The requested offset is not in the log. It was deleted, or lies beyond the end.

    Choose an offset within the log.
    """

    errno = 1
    code_name = "OFFSET_OUT_OF_RANGE"


class CorruptMessageError(BrokerResponseError, RetriableError):
    """A record batch failed its checksum, is too large or is malformed."""

    errno = 2
    code_name = "CORRUPT_MESSAGE"
    retriable = True


class UnknownTopicOrPartitionError(BrokerResponseError, InvalidMetadataError):
    """The broker does not host this topic or partition. Check its name. If it was just created, wait."""

    errno = 3
    code_name = "UNKNOWN_TOPIC_OR_PARTITION"
    retriable = True
    invalid_metadata = True


class InvalidFetchSizeError(BrokerResponseError):
    """The requested fetch size is invalid. Check fetch_max_bytes and max_partition_fetch_bytes."""

    errno = 4
    code_name = "INVALID_FETCH_SIZE"


class LeaderNotAvailableError(BrokerResponseError, InvalidMetadataError):
    """The partition has no leader at the moment, for instance during an election. Try again."""

    errno = 5
    code_name = "LEADER_NOT_AVAILABLE"
    retriable = True
    invalid_metadata = True


class NotLeaderOrFollowerError(BrokerResponseError, InvalidMetadataError):
    """The broker is not the partition's leader, or not one of its replicas. Refresh metadata and try again."""

    errno = 6
    code_name = "NOT_LEADER_OR_FOLLOWER"
    retriable = True
    invalid_metadata = True


class RequestTimedOutError(BrokerResponseError, RetriableError):
    """The broker did not complete the request within the time allowed. Try again, or allow more time."""

    errno = 7
    code_name = "REQUEST_TIMED_OUT"
    retriable = True


class BrokerNotAvailableError(BrokerResponseError):
    """The broker is not available. Check that it is running."""

    errno = 8
    code_name = "BROKER_NOT_AVAILABLE"


class ReplicaNotAvailableError(BrokerResponseError, InvalidMetadataError):
    """The broker's replica of the partition is not available. Try again."""

    errno = 9
    code_name = "REPLICA_NOT_AVAILABLE"
    retriable = True
    invalid_metadata = True


class MessageTooLargeError(BrokerResponseError):
    """The record batch is larger than the topic's max.message.bytes. Send smaller records, or raise that limit."""

    errno = 10
    code_name = "MESSAGE_TOO_LARGE"


class StaleControllerEpochError(BrokerResponseError):
    """The controller has moved to another node."""

    errno = 11
    code_name = "STALE_CONTROLLER_EPOCH"


class OffsetMetadataTooLargeError(BrokerResponseError):
    """The metadata string of a committed offset is longer than offset.metadata.max.bytes on the broker. Shorten it."""

    errno = 12
    code_name = "OFFSET_METADATA_TOO_LARGE"


class NetworkExceptionError(BrokerResponseError, InvalidMetadataError):
    """The broker disconnected before its response arrived. Try again."""

    errno = 13
    code_name = "NETWORK_EXCEPTION"
    retriable = True
    invalid_metadata = True


class CoordinatorLoadInProgressError(BrokerResponseError, RetriableError):
    """The coordinator is still loading the state of this group or transactional id. Try again."""

    errno = 14
    code_name = "COORDINATOR_LOAD_IN_PROGRESS"
    retriable = True


class CoordinatorNotAvailableError(BrokerResponseError, RefreshRetriableError):
    """The coordinator is not available, for instance because it is moving to another broker. Try again."""

    errno = 15
    code_name = "COORDINATOR_NOT_AVAILABLE"
    retriable = True


class NotCoordinatorError(BrokerResponseError, RefreshRetriableError):
    """The broker does not coordinate this group or transactional id. Look up the coordinator and try again."""

    errno = 16
    code_name = "NOT_COORDINATOR"
    retriable = True


class InvalidTopicError(BrokerResponseError, InvalidConfigurationError):
    """The topic name is illegal or reserved. Use 1 to 249 ASCII letters, digits, '.', '_' and '-'."""

    errno = 17
    code_name = "INVALID_TOPIC_EXCEPTION"


class RecordListTooLargeError(BrokerResponseError, InvalidConfigurationError):
    """The record batch is larger than the topic's segment.bytes. Send smaller batches, or raise that limit."""

    errno = 18
    code_name = "RECORD_LIST_TOO_LARGE"


class NotEnoughReplicasError(BrokerResponseError, RetriableError):
    """The broker rejected the batch because fewer replicas are in sync than min.insync.replicas requires. Check the
    other brokers."""

    errno = 19
    code_name = "NOT_ENOUGH_REPLICAS"
    retriable = True


class NotEnoughReplicasAfterAppendError(BrokerResponseError, RetriableError):
    """The batch was written, but with fewer replicas in sync than min.insync.replicas requires. Check the other
    brokers."""

    errno = 20
    code_name = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    retriable = True


class InvalidRequiredAcksError(BrokerResponseError, InvalidConfigurationError):
    """The request has an illegal value for acks. Use 0, 1 or all."""

    errno = 21
    code_name = "INVALID_REQUIRED_ACKS"


class IllegalGenerationError(BrokerResponseError, ApplicationRecoverableError):
    """The generation in the request is not the current one, because the group has rebalanced. Join the group again."""

    errno = 22
    code_name = "ILLEGAL_GENERATION"


class InconsistentGroupProtocolError(BrokerResponseError):
    """The member has no assignor in common with the group's other members, or the group has another type.

    Configure a common assignor, or use another group_id.
    """

    errno = 23
    code_name = "INCONSISTENT_GROUP_PROTOCOL"


class InvalidGroupIdError(BrokerResponseError):
    """The group id is missing, empty or illegal. Set group_id to a non-empty name."""

    errno = 24
    code_name = "INVALID_GROUP_ID"


class UnknownMemberIdError(BrokerResponseError, ApplicationRecoverableError):
    """The coordinator does not know this member. It was removed, has left, or never joined. Join the group again."""

    errno = 25
    code_name = "UNKNOWN_MEMBER_ID"


class InvalidSessionTimeoutError(BrokerResponseError):
    """The session timeout is out of range.

    Choose a session_timeout_ms between the broker's group.min.session.timeout.ms and group.max.session.timeout.ms.
    """

    errno = 26
    code_name = "INVALID_SESSION_TIMEOUT"


class RebalanceInProgressError(BrokerResponseError):
    """The group is rebalancing, and the member must join again. Call poll(), then repeat the operation."""

    errno = 27
    code_name = "REBALANCE_IN_PROGRESS"


class InvalidCommitOffsetSizeError(BrokerResponseError):
    """The committed offset with its metadata string is larger than the broker accepts. Shorten the string."""

    errno = 28
    code_name = "INVALID_COMMIT_OFFSET_SIZE"


class TopicAuthorizationFailedError(BrokerResponseError, InvalidConfigurationError):
    """The principal is not authorized for this operation on the topic. Grant it an ACL that allows the operation.

    Attributes:
        topics: the names of the topics, if the error is about a request for several of them. Otherwise empty.
    """

    errno = 29
    code_name = "TOPIC_AUTHORIZATION_FAILED"

    def __init__(self, *args: object, topics: Iterable[str] = ()) -> None:
        super().__init__(*args)
        self.topics = frozenset(topics)


class GroupAuthorizationFailedError(BrokerResponseError, InvalidConfigurationError):
    """The principal is not authorized to use this group. Grant it an ACL that allows the operation."""

    errno = 30
    code_name = "GROUP_AUTHORIZATION_FAILED"


class ClusterAuthorizationFailedError(BrokerResponseError, InvalidConfigurationError):
    """The principal is not authorized for this operation on the cluster. Grant it an ACL that allows the operation."""

    errno = 31
    code_name = "CLUSTER_AUTHORIZATION_FAILED"


class InvalidTimestampError(BrokerResponseError):
    """A record's timestamp is outside the topic's message.timestamp.before.max.ms and message.timestamp.after.max.ms.
    Correct the timestamp."""

    errno = 32
    code_name = "INVALID_TIMESTAMP"


class UnsupportedSaslMechanismError(BrokerResponseError, InvalidConfigurationError):
    """The broker does not offer this SASL mechanism. Set sasl_mechanism to one that the broker has enabled."""

    errno = 33
    code_name = "UNSUPPORTED_SASL_MECHANISM"


class IllegalSaslStateError(BrokerResponseError, InvalidConfigurationError):
    """The request is not allowed in the current state of the SASL exchange."""

    errno = 34
    code_name = "ILLEGAL_SASL_STATE"


class UnsupportedVersionError(BrokerResponseError, InvalidConfigurationError):
    """The broker does not support this API, or not this version of it.

    Upgrade the broker, or do without the feature.
    """

    errno = 35
    code_name = "UNSUPPORTED_VERSION"


class TopicAlreadyExistsError(BrokerResponseError):
    """A topic with this name already exists. Choose another name, or use that topic."""

    errno = 36
    code_name = "TOPIC_ALREADY_EXISTS"


class InvalidPartitionsError(BrokerResponseError):
    """The number of partitions is illegal. A new topic needs at least 1. An existing topic needs more than it has."""

    errno = 37
    code_name = "INVALID_PARTITIONS"


class InvalidReplicationFactorError(BrokerResponseError, InvalidConfigurationError):
    """The replication factor is below 1, or above the number of available brokers. Choose a value in between."""

    errno = 38
    code_name = "INVALID_REPLICATION_FACTOR"


class InvalidReplicaAssignmentError(BrokerResponseError):
    """The replica assignment is invalid. Each partition needs the same number of existing brokers, each named once."""

    errno = 39
    code_name = "INVALID_REPLICA_ASSIGNMENT"


class InvalidConfigError(BrokerResponseError, InvalidConfigurationError):
    """The configuration is invalid. Check the names and values of its settings."""

    errno = 40
    code_name = "INVALID_CONFIG"


class NotControllerError(BrokerResponseError, RetriableError):
    """The node is not the controller. Look up the controller and try again."""

    errno = 41
    code_name = "NOT_CONTROLLER"
    retriable = True


class InvalidRequestError(BrokerResponseError):
    """The broker rejected the request as malformed or inconsistent. The broker's log has the reason."""

    errno = 42
    code_name = "INVALID_REQUEST"


class UnsupportedForMessageFormatError(BrokerResponseError, InvalidConfigurationError):
    """The message format on the broker does not support the request. Upgrade the broker."""

    errno = 43
    code_name = "UNSUPPORTED_FOR_MESSAGE_FORMAT"


class PolicyViolationError(BrokerResponseError):
    """The request violates a policy of the cluster. Change the request to comply with it."""

    errno = 44
    code_name = "POLICY_VIOLATION"


class OutOfOrderSequenceNumberError(BrokerResponseError):
    """The broker received a batch out of order: earlier batches of this producer are missing."""

    errno = 45
    code_name = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class DuplicateSequenceNumberError(BrokerResponseError):
    """The broker has already written this batch of the producer, and does not write it again."""

    errno = 46
    code_name = "DUPLICATE_SEQUENCE_NUMBER"


class InvalidProducerEpochError(BrokerResponseError, ApplicationRecoverableError):
    """The producer's epoch is older than the epoch that the broker knows.

    Abort the transaction, or create a new producer.
    """

    errno = 47
    code_name = "INVALID_PRODUCER_EPOCH"


class InvalidTxnStateError(BrokerResponseError):
    """The state of the transaction does not allow this operation."""

    errno = 48
    code_name = "INVALID_TXN_STATE"


class InvalidProducerIdMappingError(BrokerResponseError, ApplicationRecoverableError):
    """The producer id is not the one assigned to this transactional id. Create a new producer."""

    errno = 49
    code_name = "INVALID_PRODUCER_ID_MAPPING"


class InvalidTransactionTimeoutError(BrokerResponseError):
    """The transaction timeout is longer than the broker's transaction.max.timeout.ms. Choose a shorter one."""

    errno = 50
    code_name = "INVALID_TRANSACTION_TIMEOUT"


class ConcurrentTransactionsError(BrokerResponseError, RetriableError):
    """Another operation on the same transaction is still in progress. Try again."""

    errno = 51
    code_name = "CONCURRENT_TRANSACTIONS"
    retriable = True


class TransactionCoordinatorFencedError(BrokerResponseError):
    """The sender of the transaction marker is no longer the coordinator of this producer."""

    errno = 52
    code_name = "TRANSACTION_COORDINATOR_FENCED"


class TransactionalIdAuthorizationFailedError(BrokerResponseError, InvalidConfigurationError):
    """The principal is not authorized to use this transactional id. Grant it an ACL that allows the operation."""

    errno = 53
    code_name = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


class SecurityDisabledError(BrokerResponseError):
    """The broker has security features disabled. Configure an authorizer on it to manage ACLs."""

    errno = 54
    code_name = "SECURITY_DISABLED"


class OperationNotAttemptedError(BrokerResponseError):
    """The broker skipped this operation, because another operation in the same request failed.

    Correct that one and try again.
    """

    errno = 55
    code_name = "OPERATION_NOT_ATTEMPTED"


class KafkaStorageError(BrokerResponseError, InvalidMetadataError):
    """The broker had a disk error when it accessed a log file. Check its disks."""

    errno = 56
    code_name = "KAFKA_STORAGE_ERROR"
    retriable = True
    invalid_metadata = True


class LogDirNotFoundError(BrokerResponseError):
    """The broker has no such log directory. Check the path against its log.dirs."""

    errno = 57
    code_name = "LOG_DIR_NOT_FOUND"


class SaslAuthenticationFailedError(BrokerResponseError, InvalidConfigurationError):
    """The broker rejected the SASL credentials. Check the user name, the password or the token."""

    errno = 58
    code_name = "SASL_AUTHENTICATION_FAILED"


class UnknownProducerIdError(BrokerResponseError):
    """The broker no longer has state for this producer id, for instance because retention deleted its records."""

    errno = 59
    code_name = "UNKNOWN_PRODUCER_ID"


class ReassignmentInProgressError(BrokerResponseError):
    """A reassignment of the partition is in progress. Try again when it has completed."""

    errno = 60
    code_name = "REASSIGNMENT_IN_PROGRESS"


class DelegationTokenAuthDisabledError(BrokerResponseError):
    """The broker has delegation tokens disabled. Authenticate in another way."""

    errno = 61
    code_name = "DELEGATION_TOKEN_AUTH_DISABLED"


class DelegationTokenNotFoundError(BrokerResponseError):
    """The broker does not know this delegation token. Request a new one."""

    errno = 62
    code_name = "DELEGATION_TOKEN_NOT_FOUND"


class DelegationTokenOwnerMismatchError(BrokerResponseError):
    """The principal is not an owner or renewer of this delegation token."""

    errno = 63
    code_name = "DELEGATION_TOKEN_OWNER_MISMATCH"


class DelegationTokenRequestNotAllowedError(BrokerResponseError):
    """Delegation tokens need a connection that is authenticated by mTLS or SASL, but not by a delegation token."""

    errno = 64
    code_name = "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"


class DelegationTokenAuthorizationFailedError(BrokerResponseError, InvalidConfigurationError):
    """The principal is not authorized for this operation on the delegation token."""

    errno = 65
    code_name = "DELEGATION_TOKEN_AUTHORIZATION_FAILED"


class DelegationTokenExpiredError(BrokerResponseError):
    """The delegation token has expired. Request a new one."""

    errno = 66
    code_name = "DELEGATION_TOKEN_EXPIRED"


class InvalidPrincipalTypeError(BrokerResponseError):
    """The type of the principal is not supported. Use the type User."""

    errno = 67
    code_name = "INVALID_PRINCIPAL_TYPE"


class NonEmptyGroupError(BrokerResponseError):
    """The group still has members. Stop them, then try again."""

    errno = 68
    code_name = "NON_EMPTY_GROUP"


class GroupIdNotFoundError(BrokerResponseError):
    """The group does not exist. Check the group id."""

    errno = 69
    code_name = "GROUP_ID_NOT_FOUND"


class FetchSessionIdNotFoundError(BrokerResponseError, RetriableError):
    """The broker has dropped the fetch session. The next fetch opens a new one."""

    errno = 70
    code_name = "FETCH_SESSION_ID_NOT_FOUND"
    retriable = True


class InvalidFetchSessionEpochError(BrokerResponseError, RetriableError):
    """The epoch of the fetch session is not the expected one. The next fetch opens a new session."""

    errno = 71
    code_name = "INVALID_FETCH_SESSION_EPOCH"
    retriable = True


class ListenerNotFoundError(BrokerResponseError, InvalidMetadataError):
    """The partition's leader has no listener with the client's listener name. Check the brokers' listeners."""

    errno = 72
    code_name = "LISTENER_NOT_FOUND"
    retriable = True
    invalid_metadata = True


class TopicDeletionDisabledError(BrokerResponseError):
    """The cluster does not allow topics to be deleted. Set delete.topic.enable to true on its brokers."""

    errno = 73
    code_name = "TOPIC_DELETION_DISABLED"


class FencedLeaderEpochError(BrokerResponseError, InvalidMetadataError):
    """The leader epoch in the request is older than the broker's. Refresh metadata and try again."""

    errno = 74
    code_name = "FENCED_LEADER_EPOCH"
    retriable = True
    invalid_metadata = True


class UnknownLeaderEpochError(BrokerResponseError, RetriableError):
    """The leader epoch in the request is newer than the broker's. Try again when the broker has caught up."""

    errno = 75
    code_name = "UNKNOWN_LEADER_EPOCH"
    retriable = True


class UnsupportedCompressionTypeError(BrokerResponseError):
    """This version of the request does not support the compression type. Zstd needs Kafka 2.1 or later."""

    errno = 76
    code_name = "UNSUPPORTED_COMPRESSION_TYPE"


class StaleBrokerEpochError(BrokerResponseError):
    """The epoch of the broker has changed, because the broker has registered again."""

    errno = 77
    code_name = "STALE_BROKER_EPOCH"


class OffsetNotAvailableError(BrokerResponseError, RetriableError):
    """The new leader's high watermark has not caught up since its election. Try again."""

    errno = 78
    code_name = "OFFSET_NOT_AVAILABLE"
    retriable = True


class MemberIdRequiredError(BrokerResponseError):
    """The member has to join again with the member id in the response (KIP-394)."""

    errno = 79
    code_name = "MEMBER_ID_REQUIRED"


class PreferredLeaderNotAvailableError(BrokerResponseError, InvalidMetadataError):
    """The partition's preferred leader is not available. Start its broker, then repeat the election."""

    errno = 80
    code_name = "PREFERRED_LEADER_NOT_AVAILABLE"
    retriable = True
    invalid_metadata = True


class GroupMaxSizeReachedError(BrokerResponseError):
    """The group already has group.max.size members. Stop one of them, or raise that limit on the brokers."""

    errno = 81
    code_name = "GROUP_MAX_SIZE_REACHED"


class FencedInstanceIdError(BrokerResponseError, ApplicationRecoverableError):
    """Another consumer has joined with the same group_instance_id.

    Close this consumer, or give it its own id (KIP-345).
    """

    errno = 82
    code_name = "FENCED_INSTANCE_ID"


class EligibleLeadersNotAvailableError(BrokerResponseError, InvalidMetadataError):
    """No replica of the partition is eligible to become its leader. Start the brokers that hold its replicas."""

    errno = 83
    code_name = "ELIGIBLE_LEADERS_NOT_AVAILABLE"
    retriable = True
    invalid_metadata = True


class ElectionNotNeededError(BrokerResponseError, InvalidMetadataError):
    """The partition needs no leader election, and keeps its leader."""

    errno = 84
    code_name = "ELECTION_NOT_NEEDED"
    retriable = True
    invalid_metadata = True


class NoReassignmentInProgressError(BrokerResponseError):
    """No reassignment of the partition is in progress."""

    errno = 85
    code_name = "NO_REASSIGNMENT_IN_PROGRESS"


class GroupSubscribedToTopicError(BrokerResponseError):
    """The group is subscribed to the topic, so its offsets there cannot be deleted.

    Unsubscribe the group's members first.
    """

    errno = 86
    code_name = "GROUP_SUBSCRIBED_TO_TOPIC"


class InvalidRecordError(BrokerResponseError, InvalidConfigurationError):
    """The broker rejected a record that failed validation, such as one without a key in a compacted topic. Correct the
    record."""

    errno = 87
    code_name = "INVALID_RECORD"


class UnstableOffsetCommitError(BrokerResponseError, RetriableError):
    """A transaction with offsets of this partition has not ended yet (KIP-447). Try again."""

    errno = 88
    code_name = "UNSTABLE_OFFSET_COMMIT"
    retriable = True


class ThrottlingQuotaExceededError(BrokerResponseError, RetriableError):
    """The client has exceeded a quota. Try again later."""

    errno = 89
    code_name = "THROTTLING_QUOTA_EXCEEDED"
    retriable = True


class ProducerFencedError(BrokerResponseError, ApplicationRecoverableError):
    """A newer producer with the same transactional id has fenced this one. Close this producer."""

    errno = 90
    code_name = "PRODUCER_FENCED"


class ResourceNotFoundError(BrokerResponseError):
    """The request refers to a resource that does not exist. Check its name."""

    errno = 91
    code_name = "RESOURCE_NOT_FOUND"


class DuplicateResourceError(BrokerResponseError):
    """The request names the same resource twice. Name it once."""

    errno = 92
    code_name = "DUPLICATE_RESOURCE"


class UnacceptableCredentialError(BrokerResponseError):
    """The broker does not accept this credential. Check its user name and its number of iterations."""

    errno = 93
    code_name = "UNACCEPTABLE_CREDENTIAL"


class InconsistentVoterSetError(BrokerResponseError):
    """The sender or the receiver of the request is not one of the expected voters."""

    errno = 94
    code_name = "INCONSISTENT_VOTER_SET"


class InvalidUpdateVersionError(BrokerResponseError):
    """The version in the update is not valid."""

    errno = 95
    code_name = "INVALID_UPDATE_VERSION"


class FeatureUpdateFailedError(BrokerResponseError):
    """The controller could not update the finalized features. Its log has the reason."""

    errno = 96
    code_name = "FEATURE_UPDATE_FAILED"


class PrincipalDeserializationError(BrokerResponseError):
    """The controller could not read the principal of a forwarded request. Check the security setup of the cluster."""

    errno = 97
    code_name = "PRINCIPAL_DESERIALIZATION_FAILURE"


class SnapshotNotFoundError(BrokerResponseError):
    """The requested metadata snapshot does not exist."""

    errno = 98
    code_name = "SNAPSHOT_NOT_FOUND"


class PositionOutOfRangeError(BrokerResponseError):
    """The requested position is negative, or beyond the end of the metadata snapshot."""

    errno = 99
    code_name = "POSITION_OUT_OF_RANGE"


class UnknownTopicIdError(BrokerResponseError, InvalidMetadataError):
    """The broker does not host a topic with this id. It is new, or it was deleted. Refresh metadata and try again."""

    errno = 100
    code_name = "UNKNOWN_TOPIC_ID"
    retriable = True
    invalid_metadata = True


class DuplicateBrokerRegistrationError(BrokerResponseError):
    """Another broker already uses this broker id. Give each broker its own id."""

    errno = 101
    code_name = "DUPLICATE_BROKER_REGISTRATION"


class BrokerIdNotRegisteredError(BrokerResponseError):
    """No broker is registered with this id. Check the id."""

    errno = 102
    code_name = "BROKER_ID_NOT_REGISTERED"


class InconsistentTopicIdError(BrokerResponseError, InvalidMetadataError):
    """The topic id in the request is not that of the topic's log. Refresh metadata and try again."""

    errno = 103
    code_name = "INCONSISTENT_TOPIC_ID"
    retriable = True
    invalid_metadata = True


class InconsistentClusterIdError(BrokerResponseError):
    """The cluster id in the request is not that of this cluster. Check the address."""

    errno = 104
    code_name = "INCONSISTENT_CLUSTER_ID"


class TransactionalIdNotFoundError(BrokerResponseError):
    """The transactional id does not exist. Check its name."""

    errno = 105
    code_name = "TRANSACTIONAL_ID_NOT_FOUND"


class FetchSessionTopicIdError(BrokerResponseError, RetriableError):
    """The fetch session used topic ids inconsistently. The next fetch opens a new session."""

    errno = 106
    code_name = "FETCH_SESSION_TOPIC_ID_ERROR"
    retriable = True


class IneligibleReplicaError(BrokerResponseError):
    """The new set of in-sync replicas contains a replica that is not eligible."""

    errno = 107
    code_name = "INELIGIBLE_REPLICA"


class NewLeaderElectedError(BrokerResponseError):
    """The partition's state was updated, but its leader has changed."""

    errno = 108
    code_name = "NEW_LEADER_ELECTED"


class OffsetMovedToTieredStorageError(BrokerResponseError):
    """The requested offset has moved to tiered storage."""

    errno = 109
    code_name = "OFFSET_MOVED_TO_TIERED_STORAGE"


class FencedMemberEpochError(BrokerResponseError):
    """The coordinator has fenced the member's epoch. The member has to give up its partitions and join again."""

    errno = 110
    code_name = "FENCED_MEMBER_EPOCH"


class UnreleasedInstanceIdError(BrokerResponseError):
    """Another member of the group still uses this group_instance_id. Close that member first."""

    errno = 111
    code_name = "UNRELEASED_INSTANCE_ID"


class UnsupportedAssignorError(BrokerResponseError):
    """The group coordinator does not support this assignor or its version.

    Choose an assignor that the coordinator has configured.
    """

    errno = 112
    code_name = "UNSUPPORTED_ASSIGNOR"


class StaleMemberEpochError(BrokerResponseError):
    """The member's epoch is out of date. Try again after its next heartbeat."""

    errno = 113
    code_name = "STALE_MEMBER_EPOCH"


class MismatchedEndpointTypeError(BrokerResponseError):
    """The request was sent to a broker instead of a controller, or the reverse. Check the address."""

    errno = 114
    code_name = "MISMATCHED_ENDPOINT_TYPE"


class UnsupportedEndpointTypeError(BrokerResponseError):
    """The type of this endpoint is not supported."""

    errno = 115
    code_name = "UNSUPPORTED_ENDPOINT_TYPE"


class UnknownControllerIdError(BrokerResponseError):
    """The controller id is not known. Check the id."""

    errno = 116
    code_name = "UNKNOWN_CONTROLLER_ID"


class UnknownSubscriptionIdError(BrokerResponseError):
    """The subscription id of the client's telemetry is invalid or out of date."""

    errno = 117
    code_name = "UNKNOWN_SUBSCRIPTION_ID"


class TelemetryTooLargeError(BrokerResponseError):
    """The client's telemetry is larger than the broker accepts."""

    errno = 118
    code_name = "TELEMETRY_TOO_LARGE"


class InvalidRegistrationError(BrokerResponseError):
    """The controller rejected the registration of a broker as invalid."""

    errno = 119
    code_name = "INVALID_REGISTRATION"


class TransactionAbortableError(BrokerResponseError):
    """The transaction failed. Abort it, then start a new one with the same transactional id."""

    errno = 120
    code_name = "TRANSACTION_ABORTABLE"


class InvalidRecordStateError(BrokerResponseError):
    """The state of the record does not allow its delivery to be acknowledged."""

    errno = 121
    code_name = "INVALID_RECORD_STATE"


class ShareSessionNotFoundError(BrokerResponseError, RetriableError):
    """The broker has dropped the share session. The next fetch opens a new one."""

    errno = 122
    code_name = "SHARE_SESSION_NOT_FOUND"
    retriable = True


class InvalidShareSessionEpochError(BrokerResponseError, RetriableError):
    """The epoch of the share session is not the expected one. The next fetch opens a new session."""

    errno = 123
    code_name = "INVALID_SHARE_SESSION_EPOCH"
    retriable = True


class FencedStateEpochError(BrokerResponseError):
    """The state epoch of the share group in the request is not the coordinator's."""

    errno = 124
    code_name = "FENCED_STATE_EPOCH"


class InvalidVoterKeyError(BrokerResponseError):
    """The voter key in the request does not belong to the node that received it."""

    errno = 125
    code_name = "INVALID_VOTER_KEY"


class DuplicateVoterError(BrokerResponseError):
    """The node is already one of the voters."""

    errno = 126
    code_name = "DUPLICATE_VOTER"


class VoterNotFoundError(BrokerResponseError):
    """The node is not one of the voters. Check its id and directory id."""

    errno = 127
    code_name = "VOTER_NOT_FOUND"


class InvalidRegularExpressionError(BrokerResponseError):
    """The regular expression of the subscription is invalid. Use the syntax of RE2."""

    errno = 128
    code_name = "INVALID_REGULAR_EXPRESSION"


class RebootstrapRequiredError(BrokerResponseError):
    """The client's metadata is out of date. The client has to start over with its bootstrap servers."""

    errno = 129
    code_name = "REBOOTSTRAP_REQUIRED"


class StreamsInvalidTopologyError(BrokerResponseError):
    """The topology of the streams group is invalid."""

    errno = 130
    code_name = "STREAMS_INVALID_TOPOLOGY"


class StreamsInvalidTopologyEpochError(BrokerResponseError):
    """The topology epoch of the streams group is invalid."""

    errno = 131
    code_name = "STREAMS_INVALID_TOPOLOGY_EPOCH"


class StreamsTopologyFencedError(BrokerResponseError):
    """The topology epoch of the streams group is out of date."""

    errno = 132
    code_name = "STREAMS_TOPOLOGY_FENCED"


class ShareSessionLimitReachedError(BrokerResponseError, RetriableError):
    """The broker has reached its limit of share sessions. Try again later."""

    errno = 133
    code_name = "SHARE_SESSION_LIMIT_REACHED"
    retriable = True


class GroupDeletionFailedError(BrokerResponseError):
    """The group could not be deleted. The broker's message names the cause."""

    errno = 134
    code_name = "GROUP_DELETION_FAILED"


class StreamsTopologyDescriptionUpdateFailedError(BrokerResponseError):
    """The broker could not store the topology description of the streams group. Its message names the cause."""

    errno = 135
    code_name = "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED"


class ControllerIdNotRegisteredError(BrokerResponseError):
    """No controller is registered under this id. Check the controller id."""

    errno = 136
    code_name = "CONTROLLER_ID_NOT_REGISTERED"


# ------------------------------------------------------------ codes


class Errors(IntEnum):
    """Kafka's error codes by name, as responses carry them on the wire.

    The names, codes and their meaning are those of ``org.apache.kafka.common.protocol.Errors`` (Kafka 4.3).
    """

    NONE = 0
    UNKNOWN_SERVER_ERROR = -1
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133
    GROUP_DELETION_FAILED = 134
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135
    CONTROLLER_ID_NOT_REGISTERED = 136


def _classes() -> dict[int, type[BrokerResponseError]]:
    found: dict[int, type[BrokerResponseError]] = {}
    for value in list(globals().values()):
        if isinstance(value, type) and issubclass(value, BrokerResponseError) and value is not BrokerResponseError:
            found[value.errno] = value
    return found


#: Error class by code. Code 0 (no error) has none.
BY_CODE: dict[int, type[BrokerResponseError]] = _classes()


def error_name(code: int) -> str:
    """Return Kafka's name of an error code, such as ``NOT_COORDINATOR``.

    If the code is unknown, return its number as text.
    """
    try:
        return Errors(code).name
    except ValueError:
        return str(code)


def for_code(code: int, detail: str | None = None) -> BrokerResponseError:
    """Return the error object for an error code, ready to be raised.

    A code that this version does not know gives an ``UnknownServerError`` that contains the code. Code 0 means no
    error, so it raises ``ValueError``.
    """
    if code == 0:
        raise ValueError("code 0 means success, so there is no error for it")
    cls = BY_CODE.get(code)
    if cls is None:
        return UnknownServerError(f"unknown error code {code}" + (f": {detail}" if detail else ""))
    return cls(detail) if detail else cls()
