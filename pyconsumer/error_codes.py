"""The errors that a broker sends as codes, one class each, with whether a retry can help.

Codes, names and retriability are those of Apache Kafka's ``org.apache.kafka.common.protocol.Errors``. Users import
them from :mod:`pyconsumer.errors`.
"""

from __future__ import annotations

from typing import ClassVar


class KafkaError(Exception):
    """Base of every error that pyconsumer raises on purpose.

    Attributes:
        retriable: the same call may succeed later, with nothing changed.
        invalid_metadata: it suggests that the client's picture of the cluster is stale.
    """

    retriable: ClassVar[bool] = False
    invalid_metadata: ClassVar[bool] = False


class RetriableError(KafkaError):
    """Mixin: trying again later may help."""

    retriable: ClassVar[bool] = True


class InvalidMetadataError(RetriableError):
    """Mixin: refresh metadata, then try again."""

    invalid_metadata: ClassVar[bool] = True


class BrokerResponseError(KafkaError):
    """A broker answered with an error code.

    Attributes:
        errno: the code on the wire.
        code_name: Kafka's name of the code, such as ``NOT_COORDINATOR``.
    """

    errno: ClassVar[int] = -1
    code_name: ClassVar[str] = "UNKNOWN_SERVER_ERROR"

    def __str__(self) -> str:
        detail = super().__str__()
        text = f"{self.code_name} (error code {self.errno})"
        if detail:
            return f"{text}: {detail}"
        return f"{text}: {(self.__doc__ or '').strip()}" if self.__doc__ else text


class UnknownServerError(BrokerResponseError):
    """The broker failed in a way that has no code of its own; its log tells why."""

    errno = -1
    code_name = "UNKNOWN_SERVER_ERROR"


class OffsetOutOfRangeError(BrokerResponseError):
    """The offset asked for is not in the log: it was deleted by retention, or lies beyond the end."""

    errno = 1
    code_name = "OFFSET_OUT_OF_RANGE"


class CorruptMessageError(BrokerResponseError, RetriableError):
    """A record batch failed its checksum, or is malformed."""

    errno = 2
    code_name = "CORRUPT_MESSAGE"
    retriable = True


class UnknownTopicOrPartitionError(BrokerResponseError, InvalidMetadataError):
    """The broker does not host this topic or partition; it may not exist, or its metadata is not known there yet."""

    errno = 3
    code_name = "UNKNOWN_TOPIC_OR_PARTITION"
    retriable = True
    invalid_metadata = True


class InvalidFetchSizeError(BrokerResponseError):
    """Invalid fetch size."""

    errno = 4
    code_name = "INVALID_FETCH_SIZE"


class LeaderNotAvailableError(BrokerResponseError, InvalidMetadataError):
    """The partition has no leader at the moment, as during an election."""

    errno = 5
    code_name = "LEADER_NOT_AVAILABLE"
    retriable = True
    invalid_metadata = True


class NotLeaderOrFollowerError(BrokerResponseError, InvalidMetadataError):
    """The broker that was asked does not lead this partition (or does not replicate it); refresh metadata."""

    errno = 6
    code_name = "NOT_LEADER_OR_FOLLOWER"
    retriable = True
    invalid_metadata = True


class RequestTimedOutError(BrokerResponseError, RetriableError):
    """The broker gave up on the request within the time that the request allowed."""

    errno = 7
    code_name = "REQUEST_TIMED_OUT"
    retriable = True


class BrokerNotAvailableError(BrokerResponseError):
    """Broker not available."""

    errno = 8
    code_name = "BROKER_NOT_AVAILABLE"


class ReplicaNotAvailableError(BrokerResponseError, InvalidMetadataError):
    """Replica not available."""

    errno = 9
    code_name = "REPLICA_NOT_AVAILABLE"
    retriable = True
    invalid_metadata = True


class MessageTooLargeError(BrokerResponseError):
    """The record batch is larger than the topic's max.message.bytes."""

    errno = 10
    code_name = "MESSAGE_TOO_LARGE"


