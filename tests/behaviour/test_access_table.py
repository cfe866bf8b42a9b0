"""The table of access on Apache Kafka and on the embedded broker: each right of each API allowed, missing and denied.

Both get the same requests under the same rules, and must answer with the same codes.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from pyconsumer.acls import CLUSTER_NAME, AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from pyconsumer.broker.access.table import FREE, TABLE, Rule, rules_of
from pyconsumer.broker.handlers import SERVED
from pyconsumer.errors import Errors
from pyconsumer.protocol.api_keys import API, ApiKey
from pyconsumer.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_share_group_offsets,
    alter_user_scram_credentials,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_share_group_state,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_share_group_offsets,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    initialize_share_group_state,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    read_share_group_state,
    read_share_group_state_summary,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    sync_group,
    txn_offset_commit,
    update_features,
    write_share_group_state,
    write_txn_markers,
)
from pyconsumer.protocol.primitives import ZERO_UUID, uuid_to_str
from tests.behaviour.access_support import as_alice, authorized_cluster, codes, set_acls
from tests.support.certificates import Certificates
from tests.support.cluster import Cluster
from tests.support.java import need_jars
from tests.support.process import wait_until
from tests.support.raw_client import RawClient
from tests.unit.protocol.records.helpers import batch

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ALICE = "User:alice"
#: Names in the requests begin with these, and rules are for these prefixes.
PREFIXES = {ResourceType.TOPIC: "t", ResourceType.GROUP: "g", ResourceType.TRANSACTIONAL_ID: "x"}


class World(NamedTuple):
    """One of the two brokers."""

    cluster: Cluster
    admin: RawClient
    alice: RawClient
    topic_id: bytes


class Names(NamedTuple):
    """Names that no other request has. Both brokers get the same."""

    topic: str
    group: str
    txn: str


Build = Callable[[int, World, Names], Any]


def _produce(version: int, world: World, names: Names) -> Any:
    topic = produce.TopicProduceData(
        "t" if version < 13 else "", world.topic_id, [produce.PartitionProduceData(0, batch())]
    )
    return produce.ProduceRequest(None, 1, 1000, [topic])


def _fetch(version: int, world: World, names: Names) -> Any:
    partition = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topic = fetch.FetchTopic("t" if version < 13 else "", world.topic_id, [partition])
    return fetch.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1000, session_epoch=-1, topics=[topic])


def _create_topics(version: int, world: World, names: Names) -> Any:
    return create_topics.CreateTopicsRequest([create_topics.CreatableTopic(names.topic, 1, 1)])


def _delete_topics(version: int, world: World, names: Names) -> Any:
    world.admin.create_topic(names.topic)
    if version < 6:
        return delete_topics.DeleteTopicsRequest(topic_names=[names.topic, "t-missing"])
    return delete_topics.DeleteTopicsRequest(
        [delete_topics.DeleteTopicState(names.topic), delete_topics.DeleteTopicState("t-missing")]
    )


def _offset_commit(version: int, world: World, names: Names) -> Any:
    topics = [
        offset_commit.OffsetCommitRequestTopic(
            "t" if version < 10 else "",
            world.topic_id if version >= 10 else ZERO_UUID,
            [offset_commit.OffsetCommitRequestPartition(0, 1)],
        )
    ]
    return offset_commit.OffsetCommitRequest(group_id="g", topics=topics)


def _offset_fetch(version: int, world: World, names: Names) -> Any:
    if version < 8:
        return offset_fetch.OffsetFetchRequest("g", [offset_fetch.OffsetFetchRequestTopic("t", [0])])
    topic = offset_fetch.OffsetFetchRequestTopics(
        "t" if version < 10 else "", world.topic_id if version >= 10 else ZERO_UUID, [0]
    )
    groups = [
        offset_fetch.OffsetFetchRequestGroup("g", topics=[topic]),
        offset_fetch.OffsetFetchRequestGroup("g-all", topics=None),
    ]
    return offset_fetch.OffsetFetchRequest(groups=groups)


def _find_coordinator(kind: int) -> Build:
    def build(version: int, world: World, names: Names) -> Any:
        key = "x" if kind else "g"
        if version < 4:
            return find_coordinator.FindCoordinatorRequest(key, kind)
        return find_coordinator.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])

    return build


def _find_share_coordinator(version: int, world: World, names: Names) -> Any:
    if version < 6:
        return _find_coordinator(0)(version, world, names)
    key = f"g:{uuid_to_str(b'T' * 16)}:0"
    return find_coordinator.FindCoordinatorRequest(key_type=2, coordinator_keys=[key])


def _share_fetch(version: int, world: World, names: Names) -> Any:
    return share_fetch.ShareFetchRequest(
        group_id=names.group,
        member_id="D" * 22,
        max_records=1,
        batch_size=1,
    )


def _share_state(build: Callable[[bytes], Any]) -> Build:
    return lambda version, world, names: build(world.topic_id)


def _join_group(version: int, world: World, names: Names) -> Any:
    return join_group.JoinGroupRequest(
        names.group, 6000, 6000, protocol_type="consumer", protocols=[join_group.JoinGroupRequestProtocol("range", b"")]
    )


def _sync_group(version: int, world: World, names: Names) -> Any:
    return sync_group.SyncGroupRequest(
        names.group, 1, "m", protocol_type="consumer" if version > 4 else None, protocol_name="range"
    )


def _leave_group(version: int, world: World, names: Names) -> Any:
    if version < 3:
        return leave_group.LeaveGroupRequest(names.group, "m")
    return leave_group.LeaveGroupRequest(names.group, members=[leave_group.MemberIdentity("m")])


def _init_producer_id(name: str | None) -> Build:
    return lambda version, world, names: init_producer_id.InitProducerIdRequest(
        name and names.txn, transaction_timeout_ms=1000
    )


def _add_partitions(version: int, world: World, names: Names) -> Any:
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic("t", [0])]
    if version < 4:
        return add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=names.txn,
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=topics,
        )
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        [add_partitions_to_txn.AddPartitionsToTxnTransaction(names.txn, 1, 0, True, topics)]
    )


def _txn_offset_commit(version: int, world: World, names: Names) -> Any:
    topic = txn_offset_commit.TxnOffsetCommitRequestTopic(
        name="t" if version < 6 else "",
        topic_id=world.topic_id if version >= 6 else ZERO_UUID,
        partitions=[txn_offset_commit.TxnOffsetCommitRequestPartition(0, 1)],
    )
    return txn_offset_commit.TxnOffsetCommitRequest(names.txn, "g", 1, 0, topics=[topic])


def _write_txn_markers(version: int, world: World, names: Names) -> Any:
    topics = [write_txn_markers.WritableTxnMarkerTopic("t", [0])]
    return write_txn_markers.WriteTxnMarkersRequest([write_txn_markers.WritableTxnMarker(4711, 0, False, topics, 0)])


_CONFIGS = ((2, "t"), (4, ""), (32, "g"))


def _describe_configs(version: int, world: World, names: Names) -> Any:
    return describe_configs.DescribeConfigsRequest(
        [describe_configs.DescribeConfigsResource(kind, name, ["retention.ms"]) for kind, name in _CONFIGS]
    )


def _alter_configs(version: int, world: World, names: Names) -> Any:
    item = alter_configs.AlterableConfig("retention.ms", "1000000")
    return alter_configs.AlterConfigsRequest([alter_configs.AlterConfigsResource(2, "t", [item])])


def _incremental(version: int, world: World, names: Names) -> Any:
    item = incremental_alter_configs.AlterableConfig("retention.ms", 0, "1000000")
    resources = [
        incremental_alter_configs.AlterConfigsResource(2, "t", [item]),
        incremental_alter_configs.AlterConfigsResource(
            32, "g", [incremental_alter_configs.AlterableConfig("consumer.session.timeout.ms", 0, "20000")]
        ),
        incremental_alter_configs.AlterConfigsResource(
            4, "", [incremental_alter_configs.AlterableConfig("log.retention.ms", 0, "1000000")]
        ),
    ]
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources)


def _heartbeat(version: int, world: World, names: Names) -> Any:
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=names.group,
        member_id="A" * 22 if version else "",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )


def _metadata(version: int, world: World, names: Names) -> Any:
    wanted = [metadata.MetadataRequestTopic(name="t"), metadata.MetadataRequestTopic(name=names.topic)]
    return metadata.MetadataRequest(
        wanted,
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=8 <= version <= 10,
        include_topic_authorized_operations=version >= 8,
    )


def _metadata_by_id(version: int, world: World, names: Names) -> Any:
    wanted = [metadata.MetadataRequestTopic(topic_id=world.topic_id, name=None)]
    return metadata.MetadataRequest(wanted if version >= 12 else [metadata.MetadataRequestTopic(name="t")])


def _one_scram_user(version: int, world: World, names: Names) -> Any:
    item = alter_user_scram_credentials.ScramCredentialUpsertion(names.group, 1, 4096, b"salt", b"salted")
    return alter_user_scram_credentials.AlterUserScramCredentialsRequest([], [item])


def plain(make: Callable[[Names], Any]) -> Build:
    """Return a builder of a request that is the same in all versions."""
    return lambda version, world, names: make(names)


def _list_config_resources(
    version: int, world: World, names: Names
) -> list_config_resources.ListConfigResourcesRequest:
    """Ask for topics, without those that other cases created: Apache Kafka may not have shown them to be cleaned."""

    def left() -> list[str]:
        topics = world.admin.request(metadata.MetadataRequest(None)).topics
        return [topic.name for topic in topics if topic.name.startswith("t-")]

    for topic in left():
        world.admin.delete_topic(topic)
    wait_until(lambda: not left(), 60, "the end of topics of other cases")
    return list_config_resources.ListConfigResourcesRequest([2] if version else [])


CASES: dict[str, tuple[ApiKey, Build]] = {
    "Produce": (ApiKey.PRODUCE, _produce),
    "Fetch": (ApiKey.FETCH, _fetch),
    "ListOffsets": (
        ApiKey.LIST_OFFSETS,
        plain(
            lambda names: list_offsets.ListOffsetsRequest(
                -1, 0, [list_offsets.ListOffsetsTopic("t", [list_offsets.ListOffsetsPartition(0, timestamp=-1)])]
            )
        ),
    ),
    "Metadata": (ApiKey.METADATA, _metadata),
    "Metadata by id": (ApiKey.METADATA, _metadata_by_id),
    "Metadata of all": (
        ApiKey.METADATA,
        lambda version, world, names: metadata.MetadataRequest(None if version else []),
    ),
    "OffsetCommit": (ApiKey.OFFSET_COMMIT, _offset_commit),
    "OffsetFetch": (ApiKey.OFFSET_FETCH, _offset_fetch),
    "FindCoordinator of a group": (ApiKey.FIND_COORDINATOR, _find_coordinator(0)),
    "FindCoordinator of a transaction": (
        ApiKey.FIND_COORDINATOR,
        lambda version, world, names: _find_coordinator(1 if version else 0)(version, world, names),
    ),
    "JoinGroup": (ApiKey.JOIN_GROUP, _join_group),
    "Heartbeat": (ApiKey.HEARTBEAT, plain(lambda names: heartbeat.HeartbeatRequest(names.group, 1, "m"))),
    "LeaveGroup": (ApiKey.LEAVE_GROUP, _leave_group),
    "SyncGroup": (ApiKey.SYNC_GROUP, _sync_group),
    "DescribeGroups": (
        ApiKey.DESCRIBE_GROUPS,
        lambda version, world, names: describe_groups.DescribeGroupsRequest(["g"], version >= 3),
    ),
    "ListGroups": (ApiKey.LIST_GROUPS, plain(lambda names: list_groups.ListGroupsRequest())),
    "CreateTopics": (ApiKey.CREATE_TOPICS, _create_topics),
    "DeleteTopics": (ApiKey.DELETE_TOPICS, _delete_topics),
    "DeleteRecords": (
        ApiKey.DELETE_RECORDS,
        plain(
            lambda names: delete_records.DeleteRecordsRequest(
                [delete_records.DeleteRecordsTopic("t", [delete_records.DeleteRecordsPartition(0, 0)])], 1000
            )
        ),
    ),
    "InitProducerId": (ApiKey.INIT_PRODUCER_ID, _init_producer_id(None)),
    "InitProducerId of a transaction": (ApiKey.INIT_PRODUCER_ID, _init_producer_id("x")),
    "OffsetForLeaderEpoch": (
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        plain(
            lambda names: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
                topics=[
                    offset_for_leader_epoch.OffsetForLeaderTopic(
                        "t", [offset_for_leader_epoch.OffsetForLeaderPartition(0, leader_epoch=0)]
                    )
                ]
            )
        ),
    ),
    "AddPartitionsToTxn": (ApiKey.ADD_PARTITIONS_TO_TXN, _add_partitions),
    "AddOffsetsToTxn": (
        ApiKey.ADD_OFFSETS_TO_TXN,
        plain(lambda names: add_offsets_to_txn.AddOffsetsToTxnRequest(names.txn, 1, 0, "g")),
    ),
    "EndTxn": (ApiKey.END_TXN, plain(lambda names: end_txn.EndTxnRequest(names.txn, 1, 0, True))),
    "WriteTxnMarkers": (ApiKey.WRITE_TXN_MARKERS, _write_txn_markers),
    "TxnOffsetCommit": (ApiKey.TXN_OFFSET_COMMIT, _txn_offset_commit),
    "DescribeAcls": (
        ApiKey.DESCRIBE_ACLS,
        plain(lambda names: describe_acls.DescribeAclsRequest(5, "none", 3, None, None, 1, 1)),
    ),
    "CreateAcls": (
        ApiKey.CREATE_ACLS,
        plain(
            lambda names: create_acls.CreateAclsRequest(
                [
                    create_acls.AclCreation(2, "other", 3, "User:x", "*", 3, 3),
                    create_acls.AclCreation(4, "wrong", 3, "User:x", "*", 3, 3),
                ]
            )
        ),
    ),
    "DeleteAcls": (
        ApiKey.DELETE_ACLS,
        plain(
            lambda names: delete_acls.DeleteAclsRequest(
                [delete_acls.DeleteAclsFilter(2, "other", 3, "User:x", None, 1, 1)]
            )
        ),
    ),
    "DescribeConfigs": (ApiKey.DESCRIBE_CONFIGS, _describe_configs),
    "AlterConfigs": (ApiKey.ALTER_CONFIGS, _alter_configs),
    "IncrementalAlterConfigs": (ApiKey.INCREMENTAL_ALTER_CONFIGS, _incremental),
    "DescribeLogDirs": (ApiKey.DESCRIBE_LOG_DIRS, plain(lambda names: describe_log_dirs.DescribeLogDirsRequest([]))),
    "CreatePartitions": (
        ApiKey.CREATE_PARTITIONS,
        plain(
            lambda names: create_partitions.CreatePartitionsRequest(
                [create_partitions.CreatePartitionsTopic("t", 2)], 1000, True
            )
        ),
    ),
    "DeleteGroups": (ApiKey.DELETE_GROUPS, plain(lambda names: delete_groups.DeleteGroupsRequest([names.group]))),
    "ElectLeaders": (
        ApiKey.ELECT_LEADERS,
        plain(lambda names: elect_leaders.ElectLeadersRequest(0, [elect_leaders.TopicPartitions("t", [0])], 1000)),
    ),
    "ListPartitionReassignments": (
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        plain(lambda names: list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None)),
    ),
    "OffsetDelete": (
        ApiKey.OFFSET_DELETE,
        plain(
            lambda names: offset_delete.OffsetDeleteRequest(
                "g", [offset_delete.OffsetDeleteRequestTopic("t", [offset_delete.OffsetDeleteRequestPartition(0)])]
            )
        ),
    ),
    "DescribeClientQuotas": (
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        plain(lambda names: describe_client_quotas.DescribeClientQuotasRequest()),
    ),
    "AlterClientQuotas": (
        ApiKey.ALTER_CLIENT_QUOTAS,
        plain(
            lambda names: alter_client_quotas.AlterClientQuotasRequest(
                [
                    alter_client_quotas.EntryData(
                        [alter_client_quotas.EntityData("user", "q")],
                        [alter_client_quotas.OpData("producer_byte_rate", 1e9)],
                    )
                ]
            )
        ),
    ),
    "DescribeUserScramCredentials": (
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        plain(
            lambda names: describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
                [describe_user_scram_credentials.UserName("nobody")]
            )
        ),
    ),
    "AlterUserScramCredentials": (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, _one_scram_user),
    "UpdateFeatures": (
        ApiKey.UPDATE_FEATURES,
        plain(
            lambda names: update_features.UpdateFeaturesRequest(
                1000, [update_features.FeatureUpdateKey("group.version", 1)]
            )
        ),
    ),
    "DescribeCluster": (ApiKey.DESCRIBE_CLUSTER, plain(lambda names: describe_cluster.DescribeClusterRequest(True))),
    "DescribeProducers": (
        ApiKey.DESCRIBE_PRODUCERS,
        plain(lambda names: describe_producers.DescribeProducersRequest([describe_producers.TopicRequest("t", [0])])),
    ),
    "DescribeTransactions": (
        ApiKey.DESCRIBE_TRANSACTIONS,
        plain(lambda names: describe_transactions.DescribeTransactionsRequest(["x-old"])),
    ),
    "ListTransactions": (
        ApiKey.LIST_TRANSACTIONS,
        plain(lambda names: list_transactions.ListTransactionsRequest(producer_id_filters=[])),
    ),
    "ConsumerGroupHeartbeat": (ApiKey.CONSUMER_GROUP_HEARTBEAT, _heartbeat),
    "ConsumerGroupDescribe": (
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        plain(lambda names: consumer_group_describe.ConsumerGroupDescribeRequest(["g-new"], True)),
    ),
    "FindCoordinator of a share partition": (ApiKey.FIND_COORDINATOR, _find_share_coordinator),
    "ShareGroupHeartbeat": (
        ApiKey.SHARE_GROUP_HEARTBEAT,
        plain(
            lambda names: share_group_heartbeat.ShareGroupHeartbeatRequest(
                group_id=names.group, member_id="C" * 22, subscribed_topic_names=["t"]
            )
        ),
    ),
    "ShareGroupDescribe": (
        ApiKey.SHARE_GROUP_DESCRIBE,
        plain(lambda names: share_group_describe.ShareGroupDescribeRequest(["g-share"], True)),
    ),
    "ShareFetch": (ApiKey.SHARE_FETCH, _share_fetch),
    "ShareAcknowledge": (
        ApiKey.SHARE_ACKNOWLEDGE,
        plain(
            lambda names: share_acknowledge.ShareAcknowledgeRequest(
                group_id=names.group, member_id="D" * 22, share_session_epoch=1
            )
        ),
    ),
    "InitializeShareGroupState": (
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        _share_state(
            lambda topic_id: initialize_share_group_state.InitializeShareGroupStateRequest(
                group_id="g",
                topics=[
                    initialize_share_group_state.InitializeStateData(
                        topic_id=topic_id, partitions=[initialize_share_group_state.PartitionData(0, 1, -1)]
                    )
                ],
            )
        ),
    ),
    "ReadShareGroupState": (
        ApiKey.READ_SHARE_GROUP_STATE,
        _share_state(
            lambda topic_id: read_share_group_state.ReadShareGroupStateRequest(
                group_id="g",
                topics=[
                    read_share_group_state.ReadStateData(
                        topic_id=topic_id, partitions=[read_share_group_state.PartitionData(0, -1)]
                    )
                ],
            )
        ),
    ),
    "WriteShareGroupState": (
        ApiKey.WRITE_SHARE_GROUP_STATE,
        _share_state(
            lambda topic_id: write_share_group_state.WriteShareGroupStateRequest(
                group_id="g",
                topics=[
                    write_share_group_state.WriteStateData(
                        topic_id=topic_id,
                        partitions=[
                            write_share_group_state.PartitionData(
                                0, 1, -1, 0, 0, [write_share_group_state.StateBatch()]
                            )
                        ],
                    )
                ],
            )
        ),
    ),
    "DeleteShareGroupState": (
        ApiKey.DELETE_SHARE_GROUP_STATE,
        _share_state(
            lambda topic_id: delete_share_group_state.DeleteShareGroupStateRequest(
                group_id="g",
                topics=[
                    delete_share_group_state.DeleteStateData(
                        topic_id=topic_id, partitions=[delete_share_group_state.PartitionData(0)]
                    )
                ],
            )
        ),
    ),
    "ReadShareGroupStateSummary": (
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        _share_state(
            lambda topic_id: read_share_group_state_summary.ReadShareGroupStateSummaryRequest(
                group_id="g",
                topics=[
                    read_share_group_state_summary.ReadStateSummaryData(
                        topic_id=topic_id, partitions=[read_share_group_state_summary.PartitionData(0, -1)]
                    )
                ],
            )
        ),
    ),
    "DescribeShareGroupOffsets": (
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        plain(
            lambda names: describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
                [
                    describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(
                        "g", [describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic("t", [0])]
                    )
                ]
            )
        ),
    ),
    "AlterShareGroupOffsets": (
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        plain(
            lambda names: alter_share_group_offsets.AlterShareGroupOffsetsRequest(
                names.group,
                [
                    alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(
                        "t", [alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(0, 0)]
                    )
                ],
            )
        ),
    ),
    "DeleteShareGroupOffsets": (
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        plain(
            lambda names: delete_share_group_offsets.DeleteShareGroupOffsetsRequest(
                "g-share", [delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic("t")]
            )
        ),
    ),
    "ListConfigResources": (ApiKey.LIST_CONFIG_RESOURCES, _list_config_resources),
}


def test_each_api_has_rows_and_a_case() -> None:
    assert {rule.api for rule in TABLE} | FREE == set(SERVED)
    assert {api for api, _ in CASES.values()} == {rule.api for rule in TABLE}


#: The members of :func:`prepare` send no heartbeats, and the tests may take longer than the usual sessions.
_MEMBERS_STAY: dict[str, object] = {
    f"group.{kind}.{bound}session.timeout.ms": 600_000 for kind in ("consumer", "share") for bound in ("", "max.")
}


@pytest.fixture(scope="module")
def worlds(certificates: Certificates) -> Iterator[tuple[World, World]]:
    need_jars()
    with (
        authorized_cluster("apache", certificates, **_MEMBERS_STAY) as theirs,
        authorized_cluster("embedded", certificates, **_MEMBERS_STAY) as ours,
    ):
        made = []
        for cluster in (theirs, ours):
            admin = cluster.raw()
            for topic in ("t", "u"):
                admin.create_topic(topic)
            for kind, key in ((0, "g"), (1, "x")):
                coordinator_of(admin, kind, key)
            prepare(admin)
            (topic,) = admin.request(metadata.MetadataRequest([metadata.MetadataRequestTopic(name="t")])).topics
            made.append(World(cluster, admin, as_alice(cluster), topic.topic_id))
        yield made[0], made[1]
        for world in made:
            world.admin.close()
            world.alice.close()


def coordinator_of(admin: RawClient, kind: int, key: str) -> None:
    """Wait until there is a coordinator."""

    def is_there() -> bool:
        request = find_coordinator.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        return not admin.request(request).coordinators[0].error_code

    wait_until(is_there, 20, f"a coordinator of {key}")


def prepare(admin: RawClient) -> None:
    """Make groups and transactions of others, some of which alice may see."""

    def ask(request: Any, version: int | None = None) -> None:
        wait_until(
            lambda: (
                not any(
                    "error_code=" in code and not code.endswith("=0") for code in codes(admin.request(request, version))
                )
            ),
            20,
            f"{request}",
        )

    topic = offset_commit.OffsetCommitRequestTopic("t", partitions=[offset_commit.OffsetCommitRequestPartition(0, 1)])
    hidden = offset_commit.OffsetCommitRequestTopic("u", partitions=[offset_commit.OffsetCommitRequestPartition(0, 1)])
    for group in ("g", "g-all", "h"):
        ask(offset_commit.OffsetCommitRequest(group_id=group, topics=[topic, hidden]), 8)
    for name in ("x-old", "y-old"):
        ask(init_producer_id.InitProducerIdRequest(name, transaction_timeout_ms=1000))
    ask(
        consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id="g-new",
            member_id="B" * 22,
            rebalance_timeout_ms=600_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
    )
    ask(
        share_group_heartbeat.ShareGroupHeartbeatRequest(
            group_id="g-share", member_id="B" * 22, subscribed_topic_names=["t"]
        )
    )


def allowed(rule: Rule, permission: AclPermission = AclPermission.ALLOW) -> AclBinding:
    """Return the rule of access that a row of the table demands, or one that denies it."""
    return binding(rule.operation, rule.resource, permission)


def binding(operation: AclOperation, kind: ResourceType, permission: AclPermission = AclPermission.ALLOW) -> AclBinding:
    if kind is ResourceType.CLUSTER:
        return AclBinding(kind, CLUSTER_NAME, ALICE, operation, permission=permission)
    return AclBinding(kind, PREFIXES[kind], ALICE, operation, permission=permission, pattern_type=PatternType.PREFIXED)


def states(rules: tuple[Rule, ...]) -> dict[str, set[AclBinding]]:
    """Return the lists of rules under which an API is tried."""
    everything = {allowed(rule) for rule in rules}
    found = {"nothing allowed": set(), "all allowed": everything}
    for rule in dict.fromkeys(map(allowed, rules)):
        found[f"without {rule.operation.name} {rule.resource_type.name}"] = everything - {rule}
        denial = rule._replace(permission=AclPermission.DENY)
        found[f"deny {rule.operation.name} {rule.resource_type.name}"] = everything | {denial}
    for rule in rules:
        if rule.or_cluster is not None:
            instead = binding(rule.or_cluster, ResourceType.CLUSTER)
            found[f"{rule.or_cluster.name} on the cluster"] = (everything - {allowed(rule)}) | {instead}
    return found


_NUMBERS = itertools.count(1)


@pytest.mark.parametrize("case", CASES)
def test_both_brokers_answer_alike(worlds: tuple[World, World], case: str) -> None:
    api, build = CASES[case]
    wrong = []
    newest = min(world.alice.versions.choose(api) for world in worlds)
    for version in sorted({API[api].min_version, newest}):
        answers: list[set[str]] = []
        for state, acls in states(rules_of(api, version)).items():
            number = next(_NUMBERS)
            names = Names(f"t-{number}", f"g-{number}", f"x-{number}")
            answers = []
            for world in worlds:
                set_acls(world.admin, acls)
                answers.append(answer(world, lambda: build(version, world, names), version))  # noqa: B023
                if api in (ApiKey.CREATE_ACLS, ApiKey.METADATA, ApiKey.CREATE_TOPICS):
                    _clean(world.admin, names)
            if answers[0] != answers[1]:
                theirs, ours = answers
                wrong.append(f"version {version}, {state}: Kafka {sorted(theirs - ours)}, ours {sorted(ours - theirs)}")
    assert wrong == [], "\n".join(wrong)


def answer(world: World, build: Callable[[], Any], version: int) -> set[str]:
    """Return the codes of a response. A topic that Apache Kafka has just created is there some time later."""
    deadline, request = time.monotonic() + 5, build()
    while True:
        found = codes(world.alice.request(request, version))
        if not isinstance(request, metadata.MetadataRequest) or time.monotonic() > deadline:
            return {code for code in found if ".configs[" not in code}
        if not any(code.endswith(f"={int(Errors.UNKNOWN_TOPIC_OR_PARTITION)}") for code in found):
            return found
        time.sleep(0.01)


def _clean(admin: RawClient, names: Names) -> None:
    if names.topic in [topic.name for topic in admin.request(metadata.MetadataRequest(None)).topics]:
        admin.delete_topic(names.topic)
