"""The table of error classes of kafka-python and aiokafka, with pyconsumer's counterparts. No state.

Names, bases, codes and flags are those of kafka-python 3.0.12 and aiokafka 0.14.0: a test compares all of them with the
originals. :func:`pyconsumer.compat.error_classes.make_classes` makes the classes.

A row: name, bases, ``errno``, ``message``, and the flags that it sets: ``retriable``, ``refresh``
(``invalid_metadata``). ``-`` is none. A row ``NAME = OTHER`` is another name for the same class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["AIOKAFKA", "AIOKAFKA_FOR_OURS", "KAFKA", "KAFKA_FOR_OURS"]

#: ``NoBrokersAvailable`` is of kafka-python 2.x. 3.x raises a ``KafkaTimeoutError`` instead, so both names catch it.
KAFKA: Final = """
KafkaError Exception - - -
RetriableError KafkaError - - retriable
InvalidMetadataError RetriableError - - refresh
Cancelled RetriableError - - -
CommitFailedError KafkaError - - -
IllegalArgumentError KafkaError - - -
IllegalStateError KafkaError - - -
KafkaConfigurationError KafkaError - - -
KafkaConnectionError InvalidMetadataError - - -
KafkaProtocolError KafkaError - - -
CorrelationIdError RetriableError,KafkaProtocolError - - -
InvalidReceiveError KafkaProtocolError - - -
KafkaTimeoutError RetriableError - - -
NoBrokersAvailable KafkaTimeoutError - - refresh
MetadataEmptyBrokerList RetriableError - - -
NoOffsetForPartitionError KafkaError - - -
LogTruncationError KafkaError - - -
NodeNotReadyError RetriableError - - -
UnknownBrokerIdError KafkaError - - -
QuotaViolationError KafkaError - - -
StaleMetadata InvalidMetadataError - - -
TooManyInFlightRequests RetriableError - - -
UnrecognizedBrokerVersion KafkaError - - -
UnsupportedCodecError KafkaError - - -
TransactionAbortedError KafkaError - - -
BrokerResponseError KafkaError - - -
AuthorizationError BrokerResponseError - - -
NoError BrokerResponseError 0 NO_ERROR -
UnknownError BrokerResponseError -1 UNKNOWN -
OffsetOutOfRangeError BrokerResponseError 1 OFFSET_OUT_OF_RANGE -
CorruptRecordError BrokerResponseError 2 CORRUPT_MESSAGE -
UnknownTopicOrPartitionError InvalidMetadataError,BrokerResponseError 3 UNKNOWN_TOPIC_OR_PARTITION -
InvalidFetchRequestError BrokerResponseError 4 INVALID_FETCH_SIZE -
LeaderNotAvailableError InvalidMetadataError,BrokerResponseError 5 LEADER_NOT_AVAILABLE -
NotLeaderForPartitionError InvalidMetadataError,BrokerResponseError 6 NOT_LEADER_FOR_PARTITION -
RequestTimedOutError RetriableError,BrokerResponseError 7 REQUEST_TIMED_OUT -
BrokerNotAvailableError BrokerResponseError 8 BROKER_NOT_AVAILABLE -
ReplicaNotAvailableError InvalidMetadataError,BrokerResponseError 9 REPLICA_NOT_AVAILABLE -
MessageSizeTooLargeError BrokerResponseError 10 MESSAGE_SIZE_TOO_LARGE -
StaleControllerEpochError BrokerResponseError 11 STALE_CONTROLLER_EPOCH -
OffsetMetadataTooLargeError BrokerResponseError 12 OFFSET_METADATA_TOO_LARGE -
NetworkExceptionError InvalidMetadataError,BrokerResponseError 13 NETWORK_EXCEPTION -
CoordinatorLoadInProgressError RetriableError,BrokerResponseError 14 COORDINATOR_LOAD_IN_PROGRESS -
CoordinatorNotAvailableError RetriableError,BrokerResponseError 15 COORDINATOR_NOT_AVAILABLE -
NotCoordinatorError RetriableError,BrokerResponseError 16 NOT_COORDINATOR -
InvalidTopicError BrokerResponseError 17 INVALID_TOPIC -
RecordListTooLargeError BrokerResponseError 18 RECORD_LIST_TOO_LARGE -
NotEnoughReplicasError RetriableError,BrokerResponseError 19 NOT_ENOUGH_REPLICAS -
NotEnoughReplicasAfterAppendError RetriableError,BrokerResponseError 20 NOT_ENOUGH_REPLICAS_AFTER_APPEND -
InvalidRequiredAcksError BrokerResponseError 21 INVALID_REQUIRED_ACKS -
IllegalGenerationError BrokerResponseError 22 ILLEGAL_GENERATION -
InconsistentGroupProtocolError BrokerResponseError 23 INCONSISTENT_GROUP_PROTOCOL -
InvalidGroupIdError BrokerResponseError 24 INVALID_GROUP_ID -
UnknownMemberIdError BrokerResponseError 25 UNKNOWN_MEMBER_ID -
InvalidSessionTimeoutError BrokerResponseError 26 INVALID_SESSION_TIMEOUT -
RebalanceInProgressError BrokerResponseError 27 REBALANCE_IN_PROGRESS -
InvalidCommitOffsetSizeError BrokerResponseError 28 INVALID_COMMIT_OFFSET_SIZE -
TopicAuthorizationFailedError AuthorizationError 29 TOPIC_AUTHORIZATION_FAILED -
GroupAuthorizationFailedError AuthorizationError 30 GROUP_AUTHORIZATION_FAILED -
ClusterAuthorizationFailedError AuthorizationError 31 CLUSTER_AUTHORIZATION_FAILED -
InvalidTimestampError BrokerResponseError 32 INVALID_TIMESTAMP -
UnsupportedSaslMechanismError BrokerResponseError 33 UNSUPPORTED_SASL_MECHANISM -
IllegalSaslStateError BrokerResponseError 34 ILLEGAL_SASL_STATE -
UnsupportedVersionError BrokerResponseError 35 UNSUPPORTED_VERSION -
IncompatibleBrokerVersion UnsupportedVersionError - - -
TopicAlreadyExistsError BrokerResponseError 36 TOPIC_ALREADY_EXISTS -
InvalidPartitionsError BrokerResponseError 37 INVALID_PARTITIONS -
InvalidReplicationFactorError BrokerResponseError 38 INVALID_REPLICATION_FACTOR -
InvalidReplicationAssignmentError BrokerResponseError 39 INVALID_REPLICATION_ASSIGNMENT -
InvalidConfigurationError BrokerResponseError 40 INVALID_CONFIG -
NotControllerError RetriableError,BrokerResponseError 41 NOT_CONTROLLER -
InvalidRequestError BrokerResponseError 42 INVALID_REQUEST -
UnsupportedForMessageFormatError BrokerResponseError 43 UNSUPPORTED_FOR_MESSAGE_FORMAT -
PolicyViolationError BrokerResponseError 44 POLICY_VIOLATION -
OutOfOrderSequenceNumberError BrokerResponseError 45 OUT_OF_ORDER_SEQUENCE_NUMBER -
DuplicateSequenceNumberError BrokerResponseError 46 DUPLICATE_SEQUENCE_NUMBER -
InvalidProducerEpochError BrokerResponseError 47 INVALID_PRODUCER_EPOCH -
InvalidTxnStateError BrokerResponseError 48 INVALID_TXN_STATE -
InvalidProducerIdMappingError BrokerResponseError 49 INVALID_PRODUCER_ID_MAPPING -
InvalidTransactionTimeoutError BrokerResponseError 50 INVALID_TRANSACTION_TIMEOUT -
ConcurrentTransactionsError RetriableError,BrokerResponseError 51 CONCURRENT_TRANSACTIONS -
TransactionCoordinatorFencedError BrokerResponseError 52 TRANSACTION_COORDINATOR_FENCED -
TransactionalIdAuthorizationFailedError AuthorizationError 53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED -
SecurityDisabledError BrokerResponseError 54 SECURITY_DISABLED -
OperationNotAttemptedError BrokerResponseError 55 OPERATION_NOT_ATTEMPTED -
KafkaStorageError InvalidMetadataError,BrokerResponseError 56 KAFKA_STORAGE_ERROR -
LogDirNotFoundError BrokerResponseError 57 LOG_DIR_NOT_FOUND -
SaslAuthenticationFailedError BrokerResponseError 58 SASL_AUTHENTICATION_FAILED -
UnknownProducerIdError BrokerResponseError 59 UNKNOWN_PRODUCER_ID -
ReassignmentInProgressError BrokerResponseError 60 REASSIGNMENT_IN_PROGRESS -
DelegationTokenAuthDisabledError BrokerResponseError 61 DELEGATION_TOKEN_AUTH_DISABLED -
DelegationTokenNotFoundError BrokerResponseError 62 DELEGATION_TOKEN_NOT_FOUND -
DelegationTokenOwnerMismatchError BrokerResponseError 63 DELEGATION_TOKEN_OWNER_MISMATCH -
DelegationTokenRequestNotAllowedError BrokerResponseError 64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED -
DelegationTokenAuthorizationFailedError AuthorizationError 65 DELEGATION_TOKEN_AUTHORIZATION_FAILED -
DelegationTokenExpiredError BrokerResponseError 66 DELEGATION_TOKEN_EXPIRED -
InvalidPrincipalTypeError BrokerResponseError 67 INVALID_PRINCIPAL_TYPE -
NonEmptyGroupError BrokerResponseError 68 NON_EMPTY_GROUP -
GroupIdNotFoundError BrokerResponseError 69 GROUP_ID_NOT_FOUND -
FetchSessionIdNotFoundError RetriableError,BrokerResponseError 70 FETCH_SESSION_ID_NOT_FOUND -
InvalidFetchSessionEpochError RetriableError,BrokerResponseError 71 INVALID_FETCH_SESSION_EPOCH -
ListenerNotFoundError InvalidMetadataError,BrokerResponseError 72 LISTENER_NOT_FOUND -
TopicDeletionDisabledError BrokerResponseError 73 TOPIC_DELETION_DISABLED -
FencedLeaderEpochError InvalidMetadataError,BrokerResponseError 74 FENCED_LEADER_EPOCH -
UnknownLeaderEpochError InvalidMetadataError,BrokerResponseError 75 UNKNOWN_LEADER_EPOCH -
UnsupportedCompressionTypeError BrokerResponseError 76 UNSUPPORTED_COMPRESSION_TYPE -
StaleBrokerEpochError BrokerResponseError 77 STALE_BROKER_EPOCH -
OffsetNotAvailableError RetriableError,BrokerResponseError 78 OFFSET_NOT_AVAILABLE -
MemberIdRequiredError BrokerResponseError 79 MEMBER_ID_REQUIRED -
PreferredLeaderNotAvailableError InvalidMetadataError,BrokerResponseError 80 PREFERRED_LEADER_NOT_AVAILABLE -
GroupMaxSizeReachedError BrokerResponseError 81 GROUP_MAX_SIZE_REACHED -
FencedInstanceIdError BrokerResponseError 82 FENCED_INSTANCE_ID -
EligibleLeadersNotAvailableError InvalidMetadataError,BrokerResponseError 83 ELIGIBLE_LEADERS_NOT_AVAILABLE -
ElectionNotNeededError InvalidMetadataError,BrokerResponseError 84 ELECTION_NOT_NEEDED -
NoReassignmentInProgressError BrokerResponseError 85 NO_REASSIGNMENT_IN_PROGRESS -
GroupSubscribedToTopicError BrokerResponseError 86 GROUP_SUBSCRIBED_TO_TOPIC -
InvalidRecordError BrokerResponseError 87 INVALID_RECORD -
UnstableOffsetCommitError RetriableError,BrokerResponseError 88 UNSTABLE_OFFSET_COMMIT -
ThrottlingQuotaExceededError RetriableError,BrokerResponseError 89 THROTTLING_QUOTA_EXCEEDED -
ProducerFencedError BrokerResponseError 90 PRODUCER_FENCED -
ResourceNotFoundError BrokerResponseError 91 RESOURCE_NOT_FOUND -
DuplicateResourceError BrokerResponseError 92 DUPLICATE_RESOURCE -
UnacceptableCredentialError BrokerResponseError 93 UNACCEPTABLE_CREDENTIAL -
InconsistentVoterSetError BrokerResponseError 94 INCONSISTENT_VOTER_SET -
InvalidUpdateVersionError BrokerResponseError 95 INVALID_UPDATE_VERSION -
FeatureUpdateFailedError BrokerResponseError 96 FEATURE_UPDATE_FAILED -
PrincipalDeserializationFailureError BrokerResponseError 97 PRINCIPAL_DESERIALIZATION_FAILURE -
SnapshotNotFoundError BrokerResponseError 98 SNAPSHOT_NOT_FOUND -
PositionOutOfRangeError BrokerResponseError 99 POSITION_OUT_OF_RANGE -
UnknownTopicIdError InvalidMetadataError,BrokerResponseError 100 UNKNOWN_TOPIC_ID -
DuplicateBrokerRegistrationError BrokerResponseError 101 DUPLICATE_BROKER_REGISTRATION -
BrokerIdNotRegisteredError BrokerResponseError 102 BROKER_ID_NOT_REGISTERED -
InconsistentTopicIdError InvalidMetadataError,BrokerResponseError 103 INCONSISTENT_TOPIC_ID -
InconsistentClusterIdError BrokerResponseError 104 INCONSISTENT_CLUSTER_ID -
TransactionalIdNotFoundError BrokerResponseError 105 TRANSACTIONAL_ID_NOT_FOUND -
FetchSessionTopicIdError RetriableError,BrokerResponseError 106 FETCH_SESSION_TOPIC_ID_ERROR -
IneligibleReplicaError BrokerResponseError 107 INELIGIBLE_REPLICA -
NewLeaderElectedError BrokerResponseError 108 NEW_LEADER_ELECTED -
OffsetMovedToTieredStorageError BrokerResponseError 109 OFFSET_MOVED_TO_TIERED_STORAGE -
FencedMemberEpochError BrokerResponseError 110 FENCED_MEMBER_EPOCH -
UnreleasedInstanceIdError BrokerResponseError 111 UNRELEASED_INSTANCE_ID -
UnsupportedAssignorError BrokerResponseError 112 UNSUPPORTED_ASSIGNOR -
StaleMemberEpochError BrokerResponseError 113 STALE_MEMBER_EPOCH -
MismatchedEndpointTypeError BrokerResponseError 114 MISMATCHED_ENDPOINT_TYPE -
UnsupportedEndpointTypeError BrokerResponseError 115 UNSUPPORTED_ENDPOINT_TYPE -
UnknownControllerIdError BrokerResponseError 116 UNKNOWN_CONTROLLER_ID -
UnknownSubscriptionIdError BrokerResponseError 117 UNKNOWN_SUBSCRIPTION_ID -
TelemetryTooLargeError BrokerResponseError 118 TELEMETRY_TOO_LARGE -
InvalidRegistrationError BrokerResponseError 119 INVALID_REGISTRATION -
TransactionAbortableError BrokerResponseError 120 TRANSACTION_ABORTABLE -
InvalidRecordStateError BrokerResponseError 121 INVALID_RECORD_STATE -
ShareSessionNotFoundError RetriableError,BrokerResponseError 122 SHARE_SESSION_NOT_FOUND -
InvalidShareSessionEpochError RetriableError,BrokerResponseError 123 INVALID_SHARE_SESSION_EPOCH -
FencedStateEpochError BrokerResponseError 124 FENCED_STATE_EPOCH -
InvalidVoterKeyError BrokerResponseError 125 INVALID_VOTER_KEY -
DuplicateVoterError BrokerResponseError 126 DUPLICATE_VOTER -
VoterNotFoundError BrokerResponseError 127 VOTER_NOT_FOUND -
CorruptRecordException = CorruptRecordError
"""

AIOKAFKA: Final = """
KafkaError RuntimeError - - -
IllegalStateError KafkaError - - -
IllegalArgumentError KafkaError - - -
NoBrokersAvailable KafkaError - - retriable,refresh
NodeNotReadyError KafkaError - - retriable
KafkaProtocolError KafkaError - - retriable
CorrelationIdError KafkaProtocolError - - retriable
Cancelled KafkaError - - retriable
TooManyInFlightRequests KafkaError - - retriable
StaleMetadata KafkaError - - retriable,refresh
MetadataEmptyBrokerList KafkaError - - retriable
UnrecognizedBrokerVersion KafkaError - - -
IncompatibleBrokerVersion KafkaError - - -
CommitFailedError KafkaError - - -
AuthenticationMethodNotSupported KafkaError - - -
AuthenticationFailedError KafkaError - - -
KafkaUnavailableError KafkaError - - -
KafkaTimeoutError KafkaError - - -
KafkaConnectionError KafkaError - - retriable,refresh
UnsupportedCodecError KafkaError - - -
KafkaConfigurationError KafkaError - - -
QuotaViolationError KafkaError - - -
ConsumerStoppedError Exception - - -
IllegalOperation Exception - - -
NoOffsetForPartitionError KafkaError - - -
RecordTooLargeError KafkaError - - -
ProducerClosed KafkaError - - -
ProducerFenced KafkaError - - -
BrokerResponseError KafkaError - - -
NoError BrokerResponseError 0 NO_ERROR -
UnknownError BrokerResponseError -1 UNKNOWN -
OffsetOutOfRangeError BrokerResponseError 1 OFFSET_OUT_OF_RANGE -
CorruptRecordException BrokerResponseError 2 CORRUPT_MESSAGE -
UnknownTopicOrPartitionError BrokerResponseError 3 UNKNOWN_TOPIC_OR_PARTITION retriable,refresh
InvalidFetchRequestError BrokerResponseError 4 INVALID_FETCH_SIZE -
LeaderNotAvailableError BrokerResponseError 5 LEADER_NOT_AVAILABLE retriable,refresh
NotLeaderForPartitionError BrokerResponseError 6 NOT_LEADER_FOR_PARTITION retriable,refresh
RequestTimedOutError BrokerResponseError 7 REQUEST_TIMED_OUT retriable
BrokerNotAvailableError BrokerResponseError 8 BROKER_NOT_AVAILABLE -
ReplicaNotAvailableError BrokerResponseError 9 REPLICA_NOT_AVAILABLE -
MessageSizeTooLargeError BrokerResponseError 10 MESSAGE_SIZE_TOO_LARGE -
StaleControllerEpochError BrokerResponseError 11 STALE_CONTROLLER_EPOCH -
OffsetMetadataTooLargeError BrokerResponseError 12 OFFSET_METADATA_TOO_LARGE -
StaleLeaderEpochCodeError BrokerResponseError 13 STALE_LEADER_EPOCH_CODE -
GroupLoadInProgressError BrokerResponseError 14 COORDINATOR_LOAD_IN_PROGRESS retriable
GroupCoordinatorNotAvailableError BrokerResponseError 15 COORDINATOR_NOT_AVAILABLE retriable
NotCoordinatorForGroupError BrokerResponseError 16 NOT_COORDINATOR retriable
InvalidTopicError BrokerResponseError 17 INVALID_TOPIC -
RecordListTooLargeError BrokerResponseError 18 RECORD_LIST_TOO_LARGE -
NotEnoughReplicasError BrokerResponseError 19 NOT_ENOUGH_REPLICAS retriable
NotEnoughReplicasAfterAppendError BrokerResponseError 20 NOT_ENOUGH_REPLICAS_AFTER_APPEND retriable
InvalidRequiredAcksError BrokerResponseError 21 INVALID_REQUIRED_ACKS -
IllegalGenerationError BrokerResponseError 22 ILLEGAL_GENERATION -
InconsistentGroupProtocolError BrokerResponseError 23 INCONSISTENT_GROUP_PROTOCOL -
InvalidGroupIdError BrokerResponseError 24 INVALID_GROUP_ID -
UnknownMemberIdError BrokerResponseError 25 UNKNOWN_MEMBER_ID -
InvalidSessionTimeoutError BrokerResponseError 26 INVALID_SESSION_TIMEOUT -
RebalanceInProgressError BrokerResponseError 27 REBALANCE_IN_PROGRESS -
InvalidCommitOffsetSizeError BrokerResponseError 28 INVALID_COMMIT_OFFSET_SIZE -
TopicAuthorizationFailedError BrokerResponseError 29 TOPIC_AUTHORIZATION_FAILED -
GroupAuthorizationFailedError BrokerResponseError 30 GROUP_AUTHORIZATION_FAILED -
ClusterAuthorizationFailedError BrokerResponseError 31 CLUSTER_AUTHORIZATION_FAILED -
InvalidTimestampError BrokerResponseError 32 INVALID_TIMESTAMP -
UnsupportedSaslMechanismError BrokerResponseError 33 UNSUPPORTED_SASL_MECHANISM -
IllegalSaslStateError BrokerResponseError 34 ILLEGAL_SASL_STATE -
UnsupportedVersionError BrokerResponseError 35 UNSUPPORTED_VERSION -
TopicAlreadyExistsError BrokerResponseError 36 TOPIC_ALREADY_EXISTS -
InvalidPartitionsError BrokerResponseError 37 INVALID_PARTITIONS -
InvalidReplicationFactorError BrokerResponseError 38 INVALID_REPLICATION_FACTOR -
InvalidReplicationAssignmentError BrokerResponseError 39 INVALID_REPLICATION_ASSIGNMENT -
InvalidConfigurationError BrokerResponseError 40 INVALID_CONFIG -
NotControllerError BrokerResponseError 41 NOT_CONTROLLER retriable
InvalidRequestError BrokerResponseError 42 INVALID_REQUEST -
UnsupportedForMessageFormatError BrokerResponseError 43 UNSUPPORTED_FOR_MESSAGE_FORMAT -
PolicyViolationError BrokerResponseError 44 POLICY_VIOLATION -
OutOfOrderSequenceNumber BrokerResponseError 45 OUT_OF_ORDER_SEQUENCE_NUMBER -
DuplicateSequenceNumber BrokerResponseError 46 DUPLICATE_SEQUENCE_NUMBER -
InvalidProducerEpoch BrokerResponseError 47 INVALID_PRODUCER_EPOCH -
InvalidTxnState BrokerResponseError 48 INVALID_TXN_STATE -
InvalidProducerIdMapping BrokerResponseError 49 INVALID_PRODUCER_ID_MAPPING -
InvalidTransactionTimeout BrokerResponseError 50 INVALID_TRANSACTION_TIMEOUT -
ConcurrentTransactions BrokerResponseError 51 CONCURRENT_TRANSACTIONS -
TransactionCoordinatorFenced BrokerResponseError 52 TRANSACTION_COORDINATOR_FENCED -
TransactionalIdAuthorizationFailed BrokerResponseError 53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED -
SecurityDisabled BrokerResponseError 54 SECURITY_DISABLED -
OperationNotAttempted BrokerResponseError 55 OPERATION_NOT_ATTEMPTED -
KafkaStorageError BrokerResponseError 56 KAFKA_STORAGE_ERROR retriable,refresh
LogDirNotFound BrokerResponseError 57 LOG_DIR_NOT_FOUND -
SaslAuthenticationFailed BrokerResponseError 58 SASL_AUTHENTICATION_FAILED -
UnknownProducerId BrokerResponseError 59 UNKNOWN_PRODUCER_ID -
ReassignmentInProgress BrokerResponseError 60 REASSIGNMENT_IN_PROGRESS -
DelegationTokenAuthDisabled BrokerResponseError 61 DELEGATION_TOKEN_AUTH_DISABLED -
DelegationTokenNotFound BrokerResponseError 62 DELEGATION_TOKEN_NOT_FOUND -
DelegationTokenOwnerMismatch BrokerResponseError 63 DELEGATION_TOKEN_OWNER_MISMATCH -
DelegationTokenRequestNotAllowed BrokerResponseError 64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED -
DelegationTokenAuthorizationFailed BrokerResponseError 65 DELEGATION_TOKEN_AUTHORIZATION_FAILED -
DelegationTokenExpired BrokerResponseError 66 DELEGATION_TOKEN_EXPIRED -
InvalidPrincipalType BrokerResponseError 67 INVALID_PRINCIPAL_TYPE -
NonEmptyGroup BrokerResponseError 68 NON_EMPTY_GROUP -
GroupIdNotFound BrokerResponseError 69 GROUP_ID_NOT_FOUND -
FetchSessionIdNotFound BrokerResponseError 70 FETCH_SESSION_ID_NOT_FOUND -
InvalidFetchSessionEpoch BrokerResponseError 71 INVALID_FETCH_SESSION_EPOCH -
ListenerNotFound BrokerResponseError 72 LISTENER_NOT_FOUND -
MemberIdRequired BrokerResponseError 79 MEMBER_ID_REQUIRED -
InvalidMessageError = CorruptRecordException
CoordinatorLoadInProgressError = GroupLoadInProgressError
CoordinatorNotAvailableError = GroupCoordinatorNotAvailableError
NotCoordinatorError = NotCoordinatorForGroupError
"""

#: Errors without a code, and those with a code that kafka-python raises as another class. An error that is not here
#: has the class of its code, or that of its nearest base that is here.
KAFKA_FOR_OURS: Final[Mapping[str, str]] = {
    "AuthenticationError": "KafkaConnectionError",
    "CommitFailedError": "CommitFailedError",
    "ConfigurationError": "KafkaConfigurationError",
    "CorruptRecordError": "CorruptRecordError",
    "IllegalStateError": "IllegalStateError",
    "InvalidMetadataError": "InvalidMetadataError",
    "KafkaConnectionError": "KafkaConnectionError",
    "KafkaError": "KafkaError",
    "KafkaTimeoutError": "KafkaTimeoutError",
    "LogTruncationError": "LogTruncationError",
    "NoBrokersAvailableError": "NoBrokersAvailable",
    "NoOffsetForPartitionError": "NoOffsetForPartitionError",
    "NodeNotReadyError": "NodeNotReadyError",
    "OffsetsOutOfRangeError": "OffsetOutOfRangeError",
    "ProtocolError": "KafkaProtocolError",
    "RecordTooLargeError": "MessageSizeTooLargeError",
    "RequestCancelledError": "Cancelled",
    "RetriableError": "RetriableError",
    "TransactionAbortedError": "TransactionAbortedError",
    "UnsupportedCodecError": "UnsupportedCodecError",
}

#: The same for aiokafka. A consumer or producer has rules of its own: see ``compat/aiokafka/border.py``.
AIOKAFKA_FOR_OURS: Final[Mapping[str, str]] = {
    "AuthenticationError": "AuthenticationFailedError",
    "CommitFailedError": "CommitFailedError",
    "ConfigurationError": "KafkaConfigurationError",
    "CorruptRecordError": "CorruptRecordException",
    "IllegalStateError": "IllegalStateError",
    "InvalidProducerEpochError": "ProducerFenced",
    "KafkaConnectionError": "KafkaConnectionError",
    "KafkaError": "KafkaError",
    "KafkaTimeoutError": "KafkaTimeoutError",
    "NoOffsetForPartitionError": "NoOffsetForPartitionError",
    "NodeNotReadyError": "NodeNotReadyError",
    "OffsetsOutOfRangeError": "OffsetOutOfRangeError",
    "ProducerFencedError": "ProducerFenced",
    "ProtocolError": "KafkaProtocolError",
    "RecordTooLargeError": "MessageSizeTooLargeError",
    "RequestCancelledError": "Cancelled",
    "UnsupportedCodecError": "UnsupportedCodecError",
    "UnsupportedSaslMechanismError": "AuthenticationMethodNotSupported",
}