class StaleControllerEpochError(BrokerResponseError):
    """Stale controller epoch."""

    errno = 11
    code_name = "STALE_CONTROLLER_EPOCH"


class OffsetMetadataTooLargeError(BrokerResponseError):
    """The string given with a committed offset is longer than offset.metadata.max.bytes."""

    errno = 12
    code_name = "OFFSET_METADATA_TOO_LARGE"


class NetworkExceptionError(BrokerResponseError, InvalidMetadataError):
    """The connection to the broker was lost."""

    errno = 13
    code_name = "NETWORK_EXCEPTION"
    retriable = True
    invalid_metadata = True


class CoordinatorLoadInProgressError(BrokerResponseError, RetriableError):
    """The coordinator is still loading the group's partition of its internal topic."""

    errno = 14
    code_name = "COORDINATOR_LOAD_IN_PROGRESS"
    retriable = True


class CoordinatorNotAvailableError(BrokerResponseError, RetriableError):
    """The coordinator cannot serve at the moment; look it up again."""

    errno = 15
    code_name = "COORDINATOR_NOT_AVAILABLE"
    retriable = True


class NotCoordinatorError(BrokerResponseError, RetriableError):
    """The broker that was asked does not coordinate this group or transactional id; look it up again."""

    errno = 16
    code_name = "NOT_COORDINATOR"
    retriable = True


class InvalidTopicError(BrokerResponseError):
    """The topic name is not legal, or is that of an internal topic."""

    errno = 17
    code_name = "INVALID_TOPIC_EXCEPTION"


class RecordListTooLargeError(BrokerResponseError):
    """Record list too large."""

    errno = 18
    code_name = "RECORD_LIST_TOO_LARGE"


class NotEnoughReplicasError(BrokerResponseError, RetriableError):
    """Fewer replicas are in sync than min.insync.replicas asks for."""

    errno = 19
    code_name = "NOT_ENOUGH_REPLICAS"
    retriable = True


class NotEnoughReplicasAfterAppendError(BrokerResponseError, RetriableError):
    """The batch was appended, but to fewer in-sync replicas than min.insync.replicas asks for."""

    errno = 20
    code_name = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    retriable = True


class InvalidRequiredAcksError(BrokerResponseError):
    """Invalid required acks."""

    errno = 21
    code_name = "INVALID_REQUIRED_ACKS"


class IllegalGenerationError(BrokerResponseError):
    """The generation in the request is not the group's current one."""

    errno = 22
    code_name = "ILLEGAL_GENERATION"


class InconsistentGroupProtocolError(BrokerResponseError):
    """The group has members with another protocol type, or shares no assignor with this member."""

    errno = 23
    code_name = "INCONSISTENT_GROUP_PROTOCOL"


class InvalidGroupIdError(BrokerResponseError):
    """The group id is empty or not legal."""

    errno = 24
    code_name = "INVALID_GROUP_ID"


class UnknownMemberIdError(BrokerResponseError):
    """The coordinator does not know this member id: it was removed, or never joined."""

    errno = 25
    code_name = "UNKNOWN_MEMBER_ID"


class InvalidSessionTimeoutError(BrokerResponseError):
    """session_timeout_ms lies outside the broker's group.min.session.timeout.ms and group.max.session.timeout.ms."""

    errno = 26
    code_name = "INVALID_SESSION_TIMEOUT"


class RebalanceInProgressError(BrokerResponseError):
    """The group is rebalancing; the member has to join again."""

    errno = 27
    code_name = "REBALANCE_IN_PROGRESS"


class InvalidCommitOffsetSizeError(BrokerResponseError):
    """Invalid commit offset size."""

    errno = 28
    code_name = "INVALID_COMMIT_OFFSET_SIZE"


class TopicAuthorizationFailedError(BrokerResponseError):
    """The principal may not do this with the topic; check its ACLs."""

    errno = 29
    code_name = "TOPIC_AUTHORIZATION_FAILED"


class GroupAuthorizationFailedError(BrokerResponseError):
    """The principal may not use this group; check its ACLs."""

    errno = 30
    code_name = "GROUP_AUTHORIZATION_FAILED"


