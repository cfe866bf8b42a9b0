"""The API keys, and the supported versions of each API.

The table is separate from the messages so that headers can be read without importing any of them. Tests compare it with
the declarations, and with the stable versions of the newest Apache Kafka that the tests have.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

__all__ = ["API", "ApiInfo", "ApiKey"]


class ApiKey(IntEnum):
    """The API keys that pyconsumer supports."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class ApiInfo(NamedTuple):
    """One API.

    It has the module in ``messages``, the prefix of the class names, the first and last version, and the first flexible
    version.
    """

    module: str
    name: str
    min_version: int
    max_version: int
    flexible_from: int | None

    def is_flexible(self, version: int) -> bool:
        """Return whether a version is flexible (KIP-482)."""
        return self.flexible_from is not None and version >= self.flexible_from


API: dict[ApiKey, ApiInfo] = {
    ApiKey.PRODUCE: ApiInfo("produce", "Produce", 3, 13, 9),
    ApiKey.FETCH: ApiInfo("fetch", "Fetch", 4, 18, 12),
    ApiKey.LIST_OFFSETS: ApiInfo("list_offsets", "ListOffsets", 1, 11, 6),
    ApiKey.METADATA: ApiInfo("metadata", "Metadata", 0, 13, 9),
    ApiKey.OFFSET_COMMIT: ApiInfo("offset_commit", "OffsetCommit", 2, 10, 8),
    ApiKey.OFFSET_FETCH: ApiInfo("offset_fetch", "OffsetFetch", 1, 10, 6),
    ApiKey.FIND_COORDINATOR: ApiInfo("find_coordinator", "FindCoordinator", 0, 6, 3),
    ApiKey.JOIN_GROUP: ApiInfo("join_group", "JoinGroup", 0, 9, 6),
    ApiKey.HEARTBEAT: ApiInfo("heartbeat", "Heartbeat", 0, 4, 4),
    ApiKey.LEAVE_GROUP: ApiInfo("leave_group", "LeaveGroup", 0, 5, 4),
    ApiKey.SYNC_GROUP: ApiInfo("sync_group", "SyncGroup", 0, 5, 4),
    ApiKey.DESCRIBE_GROUPS: ApiInfo("describe_groups", "DescribeGroups", 0, 6, 5),
    ApiKey.LIST_GROUPS: ApiInfo("list_groups", "ListGroups", 0, 5, 3),
    ApiKey.SASL_HANDSHAKE: ApiInfo("sasl_handshake", "SaslHandshake", 0, 1, None),
    ApiKey.API_VERSIONS: ApiInfo("api_versions", "ApiVersions", 0, 5, 3),
    ApiKey.CREATE_TOPICS: ApiInfo("create_topics", "CreateTopics", 2, 7, 5),
    ApiKey.DELETE_TOPICS: ApiInfo("delete_topics", "DeleteTopics", 1, 6, 4),
    ApiKey.DELETE_RECORDS: ApiInfo("delete_records", "DeleteRecords", 0, 2, 2),
    ApiKey.INIT_PRODUCER_ID: ApiInfo("init_producer_id", "InitProducerId", 0, 5, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ApiInfo("offset_for_leader_epoch", "OffsetForLeaderEpoch", 2, 4, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: ApiInfo("add_partitions_to_txn", "AddPartitionsToTxn", 0, 5, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: ApiInfo("add_offsets_to_txn", "AddOffsetsToTxn", 0, 4, 3),
    ApiKey.END_TXN: ApiInfo("end_txn", "EndTxn", 0, 5, 3),
    ApiKey.WRITE_TXN_MARKERS: ApiInfo("write_txn_markers", "WriteTxnMarkers", 1, 2, 1),
    ApiKey.TXN_OFFSET_COMMIT: ApiInfo("txn_offset_commit", "TxnOffsetCommit", 0, 6, 3),
    ApiKey.DESCRIBE_ACLS: ApiInfo("describe_acls", "DescribeAcls", 1, 3, 2),
    ApiKey.CREATE_ACLS: ApiInfo("create_acls", "CreateAcls", 1, 3, 2),
    ApiKey.DELETE_ACLS: ApiInfo("delete_acls", "DeleteAcls", 1, 3, 2),
    ApiKey.DESCRIBE_CONFIGS: ApiInfo("describe_configs", "DescribeConfigs", 1, 4, 4),
    ApiKey.ALTER_CONFIGS: ApiInfo("alter_configs", "AlterConfigs", 0, 2, 2),
    ApiKey.DESCRIBE_LOG_DIRS: ApiInfo("describe_log_dirs", "DescribeLogDirs", 1, 5, 2),
    ApiKey.SASL_AUTHENTICATE: ApiInfo("sasl_authenticate", "SaslAuthenticate", 0, 2, 2),
    ApiKey.CREATE_PARTITIONS: ApiInfo("create_partitions", "CreatePartitions", 0, 3, 2),
    ApiKey.CREATE_DELEGATION_TOKEN: ApiInfo("create_delegation_token", "CreateDelegationToken", 1, 3, 2),
    ApiKey.RENEW_DELEGATION_TOKEN: ApiInfo("renew_delegation_token", "RenewDelegationToken", 1, 2, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: ApiInfo("expire_delegation_token", "ExpireDelegationToken", 1, 2, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: ApiInfo("describe_delegation_token", "DescribeDelegationToken", 1, 3, 2),
    ApiKey.DELETE_GROUPS: ApiInfo("delete_groups", "DeleteGroups", 0, 3, 2),
    ApiKey.ELECT_LEADERS: ApiInfo("elect_leaders", "ElectLeaders", 0, 2, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ApiInfo("incremental_alter_configs", "IncrementalAlterConfigs", 0, 1, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ApiInfo("list_partition_reassignments", "ListPartitionReassignments", 0, 0, 0),
    ApiKey.OFFSET_DELETE: ApiInfo("offset_delete", "OffsetDelete", 0, 0, None),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ApiInfo("describe_client_quotas", "DescribeClientQuotas", 0, 1, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: ApiInfo("alter_client_quotas", "AlterClientQuotas", 0, 1, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ApiInfo(
        "describe_user_scram_credentials", "DescribeUserScramCredentials", 0, 0, 0
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ApiInfo("alter_user_scram_credentials", "AlterUserScramCredentials", 0, 0, 0),
    ApiKey.UPDATE_FEATURES: ApiInfo("update_features", "UpdateFeatures", 0, 2, 0),
    ApiKey.DESCRIBE_CLUSTER: ApiInfo("describe_cluster", "DescribeCluster", 0, 2, 0),
    ApiKey.DESCRIBE_PRODUCERS: ApiInfo("describe_producers", "DescribeProducers", 0, 0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: ApiInfo("describe_transactions", "DescribeTransactions", 0, 0, 0),
    ApiKey.LIST_TRANSACTIONS: ApiInfo("list_transactions", "ListTransactions", 0, 2, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ApiInfo("consumer_group_heartbeat", "ConsumerGroupHeartbeat", 0, 1, 0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ApiInfo("consumer_group_describe", "ConsumerGroupDescribe", 0, 1, 0),
    ApiKey.LIST_CONFIG_RESOURCES: ApiInfo("list_config_resources", "ListConfigResources", 0, 1, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: ApiInfo("share_group_heartbeat", "ShareGroupHeartbeat", 1, 1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: ApiInfo("share_group_describe", "ShareGroupDescribe", 1, 1, 1),
    ApiKey.SHARE_FETCH: ApiInfo("share_fetch", "ShareFetch", 1, 2, 1),
    ApiKey.SHARE_ACKNOWLEDGE: ApiInfo("share_acknowledge", "ShareAcknowledge", 1, 2, 1),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: ApiInfo("initialize_share_group_state", "InitializeShareGroupState", 0, 0, 0),
    ApiKey.READ_SHARE_GROUP_STATE: ApiInfo("read_share_group_state", "ReadShareGroupState", 0, 0, 0),
    ApiKey.WRITE_SHARE_GROUP_STATE: ApiInfo("write_share_group_state", "WriteShareGroupState", 0, 1, 0),
    ApiKey.DELETE_SHARE_GROUP_STATE: ApiInfo("delete_share_group_state", "DeleteShareGroupState", 0, 0, 0),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: ApiInfo(
        "read_share_group_state_summary", "ReadShareGroupStateSummary", 0, 1, 0
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: ApiInfo("describe_share_group_offsets", "DescribeShareGroupOffsets", 0, 1, 0),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: ApiInfo("alter_share_group_offsets", "AlterShareGroupOffsets", 0, 0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: ApiInfo("delete_share_group_offsets", "DeleteShareGroupOffsets", 0, 0, 0),
}