class ClusterAuthorizationFailedError(BrokerResponseError):
    """The principal may not do this with the cluster; check its ACLs."""

    errno = 31
    code_name = "CLUSTER_AUTHORIZATION_FAILED"


class InvalidTimestampError(BrokerResponseError):
    """Invalid timestamp."""

    errno = 32
    code_name = "INVALID_TIMESTAMP"


class UnsupportedSaslMechanismError(BrokerResponseError):
    """The broker does not offer this SASL mechanism."""

    errno = 33
    code_name = "UNSUPPORTED_SASL_MECHANISM"


class IllegalSaslStateError(BrokerResponseError):
    """The SASL exchange was out of order."""

    errno = 34
    code_name = "ILLEGAL_SASL_STATE"


class UnsupportedVersionError(BrokerResponseError):
    """The broker does not support this version of the request."""

    errno = 35
    code_name = "UNSUPPORTED_VERSION"


class TopicAlreadyExistsError(BrokerResponseError):
    """A topic of this name exists."""

    errno = 36
    code_name = "TOPIC_ALREADY_EXISTS"


class InvalidPartitionsError(BrokerResponseError):
    """The number of partitions is not legal."""

    errno = 37
    code_name = "INVALID_PARTITIONS"


class InvalidReplicationFactorError(BrokerResponseError):
    """The replication factor is below 1 or above the number of brokers."""

    errno = 38
    code_name = "INVALID_REPLICATION_FACTOR"


class InvalidReplicaAssignmentError(BrokerResponseError):
    """Invalid replica assignment."""

    errno = 39
    code_name = "INVALID_REPLICA_ASSIGNMENT"


class InvalidConfigError(BrokerResponseError):
    """A configuration value is not legal."""

    errno = 40
    code_name = "INVALID_CONFIG"


class NotControllerError(BrokerResponseError, RetriableError):
    """Not controller."""

    errno = 41
    code_name = "NOT_CONTROLLER"
    retriable = True


class InvalidRequestError(BrokerResponseError):
    """The request is inconsistent or malformed."""

    errno = 42
    code_name = "INVALID_REQUEST"


class UnsupportedForMessageFormatError(BrokerResponseError):
    """Unsupported for message format."""

    errno = 43
    code_name = "UNSUPPORTED_FOR_MESSAGE_FORMAT"


class PolicyViolationError(BrokerResponseError):
    """Policy violation."""

    errno = 44
    code_name = "POLICY_VIOLATION"


class OutOfOrderSequenceNumberError(BrokerResponseError):
    """The broker saw a producer's sequence number out of order: batches of it are missing."""

    errno = 45
    code_name = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class DuplicateSequenceNumberError(BrokerResponseError):
    """The broker has this batch of the producer already."""

    errno = 46
    code_name = "DUPLICATE_SEQUENCE_NUMBER"


class InvalidProducerEpochError(BrokerResponseError):
    """The producer's epoch is older than the one that the broker knows."""

    errno = 47
    code_name = "INVALID_PRODUCER_EPOCH"


class InvalidTxnStateError(BrokerResponseError):
    """Invalid txn state."""

    errno = 48
    code_name = "INVALID_TXN_STATE"


class InvalidProducerIdMappingError(BrokerResponseError):
    """Invalid producer id mapping."""

    errno = 49
    code_name = "INVALID_PRODUCER_ID_MAPPING"


class InvalidTransactionTimeoutError(BrokerResponseError):
    """Invalid transaction timeout."""

    errno = 50
    code_name = "INVALID_TRANSACTION_TIMEOUT"


class ConcurrentTransactionsError(BrokerResponseError, RetriableError):
    """Concurrent transactions."""

    errno = 51
    code_name = "CONCURRENT_TRANSACTIONS"
    retriable = True


class TransactionCoordinatorFencedError(BrokerResponseError):
    """Transaction coordinator fenced."""

    errno = 52
    code_name = "TRANSACTION_COORDINATOR_FENCED"


class TransactionalIdAuthorizationFailedError(BrokerResponseError):
    """Transactional id authorization failed."""

    errno = 53
    code_name = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


class SecurityDisabledError(BrokerResponseError):
    """Security disabled."""

    errno = 54
    code_name = "SECURITY_DISABLED"


class OperationNotAttemptedError(BrokerResponseError):
    """Operation not attempted."""

    errno = 55
    code_name = "OPERATION_NOT_ATTEMPTED"


class KafkaStorageError(BrokerResponseError, InvalidMetadataError):
    """Kafka storage error."""

    errno = 56
    code_name = "KAFKA_STORAGE_ERROR"
    retriable = True
    invalid_metadata = True


class LogDirNotFoundError(BrokerResponseError):
    """Log dir not found."""

    errno = 57
    code_name = "LOG_DIR_NOT_FOUND"


class SaslAuthenticationFailedError(BrokerResponseError):
    """The user name or password, or whatever the SASL mechanism checks, was refused."""

    errno = 58
    code_name = "SASL_AUTHENTICATION_FAILED"


class UnknownProducerIdError(BrokerResponseError):
    """The broker has no state of this producer id any more."""

    errno = 59
    code_name = "UNKNOWN_PRODUCER_ID"


class ReassignmentInProgressError(BrokerResponseError):
    """Reassignment in progress."""

    errno = 60
    code_name = "REASSIGNMENT_IN_PROGRESS"


class DelegationTokenAuthDisabledError(BrokerResponseError):
    """Delegation token auth disabled."""

    errno = 61
    code_name = "DELEGATION_TOKEN_AUTH_DISABLED"


class DelegationTokenNotFoundError(BrokerResponseError):
    """Delegation token not found."""

    errno = 62
    code_name = "DELEGATION_TOKEN_NOT_FOUND"


class DelegationTokenOwnerMismatchError(BrokerResponseError):
    """Delegation token owner mismatch."""

    errno = 63
    code_name = "DELEGATION_TOKEN_OWNER_MISMATCH"


class DelegationTokenRequestNotAllowedError(BrokerResponseError):
    """Delegation token request not allowed."""

    errno = 64
    code_name = "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"


class DelegationTokenAuthorizationFailedError(BrokerResponseError):
    """Delegation token authorization failed."""

    errno = 65
    code_name = "DELEGATION_TOKEN_AUTHORIZATION_FAILED"


class DelegationTokenExpiredError(BrokerResponseError):
    """Delegation token expired."""

    errno = 66
    code_name = "DELEGATION_TOKEN_EXPIRED"


class InvalidPrincipalTypeError(BrokerResponseError):
    """Invalid principal type."""

    errno = 67
    code_name = "INVALID_PRINCIPAL_TYPE"


class NonEmptyGroupError(BrokerResponseError):
    """The group has members; only an empty group can be deleted."""

    errno = 68
    code_name = "NON_EMPTY_GROUP"


class GroupIdNotFoundError(BrokerResponseError):
    """No such group."""

    errno = 69
    code_name = "GROUP_ID_NOT_FOUND"


class FetchSessionIdNotFoundError(BrokerResponseError, RetriableError):
    """The broker has dropped the fetch session; the next fetch opens a new one."""

    errno = 70
    code_name = "FETCH_SESSION_ID_NOT_FOUND"
    retriable = True


class InvalidFetchSessionEpochError(BrokerResponseError, RetriableError):
    """The epoch of the fetch session is not the one expected; the next fetch opens a new session."""

    errno = 71
    code_name = "INVALID_FETCH_SESSION_EPOCH"
    retriable = True


class ListenerNotFoundError(BrokerResponseError, InvalidMetadataError):
    """Listener not found."""

    errno = 72
    code_name = "LISTENER_NOT_FOUND"
    retriable = True
    invalid_metadata = True


class TopicDeletionDisabledError(BrokerResponseError):
    """Topic deletion disabled."""

    errno = 73
    code_name = "TOPIC_DELETION_DISABLED"


class FencedLeaderEpochError(BrokerResponseError, InvalidMetadataError):
    """The leader epoch in the request is older than the broker's; refresh metadata."""

    errno = 74
    code_name = "FENCED_LEADER_EPOCH"
    retriable = True
    invalid_metadata = True


class UnknownLeaderEpochError(BrokerResponseError, RetriableError):
    """The leader epoch in the request is newer than the broker's; try again when it has caught up."""

    errno = 75
    code_name = "UNKNOWN_LEADER_EPOCH"
    retriable = True


class UnsupportedCompressionTypeError(BrokerResponseError):
    """The request uses a compression that its version does not allow."""

    errno = 76
    code_name = "UNSUPPORTED_COMPRESSION_TYPE"


class StaleBrokerEpochError(BrokerResponseError):
    """Stale broker epoch."""

    errno = 77
    code_name = "STALE_BROKER_EPOCH"


class OffsetNotAvailableError(BrokerResponseError, RetriableError):
    """The new leader's high watermark has not caught up; try again."""

    errno = 78
    code_name = "OFFSET_NOT_AVAILABLE"
    retriable = True


class MemberIdRequiredError(BrokerResponseError):
    """The member has to join again with the member id in the response (KIP-394)."""

    errno = 79
    code_name = "MEMBER_ID_REQUIRED"


class PreferredLeaderNotAvailableError(BrokerResponseError, InvalidMetadataError):
    """Preferred leader not available."""

    errno = 80
    code_name = "PREFERRED_LEADER_NOT_AVAILABLE"
    retriable = True
    invalid_metadata = True


class GroupMaxSizeReachedError(BrokerResponseError):
    """The group has group.max.size members."""

    errno = 81
    code_name = "GROUP_MAX_SIZE_REACHED"


class FencedInstanceIdError(BrokerResponseError):
    """Another consumer with the same group_instance_id has joined (KIP-345)."""

    errno = 82
    code_name = "FENCED_INSTANCE_ID"


class EligibleLeadersNotAvailableError(BrokerResponseError, InvalidMetadataError):
    """Eligible leaders not available."""

    errno = 83
    code_name = "ELIGIBLE_LEADERS_NOT_AVAILABLE"
    retriable = True
    invalid_metadata = True


class ElectionNotNeededError(BrokerResponseError, InvalidMetadataError):
    """Election not needed."""

    errno = 84
    code_name = "ELECTION_NOT_NEEDED"
    retriable = True
    invalid_metadata = True


class NoReassignmentInProgressError(BrokerResponseError):
    """No reassignment in progress."""

    errno = 85
    code_name = "NO_REASSIGNMENT_IN_PROGRESS"


class GroupSubscribedToTopicError(BrokerResponseError):
    """Group subscribed to topic."""

    errno = 86
    code_name = "GROUP_SUBSCRIBED_TO_TOPIC"


class InvalidRecordError(BrokerResponseError):
    """Invalid record."""

    errno = 87
    code_name = "INVALID_RECORD"


class UnstableOffsetCommitError(BrokerResponseError, RetriableError):
    """A transaction with offsets of this partition is not finished yet (KIP-447)."""

    errno = 88
    code_name = "UNSTABLE_OFFSET_COMMIT"
    retriable = True


class ThrottlingQuotaExceededError(BrokerResponseError, RetriableError):
    """A quota was exceeded; try again later."""

    errno = 89
    code_name = "THROTTLING_QUOTA_EXCEEDED"
    retriable = True


class ProducerFencedError(BrokerResponseError):
    """A newer producer with the same transactional id exists."""

    errno = 90
    code_name = "PRODUCER_FENCED"


class ResourceNotFoundError(BrokerResponseError):
    """Resource not found."""

    errno = 91
    code_name = "RESOURCE_NOT_FOUND"


class DuplicateResourceError(BrokerResponseError):
    """Duplicate resource."""

    errno = 92
    code_name = "DUPLICATE_RESOURCE"


class UnacceptableCredentialError(BrokerResponseError):
    """Unacceptable credential."""

    errno = 93
    code_name = "UNACCEPTABLE_CREDENTIAL"


class InconsistentVoterSetError(BrokerResponseError):
    """Inconsistent voter set."""

    errno = 94
    code_name = "INCONSISTENT_VOTER_SET"


class InvalidUpdateVersionError(BrokerResponseError):
    """Invalid update version."""

    errno = 95
    code_name = "INVALID_UPDATE_VERSION"


class FeatureUpdateFailedError(BrokerResponseError):
    """Feature update failed."""

    errno = 96
    code_name = "FEATURE_UPDATE_FAILED"


class PrincipalDeserializationError(BrokerResponseError):
    """Principal deserialization failure."""

    errno = 97
    code_name = "PRINCIPAL_DESERIALIZATION_FAILURE"


class SnapshotNotFoundError(BrokerResponseError):
    """Snapshot not found."""

    errno = 98
    code_name = "SNAPSHOT_NOT_FOUND"


class PositionOutOfRangeError(BrokerResponseError):
    """Position out of range."""

    errno = 99
    code_name = "POSITION_OUT_OF_RANGE"


class UnknownTopicIdError(BrokerResponseError, InvalidMetadataError):
    """The broker does not know this topic id."""

    errno = 100
    code_name = "UNKNOWN_TOPIC_ID"
    retriable = True
    invalid_metadata = True


class DuplicateBrokerRegistrationError(BrokerResponseError):
    """Duplicate broker registration."""

    errno = 101
    code_name = "DUPLICATE_BROKER_REGISTRATION"


class BrokerIdNotRegisteredError(BrokerResponseError):
    """Broker id not registered."""

    errno = 102
    code_name = "BROKER_ID_NOT_REGISTERED"


class InconsistentTopicIdError(BrokerResponseError, InvalidMetadataError):
    """The topic id does not match the topic."""

    errno = 103
    code_name = "INCONSISTENT_TOPIC_ID"
    retriable = True
    invalid_metadata = True


class InconsistentClusterIdError(BrokerResponseError):
    """Inconsistent cluster id."""

    errno = 104
    code_name = "INCONSISTENT_CLUSTER_ID"


class TransactionalIdNotFoundError(BrokerResponseError):
    """Transactional id not found."""

    errno = 105
    code_name = "TRANSACTIONAL_ID_NOT_FOUND"


class FetchSessionTopicIdError(BrokerResponseError, RetriableError):
    """Fetch session topic id error."""

    errno = 106
    code_name = "FETCH_SESSION_TOPIC_ID_ERROR"
    retriable = True


class IneligibleReplicaError(BrokerResponseError):
    """Ineligible replica."""

    errno = 107
    code_name = "INELIGIBLE_REPLICA"


class NewLeaderElectedError(BrokerResponseError):
    """New leader elected."""

    errno = 108
    code_name = "NEW_LEADER_ELECTED"


class OffsetMovedToTieredStorageError(BrokerResponseError):
    """Offset moved to tiered storage."""

    errno = 109
    code_name = "OFFSET_MOVED_TO_TIERED_STORAGE"


class FencedMemberEpochError(BrokerResponseError):
    """Fenced member epoch."""

    errno = 110
    code_name = "FENCED_MEMBER_EPOCH"


class UnreleasedInstanceIdError(BrokerResponseError):
    """Unreleased instance id."""

    errno = 111
    code_name = "UNRELEASED_INSTANCE_ID"


class UnsupportedAssignorError(BrokerResponseError):
    """Unsupported assignor."""

    errno = 112
    code_name = "UNSUPPORTED_ASSIGNOR"


class StaleMemberEpochError(BrokerResponseError):
    """Stale member epoch."""

    errno = 113
    code_name = "STALE_MEMBER_EPOCH"


class MismatchedEndpointTypeError(BrokerResponseError):
    """Mismatched endpoint type."""

    errno = 114
    code_name = "MISMATCHED_ENDPOINT_TYPE"


class UnsupportedEndpointTypeError(BrokerResponseError):
    """Unsupported endpoint type."""

    errno = 115
    code_name = "UNSUPPORTED_ENDPOINT_TYPE"


class UnknownControllerIdError(BrokerResponseError):
    """Unknown controller id."""

    errno = 116
    code_name = "UNKNOWN_CONTROLLER_ID"


class UnknownSubscriptionIdError(BrokerResponseError):
    """Unknown subscription id."""

    errno = 117
    code_name = "UNKNOWN_SUBSCRIPTION_ID"


class TelemetryTooLargeError(BrokerResponseError):
    """Telemetry too large."""

    errno = 118
    code_name = "TELEMETRY_TOO_LARGE"


class InvalidRegistrationError(BrokerResponseError):
    """Invalid registration."""

    errno = 119
    code_name = "INVALID_REGISTRATION"


class TransactionAbortableError(BrokerResponseError):
    """Transaction abortable."""

    errno = 120
    code_name = "TRANSACTION_ABORTABLE"


class InvalidRecordStateError(BrokerResponseError):
    """Invalid record state."""

    errno = 121
    code_name = "INVALID_RECORD_STATE"


class ShareSessionNotFoundError(BrokerResponseError, RetriableError):
    """Share session not found."""

    errno = 122
    code_name = "SHARE_SESSION_NOT_FOUND"
    retriable = True


class InvalidShareSessionEpochError(BrokerResponseError, RetriableError):
    """Invalid share session epoch."""

    errno = 123
    code_name = "INVALID_SHARE_SESSION_EPOCH"
    retriable = True


class FencedStateEpochError(BrokerResponseError):
    """Fenced state epoch."""

    errno = 124
    code_name = "FENCED_STATE_EPOCH"


class InvalidVoterKeyError(BrokerResponseError):
    """Invalid voter key."""

    errno = 125
    code_name = "INVALID_VOTER_KEY"


class DuplicateVoterError(BrokerResponseError):
    """Duplicate voter."""

    errno = 126
    code_name = "DUPLICATE_VOTER"


class VoterNotFoundError(BrokerResponseError):
    """Voter not found."""

    errno = 127
    code_name = "VOTER_NOT_FOUND"


class InvalidRegularExpressionError(BrokerResponseError):
    """Invalid regular expression."""

    errno = 128
    code_name = "INVALID_REGULAR_EXPRESSION"


class RebootstrapRequiredError(BrokerResponseError):
    """Rebootstrap required."""

    errno = 129
    code_name = "REBOOTSTRAP_REQUIRED"


class StreamsInvalidTopologyError(BrokerResponseError):
    """Streams invalid topology."""

    errno = 130
    code_name = "STREAMS_INVALID_TOPOLOGY"


class StreamsInvalidTopologyEpochError(BrokerResponseError):
    """Streams invalid topology epoch."""

    errno = 131
    code_name = "STREAMS_INVALID_TOPOLOGY_EPOCH"


class StreamsTopologyFencedError(BrokerResponseError):
    """Streams topology fenced."""

    errno = 132
    code_name = "STREAMS_TOPOLOGY_FENCED"


class ShareSessionLimitReachedError(BrokerResponseError, RetriableError):
    """Share session limit reached."""

    errno = 133
    code_name = "SHARE_SESSION_LIMIT_REACHED"
    retriable = True


def _classes() -> dict[int, type[BrokerResponseError]]:
    found: dict[int, type[BrokerResponseError]] = {}
    for value in list(globals().values()):
        if isinstance(value, type) and issubclass(value, BrokerResponseError) and value is not BrokerResponseError:
            found[value.errno] = value
    return found


#: Error class by code. Code 0 (no error) has none.
BY_CODE: dict[int, type[BrokerResponseError]] = _classes()


def for_code(code: int, detail: str | None = None) -> BrokerResponseError:
    """The error for a code from the wire, as an instance ready to be raised.

    A code that this version does not know gives ``UnknownServerError`` naming the code. Code 0 is no error:
    asking for it raises ``ValueError``.
    """
    if code == 0:
        raise ValueError("code 0 means success; there is no error for it")
    cls = BY_CODE.get(code)
    if cls is None:
        return UnknownServerError(f"unknown error code {code}" + (f": {detail}" if detail else ""))
    return cls(detail) if detail else cls()
